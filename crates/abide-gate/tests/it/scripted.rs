//! A scripted [`Fetch`]: what the web says to requests for robots.txt.

#![allow(dead_code, reason = "each of the programs that include it uses a part")]
#![allow(clippy::expect_used, reason = "a script that is wrong fails its test")]

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse, on_the_wire};
use abide_gate::{BoxFuture, Failure, Origin, WallMillis};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::{Instant, sleep};

/// How a scripted body ends after its pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum End {
    #[default]
    Clean,
    /// With an error.
    Breaks,
    /// Nothing more comes.
    Stalls,
    /// The last piece comes again and again.
    Never,
}

/// One scripted answer to a robots.txt request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scripted {
    status: u16,
    /// Instead of a head.
    error: Option<FetchError>,
    headers: HeaderMap,
    chunks: Vec<Bytes>,
    end: End,
    slot_wait: Duration,
    head_after: Duration,
    chunk_after: Duration,
    hold: Option<WallMillis>,
    panics: bool,
}

impl Scripted {
    /// An answer with this status, no field, and no body.
    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// 200 with this text.
    pub(crate) fn text(body: impl Into<Bytes>) -> Self {
        Self::status(200).body(body)
    }

    /// 302 to this place.
    pub(crate) fn redirect(to: &str) -> Self {
        Self::status(302).header("location", to.as_bytes())
    }

    /// No head, but this error.
    pub(crate) fn error(failure: Failure) -> Self {
        Self::failing(FetchError::new(failure, "the script says so"))
    }

    /// No head, but what the pacing or the client said.
    pub(crate) fn failing(error: FetchError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// A panic within the fetch.
    pub(crate) fn panic() -> Self {
        Self { panics: true, ..Self::default() }
    }

    /// One more piece of the body.
    pub(crate) fn body(mut self, chunk: impl Into<Bytes>) -> Self {
        self.chunks.push(chunk.into());
        self
    }

    /// One more header field.
    ///
    /// # Panics
    /// If it is none.
    pub(crate) fn header(mut self, name: &'static str, value: &[u8]) -> Self {
        let value = HeaderValue::from_bytes(value).expect("the script's header value is valid");
        self.headers.append(HeaderName::from_static(name), value);
        self
    }

    /// The body breaks off after its pieces.
    pub(crate) fn breaks(self) -> Self {
        Self { end: End::Breaks, ..self }
    }

    /// The body never ends after its pieces.
    pub(crate) fn stalls(self) -> Self {
        Self { end: End::Stalls, ..self }
    }

    /// The last piece of the body comes again and again.
    pub(crate) fn endless(self) -> Self {
        Self { end: End::Never, ..self }
    }

    /// The slot is there after `wait`, and only then the request goes out.
    pub(crate) fn slot_after(self, wait: Duration) -> Self {
        Self { slot_wait: wait, ..self }
    }

    pub(crate) fn head_after(self, wait: Duration) -> Self {
        Self { head_after: wait, ..self }
    }

    pub(crate) fn chunk_after(self, wait: Duration) -> Self {
        Self { chunk_after: wait, ..self }
    }

    /// The answer makes its host wait until then.
    pub(crate) fn backed_off_until(self, until: WallMillis) -> Self {
        Self { hold: Some(until), ..self }
    }
}

/// What was asked, as the script saw it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The URL.
    pub(crate) url: String,
    /// The fields that were to be sent.
    pub(crate) headers: HeaderMap,
    /// When.
    pub(crate) at: Instant,
}

/// The script: what is answered to the how-manieth request (from 0) for a URL.
type Play = dyn Fn(&RobotsRequest, usize) -> Scripted + Send + Sync;

/// A [`Fetch`] that plays a script and writes down what it was asked. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ScriptedFetch {
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
    pub(crate) fn new(play: impl Fn(&RobotsRequest, usize) -> Scripted + Send + Sync + 'static) -> Self {
        Self { play: Arc::new(play), state: Arc::default() }
    }

    /// Answers every request alike.
    pub(crate) fn always(answer: Scripted) -> Self {
        Self::new(move |_, _| answer.clone())
    }

    /// Answers the requests for each URL with these in turn, the last of which is repeated.
    pub(crate) fn in_turn<const N: usize>(answers: [Scripted; N]) -> Self {
        Self::new(move |_, times| answers[times.min(N - 1)].clone())
    }

    /// Answers by URL, each with a list whose last item is repeated; 404 for other URLs.
    pub(crate) fn by_url<const N: usize>(script: [(&str, Vec<Scripted>); N]) -> Self {
        let script: HashMap<String, Vec<Scripted>> = script.map(|(url, list)| (url.to_owned(), list)).into();
        Self::new(move |request, times| match script.get(request.url().as_str()).map(Vec::as_slice) {
            Some([]) | None => Scripted::status(404),
            Some(list) => list[times.min(list.len() - 1)].clone(),
        })
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    /// The URLs that were asked for, in order.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.state().asked.iter().map(|asked| asked.url.clone()).collect()
    }

    /// How many requests there were.
    pub(crate) fn count(&self) -> usize {
        self.state().asked.len()
    }

    /// The most requests for one host's URLs at the same time.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.state().in_flight_max
    }

    /// How many bytes of bodies were taken.
    pub(crate) fn pulled(&self) -> u64 {
        self.state().pulled
    }

    /// Forgets what was asked, and gives its memory back.
    pub(crate) fn forget(&self) {
        *self.state() = State::default();
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
                if let Some(error) = answer.error {
                    return Err(error);
                }
                let status = StatusCode::from_u16(answer.status).expect("a status has three digits");
                let (headers, hold) = (answer.headers.clone(), answer.hold);
                let reply = RobotsResponse::new(status, headers, body(answer, in_flight), started);
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

/// The pieces of the body, and how it ends.
fn body(answer: Scripted, in_flight: InFlight) -> UnsyncBoxBody<Bytes, FetchError> {
    let frames = stream::unfold((answer, 0, in_flight), |(answer, next, in_flight)| async move {
        if !answer.chunk_after.is_zero() {
            sleep(answer.chunk_after).await;
        }
        let last = answer.chunks.len().saturating_sub(1);
        let piece = answer.chunks.get(if answer.end == End::Never { next.min(last) } else { next }).cloned();
        let frame = match (piece, answer.end) {
            (Some(piece), _) => {
                in_flight.fetch.state().pulled += piece.len() as u64;
                Ok(Frame::data(piece))
            }
            (None, End::Breaks) => Err(FetchError::new(Failure::Body, "the script breaks it")),
            (None, End::Stalls) => pending().await,
            (None, End::Clean | End::Never) => return None,
        };
        Some((frame, (answer, next + 1, in_flight)))
    });
    BodyExt::boxed_unsync(StreamBody::new(frames.fuse()))
}
