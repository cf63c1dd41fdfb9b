//! How compiled rules lie in memory: one block of octets, which a cache of a million hosts can hold.
//!
//! ```text
//! header       32 octets: counts, Crawl-delay, flags
//! text         what the entries point into
//! keys         16 octets for each literal, if there are many
//! literals     16 octets each, sorted by pattern
//! wildcards    24 octets each, in order of precedence
//! items        16 octets each: tokens, sitemaps, licenses, preference records
//! index        of the wildcards, if there are many
//! ```
//!
//! Numbers are little-endian. The block holds no addresses, so equal rule sets are equal octets.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::group::Chosen;
use crate::search::Found;

pub(crate) const HEADER: usize = 32;
const KEY: usize = 16;
/// With fewer literals than this, keys would take more memory than they save time.
pub(crate) const KEYED_MIN: usize = 16;
const LITERAL: usize = 16;
const WILDCARD: usize = 24;
const ITEM: usize = 16;

/// One block, shared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Block(Arc<[u8]>);

/// What the first octets of a block say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    /// Where the text ends and the tables start.
    pub(crate) tables: u32,
    pub(crate) literals: u32,
    pub(crate) wildcards: u32,
    pub(crate) items: u32,
    pub(crate) flags: u32,
    pub(crate) delay_seconds: u64,
    pub(crate) delay_nanos: u32,
}

pub(crate) const FLAG_GROUP: u32 = 1;
pub(crate) const FLAG_NAMED: u32 = 2;
const FLAG_DELAY: u32 = 4;
pub(crate) const FLAG_GOOGLE: u32 = 8;

impl Header {
    /// Writes it over the first octets of `out`.
    pub(crate) fn write(&self, out: &mut [u8]) {
        let words = [self.tables, self.literals, self.wildcards, self.items, self.flags, self.delay_nanos];
        for (word, octets) in words.iter().zip(out.as_chunks_mut::<4>().0) {
            *octets = word.to_le_bytes();
        }
        out[24..HEADER].copy_from_slice(&self.delay_seconds.to_le_bytes());
    }

    pub(crate) fn set_chosen(&mut self, chosen: Chosen) {
        self.flags |= match chosen {
            Chosen::None => 0,
            Chosen::Global => FLAG_GROUP,
            Chosen::Token(_) => FLAG_GROUP | FLAG_NAMED,
        };
    }

    pub(crate) fn set_delay(&mut self, delay: Option<Duration>) {
        if let Some(delay) = delay {
            self.flags |= FLAG_DELAY;
            self.delay_seconds = delay.as_secs();
            self.delay_nanos = delay.subsec_nanos();
        }
    }
}

/// A rule: what its pattern is, and where it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where the normal form of the pattern starts in the block.
    pub(crate) at: u32,
    line_and_flags: u32,
    /// Of a literal: the longest other literal that is a prefix of it. Of a wildcard: the length of its query form,
    /// which follows the pattern; 0 if it is the same.
    pub(crate) link: u32,
    pub(crate) length: u16,
    /// The octets that decide precedence.
    pub(crate) octets: u16,
}

const ALLOW: u32 = 1 << 31;
/// The pattern as written differs from its normal form. It stands before it in the text, its length between.
const REWRITTEN: u32 = 1 << 30;

impl Entry {
    pub(crate) fn new(at: u32, length: u16, octets: u16, line: u32) -> Self {
        Self { at, line_and_flags: line, link: 0, length, octets }
    }

    #[must_use]
    pub(crate) fn allowing(self, allow: bool) -> Self {
        Self { line_and_flags: self.line_and_flags | if allow { ALLOW } else { 0 }, ..self }
    }

    #[must_use]
    pub(crate) fn rewritten(self, rewritten: bool) -> Self {
        Self { line_and_flags: self.line_and_flags | if rewritten { REWRITTEN } else { 0 }, ..self }
    }

    #[inline]
    pub(crate) fn allows(&self) -> bool {
        self.line_and_flags & ALLOW != 0
    }

    pub(crate) fn line(&self) -> u32 {
        self.line_and_flags & !(ALLOW | REWRITTEN)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let lengths = u32::from(self.length) | u32::from(self.octets) << 16;
        write_words([self.at, self.line_and_flags, self.link, lengths], out);
    }

    #[inline]
    pub(crate) fn read(octets: &[u8; LITERAL]) -> Self {
        let lengths = word(octets, 12);
        Self {
            at: word(octets, 0),
            line_and_flags: word(octets, 4),
            link: word(octets, 8),
            length: lengths as u16,
            octets: (lengths >> 16) as u16,
        }
    }

    /// Sorts by precedence (RFC 9309 §2.2.2): the most octets, then Allow. Of equal ones the first in the file is named.
    pub(crate) fn rank(&self) -> u32 {
        u32::from(u16::MAX - self.octets) << 1 | u32::from(!self.allows())
    }

    #[inline]
    pub(crate) fn pattern<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        &block[self.at as usize..][..usize::from(self.length)]
    }

    /// Of a wildcard, the pattern as it reads inside the query.
    #[inline]
    pub(crate) fn query_form<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        match self.link {
            0 => self.pattern(block),
            length => &block[self.at as usize + usize::from(self.length)..][..length as usize],
        }
    }

    /// The pattern as it was written, made valid UTF-8 when the block was built.
    pub(crate) fn written<'a>(&self, block: &'a [u8]) -> &'a str {
        let octets = if self.line_and_flags & REWRITTEN != 0 {
            let (before, length) = block[..self.at as usize].split_at(self.at as usize - 4);
            let length = word(length.first_chunk::<4>().expect("four octets were split off"), 0);
            &before[before.len() - length as usize..]
        } else {
            self.pattern(block)
        };
        core::str::from_utf8(octets).unwrap_or_default()
    }
}

/// A text with its line and its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) at: u32,
    pub(crate) length: u32,
    pub(crate) line: u32,
    pub(crate) kind: u32,
}

impl Item {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_words([self.at, self.length, self.line, self.kind], out);
    }

    fn read(octets: &[u8; ITEM]) -> Self {
        Self { at: word(octets, 0), length: word(octets, 4), line: word(octets, 8), kind: word(octets, 12) }
    }
}

fn write_words(words: [u32; 4], out: &mut Vec<u8>) {
    let mut octets = [0; 16];
    for (word, four) in words.iter().zip(octets.as_chunks_mut::<4>().0) {
        *four = word.to_le_bytes();
    }
    out.extend_from_slice(&octets);
}

#[inline]
fn word<const N: usize>(octets: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

/// The parts of a block.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) block: &'a [u8],
    literals: &'a [[u8; LITERAL]],
    wildcards: &'a [[u8; WILDCARD]],
    items: &'a [[u8; ITEM]],
    /// See [`crate::index`].
    pub(crate) index: &'a [[u8; 2]],
}

/// The literals of a block, which all questions are about.
#[derive(Clone, Copy)]
pub(crate) struct Literals<'a> {
    block: &'a [u8],
    /// See [`crate::prefix::key`]; none if the literals are few.
    pub(crate) keys: &'a [[u8; KEY]],
    entries: &'a [[u8; LITERAL]],
}

impl<'a> Literals<'a> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Entry {
        Entry::read(&self.entries[index])
    }

    #[inline]
    pub(crate) fn pattern(&self, index: usize) -> &'a [u8] {
        self.entry(index).pattern(self.block)
    }
}

impl Block {
    pub(crate) fn new(octets: &[u8]) -> Self {
        Self(octets.into())
    }

    #[inline]
    fn header(&self) -> &[u8; HEADER] {
        self.0.first_chunk().expect("each block starts with a header")
    }

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        word(self.header(), 16)
    }

    pub(crate) fn delay(&self) -> Option<Duration> {
        let header = self.header();
        let seconds = u64::from(word(header, 24)) | u64::from(word(header, 28)) << 32;
        (self.flags() & FLAG_DELAY != 0).then(|| Duration::new(seconds, word(header, 20)))
    }

    #[inline]
    pub(crate) fn literals(&self) -> Literals<'_> {
        let (keys, entries, _) = self.tables();
        Literals { block: &self.0, keys, entries }
    }

    #[inline]
    pub(crate) fn wildcard_count(&self) -> usize {
        word(self.header(), 8) as usize
    }

    /// The keys and the literals, and what is behind them.
    #[inline]
    fn tables(&self) -> (&[[u8; KEY]], &[[u8; LITERAL]], &[u8]) {
        let header = self.header();
        let tables = &self.0[word(header, 0) as usize..];
        let count = word(header, 4) as usize;
        let keyed = if count < KEYED_MIN { 0 } else { count };
        let (keys, rest) = tables.split_at(keyed * KEY);
        let (literals, rest) = rest.split_at(count * LITERAL);
        (keys.as_chunks().0, literals.as_chunks().0, rest)
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        let (_, literals, rest) = self.tables();
        let (wildcards, rest) = rest.split_at(self.wildcard_count() * WILDCARD);
        let (items, index) = rest.split_at(word(self.header(), 12) as usize * ITEM);
        Parts {
            block: &self.0,
            literals,
            wildcards: wildcards.as_chunks().0,
            items: items.as_chunks().0,
            index: index.as_chunks().0,
        }
    }

    pub(crate) fn octets(&self) -> usize {
        self.0.len()
    }
}

impl<'a> Parts<'a> {
    pub(crate) fn entry(&self, found: Found) -> Entry {
        match found {
            Found::Literal(index) => Entry::read(&self.literals[index]),
            Found::Wildcard(index) => self.wildcard(index),
        }
    }

    /// Whether there is no rule at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.literals.is_empty() && self.wildcards.is_empty()
    }

    pub(crate) fn literal_count(&self) -> usize {
        self.literals.len()
    }

    pub(crate) fn wildcard_count(&self) -> usize {
        self.wildcards.len()
    }

    #[inline]
    pub(crate) fn wildcard(&self, index: usize) -> Entry {
        Entry::read(self.wildcards[index].first_chunk().expect("a wildcard begins like a literal"))
    }

    /// The bigrams of a wildcard, see [`crate::index::signature`].
    #[inline]
    pub(crate) fn signature(&self, index: usize) -> u64 {
        u64::from_le_bytes(*self.wildcards[index].last_chunk().expect("a wildcard ends with its signature"))
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = (Item, &'a [u8])> + use<'a> {
        let block = self.block;
        self.items.iter().map(move |octets| {
            let item = Item::read(octets);
            (item, &block[item.at as usize..][..item.length as usize])
        })
    }
}
