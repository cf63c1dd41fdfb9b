//! The tests of the crate through its public API. `README.md` says which of them cover which clause.

#![allow(clippy::restriction, reason = "a test fails by it")]

mod directives;
mod fields;
mod heads;
mod limits;
mod opt_outs;
mod preference_table;
mod properties;
mod readings;
mod record;
mod repext03;
mod store;
mod support;
mod unknown;
mod wrapped;

use std::time::SystemTime;

use abide_permissions::{Head, HeadScanner, Permissions, ReadOptions};

/// ExampleBot within 8 KiB fields.
fn options() -> ReadOptions {
    ReadOptions::new("ExampleBot".parse().unwrap()).with_field_limit(8192).unwrap()
}

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
    scan_as(options, None, document, chunk)
}

fn scan_as(options: &ReadOptions, content_type: Option<&str>, document: &[u8], chunk: usize) -> Head {
    let mut scanner = HeadScanner::new(options, content_type);
    for chunk in document.chunks(chunk) {
        if scanner.feed(chunk).is_break() {
            break;
        }
    }
    scanner.finish()
}

/// The rows of a table in `vectors` as columns: `-` is nothing, and a word in angle brackets is what cannot
/// stand there.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<String>> {
    let named = [
        ("<HTAB>", "\t"),
        ("<LF>", "\n"),
        ("<CR>", "\r"),
        ("<FF>", "\x0c"),
        ("<NUL>", "\0"),
        ("<BOM>", "\u{feff}"),
        ("<NBSP>", "\u{a0}"),
        ("<EMPTY>", ""),
    ];
    let column = move |text: &str| match text {
        "-" => String::new(),
        text => named.iter().fold(text.to_owned(), |text, (name, byte)| text.replace(name, byte)),
    };
    table.lines().filter(|row| !row.starts_with('#')).map(move |row| row.split('\t').map(column).collect())
}
