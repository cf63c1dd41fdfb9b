//! The tests of the gate through its public face, a folder or file for each part of it. Numbers in front of a name are those of a requirement,
//! or of a promise in `docs/dev/promises.md`.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed test"
)]

mod gate;
mod scripted;
mod simulation;
mod soak;
mod stores;
mod support;
