//! One call of a crawler, hop by hop, without I/O.
//!
//! What every HTTP client needs alike, whatever its types: [`Call`] decides what to do next, and a client does it. `abide` (reqwest) and
//! `abide-tower` (hyper) drive it; use it to write such an adapter for another client.
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
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use abide_gate::WallMillis;
//! use abide_permissions::ReadOptions;
//! use abide_http::{Reader, RedirectHistory, FetchInfo};
//! use http_body_util::{BodyExt, Full};
//!
//! let page = "<!doctype html><title>A</title><meta name=robots content=noindex><p>Text";
//! let response = http::Response::builder().header("content-type", "text/html").body(Full::from(page))?;
//!
//! let reader = Reader::new(ReadOptions::new("ExampleBot".parse()?));
//! let reading = reader.response_to(&http::Method::GET, WallMillis::from_millis(1_800_000_000_000));
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
//! replaying what was read ahead ([`WatchedBody`]); permits that end with their body ([`PermitBody`]); what happened ([`FetchInfo`],
//! [`RedirectHistory`]); the spans and events of `tracing` ([`CallSpan`], [`HopSpan`], [`log_failed`]).
//!
//! # Out of scope
//! Sending anything. What fields and metas mean is `abide-permissions`; whether and when a request may go out is `abide-gate`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// One call: what is decided for each hop.
mod admit;
mod call;
mod payment;
mod redirect;

// The crawler, and the options of a request.
mod crawler;
mod host_field;
mod identity;
mod options;

// How a response is read.
mod body;
mod failure;
mod head;
mod permission_history;
mod permit_body;
mod permitted_addresses;
mod preserved_fields;
mod reader;
mod scan;

// What is reported of it.
mod fetch_info;
mod redirect_history;
mod spans;

pub use admit::admit;
pub use body::WatchedBody;
pub use call::{Call, ResponseHead, Step};
pub use crawler::{BuildError, Crawler, CrawlerBuilder};
pub use failure::{body_failure_of, failure_of};
pub use fetch_info::FetchInfo;
pub use host_field::{foreign_host, refuse_foreign_host};
pub use identity::Identity;
pub use options::Options;
pub use payment::{InvalidPrice, PaymentPolicy, PaymentTerms, Price};
pub use permit_body::PermitBody;
pub use permitted_addresses::{NoAddress, permitted_addresses};
pub use preserved_fields::{FieldSource, preserve_fields, restore_fields};
pub use reader::{Reader, Reading, Unscanned};
pub use redirect::{RedirectPolicy, Target, same_resource};
pub use redirect_history::{Hop, RedirectHistory, Stopped};
pub use scan::Scan;
pub use spans::{CallSpan, HopSpan, log_failed};
