//! One call of a crawler, hop by hop, without I/O.
//!
//! [`Call`] decides what to do next, and an HTTP client does it, whatever its types. `abide` (reqwest) and `abide-tower` (hyper) are built on it; use it
//! to write an adapter for another client. A whole driver:
//!
//! ```
//! use abide_gate::Denied;
//! use abide_http::{Call, Crawler, Options, ResponseBody, ResponseHead, Step, admit};
//! use http::{HeaderMap, Method, Response};
//! # type Wire = http_body_util::Full<bytes::Bytes>;
//! # async fn send(_: &Method, _: &url::Url, _: &HeaderMap) -> Response<Wire> { Response::default() }
//!
//! async fn fetch(crawler: &Crawler, url: &url::Url) -> Result<Response<ResponseBody<Wire>>, Denied> {
//!     let mut call = Call::new(crawler, Options::new(), &Method::GET, url, None);
//!     let mut fields = HeaderMap::new();
//!     loop {
//!         call.sign(&mut fields).map_err(|denied| call.refused(denied))?;
//!         // Step::Check: robots.txt. Step::Acquire: the rate limit.
//!         admit(&mut call).await.map_err(|denied| call.refused(denied))?;
//!         call.add_signature(&mut fields).map_err(|denied| call.refused(denied))?;
//!         call.sending();
//!         // Step::Send: your client, with redirects off. One without a response: `failed`, then `saved`.
//!         let response = send(call.method(), call.url(), &fields).await;
//!         let (status, headers) = (response.status(), response.headers());
//!         let head = ResponseHead { status, headers, remote_addr: None, url: None, is_repeatable: true };
//!         call.answered(head).map_err(|denied| call.refused(denied))?;
//!         call.saved().await;
//!         if call.step() == Step::Follow {
//!             call.follow(&mut fields);
//!             continue;
//!         }
//!         // Step::Done: its head is read for permissions and replayed; its permit ends with its body.
//!         let (version, permit) = (response.version(), call.take_permit());
//!         let response = response.map(|body| ResponseBody::new(body, version, permit));
//!         let reading = call.reading(None, response.status(), response.headers());
//!         return Ok(reading.finish(response).await);
//!     }
//! }
//! ```
//!
//! # In scope
//! The steps of a call and its redirects ([`Call`], [`admit`], [`RedirectPolicy`]); what calls share ([`Crawler`]); what a failed request met
//! ([`failure_of`]); which addresses a resolver may return ([`permitted_addresses`]); a body that replays what was read ahead, with its permit
//! ([`ResponseBody`]); what happened ([`FetchInfo`], [`RedirectHistory`]); the spans and events of `tracing` ([`CallSpan`], [`log_failed`]).
//!
//! # Out of scope
//! Sending anything. What fields and metas mean is `abide-permissions`; whether and when a request may go out is `abide-gate`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// One call: what is decided for each hop.
mod call;
mod challenge;
mod identity;
mod license;
mod payment;
mod redirect;

// What calls share, and options of one.
mod crawler;

// How a response is read.
mod body;
mod permission_history;
mod read_timeout;
mod reader;

// What is reported of it.
mod fetch_info;

// For the resolvers and errors of clients.
mod failure;
mod permitted_addresses;

pub use body::ResponseBody;
pub use call::{Call, ResponseHead, Step, admit};
pub use challenge::{AnswerChallenge, Challenge, ChallengeAnswer, RequestEnd, Settle};
pub use crawler::{BuildError, Crawler, CrawlerBuilder, Options};
pub use failure::{body_failure_of, failure_of, is_hang_up, is_of_the_caller, needs_http11, root_cause};
pub use fetch_info::{CallSpan, FetchInfo, Hop, RedirectHistory, Stopped, log_failed};
pub use identity::foreign_host;
pub use license::LicenseToken;
pub use payment::{InvalidValue, PaymentPolicy, PaymentTerms, Price};
pub use permitted_addresses::permitted_addresses;
pub use read_timeout::with_read_timeout;
pub use reader::{Reading, Scan};
pub use redirect::{RedirectPolicy, same_resource};
