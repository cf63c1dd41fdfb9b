//! The Rust blocks of the pages that users read, compiled as they are displayed, and run unless a page says
//! `no_run` (`tests/build.rs` finds them).

#![allow(clippy::restriction, reason = "a test that cannot go on fails")]
#![allow(
    clippy::all,
    dead_code,
    unused,
    reason = "a page shows what a reader should type, not what a lint prefers"
)]

mod context;

include!(concat!(env!("OUT_DIR"), "/snippets.rs"));
