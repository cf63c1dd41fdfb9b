//! abide makes a Rust crawler polite by construction.
//!
//! You wrap your [`reqwest`] client once; from then on every request, and every redirect hop of it, is checked against robots.txt
//! (RFC 9309), rate-limited per host, and returned with what the site permits you to do with the page.
//!
//! ```no_run
//! use abide::{Abide, Denied, DeniedKind, ResponseExt};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Abide::builder("ExampleBot")
//!     .user_agent("ExampleBot/1.0 (+https://example.com/bot)")
//!     .build_client(reqwest::Client::builder())?;
//!
//! match client.get("https://example.org/a").send().await {
//!     Ok(page) if page.permissions().may_index() => println!("{}", page.text().await?),
//!     Ok(_) => println!("fetched, and not to be indexed"),
//!     Err(error) => match Denied::find(&error) {
//!         Some(denied) => match denied.kind() {
//!             DeniedKind::Disallowed { verdict } => println!("skip it: {verdict}"),
//!             DeniedKind::Deferred { .. } => println!("come back at {:?}", denied.retry_at()),
//!             _ => println!("refused: {denied}"),
//!         },
//!         None => println!("network: {error}"),
//!     },
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # In a chain
//! With other middlewares, outermost first: retry, [`Abide::gate`], HTTP cache, [`Abide::pacing`]. Without a cache
//! [`Abide::middleware`] takes the place of the two halves.
//!
//! ```ignore
//! struct LeaveBusyHosts;
//!
//! impl RetryableStrategy for LeaveBusyHosts {
//!     fn handle(&self, result: &reqwest_middleware::Result<reqwest::Response>) -> Option<Retryable> {
//!         match result {
//!             Ok(response) if matches!(response.status().as_u16(), 429 | 503) => None,   // abide backs the host off
//!             result => DefaultRetryableStrategy.handle(result),
//!         }
//!     }
//! }
//!
//! let (abide, inner) = Abide::builder("ExampleBot").build_with(reqwest::Client::builder())?;
//! let client = reqwest_middleware::ClientBuilder::new(inner)
//!     .with(RetryTransientMiddleware::new_with_policy_and_strategy(back_off, LeaveBusyHosts))   // never retries refusals
//!     .with(abide.gate())
//!     .with(Cache(http_cache))                                     // hits are checked against robots.txt, and not paced
//!     .with(abide.pacing())
//!     .build();
//! ```
//!
//! * a retry that asks again after a 429 or 503, as reqwest-retry's default strategy does: the host is backed off by then, so where that
//!   lasts longer than the call may wait the caller gets [`DeniedKind::Deferred`], and not the response.
//! * Permissions and a cache: HTTP caches do not keep every field line (http-cache loses the second `X-Robots-Tag` when a 304 updates an
//!   entry). Between the halves nothing is lost: [`Abide::pacing`] writes what the server sent into fields of its own (`abide-received-…`),
//!   the cache keeps them with its entry, and [`Abide::gate`] puts the lines back and takes those fields away. Where they are missing,
//!   indexing permission is unknown: entries of another client or of an earlier version, and caches told to drop or rewrite fields
//!   (http-cache's `modify_response`).
//! * abide above a cache: asked and paced, and hits are paced needlessly. Permissions are unknown unless a restriction is found: what
//!   the cache has dropped cannot be seen, and every answer without an address is taken for a cache's. The cache makes text of network errors, so a host that fails is
//!   not left alone: the circuit breaker does not open, and HTTP/2's `ENHANCE_YOUR_CALM` does not hold it. Prefer the two halves.
//! * abide inside a cache: hits pass it by; refusals become text, and there is no [`FetchInfo`], because the cache builds its responses anew.
//!   abide cannot detect this. The permissions of a response without a [`FetchInfo`] are unknown.
//! * a retry below the pacing sends again under one permit: noticed with a client of [`Builder::build_with`] by the answers it got, and
//!   refused with [`DeniedKind::SentAgain`]. Attempts that end in a timeout are not count_sends, so those may go out unpaced and unnoticed,
//!   and with an inner client of your own none is.
//! * [`Abide::gate`] without [`Abide::pacing`] below it, or with the two upside down: refused with [`DeniedKind::NoPacing`]; with an
//!   inner client of your own and a cache that builds its responses anew, only if no chain of this [`Abide`] has the pacing half.
//! * a network error below an HTTP cache is text above it, so a retry does not see that it was transient; that is the cache's doing.
//!
//! # In scope
//! Sending a call's requests through reqwest, robots.txt with them; the guarded resolver; the decoding of pages; the middlewares and the
//! one-call client.
//!
//! # Out of scope
//! What a call does next, redirects included, is `abide-http`; whether and when a request may go out is `abide-gate`; what a robots.txt
//! says is `abide-robots`; what a response permits is `abide-permissions`. reqwest's blocking client has no middleware; use `abide-gate` with a `Fetch` of your
//! own there.
//!
//! # Features
//! * `tracing` (default): spans and events, with origins and never full URLs; `docs/observability.md` lists them.
//! * `metrics`: `MetricsObserver`, which counts with the facade of that name.
//!
//! TLS and content codings are the features of *your* reqwest.

// Time and the world are arguments here; `.clippy.toml` names what would reach out for them.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// Building.
mod builder;
mod client;
mod extension;

// A call: its hops, and one request of it.
mod middleware;
mod send;
mod split_middleware;

// robots.txt and addresses.
mod resolver;
mod robots_fetch;

pub use builder::Builder;
pub use client::Abide;
pub use extension::{RequestBuilderExt, ResponseExt};
pub use middleware::{AbideMiddleware, GateMiddleware, PacingMiddleware};

#[cfg(feature = "metrics")]
pub use abide_gate::MetricsObserver;
pub use abide_gate::{
    AddressGuard, BoxFuture, Clock, Denied, DeniedKind, Event, Failure, Gate, GateBuilder, HolderId, Host,
    Observer, Origin, SignRequest, StoreError, SystemClock, UnsupportedUrl, Verdict, WallMillis, pacing,
    robots_cache,
};
pub use abide_http::{
    BuildError, FetchInfo, Hop, InvalidPrice, Options, PaymentPolicy, PaymentTerms, Price, RedirectHistory,
    RedirectPolicy, Scan, Stopped,
};
pub use abide_permissions::{
    Answer, AppDirectives, Flag, HeadEnd, License, Limit, MemoryPermissionStore, PermissionRecord,
    PermissionStore, Permissions, Preference, Preferences, ReadOptions, TagRules, Usage, link_follow,
};
pub use abide_robots::{InvalidText, ProductToken, Target};
