//! From the records of one crawler's group to a block.
//!
//! Lines are compiled as they are read. Only those of the crawler's own groups are read to their end, because the other groups of a large file
//! are most of it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::block::{self, Block, Entry, Item};
use crate::group::{Chosen, Gathered, Gatherer, Raw, Signals, Sink, agent};
use crate::index;
use crate::line::{self, Key, Lines, RecordKind};
use crate::normal::{self, HASH, QUERY, REWRITE, STAR, Side};
use crate::pattern::can_match;
use crate::prefix;
use crate::profile::Profile;
use crate::slice;
use crate::sort::{self, Sorted};
use crate::token::ProductToken;

/// Kinds of items beside those of [`RecordKind`].
pub(crate) const ITEM_MATCHED: u32 = 100;
pub(crate) const ITEM_AGENT: u32 = 101;
pub(crate) const ITEM_SIGNAL_OUTSIDE: u32 = 102;
pub(crate) const ITEM_SIGNAL_OF_ALL: u32 = 103;

/// Compiles what `text`, read by RFC 9309, says to the crawler.
pub(crate) fn compile(text: &[u8], tokens: &[ProductToken]) -> Block {
    /// The bytes of a line with a rule, which few files go below.
    const LINE: usize = 24;
    /// More than fit into the 512,000 bytes that are read unless another limit is chosen.
    const RULES_AT_ONCE: usize = 32 * 1024;
    let draft = Draft::new((text.len() / LINE).min(RULES_AT_ONCE), Profile::Rfc9309);
    build(gather(text, tokens, draft), tokens)
}

/// Reads `text` by RFC 9309 and gathers what concerns the crawler, in one pass. Only the lines of its groups are read to their
/// end.
#[inline]
pub(crate) fn gather<'a, R: Sink<'a>>(text: &'a [u8], tokens: &[ProductToken], rules: R) -> Gathered<'a, R> {
    let profile = Profile::Rfc9309;
    let mut gatherer = Gatherer::new(tokens, profile, rules);
    for ((_, line), number) in Lines::of(text).zip(1..) {
        if let Some(key) = line::key(line, profile) {
            take(&mut gatherer, line, key, number, profile);
        }
    }
    gatherer.finish()
}

#[inline]
pub(crate) fn take<'a>(
    gatherer: &mut Gatherer<'a, '_, impl Sink<'a>>,
    line: &'a [u8],
    key: Key,
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
    gatherer.take(Raw { kind, value: line::trim(line::without_comment(value)), line: number });
}

/// Compiles rules that have been gathered.
pub(crate) fn build_gathered(
    gathered: Gathered<'_, Vec<Raw<'_>>>,
    tokens: &[ProductToken],
    profile: Profile,
) -> Block {
    let Gathered { rules, others, chosen, signals } = gathered;
    let mut draft = Draft::new(rules.len(), profile);
    for rule in rules {
        draft.push(rule);
    }
    build(Gathered { rules: draft, others, chosen, signals }, tokens)
}

fn build(gathered: Gathered<'_, Draft>, tokens: &[ProductToken]) -> Block {
    let (delay, chosen) = (gathered.crawl_delay(), gathered.chosen);
    let mut draft = gathered.rules;
    draft.sort_literals();
    draft.sort_wildcards();
    draft.push_items(&gathered.others, chosen, tokens);
    draft.push_signals(&gathered.signals, &gathered.others, chosen);
    draft.finish(chosen, delay)
}

/// The rules of a group in their normal form, on the way to a block.
struct Draft {
    profile: Profile,
    literals: Vec<Entry>,
    wildcards: Vec<Entry>,
    items: Vec<Item>,
    /// The block: a header to be filled in, and the text.
    out: Vec<u8>,
}

impl<'a> Sink<'a> for Draft {
    #[inline(always)]
    fn push(&mut self, rule: Raw<'a>) {
        self.push_rule(&rule);
    }

    fn clear(&mut self) {
        self.literals.clear();
        self.wildcards.clear();
        self.out.truncate(block::HEADER);
    }
}

impl Draft {
    fn new(rules: usize, profile: Profile) -> Self {
        /// What the text and the tables of most rules need.
        const EACH: usize = 64;
        let mut out = Vec::with_capacity(rules.saturating_add(4).saturating_mul(EACH));
        out.resize(block::HEADER, 0);
        Self { profile, literals: Vec::with_capacity(rules), wildcards: Vec::new(), items: Vec::new(), out }
    }

    #[inline(always)]
    fn push_rule(&mut self, rule: &Raw<'_>) {
        let (pattern, classes) = pattern_of(rule.value);
        let allow = rule.kind == RecordKind::Allow;
        self.push_pattern(pattern, classes, None, rule.line, allow);
        if self.profile == Profile::Google
            && allow
            && let Some(directory) = directory_of_index(pattern)
        {
            self.push_pattern(&directory, classes, Some(pattern), rule.line, allow);
        }
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
        let at = self.out.len();
        match self.profile {
            _ if !rewritten => self.out.extend_from_slice(pattern),
            Profile::Google => normal::push_google(pattern, Side::Pattern, &mut self.out),
            Profile::Rfc9309 => normal::push_normal(pattern, Side::Pattern, &mut self.out),
        }
        let length = self.out.len().wrapping_sub(at);
        let counts_differ = classes & QUERY != 0 && self.profile == Profile::Rfc9309;
        let bytes = if counts_differ { normal::bytes(slice::from(&self.out, at)) } else { length };
        // A value has at most 16 KiB, and each byte of it becomes at most three.
        let (length, bytes) = (length as u16, bytes as u16);
        let mut entry = Entry::new(at as u32, length, bytes, line, allow, rewritten);
        if classes & STAR == 0 {
            self.literals.push(entry);
        } else {
            entry.link = if rewritten { self.push_query_form(at) } else { 0 };
            if self.wildcards.is_empty() {
                self.wildcards.reserve(self.literals.capacity().saturating_sub(self.literals.len()));
            }
            self.wildcards.push(entry);
        }
    }

    /// The pattern as written, where it is not its own normal form: before that, with its length between.
    fn push_written(&mut self, pattern: &[u8]) {
        let written = String::from_utf8_lossy(pattern);
        self.out.extend_from_slice(written.as_bytes());
        self.out.extend_from_slice(&(written.len() as u32).to_le_bytes());
    }

    /// The form that the pattern at `at` has inside the query, behind it, if it is another. Gives its length.
    fn push_query_form(&mut self, at: usize) -> u32 {
        if self.profile == Profile::Google {
            return 0;
        }
        let form = normal::query_form(slice::from(&self.out, at)).unwrap_or_default();
        self.out.extend_from_slice(&form);
        form.len() as u32
    }

    fn sort_literals(&mut self) {
        /// More texts than this are sorted by words.
        const FEW: usize = 10;
        if self.literals.len() <= FEW { self.sort_few_literals() } else { self.sort_many_literals() }
    }

    fn sort_few_literals(&mut self) {
        let out = &self.out;
        let literals = &mut self.literals;
        literals.sort_by(|a, b| a.pattern(out).cmp(b.pattern(out)));
        literals.dedup_by(|next, kept| {
            let same = next.pattern(out) == kept.pattern(out);
            if same {
                *kept = kept.or_better(next);
            }
            same
        });
        let mut before: &[u8] = &[];
        for index in 0..literals.len() {
            let Some(pattern) = literals.get(index).map(|entry| entry.pattern(out)) else { break };
            let shared = prefix::common(0, before, pattern) as u32;
            let link = prefix::link(index, shared, |index| literals.get(index).map(Entry::length_and_link));
            if let Some(entry) = literals.get_mut(index) {
                entry.link = link;
            }
            before = pattern;
        }
    }

    fn sort_many_literals(&mut self) {
        let (out, literals) = (&self.out[..], &self.literals[..]);
        let pattern = move |number: u32| match literals.get(number as usize) {
            Some(entry) => entry.pattern(out),
            None => &[],
        };
        // All literals start with a slash.
        let order = sort::by_bytes(0..literals.len() as u32, 1, pattern);
        let mut kept: Vec<Entry> = Vec::with_capacity(order.len());
        for Sorted { number, shared, .. } in order {
            let Some(entry) = literals.get(number as usize) else { break };
            match kept.last_mut() {
                Some(last) if shared == sort::ALL => *last = last.or_better(entry),
                _ => {
                    let link =
                        prefix::link(kept.len(), shared, |index| kept.get(index).map(Entry::length_and_link));
                    kept.push(entry.linked(link));
                }
            }
        }
        self.literals = kept;
    }

    /// By precedence, then by the place in the file.
    fn sort_wildcards(&mut self) {
        let wildcards = &mut self.wildcards;
        let ranks = || wildcards.iter().map(Entry::rank);
        let (Some(first), Some(last)) = (ranks().min(), ranks().max()) else { return };
        let span = last.wrapping_sub(first);
        for shift in (0..u32::BITS).step_by(sort::DIGIT as usize).take_while(|shift| span >> shift != 0) {
            sort::deal(wildcards, |entry| entry.rank().wrapping_sub(first) >> shift);
        }
    }

    fn push_items(&mut self, records: &[Raw<'_>], chosen: Chosen, tokens: &[ProductToken]) {
        self.items.reserve(records.len().saturating_add(1));
        if let Chosen::Token(index) = chosen
            && let Some(token) = tokens.get(index)
        {
            self.push_item(token.as_str().as_bytes(), 0, ITEM_MATCHED);
        }
        let mut names = Names::default();
        for record in records {
            match record.kind {
                RecordKind::UserAgent => {
                    let name = agent_name(record.value, tokens, self.profile);
                    if !name.is_empty() && names.insert(name) {
                        self.push_item(name, 0, ITEM_AGENT);
                        let start = self.out.len().saturating_sub(name.len());
                        self.out.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
                    }
                }
                RecordKind::CrawlDelay => {}
                kind if kind.is_global() => {
                    self.push_text(record.value, record.line, kind as u32);
                }
                kind => self.push_item(record.value, record.line, kind as u32),
            }
        }
    }

    fn push_signals(&mut self, signals: &Signals<'_>, own: &[Raw<'_>], chosen: Chosen) {
        for record in &signals.outside {
            self.push_item(record.value, record.line, ITEM_SIGNAL_OUTSIDE);
        }
        if !matches!(chosen, Chosen::Token(_)) {
            return;
        }
        let own: BTreeSet<u32> = own.iter().map(|record| record.line).collect();
        for record in signals.of_all.iter().filter(|record| !own.contains(&record.line)) {
            self.push_item(record.value, record.line, ITEM_SIGNAL_OF_ALL);
        }
    }

    /// A text that is given out as a `&str`, as [`crate::Robots`] does. URLs are UTF-8.
    fn push_text(&mut self, bytes: &[u8], line: u32, kind: u32) {
        if !bytes.is_empty() && core::str::from_utf8(bytes).is_ok() {
            self.push_item(bytes, line, kind);
        }
    }

    fn push_item(&mut self, bytes: &[u8], line: u32, kind: u32) {
        self.items.push(Item { at: self.out.len() as u32, length: bytes.len() as u32, line, kind });
        self.out.extend_from_slice(bytes);
    }

    fn finish(mut self, chosen: Chosen, delay: Option<Duration>) -> Block {
        let counts = [self.out.len(), self.literals.len(), self.wildcards.len(), self.items.len()];
        let group = match chosen {
            Chosen::None => 0,
            Chosen::Global => block::FLAG_GROUP,
            Chosen::Token(_) => block::FLAG_GROUP | block::FLAG_NAMED,
        };
        let profile = if self.profile == Profile::Google { block::FLAG_GOOGLE } else { 0 };
        block::write_header(&mut self.out, counts.map(|count| count as u32), group | profile, delay);
        if block::are_keyed(self.literals.len()) {
            self.write_keys();
        }
        // Four at a time: that there is room is asked less often.
        let (fours, others) = self.literals.as_chunks::<4>();
        for four in fours {
            self.out.extend_from_slice(four.each_ref().map(Entry::encoded).as_flattened());
        }
        for entry in others {
            self.out.extend_from_slice(&entry.encoded());
        }
        for entry in &self.wildcards {
            self.out.extend_from_slice(&entry.encoded());
            let signature = index::signature_of_pattern(entry, &self.out);
            self.out.extend_from_slice(&signature.to_le_bytes());
        }
        for item in &self.items {
            item.write(&mut self.out);
        }
        index::write(&self.wildcards, &mut self.out);
        Block::new(&self.out)
    }

    fn write_keys(&mut self) {
        let starts_at = self.out.len();
        let keys_at = starts_at.saturating_add(2 * prefix::STARTS);
        self.out.resize(keys_at, 0);
        for entry in &self.literals {
            let key = prefix::key(entry.pattern(&self.out));
            self.out.extend_from_slice(&key.to_le_bytes());
        }
        let (before, keys) = self.out.split_at_mut(keys_at);
        let table = before.get_mut(starts_at..).unwrap_or_default();
        for (start, bytes) in prefix::starts(keys.as_chunks().0).zip(table.as_chunks_mut().0) {
            *bytes = start.to_le_bytes();
        }
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

/// The pattern in the value of a rule, without the comment that may stand behind it, and its [classes](normal::classes).
#[inline(always)]
pub(crate) fn pattern_of(value: &[u8]) -> (&[u8], u8) {
    let classes = normal::classes_of_pattern(value);
    if classes & HASH == 0 {
        return (value, classes);
    }
    let pattern = line::trim(line::without_comment(value));
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
