//! Stories of signed identity, one file each.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod keys;
mod verified;
mod verifier;
