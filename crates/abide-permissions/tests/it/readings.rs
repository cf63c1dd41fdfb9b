//! What is read of fields and documents: the table `vectors/readings.toml`, whose head says what its cases
//! have.

use abide_permissions::{Head, ReadOptions};
use toml::{Table, Value};

use crate::{read_with, scan_as};

fn text<'a>(case: &'a Table, key: &str) -> Option<&'a str> {
    case.get(key).and_then(Value::as_str)
}

fn number(case: &Table, key: &str, default: usize) -> usize {
    case.get(key).and_then(Value::as_integer).map_or(default, |number| number.try_into().unwrap())
}

/// Repeats: `{3*ab}` is `ababab`.
fn repeated(text: &str) -> String {
    let repeat = |part: &str| -> Option<String> {
        let (inner, rest) = part.split_once('}')?;
        let (count, piece) = inner.split_once('*')?;
        Some(piece.repeat(count.parse().ok()?) + rest)
    };
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + &repeat(part).unwrap_or_else(|| format!("{{{part}")))
}

fn options(case: &Table) -> ReadOptions {
    let is_set = |key: &str| case.get(key).and_then(Value::as_bool) == Some(true);
    let plain = ReadOptions::new(text(case, "agent").unwrap_or("ExampleBot").parse().unwrap());
    let limited = |options: ReadOptions, key: &str, with: fn(ReadOptions, usize) -> ReadOptions| {
        if case.contains_key(key) { with(options, number(case, key, 0)) } else { options }
    };
    let options = plain.with_strict_sf(is_set("strict")).with_body_metas(is_set("body_metas"));
    let options = limited(options, "field_limit", |options, max| options.with_field_limit(max).unwrap());
    limited(options, "head_limit", |options, max| options.with_head_limit(max).unwrap())
}

fn lines(text: impl Iterator<Item = String>) -> String {
    text.map(|line| line + "\n").collect()
}

fn check(case: &Table, document: Option<&str>) {
    let options = options(case);
    let fields = case.get("fields").and_then(Value::as_array).cloned().unwrap_or_default();
    let fields: Vec<(String, String)> = fields
        .iter()
        .map(|line| (line[0].as_str().unwrap().to_owned(), repeated(line[1].as_str().unwrap())))
        .collect();
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let document = document.map(repeated);
    for size in [1, 3, 5, 7, 1000, usize::MAX] {
        let head = match &document {
            Some(document) => scan_as(&options, text(case, "type"), document.as_bytes(), size),
            None => Head::default(),
        };
        let what = format!("{}: {document:?} by {size}", case["name"]);
        if let Some(end) = text(case, "end") {
            assert_eq!(format!("{:?}", head.end()), end, "{what}");
        }
        let found = read_with(&options, &fields, head);
        if let Some(rules) = text(case, "rules") {
            assert_eq!(found.rules().to_string(), rules, "{what}");
        }
        if let Some(noindex) = text(case, "noindex") {
            assert_eq!(format!("{:?}", found.noindex_known()), noindex, "{what}");
        }
        if let Some(statements) = text(case, "statements") {
            let all = found.statements().iter().map(|(place, rules)| format!("{place} => {rules}"));
            assert_eq!(lines(all), statements, "{what}");
        }
        if let Some(warnings) = text(case, "warnings") {
            let all = found.warnings().iter().map(|(place, problem)| format!("{place} => {problem}"));
            assert_eq!(lines(all), warnings, "{what}");
        }
        if let Some(is_truncated) = case.get("truncated").and_then(Value::as_bool) {
            assert_eq!(found.is_truncated(), is_truncated, "{what}");
        }
    }
}

#[test]
fn each_reading() {
    let table: Table = include_str!("../vectors/readings.toml").parse().unwrap();
    for case in table["case"].as_array().unwrap() {
        let case = case.as_table().unwrap();
        match case.get("documents").and_then(Value::as_array) {
            Some(documents) => documents.iter().for_each(|document| check(case, document.as_str())),
            None => check(case, None),
        }
    }
}
