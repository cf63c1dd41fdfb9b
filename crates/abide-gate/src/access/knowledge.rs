use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::ProductToken;
use moka::sync::Cache;
use tokio::sync::{Semaphore, watch};
use url::Url;

use crate::access::chain::{Chain, Ended};
use crate::access::counters::Counters;
use crate::access::dice::Dice;
use crate::access::entry::{RobotsEntry, Source};
use crate::access::fetch::{Fetch, TurnTime};
use crate::access::flight::{Boarding, Flight, Flights};
use crate::access::front::Front;
use crate::access::keeper::Keeper;
use crate::access::outcome::Outcome;
use crate::access::reading::{NEXT_TRY_MAX, Next, Times};
use crate::access::record::{GoodCopy, LastAnswer, Moment};
use crate::access::{AccessPolicy, Record, log};
use crate::event::{Event, Observers};
use crate::origin::OriginOf;
use crate::pacing::{DeferReason, Refusal};
use crate::{Clock, Origin, WallMillis};

/// What one process knows of robots.txt files, and how it learns more.
pub(super) struct Knowledge {
    pub(super) tokens: Vec<ProductToken>,
    pub(super) fetch: Arc<dyn Fetch>,
    pub(super) policy: AccessPolicy,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observers: Observers,
    pub(super) keeper: Keeper,
    /// Compiled, for our own tokens; the store has what the server sent.
    pub(super) answers: Cache<Origin, Arc<RobotsEntry>>,
    /// Those of them that are in use.
    pub(super) front: Front,
    pub(super) put_off: Cache<Origin, PutOff>,
    pub(super) flights: Flights<Origin, News>,
    pub(super) turns: Semaphore,
    pub(super) dice: Dice,
    pub(super) counters: Arc<Counters>,
}

/// What the passengers of a flight are told.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// Something that may be used while the flight goes on.
    Early(Arc<RobotsEntry>),
    /// The end, and what was waited for turns.
    Landed(Result<Arc<RobotsEntry>, Refusal>, TurnTime),
}

/// An origin whose request was deferred by the pacing.
#[derive(Debug, Clone)]
pub(super) struct PutOff {
    why: Refusal,
    /// It had been asked, and redirected to a host that is held: asking it again now would burden it for nothing.
    sent: bool,
}

/// Whether somebody waits for a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Now,
    Sometime,
}

/// How long those wait for whom there is no room.
const FULL_WAIT: Duration = Duration::from_secs(30);

impl Knowledge {
    /// The answer for a URL, if it is at hand and nothing is to be done but to use it. Allocates nothing.
    pub(super) fn at_hand(&self, url: &Url, now: WallMillis) -> Option<Arc<RobotsEntry>> {
        let origin = OriginOf::of(url)?;
        let answer = self.front.find(origin).or_else(|| {
            let key = Origin::of(url).ok()?;
            self.front.fill(origin, || self.answers.get(&key))
        })?;
        (answer.next(now) == Some(Next::Use)).then_some(answer)
    }

    /// The answer at hand, and what to do with it. Compiled anew if its time has changed what it says.
    pub(super) fn recall(&self, origin: &Origin, now: WallMillis) -> Option<(Arc<RobotsEntry>, Next)> {
        let answer = self.answers.get(origin)?;
        match answer.next(now) {
            Some(next) => Some((answer, next)),
            None => {
                let answer = self.publish(answer.record().clone());
                answer.next(now).map(|next| (answer, next))
            }
        }
    }

    pub(super) fn is_usable(&self, answer: &RobotsEntry) -> bool {
        matches!(answer.next(self.clock.wall()), Some(Next::Use | Next::UseAndRefresh))
    }

    /// Compiles a record and has it at hand from now on.
    pub(super) fn publish(&self, record: Record) -> Arc<RobotsEntry> {
        let older = self.answers.get(record.origin());
        let now = self.clock.wall();
        let answer = Arc::new(RobotsEntry::new(record, now, &self.policy, &self.tokens, older.as_deref()));
        self.answers.insert(answer.origin().clone(), Arc::clone(&answer));
        // From the cache: another one may have been published meanwhile.
        self.front.fill(answer.origin().as_slice(), || self.answers.get(answer.origin()));
        answer
    }

    /// News of the flight for `origin`, which takes off if there is none.
    pub(super) fn board(
        self: &Arc<Self>,
        origin: &Origin,
        now: WallMillis,
        wanted: Wanted,
    ) -> Result<watch::Receiver<Option<News>>, Refusal> {
        if let Some(PutOff { why, sent }) = self.put_off.get(origin) {
            let is_over = why.not_before().is_none_or(|at| now >= at || at > now.plus(NEXT_TRY_MAX));
            // For somebody who waits the pacing decides anew, as long as that costs the origin nothing.
            if !is_over && (sent || wanted == Wanted::Sometime) {
                return Err(why);
            }
            if is_over {
                self.put_off.invalidate(origin);
            }
        }
        match self.flights.board(origin) {
            Boarding::Passenger(news) => Ok(news),
            Boarding::Pilot(flight, news) => {
                tokio::spawn(log::in_span(origin, Arc::clone(self).fly(flight, origin.clone())));
                Ok(news)
            }
            Boarding::Full => {
                let (scope, not_before) = (origin.host().as_str().into(), now.plus(FULL_WAIT));
                Err(Refusal::Deferred { scope, not_before, wait: FULL_WAIT, reason: DeferReason::Robots })
            }
        }
    }

    /// One flight, in a task that belongs to no caller.
    async fn fly(self: Arc<Self>, flight: Flight<Origin, News>, origin: Origin) {
        self.counters.flights.add(1);
        let mut lost = Lost { counters: &self.counters, landed: false };
        let turns = TurnTime::default();
        let result = self.bring(&flight, &origin, &turns).await;
        lost.landed = true;
        flight.land(News::Landed(result, turns));
    }

    /// From the store, from another process, or from the network.
    async fn bring(
        &self,
        flight: &Flight<Origin, News>,
        origin: &Origin,
        turns: &TurnTime,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let previous = self.remembered(origin).await;
        let mut early = None;
        if let Some(record) = &previous {
            match Times::of(record).next(self.clock.wall()) {
                Next::Use => return Ok(self.publish(record.clone())),
                Next::UseAndRefresh => early = Some(self.publish(record.clone())),
                Next::Fetch => {}
            }
        }
        if let Some(answer) = &early {
            flight.announce(News::Early(Arc::clone(answer)));
        }
        if let Some(record) = self.keeper.another_process_brings(origin, previous.as_ref()).await {
            return Ok(self.publish(record));
        }
        let began = self.clock.now();
        let ended = self.ask(origin, previous.as_ref(), turns).await;
        let took = self.clock.now().saturating_duration_since(began);
        self.observers.tell(&Event::RobotsAttempted { origin, took });
        match ended {
            Ended::Outcome(outcome) => Ok(self.learn(origin, previous.as_ref(), outcome).await),
            Ended::Deferred { why, sent } => {
                self.defer(origin, &why, sent).await;
                // Who has not been woken yet gets what could be used before.
                early.ok_or(why)
            }
        }
    }

    /// The newest record of the origin: the store's, or ours if the store has failed.
    pub(super) async fn remembered(&self, origin: &Origin) -> Option<Record> {
        let own = self.answers.get(origin).map(|answer| answer.record().clone());
        let stored = self.keeper.load(origin).await;
        match (stored, own) {
            // Of two that were asked for at the same time, one was invalidated.
            (Some(stored), Some(own)) => {
                let order =
                    stored.asked_at().cmp(&own.asked_at()).then(own.fresh_until().cmp(&stored.fresh_until()));
                Some(if order.is_lt() { own } else { stored })
            }
            (stored, own) => stored.or(own),
        }
    }

    async fn ask(&self, origin: &Origin, previous: Option<&Record>, turns: &TurnTime) -> Ended {
        let _turn = self.turns.acquire().await;
        let copy = previous.and_then(Record::copy);
        let chain = Chain::new(origin, copy, &*self.fetch, &*self.clock, &self.policy, &self.counters);
        let throttle = previous.and_then(|record| record.next_throttle(self.dice.roll(), &self.policy));
        chain.with_turns(turns).with_throttle(throttle).go().await
    }

    /// Makes the outcome of an attempt known: to the store, to those who wait, to the observer.
    async fn learn(&self, origin: &Origin, previous: Option<&Record>, outcome: Outcome) -> Arc<RobotsEntry> {
        let at = Moment { now: self.clock.wall(), jitter: self.dice.roll(), spread: self.dice.spread() };
        let revalidated = matches!(outcome, Outcome::NotModified { .. });
        let record = Record::after(previous, origin, outcome, at, &self.policy);
        self.keeper.save(&record).await;
        let answer = self.publish(record);
        self.count(&answer, revalidated);
        log::asked(&answer);
        self.report(previous, &answer);
        answer
    }

    fn count(&self, answer: &RobotsEntry, revalidated: bool) {
        match answer.record().last {
            LastAnswer::Rules if revalidated => self.counters.revalidated.add(1),
            LastAnswer::Rules => self.counters.rules.add(1),
            LastAnswer::Unavailable(_) => self.counters.unavailable.add(1),
            LastAnswer::Unreachable(_) => self.counters.unreachable.add(1),
        }
        if answer.source() == Source::LastGood {
            self.counters.last_good.add(1);
        }
    }

    fn report(&self, previous: Option<&Record>, answer: &Arc<RobotsEntry>) {
        self.observers.tell(&Event::RobotsAnswered { entry: answer });
        if answer.source() == Source::LastGood {
            self.observers.tell(&Event::RobotsLastGood { entry: answer });
        }
        let old = previous.and_then(Record::copy);
        if old.map(GoodCopy::body) != answer.record().copy().map(GoodCopy::body) {
            self.observers.tell(&Event::RobotsChanged { old, entry: answer });
        }
    }

    async fn defer(&self, origin: &Origin, why: &Refusal, sent: bool) {
        self.counters.deferred.add(1);
        log::deferred(origin);
        self.put_off.insert(origin.clone(), PutOff { why: why.clone(), sent });
        self.keeper.release(origin).await;
    }
}

impl fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Knowledge")
            .field("policy", &self.policy)
            .field("in_flight", &self.flights.len())
            .finish_non_exhaustive()
    }
}

/// Counts a flight that does not land.
struct Lost<'a> {
    counters: &'a Counters,
    landed: bool,
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.counters.lost.add(1);
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::ManualClock;
    use crate::access::AccessCache;
    use crate::testing::access::{Scripted, ScriptedFetch};

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_is_to_come_back_and_finds_it_then() {
        let start = WallMillis::from_millis(1_800_000_000_000);
        let fetch = ScriptedFetch::always(Scripted::status(404).head_after(Duration::from_secs(1)));
        let mut cache = AccessCache::builder(vec!["ExampleBot".parse().unwrap()], Arc::new(fetch))
            .clock(Arc::new(ManualClock::starting_at(start)))
            .build();
        Arc::get_mut(&mut cache.known).unwrap().flights = Flights::new(1);
        let [a, b] = ["https://a.example", "https://b.example"].map(|origin| origin.parse().unwrap());
        let (first, second) = tokio::join!(cache.of(&a), cache.of(&b));
        assert!(first.is_ok());
        match second {
            Err(Refusal::Deferred { not_before, .. }) => assert_eq!(not_before, start.plus(FULL_WAIT)),
            other => panic!("expected a deferral, found {other:?}"),
        }
        assert!(cache.of(&b).await.is_ok());
    }
}
