//! Calls as data, `vectors/calls/*.toml`: what each prints, how it ends, and what its site was asked for. The
//! head of each file says what its rows have.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use abide_tests::{Reply, Seen, Server, Step};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Ran, blocking, command, directory, keys, now, to, unix_seconds};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// By path, or host and path; what ends in `*` is a beginning. Without an entry there is no robots.txt,
    /// and a page is the word "end".
    #[serde(default)]
    site: BTreeMap<String, BTreeMap<String, Answer>>,
    /// Files by their names, which stand in braces for their paths.
    #[serde(default)]
    files: BTreeMap<String, String>,
    case: Vec<Case>,
}

/// In its texts `SITE` is the beginning of the URLs of the host, `HOST` the host and its port, `PORT` the
/// port, and `REST` what stands for the `*`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Page(String),
    Whole(Whole),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
    /// Milliseconds before it.
    #[serde(default)]
    after: u64,
    /// All of it, before the connection is closed, or reset.
    raw: Option<String>,
    #[serde(default)]
    resets: bool,
}

impl Answer {
    fn reply(&self, seen: &Seen, rest: &str) -> Reply {
        let site = seen.site();
        let (host, port) = (&site["http://".len()..], site.rsplit(':').next().unwrap_or_default());
        let names = [("SITE", site.as_str()), ("HOST", host), ("PORT", port), ("REST", rest)];
        let text =
            |text: &str| names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
        match self {
            Self::Page(body) if seen.path == "/robots.txt" => Reply::new(200, text(body)),
            Self::Page(body) => Reply::html(text(body)),
            Self::Whole(Whole { raw: Some(raw), resets, .. }) => {
                let end = resets.then_some(Step::Reset);
                Reply::raw([Step::send(text(raw))].into_iter().chain(end).collect())
            }
            Self::Whole(Whole { status, headers, body, after, .. }) => {
                let headers: Vec<(&str, String)> =
                    headers.iter().map(|(name, value)| (&**name, text(value))).collect();
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(name, value)| (*name, &**value)).collect();
                Reply::with_headers(status.unwrap_or(200), &headers, text(body))
                    .after(Duration::from_millis(*after))
            }
        }
    }
}

fn reply(site: &BTreeMap<String, Answer>, seen: &Seen) -> Reply {
    let what = seen.what();
    if let Some(answer) = site.get(&what).or_else(|| site.get(&seen.path)) {
        return answer.reply(seen, "");
    }
    let rest = |start: &str| what.strip_prefix(start).or_else(|| seen.path.strip_prefix(start));
    let found = site.iter().rev().find_map(|(name, answer)| Some((answer, rest(name.strip_suffix('*')?)?)));
    match found {
        Some((answer, rest)) => answer.reply(seen, rest),
        None if seen.path == "/robots.txt" => Reply::new(404, ""),
        None => Reply::html("end"),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    site: Option<String>,
    /// Its calls get no option: no name leads to the server.
    #[serde(default)]
    bare: bool,
    #[serde(default)]
    files: BTreeMap<String, String>,
    run: Vec<Map<String, Value>>,
    /// Parts of no output, and of no file below `OUT`, but for the bodies of pages.
    #[serde(default)]
    hides: Vec<String>,
    /// Hosts and paths, in any order.
    asked: Option<Vec<String>>,
}

/// Once for each of `calls`, which is `{call}`, and each row of `each`, whose columns are `{0}`, `{1}` and so
/// on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    call: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// What stands in files of the case, instead of what stood there.
    #[serde(default)]
    files: BTreeMap<String, String>,
    status: Value,
    /// All of standard output, and of standard error.
    out: Option<String>,
    err: Option<String>,
    /// Parts of standard output, of standard error, and of neither; nor of files below `OUT`, but for
    /// stores.
    #[serde(default)]
    shows: Vec<String>,
    #[serde(default)]
    reports: Vec<String>,
    #[serde(default)]
    hides: Vec<String>,
    /// Ends of the names of files that are below `OUT` then.
    #[serde(default)]
    leaves: Vec<String>,
    /// How many lines there are.
    count: Option<usize>,
    err_count: Option<usize>,
    /// What each line of JSON has, and what one of them has: see [`differs`].
    lines: Option<Vec<String>>,
    #[serde(default)]
    some: Vec<String>,
}

/// Replaces in every text of a run.
fn fill(value: &mut Value, names: &[(String, String)]) {
    match value {
        Value::String(text) => {
            *text = names.iter().fold(std::mem::take(text), |text, (name, value)| text.replace(name, value));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|item| fill(item, names)),
        _ => {}
    }
}

/// Rows of columns; one without columns where there are none.
fn texts(value: Option<Value>) -> Vec<Vec<String>> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |value: &Value| match value {
        Value::Array(columns) => columns.iter().map(text).collect(),
        one => vec![text(one)],
    };
    value.map_or(vec![Vec::new()], |rows| rows.as_array().expect("a list").iter().map(row).collect())
}

fn runs(run: &Map<String, Value>, names: &[(String, String)]) -> Vec<Run> {
    let (mut run, mut runs) = (run.clone(), Vec::new());
    let [calls, rows] = ["calls", "each"].map(|name| texts(run.remove(name)));
    for call in calls {
        for row in &rows {
            let columns =
                row.iter().cloned().enumerate().map(|(number, text)| (format!("{{{number}}}"), text));
            let call = call.iter().map(|call| ("{call}".to_owned(), call.clone()));
            let all: Vec<_> = call.chain(columns).chain(names.iter().cloned()).collect();
            let mut run = Value::Object(run.clone());
            fill(&mut run, &all);
            runs.push(serde_json::from_value(run).unwrap_or_else(|error| panic!("{error}")));
        }
    }
    runs
}

/// Whether the object does not have what is expected: by JSON Pointer (RFC 6901) the value; the names of its
/// fields, after `keys`; or a part of its text, after `has`; what it exceeds, after `above`; what it does not
/// reach, after `below`; and how many seconds from now it is, at least and at most, after `in`.
fn differs(found: &Value, expected: &str) -> Option<String> {
    let expected: Value = expected.parse().unwrap_or_else(|error| panic!("{error}: {expected}"));
    let differs = |(place, expected): (&String, &Value)| {
        let (what, place) = place.rsplit_once(' ').unwrap_or(("", place));
        let value = found.pointer(place).unwrap_or(&Value::Null);
        let holds = match (what, expected.as_str().unwrap_or_default()) {
            ("keys", expected) => keys(value) == expected,
            ("has", part) => value.as_str().is_some_and(|text| text.contains(part)),
            ("above", _) => value.as_f64() > expected.as_f64(),
            ("below", _) => value.as_f64() < expected.as_f64(),
            ("in", _) => {
                let left = unix_seconds(value).saturating_sub(now());
                expected[0].as_u64() <= Some(left) && Some(left) <= expected[1].as_u64()
            }
            _ => value == expected,
        };
        (!holds).then(|| format!("expected {what} {place} {expected} in {found}"))
    };
    expected.as_object().expect("places and what they have").iter().find_map(differs)
}

/// What is wrong.
fn problems(case: &Case, run: &Run, ran: &Ran) -> Vec<String> {
    let status = run.status.as_str().map_or_else(|| run.status.to_string(), str::to_owned);
    let mut found = Vec::new();
    let mut expect = |holds: bool, what: String| found.extend((!holds).then_some(what));
    expect(status == ran.status.to_string(), format!("expected status {status}, found {}", ran.status));
    for (all, expected) in [(&ran.out, &run.out), (&ran.err, &run.err)] {
        expect(expected.as_ref().is_none_or(|expected| expected == all), format!("expected {expected:?}"));
    }
    for (all, count) in [(&ran.out, run.count), (&ran.err, run.err_count)] {
        expect(count.is_none_or(|count| all.lines().count() == count), format!("expected {count:?} lines"));
    }
    for (all, parts) in [(&ran.unwrapped(), &run.shows), (&ran.err, &run.reports)] {
        parts.iter().for_each(|part| expect(all.contains(part), format!("expected {part:?}")));
    }
    for part in case.hides.iter().chain(&run.hides) {
        expect(!ran.out.contains(part) && !ran.err.contains(part), format!("unexpected {part:?}"));
    }
    if let Some(expected) = &run.lines {
        let lines = ran.lines();
        expect(lines.len() == expected.len(), format!("expected {} lines", expected.len()));
        found.extend(lines.iter().zip(expected).filter_map(|(found, expected)| differs(found, expected)));
    }
    for expected in &run.some {
        if !ran.lines().iter().any(|line| differs(line, expected).is_none()) {
            found.push(format!("expected a line with {expected}"));
        }
    }
    found
}

/// Every file below `directory`, but for the bodies of pages, which are what the server sent.
fn files(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_body = path.file_stem().is_some_and(|stem| stem.to_string_lossy().parse::<u64>().is_ok());
        if path.is_dir() {
            found.extend(files(&path));
        } else if !is_body {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
    found
}

fn problems_of_files(case: &Case, run: &Run, out: &Path) -> Vec<String> {
    let (files, mut found) = (files(out), Vec::new());
    for end in &run.leaves {
        if !files.iter().any(|(name, text)| name.ends_with(end) && !text.is_empty()) {
            found.push(format!("expected a file {end}"));
        }
    }
    for (name, text) in files {
        let parts = run.hides.iter().filter(|_| !name.ends_with(".redb"));
        let shown = case.hides.iter().chain(parts).filter(|part| text.contains(*part));
        found.extend(shown.map(|part| format!("unexpected {part:?} in {name}")));
    }
    found
}

async fn run(case: &Case, table: &'static Table) -> Vec<String> {
    let place = directory();
    let mut names: Vec<(String, String)> = Vec::new();
    for (name, content) in table.files.iter().chain(&case.files) {
        std::fs::write(place.path().join(name), content).expect("a temporary file can be written");
        names.push((format!("{{{name}}}"), place.place(name)));
    }
    let out = place.path().join("out");
    std::fs::create_dir(&out).expect("a directory can be made");
    names.push(("OUT".to_owned(), out.display().to_string()));
    let server = match &case.site {
        None => None,
        Some(name) => {
            let site = &table.site[name];
            Some(Server::start(move |seen| reply(site, seen)).await)
        }
    };
    names.extend(server.iter().map(|server| ("PORT".to_owned(), server.address().port().to_string())));
    let mut found = Vec::new();
    for run in case.run.iter().flat_map(|run| runs(run, &names)) {
        for (name, content) in &run.files {
            std::fs::write(place.path().join(name), content).expect("a temporary file can be written");
        }
        let args = server.as_ref().filter(|_| !case.bare).map(|server| to(server, run.call.as_str()));
        let (call, input, env) = (run.call.clone(), run.input.clone(), run.env.clone());
        let ran = blocking(move || {
            let mut command = args.map_or_else(|| command(&call), |args| command(&args));
            crate::fed(command.envs(env), input)
        })
        .await;
        for problem in problems(case, &run, &ran).into_iter().chain(problems_of_files(case, &run, &out)) {
            found.push(format!("{}: {}: {problem}\n{}{}", case.name, run.call, ran.out, ran.err));
        }
    }
    if let (Some(expected), Some(server)) = (&case.asked, server) {
        let (mut expected, mut asked) = (expected.clone(), server.asked());
        expected.sort();
        asked.sort();
        if asked != expected {
            found.push(format!("{}: asked for {asked:?}", case.name));
        }
    }
    found
}

/// Repeats: `{3*ab}` is `ababab`.
fn repeat(text: &str) -> String {
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let inner = part.split_once('}').and_then(|(inner, rest)| Some((inner.split_once('*')?, rest)));
        match inner.and_then(|((count, piece), rest)| Some((count.parse().ok()?, piece, rest))) {
            Some((count, piece, rest)) => out.extend([&*piece.repeat(count), rest]),
            None => out.extend(["{", part]),
        }
    }
    out
}

/// Cases run beside each other, as nearly all wait for their calls.
async fn table(text: &str) {
    let table: &'static Table = Box::leak(Box::new(toml::from_str(&repeat(text)).unwrap()));
    let found: Vec<Vec<String>> =
        stream::iter(&table.case).map(|case| run(case, table)).buffer_unordered(4).collect().await;
    let found = found.concat();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test]
async fn each_offline_call() {
    table(include_str!("../vectors/calls/offline.toml")).await;
}

#[tokio::test]
async fn each_call_of_wrong_usage() {
    table(include_str!("../vectors/calls/usage.toml")).await;
}

#[tokio::test]
async fn each_online_call() {
    table(include_str!("../vectors/calls/online.toml")).await;
}

#[tokio::test]
async fn each_crawl() {
    table(include_str!("../vectors/calls/crawl.toml")).await;
}

#[tokio::test]
async fn each_call_that_must_hide_something() {
    table(include_str!("../vectors/calls/unsafe.toml")).await;
}
