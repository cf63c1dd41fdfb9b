//! One call of a crawler, hop by hop, without I/O.
//!
//! A call is a chain of steps. Each is a value that is used up and gives the next one, and an HTTP client
//! does what it says, whatever its types. `abide` (reqwest) and `abide-tower` (hyper) are built on it; use it
//! to write an adapter for another client. For one that can send a request, [`drive`] does the rest: the
//! example `hyper` is such an adapter in 60 lines. A driver of your own:
//!
//! ```
//! use abide_gate::Failure;
//! use abide_http::{Answered, Crawler, Options, Refused, ResponseBody, ResponseHead};
//! use http::{HeaderMap, Method, Response};
//! # type Wire = http_body_util::Full<bytes::Bytes>;
//! # type Error = std::io::Error;
//! # async fn send(_: &Method, _: &url::Url, _: HeaderMap) -> Result<Response<Wire>, Error> { Ok(Response::default()) }
//!
//! enum NoPage {
//!     /// By abide: it says why, and its history has the hops before.
//!     Refused(Refused),
//!     /// By the network.
//!     Failed(Error),
//! }
//!
//! async fn fetch(crawler: &Crawler, url: &url::Url) -> Result<Response<ResponseBody<Wire>>, NoPage> {
//!     let mut fields = HeaderMap::new();
//!     let mut check = crawler.call(Options::new(), &Method::GET, url, None);
//!     loop {
//!         // What is added for one request, such as its signature, does not go along with a redirect.
//!         let mut headers = fields.clone();
//!         // Check: robots.txt. Acquire: the rate limit.
//!         let ready = check.admit(&mut headers).await.map_err(NoPage::Refused)?;
//!         // Send: your client, with redirects off.
//!         let sent = ready.send(&mut headers).map_err(NoPage::Refused)?;
//!         let response = match send(sent.method(), sent.url(), headers).await {
//!             Ok(response) => response,
//!             Err(error) => {
//!                 // Its host is left alone if too many requests fail. A refusal: the name led to an address that must not be contacted.
//!                 let failure = abide_http::failure_of(&error).or(Some(Failure::Other));
//!                 sent.failed(failure, &error).await.map_err(NoPage::Refused)?;
//!                 return Err(NoPage::Failed(error));
//!             }
//!         };
//!         let (status, head) = (response.status(), response.headers());
//!         let head = ResponseHead { status, headers: head, remote_addr: None, url: None, is_repeatable: true };
//!         match sent.answered(head).await.map_err(NoPage::Refused)? {
//!             // The response is dropped unread, and its permit ends.
//!             Answered::Follow(follow) => check = follow.follow(response, &mut fields),
//!             // The head of the page is read for permissions and replayed; its permit ends with its body.
//!             Answered::Done(done) => return Ok(done.finish(&fields, response, None).await),
//!         }
//!     }
//! }
//! ```
//!
//! # Write an adapter
//! 1. Implement [`Transport`] and call [`drive`], or drive the steps yourself, as above. robots.txt goes by
//!    the same client: [`TransportFetch`].
//! 2. Switch off what the client does by itself: redirects, retries, content codings, cookies that robots.txt
//!    would be sent with.
//! 3. Let it connect only to addresses that [`permitted_addresses`] returns.
//! 4. Run `testing::conformance` (feature `testing`) against it: eleven promises, over loopback.
//!
//! # In scope
//! The steps of a call and its redirects ([`Crawler::call`], [`Check`], [`RedirectPolicy`]); their driver
//! ([`drive`], [`Transport`]); what calls share ([`Crawler`]); what is given to a server that asks for
//! something ([`AnswerChallenge`]); what a failed request met ([`failure_of`]); which addresses a resolver
//! may return ([`permitted_addresses`]); a body that replays what was read ahead, with its permit
//! ([`ResponseBody`]); what happened ([`FetchInfo`], [`RedirectHistory`]); the suite that every adapter
//! passes (`testing`); the spans and events of `tracing` ([`CallSpan`]).
//!
//! # Out of scope
//! Sending anything. What fields and metas mean is `abide-permissions`; whether and when a request may go out
//! is `abide-gate`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// One call: what is decided for each hop.
mod call;
mod challenge;
mod identity;
mod redirect;

// A whole adapter.
mod drive;

// What calls share, and options of one.
mod crawler;

// Another file that a page waits for.
mod tdmrep;

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

#[cfg(feature = "testing")]
pub mod testing;

pub use body::{BoxError, ResponseBody};
pub use call::{Acquire, Answered, Call, Check, Done, Follow, Refused, ResponseHead, SendRequest, Sent};
pub use challenge::{AnswerChallenge, Challenge, ChallengeAnswer, RequestEnd, Settle};
pub use crawler::{BuildError, Crawler, CrawlerBuilder, Options};
pub use drive::{NoResponse, Outgoing, Transport, TransportFetch, drive};
pub use failure::{body_failure_of, failure_of, is_hang_up, is_of_the_caller, needs_http11, root_cause};
pub use fetch_info::{CallSpan, FetchInfo, Hop, RedirectHistory, Stopped};
pub use identity::foreign_host;
pub use permitted_addresses::permitted_addresses;
pub use read_timeout::with_read_timeout;
pub use reader::Scan;
pub use redirect::{RedirectPolicy, same_resource};
