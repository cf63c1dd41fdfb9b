//! From the records of one crawler's group to a block.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::block::{self, Block, Entry, Header, Item};
use crate::group::{Agent, Chosen, Gatherer, Raw, agent};
use crate::index;
use crate::line::{self, Key, Lines, RecordKind};
use crate::normal::{self, HASH, QUERY, REWRITE, STAR, Side};
use crate::pattern::can_match;
use crate::prefix;
use crate::profile::Profile;
use crate::sort;
use crate::token::ProductToken;

/// Kinds of items beside those of [`RecordKind`].
pub(crate) const ITEM_MATCHED: u32 = 100;
pub(crate) const ITEM_AGENT: u32 = 101;

/// Reads `text` and keeps what concerns the crawler: one pass, and only the lines of its groups are read to their end.
pub(crate) fn compile(text: &[u8], tokens: &[ProductToken], profile: Profile) -> Block {
    let mut gatherer = Gatherer::of(text, tokens, profile);
    for ((_, line), number) in Lines::of(text).zip(1..) {
        if let Some(key) = line::key(line, profile) {
            take(&mut gatherer, line, key, number, profile);
        }
    }
    gatherer.finish();
    build(&gatherer, tokens, profile)
}

#[inline]
pub(crate) fn take<'a>(
    gatherer: &mut Gatherer<'a, '_>,
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
    // An over-long user-agent line still begins a group, if nobody's.
    if let Some(value) = value.or((kind == RecordKind::UserAgent).then_some(&[])) {
        gatherer.take(Raw { kind, value: line::trim(line::without_comment(value)), line: number });
    }
}

pub(crate) fn build(gatherer: &Gatherer<'_, '_>, tokens: &[ProductToken], profile: Profile) -> Block {
    let mut draft = Draft::new(gatherer, profile);
    for rule in &gatherer.rules {
        draft.push_rule(rule);
    }
    draft.sort();
    draft.push_items(gatherer, tokens);
    draft.finish(gatherer)
}

struct Draft {
    profile: Profile,
    literals: Vec<Entry>,
    wildcards: Vec<Entry>,
    items: Vec<Item>,
    /// The block: a header to be filled in, and the text.
    out: Vec<u8>,
}

impl Draft {
    fn new(gatherer: &Gatherer<'_, '_>, profile: Profile) -> Self {
        /// What the text and the tables of most records need.
        const EACH: usize = 64;
        let records = gatherer.rules.len() + gatherer.others.len();
        let mut out = Vec::with_capacity(block::HEADER + EACH * records);
        out.resize(block::HEADER, 0);
        let literals = Vec::with_capacity(gatherer.rules.len());
        let items = Vec::with_capacity(gatherer.others.len() + 1);
        Self { profile, literals, wildcards: Vec::new(), items, out }
    }

    fn push_rule(&mut self, rule: &Raw<'_>) {
        let mut pattern = rule.value;
        let mut classes = normal::classes_of_pattern(pattern);
        if classes & HASH != 0 {
            pattern = line::trim(line::without_comment(pattern));
            classes = normal::classes_of_pattern(pattern);
        }
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
        let length = self.out.len() - at;
        let counts_differ = classes & QUERY != 0 && self.profile == Profile::Rfc9309;
        let octets = if counts_differ { normal::octets(&self.out[at..]) } else { length };
        // A value has at most 16 KiB, and each octet of it becomes at most three.
        let (length, octets) = (length as u16, octets as u16);
        let mut entry = Entry::new(at as u32, length, octets, line).allowing(allow).rewritten(rewritten);
        if classes & STAR == 0 {
            self.literals.push(entry);
        } else {
            entry.link = if rewritten { self.push_query_form(at) } else { 0 };
            if self.wildcards.is_empty() {
                self.wildcards.reserve(self.literals.capacity() - self.literals.len());
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
        let form = normal::query_form(&self.out[at..]).unwrap_or_default();
        self.out.extend_from_slice(&form);
        form.len() as u32
    }

    fn sort(&mut self) {
        self.sort_literals();
        let out = &self.out;
        prefix::link(&mut self.literals, |entry| entry.pattern(out), |entry| &mut entry.link);
        self.sort_wildcards();
    }

    /// By precedence, then by the place in the file.
    fn sort_wildcards(&mut self) {
        /// More wildcards than this are sorted by numbers.
        const FEW: usize = 10;
        let wildcards = &mut self.wildcards;
        if wildcards.len() <= FEW {
            return wildcards.sort_by_key(Entry::rank);
        }
        let ranked = |(place, entry): (u64, &Entry)| u64::from(entry.rank()) << 32 | place;
        let mut order: Vec<u64> = (0..).zip(&*wildcards).map(ranked).collect();
        order.sort_unstable();
        *wildcards = order.iter().map(|place| wildcards[*place as u32 as usize]).collect();
    }

    /// RFC 9309 §2.2.2: of equivalent rules "the 'allow' rule SHOULD be used"; duplicates "MAY be deduplicated".
    fn sort_literals(&mut self) {
        /// More texts than this are sorted by words.
        const FEW: usize = 10;
        let out = &self.out;
        let literals = &mut self.literals;
        if literals.len() <= FEW {
            literals.sort_by(|a, b| a.pattern(out).cmp(b.pattern(out)));
        } else {
            let numbers = 0..literals.len() as u32;
            // All literals start with a slash.
            let order = sort::by_octets(numbers, 1, |number| literals[number as usize].pattern(out));
            *literals = order.iter().map(|number| literals[*number as usize]).collect();
        }
        literals.dedup_by(|next, kept| {
            let same = next.length == kept.length && is_same(next.pattern(out), kept.pattern(out));
            if same && (next.rank(), next.line()) < (kept.rank(), kept.line()) {
                *kept = *next;
            }
            same
        });
    }

    fn push_items(&mut self, gatherer: &Gatherer<'_, '_>, tokens: &[ProductToken]) {
        if let Chosen::Token(index) = gatherer.chosen() {
            self.push_item(tokens[index].as_str().as_bytes(), 0, ITEM_MATCHED);
        }
        let mut names = Names::default();
        for record in &gatherer.others {
            match record.kind {
                RecordKind::UserAgent => {
                    let name = agent_name(record.value, tokens);
                    if !name.is_empty() && names.insert(name) {
                        self.push_item(name, 0, ITEM_AGENT);
                        let start = self.out.len() - name.len();
                        self.out[start..].make_ascii_lowercase();
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

    /// A text that is given out as a `&str`.
    fn push_text(&mut self, octets: &[u8], line: u32, kind: u32) {
        match core::str::from_utf8(octets) {
            Ok("") => {}
            Ok(text) => self.push_item(text.as_bytes(), line, kind),
            Err(_) => self.push_item(String::from_utf8_lossy(octets).as_bytes(), line, kind),
        }
    }

    fn push_item(&mut self, octets: &[u8], line: u32, kind: u32) {
        self.items.push(Item { at: self.out.len() as u32, length: octets.len() as u32, line, kind });
        self.out.extend_from_slice(octets);
    }

    fn finish(mut self, gatherer: &Gatherer<'_, '_>) -> Block {
        let mut header = Header {
            tables: self.out.len() as u32,
            literals: self.literals.len() as u32,
            wildcards: self.wildcards.len() as u32,
            items: self.items.len() as u32,
            flags: if self.profile == Profile::Google { block::FLAG_GOOGLE } else { 0 },
            ..Header::default()
        };
        header.set_chosen(gatherer.chosen());
        header.set_delay(gatherer.crawl_delay());
        header.write(&mut self.out);
        if self.literals.len() >= block::KEYED_MIN {
            for entry in &self.literals {
                let key = prefix::key(entry.pattern(&self.out));
                self.out.extend_from_slice(&key.to_le_bytes());
            }
        }
        for entry in &self.literals {
            entry.write(&mut self.out);
        }
        for entry in &self.wildcards {
            entry.write(&mut self.out);
            let signature = index::signature_of_pattern(entry, &self.out);
            self.out.extend_from_slice(&signature.to_le_bytes());
        }
        for item in &self.items {
            item.write(&mut self.out);
        }
        index::write(&self.wildcards, &mut self.out);
        Block::new(&self.out)
    }
}

/// Sorted neighbours of one length that differ do so mostly in their last octets: cheaper to see than to compare all.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.last_chunk::<4>() == b.last_chunk() && a == b
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

/// The name that a user-agent line gives; the whole value where it is one of our tokens.
fn agent_name<'a>(value: &'a [u8], tokens: &[ProductToken]) -> &'a [u8] {
    match agent(value) {
        Agent::Global => b"*",
        Agent::Token(_) if tokens.iter().any(|token| token.is_named_by(value)) => value,
        Agent::Token(name) => name,
    }
}

/// Google's parser takes `Allow: /a/index.html` for the directory `/a/` as well.
fn directory_of_index(pattern: &[u8]) -> Option<Vec<u8>> {
    let slash = memchr::memrchr(b'/', pattern)?;
    let directory = pattern[slash..].starts_with(b"/index.htm").then(|| &pattern[..=slash])?;
    Some([directory, b"$"].concat())
}
