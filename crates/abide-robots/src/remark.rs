//! What a file's author should know: lines that are not read, or not read as written.
//!
//! Reading never fails, so this is where an author sees what was passed over. The kinds are explained in
//! `docs/lint-codes.md`.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::time::Duration;

use crate::compile::directory_of_index;
use crate::group::{self, agent, seconds};
use crate::line::{self, Lines, RecordKey, RecordKind, Spelling};
use crate::normal::{self, Side};
use crate::pattern::can_match;
use crate::profile::{GOOGLE_LINE_MAX, LINE_MAX, Profile};
use crate::robots::Robots;
use crate::slice;
use crate::space::{Space, invisible_in, trim};
use crate::spoilt::{is_utf16, second_record};

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
    kind: &'static str,
    line: u32,
    columns: Range<usize>,
    text: String,
}

impl Remark {
    /// The kind of mistake, a name that programs may rely on: `docs/lint-codes.md` in the repository lists
    /// them.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The line of the mistake; the first is 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The columns of the mistake, in bytes; the first is 1.
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
    /// The mistakes in the file, in file order. At most a few remarks per line.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut reader = Reader {
            robots: self,
            profile: self.options().profile,
            remarks: Vec::new(),
            phase: RunPhase::Outside,
            inside_run: None,
            agents: BTreeSet::new(),
            group: None,
            groups: BTreeMap::new(),
            rules: BTreeMap::new(),
        };
        reader.whole_file();
        for ((_, line), number) in Lines::of(self.text()).zip(1..) {
            reader.line(RecordPlace { line, number, profile: reader.profile });
        }
        // Not made in order: one on a run of user-agent lines is made when the run goes on behind it.
        reader.remarks.sort_by_key(|remark| (remark.line, remark.columns.start));
        reader.remarks
    }
}

/// A line and where it stands.
#[derive(Clone, Copy)]
struct RecordPlace<'a> {
    line: &'a [u8],
    number: u32,
    profile: Profile,
}

impl RecordPlace<'_> {
    /// The columns of the part of the line that follows `from` and space.
    fn columns(&self, from: usize, part: &[u8]) -> Range<usize> {
        let behind = slice::from(self.line, from);
        let space = behind.windows(part.len().max(1)).position(|window| window.starts_with(part));
        let first = from.saturating_add(space.unwrap_or_default()).saturating_add(1);
        first..first.saturating_add(part.len())
    }

    /// The line without its comment and the space that the grammar allows around it.
    fn content(&self) -> &[u8] {
        trim(line::without_comment(self.line), Space::of(self.profile))
    }

    /// The key with the space around it.
    fn key(&self, key: RecordKey) -> &[u8] {
        let before = slice::before(self.line, key.value_at);
        before.strip_suffix(b":").unwrap_or(before)
    }

    fn value(&self, key: RecordKey) -> &[u8] {
        line::value(key.kind, self.line, key.value_at, self.profile)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunPhase {
    Outside,
    /// Inside a run of user-agent lines.
    Agents,
    Rules,
}

struct Reader<'a> {
    robots: &'a Robots,
    profile: Profile,
    remarks: Vec<Remark>,
    phase: RunPhase,
    /// On the first other record of a run of user-agent lines; made if the run goes on behind it.
    inside_run: Option<Remark>,
    /// The crawlers that the current group names. Groups that name the same crawlers are one group.
    agents: BTreeSet<Vec<u8>>,
    group: Option<usize>,
    groups: BTreeMap<BTreeSet<Vec<u8>>, usize>,
    /// The rules of each group by what they match: the bytes and kind of the most specific, its line and
    /// place.
    rules: BTreeMap<(usize, Vec<u8>), Known>,
}

struct Known {
    rank: (usize, bool),
    pattern: Vec<u8>,
    number: u32,
    columns: Range<usize>,
}

impl Reader<'_> {
    fn remark(&mut self, kind: &'static str, line: u32, columns: Range<usize>, text: impl Into<String>) {
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
            self.remark("html", number, columns, "the file looks like HTML, not like a robots.txt");
        }
        if self.robots.is_utf16() {
            self.remark("utf16", 1, 1..1, "the file is UTF-16; RFC 9309 asks for UTF-8");
        }
        if is_utf16(text) {
            let sentence = "the file looks like UTF-16 without a byte order mark, so it is not decoded; RFC 9309 asks for UTF-8";
            self.remark("utf16-without-mark", 1, 1..1, sentence);
        }
        if self.robots.is_cut() {
            let last = Lines::of(text).count() as u32;
            let sentence = format!(
                "the file is longer than {} bytes; the rest is not read",
                self.robots.options().limit
            );
            self.remark("cut-by-limit", last.max(1), 1..1, sentence);
        }
    }

    fn line(&mut self, place: RecordPlace<'_>) {
        let content = trim(place.content(), Space::around_key(self.profile));
        // `Allow /a:b` has a colon, but not behind its key.
        let is_record = |key: &RecordKey| key.kind != RecordKind::Other || !is_allow_without_colon(content);
        let key = line::key(place.line, self.profile).filter(is_record);
        self.one_line(place, key);
        let Some(key) = key else {
            if !content.is_empty() {
                let columns = place.columns(0, content);
                let sentence = if is_allow_without_colon(content) {
                    "a colon is missing behind \"Allow\"; as a guess could lift a restriction, the line is skipped"
                } else {
                    "the line is no record and is skipped"
                };
                self.remark("unreadable-line", place.number, columns, sentence);
                let whole = line::without_comment(place.line).len();
                self.first_invisible(place, 0..whole, 0..usize::MAX, "the line is skipped");
            }
            return;
        };
        self.bytes(place, key);
        self.invisible(place, key);
        self.spelling(place, key);
        self.value(place, key);
        self.group(place, key);
    }

    fn bytes(&mut self, place: RecordPlace<'_>, key: RecordKey) {
        let content = place.content();
        let valid = core::str::from_utf8(content).map_or_else(|error| error.valid_up_to(), |_| content.len());
        let control = content.iter().position(|&byte| byte.is_ascii_control() && byte != b'\t');
        let first = control.filter(|&at| at < valid).unwrap_or(valid);
        if let Some(byte) = content.get(first) {
            let at = place.columns(0, content).start.saturating_add(first);
            let is_compared =
                key.kind.is_rule() && place.columns(key.value_at, place.value(key)).contains(&at);
            let consequence = match self.profile {
                Profile::Google if *byte == 0 => "; the line ends before it",
                Profile::Rfc9309 if is_compared => "; it is compared as its percent-encoding",
                _ => "",
            };
            let byte = byte.escape_ascii();
            let sentence = format!("the byte {byte} is neither UTF-8 nor printable{consequence}");
            self.remark("invalid-bytes", place.number, at..at.saturating_add(1), sentence);
        }
    }

    /// In the key and in the value, with the space around each.
    fn invisible(&mut self, place: RecordPlace<'_>, key: RecordKey) {
        let (name, value) = (line::name(place.key(key), self.profile), place.value(key));
        let is_compared = key.kind.is_rule() && self.profile == Profile::Rfc9309;
        let in_value =
            if is_compared { "it is compared as its percent-encoding" } else { "it is part of the value" };
        let content = line::without_comment(place.line);
        self.first_invisible(place, 0..place.key(key).len(), place.columns(0, name), "it is part of the key");
        self.first_invisible(
            place,
            key.value_at..content.len(),
            place.columns(key.value_at, value),
            in_value,
        );
    }

    /// One remark for all of a part, so that a line has few. What is outside of `kept` is dropped.
    fn first_invisible(
        &mut self,
        place: RecordPlace<'_>,
        part: Range<usize>,
        kept: Range<usize>,
        consequence: &str,
    ) {
        let mut found = invisible_in(place.line.get(part.clone()).unwrap_or_default());
        let Some((at, letter)) = found.next() else { return };
        let first = part.start.saturating_add(at).saturating_add(1);
        let consequence = if kept.contains(&first) { consequence } else { "it is dropped" };
        let more = match found.count() {
            0 => String::new(),
            more => format!("; {more} more behind it"),
        };
        let sentence = format!("the character U+{:04X} is invisible; {consequence}{more}", u32::from(letter));
        self.remark(
            "invisible-character",
            place.number,
            first..first.saturating_add(letter.len_utf8()),
            sentence,
        );
    }

    fn one_line(&mut self, place: RecordPlace<'_>, key: Option<RecordKey>) {
        let behind = key.map_or(place.line.len(), |key| key.value_at);
        let Some(second) = second_record(place.line, behind) else { return };
        let columns = second.start.saturating_add(1)..second.end.saturating_add(1);
        let sentence = if slice::from(place.line, second.start).starts_with(b"\\") {
            "a line end is written out here as two characters, which end no line"
        } else {
            "a line has one record; a second one that begins here is read as part of the first"
        };
        self.remark("records-on-one-line", place.number, columns, sentence);
    }

    fn spelling(&mut self, place: RecordPlace<'_>, key: RecordKey) {
        let name = line::name(place.key(key), self.profile);
        let (columns, shown) = (place.columns(0, name), quoted(name));
        if line::kind_of(name, self.profile).1 == Spelling::Misspelt {
            let sentence = format!("{shown} is read as \"{}\"", key.kind.name());
            self.remark("misspelt-key", place.number, columns.clone(), sentence);
        }
        if key.spelling == Spelling::MissingColon {
            let end = columns.end;
            let sentence = format!("a colon is missing behind {shown}, and is read as if it were there");
            self.remark("missing-colon", place.number, end..end.saturating_add(1), sentence);
        } else if key.kind == RecordKind::Other {
            let sentence = format!("the key {shown} is unknown; the record changes nothing");
            self.remark("unknown-record", place.number, columns, sentence);
        }
    }

    fn value(&mut self, place: RecordPlace<'_>, key: RecordKey) {
        let value = place.value(key);
        let columns = place.columns(key.value_at, value);
        self.length(place, &columns);
        match key.kind {
            RecordKind::UserAgent => self.agent(place.number, columns, value),
            RecordKind::CrawlDelay => self.delay(place.number, columns, value),
            RecordKind::Sitemap | RecordKind::License if !is_absolute(value) => {
                let sentence =
                    format!("a {} is an absolute URL, which {} is not", key.kind.name(), quoted(value));
                self.remark("relative-url", place.number, columns, sentence);
            }
            kind if kind.is_rule() && !value.is_empty() && !can_match(value) => {
                let sentence = format!("{} matches nothing, as every path starts with \"/\"", quoted(value));
                self.remark("never-matches", place.number, columns, sentence);
            }
            _ => {}
        }
    }

    fn length(&mut self, place: RecordPlace<'_>, value: &Range<usize>) {
        let line_end = place.line.len().saturating_add(1);
        match self.profile {
            Profile::Rfc9309 if value.len() > LINE_MAX => {
                let sentence = "the value is longer than 16 KiB: of a Disallow, a User-agent or a preference its beginning \
                                counts, any other record is dropped";
                self.remark("overlong-line", place.number, value.clone(), sentence);
            }
            Profile::Google if place.line.len() > GOOGLE_LINE_MAX => {
                let rest = GOOGLE_LINE_MAX.saturating_add(1)..line_end;
                let sentence = "the line is longer than 16,663 bytes; the rest is not read";
                self.remark("overlong-line", place.number, rest, sentence);
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
        self.remark("unusable-crawl-delay", line, columns, format!("{} {sentence}", quoted(value)));
    }

    fn agent(&mut self, line: u32, columns: Range<usize>, value: &[u8]) {
        // A crawler whose name is the whole value takes the line as its own.
        let is_name = self.profile == Profile::Rfc9309 && group::is_lenient(value);
        let rest = |name: &[u8]| columns.start.saturating_add(name.len())..columns.end;
        match agent(value, self.profile) {
            [] => {
                let whom = if is_name { "only a crawler with that name" } else { "no crawler" };
                let sentence =
                    format!("{} is neither a product token nor \"*\"; the line names {whom}", quoted(value));
                self.remark("no-token", line, columns, sentence);
            }
            b"*" if value.len() > 1 => {
                let sentence = "\"*\" names all crawlers; the rest is ignored";
                self.remark("token-cut", line, rest(b"*"), sentence);
            }
            name if name.len() < value.len() => {
                let (shown, whole) = (quoted(name), quoted(value));
                let sentence = if is_name {
                    format!("the product token is {shown}; only a crawler named {whole} reads the rest")
                } else {
                    format!("the product token is {shown}; the rest is ignored")
                };
                self.remark("token-cut", line, rest(name), sentence);
            }
            _ => {}
        }
    }

    /// How records make groups: RFC 9309 §2.1 and 2.2.4.
    fn group(&mut self, place: RecordPlace<'_>, key: RecordKey) {
        let kind = key.kind;
        match (self.phase, kind) {
            (phase, RecordKind::UserAgent) => {
                let inside_run = self.inside_run.take();
                if phase == RunPhase::Agents {
                    self.remarks.extend(inside_run);
                } else {
                    self.agents.clear();
                }
                self.phase = RunPhase::Agents;
                self.group = None;
                let name = group::name(place.value(key), self.profile);
                if !name.is_empty() {
                    self.agents.insert(name.to_ascii_lowercase());
                }
            }
            (RunPhase::Outside, kind) if !kind.stands_anywhere() => {
                let columns = place.columns(0, trim(place.line, Space::of(self.profile)));
                let (code, what) = match kind {
                    RecordKind::ContentUsage => (
                        "outside-group",
                        "belongs to no group: it permits nothing, and what it forbids is unknown",
                    ),
                    kind if kind.may_opt_out() => ("signal-outside-group", "counts for every crawler"),
                    _ => ("outside-group", "belongs to no group"),
                };
                let sentence = format!("the record stands before any user-agent line and {what}");
                self.remark(code, place.number, columns, sentence);
            }
            (RunPhase::Agents | RunPhase::Rules, kind) if kind.is_rule() => {
                self.phase = RunPhase::Rules;
                self.rule(place, key);
            }
            (RunPhase::Agents, kind) if self.inside_run.is_none() => {
                let what = if kind.stands_anywhere() {
                    "what follows belongs"
                } else {
                    "it and what follows belong"
                };
                let text =
                    format!("the record does not end the run of user-agent lines: {what} to all of them");
                let columns = 1..place.line.len().saturating_add(1);
                self.inside_run =
                    Some(Remark { kind: "record-inside-run", line: place.number, columns, text });
            }
            _ => {}
        }
    }

    /// The number of the current group among those that name other crawlers; `None` if it names none.
    fn number_of_group(&mut self) -> Option<usize> {
        if self.group.is_none() && !self.agents.is_empty() {
            let next = self.groups.len();
            let agents = core::mem::take(&mut self.agents);
            self.group = Some(*self.groups.entry(agents).or_insert(next));
        }
        self.group
    }

    /// Of two rules that match the same, the one with more bytes decides, or the Allow.
    fn rule(&mut self, place: RecordPlace<'_>, key: RecordKey) {
        let allow = key.kind == RecordKind::Allow;
        let value = line::fitting(key.kind, place.line, key.value_at, self.profile);
        let space = Space::around_value(key.kind, self.profile);
        let value = trim(line::without_comment(value.unwrap_or_default()), space);
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
        let columns = place.columns(0, trim(place.line, Space::of(self.profile)));
        let mut hidden = Known { rank: (bytes, allow), pattern, number: place.number, columns };
        let known = match self.rules.entry(matches) {
            Entry::Vacant(place) => {
                place.insert(hidden);
                return;
            }
            Entry::Occupied(known) => known.into_mut(),
        };
        if hidden.rank > known.rank {
            core::mem::swap(&mut hidden, known);
        }
        let line = known.number;
        let (kind, sentence) = if hidden.rank != known.rank {
            ("hidden-rule", format!("the rule on line {line} matches the same and takes precedence"))
        } else if hidden.pattern == known.pattern {
            ("duplicate-rule", format!("the rule stands on line {line} already"))
        } else {
            ("duplicate-rule", format!("the rule on line {line} says the same"))
        };
        self.remark(kind, hidden.number, hidden.columns, sentence);
    }
}

/// The pattern without stars that add nothing, so that patterns which match the same are the same: one of
/// several in a row is enough; at the end none is needed, and then no `$` either; and as every path starts
/// with a slash, a star before anything but a slash may stand behind one.
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
