//! A server's log on virtual time, with a check that knows nothing of the pacer; a recorder of events;
//! shortcuts for tests.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::denied::DenialCause;
use crate::pacing::Pacer;
use abide_gate::pacing::{BackoffCause, DeferReason, HostReport, NextSlot, PacePolicy, PacingKey, Permit};
use abide_gate::{Clock, DeniedKind, Event, Gate, GateBuilder, Host, SystemClock, WallMillis};
use http::HeaderMap;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

pub(crate) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The default, at a delay of one second whatever the default is: the times in these tests are counted by it.
pub(crate) fn one_second() -> PacePolicy {
    PacePolicy::default().danger_min_delay(s(1))
}

pub(crate) fn url(text: &str) -> Url {
    text.parse().unwrap()
}

pub(crate) fn page(host: &str) -> Url {
    url(&format!("http://{host}/"))
}

pub(crate) fn host(name: &str) -> Host {
    Host::of(&page(name)).unwrap()
}

/// All hosts are one group.
pub(crate) fn group(name: &'static str) -> PacingKey {
    PacingKey::custom(move |_| Some(name.to_owned()))
}

pub(crate) fn retry_after(seconds: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::RETRY_AFTER, seconds.parse().unwrap())])
}

pub(crate) async fn joined<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    // All of them are started before the first is awaited.
    let (tasks, mut results) = (Vec::from_iter(tasks), Vec::new());
    for task in tasks {
        results.push(timeout(s(100_000), task).await.unwrap().unwrap());
    }
    results
}

impl Pacer {
    pub(crate) fn builder(policy: PacePolicy) -> GateBuilder {
        Gate::builder().pace(policy).clock(Arc::new(TokioClock))
    }

    /// Alone.
    pub(crate) fn new(policy: PacePolicy) -> Arc<Self> {
        Self::builder(policy).pacer()
    }

    pub(crate) async fn take(self: &Arc<Self>, host: &str) -> Permit {
        self.try_take(host).await.unwrap()
    }

    pub(crate) async fn try_take(self: &Arc<Self>, host: &str) -> Result<Permit, DenialCause> {
        self.get(&page(host)).await
    }

    /// For a URL, as long as the policy waits.
    pub(crate) async fn get(self: &Arc<Self>, url: &Url) -> Result<Permit, DenialCause> {
        self.acquire(url, s(0), self.policy.max_wait).await
    }

    /// For a page of its own: one that is asked for again would keep its time.
    pub(crate) async fn take_within(
        self: &Arc<Self>,
        host: &str,
        budget: Duration,
    ) -> Result<Permit, DenialCause> {
        static PAGES: AtomicUsize = AtomicUsize::new(0);
        let page = url(&format!("http://{host}/{}", PAGES.fetch_add(1, Ordering::Relaxed)));
        self.acquire(&page, s(0), budget).await
    }

    /// The same in a task of its own, which ends the response at once and says when.
    pub(crate) fn spawn_take(
        self: &Arc<Self>,
        host: &'static str,
        budget: Duration,
    ) -> JoinHandle<(Result<(), DenialCause>, Instant)> {
        let pacer = self.clone();
        let taken = async move { pacer.take_within(host, budget).await.map(Permit::finish) };
        tokio::spawn(async move { (taken.await, Instant::now()) })
    }

    /// As the operator does.
    pub(crate) fn back_off_for(&self, key: &str, time: Duration) -> WallMillis {
        self.back_off(key, TokioClock.wall().plus(time), BackoffCause::Operator)
    }

    pub(crate) fn slot(&self, host: &str) -> NextSlot {
        self.next_slot(&page(host), s(0)).unwrap()
    }

    pub(crate) fn report_of(&self, name: &str) -> HostReport {
        self.report(&host(name)).unwrap()
    }
}

/// Records what is reported, as text.
#[derive(Debug, Default)]
pub(crate) struct Events {
    texts: Mutex<Vec<String>>,
}

impl Events {
    pub(crate) fn observer(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let events = Arc::clone(self);
        Arc::new(move |event| {
            let text = match event {
                Event::Granted { key, .. } => format!("granted {key}"),
                Event::Deferred { key, .. } => format!("deferred {key}"),
                Event::BackedOff { key, lasts, cause } => format!("backed off {key} {lasts:?} {cause:?}"),
                Event::BreakerOpened { key, lasts, failure } => {
                    format!("breaker {key} {lasts:?} {failure}")
                }
                Event::BodyOpen { key, open } => format!("open {key} {open:?}"),
                Event::RateLimitIgnored { key, field } => format!("ignored {key} {field}"),
                Event::FasterThanDefault { key, .. } => format!("exception {key}"),
                Event::StoreDown { .. } => "store down".to_owned(),
                Event::StoreBack => "store back".to_owned(),
                Event::Overgrown { hosts } => format!("overgrown {hosts}"),
                other => format!("{other:?}"),
            };
            events.texts().push(text);
        })
    }

    fn texts(&self) -> MutexGuard<'_, Vec<String>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that begin like this.
    pub(crate) fn of(&self, start: &str) -> Vec<String> {
        self.texts().iter().filter(|text| text.starts_with(start)).cloned().collect()
    }

    /// All since the last call, except permits, deferrals, and exceptions from the default delay.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut texts = std::mem::take(&mut *self.texts());
        texts
            .retain(|text| !["granted", "deferred", "exception"].iter().any(|start| text.starts_with(start)));
        texts
    }
}

pub(crate) fn observed(policy: PacePolicy) -> (Arc<Pacer>, Arc<Events>) {
    let events = Arc::new(Events::default());
    (Pacer::builder(policy).observer(events.observer()).pacer(), events)
}

/// Why a request was deferred, and for how long.
#[derive(Debug)]
pub(crate) struct Deferral {
    pub(crate) reason: DeferReason,
    pub(crate) wait: Duration,
}

pub(crate) fn deferral<T>(result: Result<T, DenialCause>) -> Deferral {
    match result.map(drop) {
        Err(DenialCause { kind: DeniedKind::Deferred { reason }, retry_at: Some(until), .. }) => {
            Deferral { reason, wait: left(until) }
        }
        other => panic!("expected a deferral, found {other:?}"),
    }
}

/// From now.
pub(crate) fn left(until: WallMillis) -> Duration {
    until.since(TokioClock.wall())
}

/// Both clocks go with that of tokio, paused or not.
#[derive(Debug)]
pub(crate) struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> std::time::Instant {
        SystemClock.now()
    }

    fn wall(&self) -> WallMillis {
        static BASE: OnceLock<std::time::Instant> = OnceLock::new();
        const START: WallMillis = WallMillis::from_millis(1_800_000_000_000);
        // The paused clock of another test may have stopped before the first reading: a day ahead, so that
        // all are rounded the same way.
        let ahead = self.now() + s(86_400);
        START.plus(ahead.saturating_duration_since(*BASE.get_or_init(std::time::Instant::now)))
    }
}

/// Panics whatever it is asked, while this is set.
#[derive(Debug, Default)]
pub(crate) struct BrokenClock(pub(crate) AtomicBool);

impl Clock for BrokenClock {
    fn now(&self) -> std::time::Instant {
        assert!(!self.0.load(Ordering::SeqCst), "the clock's own mistake");
        SystemClock.now()
    }

    fn wall(&self) -> WallMillis {
        assert!(!self.0.load(Ordering::SeqCst), "the clock's own mistake");
        SystemClock.wall()
    }
}

/// Lags behind tokio's clock: it goes at half its speed.
#[derive(Debug)]
pub(crate) struct Lagging(pub(crate) Instant);

impl Clock for Lagging {
    fn now(&self) -> std::time::Instant {
        (self.0 + self.0.elapsed() / 2).into_std()
    }

    fn wall(&self) -> WallMillis {
        WallMillis::from_millis(0)
    }
}

/// What a server saw: who, which host, from when to when.
#[derive(Clone)]
pub(crate) struct Log {
    began: Instant,
    entries: Arc<Mutex<Vec<Entry>>>,
}

/// Who, which host, start, end.
type Entry = (usize, String, Duration, Duration);

impl Default for Log {
    fn default() -> Self {
        Self { began: Instant::now(), entries: Arc::default() }
    }
}

impl Log {
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A request of `who` that takes `wire`, and is written down.
    pub(crate) async fn fetch_as(
        &self,
        who: usize,
        pacer: &Arc<Pacer>,
        url: &Url,
        wire: Duration,
    ) -> Result<(), DenialCause> {
        let permit = pacer.get(url).await?;
        self.serve(who, url, wire, permit).await;
        Ok(())
    }

    /// The same for a page of a host, which must be permitted.
    pub(crate) async fn send(&self, who: usize, pacer: &Arc<Pacer>, host: &str, wire: Duration) {
        self.fetch_as(who, pacer, &page(host), wire).await.unwrap();
    }

    /// The same again and again until this instant.
    pub(crate) async fn send_until(
        self,
        end: Instant,
        who: usize,
        pacer: Arc<Pacer>,
        host: String,
        wire: Duration,
    ) {
        while Instant::now() < end {
            self.send(who, &pacer, &host, wire).await;
        }
    }

    /// So many tasks that ask for a permit of `a.example` at once, and send one request each.
    pub(crate) fn crowd(
        &self,
        tasks: usize,
        pacer: &Arc<Pacer>,
        wire: Duration,
    ) -> Vec<JoinHandle<Result<(), DenialCause>>> {
        let one = |who| {
            let (pacer, log) = (pacer.clone(), self.clone());
            tokio::spawn(async move { log.fetch_as(who, &pacer, &page("a.example"), wire).await })
        };
        (0..tasks).map(one).collect()
    }

    /// A request with this permit. It is written down at the start, so that a cancelled one is seen as well,
    /// and its end where that is.
    pub(crate) async fn serve(&self, who: usize, url: &Url, wire: Duration, permit: Permit) {
        let (now, host) = (self.now(), url.host_str().unwrap().trim_end_matches('.').to_owned());
        let place = {
            let mut entries = self.entries.lock().unwrap();
            entries.push((who, host, now, now));
            entries.len() - 1
        };
        let _served = Served { log: self.clone(), place, _permit: permit };
        if !wire.is_zero() {
            sleep(wire).await;
        }
    }

    pub(crate) fn starts(&self, host: &str) -> Vec<Duration> {
        let entries = self.entries.lock().unwrap();
        entries.iter().filter(|entry| entry.1 == host).map(|entry| entry.2).collect()
    }

    pub(crate) fn order(&self) -> Vec<usize> {
        self.entries.lock().unwrap().iter().map(|entry| entry.0).collect()
    }

    /// Never two in flight, never inside the delay, on any host.
    pub(crate) fn check(&self, delay: Duration) {
        let mut entries = self.entries.lock().unwrap().clone();
        entries.sort_by(|a, b| (&a.1, a.2).cmp(&(&b.1, b.2)));
        for pair in entries.windows(2) {
            let [(_, host, _, end), (_, next, start, _)] = pair else { unreachable!() };
            assert!(host != next || *start >= *end + delay, "{host}: {start:?} after an end at {end:?}");
        }
    }
}

/// Writes the end down before the permit is dropped, also when the request is cancelled.
struct Served {
    log: Log,
    place: usize,
    _permit: Permit,
}

impl Drop for Served {
    fn drop(&mut self) {
        let now = self.log.now();
        self.log.entries.lock().unwrap()[self.place].3 = now;
    }
}
