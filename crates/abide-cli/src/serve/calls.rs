//! The calls: which there are, how their bodies are read, and what each does.
//!
//! Each is some lines over the gate. A call that waits does so in its own future, and is dropped with its
//! connection.

use std::time::Duration;

use abide::pacing::Permit;
use abide::{Abide, Denied, DeniedKind, Failure, Refusal, WallMillis};
use abide_robots::ProductToken;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout};
use url::Url;

use super::error::CallError;
use super::guard::Guard;
use super::ledger::{Ledger, PERMITS_MAX};
use super::messages::{
    AcquireCall, Acquired, CheckCall, ExtendCall, Extended, Fault, FinishCall, Finished, Health, NotGranted,
    PermissionsCall,
};
use super::{Reply, json_reply, metrics, openapi, permissions, reply, reports};
use crate::batch;
use crate::check::Checked;
use crate::input::absolute_url;
use crate::json::{OnlineVerdict, RefusalLine, millis, rfc3339_millis};
use crate::outcome::{self, Outcome};

/// What all connections share.
pub(crate) struct Service {
    pub(crate) guard: Guard,
    pub(crate) crawlers: Vec<Crawler>,
    pub(crate) max_wait: Duration,
    /// A place for each call that waits.
    pub(crate) waiting: Semaphore,
    pub(crate) waiting_max: usize,
    /// A place for each page that is read.
    pub(crate) pages: Semaphore,
    pub(crate) ledger: Ledger,
    /// Becomes true when the server ends.
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) metrics: PrometheusHandle,
}

/// One `--agent`.
#[derive(Debug)]
pub(crate) struct Crawler {
    /// The first of its tokens.
    pub(crate) name: String,
    pub(crate) tokens: Vec<ProductToken>,
    pub(crate) abide: Abide,
}

impl Service {
    /// Answers a request. Whatever is wrong with it is an answer, too.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Reply {
        let admitted = self.guard.admit(request.method(), request.uri(), request.headers());
        let answered = match admitted {
            Ok(()) => self.routed(request).await,
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(CallError::reply)
    }

    async fn routed(&self, request: Request<Incoming>) -> Result<Reply, CallError> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let method = match path {
            "/v1/check" | "/v1/acquire" | "/v1/finish" | "/v1/extend" | "/v1/permissions" => Method::POST,
            "/v1/hosts" | "/v1/openapi.json" | "/healthz" | "/metrics" => Method::GET,
            path if path.starts_with("/v1/hosts/") => Method::GET,
            path => return Err(CallError::not_found(path)),
        };
        if head.method != method {
            return Err(CallError::method(if method == Method::GET { "GET" } else { "POST" }));
        }
        match path {
            "/v1/check" => self.check(read(body, CALL_LEN_MAX).await?).await,
            "/v1/acquire" => ok(&self.acquire(read(body, CALL_LEN_MAX).await?).await?),
            "/v1/finish" => ok(&self.finish(read(body, FIELDS_LEN_MAX).await?).await?),
            "/v1/extend" => ok(&self.extend(&read(body, CALL_LEN_MAX).await?)?),
            "/v1/permissions" => {
                // Before the body is read: pages are large.
                let _place = self.pages.acquire().await;
                let call: PermissionsCall = read(body, PAGE_LEN_MAX).await?;
                let crawler = self.crawler(call.agent.as_deref())?;
                ok(&permissions::read(crawler, call).await?)
            }
            "/v1/hosts" => ok(&reports::hosts(&self.crawlers)),
            "/v1/openapi.json" => ok(&openapi::document()),
            "/healthz" => ok(&Health { status: "ok", version: env!("CARGO_PKG_VERSION") }),
            "/metrics" => Ok(reply(StatusCode::OK, PROMETHEUS, metrics::render(self).into())),
            path => ok(&reports::host(&self.crawlers, path.trim_start_matches("/v1/hosts/"))?),
        }
    }

    /// May fetch robots.txt, and acquires nothing for the URL.
    async fn check(&self, call: CheckCall) -> Result<Reply, CallError> {
        let abide = &self.crawler(call.agent.as_deref())?.abide;
        let url = url(&call.url)?;
        let _place = self.place()?;
        ok(&Checked::of(abide, &call.url, url).await.line(abide))
    }

    /// Waits until the request may go out. Dropping this leaves the queue.
    async fn acquire(&self, call: AcquireCall) -> Result<Acquired, CallError> {
        let abide = &self.crawler(call.agent.as_deref())?.abide;
        let (url, ttl) = (url(&call.url)?, call.ttl_ms.map_or(Ok(TTL), ttl)?);
        let max_wait = call.max_wait_ms.map_or(self.max_wait, Duration::from_millis).min(self.max_wait);
        let _place = self.place()?;
        let began = Instant::now();
        let admitted = tokio::select! {
            biased;
            () = self.closed() => return Ok(closing(abide)),
            admitted = abide.admit(&url, max_wait) => admitted,
        };
        let (verdict, permit) = match admitted {
            Ok(admitted) => admitted,
            Err(denied) => return Ok(not_granted(abide, &denied)),
        };
        let gate = abide.gate();
        let (waited_ms, verdict) = (millis(began.elapsed()), OnlineVerdict::new(&verdict, gate.wall()));
        let Some(permit) = self.ledger.enter(permit, url, gate.clone(), ttl) else {
            return Err(CallError::busy(format!("{PERMITS_MAX} permits are open, which is the most")));
        };
        Ok(Acquired::Granted {
            permit,
            expires_at: rfc3339_millis(gate.wall().plus(ttl)),
            waited_ms,
            verdict,
        })
    }

    /// Reports how a request ended, and ends its permit.
    async fn finish(&self, call: FinishCall) -> Result<Finished, CallError> {
        let end = End::of(&call)?;
        let held = self.ledger.take(&call.permit).ok_or_else(CallError::unknown_permit)?;
        let (permit, gate) = (held.permit, held.gate);
        ::metrics::counter!("abide_serve_permits_total", "end" => end.name()).increment(1);
        let (backed_off, refusal) = end.report(&permit, gate.trusts_status());
        // Before the client goes on: no other process must send meanwhile, and no restart forget it.
        permit.saved().await;
        match end {
            End::Unsent => permit.give_back(),
            End::Answered(..) | End::Failed(_) => permit.finish(),
        }
        let next_slot = gate.next_slot(&held.url).map_or_else(|_| gate.wall(), |slot| slot.not_before.into());
        Ok(Finished {
            backed_off_until: backed_off.map(rfc3339_millis),
            refusal: refusal.as_ref().map(RefusalLine::new),
            next_slot: rfc3339_millis(next_slot),
        })
    }

    fn extend(&self, call: &ExtendCall) -> Result<Extended, CallError> {
        let left =
            self.ledger.extend(&call.permit, ttl(call.ttl_ms)?).ok_or_else(CallError::unknown_permit)?;
        Ok(Extended { expires_at: rfc3339_millis(WallMillis::from(std::time::SystemTime::now()).plus(left)) })
    }

    /// The crawler that a call names, or the first.
    fn crawler(&self, name: Option<&str>) -> Result<&Crawler, CallError> {
        let is_named = |crawler: &&Crawler| name.is_none_or(|name| crawler.name.eq_ignore_ascii_case(name));
        self.crawlers.iter().find(is_named).ok_or_else(|| {
            let names: Vec<&str> = self.crawlers.iter().map(|crawler| crawler.name.as_str()).collect();
            CallError::unknown_agent(format!("expected as agent one of {}", names.join(", ")))
        })
    }

    fn place(&self) -> Result<SemaphorePermit<'_>, CallError> {
        let busy = |_| CallError::busy(format!("{} calls wait already (--waiting-max)", self.waiting_max));
        self.waiting.try_acquire().map_err(busy)
    }

    async fn closed(&self) {
        // Its sender lives as long as the server.
        let _ = self.closing.clone().wait_for(|is_closing| *is_closing).await;
    }
}

/// How a request ended, by a call of finish.
enum End {
    Answered(StatusCode, HeaderMap),
    Failed(Failure),
    Unsent,
}

impl End {
    fn of(call: &FinishCall) -> Result<Self, CallError> {
        if call.headers.is_some() && call.status.is_none() {
            return Err(CallError::bad_request("headers: expected the status beside them"));
        }
        match (call.status, call.failed, call.unsent) {
            (Some(code), None, None) => {
                Ok(Self::Answered(status(code)?, fields(call.headers.as_deref().unwrap_or_default())))
            }
            (None, Some(fault), None) => Ok(Self::Failed(fault.into())),
            (None, None, Some(true)) => Ok(Self::Unsent),
            _ => Err(CallError::bad_request("expected exactly one of status, failed and unsent (true)")),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Answered(..) => "answered",
            Self::Failed(_) => "failed",
            Self::Unsent => "unsent",
        }
    }

    /// Tells the host's pacing. Returns the end of its backoff, and who refuses.
    fn report(&self, permit: &Permit, trusts_status: bool) -> (Option<WallMillis>, Option<Refusal>) {
        match self {
            Self::Answered(status, headers) => {
                let refusal = if trusts_status { None } else { Refusal::in_head(*status, headers) };
                (permit.observe(*status, headers), refusal)
            }
            Self::Failed(failure) => (permit.failed(*failure), None),
            Self::Unsent => (None, None),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Connect => Self::Connect,
            Fault::Dns => Self::Dns,
            Fault::Tls => Self::Tls,
            Fault::Timeout => Self::Timeout,
            Fault::Reset => Self::Reset,
            Fault::Other => Self::Other,
        }
    }
}

/// Why there is no permit, as it is answered.
fn not_granted(abide: &Abide, denied: &Denied) -> Acquired {
    let gate = abide.gate();
    gate.report_refused(denied);
    let known = match denied.kind() {
        DeniedKind::Disallowed { verdict } => Some(verdict.clone()),
        _ => gate.check_cached(denied.url()),
    };
    let retry_at = denied.retry_at().map(|time| rfc3339_millis(time.into()));
    let verdict = known.map(|verdict| OnlineVerdict::new(&verdict, gate.wall()));
    let answer = NotGranted { why: outcome::why(denied), retry_at, verdict };
    match Outcome::of(denied) {
        Outcome::Denied => Acquired::Denied(answer),
        Outcome::Deferred => Acquired::Deferred(answer),
        _ => Acquired::Refused(answer),
    }
}

/// The server ends, and takes a moment to be started again.
fn closing(abide: &Abide) -> Acquired {
    let retry_at = Some(rfc3339_millis(abide.gate().wall().plus(Duration::from_secs(5))));
    Acquired::Deferred(NotGranted { why: "abide serve is shutting down".to_owned(), retry_at, verdict: None })
}

/// Reads the JSON of a call.
async fn read<C: DeserializeOwned>(body: Incoming, len_max: usize) -> Result<C, CallError> {
    let collected = timeout(BODY_WITHIN, Limited::new(body, len_max).collect()).await;
    let bytes: Bytes = match collected {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(CallError::too_large(len_max)),
        Ok(Err(_)) => return Err(CallError::bad_request("the body of the call broke off")),
        Err(_) => return Err(CallError::body_timeout()),
    };
    batch::object(bytes.trim_ascii()).map_err(CallError::bad_request)
}

fn ok(answer: &impl Serialize) -> Result<Reply, CallError> {
    Ok(json_reply(StatusCode::OK, answer))
}

pub(crate) fn url(text: &str) -> Result<Url, CallError> {
    if text.len() > URL_LEN_MAX {
        return Err(CallError::bad_request(format!("url: expected at most {URL_LEN_MAX} bytes")));
    }
    absolute_url(text).map_err(CallError::bad_request)
}

/// Of a final response.
pub(crate) fn status(code: u16) -> Result<StatusCode, CallError> {
    let status = StatusCode::from_u16(code).ok().filter(|status| !status.is_informational());
    status.ok_or_else(|| CallError::bad_request(format!("status: expected 200 to 999, found {code}")))
}

fn ttl(ttl_ms: u64) -> Result<Duration, CallError> {
    let ttl = Duration::from_millis(ttl_ms);
    if ttl.is_zero() || ttl > TTL_MAX {
        let most = TTL_MAX.as_millis();
        return Err(CallError::bad_request(format!("ttl_ms: expected 1 to {most}, found {ttl_ms}")));
    }
    Ok(ttl)
}

/// Lenient: what is no field of HTTP is left out, as clients do that read it from the wire. Refusing the call
/// would lose the Retry-After beside it.
pub(crate) fn fields(lines: &[(String, String)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.trim().as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.trim_ascii().as_bytes())) {
            // More names than this many are no response.
            let _ = fields.try_append(name, value);
        }
    }
    fields
}

/// Of a permit whose call names none.
const TTL: Duration = Duration::from_secs(60);

/// A client that needs longer extends its permit.
const TTL_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of a call with a URL or a permit.
const CALL_LEN_MAX: usize = 64 * 1024;

/// Bytes of a call with the header fields of a response: what servers and clients allow for them at most.
const FIELDS_LEN_MAX: usize = 1024 * 1024;

/// Bytes of a call with a page.
const PAGE_LEN_MAX: usize = 16 * 1024 * 1024;

/// Browsers and servers take less.
const URL_LEN_MAX: usize = 32 * 1024;

/// How long a client may take to send the body of a call.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// The text format of Prometheus.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
