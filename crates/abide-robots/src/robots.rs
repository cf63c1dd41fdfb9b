//! `Robots`: the document, with all groups and records of a robots.txt and their lines.
//!
//! For people and tools that look at a file; a crawler needs only [`Rules`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::decode::Text;
use crate::line::{self, Lines, RecordKey, RecordKind};
use crate::profile::ParseOptions;
use crate::record::Record;
use crate::rules::{RobotsVerdict, Rules, Target};
use crate::slice;
use crate::space::{Space, trim};
use crate::token::ProductToken;

/// A robots.txt as a document: every group and every record, with its line.
///
/// For tools that look at the file itself, or check several crawlers. A crawler uses [`Rules::parse`], which
/// keeps only what concerns one crawler. Reading never fails.
///
/// ```
/// use abide_robots::{ProductToken, Robots, Target};
///
/// let robots = Robots::parse(b"User-agent: a\nUser-agent: b\nDisallow: /x\n\nSitemap: https://example.com/s.xml");
/// let group = robots.groups().next().unwrap();
/// let agents: Vec<&str> = group.iter().filter_map(|record| record.agent()).collect();
/// assert_eq!(agents, ["a", "b"]);
/// assert_eq!(robots.sitemaps().count(), 1);
///
/// let verdict = robots.verdict(&[ProductToken::new("B")?], &Target::new("/x/y"));
/// assert!(!verdict.is_allowed());
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
#[derive(Clone)]
pub struct Robots {
    text: Box<[u8]>,
    options: ParseOptions,
    statements: Vec<Statement>,
    /// Ranges of `statements`, each from the first user-agent line of a group to the next group.
    groups: Vec<Range<usize>>,
    cut: bool,
    utf16: bool,
}

/// A line that states something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    pub(crate) key: RecordKey,
    pub(crate) number: u32,
    /// Where the line starts and ends in the text.
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Robots {
    /// Reads a file.
    pub fn parse(body: &[u8]) -> Self {
        Self::parse_with(body, ParseOptions::new())
    }

    /// Reads a file with a profile or a limit of your choice.
    pub fn parse_with(body: &[u8], options: ParseOptions) -> Self {
        let text = Text::of(body, options);
        let (cut, utf16) = (text.cut, text.utf16);
        let text = text.bytes.into_owned().into_boxed_slice();
        let statements = statements(&text, options);
        let groups = groups(&statements);
        Self { text, options, statements, groups, cut, utf16 }
    }

    /// Compiles the rules for the crawler named `tokens`.
    pub fn rules(&self, tokens: &[ProductToken]) -> Rules {
        Rules::compile(&self.text, tokens, self.options.profile)
    }

    pub(crate) fn options(&self) -> ParseOptions {
        self.options
    }

    /// Whether the crawler named `tokens` may fetch the target, and why. For many targets, keep the
    /// [`rules`](Self::rules).
    pub fn verdict(&self, tokens: &[ProductToken], target: &Target<'_>) -> RobotsVerdict {
        self.rules(tokens).verdict(target)
    }

    /// The groups in file order, not combined: the records from the first user-agent line of each to the next
    /// group. Records that belong to the whole file can be among them.
    pub fn groups(&self) -> impl Iterator<Item = Vec<Record<'_>>> {
        let statements = |range: &Range<usize>| self.statements.get(range.clone()).unwrap_or_default();
        self.groups.iter().map(move |range| statements(range).iter().map(|line| self.record(line)).collect())
    }

    /// All records in file order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.statements.iter().map(|statement| self.record(statement))
    }

    /// The Sitemap records of the whole file, as written, like [`Rules::sitemaps`]. Left out are empty ones,
    /// those that are not UTF-8, and those of more than 16 KiB.
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {
        self.global(RecordKind::Sitemap)
    }

    /// The License records (RSL 1.0) of the whole file, as written. The same are left out as by
    /// [`sitemaps`](Self::sitemaps).
    pub fn licenses(&self) -> impl Iterator<Item = &str> {
        self.global(RecordKind::License)
    }

    /// The text that was read: without a byte order mark, cut at the limit, and UTF-8 if the body was UTF-16.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The lines of the [text](Self::text), without their ends: CR, LF or CRLF (RFC 9309 §2.2).
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        Lines::of(&self.text).map(|(_, line)| line)
    }

    /// Whether the limit of RFC 9309 §2.5 cut the file.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether the body was UTF-16, against RFC 9309 §2.3.
    pub fn is_utf16(&self) -> bool {
        self.utf16
    }

    fn global(&self, kind: RecordKind) -> impl Iterator<Item = &str> {
        self.statements
            .iter()
            .filter(move |statement| statement.key.kind == kind)
            .filter_map(|statement| self.used(statement))
            .filter_map(|value| core::str::from_utf8(value).ok())
            .filter(|value| !value.is_empty())
    }

    /// What of a record's value is used; nothing if the record is dropped for its length.
    fn used(&self, statement: &Statement) -> Option<&[u8]> {
        let (RecordKey { kind, value_at, .. }, profile) = (statement.key, self.options.profile);
        let value = line::fitting(kind, self.line_of(statement), value_at, profile)?;
        Some(trim(line::without_comment(value), Space::around_value(kind, profile)))
    }

    /// The text of a line with a record, by its [number](Record::line), without its line end.
    pub fn line(&self, number: u32) -> Option<&[u8]> {
        let at = self.statements.binary_search_by_key(&number, |statement| statement.number).ok()?;
        self.statements.get(at).map(|statement| self.line_of(statement))
    }

    fn record(&self, statement: &Statement) -> Record<'_> {
        let RecordKey { kind, value_at, .. } = statement.key;
        let (line, profile) = (self.line_of(statement), self.options.profile);
        let before = slice::before(line, value_at);
        let key = line::name(before.strip_suffix(b":").unwrap_or(before), profile);
        let value = line::value(kind, line, value_at, profile);
        Record { kind, key, value, line: statement.number, profile }
    }

    fn line_of(&self, statement: &Statement) -> &[u8] {
        self.text.get(statement.start as usize..statement.end as usize).unwrap_or_default()
    }
}

fn statements(text: &[u8], options: ParseOptions) -> Vec<Statement> {
    let lines = Lines::of(text).zip(1..);
    lines
        .filter_map(|((start, line), number)| {
            let key = line::key(line, options.profile)?;
            Some(Statement { key, number, start: start as u32, end: start.saturating_add(line.len()) as u32 })
        })
        .collect()
}

/// RFC 9309 §2.1: a group is "one or more user-agent lines that are followed by one or more rules"; a
/// user-agent line that follows a rule begins the next one. No other record does (§2.2.4).
fn groups(statements: &[Statement]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    // The first user-agent line begins a group as one after a rule does.
    let mut rule_seen = true;
    for (index, statement) in statements.iter().enumerate() {
        match statement.key.kind {
            RecordKind::UserAgent if rule_seen => {
                groups.push(index..index);
                rule_seen = false;
            }
            // §2.2.2: rules before the first user-agent line are in no group.
            kind => rule_seen |= kind.is_rule() && !groups.is_empty(),
        }
        if let Some(group) = groups.last_mut() {
            group.end = index.saturating_add(1);
        }
    }
    groups
}

impl fmt::Debug for Robots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Robots")
            .field("bytes", &self.text.len())
            .field("groups", &self.groups.len())
            .field("records", &self.statements.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    #[test]
    fn a_user_agent_line_after_a_rule_begins_a_group() {
        for (text, groups) in [
            ("", 0),
            ("disallow: /", 0),
            ("user-agent: a\nuser-agent: b\ndisallow: /", 1),
            ("user-agent: a\ncrawl-delay: 1\nuser-agent: b\ndisallow: /", 1),
            ("user-agent: a\nsitemap: https://a/\nfoo: bar\n\nuser-agent: b\ndisallow: /", 1),
            ("disallow: /\nuser-agent: a\nuser-agent: b", 1),
            ("user-agent: a\ndisallow: /\nuser-agent: b", 2),
            ("user-agent: a\nallow:\nuser-agent: a", 2),
        ] {
            assert_eq!(Robots::parse(text.as_bytes()).groups().count(), groups, "{text:?}");
        }
    }

    #[test]
    fn records_are_shown_as_they_were_written() {
        let robots = Robots::parse(b"User-Agent : a\n disallow: /\xff # why\nfoo: b\ndisallow /c");
        let keys: Vec<&[u8]> = robots.records().map(|record| record.key()).collect();
        assert_eq!(keys, [&b"User-Agent"[..], b"disallow", b"foo", b"disallow"]);
        assert_eq!(format!("{robots:?}"), "Robots { bytes: 53, groups: 1, records: 4, .. }");
        let record = robots.groups().next().unwrap()[1];
        assert_eq!(format!("{record:?}"), "Record { kind: Disallow, value: \"/\\xff\", line: 2 }");
    }

    #[test]
    fn records_that_are_kept_as_text_say_where_they_stand() {
        let text = "user-agent: a\r\nRequest-rate: 1/5m # slowly\n\tVisit-time:0600-0845\nHost : example.com\nClean-param: s&t /f\n\
                    noindex: /n";
        let robots = Robots::parse(text.as_bytes());
        let shown = |kind| {
            let record = robots.records().find(|record| record.kind() == kind).unwrap();
            let [line, value] = [robots.line(record.line()).unwrap(), record.value()]
                .map(|bytes| core::str::from_utf8(bytes).unwrap());
            assert_eq!(text.lines().nth(record.line() as usize - 1), Some(line));
            (line, value)
        };
        for (kind, line, value) in [
            (RecordKind::RequestRate, "Request-rate: 1/5m # slowly", "1/5m"),
            (RecordKind::VisitTime, "\tVisit-time:0600-0845", "0600-0845"),
            (RecordKind::Host, "Host : example.com", "example.com"),
            (RecordKind::CleanParam, "Clean-param: s&t /f", "s&t /f"),
            (RecordKind::Other, "noindex: /n", "/n"),
        ] {
            assert_eq!(shown(kind), (line, value));
        }
        assert_eq!(robots.groups().next().unwrap().len(), 6);
    }

    #[test]
    fn a_user_agent_line_says_whom_it_addresses() {
        let token = |text| ProductToken::lenient(text).unwrap();
        let robots =
            Robots::parse(b"user-agent: MJ12bot\nuser-agent: FooBot/2\nuser-agent: * # all\nallow: /MJ");
        let lines = |token: Option<&ProductToken>| -> Vec<u32> {
            robots.records().filter(|record| record.addresses(token)).map(|record| record.line()).collect()
        };
        assert_eq!(lines(Some(&token("mj12bot"))), [1]);
        assert_eq!(lines(Some(&token("MJ"))), [1]);
        assert_eq!(lines(Some(&token("foobot"))), [2]);
        assert_eq!(lines(Some(&token("foo"))), [0; 0]);
        assert_eq!(lines(None), [3]);
        let agents = |robots: &Robots| -> Vec<String> {
            robots.records().filter_map(|record| record.agent().map(String::from)).collect()
        };
        assert_eq!(agents(&robots), ["MJ12bot", "FooBot", "*"]);
        let google = Robots::parse_with(robots.text(), ParseOptions::google());
        assert_eq!(agents(&google), ["MJ", "FooBot", "*"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn a_higher_limit_reads_on() {
        let body = format!("user-agent: a\n#{}\ndisallow: /\n", "x".repeat(600_000));
        let rules = |limit| {
            let robots = Robots::parse_with(body.as_bytes(), ParseOptions::new().with_limit(limit));
            (robots.is_cut(), robots.records().filter(|record| record.kind().is_rule()).count())
        };
        assert_eq!(rules(0), (true, 0));
        assert_eq!(rules(599_999), (true, 0));
        assert_eq!(rules(1_000_000), (false, 1));
        let lines = String::from("\n").repeat(3);
        assert!(!Robots::parse_with(lines.as_bytes(), ParseOptions::new().with_limit(0)).is_cut());
    }
}
