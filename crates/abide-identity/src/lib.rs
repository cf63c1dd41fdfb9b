//! What a crawler shows to servers that ask for it: who it is, by signed requests (Web Bot Auth); a licence;
//! that it pays.
//!
//! ```
//! use std::time::SystemTime;
//!
//! use abide_identity::{Key, WebBotAuth};
//! use http::{HeaderMap, Method};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = WebBotAuth::new(Key::generate()?, "https://bot.example")?;
//!
//! let mut headers = HeaderMap::new();
//! identity.sign(&Method::GET, &"https://example.com/page".parse()?, &mut headers, SystemTime::now())?;
//! assert_eq!(headers["signature-agent"], "sig1=\"https://bot.example\"");
//! # Ok(())
//! # }
//! ```
//!
//! The clients of `abide` and `abide-tower` sign with it, if they have the feature `identity`. Tokens of
//! licences and prices, which need no signature, are hooks for `answer_challenges` of their builders.
//!
//! # In scope
//! Signing requests by draft-ietf-webbotauth-httpsig-protocol-01, with Ed25519 ([`WebBotAuth`]); keys from a
//! file or elsewhere ([`Key`], [`Signer`]); the directory of the public keys ([`Directory`]); answering
//! `Accept-Signature` ([`WebBotAuth::as_asked`]); tokens for servers that ask for a licence
//! ([`LicenseTokens`]); what servers ask for a page, and what may be paid ([`PaymentTerms`],
//! [`PaymentPolicy`]).
//!
//! # Out of scope
//! Verifying signatures; algorithms other than Ed25519 (the draft forbids HMAC); covering bodies; buying
//! licences.
//!
//! # Features
//! * `sign` (default): signed requests. `client`: [`WebBotAuth`] as the signer of a crawler.
//! * `license`, `price`: without any of the others they bring no cryptography.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// Who signs.
#[cfg(feature = "sign")]
mod directory;
#[cfg(feature = "sign")]
mod key;
#[cfg(feature = "sign")]
mod web_bot_auth;

// How.
#[cfg(feature = "sign")]
mod asked;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "sign")]
mod names;
#[cfg(feature = "sign")]
mod signature;

#[cfg(feature = "sign")]
mod error;

// Licences and prices.
#[cfg(any(feature = "license", feature = "price"))]
mod invalid_value;
#[cfg(feature = "license")]
mod license;
#[cfg(feature = "price")]
mod price;

#[cfg(feature = "sign")]
pub use directory::Directory;
#[cfg(feature = "sign")]
pub use error::IdentityError;
#[cfg(any(feature = "license", feature = "price"))]
pub use invalid_value::InvalidValue;
#[cfg(feature = "sign")]
pub use key::{Key, Signer, thumbprint};
#[cfg(feature = "license")]
pub use license::{LicenseToken, LicenseTokens};
#[cfg(feature = "sign")]
pub use names::{DIRECTORY_MEDIA_TYPE, DIRECTORY_PATH, LIFETIME_MAX};
#[cfg(feature = "price")]
pub use price::{PaymentPolicy, PaymentTerms, Price};
#[cfg(feature = "sign")]
pub use web_bot_auth::WebBotAuth;
