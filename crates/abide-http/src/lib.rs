//! One call of a crawler, hop by hop, without I/O.
//!
//! [`Call`] decides what to do next, and an HTTP client does it, whatever its types. `abide` (reqwest) and `abide-tower` (hyper) are built on it; use it
//! to write an adapter for another client. A whole driver:
//!
//! ```
//! use abide_gate::Denied;
//! use abide_http::{Call, Crawler, Options, ResponseHead, Step, admit};
//! # use http::{HeaderMap, Method, StatusCode};
//! # async fn send(_: &url::Url, _: &HeaderMap) -> (StatusCode, HeaderMap) { (StatusCode::OK, HeaderMap::new()) }
//!
//! async fn fetch(crawler: &Crawler, url: &url::Url) -> Result<StatusCode, Denied> {
//!     let mut call = Call::new(crawler, Options::new(), &Method::GET, url, None);
//!     loop {
//!         let mut fields = HeaderMap::new();
//!         call.sign(&mut fields).map_err(|denied| call.refused(denied))?;
//!         // Step::Check: robots.txt. Step::Acquire: the rate limit.
//!         admit(&mut call).await.map_err(|denied| call.refused(denied))?;
//!         call.sending();
//!         // Step::Send: your client, with redirects off. A request without a response: `call.failed(..)`.
//!         let (status, headers) = send(call.url(), &fields).await;
//!         let head = ResponseHead { status, headers: &headers, remote_addr: None, url: None, is_repeatable: true };
//!         call.answered(head).map_err(|denied| call.refused(denied))?;
//!         call.saved().await;
//!         if call.step() != Step::Follow {
//!             return Ok(status);
//!         }
//!         call.follow();
//!     }
//! }
//! ```
//!
//! The response is read for permissions without taking its head from the caller:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! use abide_gate::WallMillis;
//! use abide_permissions::ReadOptions;
//! use abide_http::{FetchInfo, Reader, RedirectHistory, ResponseBody};
//! use http_body_util::{BodyExt, Full};
//!
//! let page = "<!doctype html><title>A</title><meta name=robots content=noindex><p>Text";
//! let response = http::Response::builder().header("content-type", "text/html").body(Full::from(page))?;
//!
//! let reader = Reader::new(ReadOptions::new("ExampleBot".parse()?));
//! let reading = reader.response_to(&http::Method::GET, WallMillis::from_millis(1_800_000_000_000));
//! let response = response.map(|body| ResponseBody::new(body, http::Version::HTTP_11, None));
//! let response = reading.finish(RedirectHistory::default(), response).await;
//!
//! let info = FetchInfo::of(response.extensions()).ok_or("it was read")?;
//! assert!(!info.permissions().may_index());
//! assert_eq!(response.into_body().collect().await?.to_bytes(), page, "the body is untouched");
//! # Ok(())
//! # }
//! ```
//!
//! # In scope
//! The steps of a call and its redirects ([`Call`], [`admit`], [`RedirectPolicy`]); what calls share ([`Crawler`], [`Identity`]); what a failed
//! request met ([`failure_of`]); which addresses a resolver may return ([`permitted_addresses`]); reading a response ([`Reader`]) and
//! replaying what was read ahead ([`ResponseBody`]) with its permit; what happened ([`FetchInfo`],
//! [`RedirectHistory`]); the spans and events of `tracing` ([`CallSpan`], [`HopSpan`], [`log_failed`]).
//!
//! # Out of scope
//! Sending anything. What fields and metas mean is `abide-permissions`; whether and when a request may go out is `abide-gate`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// One call: what is decided for each hop.
mod call;
mod identity;
mod license;
mod payment;
mod redirect;
#[cfg(feature = "identity")]
mod web_bot_auth;

// What calls share, and options of one.
mod crawler;

// How a response is read.
mod body;
mod head;
mod permission_history;
mod preserved_fields;
mod read_timeout;
mod reader;

// What is reported of it.
mod fetch_info;
mod spans;

// For the resolvers and errors of clients.
mod failure;
mod permitted_addresses;

pub use body::ResponseBody;
pub use call::{Call, ResponseHead, Step, admit};
pub use crawler::{BuildError, Crawler, CrawlerBuilder, Options};
pub use failure::{body_failure_of, failure_of};
pub use fetch_info::{FetchInfo, Hop, RedirectHistory, Stopped};
pub use identity::{Identity, foreign_host, refuse_foreign_host};
pub use license::{InvalidLicenseToken, LicenseToken};
pub use payment::{InvalidPrice, PaymentPolicy, PaymentTerms, Price};
pub use permitted_addresses::{NoAddress, permitted_addresses};
pub use preserved_fields::{FieldSource, preserve_fields, restore_fields};
pub use read_timeout::{ReadTimedOut, with_read_timeout};
pub use reader::{Reader, Reading, Scan, Unscanned};
pub use redirect::{RedirectPolicy, Target, same_resource};
pub use spans::{CallSpan, HopSpan, log_failed};
