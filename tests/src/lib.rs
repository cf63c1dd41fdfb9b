//! A server for tests that plays a script and logs each request.
//!
//! The tests check its log: what counts is what reached the wire.

#![allow(clippy::restriction, reason = "what cannot go on ends the test")]

mod capture;
mod coding;
mod postgres;
mod quota;
mod redis;
mod reply;
mod server;
mod silent;
mod time;
mod tls;

pub use self::redis::{Redis, free_port, signal};
pub use capture::{Captured, Said, listen};
pub use coding::{CODINGS, gzip};
pub use postgres::Postgres;
pub use quota::Quota;
pub use reply::{Reply, Step};
pub use server::{Names, Seen, Server, delays};
pub use silent::{OWN_ADDRESSES, Silent};
pub use time::{StoppedClock, until};
pub use tls::Authority;
