//! From the records of one crawler's group to a block.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::block::{self, Block, Entry, Header, Item};
use crate::group::{Agent, Chosen, Gatherer, Raw, agent};
use crate::line::{self, Lines, RecordKind};
use crate::normal::{self, DOLLAR, QUERY, STAR, Side};
use crate::pattern::{can_match, is_normal};
use crate::profile::Profile;
use crate::token::ProductToken;

/// Kinds of items beside those of [`RecordKind`].
pub(crate) const ITEM_MATCHED: u32 = 100;
pub(crate) const ITEM_AGENT: u32 = 101;

/// Reads `text` and keeps what concerns the crawler: one pass, and only the lines of its groups are read to their end.
pub(crate) fn compile(text: &[u8], tokens: &[ProductToken], profile: Profile) -> Block {
    let mut gatherer = Gatherer::new(tokens);
    for ((_, line), number) in Lines::of(text).zip(1..) {
        if let Some(key) = line::key(line, profile) {
            let value = if gatherer.wants(key.kind) {
                line::fitting(key.kind, line, key.value_at, profile)
            } else {
                Some(&[][..])
            };
            let value = value.or(shapes_groups(key.kind).then_some(&[]));
            if let Some(value) = value {
                gatherer.take(Raw { kind: key.kind, value, line: number });
            }
        }
    }
    gatherer.finish();
    build(gatherer, tokens, profile)
}

/// A rule that is dropped for its length still ends the run of user-agent lines before it, and an over-long
/// user-agent line still begins a group, if nobody's.
pub(crate) fn shapes_groups(kind: RecordKind) -> bool {
    kind.is_rule() || kind == RecordKind::UserAgent
}

pub(crate) fn build(gatherer: Gatherer<'_, '_>, tokens: &[ProductToken], profile: Profile) -> Block {
    let mut draft = Draft { profile, ..Draft::default() };
    for rule in &gatherer.rules {
        draft.push_rule(rule);
    }
    draft.sort();
    draft.push_items(&gatherer, tokens);

    let mut header = Header {
        literals: draft.literals.len() as u32,
        wildcards: draft.wildcards.len() as u32,
        items: draft.items.len() as u32,
        flags: if profile == Profile::Google { block::FLAG_GOOGLE } else { 0 },
        ..Header::default()
    };
    header.set_chosen(gatherer.chosen());
    header.set_delay(gatherer.crawl_delay);
    draft.write(&header)
}

#[derive(Default)]
struct Draft {
    profile: Profile,
    literals: Vec<Entry>,
    wildcards: Vec<Entry>,
    items: Vec<Item>,
    text: Vec<u8>,
}

impl Draft {
    fn push_rule(&mut self, rule: &Raw<'_>) {
        let allow = rule.kind == RecordKind::Allow;
        self.push_pattern(rule.value, rule.value, rule.line, allow);
        if self.profile == Profile::Google
            && allow
            && let Some(directory) = directory_of_index(rule.value)
        {
            self.push_pattern(&directory, rule.value, rule.line, allow);
        }
    }

    /// RFC 9309 §2.2: an `empty-pattern` is no pattern to match. One that can match nothing is left out too.
    fn push_pattern(&mut self, pattern: &[u8], written: &[u8], line: u32, allow: bool) {
        if !can_match(pattern) {
            return;
        }
        let classes = normal::classes(pattern);
        let ends_inside = classes & DOLLAR != 0 && memchr::memchr(b'$', pattern) != Some(pattern.len() - 1);
        let rewritten = !is_normal(classes) || ends_inside || pattern.len() != written.len();
        if rewritten {
            let written = String::from_utf8_lossy(written);
            self.text.extend_from_slice(written.as_bytes());
            self.text.extend_from_slice(&(written.len() as u32).to_le_bytes());
        }
        let at = self.text.len();
        match self.profile {
            _ if !rewritten => self.text.extend_from_slice(pattern),
            Profile::Google => normal::push_google(pattern, Side::Pattern, &mut self.text),
            Profile::Rfc9309 => normal::push_normal(pattern, Side::Pattern, &mut self.text),
        }
        let normal = &self.text[at..];
        let length = normal.len();
        let counts_differ = classes & QUERY != 0 && self.profile == Profile::Rfc9309;
        let octets = if counts_differ { normal::octets(normal) } else { length };
        let form = match self.profile {
            Profile::Rfc9309 if rewritten => normal::query_form(normal),
            _ => None,
        };
        let entry = Entry {
            at: at as u32,
            line,
            link: form.as_ref().map_or(0, |form| form.len() as u32),
            length: length as u16,
            octets: octets as u16,
            allow,
            rewritten,
        };
        self.text.extend_from_slice(&form.unwrap_or_default());
        if classes & STAR == 0 { self.literals.push(entry) } else { self.wildcards.push(entry) }
    }

    fn sort(&mut self) {
        let text = &self.text;
        // RFC 9309 §2.2.2: of equivalent rules "the 'allow' rule SHOULD be used"; duplicates "MAY be deduplicated".
        self.literals.sort_by(|a, b| {
            a.pattern(text).cmp(b.pattern(text)).then_with(|| (!a.allow, a.line).cmp(&(!b.allow, b.line)))
        });
        self.literals.dedup_by(|later, kept| later.pattern(text) == kept.pattern(text));
        link_prefixes(&mut self.literals, text);
        self.wildcards.sort_by_key(|entry| (Reverse(entry.octets), !entry.allow, entry.line));
    }

    fn push_items(&mut self, gatherer: &Gatherer<'_, '_>, tokens: &[ProductToken]) {
        if let Chosen::Token(index) = gatherer.chosen() {
            self.push_item(tokens[index].as_str(), 0, ITEM_MATCHED);
        }
        let mut seen = alloc::collections::BTreeSet::new();
        for value in &gatherer.agents {
            let name = agent_name(value, tokens);
            if !name.is_empty() && seen.insert(name.clone()) {
                self.push_item(&name, 0, ITEM_AGENT);
            }
        }
        for record in &gatherer.globals {
            let value = String::from_utf8_lossy(record.value);
            if !value.is_empty() {
                self.push_item(&value, record.line, record.kind as u32);
            }
        }
        for record in &gatherer.records {
            self.push_octets(record.value, record.line, record.kind as u32);
        }
    }

    fn push_item(&mut self, text: &str, line: u32, kind: u32) {
        self.push_octets(text.as_bytes(), line, kind);
    }

    fn push_octets(&mut self, octets: &[u8], line: u32, kind: u32) {
        let item = Item { at: self.text.len() as u32, length: octets.len() as u32, line, kind };
        self.text.extend_from_slice(octets);
        self.items.push(item);
    }

    fn write(&self, header: &Header) -> Block {
        let size = block::HEADER
            + self.literals.len() * block::LITERAL
            + self.wildcards.len() * block::WILDCARD
            + self.items.len() * block::ITEM
            + self.text.len();
        let mut out = Vec::with_capacity(size);
        header.write(&mut out);
        for entry in &self.literals {
            entry.write(&mut out);
        }
        for entry in &self.wildcards {
            entry.write(&mut out);
            out.extend_from_slice(&[0; block::WILDCARD - block::LITERAL]);
        }
        for item in &self.items {
            item.write(&mut out);
        }
        out.extend_from_slice(&self.text);
        Block::new(&out)
    }
}

/// Links each pattern to the longest other one that is a prefix of it. In sorted order these are its neighbours to the
/// left, so a stack of open prefixes suffices.
fn link_prefixes(literals: &mut [Entry], text: &[u8]) {
    let mut open: Vec<u32> = Vec::new();
    for index in 0..literals.len() {
        let pattern = literals[index].pattern(text);
        while let Some(&top) = open.last()
            && !pattern.starts_with(literals[top as usize].pattern(text))
        {
            open.pop();
        }
        literals[index].link = open.last().copied().unwrap_or(block::NONE);
        open.push(index as u32);
    }
}

/// The name that a user-agent line gives, in lower case; the whole value where it is one of our tokens.
fn agent_name(value: &[u8], tokens: &[ProductToken]) -> String {
    let name = match agent(value) {
        Agent::Global => b"*",
        Agent::Token(_) if tokens.iter().any(|token| token.is_named_by(value)) => value,
        Agent::Token(name) => name,
    };
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// Google's parser takes `Allow: /a/index.html` for the directory `/a/` as well.
fn directory_of_index(pattern: &[u8]) -> Option<Vec<u8>> {
    let slash = memchr::memrchr(b'/', pattern)?;
    let directory = pattern[slash..].starts_with(b"/index.htm").then(|| &pattern[..=slash])?;
    Some([directory, b"$"].concat())
}
