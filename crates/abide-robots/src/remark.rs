//! What a file's author should know: lines that are not read, or not read as written.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::time::Duration;

use crate::compile::directory_of_index;
use crate::group::{self, Agent, agent, seconds};
use crate::line::{self, Key, Lines, RecordKind, Spelling};
use crate::normal::{self, Side};
use crate::pattern::can_match;
use crate::profile::{GOOGLE_LINE_MAX, LINE_MAX, Profile};
use crate::robots::Robots;
use crate::slice;

/// What is remarked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RemarkKind {
    /// A key is a known misspelling of another, as which it is read.
    MisspeltKey,
    /// The colon is missing, and is read as if it were there.
    MissingColon,
    /// The line is neither a record nor a comment. An Allow whose colon is missing is none either: a guess could lift a
    /// restriction.
    UnreadableLine,
    /// The key is unknown to us; the record changes nothing.
    UnknownRecord,
    /// A record stands before the first user-agent line, so it belongs to nobody; a Content-Signal there counts for every
    /// crawler.
    OutsideGroup,
    /// A user-agent line names nobody.
    NoToken,
    /// Something follows the product token or `*`, and is ignored. It is not, where the whole value is a token with digits
    /// by which a crawler goes ([`ProductToken::lenient`](crate::ProductToken::lenient)).
    TokenCut,
    /// A record other than a rule stands between user-agent lines, which it does not separate.
    RecordInsideRun,
    /// The pattern can match nothing.
    NeverMatches,
    /// The same rule stands in the group already, or in another group of the very same agents, with which it is combined
    /// (RFC 9309 §2.2.1). Patterns that differ only in stars that add nothing are the same.
    DuplicateRule,
    /// Another rule of the group, or of another group of the very same agents, has such a pattern too, and decides
    /// wherever this one would: it has more bytes, or is an Allow.
    HiddenRule,
    /// The value is longer than 16 KiB; in Google's profile, the line is longer than 16,663 bytes.
    OverlongLine,
    /// The line holds bytes that are no UTF-8, or control characters.
    InvalidBytes,
    /// The Crawl-delay is no number of seconds in decimal digits, or more than can be counted.
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

impl RemarkKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::MisspeltKey => "misspelt-key",
            Self::MissingColon => "missing-colon",
            Self::UnreadableLine => "unreadable-line",
            Self::UnknownRecord => "unknown-record",
            Self::OutsideGroup => "outside-group",
            Self::NoToken => "no-token",
            Self::TokenCut => "token-cut",
            Self::RecordInsideRun => "record-inside-run",
            Self::NeverMatches => "never-matches",
            Self::DuplicateRule => "duplicate-rule",
            Self::HiddenRule => "hidden-rule",
            Self::OverlongLine => "overlong-line",
            Self::InvalidBytes => "invalid-bytes",
            Self::UnusableCrawlDelay => "unusable-crawl-delay",
            Self::RelativeUrl => "relative-url",
            Self::CutByLimit => "cut-by-limit",
            Self::Utf16 => "utf16",
            Self::Html => "html",
        }
    }
}

/// A remark on a place in a robots.txt. `Display` is one sentence.
///
/// ```
/// use abide_robots::Robots;
///
/// let robots = Robots::parse(b"User-agent: *\nDissallow: /a");
/// let remarks = robots.remarks();
/// assert_eq!((remarks[0].kind(), remarks[0].line()), ("misspelt-key", 2));
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
    /// What is remarked on, in words joined by hyphens that programs may rely on: `docs/lint-codes.md` in the repository lists
    /// them.
    pub fn kind(&self) -> &'static str {
        self.kind.as_str()
    }

    /// The line it is about; the first is 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The bytes of the line that it is about; the first is 1.
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
        let mut reader = Reader {
            robots: self,
            profile: self.options().profile,
            remarks: Vec::new(),
            phase: Phase::Outside,
            agents: BTreeSet::new(),
            group: None,
            groups: BTreeMap::new(),
            rules: BTreeMap::new(),
        };
        reader.whole_file();
        for ((_, line), number) in Lines::of(self.text()).zip(1..) {
            reader.line(Place { line, number, profile: reader.profile });
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
    profile: Profile,
}

impl Place<'_> {
    /// The columns of the part of the line that stands behind `from` and space.
    fn columns(&self, from: usize, part: &[u8]) -> Range<usize> {
        let behind = slice::from(self.line, from).iter();
        let space = behind.take_while(|&&byte| line::is_trimmed(byte, self.profile)).count();
        let first = from.saturating_add(space).saturating_add(1);
        first..first.saturating_add(part.len())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Outside,
    /// Inside a run of user-agent lines: where its first other record stands, if it has one.
    Agents {
        other: Option<Other>,
    },
    Rules,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Other {
    kind: RecordKind,
    number: u32,
    width: usize,
}

struct Reader<'a> {
    robots: &'a Robots,
    profile: Profile,
    remarks: Vec<Remark>,
    phase: Phase,
    /// Whom the group at hand names. Groups that name the very same are one.
    agents: BTreeSet<Vec<u8>>,
    group: Option<usize>,
    groups: BTreeMap<BTreeSet<Vec<u8>>, usize>,
    /// The rules of each group by what they match: the bytes and kind of the most specific, its line and place.
    rules: BTreeMap<(usize, Vec<u8>), Known>,
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
        let first = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
        if text.get(first) == Some(&b'<')
            && let Some(((_, line), number)) =
                Lines::of(slice::before(text, first.saturating_add(1))).zip(1..).last()
        {
            let columns = line.len()..line.len().saturating_add(1);
            self.remark(RemarkKind::Html, number, columns, "the file looks like HTML, not like a robots.txt");
        }
        if self.robots.is_utf16() {
            self.remark(RemarkKind::Utf16, 1, 1..1, "the file is UTF-16; RFC 9309 asks for UTF-8");
        }
        if self.robots.is_cut() {
            let last = Lines::of(text).count() as u32;
            let sentence = format!(
                "the file is longer than {} bytes; the rest is not read",
                self.robots.options().limit
            );
            self.remark(RemarkKind::CutByLimit, last.max(1), 1..1, sentence);
        }
    }

    fn line(&mut self, place: Place<'_>) {
        let content = line::trim(line::without_comment(place.line));
        let Some(key) = line::key(place.line, self.profile) else {
            if !content.is_empty() {
                let columns = place.columns(0, content);
                let sentence = if is_allow_without_colon(content) {
                    "a colon is missing behind \"Allow\"; as a guess could lift a restriction, the line is skipped"
                } else {
                    "the line is no record and is skipped"
                };
                self.remark(RemarkKind::UnreadableLine, place.number, columns, sentence);
            }
            return;
        };
        self.bytes(place, key, content);
        self.spelling(place, key);
        self.value(place, key);
        self.group(place, key);
    }

    fn bytes(&mut self, place: Place<'_>, key: Key, content: &[u8]) {
        let valid = core::str::from_utf8(content).map_or_else(|error| error.valid_up_to(), |_| content.len());
        let control = content.iter().position(|&byte| byte.is_ascii_control() && byte != b'\t');
        let first = control.filter(|&at| at < valid).unwrap_or(valid);
        if let Some(byte) = content.get(first) {
            let at = place.columns(0, content).start.saturating_add(first);
            // Columns count from one.
            let is_compared = key.kind.is_rule() && at > key.value_at;
            let consequence = match self.profile {
                Profile::Google if *byte == 0 => "; the line ends before it",
                Profile::Rfc9309 if is_compared => "; it is compared as its percent-encoding",
                _ => "",
            };
            let byte = byte.escape_ascii();
            let sentence = format!("the byte {byte} is neither UTF-8 nor printable{consequence}");
            self.remark(RemarkKind::InvalidBytes, place.number, at..at.saturating_add(1), sentence);
        }
    }

    fn spelling(&mut self, place: Place<'_>, key: Key) {
        let before = slice::before(place.line, key.value_at);
        let name = line::trimmed(before.strip_suffix(b":").unwrap_or(before), self.profile);
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
        let value = line::value(place.line, key.value_at, self.profile);
        let columns = place.columns(key.value_at, value);
        self.length(place, &columns);
        match key.kind {
            RecordKind::UserAgent => self.agent(place.number, columns, value),
            RecordKind::CrawlDelay => self.delay(place.number, columns, value),
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

    fn length(&mut self, place: Place<'_>, value: &Range<usize>) {
        let line_end = place.line.len().saturating_add(1);
        match self.profile {
            Profile::Rfc9309 if value.len() > LINE_MAX => {
                let sentence = "the value is longer than 16 KiB: of a Disallow or a User-agent its beginning counts, any \
                                other record is dropped";
                self.remark(RemarkKind::OverlongLine, place.number, value.clone(), sentence);
            }
            Profile::Google if place.line.len() > GOOGLE_LINE_MAX => {
                let rest = GOOGLE_LINE_MAX.saturating_add(1)..line_end;
                let sentence = "the line is longer than 16,663 bytes; the rest is not read";
                self.remark(RemarkKind::OverlongLine, place.number, rest, sentence);
            }
            _ => {}
        }
    }

    fn delay(&mut self, line: u32, columns: Range<usize>, value: &[u8]) {
        let sentence = match seconds(value) {
            None => "is no number of seconds in decimal digits; the record is ignored",
            Some(Duration::MAX) => "is more than can be counted; it is read as the longest time there is",
            Some(_) => return,
        };
        self.remark(RemarkKind::UnusableCrawlDelay, line, columns, format!("{} {sentence}", quoted(value)));
    }

    fn agent(&mut self, line: u32, columns: Range<usize>, value: &[u8]) {
        // A crawler whose name is the whole value takes the line as its own.
        let is_name = self.profile == Profile::Rfc9309 && group::is_lenient(value);
        let rest = |name: &[u8]| columns.start.saturating_add(name.len())..columns.end;
        match agent(value, self.profile) {
            Agent::Token([]) => {
                let whom = if is_name { "only a crawler that is called so" } else { "nobody" };
                let sentence =
                    format!("{} is neither a product token nor \"*\"; the line names {whom}", quoted(value));
                self.remark(RemarkKind::NoToken, line, columns, sentence);
            }
            Agent::Token(name) if name.len() < value.len() => {
                let (shown, whole) = (quoted(name), quoted(value));
                let sentence = if is_name {
                    format!(
                        "the product token is {shown}; only a crawler that is called {whole} reads the rest"
                    )
                } else {
                    format!("the product token is {shown}; the rest is ignored")
                };
                self.remark(RemarkKind::TokenCut, line, rest(name), sentence);
            }
            Agent::Global if value.len() > 1 => {
                let sentence = "\"*\" is everybody; the rest is ignored";
                self.remark(RemarkKind::TokenCut, line, rest(b"*"), sentence);
            }
            Agent::Token(_) | Agent::Global => {}
        }
    }

    /// How records make groups: RFC 9309 §2.1 and 2.2.4.
    fn group(&mut self, place: Place<'_>, key: Key) {
        let kind = key.kind;
        match (self.phase, kind) {
            (phase, RecordKind::UserAgent) => {
                match phase {
                    Phase::Agents { other } => self.record_inside_run(other),
                    Phase::Outside | Phase::Rules => self.agents.clear(),
                }
                self.phase = Phase::Agents { other: None };
                self.group = None;
                let value = line::value(place.line, key.value_at, self.profile);
                let name = group::name(value, self.profile);
                if !name.is_empty() {
                    self.agents.insert(name.to_ascii_lowercase());
                }
            }
            (Phase::Outside, kind) if !kind.stands_anywhere() => {
                let columns = place.columns(0, line::trim(place.line));
                let sentence = match kind {
                    RecordKind::ContentSignal => {
                        "the record stands before any user-agent line and counts for every crawler"
                    }
                    _ => "the record stands before any user-agent line and belongs to nobody",
                };
                self.remark(RemarkKind::OutsideGroup, place.number, columns, sentence);
            }
            (Phase::Agents { .. } | Phase::Rules, kind) if kind.is_rule() => {
                self.phase = Phase::Rules;
                self.rule(place, key);
            }
            (Phase::Agents { other: None }, kind) => {
                let other = Other { kind, number: place.number, width: place.line.len() };
                self.phase = Phase::Agents { other: Some(other) };
            }
            _ => {}
        }
    }

    fn record_inside_run(&mut self, other: Option<Other>) {
        let Some(Other { kind, number, width }) = other else { return };
        let sentence = if kind.stands_anywhere() {
            "the record does not end the run of user-agent lines: what follows belongs to all of them"
        } else {
            "the record does not end the run of user-agent lines: it and what follows belong to all of them"
        };
        self.remark(RemarkKind::RecordInsideRun, number, 1..width.saturating_add(1), sentence);
    }

    /// The group at hand, by its number among those that name others; none if it names nobody.
    fn number_of_group(&mut self) -> Option<usize> {
        if self.group.is_none() && !self.agents.is_empty() {
            let next = self.groups.len();
            let agents = core::mem::take(&mut self.agents);
            self.group = Some(*self.groups.entry(agents).or_insert(next));
        }
        self.group
    }

    /// Of two rules that match the same, the one with more bytes decides, or the Allow.
    fn rule(&mut self, place: Place<'_>, key: Key) {
        let allow = key.kind == RecordKind::Allow;
        let value = line::fitting(key.kind, place.line, key.value_at, self.profile);
        let value = line::trim(line::without_comment(value.unwrap_or_default()));
        let is_two_rules = self.profile == Profile::Google && allow && directory_of_index(value).is_some();
        if !can_match(value) || is_two_rules {
            return;
        }
        let mut pattern = Vec::with_capacity(value.len());
        let bytes = match self.profile {
            Profile::Rfc9309 => {
                normal::push_normal(value, Side::Pattern, &mut pattern);
                normal::bytes(&pattern)
            }
            Profile::Google => {
                normal::push_google(value, Side::Pattern, &mut pattern);
                pattern.len()
            }
        };
        let Some(group) = self.number_of_group() else { return };
        let matches = (group, without_idle_stars(&pattern));
        let columns = place.columns(0, line::trim(place.line));
        let rule = Known { rank: (bytes, allow), pattern, number: place.number, columns };
        match self.rules.entry(matches) {
            Entry::Vacant(place) => {
                place.insert(rule);
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                let duplicate = known.rank == rule.rank;
                let same = known.pattern == rule.pattern;
                let (hidden, by) = if rule.rank > known.rank {
                    (core::mem::replace(known, rule.clone()), rule)
                } else {
                    (rule, known.clone())
                };
                let line = by.number;
                if duplicate {
                    let sentence = if same {
                        format!("the rule stands on line {line} already")
                    } else {
                        format!("the rule on line {line} says the same")
                    };
                    self.remark(RemarkKind::DuplicateRule, hidden.number, hidden.columns, sentence);
                } else {
                    let sentence = format!("the rule on line {line} matches the same and takes precedence");
                    self.remark(RemarkKind::HiddenRule, hidden.number, hidden.columns, sentence);
                }
            }
        }
    }
}

/// The pattern without stars that add nothing, so that patterns which match the same are the same: one of several in a
/// row is enough; at the end none is needed, and then no `$` either; and as every path starts with a slash, a star before
/// anything but a slash may stand behind one.
fn without_idle_stars(pattern: &[u8]) -> Vec<u8> {
    let pattern =
        if pattern.ends_with(b"*$") { pattern.strip_suffix(b"$").unwrap_or(pattern) } else { pattern };
    let mut out = Vec::with_capacity(pattern.len().saturating_add(1));
    let behind_stars = pattern.iter().find(|byte| **byte != b'*');
    if pattern.first() == Some(&b'*') && behind_stars != Some(&b'/') {
        out.push(b'/');
    }
    for &byte in pattern {
        if byte != b'*' || out.last() != Some(&b'*') {
            out.push(byte);
        }
    }
    out.pop_if(|byte| *byte == b'*');
    out
}

fn is_allow_without_colon(content: &[u8]) -> bool {
    let mut words = content.split(|&byte| line::is_space(byte)).filter(|word| !word.is_empty());
    words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"allow")) && words.count() == 1
}

pub(crate) fn is_absolute(url: &[u8]) -> bool {
    let scheme = url.split(|&byte| byte == b':').next().unwrap_or_default();
    matches!(scheme.first(), Some(b'a'..=b'z' | b'A'..=b'Z'))
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
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
    use crate::ParseOptions;

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
                "Content-Signal: a=no",
                "1:1..21 OutsideGroup: the record stands before any user-agent line and counts for every crawler",
            ),
            (
                "User-agent: 123",
                "1:13..16 NoToken: \"123\" is neither a product token nor \"*\"; the line names only a crawler that is called so",
            ),
            (
                "User-agent: /1",
                "1:13..15 NoToken: \"/1\" is neither a product token nor \"*\"; the line names nobody",
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
                "User-agent: b\nUser-agent: A\nDisallow: /a\nUser-agent: *\nDisallow: /a\nUser-agent: a/2\nUser-agent: b\n\
                 Disallow: /b\nDisallow: /a",
                "9:1..13 DuplicateRule: the rule stands on line 3 already",
            ),
            (
                "User-agent: a\nDisallow: /a**b\nUser-agent: a\nAllow: /a*b",
                "4:1..12 HiddenRule: the rule on line 2 matches the same and takes precedence",
            ),
            (
                "User-agent: a\nDisallow: *\nDisallow: /",
                "3:1..12 DuplicateRule: the rule on line 2 says the same",
            ),
            (
                "User-agent: MJ12bot",
                "1:15..20 TokenCut: the product token is \"MJ\"; only a crawler that is called \"MJ12bot\" reads the rest",
            ),
            ("User-agent: * all of you", "1:14..25 TokenCut: \"*\" is everybody; the rest is ignored"),
            (
                "allow /x",
                "1:1..9 UnreadableLine: a colon is missing behind \"Allow\"; as a guess could lift a restriction, the line \
                 is skipped",
            ),
            (
                "User-agent: a\nSitemap: https://a.example/\nUser-agent: b\nDisallow: /",
                "2:1..28 RecordInsideRun: the record does not end the run of user-agent lines: what follows belongs to all \
                 of them",
            ),
            ("User-agent: a\x07b", "1:14..15 InvalidBytes: the byte \\x07 is neither UTF-8 nor printable"),
            (
                "User-agent: a\nCrawl-delay: 1e3",
                "2:14..17 UnusableCrawlDelay: \"1e3\" is no number of seconds in decimal digits; the record is ignored",
            ),
            (
                "User-agent: a\nCrawl-delay: 99999999999999999999",
                "2:14..34 UnusableCrawlDelay: \"99999999999999999999\" is more than can be counted; it is read as the longest \
                 time there is",
            ),
            (
                "User-agent: a\nDisallow: /\x07",
                "2:12..13 InvalidBytes: the byte \\x07 is neither UTF-8 nor printable; it is compared as its \
                 percent-encoding",
            ),
            (
                "User-agent: a\nCrawl-delay: soon",
                "2:14..18 UnusableCrawlDelay: \"soon\" is no number of seconds in decimal digits; the record is ignored",
            ),
            (
                "Sitemap: /s.xml",
                "1:10..16 RelativeUrl: a Sitemap is an absolute URL, which \"/s.xml\" is not",
            ),
            ("<!doctype html>", "1:1..2 Html: the file looks like HTML, not like a robots.txt"),
            (" <html>", "1:2..3 Html: the file looks like HTML, not like a robots.txt"),
            ("\n\r\n  <html>\n<body>x", "3:3..4 Html: the file looks like HTML, not like a robots.txt"),
        ] {
            let found = shown(body.as_bytes());
            assert!(found.contains(&String::from(expected)), "{body:?}: {found:#?}");
        }
    }

    #[test]
    fn each_misspelling_is_remarked_on() {
        for (key, read_as) in [
            ("useragent", "User-agent"),
            ("user agent", "User-agent"),
            ("dissallow", "Disallow"),
            ("dissalow", "Disallow"),
            ("disalow", "Disallow"),
            ("diasllow", "Disallow"),
            ("disallaw", "Disallow"),
            ("site-map", "Sitemap"),
            ("crawldelay", "Crawl-delay"),
            ("crawl delay", "Crawl-delay"),
        ] {
            let body = format!("user-agent: a\n{key}: 1");
            let expected = format!("2:1..{} MisspeltKey: \"{key}\" is read as \"{read_as}\"", key.len() + 1);
            assert!(shown(body.as_bytes()).contains(&expected), "{:?}", shown(body.as_bytes()));
        }
    }

    #[test]
    fn kinds_have_names_that_stay() {
        use RemarkKind::*;
        let names: Vec<&str> = [MisspeltKey, RecordInsideRun, UnusableCrawlDelay, CutByLimit, Utf16, Html]
            .map(RemarkKind::as_str)
            .into();
        assert_eq!(
            names,
            ["misspelt-key", "record-inside-run", "unusable-crawl-delay", "cut-by-limit", "utf16", "html"]
        );
    }

    #[test]
    fn stars_that_add_nothing_make_no_other_rule() {
        for same in [
            &["/", "*", "/*", "**", "*$", "/*$", "/**$"][..],
            &["/a", "/a*", "/a**", "/a*$"],
            &["/a*b", "/a**b*"],
            &["*a$", "/*a$", "**a$"],
            &["*/a", "**/a"],
        ] {
            for pattern in same {
                assert_eq!(
                    without_idle_stars(pattern.as_bytes()),
                    without_idle_stars(same[0].as_bytes()),
                    "{pattern}"
                );
            }
        }
        for pattern in ["/a", "/a$", "/*/a", "*/a", "/*a", "/a*b$"] {
            assert_eq!(without_idle_stars(pattern.as_bytes()), pattern.as_bytes());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn rules_of_groups_that_are_not_combined_are_not_compared() {
        for body in [
            "User-agent: a\nDisallow: /a\nUser-agent: b\nDisallow: /a",
            "User-agent: a\nUser-agent: b\nDisallow: /a\nUser-agent: b\nDisallow: /a",
            "User-agent: a\nDisallow: */a\nDisallow: /*/a",
        ] {
            assert_eq!(shown(body.as_bytes()), [""; 0], "{body}");
        }
        // Of an over-long Allow nothing is left that could decide, and of an over-long Disallow its beginning.
        let long = "x".repeat(20_000);
        let body =
            format!("User-agent: a\nAllow: /{long}\nAllow: /{long}\nDisallow: /{long}y\nDisallow: /{long}z");
        let kinds: Vec<(u32, RemarkKind)> = Robots::parse(body.as_bytes())
            .remarks()
            .iter()
            .map(|remark| (remark.line, remark.kind))
            .collect();
        let overlong = [2, 3, 4, 5].map(|line| (line, RemarkKind::OverlongLine));
        assert_eq!(kinds, [&overlong[..3], &[(5, RemarkKind::DuplicateRule)], &overlong[3..]].concat());
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
            shown(
                b"Sitemap: https://a.example/s\nLicense: https://a.example/l\nHost: a.example\nClean-param: s /f\n\
                  User-agent: *\nDisallow: /"
            ),
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
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn remarks_are_those_of_the_profile() {
        let body = b"User-agent: *\nDisallowed: /a";
        assert!(shown(body)[0].starts_with("2:1..11 UnknownRecord"));
        let google = ParseOptions::google();
        assert_eq!(Robots::parse_with(body, google).remarks(), []);
        let shown = |body: &[u8]| -> Vec<String> {
            let remarks = Robots::parse_with(body, google).remarks();
            remarks.iter().map(|r| format!("{}:{:?} {:?}: {r}", r.line, r.columns, r.kind)).collect()
        };
        // It decodes nothing, and takes `Allow: /a/index.html` for two rules.
        assert_eq!(shown(b"user-agent: a\ndisallow: /a\ndisallow: /%61"), [""; 0]);
        assert_eq!(shown(b"user-agent: a\nallow: /a/index.html\ndisallow: /a/index.html*"), [""; 0]);
        assert_eq!(
            shown(b"user-agent: a\ndisallow: /%aa\ndisallow: /%AA"),
            ["3:1..15 DuplicateRule: the rule stands on line 2 already"]
        );
        assert_eq!(
            shown(b"user-agent: MJ12bot"),
            ["1:15..20 TokenCut: the product token is \"MJ\"; the rest is ignored"]
        );
        assert_eq!(
            shown(b"user-agent: a\ndisallow: /a\0b"),
            ["2:13..14 InvalidBytes: the byte \\x00 is neither UTF-8 nor printable; the line ends before it"]
        );
        assert_eq!(
            shown(format!("user-agent: a\nallow: /{}", "a".repeat(16_660)).as_bytes()),
            ["2:16664..16669 OverlongLine: the line is longer than 16,663 bytes; the rest is not read"]
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
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
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn long_and_cut_files_are_remarked_on() {
        let line = format!("user-agent: a\ndisallow: /{}", "x".repeat(20_000));
        assert!(shown(line.as_bytes()).iter().any(|remark| remark.starts_with("2:11..20012 OverlongLine")));
        let file = format!("user-agent: a\n#{}\ndisallow: /\n", "x".repeat(600_000));
        assert_eq!(
            shown(file.as_bytes()),
            ["1:1..1 CutByLimit: the file is longer than 512000 bytes; the rest is not read"]
        );
        assert!(shown(b"\xff\xfe#\0")[0].starts_with("1:1..1 Utf16"));
    }
}
