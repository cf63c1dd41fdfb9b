//! Stories of signed identity, one file each.

#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

mod broken;
mod keys;
mod verified;
mod verifier;
