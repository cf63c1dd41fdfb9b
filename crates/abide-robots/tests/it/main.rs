//! What reading and matching robots.txt must do: vectors, properties, and a comparison with other libraries. One file each. What counts
//! allocations is a program of its own (`promises.rs`).
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod differential;
mod naive;
mod properties;
mod vectors;
