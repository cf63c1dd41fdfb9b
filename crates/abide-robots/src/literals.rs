//! The rules without wildcards, sorted by their patterns, and the search for the longest that a target starts
//! with.
//!
//! Most rules have no wildcard, and this decides them in one search, however many there are. Those with
//! wildcards are in `search`.
//!
//! Each of the sorted texts is linked to the longest other one that is a prefix of it. So one binary search
//! finds all that a target starts with, for the rules here and for the pieces of the sweep.

use alloc::vec::Vec;
use core::mem::take;
use core::ops::Range;

use crate::compiled::{Found, Literal};
use crate::{slice, work};

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Literals {
    pub(crate) entries: Vec<Literal>,
    /// For each entry the [`key`] of its pattern behind the slash, if there are many: they nearly always
    /// decide, so that no text is looked at.
    keys: Vec<u128>,
    /// Where the keys with each of [`LETTERS`] as their first byte start, and where the last of them end.
    starts: Vec<u32>,
}

/// Lower-case letters and their neighbours, with which nearly all paths start.
const LETTERS: Range<u8> = 0x60..0x80;

/// With fewer literals than this, keys would take more memory than they save time.
const KEYED_MIN: usize = 16;

impl Literals {
    pub(crate) fn with_capacity(rules: usize) -> Self {
        Self { entries: Vec::with_capacity(rules), keys: Vec::new(), starts: Vec::new() }
    }

    /// Sorts the entries, links them, and drops those whose pattern another has. RFC 9309 §2.2.2: of
    /// equivalent rules "the 'allow' rule SHOULD be used"; duplicates "MAY be deduplicated".
    pub(crate) fn sort(&mut self, text: &[u8]) {
        let given = take(&mut self.entries);
        let pattern = |literal: &Literal| literal.rule.pattern(text);
        // All patterns start with a slash.
        let keys = given.iter().map(|Literal { rule, .. }| {
            key_at(text, (rule.at as usize).wrapping_add(1), usize::from(rule.length).wrapping_sub(1))
        });
        let order = sorted(keys, |number| given.get(number as usize).map(pattern).unwrap_or_default());
        self.entries = Vec::with_capacity(order.len());
        let are_many = order.len() >= KEYED_MIN;
        if are_many {
            self.keys = Vec::with_capacity(order.len());
        }
        let mut key_before = 0;
        for sorted in order {
            let Some(literal) = given.get(sorted.number as usize) else { break };
            let key = sorted.key();
            let shared = match (shared_by_keys(key, key_before), self.entries.last_mut()) {
                (Some(shared), _) => shared.wrapping_add(1),
                (None, None) => 0,
                (None, Some(last)) if pattern(last) == pattern(literal) => {
                    // The Allow of two that are equivalent, and of two that are the same the first line.
                    if (literal.rule.rank(), literal.rule.line()) < (last.rule.rank(), last.rule.line()) {
                        last.rule = literal.rule;
                    }
                    continue;
                }
                (None, Some(last)) => common(0, pattern(last), pattern(literal)),
            };
            let entries = &self.entries;
            let link = link(entries.len(), shared, |index| {
                entries.get(index).map(|entry| (usize::from(entry.rule.length), entry.link))
            });
            self.entries.push(Literal { link, ..*literal });
            key_before = key;
            if are_many {
                self.keys.push(key);
            }
        }
        if are_many {
            self.starts = starts(&self.keys);
        }
        self.entries.shrink_to_fit();
        self.keys.shrink_to_fit();
    }

    #[inline(always)]
    pub(crate) fn longest(&self, text: &[u8], target: &[u8]) -> Option<Found> {
        let (count, shared) = self.last_before(text, target);
        let mut index = count.checked_sub(1)?;
        loop {
            work::count(1);
            let Literal { rule, link } = self.entries.get(index)?;
            if usize::from(rule.length) <= shared {
                return Some(Found { number: index as u32, allows: rule.allows() });
            }
            if *link == NONE {
                return None;
            }
            index = *link as usize;
        }
    }

    #[inline(always)]
    fn last_before(&self, text: &[u8], target: &[u8]) -> (usize, usize) {
        if self.keys.is_empty() {
            return last_before(0..self.entries.len(), 0, |index| self.pattern(index, text), target);
        }
        let head = key_of_target(target);
        let letter = usize::from(first_byte(head).wrapping_sub(LETTERS.start));
        // Another first byte has no such place, and all keys are searched.
        let range = match self.starts.get(letter..letter.wrapping_add(2)) {
            Some([start, end]) => *start as usize..*end as usize,
            _ => 0..self.keys.len(),
        };
        let start = range.start;
        let keys = self.keys.get(range).unwrap_or_default();
        let count = start.wrapping_add(keys.partition_point(|key| *key <= head));
        let keys = self.keys.get(..count).unwrap_or_default();
        let Some(last) = keys.last() else { return (0, 0) };
        match shared_by_keys(*last, head) {
            Some(shared) => (count, shared.wrapping_add(1)),
            None => self.last_before_in_run(keys, head, text, target),
        }
    }

    /// Where the last of the keys is that of the target.
    #[inline(never)]
    fn last_before_in_run(&self, keys: &[u128], head: u128, text: &[u8], target: &[u8]) -> (usize, usize) {
        let run = keys.iter().rev().take_while(|key| **key == head).count();
        work::count(run);
        // The slash and the sixteen bytes of the key are the same in all of these.
        last_before(keys.len().wrapping_sub(run)..keys.len(), 17, |index| self.pattern(index, text), target)
    }

    fn pattern<'a>(&self, index: usize, text: &'a [u8]) -> &'a [u8] {
        self.entries.get(index).map_or(&[], |entry| entry.rule.pattern(text))
    }

    pub(crate) fn heap_size(&self) -> usize {
        let entries = self.entries.capacity().saturating_mul(size_of::<Literal>());
        let keys = self.keys.capacity().saturating_mul(size_of::<u128>());
        entries.saturating_add(keys).saturating_add(self.starts.capacity().saturating_mul(size_of::<u32>()))
    }
}

fn starts(keys: &[u128]) -> Vec<u32> {
    let mut rest = keys;
    let ends = LETTERS.start..=LETTERS.end;
    ends.map(|letter| {
        // Most letters have no key or few.
        if rest.first().is_some_and(|key| first_byte(*key) < letter) {
            rest = slice::from(rest, rest.partition_point(|key| first_byte(*key) < letter));
        }
        keys.len().wrapping_sub(rest.len()) as u32
    })
    .collect()
}

#[inline]
fn first_byte(key: u128) -> u8 {
    (key >> 120) as u8
}

/// The key of a target behind its first byte, with the `$` that it ends in.
#[inline]
fn key_of_target(target: &[u8]) -> u128 {
    let rest = slice::from(target, 1);
    match rest.first_chunk() {
        Some(head) => u128::from_be_bytes(*head),
        None => key(rest) | u128::from(b'$').checked_shl(behind(rest).wrapping_sub(8)).unwrap_or_default(),
    }
}

pub(crate) const NONE: u32 = u32::MAX;

/// A text in its place among the sorted ones.
#[derive(Clone, Copy)]
pub(crate) struct Sorted {
    key: [u64; 2],
    /// Which text it is.
    pub(crate) number: u32,
}

impl Sorted {
    /// The sixteen bytes of the text behind those that were known to be equal, as a number that sorts as they
    /// do; see [`key`].
    #[inline]
    pub(crate) fn key(&self) -> u128 {
        u128::from(self.key[0]) << 64 | u128::from(self.key[1])
    }
}

/// Returns the texts with these [keys](key) in the order of their bytes. No text may hold a zero byte.
pub(crate) fn sorted<'a>(
    keys: impl ExactSizeIterator<Item = u128>,
    text_of: impl Fn(u32) -> &'a [u8],
) -> Vec<Sorted> {
    let sorted = |(number, key)| Sorted { key: [(key >> 64) as u64, key as u64], number: number as u32 };
    let mut texts: Vec<Sorted> = keys.enumerate().map(sorted).collect();
    // Keys are compared without a branch, and nearly always decide.
    texts.sort_unstable_by_key(Sorted::key);
    // A text of fewer than sixteen bytes is all in its key, so equal keys are equal texts.
    let goes_on =
        |run: &&mut [Sorted]| matches!(**run, [Sorted { key: [_, low], .. }, _, ..] if low & 0xff != 0);
    for run in texts.chunk_by_mut(|a, b| a.key == b.key).filter(goes_on) {
        run.sort_unstable_by_key(|sorted| text_of(sorted.number));
    }
    texts
}

/// The first sixteen bytes of a text as a number that sorts as they do. Behind the end of the text it is
/// zero.
#[inline]
pub(crate) fn key(text: &[u8]) -> u128 {
    if let Some(word) = text.first_chunk() {
        return u128::from_be_bytes(*word);
    }
    if let (Some(head), Some(tail)) = (text.first_chunk(), text.last_chunk()) {
        // The last eight of the bytes overlap with the first.
        return u128::from(u64::from_be_bytes(*head)) << 64
            | u128::from(u64::from_be_bytes(*tail)) << behind(text);
    }
    let word = text.iter().fold(0, |word, &byte| word << 8 | u128::from(byte));
    word.checked_shl(behind(text)).unwrap_or_default()
}

/// The key of the text of this length at a place in another, where more bytes nearly always follow it.
#[inline]
pub(crate) fn key_at(text: &[u8], at: usize, length: usize) -> u128 {
    match text.get(at..).and_then(|text| text.first_chunk()) {
        Some(word) if length > 0 => {
            let behind = 16usize.wrapping_sub(length.min(16)).wrapping_mul(8);
            u128::from_be_bytes(*word) & u128::MAX.wrapping_shl(behind as u32)
        }
        _ => key(slice::before(slice::from(text, at), length)),
    }
}

/// How many bytes two texts share by their keys; `None` if these are the same.
///
/// A text that has ended differs from the other there, as the rest of its key is zero.
#[inline(always)]
pub(crate) fn shared_by_keys(a: u128, b: u128) -> Option<usize> {
    let differing = a ^ b;
    (differing != 0).then(|| (differing.leading_zeros() / 8) as usize)
}

/// The bits of a key behind a text of up to sixteen bytes.
#[inline]
pub(crate) fn behind(text: &[u8]) -> u32 {
    128u32.saturating_sub((text.len() as u32).saturating_mul(8))
}

/// The link of a text that is to stand behind `count` sorted, distinct ones and shares `shared` bytes with
/// the last of them. `before` gives the length and the link of a text.
///
/// The prefixes of a text are its neighbour to the left, or what that is linked to: any that is given up here
/// is behind all texts to come, so the work is linear.
#[inline]
pub(crate) fn link(count: usize, shared: usize, before: impl Fn(usize) -> Option<(usize, u32)>) -> u32 {
    let mut candidate = (count as u32).wrapping_sub(1);
    while let Some((length, link)) = before(candidate as usize)
        && length > shared
    {
        candidate = link;
    }
    candidate
}

/// How many of the sorted texts do not sort behind the target, and how many bytes the last of them shares
/// with it. The texts before the range must not sort behind the target, those after it must, and those in it
/// share their first `from` bytes with it, or as many as they have.
///
/// Every text that the target starts with is that last one or one that it is linked to: what sorts between a
/// prefix of the target and the target itself starts with that prefix too. Those that are no longer than the
/// shared bytes are the ones.
///
/// The target ends in a `$` of its own: so a pattern with a final `$` is a text like any other. No byte of a
/// normal form is `$` otherwise.
#[inline]
pub(crate) fn last_before<'a>(
    range: Range<usize>,
    from: usize,
    text_of: impl Fn(usize) -> &'a [u8],
    target: &[u8],
) -> (usize, usize) {
    let Range { start: mut low, end: mut high } = range;
    let mut shared_by_last = None;
    while low < high {
        let middle = low.midpoint(high);
        let text = text_of(middle);
        let shared = shared_from(from, text, target);
        work::count(1_usize.saturating_add(shared.saturating_sub(from) / 8));
        if sorts_behind(text, target, shared) {
            high = middle;
        } else {
            shared_by_last = Some(shared);
            low = middle.wrapping_add(1);
        }
    }
    let last = || low.checked_sub(1).map_or(0, |last| shared_from(0, text_of(last), target));
    (low, shared_by_last.unwrap_or_else(last))
}

/// Whether a text sorts behind the target, with which it shares as many bytes as said.
#[inline]
fn sorts_behind(text: &[u8], target: &[u8], shared: usize) -> bool {
    text.get(shared).is_some_and(|byte| byte > target.get(shared).unwrap_or(&b'$'))
}

/// How many bytes of the text stand in the target, with its `$`.
#[inline]
fn shared_from(from: usize, text: &[u8], target: &[u8]) -> usize {
    let common = common(from, text, target);
    common.wrapping_add(usize::from(common == target.len() && text.get(common) == Some(&b'$')))
}

/// How many bytes two texts have in common from their start, where the first `from` are known to be, or as
/// many as they have.
#[inline]
pub(crate) fn common(from: usize, a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (slice::before(a, length), slice::before(b, length));
    // Bytes in which the words at `at` differ stand at their lower end.
    let differ = |at: usize| Some(word(a, at)? ^ word(b, at)?);
    let mut at = from;
    while let Some(bits) = differ(at) {
        if bits != 0 {
            return at.wrapping_add((bits.trailing_zeros() / 8) as usize);
        }
        at = at.wrapping_add(8);
    }
    // The last word overlaps with what is known to be the same.
    match length.checked_sub(8).and_then(|at| Some((at, differ(at)?))) {
        Some((_, 0)) => length,
        Some((at, bits)) => at.wrapping_add((bits.trailing_zeros() / 8) as usize),
        None => a.iter().zip(b).take_while(|(a, b)| a == b).count(),
    }
}

#[inline]
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::cell::Cell;

    use super::*;

    fn prefixes<'a>(texts: &[&'a str], target: &str) -> Vec<&'a str> {
        let mut sorted = texts.to_vec();
        sorted.sort_unstable();
        let mut items: Vec<(&str, u32)> = Vec::new();
        for text in sorted {
            let shared = items.last().map_or(0, |last| common(0, last.0.as_bytes(), text.as_bytes()));
            let link = link(items.len(), shared, |index| items.get(index).map(|item| (item.0.len(), item.1)));
            items.push((text, link));
        }
        let (count, shared) =
            last_before(0..items.len(), 0, |index| items[index].0.as_bytes(), target.as_bytes());
        let mut found = Vec::new();
        let mut next = (count as u32).wrapping_sub(1);
        while next != NONE {
            let (text, link) = items[next as usize];
            if text.len() <= shared {
                found.push(text);
            }
            next = link;
        }
        found
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn links_and_searches_take_few_steps() {
        // Again and again a chain of prefixes, and a text that is none of theirs.
        let mut texts: Vec<String> = (0..40)
            .flat_map(|chain| (1..40).map(move |length| alloc::format!("/{chain:02}{}", "a".repeat(length))))
            .collect();
        texts.sort();
        let steps = Cell::new(0);
        let mut items: Vec<(usize, u32)> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let before = index.checked_sub(1).map_or("", |before| &texts[before]);
            let shared = common(0, before.as_bytes(), text.as_bytes());
            let link = link(items.len(), shared, |index| {
                steps.set(steps.get() + 1);
                items.get(index).copied()
            });
            items.push((text.len(), link));
        }
        assert!(steps.get() <= 2 * texts.len(), "{} steps for {} texts", steps.get(), texts.len());
        let looks = Cell::new(0);
        let text_of = |index: usize| {
            looks.set(looks.get() + 1);
            texts[index].as_bytes()
        };
        last_before(0..texts.len(), 0, text_of, b"/20aaaaaaaa/b");
        assert!(looks.get() <= texts.len().ilog2() as usize + 2, "{} looks", looks.get());
    }

    #[test]
    fn every_prefix_is_found_longest_first() {
        let texts =
            ["/", "/a", "/a$", "/a/b", "/a/b/c/d/e/f/g", "/a/b/c/d/e/f/h", "/ab", "/b", "/b!", "/aa$", "/a!"];
        assert_eq!(prefixes(&texts, "/a"), ["/a$", "/a", "/"]);
        assert_eq!(prefixes(&texts, "/a/b/c/d/e/f/h/i"), ["/a/b/c/d/e/f/h", "/a/b", "/a", "/"]);
        assert_eq!(prefixes(&texts, "/aa"), ["/aa$", "/a", "/"]);
        assert_eq!(prefixes(&texts, "/b!"), ["/b!", "/b", "/"]);
        assert_eq!(prefixes(&texts, "/c"), ["/"]);
        assert_eq!(prefixes(&texts[1..], "/c"), [""; 0]);
        assert_eq!(prefixes(&[], "/c"), [""; 0]);
    }
}
