use std::sync::Arc;
use std::time::Duration;

use abide_robots::ProductToken;
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

use crate::access::Record;
use crate::access::builder::AccessCacheBuilder;
use crate::access::entry::RobotsEntry;
use crate::access::fetch::Fetch;
use crate::access::knowledge::{Knowledge, News, Wanted};
use crate::access::reading::Next;
use crate::pacing::Refusal;
use crate::{Origin, Stats};

/// The access results of RFC 9309 §2.3–2.4: for each origin its robots.txt, fetched once for all who wait, kept for as long
/// as it counts, and kept on through outages. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AccessCache {
    pub(super) known: Arc<Knowledge>,
}

impl AccessCache {
    /// A cache for a crawler that is called by `tokens`, the first that has a group counts.
    pub(crate) fn builder(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> AccessCacheBuilder {
        AccessCacheBuilder::new(tokens, fetch)
    }

    /// What is known of the origin's robots.txt: at hand, or fetched, once for all who ask meanwhile.
    ///
    /// The fetch belongs to no caller: dropping this future harms nobody, and what was fetched is kept. Within a tokio
    /// runtime only.
    ///
    /// # Errors
    /// [`Refusal`] if robots.txt could not be asked for just now. Nothing may be fetched from the origin then, either.
    pub async fn of(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Refusal> {
        self.learn(origin, &mut Duration::default()).await
    }

    /// The same; `waited` grows by the time for which the request had to wait for its turns, its time on the wire not included.
    pub(crate) async fn learn(
        &self,
        origin: &Origin,
        waited: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let now = self.known.clock.wall();
        match self.known.recall(origin, now) {
            Some((answer, Next::Use)) => Ok(answer),
            Some((answer, Next::UseAndRefresh)) => {
                // Nobody waits for it, so whether it could begin is of no interest.
                let _ = self.known.board(origin, now, Wanted::Sometime);
                Ok(answer)
            }
            Some((_, Next::Fetch)) | None => {
                let news = self.known.board(origin, now, Wanted::Now)?;
                // Boxed here and below where a wait is rare: who need not wait does not carry the room for it.
                Box::pin(self.landing(news, waited)).await
            }
        }
    }

    /// The answer for a URL if it is fresh and at hand: what most requests meet. Allocates nothing.
    pub(crate) fn at_hand(&self, url: &Url) -> Option<Arc<RobotsEntry>> {
        self.known.at_hand(url, self.known.clock.wall())
    }

    /// What is at hand and may be used, without asking anybody, the store included.
    pub fn cached(&self, origin: &Origin) -> Option<Arc<RobotsEntry>> {
        let now = self.known.clock.wall();
        let (answer, next) = self.known.recall(origin, now)?;
        (next != Next::Fetch).then_some(answer)
    }

    /// Fetches what is not at hand for all these origins, as many at a time as the policy allows, and waits for them.
    pub async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {
        let mut waiting = JoinSet::new();
        for origin in origins {
            if waiting.len() >= self.known.policy.fetches_max {
                waiting.join_next().await;
            }
            let access = self.clone();
            waiting.spawn(async move { access.of(&origin).await.is_ok() });
        }
        while waiting.join_next().await.is_some() {}
    }

    /// Forgets that the origin's answer is fresh, so that its next use asks again. The last good copy is kept, and goes on
    /// being used at once while the origin is known to fail.
    ///
    /// Other processes with the same store see it when the time of their own answers is over.
    pub async fn invalidate(&self, origin: &Origin) {
        self.known.put_off.invalidate(origin);
        let Some(mut record) = self.known.remembered(origin).await.map(Record::expired) else {
            // What the cache and the store have forgotten may be alive in somebody's verdict.
            self.known.front.fill(origin.as_slice(), || self.known.answers.get(origin));
            return;
        };
        self.known.keeper.save(&record).await;
        // Meanwhile a flight may have landed, and what it brought must be neither lost nor hidden by what was known before.
        let at_hand = self.known.answers.get(origin);
        if let Some(newer) = at_hand.filter(|answer| answer.asked_at() > record.asked_at()) {
            record = newer.record().clone().expired();
            self.known.keeper.save(&record).await;
        }
        self.known.publish(record);
    }

    /// What has happened since the start, and how many fetches are in flight.
    pub fn stats(&self) -> Stats {
        Stats { robots_in_flight: self.known.flights.len(), ..self.known.counters.stats() }
    }

    async fn landing(
        &self,
        mut news: watch::Receiver<Option<News>>,
        waited: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let came = self.known.clock.now();
        loop {
            let last = news.borrow_and_update().clone();
            match last {
                Some(News::Landed(result, turns)) => {
                    *waited += turns.since(came);
                    return result;
                }
                Some(News::Early(answer)) if self.known.is_usable(&answer) => return Ok(answer),
                Some(News::Early(_)) | None => {}
            }
            if news.changed().await.is_err() {
                return Err(Refusal::Interrupted);
            }
        }
    }
}
