//! The tests of the crate through its public face. Names state facts; an identifier in front is that of a requirement:
//! A for draft-illyes-repext-03, B for its first version, X for their contradictions and gaps.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by it"
)]

mod contradictions;
mod directives;
mod draft00;
mod fields;
mod heads;
mod limits;
mod preference_table;
mod properties;
mod record;
mod repext03;
mod store;
mod support;
mod unknown;
mod vendors;

use std::time::SystemTime;

use abide_permissions::{Head, HeadScanner, Permissions, ReadOptions};

/// ExampleBot within 8 KiB fields.
fn options() -> ReadOptions {
    ReadOptions::new("ExampleBot".parse().unwrap()).with_field_limit(8192).unwrap()
}

/// Reads field lines.
fn read(lines: &[(&str, &str)]) -> Permissions {
    read_with(&options(), lines, Head::default())
}

/// Reads a document without fields.
fn page(document: &str) -> Permissions {
    read_with(&options(), &[], scan(&options(), document.as_bytes(), usize::MAX))
}

fn read_with(options: &ReadOptions, lines: &[(&str, &str)], head: Head) -> Permissions {
    let lines = lines.iter().map(|(name, value)| (*name, value.as_bytes()));
    Permissions::read(options, lines, head, SystemTime::UNIX_EPOCH)
}

fn scan(options: &ReadOptions, document: &[u8], chunk: usize) -> Head {
    let mut scanner = HeadScanner::new(options, None);
    for chunk in document.chunks(chunk) {
        if scanner.feed(chunk).is_break() {
            break;
        }
    }
    scanner.finish()
}

/// The effective rules as text: `noindex, nosnippet`.
fn robots_tag(value: &str) -> String {
    read(&[("Robots-Tag", value)]).rules().to_string()
}

fn x_robots_tag(value: &str) -> String {
    read(&[("X-Robots-Tag", value)]).rules().to_string()
}

fn meta_rules(document: &str) -> String {
    page(document).rules().to_string()
}
