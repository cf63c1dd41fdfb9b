//! May this URL be fetched, and when?
//!
//! A crawler asks two questions before it sends a request: does the site's robots.txt allow it (RFC 9309
//! §2.3–2.5), and when may the next request to its host be sent? [`Gate`] answers both, and caches and counts
//! what is needed for that. It contains no HTTP client: you bring a [`Fetch`](robots_cache::Fetch) that sends
//! one request.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use abide_gate::robots_cache::{Fetch, FetchError, RobotsResponse, RobotsRequest};
//! # use abide_gate::{BoxFuture, Clock, SystemClock};
//! # #[derive(Debug)]
//! # struct MyClient;
//! # impl Fetch for MyClient {
//! #     fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
//! #         let body = "User-agent: *\nDisallow: /private/\n";
//! #         let reply = RobotsResponse::whole(http::StatusCode::OK, Default::default(), body, SystemClock.now());
//! #         Box::pin(async { Ok(reply) })
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use abide_gate::Gate;
//!
//! let gate = Gate::builder().build(vec!["ExampleBot".parse()?], Arc::new(MyClient));
//! let budget = Duration::from_secs(30);
//!
//! let (verdict, permit) = gate.admit(&"https://example.org/a".parse()?, budget).await?;
//! assert!(verdict.is_allowed());
//! // ... send the request with your client, read the response to its end, then report its status and fields:
//! permit.finish_with(http::StatusCode::OK, &http::HeaderMap::new());
//!
//! let refused = gate.admit(&"https://example.org/private/x".parse()?, budget).await.unwrap_err();
//! assert!(refused.is_disallowed());
//! assert!(refused.to_string().contains("\"Disallow: /private/\" on line 2"));
//! # Ok(())
//! # }
//! ```
//!
//! # In scope
//! The access results, their cache and their fallback ([`robots_cache`]); permits, backoffs and deferrals
//! ([`pacing`]); the stores' traits; which addresses may be contacted ([`AddressGuard`]); refusals
//! ([`Denied`]) and failures ([`Failure`]).
//!
//! # Out of scope
//! What a robots.txt says (`abide-robots`), what a response permits (`abide-permissions`), redirects and the
//! rest of a call (`abide-http`).
//!
//! # Features
//! * `tracing` (default): spans and events, with origins and never full URLs.
//! * `metrics`: `record_metrics` and `sample_metrics`, for the facade of that name.
//! * `brotli` (default), `zstd`: robots.txt in these codings, beside gzip and deflate. zstd brings C code.
//! * `psl`: pacing by registrable domain, with the Public Suffix List compiled in.
//! * `testing`: a clock that tests move, and the suites that every store must pass.

// Time and the world are arguments here; `.clippy.toml` names what would reach out for them.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::string_slice, reason = "a test that cannot go on fails")
)]

// The keys, the clocks, and what can go wrong.
mod caught;
mod clock;
mod failure;
mod jitter;
mod origin;
mod stats;
mod store;
mod text;

// Whether a robots.txt could be had, and when a request may go out: two halves that do not know each other.
pub mod pacing;
pub mod robots_cache;

// Which addresses may be contacted, where redirects lead, and how bodies are decoded.
mod address;
mod coding;
mod location;

// Who answers in place of a site.
mod refusal;

// The composition: robots.txt first, then the host's turn.
mod builder;
mod denied;
mod event;
mod gate;
#[cfg(feature = "metrics")]
mod metrics;
mod paced;
mod sign;

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(test)]
extern crate self as abide_gate;
#[cfg(test)]
#[path = "../tests/parts/mod.rs"]
mod parts;

pub use address::AddressGuard;
pub use builder::GateBuilder;
pub use caught::{caught, caught_future};
#[cfg(feature = "testing")]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock, WallMillis, caught_clock, lacks_timers};
pub(crate) use coding::Coding;
pub use coding::{decoder, named_codings};
pub use denied::{Denied, DeniedKind};
pub use event::Event;
pub use failure::Failure;
/// What the traits of this crate return, so that they can be used as `dyn`.
pub use futures_core::future::BoxFuture;
pub use gate::{Gate, Verdict};
pub use location::{SeveralLocations, location};
#[cfg(feature = "metrics")]
pub use metrics::{record_metrics, sample_metrics};
pub use origin::{Host, Origin, UnsupportedUrl, has_userinfo, without_userinfo};
pub use refusal::{REFUSAL_LOOKED_AT, Refusal, RefusalKind};
pub use sign::SignRequest;
pub use stats::Stats;
pub use store::{HolderId, StoreError};
