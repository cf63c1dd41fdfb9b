//! Compiling the rules of one crawler.
//!
//! Lines are compiled as they are read. Only those of the crawler's own groups are read to their end, because
//! the other groups of a large file are most of it.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::compiled::{Compiled, Item, ItemKind, Literal, Rule, Wildcard};
use crate::group::{Chosen, Gathered, Gatherer, Raw, Signals, Sink, agent};
use crate::index::{self, Index};
use crate::line::{self, Lines, RecordKey, RecordKind};
use crate::literals::Literals;
use crate::normal::{self, HASH, QUERY, REWRITE, STAR, Side};
use crate::pattern::can_match;
use crate::profile::Profile;
use crate::slice;
use crate::space::{Space, trim};
use crate::token::ProductToken;

pub(crate) fn compile(text: &[u8], tokens: &[ProductToken], profile: Profile) -> Compiled {
    /// The bytes of a line with a rule, which few files go below.
    const LINE: usize = 24;
    /// More than fit into the 512,000 bytes that are read unless another limit is chosen.
    const RULES_AT_ONCE: usize = 32 * 1024;
    let mut rules = Compiled::new((text.len() / LINE).min(RULES_AT_ONCE), profile);
    let gathered = gather(text, tokens, profile, &mut rules);
    rules.finish(gathered, tokens);
    rules
}

/// Reads `text` and gathers what concerns the crawler, in one pass. Only the lines of its groups are read to
/// their end.
#[inline]
pub(crate) fn gather<'a, R: Sink<'a>>(
    text: &'a [u8],
    tokens: &[ProductToken],
    profile: Profile,
    rules: &mut R,
) -> Gathered<'a> {
    let mut gatherer = Gatherer::new(tokens, profile, rules);
    for ((_, line), number) in Lines::of(text).zip(1..) {
        if let Some(key) = line::key(line, profile) {
            take(&mut gatherer, line, key, number, profile);
        }
    }
    gatherer.finish()
}

#[inline]
fn take<'a>(
    gatherer: &mut Gatherer<'a, '_, impl Sink<'a>>,
    line: &'a [u8],
    key: RecordKey,
    number: u32,
    profile: Profile,
) {
    let kind = key.kind;
    if gatherer.skips(kind) {
        return;
    }
    let value = line::fitting(kind, line, key.value_at, profile);
    if kind.is_rule() {
        // One that is dropped for its length still ends the run of user-agent lines before it.
        return gatherer.rule(Raw { kind, value: value.unwrap_or_default(), line: number });
    }
    let Some(value) = value else { return };
    let value = trim(line::without_comment(value), Space::around_value(kind, profile));
    gatherer.take(Raw { kind, value, line: number });
}

impl<'a> Sink<'a> for Compiled {
    #[inline(always)]
    fn push(&mut self, rule: Raw<'a>) {
        let (pattern, classes) = pattern_of(rule.kind, rule.value, self.profile);
        let allow = rule.kind == RecordKind::Allow;
        self.push_pattern(pattern, classes, None, rule.line, allow);
        if self.profile == Profile::Google
            && allow
            && let Some(directory) = directory_of_index(pattern)
        {
            self.push_pattern(&directory, classes, Some(pattern), rule.line, allow);
        }
    }

    fn clear(&mut self) {
        self.literals.entries.clear();
        self.wildcards.clear();
        self.text.clear();
    }
}

impl Compiled {
    pub(crate) fn new(rules: usize, profile: Profile) -> Self {
        /// What the text of most rules needs.
        const EACH: usize = 32;
        Self {
            profile,
            chosen: Chosen::None,
            delay: None,
            text: Vec::with_capacity(rules.saturating_add(4).saturating_mul(EACH)),
            literals: Literals::with_capacity(rules),
            wildcards: Vec::new(),
            index: None,
            items: Vec::new(),
        }
    }

    /// Compiles what has been gathered besides the rules, and sorts these.
    pub(crate) fn finish(&mut self, gathered: Gathered<'_>, tokens: &[ProductToken]) {
        self.delay = gathered.crawl_delay();
        self.chosen = gathered.chosen;
        self.push_items(&gathered.others, tokens);
        self.push_signals(&gathered.signals, &gathered.others);
        // Of a short text, a copy is cheaper than giving back the rest of its memory.
        if self.text.len() < 4096 {
            self.text = self.text.to_vec();
        }
        self.text.shrink_to_fit();
        self.literals.sort(&self.text);
        for wildcard in &mut self.wildcards {
            wildcard.signature = index::signature_of_pattern(wildcard, &self.text);
        }
        self.wildcards.shrink_to_fit();
        self.items.shrink_to_fit();
        self.index = Index::of(&self.wildcards, &self.text).map(Box::new);
    }

    /// RFC 9309 §2.2: an `empty-pattern` is no pattern to match. One that can match nothing is left out too.
    #[inline(always)]
    fn push_pattern(&mut self, pattern: &[u8], classes: u8, written: Option<&[u8]>, line: u32, allow: bool) {
        if !can_match(pattern) {
            return;
        }
        let rewritten = classes & REWRITE != 0 || written.is_some();
        if rewritten {
            self.push_written(written.unwrap_or(pattern));
        }
        let at = self.text.len();
        match self.profile {
            _ if !rewritten => self.text.extend_from_slice(pattern),
            Profile::Google => normal::push_google(pattern, Side::Pattern, &mut self.text),
            Profile::Rfc9309 => normal::push_normal(pattern, Side::Pattern, &mut self.text),
        }
        let length = self.text.len().wrapping_sub(at);
        let counts_differ = classes & QUERY != 0 && self.profile == Profile::Rfc9309;
        let bytes = if counts_differ { normal::bytes(slice::from(&self.text, at)) } else { length };
        let rule = Rule::new(at, length, bytes, line, allow, rewritten);
        if classes & STAR == 0 {
            self.literals.entries.push(Literal { rule, link: 0 });
        } else {
            let query_form = if rewritten { self.push_query_form(at) } else { 0 };
            if self.wildcards.is_empty() {
                // In most files a fifth of the rules or less.
                self.wildcards.reserve(self.literals.entries.capacity() / 8);
            }
            self.wildcards.push(Wildcard { rule, query_form, signature: 0 });
        }
    }

    /// The pattern as written, where it is not its own normal form: before that, with its length between.
    fn push_written(&mut self, pattern: &[u8]) {
        let written = String::from_utf8_lossy(pattern);
        self.text.extend_from_slice(written.as_bytes());
        self.text.extend_from_slice(&(written.len() as u32).to_le_bytes());
    }

    /// The form that the pattern at `at` has inside the query, behind it, if it is another. Gives its length.
    fn push_query_form(&mut self, at: usize) -> u32 {
        if self.profile == Profile::Google {
            return 0;
        }
        let form = normal::query_form(slice::from(&self.text, at)).unwrap_or_default();
        self.text.extend_from_slice(&form);
        form.len() as u32
    }

    fn push_items(&mut self, records: &[Raw<'_>], tokens: &[ProductToken]) {
        self.items = Vec::with_capacity(records.len());
        let mut names = Names::default();
        for record in records {
            let kind = ItemKind::Record(record.kind);
            match record.kind {
                RecordKind::UserAgent => {
                    let name = agent_name(record.value, tokens, self.profile);
                    if !name.is_empty() && names.insert(name) {
                        self.push_item(name, 0, kind);
                        let start = self.text.len().saturating_sub(name.len());
                        self.text.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
                    }
                }
                // `finish` has it as a time: the largest of the group.
                RecordKind::CrawlDelay => {}
                // Given out as `&str`, as `Robots` does. URLs are UTF-8.
                global
                    if global.is_global()
                        && (record.value.is_empty() || core::str::from_utf8(record.value).is_err()) => {}
                _ => self.push_item(record.value, record.line, kind),
            }
        }
    }

    fn push_signals(&mut self, signals: &Signals<'_>, own: &[Raw<'_>]) {
        for record in &signals.outside {
            self.push_item(record.value, record.line, ItemKind::Outside(record.kind));
        }
        if !matches!(self.chosen, Chosen::Token(_)) {
            return;
        }
        // A group may name a token and `*`, and then these are among its records already.
        let own: BTreeSet<u32> = own.iter().map(|record| record.line).collect();
        for record in signals.of_all.iter().filter(|record| !own.contains(&record.line)) {
            self.push_item(record.value, record.line, ItemKind::SignalOfAll);
        }
    }

    fn push_item(&mut self, bytes: &[u8], line: u32, kind: ItemKind) {
        self.items.push(Item { at: self.text.len() as u32, length: bytes.len() as u32, line, kind });
        self.text.extend_from_slice(bytes);
    }
}

/// Names seen so far, without regard to case. Few in all files but those made to be many.
#[derive(Default)]
struct Names<'a> {
    few: [&'a [u8]; 8],
    many: BTreeSet<Vec<u8>>,
}

impl<'a> Names<'a> {
    /// Whether the name, which is not empty, is new.
    fn insert(&mut self, name: &'a [u8]) -> bool {
        for place in &mut self.few {
            if place.is_empty() {
                *place = name;
                return true;
            }
            if place.eq_ignore_ascii_case(name) {
                return false;
            }
        }
        self.many.insert(name.to_ascii_lowercase())
    }
}

/// The pattern in the value of a rule, without the comment that may stand behind it, and its
/// [classes](normal::classes).
#[inline(always)]
pub(crate) fn pattern_of(kind: RecordKind, value: &[u8], profile: Profile) -> (&[u8], u8) {
    let classes = normal::classes_of_pattern(value);
    if classes & HASH == 0 {
        return (value, classes);
    }
    let pattern = trim(line::without_comment(value), Space::around_value(kind, profile));
    (pattern, normal::classes_of_pattern(pattern))
}

/// The name that a user-agent line gives; the whole value where it is one of our tokens.
fn agent_name<'a>(value: &'a [u8], tokens: &[ProductToken], profile: Profile) -> &'a [u8] {
    let is_ours = profile == Profile::Rfc9309 && tokens.iter().any(|token| token.is_named_by(value));
    if is_ours { value } else { agent(value, profile) }
}

/// Google's parser takes `Allow: /a/index.html` for the directory `/a/` as well.
pub(crate) fn directory_of_index(pattern: &[u8]) -> Option<Vec<u8>> {
    let slash = memchr::memrchr(b'/', pattern)?;
    let directory =
        slice::from(pattern, slash).starts_with(b"/index.htm").then(|| pattern.get(..=slash))??;
    Some([directory, b"$"].concat())
}
