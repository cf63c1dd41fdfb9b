//! What reading and matching robots.txt must do: vectors, properties, and a comparison with other libraries.
//! One file each. What counts allocations is a program of its own (`promises.rs`).
#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

mod differential;
mod naive;
mod properties;
mod vectors;
