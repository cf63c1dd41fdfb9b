//! One fetch of a robots.txt, for all callers that wait for it.
//!
//! A task that belongs to no caller loads the record from the store, or runs the redirect chain and makes the
//! next record from its outcome. Of several processes the one that has the lease of the host fetches; the
//! others look at the store when they have it. It decides nothing itself: `entry.rs`, `outcome.rs` and
//! `record.rs` do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::denied::DenialCause;
use crate::event::Event;
use crate::pacing::DeferReason;
use crate::robots_cache::chain::{Chain, DeferredFetch, NotSent};
use crate::robots_cache::entry::{Reuse, RobotsEntry, Source};
use crate::robots_cache::fetch::PermitWait;
use crate::robots_cache::outcome::FetchOutcome;
use crate::robots_cache::record::{AttemptEnd, LastResult};
use crate::robots_cache::single_flight::Leader;
use crate::robots_cache::{GoodCopy, RobotsCache, RobotsRecord, log};
use crate::{Origin, WallMillis};

/// What callers that wait for a fetch get.
#[derive(Debug, Clone, Default)]
pub(super) struct FetchProgress {
    pub(super) result: Option<Result<Arc<RobotsEntry>, DenialCause>>,
    /// An entry that may be used while the fetch goes on.
    pub(super) early: Option<Arc<RobotsEntry>>,
    pub(super) permit_wait: PermitWait,
}

/// When a caller may come back for whose fetch there is no room. As long as the default deadline: the fetches
/// on the wire now have ended then.
const FULL_WAIT: Duration = Duration::from_secs(30);

impl RobotsCache {
    /// The progress of the fetch for `origin`, which begins if there is none. `is_background`: no caller
    /// waits for it.
    pub(super) fn join(
        self: &Arc<Self>,
        origin: &Origin,
        now: WallMillis,
        is_background: bool,
    ) -> Result<watch::Receiver<FetchProgress>, DenialCause> {
        if let Some((DeferredFetch { why, sent, .. }, until)) = self.deferrals.get(origin) {
            let is_over = why.retry_at.is_none_or(|at| now >= at) || self.clock.now() >= until;
            // For a caller that waits, the pacer decides again, if that costs the origin no request.
            if !is_over && (sent || is_background) {
                return Err(*why);
            }
        }
        let (progress, leader) = self.in_flight.join(origin).ok_or_else(|| full(now))?;
        if let Some(leader) = leader {
            tokio::spawn(log::in_span(origin, Arc::clone(self).run(leader, origin.clone())));
        }
        Ok(progress)
    }

    async fn run(self: Arc<Self>, leader: Leader<Origin, FetchProgress>, origin: Origin) {
        self.count(1, |stats| &mut stats.robots_fetches);
        let lost = Lost(&self);
        let result = self.load_or_fetch(&leader.sender, &origin).await;
        std::mem::forget(lost);
        leader.finish(|progress| progress.result = Some(result));
    }

    /// From the store, or from the network.
    async fn load_or_fetch(
        self: &Arc<Self>,
        progress: &watch::Sender<FetchProgress>,
        origin: &Origin,
    ) -> Result<Arc<RobotsEntry>, DenialCause> {
        let permit_wait = progress.borrow().permit_wait.clone();
        let deferred = self.deferrals.remove(origin).map(|(deferred, _)| deferred);
        // Loaded by the task, so that a slow store is asked once for all callers.
        let previous = self.newest_record(origin).await;
        if let Some(record) = &previous {
            match record.reuse(self.clock.wall()) {
                Reuse::Use => return Ok(self.publish(record.clone())),
                Reuse::UseAndRefresh => {
                    let early = Some(self.publish(record.clone()));
                    permit_wait.lock().is_background = true;
                    progress.send_modify(|progress| progress.early = early);
                }
                Reuse::Fetch => {}
            }
        }
        let began = self.clock.now();
        let chain = Chain::new(self, origin, previous.as_ref(), &permit_wait, deferred);
        let ended = match chain.run().await {
            Err(NotSent::Stored(record)) => return Ok(self.publish(*record)),
            Err(NotSent::Deferred(deferred)) => Err(deferred),
            Ok(outcome) => Ok(outcome),
        };
        let took = self.clock.now().saturating_duration_since(began);
        self.observers.notify(&Event::RobotsAttempted { origin, took });
        match ended {
            Ok(outcome) => Ok(self.conclude(origin, previous.as_ref(), outcome, &permit_wait).await),
            Err(deferred) => {
                self.count(1, |stats| &mut stats.robots_deferred);
                log::deferred(origin);
                // This is no attempt, so the record stays as it is.
                let wait = deferred.why.retry_at.map_or(Duration::ZERO, |at| at.since(self.clock.wall()));
                let now = self.clock.now();
                let until = now.checked_add(wait).unwrap_or(now);
                self.deferrals.insert(origin.clone(), (deferred.clone(), until));
                // Callers that were not woken yet get the entry that could be used before.
                progress.borrow().early.clone().ok_or(*deferred.why)
            }
        }
    }

    /// Brings the outcome of an attempt to the store, the table and the observers.
    async fn conclude(
        &self,
        origin: &Origin,
        previous: Option<&RobotsRecord>,
        outcome: FetchOutcome,
        permit_wait: &PermitWait,
    ) -> Arc<RobotsEntry> {
        let at = AttemptEnd {
            now: self.clock.wall(),
            jitter: self.jitter.draw(),
            spread: self.jitter.spread(),
            gap: permit_wait.lock().gap,
        };
        let revalidated = matches!(outcome, FetchOutcome::NotModified { .. });
        let record = RobotsRecord::after(previous, origin, outcome, at, &self.policy);
        // Kept until the record is published, so that its text is compiled once.
        let compiled = self.compiled(record.clone());
        let record = record.outlasting(compiled.crawl_delay(), at);
        // Saved first: the lease of the host may go to another process at any time, which looks for the
        // record then.
        self.save_record(&record).await;
        let entry = self.publish(record);
        self.count(1, |stats| match entry.record().last() {
            LastResult::Rules if revalidated => &mut stats.robots_revalidated,
            LastResult::Rules => &mut stats.robots_read,
            LastResult::Unavailable(_) | LastResult::TooManyRedirects => &mut stats.robots_unavailable,
            LastResult::Unreachable(_) => &mut stats.robots_unreachable,
        });
        log::asked(&entry);
        self.observers.notify(&Event::RobotsAnswered { entry: &entry });
        if entry.source() == Source::LastGood {
            self.count(1, |stats| &mut stats.robots_last_good);
        }
        let old = previous.and_then(RobotsRecord::copy);
        // By text: a 304 or the same file again changes no rule.
        if old.map(GoodCopy::body) != entry.record().copy().map(GoodCopy::body) {
            self.observers.notify(&Event::RobotsChanged { old, entry: &entry });
        }
        entry
    }
}

/// There is no room for a fetch, or no time to wait for it.
pub(crate) fn full(now: WallMillis) -> DenialCause {
    DenialCause::deferred(DeferReason::Robots, now.plus(FULL_WAIT), None)
}

/// Counts a fetch that has no end, because its task panicked or its runtime shut down.
struct Lost<'a>(&'a RobotsCache);

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        self.0.count(1, |stats| &mut stats.robots_lost);
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::ManualClock;
    use crate::parts::support::robots_cache::tokens;
    use crate::parts::support::scripted::{Scripted, ScriptedFetch};
    use crate::robots_cache::RobotsPolicy;
    use crate::robots_cache::single_flight::SingleFlight;

    #[tokio::test(start_paused = true)]
    async fn a_caller_without_room_comes_back_and_finds_it_then() {
        let start = WallMillis::from_millis(1_800_000_000_000);
        let fetch = ScriptedFetch::always(Scripted::status(404).head_after(Duration::from_secs(1)));
        let cache = Arc::new(RobotsCache {
            clock: Arc::new(ManualClock::starting_at(start)),
            in_flight: SingleFlight::new(1),
            ..RobotsCache::new(tokens(), Arc::new(fetch), RobotsPolicy::default())
        });
        let [a, b] = ["https://a.example", "https://b.example"].map(|origin| origin.parse().unwrap());
        let (first, second) = tokio::join!(cache.get(&a), cache.get(&b));
        assert!(first.is_ok());
        assert_eq!(second.unwrap_err().retry_at, Some(start.plus(FULL_WAIT)));
        assert!(cache.get(&b).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_million_hosts_fit_by_default() {
        const HOSTS: u64 = 400;
        let fetch = ScriptedFetch::new(|request, _| {
            let host = request.url().host_str().unwrap_or_default();
            let site: u64 =
                host.bytes().filter(u8::is_ascii_digit).fold(0, |n, b| n * 10 + u64::from(b - b'0'));
            let rules: String =
                (0..12).map(|rule| format!("Disallow: /private/{}/{rule}\n", site / 4)).collect();
            Scripted::text(format!("User-agent: *\n{rules}"))
                .header("etag", b"\"65f2c1a3-12c\"")
                .header("last-modified", b"Thu, 14 Mar 2024 09:12:51 GMT")
        });
        let cache = Arc::new(RobotsCache::new(tokens(), Arc::new(fetch), RobotsPolicy::default()));
        cache.prefetch((0..HOSTS).map(|n| format!("https://www.site{n}.example").parse().unwrap())).await;
        assert_eq!(cache.entries.entry_count(), HOSTS);
        let each = cache.entries.weighted_size() / HOSTS;
        assert!(each * 1_000_000 <= cache.policy.memory_max, "{each}");
    }
}
