//! abide makes a Rust crawler polite by construction: wrap your [`reqwest`] client once, and every request
//! and every redirect is checked against robots.txt (RFC 9309), rate-limited per host, and returned with what
//! the site permits you to do with the page.
//!
//! ```no_run
//! use abide::{Abide, ResponseExt};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Abide::builder("ExampleBot")
//!         .user_agent("ExampleBot/1.0 (+https://example.com/bot)")
//!         .build_client(reqwest::Client::builder())?;
//!     let page = client.get("https://example.org/").send().await?;
//!     println!("{} may be indexed: {}", page.url(), page.permissions().may_index());
//!     Ok(())
//! }
//! ```
//!
//! `"ExampleBot"` is the product token: the name that robots.txt, header fields and meta tags are read for.
//! It must occur in the User-Agent.
//!
//! # What happens in a call
//!
//! 1. **Check.** The URL's robots.txt is in the cache, or is fetched once for all callers. If it disallows
//!    the URL, no request is sent.
//! 2. **Acquire.** The call waits for a permit of the host: one request at a time, one second (or the
//!    Crawl-delay) after the last response.
//! 3. **Send.** One request goes out, without hidden retries. A 429 or 503 backs the host off.
//! 4. **Follow.** A redirect is a new hop: it begins at 1 again, at most ten times.
//! 5. **Done.** abide has read the header fields and the head of the page, so [`ResponseExt::permissions`] is
//!    ready. The body is still complete.
//!
//! # Refusals are answers
//!
//! If abide does not send a request, the error contains a [`Denied`]. It says which rule on which line, or
//! when to come back:
//!
//! ```no_run
//! use abide::{Denied, DeniedKind};
//!
//! # async fn example(client: reqwest_middleware::ClientWithMiddleware, url: &str) {
//! match client.get(url).send().await {
//!     Ok(page) => println!("{}", page.status()),
//!     Err(error) => match Denied::find(&error) {
//!         Some(denied) => match denied.kind() {
//!             DeniedKind::Disallowed { verdict } => println!("skip it: {verdict}"),
//!             DeniedKind::Deferred { .. } => println!("come back at {:?}", denied.retry_at()),
//!             _ => println!("refused: {denied}"),
//!         },
//!         None => println!("network: {error}"),
//!     },
//! }
//! # }
//! ```
//!
//! # Ask without fetching
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let abide = abide::Abide::builder("ExampleBot").build()?;
//! let verdict = abide.check(&"https://example.org/private/".parse()?).await?;
//! println!("{}: {verdict}", verdict.is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! [`Abide::rules`] is a handle for millions of URLs of one site, [`Abide::next_slot`] says when a host is
//! free, and [`Abide::acquire`] gives permits to a client of your own.
//!
//! # Where to look next
//!
//! | to | see |
//! | --- | --- |
//! | set delays, waits, timeouts, redirects, addresses | [`Builder`] and [`pacing::PacePolicy`] |
//! | change how robots.txt is fetched and cached | [`robots_cache::RobotsPolicy`] |
//! | set something for one request | [`RequestBuilderExt::abide`] with [`Options`] |
//! | see hops, verdicts and waits | [`ResponseExt::fetch_info`] |
//! | read what a site says about training | [`Preferences`] |
//! | keep state across restarts or processes | the crates `abide-redb`, `abide-redis` and `abide-postgres` |
//! | log, trace, count | [`Builder::observer`], and `docs/observability.md` |
//! | keep what goes over the wire | [`Builder::exchanges`] |
//!
//! The repository has a tutorial, a cookbook, a page of defaults, and one about moving an existing crawler
//! (`docs/`).
//!
//! # With other middlewares
//!
//! Outermost first: retry, HTTP cache, [`Abide::middleware`], the client. abide is the last middleware. The
//! example `retry_cache` has the code.
//!
//! | order | effect |
//! | --- | --- |
//! | a retry that repeats 429 and 503 | the host is backed off, so the caller gets [`DeniedKind::Deferred`] instead of the response: do not retry these |
//! | a retry below abide | refused with [`DeniedKind::SentAgain`]; only detected with the inner client of [`Builder::build_with`], and not for attempts that time out |
//! | an HTTP cache above abide | hits send nothing; what misses or is revalidated is checked and paced. Errors become text, and the fetch info is lost: [`Abide::read`] reads permissions anew |
//! | an HTTP cache below abide | hits wait needlessly, permissions are unknown unless a restriction is found, and network errors become text |
//!
//! # Out of scope
//! reqwest's blocking client has no middleware: use `abide-gate` with a `Fetch` of your own. The decisions of
//! a call are in `abide-http`, rules and rate limits in `abide-gate`, reading robots.txt in `abide-robots`,
//! reading permissions in `abide-permissions`.
//!
//! # Features
//! * `identity`: signed requests by Web Bot Auth, `Builder::sign_requests`, with the crate `abide-identity`.
//! * `license`, `price`: tokens of licences, and prices: hooks of that crate for
//!   `Builder::answer_challenges`.
//! * `metrics`: `record_metrics` and `sample_metrics`, which count with the facade of that name.
//! * `brotli` (default), `zstd`: pages and robots.txt in these codings, beside gzip and deflate. zstd brings
//!   C code.
//!
//! TLS is a feature of *your* reqwest; its content codings are not used.

// Time and the world are arguments here; `.clippy.toml` names what would reach out for them.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// Building.
mod builder;
mod client;
mod extension;

// A call: its hops, one request of it, and what the client does for that.
mod exchange;
mod http11;
mod middleware;
mod wire;

// robots.txt and addresses.
mod resolver;
mod robots_fetch;

pub use builder::Builder;
pub use client::Abide;
pub use exchange::{Exchange, ExchangeEnd, ObserveExchanges};
pub use extension::{RequestBuilderExt, ResponseExt};

pub use abide_gate::{
    AddressGuard, BoxFuture, Clock, Denied, DeniedKind, Event, Failure, Gate, GateBuilder, HolderId, Host,
    Origin, Refusal, RefusalKind, SignRequest, StoreError, SystemClock, UnsupportedUrl, Verdict, WallMillis,
    pacing, robots_cache,
};
#[cfg(feature = "metrics")]
pub use abide_gate::{record_metrics, sample_metrics};
pub use abide_http::{
    AnswerChallenge, BuildError, Challenge, ChallengeAnswer, FetchInfo, Hop, Options, RedirectHistory,
    RedirectPolicy, RequestEnd, ResponseHead, Scan, Settle, Stopped,
};
#[cfg(any(feature = "identity", feature = "license", feature = "price"))]
pub use abide_identity as identity;
pub use abide_permissions::{
    Answer, AppDirectives, HeadEnd, MemoryPermissionStore, PermissionRecord, PermissionStore, Permissions,
    Preference, Preferences, Question, ReadOptions, TagRules, Usage, link_follow,
};
pub use abide_robots::{InvalidText, ProductToken, Target};
/// The middleware chain that a client of abide is: its types stand in signatures of yours.
pub use reqwest_middleware;
