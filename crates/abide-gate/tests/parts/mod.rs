//! The tests of the pacing alone and of the robots.txt cache alone: they are compiled into the crate, whose
//! users see both only as a gate.

#![allow(clippy::restriction, reason = "a failed unwrap is a failed test")]

mod pacing;
mod robots_cache;
pub(crate) mod support;
mod timers;
