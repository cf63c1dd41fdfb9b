//! The rules without wildcards, sorted by their patterns, and the search for the longest that a target starts with.
//!
//! Most rules have no wildcard, and this decides them in one search, however many there are. Those with wildcards are in `search`.

use alloc::vec::Vec;
use core::mem::take;
use core::ops::Range;

use crate::compiled::{Found, Literal};
use crate::prefix::{self, behind, common, key, key_at, last_before, shared_by_keys};
use crate::slice;
use crate::work;

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Literals {
    pub(crate) entries: Vec<Literal>,
    /// For each entry the [`key`] of its pattern behind the slash, if there are many: they nearly always decide, so that no text is looked at.
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

    /// Sorts the entries, links them, and drops those whose pattern another has. RFC 9309 §2.2.2: of equivalent rules "the 'allow' rule
    /// SHOULD be used"; duplicates "MAY be deduplicated".
    pub(crate) fn sort(&mut self, text: &[u8]) {
        let given = take(&mut self.entries);
        let pattern = |literal: &Literal| literal.rule.pattern(text);
        // All patterns start with a slash.
        let keys = given.iter().map(|Literal { rule, .. }| {
            key_at(text, (rule.at as usize).wrapping_add(1), usize::from(rule.length).wrapping_sub(1))
        });
        let order =
            prefix::sorted(keys, |number| given.get(number as usize).map(pattern).unwrap_or_default());
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
            let link = prefix::link(entries.len(), shared, |index| {
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
            if *link == prefix::NONE {
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
