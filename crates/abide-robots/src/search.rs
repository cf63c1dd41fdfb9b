//! The most specific rule that covers a target, RFC 9309 §2.2.2.
//!
//! Literal rules are found by one binary search. Wildcard rules are tried while they can still win, and when
//! a file was made to make that expensive, the sweep decides.

use crate::compiled::{Compiled, Found, Rule, Wildcard};
use crate::index::signature;
use crate::pattern;
use crate::slice;
use crate::sweep;
use crate::work;

/// RFC 9309 §2.2.2: "The most specific match found MUST be used", and of equivalent rules the Allow. Gives
/// the rule and whether it allows.
#[inline(always)]
pub(crate) fn most_specific(rules: &Compiled, target: &[u8], query: usize) -> Option<Found> {
    let literal = rules.literals.longest(&rules.text, target);
    if rules.wildcards.is_empty() { literal } else { or_wildcard(rules, literal, target, query) }
}

#[inline(never)]
fn or_wildcard(rules: &Compiled, literal: Option<Found>, target: &[u8], query: usize) -> Option<Found> {
    let rank = literal.and_then(|found| rules.rule(found)).map_or(u32::MAX, Rule::rank);
    // No wildcard can win over the literal, as for most targets: then none is looked at.
    if !rules.wildcards.iter().any(|wildcard| wildcard.rule.rank() < rank) {
        return literal;
    }
    let mut search = Search {
        rules,
        target,
        query,
        signature: signature(target),
        // With 0 for its number, so that no wildcard of the literal's own rank replaces it.
        best: (rank, 0),
        found: None,
        work_left: WORK_MAX,
    };
    search.run();
    let Some(index) = search.found else { return literal };
    let first = rules.literals.entries.len() as u32;
    let allows = rules.wildcards.get(index as usize)?.rule.allows();
    Some(Found { number: first.wrapping_add(index), allows })
}

/// The search for the wildcard rule that covers the target and takes precedence over all others that do.
struct Search<'a> {
    rules: &'a Compiled,
    target: &'a [u8],
    query: usize,
    signature: u64,
    /// The rank of the best rule so far, and of a wildcard its index: of equal ones the first in the file is
    /// named.
    best: (u32, u32),
    found: Option<u32>,
    /// Bytes of the target that patterns may still be matched against.
    work_left: usize,
}

/// Bytes that may be matched one pattern at a time. Real files and targets need a thousandth of it; what
/// needs more was made to, and is answered by a single walk over the target for all patterns at once.
const WORK_MAX: usize = 2 * 1024 * 1024;

/// What looking at a signature costs, in bytes.
const LOOK: usize = 8;

impl Search<'_> {
    fn run(&mut self) {
        if self.try_one_by_one().is_some() {
            return;
        }
        let wildcards = (0..).zip(&self.rules.wildcards);
        let winning = wildcards.filter(|(index, wildcard)| (wildcard.rule.rank(), *index) < self.best);
        for index in sweep::covering(winning, &self.rules.text, self.target, self.query) {
            if let Some(wildcard) = self.rules.wildcards.get(index as usize) {
                self.take(index, &wildcard.rule);
            }
        }
    }

    fn take(&mut self, index: u32, rule: &Rule) {
        if (rule.rank(), index) < self.best {
            self.best = (rule.rank(), index);
            self.found = Some(index);
        }
    }

    /// `None` if the work is exhausted.
    fn try_one_by_one(&mut self) -> Option<()> {
        let Self { rules, target, .. } = *self;
        let Some(index) = &rules.index else {
            return (0..)
                .zip(&rules.wildcards)
                .try_for_each(|(index, wildcard)| self.consider(index, wildcard));
        };
        for group in slice::windows(target) {
            self.consider_all(index.under(group))?;
        }
        self.consider_all(index.unfiled())
    }

    #[inline]
    fn consider_all(&mut self, indices: &[u32]) -> Option<()> {
        indices.iter().try_for_each(|index| self.consider(*index, self.rules.wildcards.get(*index as usize)?))
    }

    #[inline(never)]
    fn consider(&mut self, index: u32, wildcard: &Wildcard) -> Option<()> {
        work::count(1);
        // Candidates that are only looked at count too: a slot may be long, and the target may name it often.
        self.work_left = self.work_left.checked_sub(LOOK)?;
        if wildcard.signature & !self.signature != 0 || (wildcard.rule.rank(), index) >= self.best {
            return Some(());
        }
        self.work_left = self.work_left.checked_sub(self.target.len())?;
        work::count(self.target.len());
        let text = &self.rules.text;
        if pattern::matches(wildcard.rule.pattern(text), wildcard.query_form(text), self.target, self.query) {
            self.take(index, &wildcard.rule);
        }
        Some(())
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

    /// The best rule, where so much work may be spent on one pattern at a time, and whether that was enough.
    fn search(rules: &Compiled, target: &Target<'_>, work_left: usize) -> (Option<u32>, bool) {
        let (target, query, signature) = (target.bytes(), target.query(), signature(target.bytes()));
        let search =
            || Search { rules, target, query, signature, best: (u32::MAX, 0), found: None, work_left };
        let mut run = search();
        run.run();
        (run.found, search().try_one_by_one().is_some())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        // From 128 patterns on there is an index.
        fn all_ways_of_searching_find_the_same(patterns in vec(text(1..8), 1..260), targets in vec(text(0..14), 1..6)) {
            let lines: String = patterns.iter().map(|pattern| format!("disallow: /*{pattern}\n")).collect();
            let rules = Rules::parse(format!("user-agent: *\n{lines}").as_bytes(), &[]);
            let rules = rules.compiled();
            for target in &targets {
                let text = format!("/{target}");
                let target = Target::new(&text);
                let covers = |wildcard: &Wildcard| {
                    let (pattern, form) = (wildcard.rule.pattern(&rules.text), wildcard.query_form(&rules.text));
                    pattern::matches(pattern, form, target.bytes(), target.query())
                };
                let covering = (0..).zip(&rules.wildcards).filter(|(_, wildcard)| covers(wildcard));
                let best = covering.min_by_key(|(index, wildcard)| (wildcard.rule.rank(), *index));
                let best = best.map(|(index, _)| index);
                for work in [WORK_MAX, 0, 60] {
                    prop_assert_eq!(search(rules, &target, work).0, best, "{} {} {:?}", work, target, patterns);
                }
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
        let target = format!("/{}", "a".repeat(4000));
        assert_eq!(search(rules.compiled(), &Target::new(&target), WORK_MAX), (None, false));
    }
}
