//! The store against everything that can happen to a file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
