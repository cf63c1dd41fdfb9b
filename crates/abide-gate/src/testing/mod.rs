//! For tests: the suites that every store passes, and scripts for what is outside.

pub mod access;
pub mod pacing;
