//! The tests of the gate through its public face, a folder or file for each part of it. Numbers in front of a
//! name are those of a requirement, or of a promise in `docs/dev/promises.md`.

#![allow(clippy::restriction, reason = "a failed unwrap is a failed test")]

mod gate;
mod scripted;
mod simulation;
mod soak;
mod stores;
mod support;

type StoreFuture<'a, T> = abide_gate::BoxFuture<'a, Result<T, abide_gate::StoreError>>;
