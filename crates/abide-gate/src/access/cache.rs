use std::error::Error;
use std::fmt;
use std::sync::Arc;

use abide_robots::ProductToken;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::access::answer::Answer;
use crate::access::chain::{Chain, Ended};
use crate::access::counters::{Counters, Totals};
use crate::access::dice::{Dice, any_seed};
use crate::access::fetch::Fetch;
use crate::access::flight::{Boarding, Flight, Flights};
use crate::access::keeper::Keeper;
use crate::access::memory::MemoryAccessStore;
use crate::access::observer::{AccessEvent, AccessObserver, Observers, tell};
use crate::access::outcome::Outcome;
use crate::access::reading::{NEXT_TRY_MAX, Next, Times};
use crate::access::record::{LastAnswer, Moment};
use crate::access::store::{AccessStore, LeaseHolder};
use crate::access::{AccessPolicy, Record, log};
use crate::{Clock, Origin, SystemClock, WallMillis};

/// The access results of RFC 9309 §2.3–2.4: for each origin its robots.txt, fetched once for all who wait, kept for as long
/// as it counts, and kept on through outages. Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// # use abide_gate::access::{AccessCache, BoxFuture, Fetch, FetchError, RobotsReply, RobotsRequest};
/// # use abide_gate::{Clock, Origin, SystemClock};
/// # use abide_robots::{ProductToken, Target};
/// # #[derive(Debug)]
/// # struct Example;
/// # impl Fetch for Example {
/// #     fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsReply, FetchError>> {
/// #         let body = "User-agent: *\nDisallow: /private/\n";
/// #         let reply = RobotsReply::whole(http::StatusCode::OK, Default::default(), body, SystemClock.now());
/// #         Box::pin(async { Ok(reply) })
/// #     }
/// # }
/// # let fetch = Arc::new(Example);
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let access = AccessCache::builder(vec![ProductToken::new("ExampleBot")?], fetch).build();
///
/// let origin = Origin::of(&"https://example.com/page".parse()?)?;
/// let answer = access.of(&origin).await?;
/// assert!(answer.is_allowed(&Target::new("/page")));
/// assert!(!answer.is_allowed(&Target::new("/private/diary")));
///
/// let why = answer.explain(&Target::new("/private/diary")).to_string();
/// assert!(why.starts_with("disallowed by \"Disallow: /private/\" on line 2 (group *) of https://example.com/robots.txt"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct AccessCache {
    inner: Arc<Inner>,
}

/// Puts an [`AccessCache`] together. Everything but tokens and [`Fetch`] has a default.
#[must_use]
pub struct AccessCacheBuilder {
    tokens: Vec<ProductToken>,
    fetch: Arc<dyn Fetch>,
    policy: AccessPolicy,
    store: Arc<dyn AccessStore>,
    clock: Arc<dyn Clock>,
    observers: Vec<Arc<dyn AccessObserver>>,
    seed: u64,
}

/// Why there is no answer. An unreachable robots.txt is one; this is not.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Refused {
    /// The request for robots.txt was put off by the pacing; nobody was asked.
    Deferred {
        /// Not before this time.
        not_before: WallMillis,
        /// The pacing's own refusal.
        why: Arc<dyn Error + Send + Sync>,
    },
    /// The fetch was lost: it panicked, or its runtime went down. Asking again starts another one.
    Interrupted,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deferred { why, .. } => write!(f, "the request for robots.txt was deferred: {why}"),
            Self::Interrupted => f.write_str("the request for robots.txt was interrupted"),
        }
    }
}

impl Error for Refused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Deferred { why, .. } => Some(&**why),
            Self::Interrupted => None,
        }
    }
}

/// What the passengers of a flight are told.
#[derive(Debug, Clone)]
enum News {
    /// Something that may be used while the flight goes on.
    Early(Arc<Answer>),
    /// The end.
    Landed(Result<Arc<Answer>, Refused>),
}

/// An origin whose redirects led to a host that is held: asking it again now would burden it for nothing.
#[derive(Debug, Clone)]
struct PutOff {
    not_before: WallMillis,
    why: Arc<dyn Error + Send + Sync>,
}

/// More origins than this are not fetched or waited for at a time: those beyond are deferred.
const FLIGHTS_MAX: usize = 100_000;
/// How many origins are remembered as put off.
const PUT_OFF_MAX: u64 = 10_000;
/// How long those wait for whom there is no room.
const FULL_WAIT: std::time::Duration = std::time::Duration::from_secs(30);

struct Inner {
    tokens: Vec<ProductToken>,
    fetch: Arc<dyn Fetch>,
    policy: AccessPolicy,
    clock: Arc<dyn Clock>,
    observers: Observers,
    keeper: Keeper,
    /// Compiled, for our own tokens; the store has what the server sent.
    answers: Cache<Origin, Arc<Answer>>,
    put_off: Cache<Origin, PutOff>,
    flights: Flights<Origin, News>,
    turns: Semaphore,
    dice: Dice,
    counters: Arc<Counters>,
}

impl AccessCacheBuilder {
    /// The choices that the RFC leaves. Default: [`AccessPolicy::default`].
    pub fn policy(mut self, policy: AccessPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Where records are kept. Default: a [`MemoryAccessStore`].
    pub fn store(mut self, store: Arc<dyn AccessStore>) -> Self {
        self.store = store;
        self
    }

    /// Who tells the time. Default: [`SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// One more who hears of events.
    pub fn observer(mut self, observer: Arc<dyn AccessObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// The seed of all chance, for tests that must be repeatable.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The finished cache.
    pub fn build(self) -> AccessCache {
        let counters = Arc::new(Counters::default());
        let weigh = |_: &Origin, answer: &Arc<Answer>| u32::try_from(answer.weight()).unwrap_or(u32::MAX);
        let observers: Observers = self.observers.into();
        let keeper = Keeper::new(
            self.store,
            self.policy.clone(),
            LeaseHolder(any_seed()),
            Arc::clone(&self.clock),
            Arc::clone(&observers),
            Arc::clone(&counters),
        );
        let inner = Inner {
            tokens: self.tokens,
            fetch: self.fetch,
            clock: self.clock,
            observers,
            keeper,
            answers: Cache::builder()
                .max_capacity(self.policy.answers_weight)
                .weigher(weigh)
                // Least recently used, so that a new answer is always taken in.
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            put_off: Cache::new(PUT_OFF_MAX),
            flights: Flights::new(FLIGHTS_MAX),
            turns: Semaphore::new(self.policy.fetches_max),
            dice: Dice::new(self.seed),
            counters,
            policy: self.policy,
        };
        AccessCache { inner: Arc::new(inner) }
    }
}

impl fmt::Debug for AccessCacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessCacheBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl AccessCache {
    /// A cache for a crawler that is called by `tokens`, the first that has a group counts.
    pub fn builder(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> AccessCacheBuilder {
        AccessCacheBuilder {
            tokens,
            fetch,
            policy: AccessPolicy::default(),
            store: Arc::new(MemoryAccessStore::new()),
            clock: Arc::new(SystemClock),
            observers: Vec::new(),
            seed: any_seed(),
        }
    }

    /// What is known of the origin's robots.txt: at hand, or fetched, once for all who ask meanwhile.
    ///
    /// The fetch belongs to no caller: dropping this future harms nobody, and what was fetched is kept. Within a tokio
    /// runtime only.
    ///
    /// # Errors
    /// [`Refused`] if nobody could be asked just now. Nothing may be fetched from the origin then, either.
    pub async fn of(&self, origin: &Origin) -> Result<Arc<Answer>, Refused> {
        let now = self.inner.clock.wall();
        match self.inner.recall(origin, now) {
            Some((answer, Next::Use)) => Ok(answer),
            Some((answer, Next::UseAndRefresh)) => {
                // Nobody waits for it, so whether it could begin is of no interest.
                let _ = Inner::board(&self.inner, origin, now);
                Ok(answer)
            }
            Some((_, Next::Fetch)) | None => {
                let news = Inner::board(&self.inner, origin, now)?;
                self.landing(news).await
            }
        }
    }

    /// What is at hand and may be used, without asking anybody, the store included.
    pub fn cached(&self, origin: &Origin) -> Option<Arc<Answer>> {
        let now = self.inner.clock.wall();
        let (answer, next) = self.inner.recall(origin, now)?;
        (next != Next::Fetch).then_some(answer)
    }

    /// Fetches what is not at hand for all these origins, as many at a time as the policy allows, and waits for them.
    pub async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {
        let mut waiting = JoinSet::new();
        for origin in origins {
            if waiting.len() >= self.inner.policy.fetches_max {
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
        self.inner.put_off.invalidate(origin);
        let Some(record) = self.inner.remembered(origin).await else { return };
        let record = record.expired();
        self.inner.keeper.save(&record).await;
        self.inner.publish(record);
    }

    /// What has happened since the start.
    pub fn totals(&self) -> Totals {
        self.inner.counters.totals()
    }

    /// How many fetches are in the air.
    pub fn in_flight(&self) -> usize {
        self.inner.flights.len()
    }

    /// The policy that it follows.
    pub fn policy(&self) -> &AccessPolicy {
        &self.inner.policy
    }

    async fn landing(&self, mut news: watch::Receiver<Option<News>>) -> Result<Arc<Answer>, Refused> {
        loop {
            let last = news.borrow_and_update().clone();
            match last {
                Some(News::Landed(result)) => return result,
                Some(News::Early(answer)) if self.inner.is_usable(&answer) => return Ok(answer),
                Some(News::Early(_)) | None => {}
            }
            if news.changed().await.is_err() {
                return Err(Refused::Interrupted);
            }
        }
    }
}

impl Inner {
    /// The answer at hand, and what to do with it. Compiled anew if its time has changed what it says.
    fn recall(&self, origin: &Origin, now: WallMillis) -> Option<(Arc<Answer>, Next)> {
        let answer = self.answers.get(origin)?;
        match answer.next(now) {
            Some(next) => Some((answer, next)),
            None => {
                let answer = self.publish(answer.record().clone());
                answer.next(now).map(|next| (answer, next))
            }
        }
    }

    fn is_usable(&self, answer: &Answer) -> bool {
        matches!(answer.next(self.clock.wall()), Some(Next::Use | Next::UseAndRefresh))
    }

    /// Compiles a record and has it at hand from now on.
    fn publish(&self, record: Record) -> Arc<Answer> {
        let older = self.answers.get(record.origin());
        let now = self.clock.wall();
        let answer = Arc::new(Answer::new(record, now, &self.policy, &self.tokens, older.as_deref()));
        self.answers.insert(answer.origin().clone(), Arc::clone(&answer));
        answer
    }

    /// News of the flight for `origin`, which takes off if there is none.
    fn board(
        this: &Arc<Self>,
        origin: &Origin,
        now: WallMillis,
    ) -> Result<watch::Receiver<Option<News>>, Refused> {
        if let Some(PutOff { not_before, why }) = this.put_off.get(origin) {
            if now < not_before && not_before <= now.plus(NEXT_TRY_MAX) {
                return Err(Refused::Deferred { not_before, why });
            }
            this.put_off.invalidate(origin);
        }
        match this.flights.board(origin) {
            Boarding::Passenger(news) => Ok(news),
            Boarding::Pilot(flight, news) => {
                tokio::spawn(Arc::clone(this).fly(flight, origin.clone()));
                Ok(news)
            }
            Boarding::Full => {
                let why = Arc::from(Box::<dyn Error + Send + Sync>::from("too many robots.txt are awaited"));
                Err(Refused::Deferred { not_before: now.plus(FULL_WAIT), why })
            }
        }
    }

    /// One flight, in a task that belongs to no caller.
    async fn fly(self: Arc<Self>, flight: Flight<Origin, News>, origin: Origin) {
        self.counters.flights.add(1);
        let mut lost = Lost { counters: &self.counters, landed: false };
        let result = self.bring(&flight, &origin).await;
        lost.landed = true;
        flight.land(News::Landed(result));
    }

    async fn bring(&self, flight: &Flight<Origin, News>, origin: &Origin) -> Result<Arc<Answer>, Refused> {
        let previous = self.remembered(origin).await;
        if let Some(record) = &previous {
            match Times::of(record).next(self.clock.wall()) {
                Next::Use => return Ok(self.publish(record.clone())),
                Next::UseAndRefresh => flight.announce(News::Early(self.publish(record.clone()))),
                Next::Fetch => {}
            }
        }
        if let Some(record) = self.keeper.another_process_brings(origin, previous.as_ref()).await {
            return Ok(self.publish(record));
        }
        let ended = self.ask(origin, previous.as_ref()).await;
        match ended {
            Ended::Outcome(outcome) => Ok(self.learn(origin, previous.as_ref(), outcome).await),
            Ended::Deferred { not_before, why, sent } => {
                self.defer(origin, not_before, &why, sent).await;
                Err(Refused::Deferred { not_before, why })
            }
        }
    }

    /// The newest record of the origin: the store's, or ours if the store has failed.
    async fn remembered(&self, origin: &Origin) -> Option<Record> {
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

    async fn ask(&self, origin: &Origin, previous: Option<&Record>) -> Ended {
        let _turn = self.turns.acquire().await;
        let copy = previous.and_then(Record::copy);
        Chain::new(origin, copy, &*self.fetch, &*self.clock, &self.policy, &self.counters).go().await
    }

    /// Makes the outcome of an attempt known: to the store, to those who wait, to the observer.
    async fn learn(&self, origin: &Origin, previous: Option<&Record>, outcome: Outcome) -> Arc<Answer> {
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

    fn count(&self, answer: &Answer, revalidated: bool) {
        match answer.record().last {
            LastAnswer::Rules if revalidated => self.counters.revalidated.add(1),
            LastAnswer::Rules => self.counters.rules.add(1),
            LastAnswer::Unavailable(_) => self.counters.unavailable.add(1),
            LastAnswer::Unreachable(_) => self.counters.unreachable.add(1),
        }
        if answer.source() == super::Source::LastGood {
            self.counters.last_good.add(1);
        }
    }

    fn report(&self, previous: Option<&Record>, answer: &Arc<Answer>) {
        tell(&self.observers, &AccessEvent::Asked { answer });
        if answer.source() == super::Source::LastGood {
            tell(&self.observers, &AccessEvent::LastGood { answer });
        }
        let old = previous.and_then(Record::copy);
        if old.map(super::GoodCopy::body) != answer.record().copy().map(super::GoodCopy::body) {
            tell(&self.observers, &AccessEvent::Changed { old, answer });
        }
    }

    async fn defer(
        &self,
        origin: &Origin,
        not_before: WallMillis,
        why: &Arc<dyn Error + Send + Sync>,
        sent: bool,
    ) {
        self.counters.deferred.add(1);
        log::deferred(origin);
        if sent {
            self.put_off.insert(origin.clone(), PutOff { not_before, why: Arc::clone(why) });
        }
        self.keeper.release(origin).await;
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
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
