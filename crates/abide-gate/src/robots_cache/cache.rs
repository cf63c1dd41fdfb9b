//! The robots.txt cache as the gate uses it: an entry from memory if one may be used, else a fetch that all callers share.
//!
//! Let's start with the obvious: a crawler checks robots.txt before every request, so nearly every check must be answered from memory, and a
//! robots.txt must be fetched once for all who wait. This file awaits; what it awaits is in `inner.rs`, and what decides is pure.

use std::sync::Arc;
use std::time::Duration;

use abide_robots::ProductToken;
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

use crate::pacing::Refusal;
use crate::robots_cache::RobotsRecord;
use crate::robots_cache::builder::RobotsCacheBuilder;
use crate::robots_cache::entry::RobotsEntry;
use crate::robots_cache::fetch::Fetch;
use crate::robots_cache::inner::{Inner, Progress, Urgency};
use crate::robots_cache::reuse::Reuse;
use crate::{Origin, Stats};

/// The access results of RFC 9309 §2.3–2.4: for each origin its robots.txt, fetched once for all who wait, kept for as long
/// as it counts, and kept on through outages. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RobotsCache {
    pub(super) inner: Arc<Inner>,
}

impl RobotsCache {
    /// A cache for a crawler that is called by `tokens`, the first that has a group counts.
    pub(crate) fn builder(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> RobotsCacheBuilder {
        RobotsCacheBuilder::new(tokens, fetch)
    }

    /// The entry of the origin: from memory, or fetched, once for all who ask meanwhile.
    ///
    /// The fetch belongs to no caller: dropping this future harms nobody, and what was fetched is kept. Within a tokio
    /// runtime only.
    ///
    /// # Errors
    /// [`Refusal`] if robots.txt could not be asked for just now. Nothing may be fetched from the origin then, either.
    pub(crate) async fn get(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Refusal> {
        self.get_timed(origin, &mut Duration::default()).await
    }

    /// The same; `waited` grows by the time for which the request had to wait for its turns, its time on the wire not included.
    pub(crate) async fn get_timed(
        &self,
        origin: &Origin,
        waited: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let now = self.inner.clock.wall();
        match self.inner.lookup(origin, now) {
            Some((answer, Reuse::Use)) => Ok(answer),
            Some((answer, Reuse::UseAndRefresh)) => {
                // Nobody waits for it, so whether it could begin is of no interest.
                let _ = self.inner.join(origin, now, Urgency::Background);
                Ok(answer)
            }
            Some((_, Reuse::Fetch)) | None => {
                let progress = self.inner.join(origin, now, Urgency::Now)?;
                // Boxed here and below where a wait is rare: who need not wait does not carry the room for it.
                Box::pin(self.wait(progress, waited)).await
            }
        }
    }

    /// The answer for a URL if it is fresh and at hand: what most requests meet. Allocates nothing.
    pub(crate) fn at_hand(&self, url: &Url) -> Option<Arc<RobotsEntry>> {
        self.inner.at_hand(url, self.inner.clock.wall())
    }

    /// What is at hand and may be used, without asking anybody, the store included.
    pub(crate) fn cached(&self, origin: &Origin) -> Option<Arc<RobotsEntry>> {
        let now = self.inner.clock.wall();
        let (answer, next) = self.inner.lookup(origin, now)?;
        (next != Reuse::Fetch).then_some(answer)
    }

    /// Fetches what is not at hand for all these origins, as many at a time as the policy allows, and waits for them.
    pub(crate) async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {
        let mut waiting = JoinSet::new();
        for origin in origins {
            if waiting.len() >= self.inner.policy.fetches_max {
                waiting.join_next().await;
            }
            let cache = self.clone();
            waiting.spawn(async move { cache.get(&origin).await.is_ok() });
        }
        while waiting.join_next().await.is_some() {}
    }

    /// Forgets that the origin's answer is fresh, so that its next use asks again. The last good copy is kept, and goes on
    /// being used at once while the origin is known to fail.
    ///
    /// Other processes with the same store see it when the time of their own answers is over.
    pub(crate) async fn invalidate(&self, origin: &Origin) {
        self.inner.deferrals.remove(origin.as_slice());
        let Some(mut record) = self.inner.newest_record(origin).await.map(RobotsRecord::expired) else {
            return;
        };
        self.inner.store.save(&record).await;
        // Meanwhile a fetch may have ended, and what it brought must be neither lost nor hidden by what was known before.
        let at_hand = self.inner.entries.get(origin.as_slice());
        if let Some(newer) = at_hand.filter(|answer| answer.asked_at() > record.asked_at()) {
            record = newer.record().clone().expired();
            self.inner.store.save(&record).await;
        }
        self.inner.publish(record);
    }

    /// What has happened since the start, and how many fetches are in flight.
    pub(crate) fn stats(&self) -> Stats {
        Stats { robots_in_flight: self.inner.in_flight.len(), ..self.inner.counters.stats() }
    }

    async fn wait(
        &self,
        mut progress: watch::Receiver<Option<Progress>>,
        waited: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let came = self.inner.clock.now();
        loop {
            let last = progress.borrow_and_update().clone();
            match last {
                Some(Progress::Done(result, permit_wait)) => {
                    *waited = waited.saturating_add(permit_wait.since(came));
                    return result;
                }
                Some(Progress::Early(answer)) if self.inner.is_usable(&answer) => return Ok(answer),
                Some(Progress::Early(_)) | None => {}
            }
            if progress.changed().await.is_err() {
                return Err(Refusal::Interrupted);
            }
        }
    }
}
