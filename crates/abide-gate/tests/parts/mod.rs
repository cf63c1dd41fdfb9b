//! The tests of the pacing alone and of the robots.txt cache alone: they are compiled into the crate, whose users see both only as a gate.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed test"
)]

mod pacing;
mod robots_cache;
pub(crate) mod support;
mod timers;
