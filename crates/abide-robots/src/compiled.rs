//! What compiled rules consist of: one text, and tables that point into it.
//!
//! The tables hold places in the text and no addresses, so equal rule sets are equal values, and entries are
//! small.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::group::Chosen;
use crate::index::Index;
use crate::line::RecordKind;
use crate::literals::Literals;
use crate::profile::Profile;
use crate::slice;

/// The rules for one crawler, and what else concerns it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Compiled {
    pub(crate) profile: Profile,
    pub(crate) chosen: Chosen,
    pub(crate) delay: Option<Duration>,
    /// What the entries of the tables point into.
    pub(crate) text: Vec<u8>,
    pub(crate) literals: Literals,
    /// In file order.
    pub(crate) wildcards: Vec<Wildcard>,
    /// Of the wildcards, if there are many.
    pub(crate) index: Option<Box<Index>>,
    pub(crate) items: Vec<Item>,
}

/// The rule that decides, by its place in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The literals come first, then the wildcards.
    pub(crate) number: u32,
    pub(crate) allows: bool,
}

impl Compiled {
    pub(crate) fn rule(&self, found: Found) -> Option<&Rule> {
        let number = found.number as usize;
        match number.checked_sub(self.literals.entries.len()) {
            Some(number) => self.wildcards.get(number).map(|wildcard| &wildcard.rule),
            None => self.literals.entries.get(number).map(|literal| &literal.rule),
        }
    }

    pub(crate) fn bytes_of(&self, item: &Item) -> &[u8] {
        slice::part(&self.text, item.at, item.length as usize)
    }

    /// Bytes on the heap, without those of this struct.
    pub(crate) fn heap_size(&self) -> usize {
        [
            self.text.capacity(),
            self.literals.heap_size(),
            self.wildcards.capacity().saturating_mul(size_of::<Wildcard>()),
            self.index.as_ref().map_or(0, |index| index.heap_size()),
            self.items.capacity().saturating_mul(size_of::<Item>()),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }
}

/// A rule: its pattern, and its line in the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// Where the normal form of the pattern starts in the text.
    pub(crate) at: u32,
    line_and_flags: u32,
    pub(crate) length: u16,
    /// The bytes that decide precedence.
    pub(crate) bytes: u16,
}

/// A rule without a wildcard.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Literal {
    pub(crate) rule: Rule,
    /// The longest other literal that is a prefix of it; see [`crate::literals`].
    pub(crate) link: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Wildcard {
    pub(crate) rule: Rule,
    /// The length of its query form, which follows the pattern; 0 if it is the same.
    pub(crate) query_form: u32,
    /// The pairs of bytes that a target must hold; see [`crate::index`].
    pub(crate) signature: u64,
}

const ALLOW: u32 = 1 << 31;
/// The pattern as written differs from its normal form: the text has the written form, its length, and the
/// normal form, in this order.
const REWRITTEN: u32 = 1 << 30;

impl Rule {
    pub(crate) fn new(
        at: usize,
        length: usize,
        bytes: usize,
        line: u32,
        allow: bool,
        rewritten: bool,
    ) -> Self {
        let flags = if allow { ALLOW } else { 0 } | if rewritten { REWRITTEN } else { 0 };
        // A value has at most 16 KiB, and each byte of it becomes at most three.
        Self { at: at as u32, line_and_flags: line | flags, length: length as u16, bytes: bytes as u16 }
    }

    #[inline]
    pub(crate) fn allows(&self) -> bool {
        self.line_and_flags & ALLOW != 0
    }

    pub(crate) fn line(&self) -> u32 {
        self.line_and_flags & !(ALLOW | REWRITTEN)
    }

    /// Sorts by precedence (RFC 9309 §2.2.2): the most bytes, then Allow.
    #[inline]
    pub(crate) fn rank(&self) -> u32 {
        u32::from(!self.bytes) << 1 | u32::from(!self.allows())
    }

    #[inline]
    pub(crate) fn pattern<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        slice::part(text, self.at, usize::from(self.length))
    }

    /// The pattern as it was written, made valid UTF-8 when it was compiled.
    pub(crate) fn written<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        if self.line_and_flags & REWRITTEN == 0 {
            return self.pattern(text);
        }
        let before = slice::before(text, self.at as usize).split_last_chunk::<4>();
        let (before, length) = before.unwrap_or((&[], &[0; 4]));
        slice::from(before, before.len().saturating_sub(u32::from_le_bytes(*length) as usize))
    }
}

impl Wildcard {
    /// The pattern as it reads inside the query.
    #[inline]
    pub(crate) fn query_form<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        match self.query_form {
            0 => self.rule.pattern(text),
            length => {
                slice::part(text, self.rule.at.saturating_add(u32::from(self.rule.length)), length as usize)
            }
        }
    }
}

/// A text with its line and its kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    pub(crate) at: u32,
    pub(crate) length: u32,
    pub(crate) line: u32,
    pub(crate) kind: ItemKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ItemKind {
    /// A record of the group or of the whole file.
    Record(RecordKind),
    /// A preference before the first user-agent line.
    Outside(RecordKind),
    /// A Content-Signal of the `*` group, where the group of a token applies.
    SignalOfAll,
}
