//! Against a PostgreSQL server of their own.
#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

mod conformance;
