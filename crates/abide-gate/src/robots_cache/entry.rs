//! An entry of the cache: a record, and what it says now.
//!
//! Compiled once and shared by all requests to the origin, so that a check neither parses nor allocates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::{ParseOptions, ProductToken, Remark, Robots, Rules, Target};
use url::Url;

use crate::robots_cache::interner::{Interner, RobotsText};
use crate::robots_cache::policy::BODY_LIMIT_MAX;
use crate::robots_cache::record::LastResult;
use crate::robots_cache::reuse::{Reuse, Serving, Times, serving};
use crate::robots_cache::{GoodCopy, RobotsPolicy, RobotsRecord, Unavailable};
use crate::{Failure, Origin, Verdict, WallMillis};

/// Whether an origin's robots.txt could be had: the three results of RFC 9309 §2.3.1 that reach a verdict.
#[derive(Debug, Clone)]
pub(crate) enum AccessResult {
    /// A robots.txt was read: fresh, revalidated, or the last good copy.
    Rules(Arc<RobotsText>),
    /// The server says that there is none: everything is allowed.
    Unavailable(Unavailable),
    /// We could not learn it, and have no copy: everything is disallowed for now.
    Unreachable(Failure),
}

/// Where an answer came from.
///
/// ```
/// # use abide_gate::robots_cache::Source;
/// fn is_by_rules(source: Source) -> bool {
///     matches!(source, Source::Fresh | Source::Revalidated | Source::LastGood)
/// }
/// assert!(!is_by_rules(Source::Unavailable(404)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The server sent it within its lifetime.
    Fresh,
    /// The server confirmed the copy (304).
    Revalidated,
    /// The last good copy: nothing newer could be learnt.
    LastGood,
    /// The server says that there is none, with this 4xx status: everything is allowed.
    Unavailable(u16),
    /// More redirects than are followed, or a circle of them: everything is allowed (RFC 9309 §2.3.1.2).
    TooManyRedirects,
    /// It could not be learnt, and there is no copy: everything is disallowed.
    Unreachable(Failure),
    /// It could not be learnt for so long that it counts as unavailable: everything is allowed.
    LongOutage,
}

/// What is known of one origin's robots.txt, ready to be asked, with everything that explains it.
///
/// Made once per fetch and shared. Asking it needs no further request and, for [`is_allowed`](Self::is_allowed), no
/// allocation.
pub struct RobotsEntry {
    record: RobotsRecord,
    result: AccessResult,
    was_fresh: bool,
    /// The entry that this one takes the place of has the same text.
    has_text_of_replaced: bool,
}

impl RobotsEntry {
    /// What `record` says at `now`, with its text from `texts` if that is in use already.
    pub(super) fn new(
        mut record: RobotsRecord,
        now: WallMillis,
        policy: &RobotsPolicy,
        tokens: &[ProductToken],
        texts: &Interner,
    ) -> Self {
        let result = match (serving(&record, now, policy), &mut record.copy) {
            (Serving::Current | Serving::LastGood, Some(copy)) => {
                let text = texts.get(&copy.body, |body| Rules::parse_with(body, tokens, reading(policy)));
                if !Arc::ptr_eq(&text.body, &copy.body) {
                    Arc::make_mut(copy).body = Arc::clone(&text.body);
                }
                AccessResult::Rules(text)
            }
            (Serving::Unavailable(why), _) => AccessResult::Unavailable(why),
            (Serving::Unreachable(cause), _) => AccessResult::Unreachable(cause),
            // Serving a copy without a copy cannot be; if it were, the safe reading is this one.
            (Serving::Current | Serving::LastGood, None) => AccessResult::Unreachable(Failure::Other),
        };
        let was_fresh = Times::of(&record).is_fresh(now);
        Self { was_fresh, has_text_of_replaced: false, record, result }
    }

    /// The same in the place of `replaced`.
    pub(super) fn in_place_of(self, replaced: Option<&Self>) -> Self {
        let has_text_of_replaced = match (&self.result, replaced.map(Self::result)) {
            (AccessResult::Rules(text), Some(AccessResult::Rules(replaced))) => Arc::ptr_eq(text, replaced),
            _ => false,
        };
        Self { has_text_of_replaced, ..self }
    }

    /// What to do with this answer at `now`; `None` if it must be compiled again, since it has grown stale.
    pub(super) fn next(&self, now: WallMillis) -> Option<Reuse> {
        let times = Times::of(&self.record);
        match times.next(now) {
            Reuse::Use | Reuse::UseAndRefresh if times.is_fresh(now) != self.was_fresh => None,
            next => Some(next),
        }
    }

    /// Rules, unavailable, or unreachable.
    pub(crate) fn result(&self) -> &AccessResult {
        &self.result
    }

    /// Whether the target may be fetched. Allocates nothing.
    ///
    /// `/robots.txt` itself always may (RFC 9309 §2.2.2).
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {
        match &self.result {
            AccessResult::Rules(text) => text.rules.is_allowed(target),
            AccessResult::Unavailable(_) => true,
            AccessResult::Unreachable(_) => target.as_str() == "/robots.txt",
        }
    }

    /// The answer for one target, with all that led to it.
    pub fn explain(self: &Arc<Self>, target: &Target<'_>) -> Verdict {
        Verdict::robots(Arc::clone(self), target)
    }

    /// The `Crawl-delay` of the group that applies, as written.
    pub fn crawl_delay(&self) -> Option<Duration> {
        match &self.result {
            AccessResult::Rules(text) => text.rules.crawl_delay(),
            AccessResult::Unavailable(_) | AccessResult::Unreachable(_) => None,
        }
    }

    /// Whose robots.txt it is.
    pub fn origin(&self) -> &Origin {
        self.record.origin()
    }

    /// Where it came from.
    pub fn source(&self) -> Source {
        match self.result {
            AccessResult::Rules(_) if self.record.last != LastResult::Rules => Source::LastGood,
            AccessResult::Rules(_) if self.copy().is_some_and(|c| c.validated_at() > c.fetched_at()) => {
                Source::Revalidated
            }
            AccessResult::Rules(_) => Source::Fresh,
            AccessResult::Unavailable(Unavailable::LongOutage) => Source::LongOutage,
            AccessResult::Unavailable(Unavailable::Status(status)) => Source::Unavailable(status),
            AccessResult::Unavailable(Unavailable::TooManyRedirects) => Source::TooManyRedirects,
            AccessResult::Unreachable(cause) => Source::Unreachable(cause),
        }
    }

    /// The robots.txt that decides, as received. `None` if none does.
    pub fn copy(&self) -> Option<&GoodCopy> {
        match self.result {
            AccessResult::Rules(_) => self.record.copy(),
            AccessResult::Unavailable(_) | AccessResult::Unreachable(_) => None,
        }
    }

    /// Where the robots.txt came from after its redirects.
    pub fn final_url(&self) -> Option<Url> {
        self.copy().map(|copy| copy.final_url(self.origin()))
    }

    /// The status that decided: of the copy, or of the refusal if it had one.
    pub fn status(&self) -> Option<u16> {
        match self.result {
            AccessResult::Rules(_) => self.copy().map(GoodCopy::status),
            AccessResult::Unavailable(Unavailable::Status(status)) => Some(status),
            AccessResult::Unreachable(Failure::Status(status)) => Some(status),
            AccessResult::Unavailable(_) | AccessResult::Unreachable(_) => None,
        }
    }

    /// Why the last attempt failed, also if a copy stands in.
    pub fn failure(&self) -> Option<Failure> {
        match self.record.last {
            LastResult::Unreachable(cause) => Some(cause),
            LastResult::Unavailable(Unavailable::Status(status)) if self.source() == Source::LastGood => {
                Some(Failure::Status(status))
            }
            _ => None,
        }
    }

    /// When the body was received.
    pub fn fetched_at(&self) -> Option<WallMillis> {
        self.copy().map(GoodCopy::fetched_at)
    }

    /// How long ago the server last sent or confirmed the copy.
    pub fn age(&self, now: WallMillis) -> Option<Duration> {
        self.copy().map(|copy| now.since(copy.validated_at()))
    }

    /// When the last attempt ended.
    pub fn asked_at(&self) -> WallMillis {
        self.record.asked_at
    }

    /// Until when the answer counts.
    pub fn fresh_until(&self) -> WallMillis {
        self.record.fresh_until
    }

    /// Since when it has been unreachable.
    pub fn failing_since(&self) -> Option<WallMillis> {
        self.record.outage().since
    }

    /// How many attempts have failed in a row.
    pub fn attempts(&self) -> u32 {
        self.record.outage().attempts
    }

    /// When it is asked again, if it is used then.
    pub fn retry_at(&self) -> WallMillis {
        self.record.next_try
    }

    /// Whether the file was cut at the parsing limit (RFC 9309 §2.5).
    pub fn is_truncated(&self) -> bool {
        self.copy().is_some_and(GoodCopy::is_truncated)
    }

    /// Whether the document is HTML without one rule line, so that what allows everything may be a mistake or a challenge.
    pub fn is_not_text(&self) -> bool {
        self.copy().is_some_and(|copy| copy.html)
    }

    /// What a reader stumbles over in the text: lines that cannot be read, encodings, rules that never match. Reads it again.
    pub fn remarks(&self) -> Vec<Remark> {
        let options = ParseOptions::new().with_limit(BODY_LIMIT_MAX);
        self.copy().map(|copy| Robots::parse_with(copy.body(), options).remarks()).unwrap_or_default()
    }

    /// What is stored of it.
    pub fn record(&self) -> &RobotsRecord {
        &self.record
    }

    /// About how many bytes it takes in memory, with its place in the cache.
    pub(super) fn weight(&self) -> usize {
        let text = match &self.result {
            AccessResult::Rules(text) => {
                // Each of several hosts with one text pays its part. Not less than an eighth: the others may be evicted before this one.
                // The entry that this one takes the place of is none of them.
                let sharers = Arc::strong_count(text).saturating_sub(self.has_text_of_replaced.into());
                let sharers = sharers.clamp(1, SHARERS_MAX);
                text.body
                    .len()
                    .saturating_add(text.rules.heap_size())
                    .checked_div(sharers)
                    .unwrap_or_default()
            }
            // A copy that does not count now may be kept all the same.
            AccessResult::Unavailable(_) | AccessResult::Unreachable(_) => {
                self.record.copy().map_or(0, |copy| copy.body().len())
            }
        };
        ENTRY_WEIGHT.saturating_add(self.record.weight_without_body()).saturating_add(text)
    }
}

/// What moka takes for an entry, and what this one takes besides its record, measured by `benches/gate.rs`.
const ENTRY_WEIGHT: usize = 350;
/// Hosts that share the weight of a text.
const SHARERS_MAX: usize = 8;

/// The body was cut at the policy's limit, so the reader must not cut it at a lower one.
fn reading(policy: &RobotsPolicy) -> ParseOptions {
    ParseOptions::new().with_limit(policy.body_limit)
}

impl fmt::Debug for RobotsEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsEntry")
            .field("origin", self.origin())
            .field("source", &self.source())
            .field("asked_at", &self.asked_at())
            .field("retry_at", &self.retry_at())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);
    const BODY: usize = 100_000;

    fn record() -> RobotsRecord {
        let origin = "https://a.example".parse().unwrap();
        RobotsRecord::sample(&origin, NOW, vec![b'#'; BODY].into())
    }

    fn entry(record: RobotsRecord, texts: &Interner) -> RobotsEntry {
        RobotsEntry::new(record, NOW, &RobotsPolicy::default(), &[], texts)
    }

    #[test]
    fn a_copy_that_is_kept_weighs_though_it_does_not_count() {
        let mut record = record();
        record.last = LastResult::Unavailable(Unavailable::TooManyRedirects);
        let entry = entry(record, &Interner::new());
        assert!(entry.copy().is_none() && entry.weight() >= BODY, "{}", entry.weight());
    }

    #[test]
    fn a_text_is_not_shared_with_the_entry_that_is_replaced() {
        let texts = Interner::new();
        let first = entry(record(), &texts);
        assert!(first.weight() >= BODY);
        let second = entry(record(), &texts).in_place_of(Some(&first));
        assert!(second.weight() >= BODY, "{}", second.weight());
        // With another host's it is.
        assert!(entry(record(), &texts).weight() < BODY / 2);
    }
}
