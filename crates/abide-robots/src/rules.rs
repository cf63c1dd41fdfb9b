//! The rules for one crawler, compiled; what they are matched against, and the verdict.
//!
//! A crawler keeps the rules for each host, so they are small, shared by clones, and equal for equal files. A
//! [`Target`] is normalised once for each URL, so that comparing it with a rule is a comparison of bytes. A
//! [`RobotsVerdict`] shares the rules that it was made from, so it is small, too; what it can say of them is
//! looked up when asked.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::compiled::{Compiled, Found, Item, ItemKind};
use crate::decode::Text;
use crate::group::{Chosen, Gatherer, Raw};
use crate::line::RecordKind;
use crate::normal::{self, HASH, QUERY, Side};
use crate::profile::{ParseOptions, Profile};
use crate::record::Record;
use crate::token::ProductToken;
use crate::{compile, search, slice};

/// The part of a robots.txt for one crawler: its rules, Crawl-delay, sitemaps and preferences.
///
/// Clones share it. Files with the same records for the crawler on the same lines are equal values
/// (`Eq`, `Hash`), so a cache of many hosts can keep one of each.
///
/// It has no remarks on the file: see [`Robots::remarks`](crate::Robots::remarks).
///
/// ```
/// use abide_robots::{ProductToken, Rules, Target};
///
/// let rules = Rules::parse(b"User-agent: *\nDisallow: /private/", &[ProductToken::new("ExampleBot")?]);
/// assert!(rules.is_allowed(&Target::new("/public/")));
/// assert!(!rules.is_allowed(&Target::new("/private/a")));
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Rules(Arc<Compiled>);

impl Rules {
    /// Reads a robots.txt for the crawler named `tokens`: the group of the first token that has one applies,
    /// else the `*` group (RFC 9309 §2.2.1). Without tokens, the `*` group applies. Never fails: lines that
    /// cannot be read are skipped.
    pub fn parse(body: &[u8], tokens: &[ProductToken]) -> Self {
        Self::parse_with(body, tokens, ParseOptions::new())
    }

    /// Like [`parse`](Self::parse), with a profile or a limit of your choice.
    pub fn parse_with(body: &[u8], tokens: &[ProductToken], options: ParseOptions) -> Self {
        Self::compile(&Text::of(body, options).bytes, tokens, options.profile)
    }

    /// What applies where there is no file (RFC 9309 §2.3.1.3, "Unavailable" status): all is allowed, because
    /// no group applies.
    pub fn allow_all() -> Self {
        Self::parse(b"", &[])
    }

    /// What applies where the file cannot be had (RFC 9309 §2.3.1.4, "Unreachable" status): all is disallowed
    /// but `/robots.txt`, by a rule `Disallow: /` for all crawlers, which is in no file and so on line 0.
    pub fn disallow_all() -> Self {
        let mut rules = Compiled::new(1, Profile::Rfc9309);
        let mut gatherer = Gatherer::new(&[], Profile::Rfc9309, &mut rules);
        gatherer.take(Raw { kind: RecordKind::UserAgent, value: b"*", line: 0 });
        gatherer.take(Raw { kind: RecordKind::Disallow, value: b"/", line: 0 });
        let gathered = gatherer.finish();
        rules.finish(gathered, &[]);
        Self(Arc::new(rules))
    }

    pub(crate) fn compile(text: &[u8], tokens: &[ProductToken], profile: Profile) -> Self {
        Self(Arc::new(compile::compile(text, tokens, profile)))
    }

    pub(crate) fn compiled(&self) -> &Compiled {
        &self.0
    }

    /// Whether the target may be fetched.
    ///
    /// Allocates nothing, but in two cases. Where the file was made to cause work, and thousands of wildcard
    /// rules meet a target of thousands of bytes, memory in their order of size buys an answer in bounded
    /// time. And in the profile [`google`](ParseOptions::google) a target that holds `*`, `$` or bytes beyond
    /// ASCII is written down in its form.
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {
        match self.decide(target) {
            Decision::Rule(found) => found.allows,
            Decision::NoMatch | Decision::NoGroup | Decision::RobotsTxt => true,
        }
    }

    /// Whether the target may be fetched, and why.
    pub fn verdict(&self, target: &Target<'_>) -> RobotsVerdict {
        RobotsVerdict::new(self.clone(), self.decide(target))
    }

    // An answer that need not be written down as a `Decision` is worth a copy of this.
    #[inline(always)]
    fn decide(&self, target: &Target<'_>) -> Decision {
        if self.0.profile == Profile::Google {
            return self.decide_as_google(target);
        }
        if target.is_robots_txt() {
            return Decision::RobotsTxt;
        }
        self.most_specific(target.bytes(), target.query())
    }

    /// Google's parser does not know `/robots.txt`, and takes targets as they are.
    #[cold]
    fn decide_as_google(&self, target: &Target<'_>) -> Decision {
        let given = target.given();
        if normal::is_googles_form(given) {
            return self.most_specific(given, given.len());
        }
        let mut bytes = Vec::with_capacity(given.len());
        normal::push_google(given, Side::Target, &mut bytes);
        self.most_specific(&bytes, bytes.len())
    }

    #[inline]
    fn most_specific(&self, target: &[u8], query: usize) -> Decision {
        if !self.has_group() {
            return Decision::NoGroup;
        }
        search::most_specific(&self.0, target, query).map_or(Decision::NoMatch, Decision::Rule)
    }

    /// The least time between two requests that the group asks for: the largest Crawl-delay in it. One that
    /// exceeds what a `Duration` holds is [`Duration::MAX`].
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.0.delay
    }

    /// The Sitemap records of the file, as written: absolute URLs, if their authors kept to the protocol.
    /// Left out are empty ones, those with bytes that are no UTF-8, and those of more than 16 KiB.
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {
        self.texts(RecordKind::Sitemap)
    }

    /// The License records of the file (RSL 1.0), as written; left out are those that
    /// [`sitemaps`](Self::sitemaps) would leave out.
    pub fn licenses(&self) -> impl Iterator<Item = &str> {
        self.texts(RecordKind::License)
    }

    /// The tokens of the group that applies, in lower case, in file order, without repetition. Nothing if no
    /// group applies.
    pub fn group(&self) -> impl Iterator<Item = &str> {
        self.texts(RecordKind::UserAgent)
    }

    /// Whether a group applies: that of a token, or that of `*`.
    pub fn has_group(&self) -> bool {
        !matches!(self.0.chosen, Chosen::None)
    }

    /// Whether the file names the crawler: the group is that of a token, not that of `*`.
    pub fn is_named(&self) -> bool {
        self.token().is_some()
    }

    /// Which of the crawler's tokens has a group; `None` if `*` or no group applies.
    pub fn token(&self) -> Option<&str> {
        match &self.0.chosen {
            Chosen::Token(token) => Some(token.as_str()),
            Chosen::Global | Chosen::None => None,
        }
    }

    /// The preference records of the group that applies, in file order, unread.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.0.items.iter().filter_map(|item| match item.kind {
            ItemKind::Record(kind) if kind.is_preference() => {
                Some(Record::kept(kind, self.0.bytes_of(item), item.line))
            }
            _ => None,
        })
    }

    /// The preference records before the first user-agent line, or of a file without one, in file order,
    /// unread; App-Directives are not among them. Sites put Content-Signal there on purpose: it is meant for
    /// every crawler, also where no group applies.
    pub fn records_outside_groups(&self) -> impl Iterator<Item = Record<'_>> {
        self.0.items.iter().filter_map(|item| match item.kind {
            ItemKind::Outside(kind) => Some(Record::kept(kind, self.0.bytes_of(item), item.line)),
            _ => None,
        })
    }

    /// The Content-Signal records of the `*` group where the group of a token applies, in file order, unread.
    /// RFC 9309 §2.2.1 has them count only where no group names the crawler; a caller may count them anyway.
    /// Where the `*` group applies there are none: they are among the [`records`](Self::records).
    pub fn signals_of_all(&self) -> impl Iterator<Item = Record<'_>> {
        self.kept(ItemKind::SignalOfAll, RecordKind::ContentSignal)
    }

    /// The [`licenses`](Self::licenses) with their lines.
    pub fn license_records(&self) -> impl Iterator<Item = Record<'_>> {
        self.kept(ItemKind::Record(RecordKind::License), RecordKind::License)
    }

    fn kept(&self, item_kind: ItemKind, kind: RecordKind) -> impl Iterator<Item = Record<'_>> {
        self.items(item_kind).map(move |item| Record::kept(kind, self.0.bytes_of(item), item.line))
    }

    /// Bytes on the heap, shared by all clones.
    pub fn heap_size(&self) -> usize {
        // The two numbers are the counts of the `Arc`.
        self.0.heap_size().saturating_add(size_of::<Compiled>()).saturating_add(size_of::<[usize; 2]>())
    }

    fn texts(&self, kind: RecordKind) -> impl Iterator<Item = &str> {
        let text = |item| core::str::from_utf8(self.0.bytes_of(item)).unwrap_or_default();
        self.items(ItemKind::Record(kind)).map(text)
    }

    fn items(&self, kind: ItemKind) -> impl Iterator<Item = &Item> {
        self.0.items.iter().filter(move |item| item.kind == kind)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("group", &self.group().collect::<Vec<_>>())
            .field("rules", &self.0.literals.entries.len().saturating_add(self.0.wildcards.len()))
            .field("crawl_delay", &self.crawl_delay())
            .finish_non_exhaustive()
    }
}

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Rule(Found),
    NoMatch,
    NoGroup,
    RobotsTxt,
}

/// Whether a target may be fetched, and why.
///
/// Cheap to clone: it shares its rules.
///
/// ```
/// use abide_robots::{ProductToken, Rules, Target};
///
/// let rules = Rules::parse(b"User-agent: *\nDisallow: /a", &[ProductToken::new("ExampleBot")?]);
/// let verdict = rules.verdict(&Target::new("/a/b"));
/// assert!(!verdict.is_allowed());
/// assert_eq!(verdict.rule().unwrap().line(), 2);
/// assert_eq!(verdict.to_string(), "disallowed by \"Disallow: /a\" on line 2");
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RobotsVerdict {
    rules: Rules,
    decision: Decision,
}

impl RobotsVerdict {
    pub(crate) fn new(rules: Rules, decision: Decision) -> Self {
        Self { rules, decision }
    }

    /// Whether the target may be fetched.
    pub fn is_allowed(&self) -> bool {
        !matches!(self.decision, Decision::Rule(Found { allows: false, .. }))
    }

    /// The rule that decided, with its pattern as written; bytes that are not UTF-8 become U+FFFD. `None` if
    /// no rule matches the target, no group applies ([`Rules::has_group`]), or the target is
    /// [`/robots.txt`](Self::is_robots_txt).
    pub fn rule(&self) -> Option<Record<'_>> {
        let Decision::Rule(found) = self.decision else { return None };
        let compiled = self.rules.compiled();
        let rule = compiled.rule(found)?;
        let kind = if found.allows { RecordKind::Allow } else { RecordKind::Disallow };
        Some(Record::kept(kind, rule.written(&compiled.text), rule.line()))
    }

    /// Whether the target is `/robots.txt`, which is implicitly allowed (RFC 9309 §2.2.2).
    pub fn is_robots_txt(&self) -> bool {
        self.decision == Decision::RobotsTxt
    }

    /// The tokens of the group that applies, in lower case, in file order, without repetition.
    pub fn group(&self) -> impl Iterator<Item = &str> {
        self.rules.group()
    }

    /// Whether the file names the crawler: the group is that of a token, not that of `*`.
    pub fn is_named(&self) -> bool {
        self.rules.is_named()
    }

    /// Which of the crawler's tokens has a group; `None` if `*` or no group applies.
    pub fn token(&self) -> Option<&str> {
        self.rules.token()
    }

    /// The Crawl-delay of the group: the least time between two requests.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.rules.crawl_delay()
    }

    /// The rules of the verdict.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

impl fmt::Display for RobotsVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rule(), self.decision) {
            (Some(rule), _) => {
                let answer = if self.is_allowed() { "allowed" } else { "disallowed" };
                write!(f, "{answer} by \"{rule}\" on line {}", rule.line())
            }
            (None, Decision::NoGroup) => f.write_str("allowed, because no group applies"),
            (None, Decision::RobotsTxt) => f.write_str("allowed, because robots.txt itself always is"),
            (None, _) => f.write_str("allowed, because no rule matches"),
        }
    }
}

impl fmt::Debug for RobotsVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsVerdict")
            .field("is_allowed", &self.is_allowed())
            .field("rule", &self.rule())
            .finish_non_exhaustive()
    }
}

/// The path and query of a URL, in the normal form that rules are compared in.
///
/// Create it once per URL and check it against many rule sets. It borrows if the text is in normal form
/// already.
///
/// ```
/// use abide_robots::Target;
///
/// assert_eq!(Target::new("/a%62c?q=1#top").as_str(), "/abc?q=1");
/// assert_eq!(Target::new("").as_str(), "/");
/// assert_eq!(Target::new("https://example.com/a").as_str(), "/a");
/// ```
#[derive(Clone)]
pub struct Target<'a> {
    normal: Cow<'a, [u8]>,
    /// Path and query as given, where `normal` is not that.
    given: Option<Cow<'a, [u8]>>,
    /// Where the query starts in `normal`, behind its `?`; the length of `normal` if there is none.
    query: usize,
}

impl<'a> Target<'a> {
    /// Takes a path with or without a query. A fragment is dropped, and an empty path is `/`.
    ///
    /// Of an absolute URL, scheme and authority are dropped. Dot segments are not resolved: URL parsers such
    /// as `url::Url` do that.
    ///
    /// It never fails: a `/` is put before text that does not start with one, so `mailto:x` becomes
    /// `/mailto:x`. Parse URLs of unknown origin first.
    #[inline]
    pub fn new(path_and_query: &'a str) -> Self {
        let text = path_and_query.as_bytes();
        match (text.first(), normal::classes(text)) {
            (Some(b'/'), 0) => Self { normal: Cow::Borrowed(text), given: None, query: text.len() },
            (_, classes) => Self::rewritten(text, classes),
        }
    }

    #[inline(never)]
    fn rewritten(text: &'a [u8], classes: u8) -> Self {
        let given = without_fragment(rooted(text), classes);
        let (normal, given) = if classes & !QUERY == 0 {
            (given, None)
        } else {
            let mut out = Vec::with_capacity(given.len().saturating_add(16));
            normal::push_normal(&given, Side::Target, &mut out);
            (Cow::Owned(out), Some(given))
        };
        let query = memchr::memchr(b'?', &normal).map_or(normal.len(), |mark| mark.saturating_add(1));
        Self { normal, given, query }
    }

    /// The normal form, in ASCII.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.normal).unwrap_or_default()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.normal
    }

    pub(crate) fn given(&self) -> &[u8] {
        self.given.as_ref().unwrap_or(&self.normal)
    }

    pub(crate) fn query(&self) -> usize {
        self.query
    }

    /// RFC 9309 §2.2.2: "The /robots.txt URI is implicitly allowed."
    pub(crate) fn is_robots_txt(&self) -> bool {
        *self.normal == *b"/robots.txt"
    }
}

/// A path that starts with `/`, of something that may not.
fn rooted(text: &[u8]) -> Cow<'_, [u8]> {
    if text.first() == Some(&b'/') {
        return Cow::Borrowed(text);
    }
    // RFC 3986 §3: a scheme ends before the first of these, so a colon behind them is none of it.
    let end = text.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(text.len());
    let (scheme, authority) = text.split_at_checked(end).unwrap_or((text, &[]));
    let rest = match (scheme.strip_suffix(b":"), authority.strip_prefix(b"//")) {
        (Some(_), Some(authority)) => {
            let path = authority.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
            slice::from(authority, path.unwrap_or(authority.len()))
        }
        _ => text,
    };
    if rest.first() == Some(&b'/') {
        return Cow::Borrowed(rest);
    }
    let mut given = Vec::with_capacity(rest.len().saturating_add(1));
    given.push(b'/');
    given.extend_from_slice(rest);
    Cow::Owned(given)
}

fn without_fragment(given: Cow<'_, [u8]>, classes: u8) -> Cow<'_, [u8]> {
    if classes & HASH == 0 {
        return given;
    }
    let end = given.iter().position(|&byte| byte == b'#').unwrap_or(given.len());
    match given {
        Cow::Borrowed(text) => Cow::Borrowed(slice::before(text, end)),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

impl<'a> From<&'a str> for Target<'a> {
    fn from(path_and_query: &'a str) -> Self {
        Self::new(path_and_query)
    }
}

#[cfg(feature = "url")]
impl<'a> Target<'a> {
    /// Path and query of the URL; its fragment is dropped.
    ///
    /// ```
    /// use abide_robots::Target;
    ///
    /// let url = url::Url::parse("https://example.com/a/../b?q='c'#top")?;
    /// assert_eq!(Target::of(&url), Target::new("/b?q='c'"));
    /// # Ok::<(), url::ParseError>(())
    /// ```
    pub fn of(url: &'a url::Url) -> Self {
        Self::new(&url[url::Position::BeforePath..url::Position::AfterQuery])
    }
}

impl PartialEq for Target<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.normal == other.normal
    }
}

impl Eq for Target<'_> {}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&String::from(self.as_str())).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;
    use crate::{ProductToken, Robots, Target};

    fn parse(text: &str) -> Rules {
        Rules::parse(text.as_bytes(), &[])
    }

    #[test]
    fn records_that_nobody_reads_leave_no_trace() {
        let plain = parse("user-agent: *\ndisallow: /a\n");
        for other in
            ["host: a", "foo: bar", "visit-time: 1", "request-rate: 1/2", "clean-param: a", "crawl-delay: x"]
        {
            assert_eq!(parse(&format!("user-agent: *\ndisallow: /a\n{other}\n")), plain, "{other}");
        }
    }

    #[test]
    fn preference_records_keep_their_bytes() {
        let rules = Rules::parse(b"user-agent: *\ncontent-usage: /a b=\xff\ncontent-signal:\n", &[]);
        let records: Vec<_> =
            rules.records().map(|record| (record.kind().name(), record.value(), record.line())).collect();
        assert_eq!(records, [("Content-Usage", &b"/a b=\xff"[..], 2), ("Content-Signal", b"", 3)]);
    }

    #[test]
    fn each_row_of_signals() {
        fn lines<'a>(records: impl Iterator<Item = Record<'a>>) -> String {
            let lines: Vec<String> = records.map(|record| record.line().to_string()).collect();
            if lines.is_empty() { "-".into() } else { lines.join(",") }
        }
        let rows = include_str!("../tests/vectors/signals.tsv").lines().filter(|row| !row.starts_with('#'));
        for row in rows {
            let columns: Vec<&str> = row.split('\t').collect();
            let (text, names) =
                (columns[0].replace("\\n", "\n"), columns[1].split(',').filter(|name| *name != "-"));
            let tokens: Vec<ProductToken> = names.map(|name| ProductToken::new(name).unwrap()).collect();
            let rules = Rules::parse(text.as_bytes(), &tokens);
            let found = [
                lines(rules.records_outside_groups()),
                lines(rules.records()),
                lines(rules.signals_of_all()),
            ];
            assert_eq!(found[..], columns[2..], "{row}");
            assert_eq!(Robots::parse(text.as_bytes()).rules(&tokens), rules, "{row}");
        }
    }

    #[test]
    fn a_delay_may_be_longer_than_32_bits_hold() {
        let delay = |text: &str| parse(&format!("user-agent: *\ncrawl-delay: {text}\n")).crawl_delay();
        assert_eq!(delay("5000000000.5"), Some(Duration::new(5_000_000_000, 500_000_000)));
        assert_eq!(delay("18446744073709551616"), Some(Duration::MAX));
    }

    #[test]
    fn rules_hold_no_more_than_they_need() {
        let size = |rules: usize, pattern: &str| {
            let lines: String =
                (100..100 + rules).map(|number| format!("disallow: /{number}{pattern}\n")).collect();
            parse(&format!("user-agent: *\n{lines}")).heap_size()
        };
        // `*` and its item; then a text of four bytes and an entry for each rule.
        let nothing = size(0, "");
        assert!(nothing <= 256, "{nothing}");
        assert_eq!(size(1, ""), nothing + 20);
        assert_eq!(size(15, ""), nothing + 15 * 20);
        // From sixteen on, literals have keys.
        assert_eq!(size(16, ""), nothing + 33 * 4 + 16 * 36);
        assert_eq!(size(2, "*"), nothing + 2 * 29);
        // As written, with its length, and in the normal form.
        assert_eq!(size(1, "%41"), nothing + 16 + 7 + 4 + 5);
    }

    #[test]
    fn rules_are_shown_by_their_number() {
        let text = "user-agent: *\ncrawl-delay: 1\ndisallow: /a\nallow: /b\ndisallow: /c\ndisallow: /*d\n";
        assert_eq!(
            format!("{:?}", parse(text)),
            "Rules { group: [\"*\"], rules: 4, crawl_delay: Some(1s), .. }"
        );
    }

    #[test]
    fn where_there_is_no_file_all_or_nothing_is_allowed() {
        let target = Target::new("/a");
        let nothing = Rules::disallow_all().verdict(&target);
        assert_eq!(nothing.to_string(), "disallowed by \"Disallow: /\" on line 0");
        assert!(Rules::disallow_all().is_allowed(&Target::new("/robots.txt")));
        let all = Rules::allow_all().verdict(&target);
        assert_eq!((all.is_allowed(), all.rules().has_group()), (true, false));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn wildcards_of_very_different_lengths_keep_their_order() {
        // The longest is one of 32,770 bytes in its normal form, the shortest one of two.
        let mut text = format!("user-agent: *\ndisallow: /*aa{}\ndisallow: /*\n", "é".repeat(5461));
        for number in 0..30 {
            text += &format!("allow: /*x{number}\n");
        }
        let rules = parse(&text);
        assert!(rules.is_allowed(&Target::new("/x7")));
        assert!(!rules.is_allowed(&Target::new("/y7")));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn the_longest_of_many_wildcards_wins_whatever_their_lengths() {
        let wildcard = |key: &str, length: usize| format!("{key}: /*{}\n", "a".repeat(length));
        let mut text = String::from("user-agent: *\n") + &wildcard("disallow", 600);
        for length in [170, 250, 20, 40, 140, 300] {
            text += &wildcard("disallow", length);
            text += &wildcard("allow", length + 1);
        }
        for number in 0..20 {
            text += &format!("disallow: /*{number}x\n");
        }
        let rules = parse(&text);
        for (length, line) in [
            (20, 7),
            (41, 10),
            (139, 10),
            (140, 11),
            (171, 4),
            (200, 4),
            (250, 5),
            (251, 6),
            (301, 14),
            (600, 2),
        ] {
            let target = format!("/{}", "a".repeat(length));
            let verdict = rules.verdict(&Target::new(&target));
            assert_eq!(verdict.rule().unwrap().line(), line, "{length}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn many_literals_with_long_common_prefixes_are_told_apart() {
        let common = "/the/same/seventeen/bytes/";
        let mut text = String::from("user-agent: *\ndisallow: /\n");
        for number in 0..40 {
            text += &format!("allow: {common}{number:02}\ndisallow: {common}{number:02}/no$\n");
        }
        let rules = parse(&text);
        let line = |target: &str| {
            let target = format!("{common}{target}");
            rules.verdict(&Target::new(&target)).rule().unwrap().line()
        };
        assert_eq!([line(""), line("0"), line("!"), line("40"), line("~"), line("4")], [2; 6]);
        for number in 0..40 {
            assert_eq!(line(&format!("{number:02}")), 3 + 2 * number);
            assert_eq!(line(&format!("{number:02}/no")), 4 + 2 * number);
            assert_eq!(line(&format!("{number:02}/no/")), 3 + 2 * number);
            assert_eq!(line(&format!("{number:02}/nn")), 3 + 2 * number);
            assert_eq!(line(&format!("{number:02}/n")), 3 + 2 * number);
        }
    }

    const FILE: &[u8] =
        b"user-agent: foobot\ncrawl-delay: 2\nallow: /a/b\ndisallow: /a\ndisallow: /\x1b%41\n";

    fn verdict(file: &[u8], token: &str, target: &str) -> RobotsVerdict {
        Rules::parse(file, &[ProductToken::new(token).unwrap()]).verdict(&Target::new(target))
    }

    #[test]
    fn a_rule_is_shown_escaped_and_cut_at_200_characters() {
        let file =
            format!("user-agent: *\ndisallow: /\u{202e}\u{2066}\u{200b}\u{9b}'\"\\{}\n", "x".repeat(300));
        let shown = verdict(file.as_bytes(), "a", "/").rules().verdict(&Target::new(&file[24..])).to_string();
        let start = "disallowed by \"Disallow: /\\u{202e}\\u{2066}\\u{200b}\\u{9b}'\"\\xxx";
        assert!(shown.starts_with(start) && shown.ends_with("x…\" on line 2"), "{shown}");
        assert!(shown.chars().count() < 270, "{shown}");
    }

    #[test]
    fn a_verdict_names_its_rule_as_it_stands_in_the_file() {
        let verdict = verdict(FILE, "foobot", "/a/b/c");
        let rule = verdict.rule().unwrap();
        assert_eq!((rule.kind(), rule.value(), rule.line()), (RecordKind::Allow, &b"/a/b"[..], 3));
        assert_eq!(rule.to_string(), "Allow: /a/b");
        assert!(format!("{verdict:?}").starts_with("RobotsVerdict { is_allowed: true, rule: Some(Record"));
    }

    #[test]
    fn a_verdict_says_whose_group_it_is_from() {
        let named = verdict(FILE, "FooBot", "/a");
        assert_eq!((named.is_named(), named.token()), (true, Some("FooBot")));
        assert_eq!(named.group().collect::<Vec<_>>(), ["foobot"]);
        assert_eq!(named.crawl_delay(), Some(Duration::from_secs(2)));
        let all = verdict(b"user-agent: *\ndisallow: /a\n", "foobot", "/a");
        assert_eq!((all.is_named(), all.token()), (false, None));
        assert_eq!(all.group().collect::<Vec<_>>(), ["*"]);
        assert_eq!(all.crawl_delay(), None);
        let none = verdict(FILE, "barbot", "/a");
        assert_eq!((none.is_named(), none.token(), none.group().count()), (false, None, 0));
    }

    #[test]
    fn targets_are_equal_when_their_normal_forms_are() {
        assert_eq!(Target::new("/%7ea#top"), Target::new("/~a"));
        assert_ne!(Target::new("/a"), Target::new("/b"));
        assert_ne!(Target::new("/a"), Target::new("/a?"));
    }

    #[test]
    fn a_target_is_shown_in_its_normal_form() {
        let target = Target::new("/%7e");
        assert_eq!(alloc::format!("{target}"), "/~");
        assert_eq!(alloc::format!("{target:?}"), "Target(\"/~\")");
    }

    #[test]
    fn nothing_is_copied_where_nothing_changes() {
        assert!(matches!(Target::new("/a/b?c=d/e:f").normal, Cow::Borrowed(_)));
        assert!(matches!(Target::new("/%41").normal, Cow::Owned(_)));
    }
}
