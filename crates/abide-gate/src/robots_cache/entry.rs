//! An entry of the cache: a record, and what it says now.
//!
//! Compiled once and shared by all requests to the origin, so that a check neither parses nor allocates.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use abide_robots::{ParseOptions, ProductToken, Remark, Robots, Rules, Target};
use url::Url;

use crate::robots_cache::bounded_table::Kept;
use crate::robots_cache::interner::{Interner, RobotsText};
use crate::robots_cache::policy::BODY_LIMIT_MAX;
use crate::robots_cache::record::LastResult;
use crate::robots_cache::reuse::{Reuse, Serving, Times, serving};
use crate::robots_cache::{GoodCopy, RobotsPolicy, RobotsRecord, Unavailable};
use crate::{Failure, Origin, Verdict, WallMillis};

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
    /// What applies, if a robots.txt does. Shared by all origins that send the same.
    text: Option<Arc<RobotsText>>,
    serving: Serving,
    was_fresh: bool,
    used: AtomicBool,
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
        let serving = serving(&record, now, policy);
        let copy = record.copy.as_mut().filter(|_| serving == Serving::Copy);
        let text = copy.map(|copy| {
            let text = texts.get(&copy.body, |body| Rules::parse_with(body, tokens, reading(policy)));
            copy.body = Arc::clone(&text.body);
            text
        });
        let was_fresh = Times::of(&record).is_fresh(now);
        Self { record, text, serving, was_fresh, used: AtomicBool::new(true) }
    }

    /// What to do with this answer at `now`; `None` if it must be compiled again, since it has grown stale.
    pub(super) fn next(&self, now: WallMillis) -> Option<Reuse> {
        let times = Times::of(&self.record);
        match times.next(now) {
            Reuse::Use | Reuse::UseAndRefresh if times.is_fresh(now) != self.was_fresh => None,
            next => Some(next),
        }
    }

    /// The rules that apply, if a robots.txt was read: fresh, revalidated, or the last good copy.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.text.as_deref().map(|text| &text.rules)
    }

    /// Why everything is disallowed for now: we could not learn what the robots.txt says, and have no copy.
    pub(crate) fn unreachable(&self) -> Option<Failure> {
        (self.serving == Serving::Unreachable).then_some(match self.record.last {
            LastResult::Unreachable(cause) => cause,
            LastResult::Unavailable(Unavailable::Status(status)) => Failure::Status(status),
            LastResult::Unavailable(Unavailable::TooManyRedirects) | LastResult::Rules => Failure::Other,
        })
    }

    /// Whether the target may be fetched. Allocates nothing.
    ///
    /// `/robots.txt` itself always may (RFC 9309 §2.2.2).
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {
        match self.rules() {
            Some(rules) => rules.is_allowed(target),
            None => self.serving != Serving::Unreachable || target.as_str() == "/robots.txt",
        }
    }

    /// The answer for one target, with all that led to it.
    pub fn explain(self: &Arc<Self>, target: &Target<'_>) -> Verdict {
        Verdict::robots(Arc::clone(self), target)
    }

    /// The `Crawl-delay` of the group that applies, as written.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.rules()?.crawl_delay()
    }

    /// Whose robots.txt it is.
    pub fn origin(&self) -> &Origin {
        self.record.origin()
    }

    /// Where it came from.
    pub fn source(&self) -> Source {
        match (self.serving, self.record.last) {
            (Serving::Copy, LastResult::Rules) => {
                let is_confirmed = self.copy().is_some_and(|copy| copy.validated_at() > copy.fetched_at());
                if is_confirmed { Source::Revalidated } else { Source::Fresh }
            }
            (Serving::Copy, _) => Source::LastGood,
            (Serving::LongOutage, _) => Source::LongOutage,
            (Serving::Unavailable, LastResult::Unavailable(Unavailable::Status(status))) => {
                Source::Unavailable(status)
            }
            (Serving::Unavailable, _) => Source::TooManyRedirects,
            (Serving::Unreachable, _) => Source::Unreachable(self.unreachable().unwrap_or(Failure::Other)),
        }
    }

    /// The robots.txt that decides, as received. `None` if none does.
    pub fn copy(&self) -> Option<&GoodCopy> {
        self.record.copy().filter(|_| self.serving == Serving::Copy)
    }

    /// Where the robots.txt came from after its redirects.
    pub fn final_url(&self) -> Option<Url> {
        self.copy().map(|copy| copy.final_url(self.origin()))
    }

    /// The status that decided: of the copy, or of the refusal if it had one.
    pub fn status(&self) -> Option<u16> {
        match self.source() {
            Source::Fresh | Source::Revalidated | Source::LastGood => self.copy().map(GoodCopy::status),
            Source::Unavailable(status) | Source::Unreachable(Failure::Status(status)) => Some(status),
            Source::TooManyRedirects | Source::Unreachable(_) | Source::LongOutage => None,
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

    /// With its place in the table, and without its text, whose weight is counted once for all that have it.
    fn weight(&self) -> u64 {
        // A copy that does not count now may be kept all the same.
        let copy = self.record.copy().filter(|_| self.text.is_none());
        let bytes = self.record.weight_without_body().saturating_add(copy.map_or(0, |copy| copy.body.len()));
        bytes.saturating_add(ENTRY_WEIGHT) as u64
    }
}

impl Kept for RobotsEntry {
    fn origin(&self) -> &Origin {
        self.record.origin()
    }

    fn enter(&self) -> u64 {
        self.weight().saturating_add(self.text.as_ref().map_or(0, |text| text.enter()))
    }

    fn leave(&self) -> u64 {
        self.weight().saturating_add(self.text.as_ref().map_or(0, |text| text.leave()))
    }

    fn used(&self) -> &AtomicBool {
        &self.used
    }
}

/// What an entry takes besides its record: the head of its block, its place in the table, and what an allocator adds.
const ENTRY_WEIGHT: usize = 120;

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
    const BODY: u64 = 100_000;

    fn record() -> RobotsRecord {
        let origin = "https://a.example".parse().unwrap();
        RobotsRecord::sample(&origin, NOW, vec![b'#'; BODY as usize].into())
    }

    /// With the head of its block 168, which allocators fill without waste.
    #[test]
    fn an_entry_takes_152_bytes() {
        assert_eq!(size_of::<RobotsEntry>(), 152);
    }

    fn entry(record: RobotsRecord, texts: &Interner) -> RobotsEntry {
        RobotsEntry::new(record, NOW, &RobotsPolicy::default(), &[], texts)
    }

    #[test]
    fn a_text_is_weighed_with_the_first_that_has_it_and_with_the_last() {
        let texts = Interner::new();
        let (first, second) = (entry(record(), &texts), entry(record(), &texts));
        let weight = first.enter();
        assert!(weight >= BODY, "{weight}");
        assert_eq!(second.enter(), first.weight());
        assert!(first.weight() < 1_000, "{}", first.weight());
        assert_eq!(first.leave(), first.weight());
        assert_eq!(second.leave(), weight);
        assert_eq!(first.enter(), weight, "it comes in again");
    }

    #[test]
    fn a_copy_that_is_kept_weighs_though_it_does_not_count() {
        let mut record = record();
        record.last = LastResult::Unavailable(Unavailable::TooManyRedirects);
        let entry = entry(record, &Interner::new());
        assert!(entry.copy().is_none() && entry.weight() >= BODY, "{}", entry.weight());
        assert_eq!(entry.enter(), entry.weight());
    }
}
