//! Calls without a client, and bodies without a server.

#![allow(clippy::arithmetic_side_effects, reason = "a test that cannot go on fails")]
#![allow(clippy::restriction, reason = "a failed unwrap is a failed test")]

mod body;
mod call;
mod drive;
#[path = "../../../abide-gate/tests/it/scripted.rs"]
mod scripted;
mod tdmrep;
