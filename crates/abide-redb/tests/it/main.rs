//! The store against everything that can happen to a file.

#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

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
