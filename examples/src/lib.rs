//! What the examples share: a small web of several sites on loopback, so that they show something without a
//! network.

#![allow(clippy::restriction, reason = "it serves a few pages that it knows")]

mod web;

pub use web::{LONG_PAGE, Web, houses, plain_client, shops, sites};
