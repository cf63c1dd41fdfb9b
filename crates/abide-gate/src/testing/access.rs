//! The suite that every [`AccessStore`] passes, and a scripted [`Fetch`].

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use abide_robots::ProductToken;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::{Instant, Sleep, sleep};

use crate::access::{
    AccessCache, AccessPolicy, AccessStore, Fetch, FetchError, Lease, LeaseHolder, Record, RobotsReply,
    RobotsRequest, on_the_wire,
};
use crate::{BoxFuture, Failure, Origin, WallMillis};

pub use crate::access::builder::AccessCacheBuilder;

/// A cache without a gate: its requests are not paced, and its addresses not guarded.
pub fn cache_builder(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> AccessCacheBuilder {
    AccessCache::builder(tokens, fetch)
}

/// One scripted answer to a robots.txt request.
#[derive(Debug, Clone)]
pub struct Scripted {
    outcome: Result<u16, FetchError>,
    headers: HeaderMap,
    chunks: Vec<Bytes>,
    /// The body ends with an error instead of its end.
    breaks: bool,
    /// The body never ends.
    stalls: bool,
    endless: bool,
    slot_wait: Duration,
    head_after: Duration,
    chunk_after: Duration,
    hold: Option<WallMillis>,
    panics: bool,
}

impl Scripted {
    /// An answer with this status, no field, and no body.
    pub fn status(status: u16) -> Self {
        Self {
            outcome: Ok(status),
            headers: HeaderMap::new(),
            chunks: Vec::new(),
            breaks: false,
            stalls: false,
            endless: false,
            slot_wait: Duration::ZERO,
            head_after: Duration::ZERO,
            chunk_after: Duration::ZERO,
            hold: None,
            panics: false,
        }
    }

    /// 200 with this text.
    pub fn text(body: impl Into<Bytes>) -> Self {
        Self::status(200).body(body)
    }

    /// 302 to this place.
    pub fn redirect(to: &str) -> Self {
        Self::status(302).header("location", to.as_bytes())
    }

    /// No head, but this error.
    pub fn error(failure: Failure) -> Self {
        Self { outcome: Err(FetchError::new(failure, "the script says so")), ..Self::status(200) }
    }

    /// Nothing is sent before this time, for this reason.
    pub fn deferred(not_before: WallMillis, why: Arc<dyn std::error::Error + Send + Sync>) -> Self {
        Self { outcome: Err(FetchError::deferred(not_before, why)), ..Self::status(200) }
    }

    /// A panic within the fetch.
    pub fn panic() -> Self {
        Self { panics: true, ..Self::status(200) }
    }

    /// One more piece of the body.
    #[must_use]
    pub fn body(mut self, chunk: impl Into<Bytes>) -> Self {
        self.chunks.push(chunk.into());
        self
    }

    /// One more header field.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &[u8]) -> Self {
        let value = HeaderValue::from_bytes(value).expect("the script's header value is valid");
        self.headers.append(HeaderName::from_static(name), value);
        self
    }

    /// The body breaks off after its pieces.
    #[must_use]
    pub fn breaks(mut self) -> Self {
        self.breaks = true;
        self
    }

    /// The body never ends after its pieces.
    #[must_use]
    pub fn stalls(mut self) -> Self {
        self.stalls = true;
        self
    }

    /// The last piece of the body comes again and again.
    #[must_use]
    pub fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    /// The slot is there after `wait`, and only then the request goes out.
    #[must_use]
    pub fn slot_after(mut self, wait: Duration) -> Self {
        self.slot_wait = wait;
        self
    }

    /// The head comes after `wait` on the wire.
    #[must_use]
    pub fn head_after(mut self, wait: Duration) -> Self {
        self.head_after = wait;
        self
    }

    /// Each piece of the body comes after `wait`.
    #[must_use]
    pub fn chunk_after(mut self, wait: Duration) -> Self {
        self.chunk_after = wait;
        self
    }

    /// The answer makes its host wait until then.
    #[must_use]
    pub fn held_until(mut self, until: WallMillis) -> Self {
        self.hold = Some(until);
        self
    }
}

/// What was asked, as the script saw it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Asked {
    /// The URL.
    pub url: String,
    /// The fields that were to be sent.
    pub headers: HeaderMap,
    /// When.
    pub at: Instant,
}

/// The script: what is answered to the how-manieth request (from 0) for a URL.
type Play = dyn Fn(&RobotsRequest, usize) -> Scripted + Send + Sync;

/// A [`Fetch`] that plays a script and writes down what it was asked. Cheap to clone.
#[derive(Clone)]
pub struct ScriptedFetch {
    play: Arc<Play>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    times: HashMap<String, usize>,
    in_flight: HashMap<Origin, usize>,
    in_flight_max: usize,
    pulled: u64,
}

impl ScriptedFetch {
    /// Answers by a function of the request and of how often this URL was asked for before.
    pub fn new(play: impl Fn(&RobotsRequest, usize) -> Scripted + Send + Sync + 'static) -> Self {
        Self { play: Arc::new(play), state: Arc::default() }
    }

    /// Answers every request alike.
    pub fn always(answer: Scripted) -> Self {
        Self::new(move |_, _| answer.clone())
    }

    /// Answers by URL, each with a list whose last item is repeated; 404 for other URLs.
    pub fn by_url<const N: usize>(script: [(&str, Vec<Scripted>); N]) -> Self {
        let script: HashMap<String, Vec<Scripted>> = script.map(|(url, list)| (url.to_owned(), list)).into();
        Self::new(move |request, times| match script.get(request.url().as_str()).map(Vec::as_slice) {
            Some([]) | None => Scripted::status(404),
            Some(list) => list[times.min(list.len() - 1)].clone(),
        })
    }

    /// All that was asked, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    /// The URLs that were asked for, in order.
    pub fn urls(&self) -> Vec<String> {
        self.state().asked.iter().map(|asked| asked.url.clone()).collect()
    }

    /// How many requests there were.
    pub fn count(&self) -> usize {
        self.state().asked.len()
    }

    /// The most requests for one host's URLs at the same time.
    pub fn in_flight_max(&self) -> usize {
        self.state().in_flight_max
    }

    /// How many bytes of bodies were taken.
    pub fn pulled(&self) -> u64 {
        self.state().pulled
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the request down and looks up its answer.
    fn ask(&self, request: &RobotsRequest) -> (Scripted, InFlight) {
        let url = request.url().as_str().to_owned();
        let origin = Origin::of(request.url()).expect("only http and https are asked for");
        let times = {
            let mut state = self.state();
            let times = state.times.entry(url.clone()).or_default();
            let before = *times;
            *times += 1;
            state.asked.push(Asked { url, headers: request.headers(), at: Instant::now() });
            let now = state.in_flight.entry(origin.clone()).or_default();
            *now += 1;
            let now = *now;
            state.in_flight_max = state.in_flight_max.max(now);
            before
        };
        let in_flight = InFlight { fetch: self.clone(), origin };
        ((self.play)(request, times), in_flight)
    }
}

impl fmt::Debug for ScriptedFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedFetch").field("asked", &self.count()).finish_non_exhaustive()
    }
}

impl Fetch for ScriptedFetch {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsReply, FetchError>> {
        let (answer, in_flight) = self.ask(&request);
        Box::pin(async move {
            assert!(!answer.panics, "the script says: panic");
            sleep(answer.slot_wait).await;
            let started = Instant::now().into_std();
            on_the_wire(request.budget(), async move {
                sleep(answer.head_after).await;
                let status = answer.outcome.clone()?;
                let status = StatusCode::from_u16(status).expect("the script's status has three digits");
                let (headers, hold) = (answer.headers.clone(), answer.hold);
                let reply =
                    RobotsReply::new(status, headers, ScriptedBody::boxed(answer, in_flight), started);
                Ok(match hold {
                    Some(until) => reply.with_backoff_until(until),
                    None => reply,
                })
            })
            .await
        })
    }
}

/// Counts a request until its body has ended or was dropped.
struct InFlight {
    fetch: ScriptedFetch,
    origin: Origin,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(now) = self.fetch.state().in_flight.get_mut(&self.origin) {
            *now = now.saturating_sub(1);
        }
    }
}

struct ScriptedBody {
    answer: Scripted,
    next: usize,
    pause: Pin<Box<Sleep>>,
    in_flight: InFlight,
}

impl ScriptedBody {
    fn boxed(answer: Scripted, in_flight: InFlight) -> UnsyncBoxBody<Bytes, FetchError> {
        let pause = Box::pin(sleep(answer.chunk_after));
        Self { answer, next: 0, pause, in_flight }.boxed_unsync()
    }
}

impl http_body::Body for ScriptedBody {
    type Data = Bytes;
    type Error = FetchError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, FetchError>>> {
        if !self.answer.chunk_after.is_zero() && self.pause.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let chunk_after = self.answer.chunk_after;
        self.pause.as_mut().reset(Instant::now() + chunk_after);
        let at = match self.answer.endless {
            true => self.next.min(self.answer.chunks.len().saturating_sub(1)),
            false => self.next,
        };
        match self.answer.chunks.get(at).cloned() {
            Some(chunk) => {
                self.next += 1;
                self.in_flight.fetch.state().pulled += chunk.len() as u64;
                Poll::Ready(Some(Ok(http_body::Frame::data(chunk))))
            }
            None if self.answer.breaks => {
                Poll::Ready(Some(Err(FetchError::new(Failure::Body, "the script breaks it"))))
            }
            None if self.answer.stalls => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

fn origin(text: &str) -> Origin {
    text.parse().expect("the suite's URLs are http or https")
}

/// A record as a fetch at `asked_at` would make it, for suites of stores.
pub fn sample_record(origin: &Origin, asked_at: WallMillis, body: impl Into<Bytes>) -> Record {
    Record::sample(origin, asked_at, body.into())
}

/// The lifetime that these `Cache-Control` fields ask for, within the policy's bounds, for fuzzing.
pub fn stated_lifetime(fields: &[&[u8]], policy: &AccessPolicy) -> Option<Duration> {
    let mut headers = HeaderMap::new();
    for value in fields.iter().filter_map(|field| HeaderValue::from_bytes(field).ok()) {
        headers.append(http::header::CACHE_CONTROL, value);
    }
    crate::access::stated_lifetime(&headers, policy)
}

/// Runs everything that an [`AccessStore`] must do against fresh, empty stores made by `make`.
///
/// # Panics
/// With the sentence that does not hold.
pub async fn conformance<S, F>(make: impl Fn() -> F)
where
    S: AccessStore,
    F: Future<Output = S>,
{
    what_was_saved_is_loaded(&make().await).await;
    saving_again_overwrites(&make().await).await;
    odd_origins_have_records_of_their_own(&make().await).await;
    large_and_edge_values_survive(&make().await).await;
    sweeping_keeps_what_is_younger(&make().await).await;
    a_lease_excludes_and_expires(&make().await).await;
    saving_and_releasing_end_a_lease(&make().await).await;
    a_thousand_writers_do_no_harm(Arc::new(make().await)).await;
}

/// For durable stores: what was saved is there after the store was closed and opened again at the same place.
///
/// # Panics
/// With the sentence that does not hold.
pub async fn survives_reopening<S, F>(open: impl Fn() -> F)
where
    S: AccessStore,
    F: Future<Output = S>,
{
    let origins = ["https://a.example", "http://[::1]:8080", "http://b\u{fc}cher.example"].map(origin);
    let record =
        |origin: &Origin| sample_record(origin, NOW, format!("User-agent: *\nDisallow: /{origin}\n"));
    let store = open().await;
    for origin in &origins {
        save(&store, &record(origin)).await;
    }
    let failed = Record::sample_unreachable(&record(&origins[0]), NOW.plus(TTL));
    save(&store, &failed).await;
    drop(store);
    let store = open().await;
    assert_eq!(
        load(&store, &origins[0]).await,
        Some(failed),
        "the last record, with its copy and its failures"
    );
    for origin in &origins[1..] {
        assert_eq!(
            load(&store, origin).await,
            Some(record(origin)),
            "what was saved is there after a restart"
        );
    }
}

const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);
const TTL: Duration = Duration::from_secs(60);

async fn load(store: &impl AccessStore, origin: &Origin) -> Option<Record> {
    store.load(origin).await.expect("loading works")
}

async fn save(store: &impl AccessStore, record: &Record) {
    store.save(record.origin(), record).await.expect("saving works");
}

async fn what_was_saved_is_loaded(store: &impl AccessStore) {
    let a = origin("https://a.example");
    assert_eq!(load(store, &a).await, None, "an origin that was never saved is absent");
    let record = sample_record(&a, NOW, "User-agent: *\nDisallow: /x\n");
    save(store, &record).await;
    assert_eq!(load(store, &a).await, Some(record), "what was saved is loaded");
}

async fn saving_again_overwrites(store: &impl AccessStore) {
    let a = origin("https://a.example");
    save(store, &sample_record(&a, NOW, "old")).await;
    let new = sample_record(&a, NOW.plus(TTL), "new");
    save(store, &new).await;
    assert_eq!(load(store, &a).await, Some(new), "the last writer wins");
    let unreachable =
        Record::sample_unreachable(&load(store, &a).await.expect("it was saved"), NOW.plus(2 * TTL));
    save(store, &unreachable).await;
    let copy = load(store, &a).await.and_then(|record| record.copy().map(|copy| copy.body().to_vec()));
    assert_eq!(copy.as_deref(), Some(&b"new"[..]), "a failed attempt keeps the copy");
}

async fn odd_origins_have_records_of_their_own(store: &impl AccessStore) {
    let origins = [
        "http://a.example",
        "https://a.example",
        "http://a.example:8080",
        "http://a.example.",
        "http://[::1]:8080",
        "http://[2001:db8::1]",
        "http://b\u{fc}cher.example",
        "http://127.0.0.1:9",
        "http://x_y.example:65535",
    ]
    .map(origin);
    for origin in &origins {
        save(store, &sample_record(origin, NOW, origin.as_str().to_owned())).await;
    }
    for origin in &origins {
        let record = load(store, origin).await.expect("each origin has a record of its own");
        let body = record.copy().map(|copy| copy.body().to_vec());
        assert_eq!(body.as_deref(), Some(origin.as_str().as_bytes()), "and it is its own: {origin}");
    }
}

async fn large_and_edge_values_survive(store: &impl AccessStore) {
    let a = origin("https://a.example");
    for (at, body) in [
        (NOW, vec![b'x'; 512_000]),
        (WallMillis::from_millis(0), Vec::new()),
        (WallMillis::from_millis(u64::MAX), (0..=255).collect()),
    ] {
        let record = sample_record(&a, at, body);
        save(store, &record).await;
        assert_eq!(load(store, &a).await, Some(record), "values at the edges survive");
    }
}

async fn sweeping_keeps_what_is_younger(store: &impl AccessStore) {
    for (host, age) in [("old", 90), ("edge", 60), ("young", 30)] {
        let at = NOW.minus(Duration::from_secs(age));
        save(store, &sample_record(&origin(&format!("http://{host}.example")), at, "")).await;
    }
    let swept = store.sweep(NOW.minus(TTL)).await.expect("sweeping works");
    assert_eq!(swept, 1, "what was asked for before the time goes, and is counted");
    assert_eq!(load(store, &origin("http://old.example")).await, None, "what is older is gone");
    assert!(load(store, &origin("http://edge.example")).await.is_some(), "the time itself is not older");
    assert!(load(store, &origin("http://young.example")).await.is_some(), "what is younger stays");
}

async fn lease(store: &impl AccessStore, origin: &Origin, holder: u64, now: WallMillis) -> Lease {
    store.lease(origin, LeaseHolder(holder), now, TTL).await.expect("leasing works")
}

async fn a_lease_excludes_and_expires(store: &impl AccessStore) {
    let (a, b) = (origin("https://a.example"), origin("https://b.example"));
    assert_eq!(lease(store, &a, 1, NOW).await, Lease::Leader, "the first one leads");
    let second = lease(store, &a, 2, NOW).await;
    assert!(matches!(second, Lease::Follow { until } if until <= NOW.plus(TTL)), "the second one follows");
    assert_eq!(lease(store, &a, 1, NOW).await, Lease::Leader, "the holder leads again");
    assert_eq!(lease(store, &b, 2, NOW).await, Lease::Leader, "leases are per origin");
    let later = NOW.plus(TTL).plus(Duration::from_millis(1));
    assert_eq!(load(store, &a).await, None, "a lease is no record");
    assert_eq!(lease(store, &a, 2, later).await, Lease::Leader, "a lease expires");
}

async fn saving_and_releasing_end_a_lease(store: &impl AccessStore) {
    let a = origin("https://a.example");
    assert_eq!(lease(store, &a, 1, NOW).await, Lease::Leader);
    save(store, &sample_record(&a, NOW, "")).await;
    assert_eq!(lease(store, &a, 2, NOW).await, Lease::Leader, "saving ends the lease");
    store.release(&a, LeaseHolder(1)).await.expect("releasing works");
    let third = lease(store, &a, 3, NOW).await;
    assert!(matches!(third, Lease::Follow { .. }), "only the holder can release");
    store.release(&a, LeaseHolder(2)).await.expect("releasing works");
    assert_eq!(lease(store, &a, 3, NOW).await, Lease::Leader, "releasing ends the lease");
}

async fn a_thousand_writers_do_no_harm<S: AccessStore>(store: Arc<S>) {
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..1000_u64 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let origin = origin(&format!("http://h{}.example", n % 50));
            let at = NOW.plus(Duration::from_millis(n));
            save(&*store, &sample_record(&origin, at, format!("{origin} {n}"))).await;
        });
    }
    while let Some(written) = writers.join_next().await {
        written.expect("no writer panics");
    }
    for n in 0..50 {
        let origin = origin(&format!("http://h{n}.example"));
        let record = load(&*store, &origin).await.expect("every origin was saved");
        let n = record.asked_at().since(NOW).as_millis();
        let body = record.copy().map(|copy| copy.body().to_vec());
        assert_eq!(body, Some(format!("{origin} {n}").into_bytes()), "a record is one writer's, whole");
    }
}
