//! Runs the vectors: facts as data, one loop each.

use std::collections::{BTreeMap, HashSet};

use abide_robots::{ParseOptions, ProductToken, Record, RecordKind, Robots, Rules, Target};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

/// The rows `[[name]]` of a file.
fn table<T: DeserializeOwned>(name: &str, text: &str) -> Vec<T> {
    let mut tables: BTreeMap<String, Vec<T>> = toml::from_str(text).unwrap();
    tables.remove(name).unwrap()
}

#[derive(Deserialize)]
struct Probe {
    name: String,
    clause: String,
    robots: String,
    url: String,
    allowed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    clause: String,
    robots: String,
    #[serde(default = "foobot")]
    agent: Vec<String>,
    #[serde(default)]
    allowed: Vec<String>,
    #[serde(default)]
    denied: Vec<String>,
    #[serde(default)]
    lines: BTreeMap<String, u32>,
    group: Option<Vec<String>>,
    token: Option<String>,
    delay: Option<f64>,
    sitemaps: Option<Vec<String>>,
    licenses: Option<Vec<String>>,
    records: Option<usize>,
    pattern: Option<String>,
    #[serde(default)]
    verdicts: BTreeMap<String, String>,
    #[serde(default)]
    google: bool,
}

fn foobot() -> Vec<String> {
    vec!["foobot".into()]
}

#[test]
fn probes_of_single_features() {
    let probes: Vec<Probe> = table("probe", include_str!("../vectors/rfc_probes.toml"));
    assert!(probes.len() >= 99);
    let mut names = HashSet::new();
    for probe in &probes {
        assert!(names.insert(&probe.name), "{} occurs twice", probe.name);
        assert!(probe.name.starts_with("rfc_") && probe.clause.starts_with('2'), "{}", probe.name);
        let body = bytes(&probe.robots);
        check(&probe.name, &body, &[ProductToken::new("foobot").unwrap()], &probe.url, probe.allowed);
    }
}

#[test]
fn cases() {
    let cases: Vec<Case> = table("case", include_str!("../vectors/cases.toml"));
    let mut names = HashSet::new();
    for case in &cases {
        assert!(names.insert(&case.name), "{} occurs twice", case.name);
        let prefixes = ["rfc_", "lenient_", "stricter_"];
        assert!(prefixes.iter().any(|prefix| case.name.starts_with(prefix)), "{}", case.name);
        assert!(!case.clause.is_empty(), "{}", case.name);
        run(case);
    }
}

fn run(case: &Case) {
    let name = &case.name;
    let body = bytes(&case.robots);
    let tokens: Vec<ProductToken> =
        case.agent.iter().map(|token| ProductToken::lenient(token).unwrap()).collect();
    let options = if case.google { ParseOptions::google() } else { ParseOptions::new() };
    let rules = Rules::parse_with(&body, &tokens, options);
    for (targets, allowed) in [(&case.allowed, true), (&case.denied, false)] {
        for target in targets {
            let target = String::from_utf8(bytes(target)).unwrap();
            let verdict = rules.verdict(&Target::new(&target));
            assert_eq!(verdict.is_allowed(), allowed, "{name}: {target}: {verdict}");
            if !case.google {
                check(name, &body, &tokens, &target, allowed);
            }
        }
    }
    agrees(name, &Robots::parse_with(&body, options), &rules, &tokens);
    for (target, shown) in &case.verdicts {
        assert_eq!(rules.verdict(&Target::new(target)).to_string(), *shown, "{name}: {target}");
    }
    for (target, line) in &case.lines {
        let verdict = rules.verdict(&Target::new(target));
        assert_eq!(verdict.rule().map(|rule| rule.line()), Some(*line), "{name}: line for {target}");
    }
    if let Some(group) = &case.group {
        assert_eq!(&rules.group().collect::<Vec<_>>(), group, "{name}: group");
        assert_eq!(rules.has_group(), !group.is_empty(), "{name}: has group");
    }
    if let Some(token) = &case.token {
        assert_eq!(rules.token(), Some(&**token), "{name}: token");
        assert!(rules.is_named(), "{name}");
    }
    if let Some(sitemaps) = &case.sitemaps {
        assert_eq!(&rules.sitemaps().collect::<Vec<_>>(), sitemaps, "{name}: sitemaps");
    }
    if let Some(licenses) = &case.licenses {
        assert_eq!(&rules.licenses().collect::<Vec<_>>(), licenses, "{name}: licenses");
    }
    if let Some(records) = case.records {
        assert_eq!(rules.records().count(), records, "{name}: records");
    }
    if let Some(pattern) = &case.pattern {
        let verdict = rules.verdict(&Target::new(&case.denied[0]));
        assert_eq!(verdict.rule().unwrap().value(), pattern.as_bytes(), "{name}: pattern");
    }
    assert_eq!(rules.crawl_delay().map(|delay| delay.as_secs_f64()), case.delay, "{name}: delay");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GoogleFile {
    #[serde(default)]
    name: String,
    robots: String,
    #[serde(default)]
    allowed: Vec<Vec<String>>,
    #[serde(default)]
    denied: Vec<Vec<String>>,
    /// By agent and target.
    #[serde(default)]
    rfc_differs: BTreeMap<String, String>,
}

/// Google's expectations hold in its profile; in ours, all but those that a clause explains.
#[test]
fn google_expectations() {
    let files: Vec<GoogleFile> = table("file", include_str!("../vectors/google.toml"));
    let count: usize = files.iter().map(|file| check_google(&file.name, file)).sum();
    assert_eq!(count, 400);
}

/// Gives the number of expectations.
fn check_google(name: &str, file: &GoogleFile) -> usize {
    let google = ParseOptions::google();
    let body = bytes(&file.robots);
    let expectations = [(&file.allowed, true), (&file.denied, false)];
    let lists =
        expectations.into_iter().flat_map(|(lists, allowed)| lists.iter().map(move |list| (list, allowed)));
    let mut count = 0;
    for (list, allowed) in lists {
        let agent = &list[0];
        // What is no product token addresses no group.
        let tokens: Vec<ProductToken> = ProductToken::lenient(agent).into_iter().collect();
        for text in &list[1..] {
            count += 1;
            let path = String::from_utf8(bytes(text)).unwrap();
            let target = Target::new(&path);
            let verdict = Rules::parse_with(&body, &tokens, google).verdict(&target);
            assert_eq!(verdict.is_allowed(), allowed, "{name}: {agent} {text}: {verdict}");
            let differs = file.rfc_differs.contains_key(&format!("{agent} {text}"));
            let verdict = Rules::parse(&body, &tokens).verdict(&target);
            assert_eq!(verdict.is_allowed(), allowed != differs, "{name}: {agent} {text}: {verdict}");
        }
    }
    count
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LibraryTest {
    name: String,
    facts: usize,
    #[serde(default)]
    left_out: usize,
    #[serde(default)]
    why: String,
    #[serde(default)]
    tokens: Vec<String>,
    #[serde(default)]
    no_tokens: Vec<String>,
    #[serde(default)]
    targets: BTreeMap<String, String>,
    #[serde(default)]
    patterns: BTreeMap<String, String>,
    #[serde(default)]
    file: Vec<GoogleFile>,
    #[serde(default)]
    read: Vec<Read>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    robots: String,
    known: Option<usize>,
    other: Option<usize>,
    last_line: Option<u32>,
    sitemap: Option<String>,
    #[serde(default)]
    lines: Vec<String>,
}

/// What the tests of Google's library expect, test by test.
#[test]
fn google_library_expectations() {
    let tests: Vec<LibraryTest> = table("test", include_str!("../vectors/google_library.toml"));
    for test in &tests {
        let name = &test.name;
        assert_eq!(test.left_out == 0, test.why.is_empty(), "{name}");
        for (tokens, valid) in [(&test.tokens, true), (&test.no_tokens, false)] {
            for token in tokens {
                assert_eq!(ProductToken::new(token).is_ok(), valid, "{name}: {token}");
            }
        }
        for (url, path) in &test.targets {
            assert_eq!(Target::new(url).as_str(), path, "{name}: {url}");
        }
        for (text, normal) in &test.patterns {
            // Behind a slash, without which no pattern covers anything.
            let covered = Target::new(&format!("/{normal}")).covered_by(format!("/{text}").as_bytes());
            assert_eq!(covered, Some(normal.len() + 1), "{name}: {text}");
        }
        let verdicts: usize = test.file.iter().map(|file| check_google(name, file)).sum();
        let reads: usize = test.read.iter().map(|read| check_read(name, read)).sum();
        let others = test.tokens.len() + test.no_tokens.len() + test.targets.len() + test.patterns.len();
        assert_eq!(verdicts + reads + others + test.left_out, test.facts, "{name}");
    }
    let facts = |reporting: bool| -> usize {
        let tests = tests.iter().filter(|test| test.name.starts_with("reporting") == reporting);
        tests.map(|test| test.facts).sum()
    };
    assert_eq!((tests.len(), facts(false), facts(true)), (23, 201, 29));
}

/// Gives the number of expectations.
fn check_read(name: &str, read: &Read) -> usize {
    let body = bytes(&read.robots);
    let robots = Robots::parse_with(&body, ParseOptions::google());
    let known = [RecordKind::UserAgent, RecordKind::Allow, RecordKind::Disallow, RecordKind::Sitemap];
    let is_known = |record: &Record<'_>| known.contains(&record.kind());
    let mut count = 0;
    let mut expect = |holds: Option<bool>, what: &str| {
        assert_ne!(holds, Some(false), "{name}: {what} of {}", read.robots);
        count += usize::from(holds.is_some());
    };
    expect(read.known.map(|known| robots.records().filter(is_known).count() == known), "known");
    expect(
        read.other.map(|other| robots.records().filter(|record| !is_known(record)).count() == other),
        "other",
    );
    expect(read.last_line.map(|line| robots.records().last().unwrap().line() == line), "last line");
    expect(read.sitemap.as_ref().map(|sitemap| robots.sitemaps().eq([sitemap.as_str()])), "sitemap");
    for (line, expected) in (1..).zip(&read.lines) {
        expect(Some(described(&robots, line) == *expected), &format!("line {line}, {expected:?}"));
    }
    count
}

/// The kind of a line, and what Google reports too of what is remarked on it.
fn described(robots: &Robots, line: u32) -> String {
    let kinds = robots.records().filter(|record| record.line() == line).map(|record| match record.kind() {
        RecordKind::Other => String::from("Other"),
        kind => String::from(kind.name()),
    });
    let reported = ["missing-colon", "misspelt-key", "unreadable-line", "overlong-line"];
    let remarks =
        robots.remarks().into_iter().filter(|remark| remark.line() == line).map(|remark| remark.kind());
    let remarks = remarks.filter(|kind| reported.contains(kind)).map(String::from);
    kinds.chain(remarks).collect::<Vec<_>>().join(", ")
}

/// The normal form of a text as a target, which is its own; as a pattern the text covers that, with these
/// bytes.
#[test]
fn targets() {
    let rows = include_str!("../vectors/targets.tsv").lines().filter(|row| !row.starts_with('#'));
    for columns in rows.map(|row| row.split('\t').collect::<Vec<_>>()) {
        let text = String::from_utf8(bytes(columns[0])).unwrap();
        let target = Target::new(&text);
        assert_eq!(target.as_str(), columns[1], "{text:?}");
        assert_eq!(Target::new(columns[1]), target, "{text:?}");
        if let Some(count) = columns.get(2) {
            assert_eq!(target.covered_by(text.as_bytes()), count.parse().ok(), "{text:?}");
        }
    }
}

#[test]
fn remarks() {
    let rows = include_str!("../vectors/remarks.tsv").lines().filter(|row| !row.starts_with('#'));
    let mut wrong = Vec::new();
    for (text, expected) in rows.map(|row| row.split_once('\t').unwrap()) {
        let google = text.strip_prefix("google:");
        let options = google.map_or_else(ParseOptions::new, |_| ParseOptions::google());
        let remarks = Robots::parse_with(&bytes(google.unwrap_or(text)), options).remarks();
        let shown = remarks.iter().map(|r| format!("{}:{:?} {}: {r}", r.line(), r.columns(), r.kind()));
        let shown = shown.collect::<Vec<_>>().join(" | ");
        let shown = if shown.is_empty() { "-" } else { &shown };
        if shown != expected {
            wrong.push(format!("{text}\n  found    {shown}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Asks the compiled rules and the document.
fn check(name: &str, body: &[u8], tokens: &[ProductToken], text: &str, allowed: bool) {
    let target = Target::new(text);
    let rules = Rules::parse(body, tokens);
    let verdict = rules.verdict(&target);
    assert_eq!(verdict.is_allowed(), allowed, "{name}: {target}: {verdict}");
    assert_eq!(rules.is_allowed(&target), allowed, "{name}: {target}: {verdict}");
    agrees(name, &Robots::parse(body), &rules, tokens);
    if let Some(url) = url_of(text) {
        let parsed = Target::new(&url[url::Position::BeforePath..url::Position::AfterQuery]);
        assert_eq!(rules.is_allowed(&parsed), allowed, "{name}: {url}: {verdict}");
    }
}

/// What the document says and what is compiled for one crawler.
fn agrees(name: &str, robots: &Robots, rules: &Rules, tokens: &[ProductToken]) {
    assert_eq!(&robots.rules(tokens), rules, "{name}: the document agrees");
    assert!(robots.sitemaps().eq(rules.sitemaps()), "{name}: sitemaps of the document");
    assert!(robots.licenses().eq(rules.licenses()), "{name}: licenses of the document");
}

/// The target as a URL, but for those that a URL parser makes another of: it resolves dot segments and drops
/// line ends.
fn url_of(target: &str) -> Option<Url> {
    let is_other = !target.starts_with('/') || target.contains("/.") || target.contains(char::is_control);
    if is_other { None } else { Some(Url::parse(&format!("https://example.com{target}")).unwrap()) }
}

/// Resolves `\xNN`, `\t`, `\r`, `\n`, `\\` and `{N:text}`.
fn bytes(text: &str) -> Vec<u8> {
    let text = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (bytes, length) = match &text[at..] {
            [b'\\', b'x', high, low, ..] => {
                let digits = [*high, *low];
                (vec![u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()], 4)
            }
            [b'\\', b't', ..] => (vec![b'\t'], 2),
            [b'\\', b'r', ..] => (vec![b'\r'], 2),
            [b'\\', b'n', ..] => (vec![b'\n'], 2),
            [b'\\', b'\\', ..] => (vec![b'\\'], 2),
            [b'{', b'0'..=b'9', ..] => repeated(&text[at..]),
            [byte, ..] => (vec![*byte], 1),
            [] => unreachable!(),
        };
        out.extend(bytes);
        at += length;
    }
    out
}

fn repeated(text: &[u8]) -> (Vec<u8>, usize) {
    let end = text.iter().position(|&byte| byte == b'}').unwrap();
    let inner = std::str::from_utf8(&text[1..end]).unwrap();
    let (count, piece) = inner.split_once(':').unwrap();
    (piece.repeat(count.parse().unwrap()).into_bytes(), end + 1)
}
