//! Whether an origin's robots.txt could be had, what it was, and how long it counts: RFC 9309 §2.3–2.5.
//!
//! ```text
//! of(origin) ─▶ answer at hand, judged by our clock ─────────────────────────▶ use it
//!                  │ none, or its time is over
//!                  ▼
//!               flight (one per origin) ─▶ store ─▶ record × now ─▶ use it
//!                                                        │ fetch
//!                                                        ▼
//!                            chain of hops ─▶ outcome ─▶ record after it ─▶ store, answer, waiters
//! ```
//!
//! What decides is pure: [`RobotsPolicy`] and the files outcome, redirect, freshness, record and reuse are functions of
//! bytes, types and `now`. The drivers await and hold no rule: chain, inner, single_flight, store_guard.
//!
//! # Out of scope
//! *When* a request goes out is the pacing's. This module knows nothing of it: it is handed a [`Fetch`] that is paced
//! already. What the rules say is `abide_robots`'.

#[allow(unreachable_pub, reason = "the feature `testing` exports it")]
pub(crate) mod builder;
#[allow(unreachable_pub, reason = "the feature `testing` exports it")]
pub(crate) mod cache;
mod hot_cache;

mod inner;
mod single_flight;
mod store_guard;

mod record;
mod reuse;

mod body;
mod chain;
mod fetch;
mod outcome;
mod redirect;

mod freshness;
mod policy;

mod entry;

mod codec;
mod copy;
mod interner;
mod memory;
mod store;

mod counters;
mod log;

/// What the flights share their state by. `tests/it/robots_cache/schedules.rs` reads them with another one, which tries out orders.
mod sync {
    pub(crate) use std::sync::{Arc, Mutex, PoisonError};
}

pub(crate) use cache::RobotsCache;
pub use copy::GoodCopy;
pub(crate) use entry::AccessResult;
pub use entry::{RobotsEntry, Source};
pub(crate) use fetch::Validators;
pub use fetch::{Fetch, FetchError, RobotsRequest, RobotsResponse, on_the_wire};
#[cfg(feature = "testing")]
pub(crate) use freshness::stated_lifetime;
pub use memory::MemoryRobotsStore;
#[cfg(feature = "tracing")]
pub(crate) use policy::LongOutage;
pub use policy::RobotsPolicy;
pub use record::Record;
pub(crate) use record::Unavailable;
pub use store::RobotsStore;
