//! Fetching and caching robots.txt: RFC 9309 §2.3–2.5.
//!
//! ```text
//! get(origin) ─▶ entry in memory, still usable by our clock ────────────────────▶ use it
//!                  │ none, or it has expired
//!                  ▼
//!               fetch (one per origin) ─▶ store ─▶ record, still usable ────────▶ use it
//!                                                        │ none, or it has expired
//!                                                        ▼
//!                            redirect chain ─▶ outcome ─▶ next record ─▶ store, entry, waiters
//!                            (before each request: what has another process stored while it waited?)
//! ```
//!
//! Decisions are plain functions of bytes, types and `now`: [`RobotsPolicy`] and the files outcome, redirect,
//! freshness, record and entry. The files that await contain no rule: cache, fetch_task, chain,
//! single_flight, store_guard. So 24 hours and 30 days are tested on a manual clock.
//!
//! # Out of scope
//! When a request may be sent: the module gets a [`Fetch`] that is already rate-limited. Parsing and matching
//! rules: `abide_robots`.

mod cache;

mod entry;
mod interner;

mod fetch_task;
mod single_flight;
mod store_guard;

mod body;
mod chain;
mod fetch;
mod outcome;
mod redirect;

mod freshness;
mod log;
mod policy;
mod record;

mod codec;
mod store;

/// What `single_flight.rs` shares its state by. `tests/parts/robots_cache/schedules.rs` includes it with
/// another one, which tries out orders.
mod sync {
    pub(crate) use std::sync::{Arc, Mutex, PoisonError};
}

pub(crate) use cache::RobotsCache;
pub use entry::{RobotsEntry, Source};
pub(crate) use fetch::Validators;
pub use fetch::{Fetch, FetchError, RobotsRequest, RobotsResponse, on_the_wire};
pub(crate) use fetch_task::full;
pub use freshness::stated_lifetime;
#[cfg(feature = "tracing")]
pub(crate) use policy::LongOutage;
pub use policy::RobotsPolicy;
pub use record::{GoodCopy, RobotsRecord};
pub use store::RobotsStore;
