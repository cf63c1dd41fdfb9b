//! Stories of signed identity, one file each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod keys;
mod verified;
mod verifier;
