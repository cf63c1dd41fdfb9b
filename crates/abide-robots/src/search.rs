//! The most specific rule that covers a target, RFC 9309 §2.2.2.

use crate::block::{Entry, Parts};
use crate::index::{Index, signature};
use crate::pattern;
use crate::prefix;
use crate::sweep;

/// The rule that decides, by its place in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Literal(usize),
    Wildcard(usize),
}

/// RFC 9309 §2.2.2: "The most specific match found MUST be used", and of equivalent rules the Allow.
#[inline]
pub(crate) fn most_specific(parts: &Parts<'_>, target: &[u8], query: usize) -> Option<(Found, Entry)> {
    let literal = longest_literal(parts, target);
    if parts.wildcard_count() == 0 {
        return literal;
    }
    let beaten = literal.map(|(_, entry)| entry);
    let mut search = Search { parts, target, query, signature: signature(target), beaten, work: 0 };
    match search.run() {
        Some(index) => Some((Found::Wildcard(index), parts.wildcard(index))),
        None => literal,
    }
}

#[inline]
fn longest_literal(parts: &Parts<'_>, target: &[u8]) -> Option<(Found, Entry)> {
    let pattern_of = |index| parts.literal(index).pattern(parts.block);
    let (mut index, shared) = prefix::last_before(parts.literal_count(), pattern_of, target)?;
    loop {
        let entry = parts.literal(index);
        if usize::from(entry.length) <= shared {
            return Some((Found::Literal(index), entry));
        }
        if entry.link == prefix::NONE {
            return None;
        }
        index = entry.link as usize;
    }
}

/// The search for the first wildcard rule, in order of precedence, that covers the target and beats the literal found.
struct Search<'a> {
    parts: &'a Parts<'a>,
    target: &'a [u8],
    query: usize,
    signature: u64,
    beaten: Option<Entry>,
    /// Octets of the target that patterns were matched against.
    work: usize,
}

/// Octets that may be matched one pattern at a time. Real files and targets need a thousandth of it; what needs more
/// was made to, and is answered by a single walk over the target for all patterns at once.
const WORK_MAX: usize = 8 * 1024 * 1024;

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
        for &group in self.target.array_windows::<4>() {
            for candidate in index.under(group) {
                self.consider(candidate, &mut best)?;
            }
        }
        for candidate in index.unfiled() {
            self.consider(candidate, &mut best)?;
        }
        Ok(best)
    }

    #[inline]
    fn consider(&mut self, candidate: usize, best: &mut Option<usize>) -> Result<(), Exhausted> {
        // Candidates that are only looked at count too: a slot may be long, and the target may name it often.
        self.work += 1;
        if best.is_none_or(|best| candidate < best) && self.matches(candidate)? && self.wins(candidate) {
            *best = Some(candidate);
        }
        Ok(())
    }

    #[inline]
    fn matches(&mut self, index: usize) -> Result<bool, Exhausted> {
        if self.parts.signature(index) & !self.signature != 0 {
            return Ok(false);
        }
        self.work += self.target.len();
        if self.work > WORK_MAX {
            return Err(Exhausted);
        }
        let entry = self.parts.wildcard(index);
        let block = self.parts.block;
        Ok(pattern::matches(entry.pattern(block), entry.query_form(block), self.target, self.query))
    }

    /// Whether the wildcard takes precedence over the literal rule that covers the target.
    #[inline]
    fn wins(&self, index: usize) -> bool {
        let Some(literal) = &self.beaten else { return true };
        let entry = self.parts.wildcard(index);
        entry.octets > literal.octets || (entry.octets == literal.octets && entry.allow && !literal.allow)
    }
}
