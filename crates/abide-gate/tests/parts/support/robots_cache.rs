//! Support of the tests of the robots.txt cache: a cache on a manual clock, with scripted responses.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use crate::denied::DenialCause;
use crate::jitter::Jitter;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use crate::robots_cache::RobotsCache;
use crate::store::StoreFuture;
use abide_gate::pacing::DeferReason;
use abide_gate::robots_cache::{FetchError, RobotsEntry, RobotsPolicy, RobotsRecord, RobotsStore};
use abide_gate::testing::MemoryStore;
use abide_gate::{BoxFuture, Clock, ManualClock, Origin, StoreError, WallMillis};
use abide_robots::{ProductToken, Target};

pub(crate) const START: WallMillis = WallMillis::from_millis(1_800_000_000_000);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Rules that allow `/open` and disallow `/closed`.
pub(crate) const GOOD: &str = "User-agent: *\nDisallow: /closed\n";

/// A call of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Load,
    Save,
}

/// What a test does before a call of a store: wait, fail, hang, panic.
type Before = Box<dyn Fn(Op) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// A store in memory.
pub(crate) struct Hooked {
    inner: Arc<MemoryStore>,
    before: Before,
}

impl Hooked {
    pub(crate) fn new<F: Future<Output = Result<(), StoreError>> + Send + 'static>(
        before: impl Fn(Op) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { inner: Arc::default(), before: Box::new(move |op| Box::pin(before(op))) }
    }

    /// One whose calls fail when `fails` says so.
    pub(crate) fn failing(fails: impl Fn(Op) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |op| {
            ready(if fails(op) { Err(StoreError::new("disk full\u{1b}[31m")) } else { Ok(()) })
        })
    }
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}

impl RobotsStore for Hooked {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(async move {
            (self.before)(Op::Load).await?;
            self.inner.load(origin).await
        })
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            (self.before)(Op::Save).await?;
            self.inner.save(origin, record).await
        })
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        self.inner.sweep(older_than)
    }
}

/// The pacer's refusal of a request to a host that is backed off.
pub(crate) fn deferred(retry_at: WallMillis) -> Scripted {
    Scripted::failing(FetchError::deferred(backed_off(retry_at)))
}

pub(crate) fn backed_off(retry_at: WallMillis) -> DenialCause {
    DenialCause::deferred(DeferReason::Backoff { status: None, retry_after: None }, retry_at, None)
}

pub(crate) struct World {
    pub(crate) fetch: ScriptedFetch,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn RobotsStore>,
    pub(crate) cache: Arc<RobotsCache>,
}

impl World {
    pub(crate) fn new(fetch: ScriptedFetch) -> Self {
        Self::with_policy(fetch, RobotsPolicy::default())
    }

    pub(crate) fn with_policy(fetch: ScriptedFetch, policy: RobotsPolicy) -> Self {
        Self::with(fetch, policy, Arc::new(MemoryStore::new()))
    }

    pub(crate) fn with_store(fetch: ScriptedFetch, store: Arc<dyn RobotsStore>) -> Self {
        Self::with(fetch, RobotsPolicy::default(), store)
    }

    fn with(fetch: ScriptedFetch, policy: RobotsPolicy, store: Arc<dyn RobotsStore>) -> Self {
        let clock = Arc::new(ManualClock::starting_at(START));
        let mut cache = RobotsCache::new(tokens(), Arc::new(fetch.clone()), policy);
        cache.clock = clock.clone();
        cache.store = Some(store.clone());
        cache.jitter = Jitter::new(Some(7));
        Self { fetch, clock, store, cache: Arc::new(cache) }
    }

    /// A world where every request is answered alike.
    pub(crate) fn of(answer: Scripted) -> Self {
        Self::new(ScriptedFetch::always(answer))
    }

    /// A world where requests are answered with these in turn, the last of which is repeated.
    pub(crate) fn in_turn<const N: usize>(answers: [Scripted; N]) -> Self {
        Self::new(ScriptedFetch::in_turn(answers))
    }

    /// A world where the first request is answered with good rules, and all others with `then`.
    pub(crate) fn good_then(then: Scripted) -> Self {
        Self::in_turn([Scripted::text(GOOD).header("etag", b"\"1\""), then])
    }

    pub(crate) async fn ask(&self) -> Arc<RobotsEntry> {
        self.cache.get(&origin()).await.unwrap()
    }

    pub(crate) fn wall(&self) -> WallMillis {
        self.clock.wall()
    }

    /// The answer after what is refreshed in the background has come in.
    pub(crate) async fn ask_and_settle(&self) -> Arc<RobotsEntry> {
        self.ask().await;
        self.settle().await;
        self.ask().await
    }

    /// Waits until no fetch is in flight.
    pub(crate) async fn settle(&self) {
        while self.cache.stats().robots_in_flight > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn tokens() -> Vec<ProductToken> {
    vec![ProductToken::new("ExampleBot").unwrap()]
}

pub(crate) fn origin() -> Origin {
    "https://a.example".parse().unwrap()
}

pub(crate) fn allows(answer: &Arc<RobotsEntry>, path: &str) -> bool {
    answer.is_allowed(&Target::new(path))
}

/// The rules of this answer, and nothing else.
pub(crate) fn is_good(answer: &Arc<RobotsEntry>) -> bool {
    allows(answer, "/open") && !allows(answer, "/closed") && answer.copy().is_some()
}

pub(crate) fn allows_all(answer: &Arc<RobotsEntry>) -> bool {
    allows(answer, "/open") && allows(answer, "/closed")
}

/// Nothing but robots.txt itself.
pub(crate) fn disallows_all(answer: &Arc<RobotsEntry>) -> bool {
    !allows(answer, "/open")
        && !allows(answer, "/")
        && !allows(answer, "/robots.txt?x")
        && allows(answer, "/robots.txt")
}
