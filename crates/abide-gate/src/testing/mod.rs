//! The suites that every store must pass. Call them from the tests of a store.

pub mod pacing;
