//! The suite that every [`RobotsStore`] passes, and a scripted [`Fetch`].

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

use super::{check, poll_once, replied};
use crate::robots_cache::{
    Fetch, FetchError, RobotsCache, RobotsPolicy, RobotsRecord, RobotsRequest, RobotsResponse, RobotsStore,
    on_the_wire,
};
use crate::{BoxFuture, Failure, GateBuilder, HolderId, Origin, WallMillis};

/// The cache of the gate that `settings` would build, alone: its requests are not paced, and its addresses not guarded.
pub fn cache_alone(settings: GateBuilder, tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> RobotsCache {
    settings.build_cache(tokens, fetch)
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

    /// Nothing is sent, for this reason.
    pub fn deferred(why: crate::pacing::Refusal) -> Self {
        Self { outcome: Err(FetchError::deferred(why)), ..Self::status(200) }
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
    pub fn backed_off_until(mut self, until: WallMillis) -> Self {
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
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
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
                    RobotsResponse::new(status, headers, ScriptedBody::boxed(answer, in_flight), started);
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
pub fn sample_record(origin: &Origin, asked_at: WallMillis, body: impl Into<Bytes>) -> RobotsRecord {
    RobotsRecord::sample(origin, asked_at, body.into())
}

/// The lifetime that these `Cache-Control` fields ask for, within the policy's bounds, for fuzzing.
pub fn stated_lifetime(fields: &[&[u8]], policy: &RobotsPolicy) -> Option<Duration> {
    let mut headers = HeaderMap::new();
    for value in fields.iter().filter_map(|field| HeaderValue::from_bytes(field).ok()) {
        headers.append(http::header::CACHE_CONTROL, value);
    }
    crate::robots_cache::stated_lifetime(&headers, policy)
}

/// Checks an [`RobotsStore`] against all that its trait promises. `make` returns a fresh, empty store, once for each fact.
///
/// Time is an argument of this trait, so nothing sleeps. `docs/stores.md` shows how to run it.
///
/// # Panics
/// At the first fact that does not hold, with the call, what was expected of it, and what was found.
pub async fn conformance<S, F>(make: impl Fn() -> F)
where
    S: RobotsStore,
    F: Future<Output = S>,
{
    the_last_record_saved_is_loaded(&make().await).await;
    odd_origins_have_records_of_their_own(&make().await).await;
    a_dropped_save_is_done_or_not(&make().await).await;
    sweeping_removes_only_what_is_older(&make().await).await;
    a_lease_excludes_and_ends(&make().await).await;
    saving_and_releasing_end_a_lease(&make().await).await;
    records_of_concurrent_writers_are_whole(Arc::new(make().await)).await;
}

/// For durable stores: what was saved is there after the store was closed and opened again at the same place.
///
/// # Panics
/// As [`conformance`] does.
pub async fn survives_reopening<S, F>(open: impl Fn() -> F)
where
    S: RobotsStore,
    F: Future<Output = S>,
{
    let records = ["https://a.example", "http://[::1]:8080", "http://b\u{fc}cher.example"]
        .map(|text| sample_record(&origin(text), NOW, text));
    let failed = RobotsRecord::sample_unreachable(&records[0], NOW.plus(TTL));
    let store = open().await;
    for record in records.iter().chain([&failed]) {
        save(&store, record).await;
    }
    drop(store);
    let store = open().await;
    for record in [&failed, &records[1], &records[2]] {
        loads(&store, record.origin(), &[Some(record)], "it was saved before the store was closed").await;
    }
}

const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);
const TTL: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const LEADS: bool = true;
const FOLLOWS: bool = false;

/// Expects one of these records.
async fn loads(store: &impl RobotsStore, origin: &Origin, expected: &[Option<&RobotsRecord>], why: &str) {
    let call = format!("load({origin})");
    let found = replied(&call, store.load(origin).await);
    let each: Vec<String> = expected.iter().map(|record| shown(*record)).collect();
    let (expected_text, mut found_text) = (each.join(" or "), shown(found.as_ref()));
    if expected_text == found_text {
        found_text = format!("another value in {found:?}");
    }
    let holds = expected.contains(&found.as_ref());
    check(holds, &call, format_args!("{expected_text} ({why})"), format_args!("{found_text}"));
}

fn shown(record: Option<&RobotsRecord>) -> String {
    record.map_or("none".to_owned(), |record| {
        let body = record.copy().map_or(&[][..], |copy| copy.body());
        let start = body[..body.len().min(40)].escape_ascii();
        format!("a record of {} asked at {:?} with the body \"{start}\"", record.origin(), record.asked_at())
    })
}

async fn save(store: &impl RobotsStore, record: &RobotsRecord) {
    replied(&format!("save({})", record.origin()), store.save(record.origin(), record).await);
}

/// Expects a leader, or a follower of a lease that began at [`NOW`] at the latest.
async fn leases(
    store: &impl RobotsStore,
    (origin, holder): (&Origin, u128),
    now: WallMillis,
    leads: bool,
    why: &str,
) {
    let call = format!("lease({origin}, holder {holder}, at {now:?}, {TTL:?})");
    let found = replied(&call, store.lease(origin, HolderId(holder), now, TTL).await);
    let expected = if leads { "None" } else { "the end of the other's lease, one ttl ahead at most" };
    let holds = match found {
        None => leads,
        Some(until) => !leads && now < until && until <= NOW.plus(TTL),
    };
    check(holds, &call, format_args!("{expected} ({why})"), found);
}

async fn release(store: &impl RobotsStore, origin: &Origin, holder: u128) {
    let call = format!("release({origin}, holder {holder})");
    replied(&call, store.release(origin, HolderId(holder)).await);
}

async fn the_last_record_saved_is_loaded(store: &impl RobotsStore) {
    let a = origin("https://a.example");
    loads(store, &a, &[None], "nothing was saved").await;
    let first = sample_record(&a, NOW, "User-agent: *\nDisallow: /old\n");
    let second = sample_record(&a, NOW.plus(TTL), "User-agent: *\nDisallow: /new\n");
    let failed = RobotsRecord::sample_unreachable(&second, NOW.plus(2 * TTL));
    for (record, why) in [
        (first.clone(), "it was saved"),
        (second, "the last writer wins"),
        (failed, "a failed attempt keeps the last good copy"),
        (first, "the last writer wins, also if its clock was set back"),
        (sample_record(&a, NOW, vec![b'x'; 512_000]), "the largest body"),
        (sample_record(&a, WallMillis::from_millis(0), ""), "the earliest time and an empty body"),
        (
            sample_record(&a, WallMillis::from_millis(u64::MAX), (0..=255).collect::<Vec<u8>>()),
            "the latest time, any byte",
        ),
    ] {
        save(store, &record).await;
        loads(store, &a, &[Some(&record)], why).await;
    }
}

async fn odd_origins_have_records_of_their_own(store: &impl RobotsStore) {
    let records = [
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
    .map(|text| sample_record(&origin(text), NOW, text));
    for record in &records {
        save(store, record).await;
    }
    for record in &records {
        loads(store, record.origin(), &[Some(record)], "each origin has a record of its own").await;
    }
}

async fn a_dropped_save_is_done_or_not(store: &impl RobotsStore) {
    let a = origin("https://a.example");
    let [old, new] = ["old", "new"].map(|body| sample_record(&a, NOW, body));
    save(store, &old).await;
    poll_once(store.save(&a, &new)).await;
    poll_once(store.load(&a)).await;
    loads(store, &a, &[Some(&old), Some(&new)], "a save that was dropped is done or not").await;
}

async fn sweeping_removes_only_what_is_older(store: &impl RobotsStore) {
    let record =
        |host: &str, at| sample_record(&origin(&format!("http://{host}.example")), at, host.to_owned());
    let old = record("old", NOW.minus(2 * TTL));
    let rest = [
        (record("edge", NOW.minus(TTL)), "the time itself is not older"),
        (record("young", NOW), "it is younger"),
        (record("ahead", NOW.plus(HOUR)), "it was saved before the clock was set back"),
    ];
    for record in rest.iter().map(|(record, _)| record).chain([&old]) {
        save(store, record).await;
    }
    let call = format!("sweep({:?})", NOW.minus(TTL));
    let swept = replied(&call, store.sweep(NOW.minus(TTL)).await);
    check(swept == 1, &call, "1 (one record was last asked for before)", swept);
    loads(store, old.origin(), &[None], "it was swept").await;
    for (record, why) in &rest {
        loads(store, record.origin(), &[Some(record)], why).await;
    }
}

async fn a_lease_excludes_and_ends(store: &impl RobotsStore) {
    let (a, b) = (origin("https://a.example"), origin("https://b.example"));
    leases(store, (&a, 1), NOW, LEADS, "the first to ask").await;
    leases(store, (&a, 2), NOW, FOLLOWS, "another process has the lease").await;
    leases(store, (&a, 1), NOW, LEADS, "the holder gets it again").await;
    leases(store, (&b, 2), NOW, LEADS, "each origin has a lease of its own").await;
    loads(store, &a, &[None], "a lease is no record").await;
    leases(store, (&b, 1), NOW.minus(HOUR), LEADS, "the clock was set back by an hour since the lease").await;
    let last = NOW.plus(TTL).minus(Duration::from_millis(1));
    leases(store, (&a, 2), last, FOLLOWS, "the lease lasts for its whole ttl").await;
    leases(store, (&a, 2), NOW.plus(TTL), LEADS, "the lease has ended").await;
}

async fn saving_and_releasing_end_a_lease(store: &impl RobotsStore) {
    let a = origin("https://a.example");
    leases(store, (&a, 1), NOW, LEADS, "the first to ask").await;
    save(store, &sample_record(&a, NOW, "")).await;
    leases(store, (&a, 2), NOW, LEADS, "saving the record has ended the lease").await;
    release(store, &a, 1).await;
    leases(store, (&a, 3), NOW, FOLLOWS, "only the holder releases its lease").await;
    release(store, &a, 2).await;
    leases(store, (&a, 3), NOW, LEADS, "the holder has released it").await;
}

async fn records_of_concurrent_writers_are_whole<S: RobotsStore>(store: Arc<S>) {
    const ORIGINS: u64 = 50;
    let record = |n: u64| {
        let origin = origin(&format!("http://h{}.example", n % ORIGINS));
        sample_record(&origin, NOW.plus(Duration::from_millis(n)), format!("writer {n}"))
    };
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..1_000 {
        let (store, record) = (Arc::clone(&store), record(n));
        writers.spawn(async move { save(&*store, &record).await });
    }
    writers.join_all().await;
    for n in 0..ORIGINS {
        let origin = record(n).origin().clone();
        let last = replied("load", store.load(&origin).await);
        let by = last.map_or(n, |last| last.asked_at().since(NOW).as_millis() as u64);
        loads(&*store, &origin, &[Some(&record(by))], "the whole record of one of the writers").await;
    }
}
