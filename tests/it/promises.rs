//! What the pages on promises and clauses name as their tests is there, under that name; and each source file
//! says why it exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PAGES: [&str; 3] = ["promises.md", "rfc9309-access.md", "command-contract.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files in these folders of the tree, but for what was built.
pub(crate) fn files<const N: usize>(folders: [&str; N]) -> Vec<PathBuf> {
    let (mut open, mut found) = (folders.map(|folder| root().join(folder)).to_vec(), Vec::new());
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

/// What a page may name: tests, and files and folders without their extension; and functions, where it speaks
/// of code.
#[derive(Default)]
struct Names {
    tests: BTreeSet<String>,
    functions: BTreeSet<String>,
    files: BTreeSet<String>,
}

fn names(files: &[PathBuf]) -> Names {
    let mut names = Names::default();
    for file in files {
        let parts = file.strip_prefix(root()).unwrap().with_extension("");
        names.files.extend(parts.iter().map(|part| part.to_str().unwrap().to_owned()));
        if file.extension().is_some_and(|extension| extension == "rs") {
            names.read(&std::fs::read_to_string(file).unwrap());
        }
        if parts.iter().any(|part| part == "vectors")
            && file.extension().is_some_and(|extension| extension == "toml")
        {
            names.read_cases(&std::fs::read_to_string(file).unwrap());
        }
    }
    names
}

impl Names {
    /// A function is a test by the attribute above it.
    fn read(&mut self, source: &str) {
        let mut is_test = false;
        for line in source.lines().map(str::trim_start) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some((_, rest)) = line.split_once("fn ").filter(|_| !line.starts_with("//")) else {
                continue;
            };
            let name: String = rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
            let of_its_kind = if is_test { &mut self.tests } else { &mut self.functions };
            of_its_kind.insert(name);
            is_test = false;
        }
    }

    /// A case of a table is a test by its name.
    fn read_cases(&mut self, table: &str) {
        let names = table.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        self.tests.extend(names.map(str::to_owned));
    }

    fn has_test(&self, name: &str) -> bool {
        let is_start = |start: &str| {
            self.tests.range(start.to_owned()..).next().is_some_and(|first| first.starts_with(start))
        };
        self.files.contains(name)
            || name.strip_suffix('…').map_or_else(|| self.tests.contains(name), is_start)
    }
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

/// The spans that name functions beside tests: those of the column that is headed so.
fn speaks_of_code(page: &str) -> BTreeSet<String> {
    let (mut column, mut code) = (None, BTreeSet::new());
    for row in page.lines() {
        let mut cells = row.split(" | ");
        match column.filter(|_| row.starts_with('|')) {
            Some(column) => code.extend(cells.nth(column).into_iter().flat_map(spans)),
            None => column = cells.position(|cell| cell == "code"),
        }
    }
    code
}

#[test]
fn every_test_that_a_page_names_exists() {
    let files = files(["crates", "tests", "fuzz", "docs"]);
    let names = names(&files);
    assert!(
        names.tests.contains("every_test_that_a_page_names_exists") && names.functions.contains("is_name")
    );
    for page in PAGES {
        let text = std::fs::read_to_string(root().join("docs/dev").join(page)).unwrap();
        let spans = spans(&text);
        let named: Vec<_> = spans.iter().filter(|span| is_name(span)).collect();
        assert!(named.len() > 15, "{page} was read: {named:?}");
        let code = speaks_of_code(&text);
        // A prefix says how a kind of tests is named.
        let is_there = |name: &str| {
            names.has_test(name)
                || (code.contains(name) && names.functions.contains(name))
                || name.ends_with('_')
        };
        let missing: Vec<_> = named.into_iter().filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "{page} names what is no test: {missing:?}");
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

/// RFC 3986 §2.2: `reserved = gen-delims / sub-delims`, but for `#`, which ends what is compared.
const RESERVED: &str = "!$&'()*+,/:;=?@[]";

/// The reserved characters that are not their percent-encoding where `around` puts them.
fn unlike_their_escapes(around: impl Fn(&str) -> String) -> String {
    let covers = |pattern: &str, target: &str| {
        let robots = format!("user-agent: *\ndisallow: {pattern}\n");
        let rules = abide_robots::Rules::parse(robots.as_bytes(), &["ExampleBot".parse().unwrap()]);
        !rules.verdict(&abide_robots::Target::new(target)).is_allowed()
    };
    let is_unlike = |letter: &char| {
        let (plain, escape) = (around(&letter.to_string()), around(&format!("%{:02X}", u32::from(*letter))));
        assert!(covers(&plain, &plain) && covers(&escape, &escape), "{letter} is itself");
        let both = [covers(&plain, &escape), covers(&escape, &plain)];
        assert_eq!(both[0], both[1], "{letter}: either way round");
        !both[0]
    };
    RESERVED.chars().filter(is_unlike).map(String::from).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_names_each_reserved_character_that_is_not_its_escape() {
    let (path, query) = (
        unlike_their_escapes(|letter| format!("/a{letter}b")),
        unlike_their_escapes(|letter| format!("/a?b{letter}c")),
    );
    let page = std::fs::read_to_string(root().join("docs/dev/rfc9309.md")).unwrap();
    for said in
        [format!("In the path `{path}` are not their escapes"), format!("In the query `{query}` are not")]
    {
        assert!(page.contains(&said), "{said}");
    }
}

#[test]
fn module_docs_say_what_a_file_contains_and_why_it_exists() {
    let sources = files(["crates"]).into_iter().filter(|file| {
        file.components().any(|part| part.as_os_str() == "src") && file.extension() == Some("rs".as_ref())
    });
    for file in sources {
        let source = std::fs::read_to_string(&file).unwrap();
        let mut docs = source.lines().map_while(|line| line.strip_prefix("//!"));
        let is_explained = docs.by_ref().any(str::is_empty) && docs.any(|line| line.starts_with(' '));
        let is_readme = source.starts_with("#![") && source.contains("README.md");
        assert!(is_explained || is_readme, "{}", file.display());
    }
}
