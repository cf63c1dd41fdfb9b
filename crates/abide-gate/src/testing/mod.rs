//! For tests: the suites that every store passes, and scripts for what is outside.

#![allow(clippy::disallowed_methods, reason = "a test is the world outside")]

pub mod access;
pub mod hosts;
