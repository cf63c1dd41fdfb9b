//! What a file's author should know: lines that are not read, or not read as written.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::group::{Agent, agent, seconds};
use crate::line::{self, Key, Lines, RecordKind, Spelling};
use crate::normal::{self, Side};
use crate::pattern::can_match;
use crate::robots::Robots;
use crate::slice;

/// What is remarked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RemarkKind {
    /// A key is a known misspelling of another, as which it is read.
    MisspeltKey,
    /// The colon is missing, and is read as if it were there.
    MissingColon,
    /// The line is neither a record nor a comment.
    UnreadableLine,
    /// The key is unknown to us; the record changes nothing.
    UnknownRecord,
    /// A record stands before the first user-agent line, so it belongs to nobody.
    OutsideGroup,
    /// A user-agent line names nobody.
    NoToken,
    /// Something follows the product token and is ignored.
    TokenCut,
    /// A record other than a rule stands between user-agent lines, which it does not separate.
    RecordInsideRun,
    /// The pattern can match nothing.
    NeverMatches,
    /// The same rule stands in the group already.
    DuplicateRule,
    /// Another rule of the group decides wherever this one would.
    HiddenRule,
    /// The value is longer than 16 KiB.
    OverlongLine,
    /// The line holds octets that are no UTF-8, or control characters.
    InvalidOctets,
    /// The Crawl-delay is no finite number of seconds.
    UnusableCrawlDelay,
    /// The URL of a Sitemap or License is not absolute.
    RelativeUrl,
    /// The file was cut by the limit.
    CutByLimit,
    /// The file is UTF-16.
    Utf16,
    /// The file looks like HTML.
    Html,
}

/// A remark on a place in a robots.txt. `Display` is one sentence.
///
/// ```
/// use abide_robots::{RemarkKind, Robots};
///
/// let robots = Robots::parse(b"User-agent: *\nDissallow: /a");
/// let remarks = robots.remarks();
/// assert_eq!((remarks[0].kind(), remarks[0].line()), (RemarkKind::MisspeltKey, 2));
/// assert_eq!(remarks[0].columns(), 1..10);
/// assert_eq!(remarks[0].to_string(), "\"Dissallow\" is read as \"Disallow\"");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    kind: RemarkKind,
    line: u32,
    columns: Range<usize>,
    text: String,
}

impl Remark {
    /// What is remarked on.
    pub fn kind(&self) -> RemarkKind {
        self.kind
    }

    /// The line it is about; the first is 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The octets of the line that it is about; the first is 1.
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Robots {
    /// What the file's author should know, in file order. At most a few remarks a line.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut reader =
            Reader { robots: self, remarks: Vec::new(), phase: Phase::Outside, rules: BTreeMap::new() };
        reader.whole_file();
        for ((_, line), number) in Lines::of(self.text()).zip(1..) {
            reader.line(Place { line, number });
        }
        reader.remarks.sort_by_key(|remark| (remark.line, remark.columns.start));
        reader.remarks
    }
}

/// A line and where it stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    line: &'a [u8],
    number: u32,
}

impl Place<'_> {
    /// The columns of the part of the line that stands behind `from` and space.
    fn columns(&self, from: usize, part: &[u8]) -> Range<usize> {
        let space = slice::from(self.line, from).iter().take_while(|&&octet| line::is_space(octet)).count();
        let first = from.saturating_add(space).saturating_add(1);
        first..first.saturating_add(part.len())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Outside,
    /// Inside a run of user-agent lines: where its first other record stands, if it has one.
    Agents {
        other: Option<(u32, usize)>,
    },
    Rules,
}

struct Reader<'a> {
    robots: &'a Robots,
    remarks: Vec<Remark>,
    phase: Phase,
    /// The rules of the group at hand by what they match: the octets and kind of the most specific, its line and place.
    rules: BTreeMap<Vec<u8>, Known>,
}

#[derive(Clone)]
struct Known {
    rank: (usize, bool),
    pattern: Vec<u8>,
    number: u32,
    columns: Range<usize>,
}

impl Reader<'_> {
    fn remark(&mut self, kind: RemarkKind, line: u32, columns: Range<usize>, text: impl Into<String>) {
        self.remarks.push(Remark { kind, line, columns, text: text.into() });
    }

    fn whole_file(&mut self) {
        let text = self.robots.text();
        let start = text.trim_ascii_start();
        if start.first() == Some(&b'<') {
            let space = text.strip_suffix(start).unwrap_or_default();
            let lines_before = Lines::of(space).count() as u32;
            let line = if space.is_empty() { 1 } else { lines_before.saturating_add(1) };
            self.remark(RemarkKind::Html, line, 1..2, "the file looks like HTML, not like a robots.txt");
        }
        if self.robots.is_utf16() {
            self.remark(RemarkKind::Utf16, 1, 1..1, "the file is UTF-16; RFC 9309 asks for UTF-8");
        }
        if self.robots.is_cut() {
            let last = Lines::of(text).count() as u32;
            let sentence = format!(
                "the file is longer than {} octets; the rest is not read",
                self.robots.options().limit
            );
            self.remark(RemarkKind::CutByLimit, last.max(1), 1..1, sentence);
        }
    }

    fn line(&mut self, place: Place<'_>) {
        let content = line::trim(line::without_comment(place.line));
        let Some(key) = line::key(place.line, self.robots.options().profile) else {
            if !content.is_empty() {
                let columns = place.columns(0, content);
                self.remark(
                    RemarkKind::UnreadableLine,
                    place.number,
                    columns,
                    "the line is no record and is skipped",
                );
            }
            return;
        };
        self.octets(place, content);
        self.spelling(place, key);
        self.value(place, key);
        self.group(place, key);
    }

    fn octets(&mut self, place: Place<'_>, content: &[u8]) {
        let valid = core::str::from_utf8(content).map_or_else(|error| error.valid_up_to(), |_| content.len());
        let control = content.iter().position(|&octet| octet.is_ascii_control() && octet != b'\t');
        let first = control.filter(|&at| at < valid).unwrap_or(valid);
        if let Some(octet) = content.get(first) {
            let at = place.columns(0, content).start.saturating_add(first);
            let octet = octet.escape_ascii();
            let sentence = format!(
                "the octet {octet} is neither UTF-8 nor printable; it is compared as its percent-encoding"
            );
            self.remark(RemarkKind::InvalidOctets, place.number, at..at.saturating_add(1), sentence);
        }
    }

    fn spelling(&mut self, place: Place<'_>, key: Key) {
        let before = slice::before(place.line, key.value_at);
        let name = line::trim(before.strip_suffix(b":").unwrap_or(before));
        let (columns, shown) = (place.columns(0, name), quoted(name));
        match key.spelling {
            Spelling::Misspelt => {
                let sentence = format!("{shown} is read as \"{}\"", key.kind.name());
                self.remark(RemarkKind::MisspeltKey, place.number, columns, sentence);
            }
            Spelling::MissingColon => {
                let end = columns.end;
                let sentence = format!("a colon is missing behind {shown}, and is read as if it were there");
                self.remark(RemarkKind::MissingColon, place.number, end..end.saturating_add(1), sentence);
            }
            Spelling::Exact if key.kind == RecordKind::Other => {
                let sentence = format!("the key {shown} is unknown; the record changes nothing");
                self.remark(RemarkKind::UnknownRecord, place.number, columns, sentence);
            }
            Spelling::Exact => {}
        }
    }

    fn value(&mut self, place: Place<'_>, key: Key) {
        let value = line::value(place.line, key.value_at);
        let columns = place.columns(key.value_at, value);
        if value.len() > self.robots.options().profile.line_max() {
            let sentence = "the value is longer than 16 KiB: of a Disallow its beginning counts, any other record is dropped";
            self.remark(RemarkKind::OverlongLine, place.number, columns.clone(), sentence);
        }
        match key.kind {
            RecordKind::UserAgent => self.agent(place.number, columns, value),
            RecordKind::CrawlDelay if seconds(value).is_none() => {
                let sentence =
                    format!("{} is no finite number of seconds; the record is ignored", quoted(value));
                self.remark(RemarkKind::UnusableCrawlDelay, place.number, columns, sentence);
            }
            RecordKind::Sitemap | RecordKind::License if !is_absolute(value) => {
                let sentence =
                    format!("a {} is an absolute URL, which {} is not", key.kind.name(), quoted(value));
                self.remark(RemarkKind::RelativeUrl, place.number, columns, sentence);
            }
            kind if kind.is_rule() && !value.is_empty() && !can_match(value) => {
                let sentence = format!("{} matches nothing, as every path starts with \"/\"", quoted(value));
                self.remark(RemarkKind::NeverMatches, place.number, columns, sentence);
            }
            _ => {}
        }
    }

    fn agent(&mut self, line: u32, columns: Range<usize>, value: &[u8]) {
        match agent(value) {
            Agent::Token([]) => {
                let sentence =
                    format!("{} is neither a product token nor \"*\"; the line names nobody", quoted(value));
                self.remark(RemarkKind::NoToken, line, columns, sentence);
            }
            Agent::Token(name) if name.len() < value.len() => {
                let columns = columns.start.saturating_add(name.len())..columns.end;
                let sentence = format!("the product token is {}; the rest is ignored", quoted(name));
                self.remark(RemarkKind::TokenCut, line, columns, sentence);
            }
            Agent::Token(_) | Agent::Global => {}
        }
    }

    /// How records make groups: RFC 9309 §2.1 and 2.2.4.
    fn group(&mut self, place: Place<'_>, key: Key) {
        let kind = key.kind;
        match (self.phase, kind) {
            (Phase::Agents { other: Some((number, width)) }, RecordKind::UserAgent) => {
                let sentence = "the record does not end the run of user-agent lines: it and what follows belong to all of them";
                self.remark(RemarkKind::RecordInsideRun, number, 1..width.saturating_add(1), sentence);
                self.phase = Phase::Agents { other: None };
            }
            (Phase::Agents { .. }, RecordKind::UserAgent) => {}
            (_, RecordKind::UserAgent) => {
                self.rules.clear();
                self.phase = Phase::Agents { other: None };
            }
            (Phase::Outside, kind) if !kind.is_global() && kind != RecordKind::Other => {
                let columns = place.columns(0, line::trim(place.line));
                let sentence = "the record stands before any user-agent line and belongs to nobody";
                self.remark(RemarkKind::OutsideGroup, place.number, columns, sentence);
            }
            (Phase::Agents { .. } | Phase::Rules, kind) if kind.is_rule() => {
                self.phase = Phase::Rules;
                self.rule(place, key);
            }
            (Phase::Agents { other: None }, _) => {
                self.phase = Phase::Agents { other: Some((place.number, place.line.len())) };
            }
            _ => {}
        }
    }

    /// Two rules match the same if they differ in stars at their ends only. The longer one decides, or the Allow.
    fn rule(&mut self, place: Place<'_>, key: Key) {
        let value = line::value(place.line, key.value_at);
        if !can_match(value) {
            return;
        }
        let mut pattern = Vec::with_capacity(value.len());
        normal::push_normal(value, Side::Pattern, &mut pattern);
        let mut matches = pattern.clone();
        while matches.pop_if(|octet| *octet == b'*').is_some() {}
        let rank = (normal::octets(&pattern), key.kind == RecordKind::Allow);
        let rule =
            Known { rank, pattern, number: place.number, columns: place.columns(0, line::trim(place.line)) };
        match self.rules.entry(matches) {
            Entry::Vacant(place) => {
                place.insert(rule);
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                let duplicate = known.rank == rule.rank && known.pattern == rule.pattern;
                let (hidden, by) = if rule.rank > known.rank {
                    (core::mem::replace(known, rule.clone()), rule)
                } else {
                    (rule, known.clone())
                };
                let line = by.number;
                if duplicate {
                    let sentence = format!("the rule stands on line {line} already");
                    self.remark(RemarkKind::DuplicateRule, hidden.number, hidden.columns, sentence);
                } else {
                    let sentence = format!("the rule on line {line} matches the same and takes precedence");
                    self.remark(RemarkKind::HiddenRule, hidden.number, hidden.columns, sentence);
                }
            }
        }
    }
}

fn is_absolute(url: &[u8]) -> bool {
    let scheme = url.split(|&octet| octet == b':').next().unwrap_or_default();
    matches!(scheme.first(), Some(b'a'..=b'z' | b'A'..=b'Z'))
        && scheme.iter().all(|octet| octet.is_ascii_alphanumeric() || b"+-.".contains(octet))
        && slice::from(url, scheme.len()).starts_with(b"://")
}

/// What a stranger wrote goes to terminals: controls are escaped, and it is kept short.
fn quoted(text: &[u8]) -> String {
    const SHOWN: usize = 60;
    let shown = String::from_utf8_lossy(slice::before(text, SHOWN));
    let dots = if text.len() > SHOWN { "…" } else { "" };
    format!("\"{}{dots}\"", shown.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, ReadOptions};

    /// Line, columns, kind, sentence.
    fn shown(body: &[u8]) -> Vec<String> {
        let remarks = Robots::parse(body).remarks();
        remarks.iter().map(|r| format!("{}:{:?} {:?}: {r}", r.line, r.columns, r.kind)).collect()
    }

    #[test]
    fn every_kind_of_remark_says_where_and_what() {
        for (body, expected) in [
            ("User-agent: *\nDissallow: /a", "2:1..10 MisspeltKey: \"Dissallow\" is read as \"Disallow\""),
            (
                "User-agent: *\nDisallow /a",
                "2:9..10 MissingColon: a colon is missing behind \"Disallow\", and is read as if it were there",
            ),
            ("hello world again", "1:1..18 UnreadableLine: the line is no record and is skipped"),
            ("foo: bar", "1:1..4 UnknownRecord: the key \"foo\" is unknown; the record changes nothing"),
            (
                "Disallow: /a",
                "1:1..13 OutsideGroup: the record stands before any user-agent line and belongs to nobody",
            ),
            (
                "User-agent: 123",
                "1:13..16 NoToken: \"123\" is neither a product token nor \"*\"; the line names nobody",
            ),
            ("User-agent: Foo/1.0", "1:16..20 TokenCut: the product token is \"Foo\"; the rest is ignored"),
            (
                "User-agent: a\nCrawl-delay: 1\nUser-agent: b\nDisallow: /",
                "2:1..15 RecordInsideRun: the record does not end the run of user-agent lines: it and what follows \
                 belong to all of them",
            ),
            (
                "User-agent: a\nDisallow: a/b",
                "2:11..14 NeverMatches: \"a/b\" matches nothing, as every path starts with \"/\"",
            ),
            (
                "User-agent: a\nDisallow: /a\nDisallow: /%61",
                "3:1..15 DuplicateRule: the rule stands on line 2 already",
            ),
            (
                "User-agent: a\nDisallow: /a\nAllow: /a",
                "2:1..13 HiddenRule: the rule on line 3 matches the same and takes precedence",
            ),
            (
                "User-agent: a\nDisallow: /a*\nAllow: /a",
                "3:1..10 HiddenRule: the rule on line 2 matches the same and takes precedence",
            ),
            (
                "User-agent: a\nDisallow: /\x07",
                "2:12..13 InvalidOctets: the octet \\x07 is neither UTF-8 nor printable; it is compared as its \
                 percent-encoding",
            ),
            (
                "User-agent: a\nCrawl-delay: soon",
                "2:14..18 UnusableCrawlDelay: \"soon\" is no finite number of seconds; the record is ignored",
            ),
            (
                "Sitemap: /s.xml",
                "1:10..16 RelativeUrl: a Sitemap is an absolute URL, which \"/s.xml\" is not",
            ),
            ("<!doctype html>", "1:1..2 Html: the file looks like HTML, not like a robots.txt"),
        ] {
            let found = shown(body.as_bytes());
            assert!(found.contains(&String::from(expected)), "{body:?}: {found:#?}");
        }
    }

    #[test]
    fn a_sitemap_inside_a_run_is_remarked_on_too() {
        let found = shown(b"User-agent: a\nSitemap: https://a.example/\nUser-agent: b\nDisallow: /");
        assert!(found.len() == 1 && found[0].starts_with("2:1..28 RecordInsideRun"), "{found:?}");
        assert_eq!(shown(b"User-agent: a\nSitemap: https://a.example/\nDisallow: /"), [""; 0]);
    }

    #[test]
    fn what_belongs_to_the_file_may_stand_before_any_group() {
        assert_eq!(
            shown(b"Sitemap: https://a.example/s\nLicense: https://a.example/l\nUser-agent: *\nDisallow: /"),
            [""; 0]
        );
        let found = shown(b"foo: bar\nUser-agent: *\nDisallow: /");
        assert!(found.len() == 1 && found[0].starts_with("1:1..4 UnknownRecord"), "{found:?}");
    }

    #[test]
    fn an_absolute_url_has_a_scheme_and_slashes() {
        for url in ["https://a", "HTTP://a", "a+b-c.1://x"] {
            assert!(is_absolute(url.as_bytes()), "{url}");
        }
        for url in [
            "",
            "/a",
            "//a",
            "a",
            "s.xml",
            "://a",
            "1http://a",
            "ht tp://a",
            "/s?u=http://a",
            "http:/a",
            "http:a",
            "http",
        ] {
            assert!(!is_absolute(url.as_bytes()), "{url}");
        }
    }

    #[test]
    fn what_is_quoted_is_kept_short_and_escaped() {
        let text = "a".repeat(61);
        assert_eq!(quoted(&text.as_bytes()[..60]), format!("\"{}\"", &text[..60]));
        assert_eq!(quoted(text.as_bytes()), format!("\"{}…\"", &text[..60]));
        assert_eq!(quoted(b"\x1b[1m\""), "\"\\u{1b}[1m\\\"\"");
    }

    #[test]
    fn remarks_are_those_of_the_profile() {
        let body = b"User-agent: *\nDisallowed: /a";
        assert!(shown(body)[0].starts_with("2:1..11 UnknownRecord"));
        let google = ReadOptions::new().with_profile(Profile::Google);
        assert_eq!(Robots::parse_with(body, google).remarks(), []);
    }

    #[test]
    fn a_value_of_16_kib_is_not_too_long() {
        let remarks =
            |length: usize| shown(format!("user-agent: a\ndisallow: /{}", "x".repeat(length - 1)).as_bytes());
        assert_eq!(remarks(16 * 1024), [""; 0]);
        assert_eq!(remarks(16 * 1024 + 1).len(), 1);
    }

    #[test]
    fn a_good_file_has_none() {
        let body = "# Hello\nUser-agent: *\nUser-agent: Foo\n\nDisallow: /a # why\nAllow: /a/b\nDisallow:\nCrawl-delay: 1.5\n\
                    User-agent: Bar\nDisallow: /a\nSitemap: https://example.com/s.xml\nApp-Directives: a;b\n";
        assert_eq!(shown(body.as_bytes()), [""; 0]);
    }

    #[test]
    fn long_and_cut_files_are_remarked_on() {
        let line = format!("user-agent: a\ndisallow: /{}", "x".repeat(20_000));
        assert!(shown(line.as_bytes()).iter().any(|remark| remark.starts_with("2:11..20012 OverlongLine")));
        let file = format!("user-agent: a\n#{}\ndisallow: /\n", "x".repeat(600_000));
        assert_eq!(
            shown(file.as_bytes()),
            ["1:1..1 CutByLimit: the file is longer than 512000 octets; the rest is not read"]
        );
        assert!(shown(b"\xff\xfe#\0")[0].starts_with("1:1..1 Utf16"));
    }
}
