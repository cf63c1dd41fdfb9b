//! The store against everything that can happen to a file.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod support;

mod bounded;
mod conformance;
mod damage;
mod faults;
mod gate;
mod handles;
mod power;
mod processes;
mod restart;
#[path = "../../../abide-gate/tests/it/scripted.rs"]
mod scripted;
