//! The most specific rule that covers a target, RFC 9309 §2.2.2.
//!
//! Literal rules are found by one binary search. Wildcard rules are tried in order of precedence while they can still win, and when a file was
//! made to make that expensive, the sweep decides.

use crate::block::{Block, Entry, Found, Literals, Parts};
use crate::index::{Index, signature};
use crate::pattern;
use crate::prefix;
use crate::slice;
use crate::sweep;
use crate::work;

/// RFC 9309 §2.2.2: "The most specific match found MUST be used", and of equivalent rules the Allow. Gives the rule and
/// whether it allows.
#[inline(always)]
pub(crate) fn most_specific(block: &Block, target: &[u8], query: usize) -> Option<Found> {
    let literal = longest_literal(block, block.literals()?, target);
    if block.wildcard_count() == 0 {
        return literal;
    }
    or_wildcard(block, literal, target, query)
}

#[inline(never)]
fn or_wildcard(block: &Block, literal: Option<Found>, target: &[u8], query: usize) -> Option<Found> {
    let parts = &block.parts();
    let beaten = literal.and_then(|found| parts.entry(found));
    let mut search = Search { parts, target, query, signature: 0, beaten, work_left: WORK_MAX };
    if !search.wins(0) {
        return literal;
    }
    search.signature = signature(target);
    let Some(index) = search.run() else { return literal };
    let allows = parts.wildcard(index)?.allows();
    Some(Found { number: parts.literal_count().wrapping_add(index) as u32, allows })
}

#[inline(always)]
fn longest_literal(block: &Block, literals: Literals<'_>, target: &[u8]) -> Option<Found> {
    let (count, shared) = if literals.keys.is_empty() {
        prefix::last_before(0..literals.len(), 0, move |index| literals.pattern(index), target)
    } else {
        let pattern_of = move |index| literals.pattern(index);
        prefix::last_before_by_keys(literals.starts, literals.keys, pattern_of, target)
            .unwrap_or_else(|| in_run(block, target))
    };
    let mut index = count.checked_sub(1)?;
    loop {
        work::count(1);
        let entry = literals.entry(index)?;
        if usize::from(entry.length) <= shared {
            return Some(Found { number: index as u32, allows: entry.allows() });
        }
        if entry.link == prefix::NONE {
            return None;
        }
        index = entry.link as usize;
    }
}

#[cold]
fn in_run(block: &Block, target: &[u8]) -> (usize, usize) {
    let literals = block.literals().unwrap_or_default();
    prefix::last_before_in_run(literals.keys, |index| literals.pattern(index), target)
}

/// The search for the first wildcard rule, in order of precedence, that covers the target and beats the literal found.
struct Search<'a> {
    parts: &'a Parts<'a>,
    target: &'a [u8],
    query: usize,
    signature: u64,
    beaten: Option<Entry>,
    /// Bytes of the target that patterns may still be matched against.
    work_left: usize,
}

/// Bytes that may be matched one pattern at a time. Real files and targets need a thousandth of it; what needs more
/// was made to, and is answered by a single walk over the target for all patterns at once.
const WORK_MAX: usize = 2 * 1024 * 1024;

/// What looking at a signature costs, in bytes.
const LOOK: usize = 8;

/// The answer of a step: the work is exhausted.
struct Exhausted;

impl Search<'_> {
    fn run(&mut self) -> Option<usize> {
        let found = match Index::of(self.parts) {
            Some(index) => self.by_index(index),
            None => self.one_by_one(),
        };
        found.unwrap_or_else(|Exhausted| {
            let count = (0..self.parts.wildcard_count()).take_while(|&index| self.wins(index)).count();
            sweep::first_match(self.parts, count, self.target, self.query)
        })
    }

    fn one_by_one(&mut self) -> Result<Option<usize>, Exhausted> {
        for index in 0..self.parts.wildcard_count() {
            if !self.wins(index) {
                break;
            }
            if self.matches(index)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn by_index(&mut self, index: Index<'_>) -> Result<Option<usize>, Exhausted> {
        let mut best = None;
        for group in slice::windows(self.target) {
            for candidate in index.under(group) {
                self.consider(usize::from(u16::from_le_bytes(*candidate)), &mut best)?;
            }
        }
        for candidate in index.unfiled() {
            self.consider(usize::from(u16::from_le_bytes(*candidate)), &mut best)?;
        }
        Ok(best)
    }

    #[inline]
    fn consider(&mut self, candidate: usize, best: &mut Option<usize>) -> Result<(), Exhausted> {
        // Candidates that are only looked at count too: a slot may be long, and the target may name it often.
        self.work_left = self.work_left.checked_sub(LOOK).ok_or(Exhausted)?;
        work::count(1);
        if best.is_none_or(|best| candidate < best) && self.matches(candidate)? && self.wins(candidate) {
            *best = Some(candidate);
        }
        Ok(())
    }

    #[inline]
    fn matches(&mut self, index: usize) -> Result<bool, Exhausted> {
        work::count(1);
        if self.parts.signature(index).is_none_or(|signature| signature & !self.signature != 0) {
            return Ok(false);
        }
        self.work_left = self.work_left.checked_sub(self.target.len()).ok_or(Exhausted)?;
        work::count(self.target.len());
        let Some(entry) = self.parts.wildcard(index) else { return Ok(false) };
        let block = self.parts.block;
        Ok(pattern::matches(entry.pattern(block), entry.query_form(block), self.target, self.query))
    }

    /// Whether the wildcard takes precedence over the literal rule that covers the target.
    #[inline]
    fn wins(&self, index: usize) -> bool {
        let Some(literal) = &self.beaten else { return true };
        let Some(entry) = self.parts.wildcard(index) else { return false };
        entry.bytes > literal.bytes || (entry.bytes == literal.bytes && entry.allows() && !literal.allows())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::{Rules, Target};

    const PIECES: &[&str] =
        &["a", "b", "ab", "*", "*", "%2F", "?", "/", "abcd", "aaaa", "$", "**", "%3a", ":"];

    fn text(pieces: core::ops::Range<usize>) -> impl Strategy<Value = String> {
        vec(select(PIECES), pieces).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        // From 128 patterns on there is an index.
        fn all_ways_of_searching_find_the_same(patterns in vec(text(1..8), 1..260), targets in vec(text(0..14), 1..6)) {
            let lines: String = patterns.iter().map(|pattern| format!("disallow: /*{pattern}\n")).collect();
            let rules = Rules::parse(format!("user-agent: *\n{lines}").as_bytes(), &[]);
            let parts = rules.parts();
            for target in &targets {
                let text = format!("/{target}");
                let target = Target::new(&text);
                let (bytes, query) = (target.bytes(), target.query());
                let matching = (0..parts.wildcard_count()).find(|&index| {
                    let entry = parts.wildcard(index).expect("there are so many");
                    pattern::matches(entry.pattern(parts.block), entry.query_form(parts.block), bytes, query)
                });
                let search = |work_left| {
                    let signature = signature(bytes);
                    Search { parts: &parts, target: bytes, query, signature, beaten: None, work_left }
                };
                prop_assert_eq!(search(WORK_MAX).run(), matching, "{} {:?}", target, patterns);
                prop_assert_eq!(search(0).run(), matching, "swept: {} {:?}", target, patterns);
                prop_assert_eq!(search(60).run(), matching, "swept late: {} {:?}", target, patterns);
            }
        }
    }

    #[test]
    fn a_slot_that_the_target_names_again_and_again_exhausts_the_work() {
        // "aaaa" is the only group of four bytes in each pattern, and no signature lies within the target's.
        let lines: String = ('b'..='y')
            .flat_map(|first| ('b'..='y').map(move |second| format!("disallow: /*aaaa*{first}{second}z\n")))
            .collect();
        let rules = Rules::parse(format!("user-agent: *\n{lines}").as_bytes(), &[]);
        let parts = rules.parts();
        let target = format!("/{}", "a".repeat(4000));
        let target = target.as_bytes();
        let signature = signature(target);
        let search = |work_left| Search {
            parts: &parts,
            target,
            query: target.len(),
            signature,
            beaten: None,
            work_left,
        };
        let index = || Index::of(&parts).expect("there are many wildcards");
        assert!(search(WORK_MAX).by_index(index()).is_err());
        assert_eq!(search(WORK_MAX).run(), None);
    }
}
