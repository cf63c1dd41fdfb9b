//! How compiled rules lie in memory: one block of bytes, which a cache of a million hosts can hold.
//!
//! ```text
//! header       32 bytes: counts, Crawl-delay, flags
//! text         what the entries point into
//! starts       66 bytes, if there are many literals: where the keys with each first letter start
//! keys         16 bytes for each literal, if there are many
//! literals     16 bytes each, sorted by pattern
//! wildcards    24 bytes each, in order of precedence
//! items        16 bytes each: tokens, sitemaps, licenses, preference records
//! index        of the wildcards, if there are many
//! ```
//!
//! Numbers are little-endian. The block holds no addresses, so equal rule sets are equal bytes.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::prefix::{self, KEY};
use crate::slice;

pub(crate) const HEADER: usize = 32;
/// With fewer literals than this, keys would take more memory than they save time.
const KEYED_MIN: usize = 16;
/// Starts have 16 bits. More literals than this do not fit into 512,000 bytes.
const KEYED_MAX: usize = u16::MAX as usize;
const LITERAL: usize = 16;
const WILDCARD: usize = 24;
const ITEM: usize = 16;

/// One block, shared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Block(Arc<[u8]>);

/// Whether this many literals get keys.
pub(crate) fn are_keyed(literals: usize) -> bool {
    (KEYED_MIN..=KEYED_MAX).contains(&literals)
}

pub(crate) const FLAG_GROUP: u32 = 1;
pub(crate) const FLAG_NAMED: u32 = 2;
const FLAG_DELAY: u32 = 4;
pub(crate) const FLAG_GOOGLE: u32 = 8;

/// Writes the header over the first bytes of `out`. The counts are where the text ends, and how many literals, wildcards and
/// items there are.
pub(crate) fn write_header(out: &mut [u8], counts: [u32; 4], flags: u32, delay: Option<Duration>) {
    let [tables, literals, wildcards, items] = counts;
    let flags = flags | if delay.is_some() { FLAG_DELAY } else { 0 };
    let delay = delay.unwrap_or_default();
    let (seconds, nanos) = (delay.as_secs(), delay.subsec_nanos());
    let words = [tables, literals, wildcards, items, flags, nanos, seconds as u32, (seconds >> 32) as u32];
    for (word, bytes) in words.iter().zip(out.as_chunks_mut::<4>().0) {
        *bytes = word.to_le_bytes();
    }
}

/// The rule that decides, by its place in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The literals come first, then the wildcards.
    pub(crate) number: u32,
    pub(crate) allows: bool,
}

/// A rule: its pattern, and its line in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where the normal form of the pattern starts in the block.
    pub(crate) at: u32,
    line_and_flags: u32,
    /// Of a literal: the longest other literal that is a prefix of it. Of a wildcard: the length of its query form,
    /// which follows the pattern; 0 if it is the same.
    pub(crate) link: u32,
    pub(crate) length: u16,
    /// The bytes that decide precedence.
    pub(crate) bytes: u16,
}

const ALLOW: u32 = 1 << 31;
/// The pattern as written differs from its normal form: the text has the written form, its length, and the normal form, in
/// this order.
const REWRITTEN: u32 = 1 << 30;

impl Entry {
    pub(crate) fn new(at: u32, length: u16, bytes: u16, line: u32, allow: bool, rewritten: bool) -> Self {
        let flags = if allow { ALLOW } else { 0 } | if rewritten { REWRITTEN } else { 0 };
        Self { at, line_and_flags: line | flags, link: 0, length, bytes }
    }

    #[must_use]
    pub(crate) fn linked(self, link: u32) -> Self {
        Self { link, ..self }
    }

    /// What the links of other literals are found by.
    #[inline]
    pub(crate) fn length_and_link(&self) -> (u32, u32) {
        (u32::from(self.length), self.link)
    }

    /// Of two rules with the same pattern the one that is used. RFC 9309 §2.2.2: of equivalent rules "the 'allow' rule
    /// SHOULD be used"; duplicates "MAY be deduplicated".
    #[must_use]
    pub(crate) fn or_better(self, other: &Self) -> Self {
        let better = (other.rank(), other.line()) < (self.rank(), self.line());
        if better { other.linked(self.link) } else { self }
    }

    #[inline]
    pub(crate) fn allows(&self) -> bool {
        self.line_and_flags & ALLOW != 0
    }

    pub(crate) fn line(&self) -> u32 {
        self.line_and_flags & !(ALLOW | REWRITTEN)
    }

    pub(crate) fn encoded(&self) -> [u8; LITERAL] {
        let lengths = u32::from(self.length) | u32::from(self.bytes) << 16;
        bytes([self.at, self.line_and_flags, self.link, lengths])
    }

    #[inline]
    pub(crate) fn read(bytes: &[u8; LITERAL]) -> Self {
        let lengths = word(bytes, 12);
        Self {
            at: word(bytes, 0),
            line_and_flags: word(bytes, 4),
            link: word(bytes, 8),
            length: lengths as u16,
            bytes: (lengths >> 16) as u16,
        }
    }

    /// Sorts by precedence (RFC 9309 §2.2.2): the most bytes, then Allow. Of equal ones the first in the file is named.
    pub(crate) fn rank(&self) -> u32 {
        u32::from(!self.bytes) << 1 | u32::from(!self.allows())
    }

    #[inline]
    pub(crate) fn pattern<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        slice::part(block, self.at, usize::from(self.length))
    }

    /// Of a wildcard, the pattern as it reads inside the query.
    #[inline]
    pub(crate) fn query_form<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        match self.link {
            0 => self.pattern(block),
            length => slice::part(block, self.at.saturating_add(u32::from(self.length)), length as usize),
        }
    }

    /// The pattern as it was written, made valid UTF-8 when the block was built.
    pub(crate) fn written<'a>(&self, block: &'a [u8]) -> &'a str {
        let bytes = if self.line_and_flags & REWRITTEN != 0 {
            let before = slice::before(block, self.at as usize).split_last_chunk::<4>();
            before.map_or(&[][..], |(before, length)| last(before, u32::from_le_bytes(*length)))
        } else {
            self.pattern(block)
        };
        core::str::from_utf8(bytes).unwrap_or_default()
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
        out.extend_from_slice(&bytes([self.at, self.length, self.line, self.kind]));
    }

    fn read(bytes: &[u8; ITEM]) -> Self {
        Self { at: word(bytes, 0), length: word(bytes, 4), line: word(bytes, 8), kind: word(bytes, 12) }
    }
}

#[inline]
fn bytes(words: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (word, four) in words.iter().zip(bytes.as_chunks_mut::<4>().0) {
        *four = word.to_le_bytes();
    }
    bytes
}

/// The word at a byte, which is always a number that the compiler knows.
#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

/// The last `length` bytes.
fn last(bytes: &[u8], length: u32) -> &[u8] {
    slice::from(bytes, bytes.len().saturating_sub(length as usize))
}

/// The first `length` bytes, and the others.
fn split(bytes: &[u8], length: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(length).unwrap_or_default()
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
#[derive(Clone, Copy, Default)]
pub(crate) struct Literals<'a> {
    block: &'a [u8],
    /// See [`prefix::starts`]; none if the literals are few.
    pub(crate) starts: &'a [[u8; 2]],
    /// See [`crate::prefix::key`]; none if the literals are few.
    pub(crate) keys: &'a [[u8; KEY]],
    entries: &'a [[u8; LITERAL]],
}

impl<'a> Literals<'a> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Option<Entry> {
        self.entries.get(index).map(Entry::read)
    }

    #[inline]
    pub(crate) fn pattern(&self, index: usize) -> &'a [u8] {
        self.entry(index).map(|entry| entry.pattern(self.block)).unwrap_or_default()
    }
}

impl Block {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    #[inline]
    fn header(&self) -> &[u8; HEADER] {
        self.0.first_chunk().unwrap_or(&[0; HEADER])
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
    pub(crate) fn literals(&self) -> Option<Literals<'_>> {
        self.tables().map(|(literals, _)| literals)
    }

    #[inline]
    pub(crate) fn wildcard_count(&self) -> usize {
        word(self.header(), 8) as usize
    }

    /// The literals with their keys, and what is behind them. Blocks are written here and hold what their header says.
    #[inline]
    fn tables(&self) -> Option<(Literals<'_>, &[u8])> {
        let header = self.header();
        let count = word(header, 4) as usize;
        let tables = self.0.get(word(header, 0) as usize..)?;
        let keyed = are_keyed(count);
        let (starts, rest) = tables.split_at_checked(if keyed { 2 * prefix::STARTS } else { 0 })?;
        let (keys, rest) = rest.split_at_checked(if keyed { count.wrapping_mul(KEY) } else { 0 })?;
        let (entries, rest) = rest.split_at_checked(count.wrapping_mul(LITERAL))?;
        let literals = Literals {
            block: &self.0,
            starts: starts.as_chunks().0,
            keys: keys.as_chunks().0,
            entries: entries.as_chunks().0,
        };
        Some((literals, rest))
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        let (literals, rest) = self.tables().unwrap_or_default();
        let (wildcards, rest) = split(rest, self.wildcard_count().wrapping_mul(WILDCARD));
        let (items, index) = split(rest, (word(self.header(), 12) as usize).wrapping_mul(ITEM));
        Parts {
            block: &self.0,
            literals: literals.entries,
            wildcards: wildcards.as_chunks().0,
            items: items.as_chunks().0,
            index: index.as_chunks().0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl<'a> Parts<'a> {
    pub(crate) fn entry(&self, found: Found) -> Option<Entry> {
        let number = found.number as usize;
        match number.checked_sub(self.literals.len()) {
            Some(number) => self.wildcard(number),
            None => self.literals.get(number).map(Entry::read),
        }
    }

    pub(crate) fn literal_count(&self) -> usize {
        self.literals.len()
    }

    pub(crate) fn wildcard_count(&self) -> usize {
        self.wildcards.len()
    }

    #[inline]
    pub(crate) fn wildcard(&self, index: usize) -> Option<Entry> {
        self.wildcards.get(index)?.first_chunk().map(Entry::read)
    }

    /// The bigrams of a wildcard, see [`crate::index::signature`].
    #[inline]
    pub(crate) fn signature(&self, index: usize) -> Option<u64> {
        self.wildcards.get(index)?.last_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = (Item, &'a [u8])> + use<'a> {
        let block = self.block;
        self.items.iter().map(move |bytes| {
            let item = Item::read(bytes);
            (item, slice::part(block, item.at, item.length as usize))
        })
    }
}
