//! One request, one hop: asked, paced, sent, read.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, Failure, Gate, Verdict};
use abide_http::PermitBody;
use abide_http::{CallSpan, Hop, Trail, Visit, WatchedBody, tell_failed};
use bytes::Bytes;
use http::{Extensions, HeaderMap, Request, Response, header};
use http_body::Body;
use tower_service::Service;
use url::Url;

use crate::admit::{Unsent, admit, options_of};
use crate::asked::url_of;
use crate::error::ServiceError;
use crate::layer::Core;
use crate::options::Options;
use crate::ready::Ready;
use crate::{BoxError, fault};

/// A service behind the gate. Made by [`AbideLayer`](crate::AbideLayer).
///
/// Each request is one hop: robots.txt of its own origin, its own turn, its own answer. A 3xx is an answer.
#[derive(Clone)]
pub struct AbideService<S> {
    core: Arc<Core>,
    inner: S,
}

/// The body of a response: what the inner service gave, byte for byte, with the turn of its host. The turn is given back when the
/// body has ended or is dropped.
pub type AbideBody<R> = WatchedBody<PermitBody<Pin<Box<R>>>>;

/// A call under way. Dropped before its request has gone out, it gives its turn back.
pub type ResponseFuture<R> =
    Pin<Box<dyn Future<Output = Result<Response<AbideBody<R>>, ServiceError>> + Send>>;

impl<S> AbideService<S> {
    pub(crate) fn new(core: Arc<Core>, inner: S) -> Self {
        Self { core, inner }
    }

    /// The gate: asks without fetching, rules of an origin for many URLs, the next turn of a host, reports.
    pub fn gate(&self) -> &Gate {
        &self.core.gate
    }

    /// The service below.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service below, without the gate.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for AbideService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<AbideBody<R>>;
    type Error = ServiceError;
    type Future = ResponseFuture<R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        self.inner.poll_ready(context).map_err(|error| ServiceError::Inner(error.into()))
    }

    fn call(&mut self, mut request: Request<B>) -> ResponseFuture<R> {
        // The one that was polled ready is called; its clone, which was not, stays.
        let clone = self.inner.clone();
        let ready = Ready::new(mem::replace(&mut self.inner, clone));
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            let url = url_of(&mut request).inspect_err(|error| tell(&core, None, error))?;
            let call = CallSpan::begin(request.method(), &url);
            let visiting = async {
                let answered = visit(&core, request, url.clone(), ready).await;
                answered.inspect_err(|error| tell(&core, Some(&url), error))
            };
            let answered = call.instrument(visiting).await;
            answered.inspect(|response| {
                let waited = Visit::of(response.extensions()).map(Visit::waited).unwrap_or_default();
                call.answered(1, response.status(), waited);
            })
        })
    }
}

impl<S: fmt::Debug> fmt::Debug for AbideService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { core, inner } = self;
        f.debug_struct("AbideService").field("identity", &core.identity).field("inner", inner).finish()
    }
}

/// Tells of a call that ended without an answer.
fn tell(core: &Core, url: Option<&Url>, error: &ServiceError) {
    match (error, url) {
        (ServiceError::Refused(error), _) => core.gate.tell_refused(error),
        (ServiceError::Inner(error), Some(url)) => tell_failed(0, url, &**error),
        (ServiceError::Inner(_) | ServiceError::NoOrigin { .. }, _) => {}
    }
}

/// The whole way of one request.
async fn visit<S, B, R>(
    core: &Core,
    mut request: Request<B>,
    url: Url,
    mut ready: Ready<S>,
) -> Result<Response<AbideBody<R>>, ServiceError>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    core.identity.sign(request.headers_mut())?;
    let options = options_of(request.extensions());
    let (verdict, unsent, waited) = turn_and_reservation(core, &url, &options, &mut ready).await?;
    let method = request.method().clone();
    let conditions = conditions(request.headers());
    let call = ready.call(request);
    let permit = unsent.send();
    let response = match call.await {
        Ok(response) => response,
        Err(error) => return Err(failed(error.into(), url, permit)),
    };
    permit.observe(response.status(), response.headers());
    if !permit.is_saved() {
        Box::pin(permit.saved()).await;
    }
    if let Some(got) = redirected(response.extensions(), &url) {
        return Err(abide_gate::Error::from(Denied::RedirectBypass { asked: url, got }).into());
    }
    let remote = remote_addr(response.extensions());
    let mut trail = Trail::default();
    trail.push(Hop::new(url, response.status(), verdict, waited).with_remote_addr(remote));
    let reading = core.reader.response_to(&method, core.gate.wall()).with_scan(options.scan);
    let reading = reading.with_request(conditions.as_ref());
    let version = response.version();
    let response = response.map(|body| PermitBody::new(Box::pin(body), permit).with_version(version));
    Ok(reading.finish(trail, response).await)
}

/// What a 304 may be the answer to. `None`, as for most requests: nothing.
fn conditions(headers: &HeaderMap) -> Option<HeaderMap> {
    let names = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];
    let lines = names.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    let lines: HeaderMap = lines.map(|(name, value)| (name.clone(), value.clone())).collect();
    if lines.is_empty() { None } else { Some(lines) }
}

/// The host's turn, and the inner service ready for it.
///
/// What waited is judged again before it leaves: rules that have expired or changed while the inner service was not ready are asked
/// for again, with the turn given back, which the robots.txt of the host needs.
async fn turn_and_reservation<S, B>(
    core: &Core,
    url: &Url,
    options: &Options,
    ready: &mut Ready<S>,
) -> Result<(Verdict, Unsent, Duration), ServiceError>
where
    S: Service<Request<B>> + Clone,
    S::Error: Into<BoxError>,
{
    let budget = options.max_wait.unwrap_or_else(|| core.gate.max_wait());
    let mut left = budget;
    loop {
        let (verdict, permit) = wait(core, url, options, &mut left, ready).await?;
        let unsent = Unsent::new(permit);
        let is_late = ready.reserve().await.map_err(|error| ServiceError::Inner(error.into()))?;
        let is_allowed = || core.gate.judge_cached(url).is_some_and(|now| now.is_allowed());
        if !is_late || verdict.override_reason().is_some() || is_allowed() {
            return Ok((verdict, unsent, budget.saturating_sub(left)));
        }
    }
}

/// Waits for the turn; without the reservation of the inner service, unless the turn is there at once.
async fn wait<S: Clone>(
    core: &Core,
    url: &Url,
    options: &Options,
    left: &mut Duration,
    ready: &mut Ready<S>,
) -> Result<(Verdict, Permit), abide_gate::Error> {
    let mut admission = pin!(admit(&core.gate, url, options, left));
    match poll_fn(|context| Poll::Ready(admission.as_mut().poll(context))).await {
        Poll::Ready(turn) => turn,
        Poll::Pending => {
            ready.let_go();
            admission.await
        }
    }
}

/// A request without an answer: what it means for the host, and for the caller.
fn failed(error: BoxError, url: Url, permit: Permit) -> ServiceError {
    let failure = fault::of(&*error);
    if let Some(Failure::AddressRefused(address)) = failure {
        permit.give_back();
        return abide_gate::Error::from(Denied::AddressRefused { url, address: Some(address), hop: 0 })
            .into();
    }
    if let Some(failure) = failure {
        permit.failed(failure);
    }
    ServiceError::Inner(error)
}

/// The URL that answered in place of `asked`, where a redirect layer below says so.
#[cfg(feature = "tower-http")]
pub(crate) fn redirected(extensions: &Extensions, asked: &Url) -> Option<Url> {
    let uri = extensions.get::<tower_http::follow_redirect::RequestUri>()?;
    let got = Url::parse(&uri.0.to_string()).ok()?;
    (got != *asked).then(|| abide_gate::without_userinfo(&got))
}

/// Without the feature `tower-http` nobody says so.
#[cfg(not(feature = "tower-http"))]
pub(crate) fn redirected(_: &Extensions, _: &Url) -> Option<Url> {
    None
}

/// The address that answered, where hyper-util's connector says so.
#[cfg(feature = "hyper-util")]
fn remote_addr(extensions: &Extensions) -> Option<SocketAddr> {
    Some(extensions.get::<hyper_util::client::legacy::connect::HttpInfo>()?.remote_addr())
}

#[cfg(not(feature = "hyper-util"))]
fn remote_addr(_: &Extensions) -> Option<SocketAddr> {
    None
}
