//! What the author of a robots.txt should know: the remarks of the parser, and mistakes that it has no reason
//! to see.
//!
//! `docs/lint-codes.md` is written from the codes here.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use abide_permissions::record_problem;
use abide_robots::{Record, RecordKind, Robots};
use annotate_snippets::Level;
use serde::Serialize;

use crate::nearest;
use crate::sanitize::{scheme, without_user};

/// One mistake, and where it stands: what `--json` has of it.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) line: u32,
    /// Bytes of the line, the first being 1.
    pub(crate) column: usize,
    /// Behind the last.
    pub(crate) column_end: usize,
    #[serde(rename = "kind")]
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) severity: Severity,
    pub(crate) help: Option<String>,
}

/// Everything that there is to say of a file, in its order. `is_cut`: it was cut when it was fetched, which
/// its text does not show.
pub(crate) fn of(robots: &Robots, is_cut: bool) -> Vec<Finding> {
    let mut findings = remarks(robots);
    if is_cut {
        let last = (1..).zip(robots.lines()).last().map_or(1, |(number, _)| number);
        let message = "the file is longer than the limit; the rest is not read".to_owned();
        findings.push(finding(last, 1..1, "cut-by-limit", message));
    }
    for record in robots.records() {
        record_alone(robots, &record, &mut findings);
    }
    repeated_groups(robots, &mut findings);
    findings.sort_by_key(|finding| (finding.line, finding.column));
    // A remark may quote a Sitemap with a password in it.
    let texts = findings.iter_mut().flat_map(|found| [Some(&mut found.message), found.help.as_mut()]);
    texts.flatten().for_each(|text| *text = without_user(text).into_owned());
    findings
}

fn finding(line: u32, columns: Range<usize>, code: &'static str, message: String) -> Finding {
    let severity = self::code(code).map_or(Severity::Warning, |code| code.severity);
    let (column, column_end) = (columns.start, columns.end);
    Finding { line, column, column_end, code, message, severity, help: None }
}

/// The remarks of the parser, with the likely correction.
fn remarks(robots: &Robots) -> Vec<Finding> {
    let keys = || KEYS.split(' ');
    let with_help = |remark: &abide_robots::Remark| {
        let columns = remark.columns();
        let line = robots.line(remark.line()).unwrap_or_default();
        let marked =
            line.get(columns.start.saturating_sub(1)..columns.end.saturating_sub(1)).unwrap_or_default();
        let marked = String::from_utf8_lossy(marked).into_owned();
        let help = match remark.kind() {
            // Those have a finding of their own.
            "unknown-record" if non_standard(marked.as_bytes()).is_some() => return None,
            "unknown-record" => nearest::to(&marked, keys()).map(|name| format!("did you mean {name}?")),
            "never-matches" => Some(format!("did you mean /{}?", meant_path(&marked))),
            "invisible-character" => Some("delete it".to_owned()),
            "records-on-one-line" => Some("write each record on a line of its own".to_owned()),
            "utf16-without-mark" => Some("save the file as UTF-8".to_owned()),
            "misspelt-key" => nearest::to(&marked, keys()).map(|name| format!("write {name}")),
            _ => None,
        };
        Some(Finding { help, ..finding(remark.line(), columns, remark.kind(), remark.to_string()) })
    };
    robots.remarks().iter().filter_map(with_help).collect()
}

/// The path that a pattern without a slash was meant to be, without its slash; of a URL, that behind the
/// host.
fn meant_path(pattern: &str) -> &str {
    match pattern.split_at(scheme(pattern).len()) {
        ("", path) => path.trim_start_matches("../").trim_start_matches("./"),
        (_, url) => url.split_once('/').map_or("", |(_, path)| path),
    }
}

fn record_alone(robots: &Robots, record: &Record<'_>, findings: &mut Vec<Finding>) {
    let line = robots.line(record.line()).unwrap_or_default();
    if let Some((name, who)) = non_standard(record.key()) {
        let start = find(line, record.key()).unwrap_or_default() + 1;
        let message = format!("{name:?} is not in the standard: {who}");
        findings.push(finding(record.line(), start..start + name.len(), "non-standard-record", message));
    }
    let value = record.value();
    let at = value_start(line, value);
    let mut add = |code, place: Range<usize>, message: &str, help: &str| {
        let columns = at + place.start + 1..at + place.end + 1;
        let help = Some(help.to_owned()).filter(|help| !help.is_empty());
        findings.push(Finding { help, ..finding(record.line(), columns, code, message.to_owned()) });
    };
    // Of an entity that is written as a number, the # begins a comment.
    if record.kind() != RecordKind::Other
        && let Some((place, help)) = entity(line.get(at..).unwrap_or_default(), value.len())
    {
        add("html-entity", place, "this is read as text, not as an HTML entity", help);
    }
    let text = String::from_utf8_lossy(value);
    match record.kind() {
        RecordKind::Allow | RecordKind::Disallow => of_pattern(value, add),
        RecordKind::Sitemap
            if text.split([' ', '\t', ',']).filter(|part| part.contains("://")).count() > 1 =>
        {
            let message = "two sitemaps stand on one line, which is read as one URL";
            add("two-sitemaps", 0..value.len(), message, "write one Sitemap line for each");
        }
        RecordKind::AppDirectives
        | RecordKind::ContentUsage
        | RecordKind::ContentSignal
        | RecordKind::DisallowAiTraining
        | RecordKind::TdmReservation => {
            for (place, meant) in misspelt_usages(value, record.kind().name()) {
                let message = "the usage is not one of this record, so nothing is allowed by it";
                add("misspelt-usage", place, message, &format!("write {meant}"));
            }
            let Some(problem) = record_problem(record) else { return };
            // What can't be read stands between backticks. Other text may hold it, too, so it is looked for
            // by itself.
            let found = problem.split("found `").nth(1).and_then(|rest| rest.split('`').next());
            let blank = |byte: &u8| if matches!(byte, b',' | b'\t') { b' ' } else { *byte };
            let alone = |text: &[u8]| [b" ", text, b" "].concat().iter().map(blank).collect::<Vec<u8>>();
            let place =
                found.and_then(|found| Some((find(&alone(value), &alone(found.as_bytes()))?, found.len())));
            let place = place.map_or(0..value.len(), |(start, len)| start..start + len);
            add("dropped-preference", place, &problem, "");
        }
        _ => {}
    }
}

/// Of `/path usage=y, usage=n` where a usage stands that is none, and which is meant.
fn misspelt_usages(value: &[u8], field: &str) -> impl Iterator<Item = (Range<usize>, &'static str)> {
    let mut behind = 0;
    value.split(|byte| *byte == b',').filter_map(move |member| {
        let start = behind;
        behind += member.len() + 1;
        let named = member.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii_end();
        let name = named.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
        let end = start + named.len();
        Some((end - name.len()..end, nearest::usage(&String::from_utf8_lossy(name), field)?))
    })
}

/// What looks like another language than that of patterns.
fn of_pattern(value: &[u8], mut add: impl FnMut(&'static str, Range<usize>, &str, &str)) {
    const PER_LINE: &str = "write one rule per line";
    if let Some((place, help)) = regex(value) {
        add("regex-in-path", place, "this is read as text, not as a regular expression", &help);
    }
    if let Some((at, help)) = inner_dollar(value) {
        add(
            "dollar-not-last",
            at..at + 1,
            "the $ is not the last character, so it is compared as itself",
            &help,
        );
    }
    if let Some(at) = value.iter().position(|byte| matches!(byte, b' ' | b'\t')) {
        let is_next = value.get(at..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"/"));
        let help = if is_next { PER_LINE } else { "write %20" };
        add("raw-space", at..at + 1, "the space is part of the pattern", help);
    }
    if let Some(at) = find(value, b",/").or_else(|| find(value, b", /")) {
        add("comma-in-path", at..at + 1, "the comma is part of the pattern, which is one", PER_LINE);
    }
    let is_escape =
        |at: usize| value.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if let Some(at) = (0..value.len()).find(|at| value.get(*at) == Some(&b'%') && !is_escape(*at)) {
        let (end, message) = (value.len().min(at + 3), "the % is not followed by two hexadecimal digits");
        add("bad-percent-escape", at..end, message, "write %25 for a percent sign");
    }
}

/// The first `$` that is not the end, and what to write instead.
fn inner_dollar(value: &[u8]) -> Option<(usize, String)> {
    let at = value.iter().position(|byte| *byte == b'$').filter(|at| at + 1 < value.len())?;
    let (before, behind) = value.split_at_checked(at)?;
    let help = if behind.iter().all(|byte| matches!(byte, b'$' | b'*')) {
        format!("write {}$", String::from_utf8_lossy(before))
    } else {
        "write %24 for a dollar sign, or end the pattern with $".to_owned()
    };
    Some((at, help))
}

/// The first HTML entity of those that programs write when they escape a text, and what to write instead. It
/// begins before `end`.
fn entity(text: &[u8], end: usize) -> Option<(Range<usize>, &'static str)> {
    const NAMED: [(&[u8], &str); 6] = [
        (b"amp", "write &"),
        (b"lt", "write %3C"),
        (b"gt", "write %3E"),
        (b"quot", "write %22"),
        (b"apos", "write '"),
        (b"nbsp", "write %20"),
    ];
    /// Of the longest number of a character.
    const LENGTH_MAX: usize = 10;
    let mut ampersands = (0..end).filter(|at| text.get(*at) == Some(&b'&'));
    ampersands.find_map(|at| {
        let rest = text.get(at + 1..)?;
        let length = rest.iter().take(LENGTH_MAX).position(|byte| *byte == b';')?;
        let name = rest.get(..length)?;
        let help = match name {
            [b'#', b'x' | b'X', digits @ ..] if is_all(digits, u8::is_ascii_hexdigit) => {
                "write the character itself"
            }
            [b'#', digits @ ..] if is_all(digits, u8::is_ascii_digit) => "write the character itself",
            _ => NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?.1,
        };
        Some((at..at + length + 2, help))
    })
}

fn is_all(digits: &[u8], is_digit: fn(&u8) -> bool) -> bool {
    !digits.is_empty() && digits.iter().all(is_digit)
}

/// The first part that is a regular expression by its looks, and what to write instead.
fn regex(value: &[u8]) -> Option<(Range<usize>, String)> {
    let first = |wanted: u8| value.iter().position(|byte| *byte == wanted);
    if let Some(at) = find(value, b".*") {
        return Some((at..at + 2, format!("write {}", String::from_utf8_lossy(value).replace(".*", "*"))));
    }
    if let (Some(open), Some(close)) = (first(b'('), value.iter().rposition(|byte| *byte == b')'))
        && let Some(inner) = value.get(open + 1..close).filter(|inner| inner.contains(&b'|'))
    {
        let (before, behind) = (value.get(..open)?, value.get(close + 1..)?);
        let mut help = "write one rule for each".to_owned();
        let each = || inner.split(|byte| *byte == b'|');
        // Each repeats what is around it, so the list of a long pattern would be the square of its length.
        if value.len() <= 200 && each().count() <= 8 {
            let rules: Vec<_> = each().map(|one| [before, one, behind].concat()).collect();
            help = format!("{help}: {}", String::from_utf8_lossy(&rules.join(&b", "[..])));
        }
        return Some((open..close + 1, help));
    }
    if let (Some(open), Some(close)) = (first(b'['), first(b']'))
        && value.get(open..close).is_some_and(|inner| inner.contains(&b'-') || inner.contains(&b'^'))
    {
        return Some((open..close + 1, "write * for any characters".to_owned()));
    }
    let at = ["\\d", "\\w", "\\.", "\\/"].iter().find_map(|escape| find(value, escape.as_bytes()))?;
    Some((at..at + 2, "write the character itself, or *".to_owned()))
}

/// Names that stand above more than one group.
fn repeated_groups(robots: &Robots, findings: &mut Vec<Finding>) {
    let mut seen: HashMap<String, (usize, u32)> = HashMap::new();
    for (number, group) in robots.groups().enumerate() {
        for record in group {
            let Some(name) = record.agent() else { continue };
            let (first, line) = *seen.entry(name.to_ascii_lowercase()).or_insert((number, record.line()));
            if first != number {
                let start = value_start(robots.line(record.line()).unwrap_or_default(), record.value()) + 1;
                let message = format!("the crawler is named on line {line} already; the groups are combined");
                let columns = start..start + name.len();
                findings.push(finding(record.line(), columns, "repeated-group", message));
            }
        }
    }
}

/// Where the value of a record starts, which is a part of its line. The key and the comment may contain the
/// same text, so it is not looked for.
fn value_start(line: &[u8], value: &[u8]) -> usize {
    (value.as_ptr() as usize).saturating_sub(line.as_ptr() as usize).min(line.len())
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() { None } else { text.windows(part.len()).position(|window| window == part) }
}

/// The records that are read.
const KEYS: &str =
    "User-agent Allow Disallow Sitemap Crawl-delay App-Directives Content-Usage Content-Signal License";

/// The name of a record of others, and who reads it.
fn non_standard(key: &[u8]) -> Option<(&'static str, &'static str)> {
    NON_STANDARD.into_iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(key))
}

const NON_STANDARD: [(&str, &str); 5] = [
    (
        "Noindex",
        "no known crawler reads it (Google stopped in 2019); say noindex in a header field or a meta",
    ),
    ("Host", "Yandex read it until 2018; redirect to the main host instead"),
    ("Request-rate", "Seznam and some older crawlers read it; Crawl-delay is better known"),
    ("Visit-time", "hardly any crawler reads it"),
    ("Clean-param", "Yandex alone reads it"),
];

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Something of the file is not read, or not as its author can have meant it.
    Error,
    /// Some crawlers read it otherwise than it looks.
    Warning,
    /// Nothing changes.
    Note,
}

impl Severity {
    pub(crate) fn level(self) -> Level<'static> {
        match self {
            Self::Error => Level::ERROR,
            Self::Warning => Level::WARNING,
            Self::Note => Level::NOTE,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Code {
    #[serde(rename = "kind")]
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
    pub(crate) text: &'static str,
}

pub(crate) fn code(name: &str) -> Option<&'static Code> {
    CODES.iter().find(|code| code.name == name)
}

/// In the order of the alphabet. Each line of `codes.txt` has a name, a severity, and the text.
pub(crate) static CODES: LazyLock<Vec<Code>> =
    LazyLock::new(|| include_str!("codes.txt").lines().filter_map(read_code).collect());

fn read_code(line: &'static str) -> Option<Code> {
    let (name, rest) = line.split_once(' ')?;
    let (severity, text) = rest.split_once(' ')?;
    let known = [Severity::Error, Severity::Warning, Severity::Note];
    let severity = known.into_iter().find(|known| known.as_str() == severity)?;
    Some(Code { name, severity, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_bytes_in_any_encoding() {
        let findings = of(&Robots::parse(b"User-agent: *\nDisallow: /\xe9\xe9 /b.*"), false);
        let found = findings.iter().map(|found| (found.code, found.column, found.help.as_deref()));
        let found: Vec<_> = found.skip(1).collect();
        let (space, regex) = (Some("write one rule per line"), Some("write /\u{fffd}\u{fffd} /b*"));
        assert_eq!(found, [("raw-space", 14, space), ("regex-in-path", 17, regex)]);
    }

    #[test]
    fn the_page_of_codes_is_up_to_date() {
        let mut page = String::from(
            "# The codes of `abide lint`\n\n`abide lint --explain CODE` prints one of them. Programs may rely on the names (`kind` in `--format json`).\n",
        );
        for (heading, severity) in [
            ("Errors: something is not read, or not as its author can have meant it", Severity::Error),
            ("Warnings: some crawlers read it differently", Severity::Warning),
            ("Notes: nothing changes", Severity::Note),
        ] {
            page.push_str(&format!("\n## {heading}\n\n"));
            for code in CODES.iter().filter(|code| code.severity == severity) {
                page.push_str(&format!("* `{}`: {}\n", code.name, code.text));
            }
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lint-codes.md");
        if std::env::var_os("ABIDE_BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), page);
        assert!(CODES.is_sorted_by_key(|code| code.name));
        assert_eq!(CODES.len(), include_str!("codes.txt").lines().count(), "every line is read");
    }
}
