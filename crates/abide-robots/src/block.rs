//! How compiled rules lie in memory: one block of octets, which a cache of a million hosts can hold.
//!
//! ```text
//! header       32 octets: counts, Crawl-delay, flags
//! literals     16 octets each, sorted by pattern
//! wildcards    24 octets each, in order of precedence
//! items        16 octets each: tokens, sitemaps, licenses, preference records
//! text         what the entries point into
//! ```
//!
//! Numbers are little-endian. The block holds no addresses, so equal rule sets are equal octets.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::group::Chosen;

pub(crate) const HEADER: usize = 32;
pub(crate) const LITERAL: usize = 16;
pub(crate) const WILDCARD: usize = 24;
pub(crate) const ITEM: usize = 16;

/// No parent.
pub(crate) const NONE: u32 = u32::MAX;

/// One block, shared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Block(Arc<[u8]>);

/// What the first octets of a block say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) literals: u32,
    pub(crate) wildcards: u32,
    pub(crate) items: u32,
    pub(crate) flags: u32,
    pub(crate) delay_seconds: u64,
    pub(crate) delay_nanos: u32,
}

pub(crate) const FLAG_GROUP: u32 = 1;
pub(crate) const FLAG_NAMED: u32 = 2;
pub(crate) const FLAG_DELAY: u32 = 4;
pub(crate) const FLAG_GOOGLE: u32 = 8;

impl Header {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.literals.to_le_bytes());
        out.extend_from_slice(&self.wildcards.to_le_bytes());
        out.extend_from_slice(&self.items.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.delay_seconds.to_le_bytes());
        out.extend_from_slice(&self.delay_nanos.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
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
    /// Where the normal form of the pattern starts in the text.
    pub(crate) at: u32,
    pub(crate) line: u32,
    /// Of a literal: the longest other literal that is a prefix of it. Of a wildcard: the length of its query form.
    pub(crate) link: u32,
    pub(crate) length: u16,
    /// The octets that decide precedence, and the flags.
    pub(crate) octets: u16,
    pub(crate) allow: bool,
    /// The pattern as written differs from its normal form. It stands before it in the text, its length between.
    pub(crate) rewritten: bool,
}

const LINE_ALLOW: u32 = 1 << 31;
const LINE_REWRITTEN: u32 = 1 << 30;

impl Entry {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let line = self.line
            | if self.allow { LINE_ALLOW } else { 0 }
            | if self.rewritten { LINE_REWRITTEN } else { 0 };
        out.extend_from_slice(&self.at.to_le_bytes());
        out.extend_from_slice(&line.to_le_bytes());
        out.extend_from_slice(&self.link.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.octets.to_le_bytes());
    }

    #[inline]
    pub(crate) fn read(octets: &[u8; LITERAL]) -> Self {
        let line = word(octets, 4);
        Self {
            at: word(octets, 0),
            line: line & !(LINE_ALLOW | LINE_REWRITTEN),
            link: word(octets, 8),
            length: u16::from_le_bytes([octets[12], octets[13]]),
            octets: u16::from_le_bytes([octets[14], octets[15]]),
            allow: line & LINE_ALLOW != 0,
            rewritten: line & LINE_REWRITTEN != 0,
        }
    }

    #[inline]
    pub(crate) fn pattern<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.at as usize..][..usize::from(self.length)]
    }

    /// Of a wildcard, the pattern as it reads inside the query.
    #[inline]
    pub(crate) fn query_form<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        match self.link {
            0 => self.pattern(text),
            length => &text[self.at as usize + usize::from(self.length)..][..length as usize],
        }
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
        for word in [self.at, self.length, self.line, self.kind] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn read(octets: &[u8; ITEM]) -> Self {
        Self { at: word(octets, 0), length: word(octets, 4), line: word(octets, 8), kind: word(octets, 12) }
    }
}

#[inline]
pub(crate) fn word<const N: usize>(octets: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

/// The parts of a block, found once per question.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) literals: &'a [[u8; LITERAL]],
    pub(crate) wildcards: &'a [[u8; WILDCARD]],
    items: &'a [[u8; ITEM]],
    pub(crate) text: &'a [u8],
}

impl Block {
    pub(crate) fn new(octets: &[u8]) -> Self {
        Self(octets.into())
    }

    fn header_word(&self, at: usize) -> u32 {
        word(self.0.first_chunk::<HEADER>().expect("each block starts with a header"), at)
    }

    pub(crate) fn flags(&self) -> u32 {
        self.header_word(12)
    }

    pub(crate) fn delay(&self) -> Option<Duration> {
        let seconds = u64::from(self.header_word(16)) | u64::from(self.header_word(20)) << 32;
        (self.flags() & FLAG_DELAY != 0).then(|| Duration::new(seconds, self.header_word(24)))
    }

    #[inline]
    pub(crate) fn parts(&self) -> Parts<'_> {
        let (literals, rest) = self.0[HEADER..].split_at(self.header_word(0) as usize * LITERAL);
        let (wildcards, rest) = rest.split_at(self.header_word(4) as usize * WILDCARD);
        let (items, text) = rest.split_at(self.header_word(8) as usize * ITEM);
        Parts {
            literals: literals.as_chunks().0,
            wildcards: wildcards.as_chunks().0,
            items: items.as_chunks().0,
            text,
        }
    }

    pub(crate) fn octets(&self) -> usize {
        self.0.len()
    }
}

impl<'a> Parts<'a> {
    #[inline]
    pub(crate) fn literal(&self, index: usize) -> Entry {
        Entry::read(&self.literals[index])
    }

    #[inline]
    pub(crate) fn wildcard(&self, index: usize) -> Entry {
        Entry::read(self.wildcards[index].first_chunk().expect("a wildcard begins like a literal"))
    }

    /// The pattern as it was written, made valid UTF-8 when the block was built.
    pub(crate) fn written(&self, entry: &Entry) -> &'a str {
        let octets = if entry.rewritten {
            let (before, length) = self.text[..entry.at as usize].split_at(entry.at as usize - 4);
            let length = word(length.first_chunk::<4>().expect("four octets were split off"), 0);
            &before[before.len() - length as usize..]
        } else {
            entry.pattern(self.text)
        };
        core::str::from_utf8(octets).unwrap_or_default()
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = (Item, &'a [u8])> + use<'a> {
        let text = self.text;
        self.items.iter().map(move |octets| {
            let item = Item::read(octets);
            (item, &text[item.at as usize..][..item.length as usize])
        })
    }
}
