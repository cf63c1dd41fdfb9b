//! What the pages on promises and clauses name as their tests is there, under that name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["promises.md", "rfc9309-access.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files of the tree, but for what was built.
fn files() -> Vec<PathBuf> {
    let (mut open, mut found) =
        (["crates", "tests", "fuzz", "docs"].map(|part| root().join(part)).to_vec(), Vec::new());
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true if entry.file_name() == "target" => {}
                true => open.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

/// Functions, and files and folders without their extension.
fn names(files: &[PathBuf]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files {
        let parts = file.strip_prefix(root()).unwrap().with_extension("");
        names.extend(parts.iter().map(|part| part.to_str().unwrap().to_owned()));
        if file.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(file).unwrap();
            let functions = text.split("fn ").skip(1);
            names.extend(
                functions.map(|rest| rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect()),
            );
        }
    }
    names
}

/// The spans of code in a page, without its blocks of code.
fn spans(page: &str) -> Vec<String> {
    let text: Vec<&str> = page.split("\n```").step_by(2).collect();
    text.iter().flat_map(|text| text.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn is_name(span: &str) -> bool {
    span.contains('_')
        && span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_…".contains(c))
}

#[test]
fn every_test_that_a_page_names_exists() {
    let files = files();
    let names = names(&files);
    let is_there = |name: &str| match name.strip_suffix('…') {
        Some(start) => names.range(start.to_owned()..).next().is_some_and(|first| first.starts_with(start)),
        None => names.contains(name) || name.ends_with('_'),
    };
    for page in PAGES {
        let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
        let spans = spans(&text);
        let named: Vec<_> = spans.iter().filter(|span| is_name(span)).collect();
        assert!(named.len() > 15, "{page} was read: {named:?}");
        let missing: Vec<_> = named.into_iter().filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "{page} names what is not there: {missing:?}");
        let paths = spans
            .iter()
            .filter(|span| span.len() > 3 && span.ends_with(".rs") && !span.contains([' ', '*', '{']));
        for path in paths {
            assert!(
                files.iter().any(|file| file.ends_with(path.trim_start_matches("../"))),
                "{page}: {path}"
            );
        }
    }
}
