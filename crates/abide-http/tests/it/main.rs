//! Calls without a client, and bodies without a server.

#![allow(clippy::arithmetic_side_effects, reason = "a test that cannot go on fails")]
#![allow(clippy::restriction, reason = "a failed unwrap is a failed test")]

mod adapters;
mod body;
mod call;
mod drive;
#[allow(dead_code, reason = "its `main` is not called")]
#[path = "../../examples/hyper.rs"]
mod hyper_example;
#[path = "../../../abide-gate/tests/it/scripted.rs"]
mod scripted;
mod tdmrep;
