//! The store against real servers, which the tests start on free ports and stop again. Without `redis-server`
//! on the path they say so and pass; with `CI=true` or `ABIDE_REQUIRE_REDIS` set they fail.

#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

mod cluster;
mod conformance;
mod connection;
#[path = "../../../../tests/crew/mod.rs"]
mod crew;
mod facts;
mod sentinel;
mod store;
mod support;
#[cfg(feature = "tls")]
mod tls;
