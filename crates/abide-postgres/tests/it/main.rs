//! The store against real servers, which the tests start on free ports and stop again. Without PostgreSQL
//! they say so and pass; with `CI=true` or `ABIDE_REQUIRE_POSTGRES` set they fail.

#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

mod conformance;
mod connection;
#[path = "../../../../tests/crew/mod.rs"]
mod crew;
mod facts;
mod faults;
mod store;
mod support;
#[cfg(feature = "tls")]
mod tls;
