//! Signed requests: a crawler proves its identity to each site, by Web Bot Auth.
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
//! The clients of `abide` and `abide-tower` sign with it, if they have the feature `identity`.
//!
//! # In scope
//! Signing requests by draft-ietf-webbotauth-httpsig-protocol-01, with Ed25519 ([`WebBotAuth`]); keys from a file or elsewhere ([`Key`],
//! [`Signer`]); the directory of the public keys ([`Directory`]); answering `Accept-Signature` ([`WebBotAuth::as_asked`]).
//!
//! # Out of scope
//! Verifying signatures; algorithms other than Ed25519 (the draft forbids HMAC); covering bodies.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// Who signs.
mod directory;
mod key;
mod web_bot_auth;

// How.
mod asked;
mod names;
mod signature;

mod error;

pub use directory::Directory;
pub use error::IdentityError;
pub use key::{Key, Signer, thumbprint};
pub use names::{DIRECTORY_MEDIA_TYPE, DIRECTORY_PATH, LIFETIME_MAX};
pub use web_bot_auth::WebBotAuth;
