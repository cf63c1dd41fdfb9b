//! The `/.well-known/tdmrep.json` of a site, where it may reserve text and data mining (TDMRep, final report
//! of 10 May 2024).
//!
//! It is fetched as a page is: by a call of the crawler, so that robots.txt, rate limits and addresses are
//! checked at each of its redirects. What decides is [`TdmrepRecord::after`], a plain function. The cache
//! sees to it that a site is asked once, before its first page, however many callers want one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, Method, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use url::Url;

use crate::body::{BoxError, ResponseBody};
use crate::crawler::{Crawler, Options};
use crate::drive::{NoResponse, Outgoing, Transport, drive};
use crate::failure::body_failure_of;
use crate::fetch_info::FetchInfo;
use abide_gate::pacing::{DeferReason, wait_request};
use abide_gate::robots_cache::{
    Fetch, FetchError, RobotsPolicy, RobotsRequest, RobotsResponse, stated_lifetime,
};
use abide_gate::{
    BoxFuture, Clock, Denied, DeniedKind, Failure, Host, Origin, SystemClock, Verdict, WallMillis,
};
use abide_robots::Target;

const PATH: &str = "/.well-known/tdmrep.json";

/// As of a robots.txt. Sites that list their pages one by one are wrong, but not by more than this.
const LEN_MAX: usize = 512_000;
/// For all its redirects together, as of a robots.txt.
const ON_THE_WIRE_MAX: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// After a failure, doubling.
const RETRY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3_600));
/// A copy that is only confirmed is fetched again after so long: a 304 may come from a server that looks at
/// the time of the file alone.
const CONFIRMED_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// For a million sites, of which few have the file.
const MEMORY_MAX: u64 = 512 << 20;
/// What moka and a record without a text take.
const RECORD_LEN: u32 = 500;

/// What is known of it when a page is requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Tdmrep {
    /// It is not fetched.
    #[default]
    NotFetched,
    /// 404 or 410.
    Absent,
    /// It could not be fetched and there is no copy, or it is empty, cut, or an HTML page.
    Unknown,
    /// Its JSON, which is unread.
    Text(Bytes),
}

impl Tdmrep {
    pub(crate) fn text(&self) -> Option<&[u8]> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// What a body says that is `cut` at the limit. An error page with status 200 is no JSON.
    fn of_body(body: Vec<u8>, cut: bool) -> Self {
        let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body).trim_ascii();
        if cut || text.is_empty() || text.starts_with(b"<") { Self::Unknown } else { Self::Text(body.into()) }
    }
}

/// What is done where it is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OnUnknown {
    Go,
    Refuse,
}

/// How an attempt to fetch it ended.
#[derive(Debug)]
enum Outcome {
    /// The server says what there is, for so long. With what a later request can ask whether it has changed.
    Known { file: Tdmrep, lifetime: Option<Duration>, validators: HeaderMap },
    /// 304: the copy is still the server's.
    Confirmed { lifetime: Option<Duration> },
    /// It is unknown for now.
    Failed,
}

impl Outcome {
    /// Nothing is known, and that will stay so for a while.
    fn nothing(lifetime: Option<Duration>) -> Self {
        Self::Known { file: Tdmrep::Unknown, lifetime, validators: HeaderMap::new() }
    }
}

#[derive(Clone, Debug)]
struct TdmrepRecord {
    file: Tdmrep,
    fetched: WallMillis,
    /// When it was fetched or confirmed.
    asked: WallMillis,
    fresh_until: WallMillis,
    failures: u32,
    /// `If-None-Match` and `If-Modified-Since` of the next request.
    validators: HeaderMap,
    /// How long its requests waited for permits.
    waited: Duration,
}

impl TdmrepRecord {
    /// The record after an attempt that ended at `now`. Requests to the host are a `delay` apart.
    fn after(before: Option<&Self>, outcome: Outcome, now: WallMillis, delay: Duration) -> Self {
        let new = |file, validators, lifetime: Duration| Self {
            file,
            validators,
            fetched: now,
            asked: now,
            // Or it would be requested in place of each page that waits behind it.
            fresh_until: now.plus(lifetime.max(delay.saturating_mul(3))),
            failures: 0,
            waited: Duration::ZERO,
        };
        let last = before.map_or(Tdmrep::Unknown, |before| before.file.clone());
        let fetched = before.map_or(now, |before| before.fetched.min(now));
        match outcome {
            Outcome::Known { file, lifetime, validators } => new(file, validators, lifetime.unwrap_or(DAY)),
            Outcome::Confirmed { lifetime } => {
                let validators = before.map(|before| before.validators.clone()).unwrap_or_default();
                Self { fetched, ..new(last, validators, lifetime.unwrap_or(DAY)) }
            }
            // The last good copy. That there was none is not one: it may be there by now.
            Outcome::Failed => {
                let file = if last == Tdmrep::Absent { Tdmrep::Unknown } else { last };
                let failures = before.map_or(0, |before| before.failures);
                let retry = RETRY.0.saturating_mul(1 << failures.min(6)).min(RETRY.1);
                Self { fetched, failures: failures.saturating_add(1), ..new(file, HeaderMap::new(), retry) }
            }
        }
    }

    /// Not if it is from the future: then the clock was set back.
    fn is_fresh(&self, now: WallMillis) -> bool {
        self.asked <= now && now < self.fresh_until
    }

    /// The fields by which a server says that nothing has changed.
    fn conditions(&self, now: WallMillis) -> HeaderMap {
        let is_old = now.since(self.fetched) >= CONFIRMED_MAX;
        if is_old || self.file.text().is_none() { HeaderMap::new() } else { self.validators.clone() }
    }
}

/// The files of many sites, and how they are fetched.
pub(crate) struct TdmrepCache {
    /// With the gate and the name of the pages' crawler.
    crawler: Crawler,
    fetch: Arc<dyn Fetch>,
    on_unknown: OnUnknown,
    records: Cache<Origin, Arc<TdmrepRecord>>,
    /// Each channel says whether its request has been sent, and closes when its fetch has ended.
    fetches: Mutex<HashMap<Origin, watch::Receiver<bool>>>,
}

/// So many at a time, as of robots.txt: each has a task.
const FETCHES_MAX: usize = 10_000;

/// What a caller that needs the file does.
enum Next {
    Use(Arc<TdmrepRecord>),
    Wait(watch::Receiver<bool>),
    Fetch(Running, watch::Receiver<bool>),
    /// There are too many.
    Refuse,
}

impl TdmrepCache {
    /// `crawler` sends nothing but these files, by `fetch`.
    pub(crate) fn new(crawler: Crawler, fetch: Arc<dyn Fetch>, on_unknown: OnUnknown) -> Self {
        let weigh = |_: &Origin, record: &Arc<TdmrepRecord>| {
            let len = record.file.text().map_or(0, <[u8]>::len);
            u32::try_from(len).unwrap_or(u32::MAX).saturating_add(RECORD_LEN)
        };
        let records = Cache::builder().max_capacity(MEMORY_MAX).weigher(weigh);
        let records = records.eviction_policy(EvictionPolicy::lru()).build();
        Self { crawler, fetch, on_unknown, records, fetches: Mutex::default() }
    }

    /// What is known before the page at `url`, which `verdict` allows, is requested. This may fetch the file.
    /// The wait for its permits is taken from `left`.
    ///
    /// In a box, because the fetch is itself a call that is checked.
    pub(crate) fn before<'f>(
        self: &'f Arc<Self>,
        verdict: &'f Verdict,
        url: &'f Url,
        left: &'f mut Duration,
    ) -> BoxFuture<'f, Result<Tdmrep, Denied>> {
        Box::pin(self.before_page(verdict, url, left))
    }

    async fn before_page(
        self: &Arc<Self>,
        verdict: &Verdict,
        url: &Url,
        left: &mut Duration,
    ) -> Result<Tdmrep, Denied> {
        let (mut file, mut retry_at) = (Tdmrep::Unknown, None);
        // robots.txt can deny it like any other file.
        if let Some(entry) = verdict.entry().filter(|entry| entry.is_allowed(&Target::new(PATH))) {
            let record = self.record(entry.origin(), left).await.map_err(|denied| denied.with_url(url))?;
            (file, retry_at) = (record.file.clone(), Some(record.fresh_until));
        }
        if self.on_unknown == OnUnknown::Refuse && file == Tdmrep::Unknown {
            return Err(self.denied(DeniedKind::TdmrepUnknown, url).with_retry_at(retry_at));
        }
        Ok(file)
    }

    /// What is known without I/O.
    pub(crate) fn cached(&self, url: &Url) -> Tdmrep {
        let known = Origin::of(url).ok().and_then(|origin| self.fresh(&origin));
        known.map_or(Tdmrep::Unknown, |record| record.file.clone())
    }

    fn denied(&self, kind: DeniedKind, url: &Url) -> Denied {
        self.crawler.gate.deny(kind, url)
    }

    fn fresh(&self, origin: &Origin) -> Option<Arc<TdmrepRecord>> {
        self.records.get(origin).filter(|record| record.is_fresh(self.crawler.gate.wall()))
    }

    async fn record(
        self: &Arc<Self>,
        origin: &Origin,
        left: &mut Duration,
    ) -> Result<Arc<TdmrepRecord>, Denied> {
        if let Some(record) = self.fresh(origin) {
            return Ok(record);
        }
        let url = origin.robots_url().join(PATH);
        let url = url.map_err(|_| self.denied(DeniedKind::UnsupportedUrl, &origin.robots_url()))?;
        let Ok(runtime) = Handle::try_current() else { return Err(self.denied(DeniedKind::NoTimers, &url)) };
        let gate = &self.crawler.gate;
        let began = gate.now();
        loop {
            match self.next(origin) {
                Next::Use(record) => {
                    // A caller that comes while it is fetched has waited for less of that.
                    let since = gate.now().saturating_duration_since(began);
                    *left = left.saturating_sub(record.waited.min(since));
                    return Ok(record);
                }
                Next::Wait(mut state) => {
                    self.refuse_a_long_wait(&url, *left).await?;
                    self.until_sent(&mut state, &url, *left).await?;
                    // The error says that it has ended.
                    let _ = state.wait_for(|_| false).await;
                }
                Next::Fetch(running, mut state) => {
                    self.refuse_a_long_wait(&url, *left).await?;
                    let wait_max = (*left).max(gate.max_wait());
                    // A task of its own: cancelling one caller does not cancel the fetch for the others.
                    let fetched = runtime.spawn(running.fetch(url.clone(), wait_max));
                    self.until_sent(&mut state, &url, *left).await?;
                    fetched.await.unwrap_or_else(|_| Err(self.denied(DeniedKind::Interrupted, &url)))?;
                }
                Next::Refuse => return Err(self.denied(DeniedKind::Interrupted, &url)),
            }
        }
    }

    fn next(self: &Arc<Self>, origin: &Origin) -> Next {
        let mut fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(record) = self.fresh(origin) {
            return Next::Use(record);
        }
        if let Some(running) = fetches.get(origin) {
            return Next::Wait(running.clone());
        }
        if fetches.len() >= FETCHES_MAX {
            return Next::Refuse;
        }
        let (is_sent, state) = watch::channel(false);
        fetches.insert(origin.clone(), state.clone());
        Next::Fetch(Running { cache: Arc::clone(self), origin: origin.clone(), is_sent }, state)
    }

    /// Waits for the permit of a fetch, for as long as the caller has left. Behind that the file has a
    /// deadline of its own, and its redirects wait by the budget of the fetch.
    async fn until_sent(
        &self,
        state: &mut watch::Receiver<bool>,
        url: &Url,
        left: Duration,
    ) -> Result<(), Denied> {
        if timeout(left, state.wait_for(|is_sent| *is_sent)).await.is_ok() {
            return Ok(());
        }
        // The pacer says why, unless the host is free just now.
        self.refuse_a_long_wait(url, Duration::ZERO).await?;
        let slot = self.crawler.gate.next_slot(url)?;
        let reason = DeferReason::Delay { delay: slot.wait };
        Err(self.denied(DeniedKind::Deferred { reason }, url).with_retry_at(Some(slot.not_before.into())))
    }

    /// Refuses at once where the fetch, which all its callers share, would wait for its permit for longer
    /// than this caller has left.
    async fn refuse_a_long_wait(&self, url: &Url, left: Duration) -> Result<(), Denied> {
        let slot = self.crawler.gate.next_slot(url)?;
        if slot.wait > left {
            let check = self.crawler.call(options(left), &Method::GET, url, None);
            // The pacer says why. If it does not refuse it after all, the permit is returned unused.
            drop(check.admit(&mut HeaderMap::new()).await?);
        }
        Ok(())
    }
}

/// A fetch, the only one of its origin while it lives.
struct Running {
    cache: Arc<TdmrepCache>,
    origin: Origin,
    is_sent: watch::Sender<bool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cache.fetches.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.origin);
    }
}

impl Running {
    /// Fetches the file, and keeps what is known then.
    async fn fetch(self, url: Url, wait_max: Duration) -> Result<(), Denied> {
        let TdmrepCache { crawler, fetch, records, .. } = &*self.cache;
        let transport = &FetchTransport { fetch: Arc::clone(fetch), is_sent: self.is_sent.clone() };
        let before = records.get(&self.origin);
        let now = || crawler.gate.wall();
        let mut request = Outgoing::get(url.clone());
        request.timeout = Some(ON_THE_WIRE_MAX);
        request.headers = before.as_deref().map(|before| before.conditions(now())).unwrap_or_default();
        let is_conditional = !request.headers.is_empty();
        let (outcome, waited) = match drive(crawler, options(wait_max), request, transport, None).await {
            Ok(response) => {
                let waited = FetchInfo::of(response.extensions()).map(FetchInfo::waited);
                (read(response, is_conditional, now()).await, waited.unwrap_or_default())
            }
            Err(NoResponse::Refused(refused)) => {
                let denied = &refused.denied;
                let outcome = match denied.kind() {
                    // Nothing was sent, and the page would be deferred as well. Redirects may lead to any
                    // host.
                    DeniedKind::Deferred { .. } | DeniedKind::Refusing { .. } if denied.hop() == 0 => {
                        return Err(refused.denied);
                    }
                    DeniedKind::TooManyRedirects => Outcome::nothing(Some(RETRY.1)),
                    _ => Outcome::Failed,
                };
                (outcome, refused.history.waited())
            }
            Err(NoResponse::Failed { history, .. }) => (Outcome::Failed, history.waited()),
        };
        let delay = Host::of(&url).ok().and_then(|host| crawler.gate.report(&host));
        let delay = delay.map(|report| report.delay).unwrap_or_default();
        let record = TdmrepRecord::after(before.as_deref(), outcome, now(), delay);
        records.insert(self.origin.clone(), Arc::new(TdmrepRecord { waited, ..record }));
        Ok(())
    }
}

fn options(wait_max: Duration) -> Options {
    Options::new().with_max_wait(wait_max)
}

/// What a response says that came at `now`.
async fn read(response: Response<ResponseBody<FetchBody>>, is_conditional: bool, now: WallMillis) -> Outcome {
    let urls: Vec<_> = FetchInfo::of(response.extensions()).iter().flat_map(|info| info.hops()).collect();
    // A reservation that was fetched without TLS can be changed on the way.
    let is_downgraded = urls.windows(2).any(|pair| {
        let [from, to] = pair else { return false };
        from.url().scheme() == "https" && to.url().scheme() != "https"
    });
    let is_direct = urls.len() <= 1;
    // What stands before the site has answered, whatever the status.
    let is_refused = FetchInfo::of(response.extensions()).is_some_and(|info| info.refusal().is_some());
    let (status, headers) = (response.status(), response.headers());
    let lifetime = stated_lifetime(headers, &RobotsPolicy::default());
    match status.as_u16() {
        _ if is_downgraded || is_refused => Outcome::Failed,
        304 if is_conditional && is_direct => Outcome::Confirmed { lifetime },
        404 | 410 => Outcome::Known { file: Tdmrep::Absent, lifetime, validators: HeaderMap::new() },
        // A part, which was not asked for.
        206 => Outcome::Failed,
        200..=299 => {
            let validators = if is_direct { validators(headers) } else { HeaderMap::new() };
            match body(response).await {
                Some((body, cut)) => {
                    Outcome::Known { file: Tdmrep::of_body(body, cut), lifetime, validators }
                }
                None => Outcome::Failed,
            }
        }
        // Stricter: "not you" or "not now" is not "there is none".
        401 | 403 | 407 | 408 | 421 | 425 => Outcome::Failed,
        400..=499 if !wait_request(status, headers, now).backs_off() => Outcome::nothing(lifetime),
        _ => Outcome::Failed,
    }
}

/// The validators of a response, as the fields of a later request.
fn validators(headers: &HeaderMap) -> HeaderMap {
    let fields = [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)];
    let found = fields.into_iter().filter_map(|(from, to)| Some((to, headers.get(from)?.clone())));
    // A longer one would be sent with each request, and is kept for a million sites.
    found.filter(|(_, value)| value.len() <= 1_024).collect()
}

/// The body, and whether it is cut at the limit. `None`: it broke off, or took too long.
async fn body(response: Response<ResponseBody<FetchBody>>) -> Option<(Vec<u8>, bool)> {
    let (parts, body) = response.into_parts();
    let OnTheWire { budget, started } = *parts.extensions.get()?;
    let left = budget.saturating_sub(SystemClock.now().saturating_duration_since(started));
    let body = body.map_err(|error| FetchError::new(body_failure_of(&*error), error.to_string()));
    let response = RobotsResponse::new(parts.status, parts.headers, body.boxed_unsync(), SystemClock.now());
    timeout(left, response.read(LEN_MAX)).await.ok()?.ok()
}

type FetchBody = UnsyncBoxBody<Bytes, FetchError>;

/// When a request was sent, and how long it may take with the body of its response.
#[derive(Clone, Copy)]
struct OnTheWire {
    started: Instant,
    budget: Duration,
}

/// Sends a request by the transport of robots.txt: the client of the pages, without cookies and credentials.
struct FetchTransport {
    fetch: Arc<dyn Fetch>,
    is_sent: watch::Sender<bool>,
}

impl Transport for FetchTransport {
    type Body = FetchBody;

    async fn send(&self, request: Outgoing) -> Result<Response<FetchBody>, BoxError> {
        let budget = request.timeout.unwrap_or(ON_THE_WIRE_MAX);
        let request = RobotsRequest::new(request.url, budget).with_fields(request.headers);
        self.is_sent.send_replace(true);
        let reply = self.fetch.fetch(request).await?;
        let mut response = Response::new(());
        *response.status_mut() = reply.status();
        response.headers_mut().clone_from(reply.headers());
        response.extensions_mut().insert(OnTheWire { started: reply.started(), budget });
        Ok(response.map(|()| reply.into_body()))
    }

    fn failure(&self, error: &BoxError) -> Option<Failure> {
        error.downcast_ref::<FetchError>().map_or(Some(Failure::Other), FetchError::failure)
    }

    fn may_send_again(&self, error: &BoxError) -> bool {
        error.downcast_ref().is_some_and(FetchError::may_be_repeated)
    }
}

impl fmt::Debug for TdmrepCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TdmrepCache").field("on_unknown", &self.on_unknown).finish_non_exhaustive()
    }
}
