//! One request, one hop: checked, rate-limited, sent, read.
//!
//! The steps of `abide_http` decide, and this drives them. Redirects are not followed here: a layer above
//! does that, and each hop passes here again.

use std::future::{Future, poll_fn};
use std::mem;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use abide_gate::Gate;
use abide_http::{
    Answered, CallSpan, Check, Crawler, FetchInfo, Options, RedirectPolicy, Refused, ResponseBody,
    ResponseHead, SendRequest, Sent,
};
use bytes::Bytes;
use http::{Extensions, HeaderMap, Request, Response, header};
use http_body::Body;
use tower_service::Service;
use url::Url;

use crate::BoxError;
use crate::error::{ServiceError, failure};
use crate::request_url::url_of;

/// A service behind the gate. Made by [`AbideLayer`](crate::AbideLayer).
///
/// Each request is one hop: robots.txt of its own origin, its own permit, its own answer. A 3xx is an answer.
/// A request without a body is repeated once where the server asks for a signature, a licence or a price that
/// this crawler gives.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tower::{ServiceExt, service_fn};
///
/// let site = service_fn(|_| async { std::io::Result::Ok(http::Response::new("User-agent: *\nDisallow: /b".to_owned())) });
/// let client = abide_tower::AbideLayer::builder("ExampleBot").wrap(site)?;
/// let error = client.oneshot(http::Request::get("http://example.org/b").body(String::new())?).await.unwrap_err();
/// assert!(error.refused().is_some_and(|denied| denied.is_disallowed()));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct AbideService<S> {
    pub(crate) crawler: Arc<Crawler>,
    pub(crate) inner: S,
}

/// The body of the inner service, byte for byte, with the permit of its host, which is given back when the
/// body has ended or is dropped.
pub type AbideBody<R> = ResponseBody<Pin<Box<R>>>;

type ResponseFuture<R> = Pin<Box<dyn Future<Output = Result<Response<AbideBody<R>>, ServiceError>> + Send>>;

impl<S> AbideService<S> {
    /// The gate: asks without fetching, rules of an origin for many URLs, the next slot of a host, reports.
    pub fn gate(&self) -> &Gate {
        self.crawler.gate()
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
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Default + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<AbideBody<R>>;
    type Error = ServiceError;
    /// A call under way. Dropped before its request has gone out, it gives its permit back.
    type Future = ResponseFuture<R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        self.inner.poll_ready(context).map_err(|error| ServiceError::Inner(error.into()))
    }

    fn call(&mut self, mut request: Request<B>) -> ResponseFuture<R> {
        // The one that was polled ready is called; its clone, which was not, stays.
        let clone = self.inner.clone();
        let service = mem::replace(&mut self.inner, clone);
        let crawler = Arc::clone(&self.crawler);
        Box::pin(async move {
            let url = url_of(&mut request)?;
            let span = CallSpan::begin(request.method(), &url);
            // A 3xx is the caller's: a redirect layer above follows it, through this layer again.
            let options = request.extensions().get::<Options>().cloned().unwrap_or_default();
            let options = options.with_redirects(RedirectPolicy::never());
            let check = crawler.call(options, request.method(), &url, None);
            let response = span.instrument(send(check, request, service)).await?;
            if let Some(info) = FetchInfo::of(response.extensions()) {
                span.answered(info.hops().len(), response.status(), info.waited());
            }
            Ok(response)
        })
    }
}

/// The one hop of a call, and its repetitions.
async fn send<S, B, R>(
    mut check: Check<'_>,
    mut request: Request<B>,
    mut service: S,
) -> Result<Response<AbideBody<R>>, ServiceError>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body + Default,
    R: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let conditions = conditions(request.headers());
    loop {
        let ready = admitted(check, request.headers_mut(), &mut service).await?;
        let (mut parts, body) = request.into_parts();
        // It may be sent once more: it has no body, and something may be asked for.
        let copy = (ready.may_repeat() && body.is_end_stream()).then(|| parts.clone());
        let sent = ready.send(&mut parts.headers)?;
        let response = service.call(Request::from_parts(parts, body)).await;
        let response = match response.map_err(Into::<BoxError>::into) {
            Ok(response) => response,
            Err(error) => return Err(failed(sent, error).await),
        };
        let url = redirected(response.extensions());
        let answered = sent.answered(ResponseHead {
            status: response.status(),
            headers: response.headers(),
            remote_addr: remote_addr(response.extensions()),
            url: url.as_ref(),
            is_repeatable: copy.is_some(),
        });
        let done = match (answered.await, copy) {
            (Ok(Answered::Follow(follow)), Some(mut copy)) => {
                check = follow.follow(response, &mut copy.headers);
                request = Request::from_parts(copy, B::default());
                continue;
            }
            (Ok(Answered::Follow(follow)), None) => follow.stop(),
            (Ok(Answered::Done(done)), _) => done,
            (Err(refused), _) => {
                // Before its permit ends.
                drop(response);
                return Err(refused.into());
            }
        };
        return Ok(done.finish(&conditions, response.map(Box::pin), None).await);
    }
}

/// Checked, and with a permit, and the service below is ready.
async fn admitted<'a, S, B>(
    mut check: Check<'a>,
    headers: &mut HeaderMap,
    service: &mut S,
) -> Result<SendRequest<'a>, ServiceError>
where
    S: Service<Request<B>, Error: Into<BoxError>> + Clone,
{
    loop {
        let ready = permitted(check, headers, service).await?;
        let mut is_late = false;
        let reserved = poll_fn(|context| {
            let polled = service.poll_ready(context);
            is_late |= polled.is_pending();
            polled
        });
        reserved.await.map_err(|error| ServiceError::Inner(error.into()))?;
        if !is_late {
            return Ok(ready);
        }
        // The rules may have changed while the service below had no room.
        match ready.was_late() {
            Ok(ready) => return Ok(ready),
            Err(again) => check = again,
        }
    }
}

/// Checked, and with a permit.
///
/// That the service is ready can be a reservation, such as one of a limited number of requests. A request
/// that waits for its permit gives it back, by dropping the clone that has it: it must not keep it from
/// requests to other hosts, nor from its own robots.txt, which would be a deadlock.
async fn permitted<'a, S: Clone>(
    check: Check<'a>,
    headers: &mut HeaderMap,
    service: &mut S,
) -> Result<SendRequest<'a>, Refused> {
    let mut admitting = pin!(check.admit(headers));
    match poll_fn(|context| Poll::Ready(admitting.as_mut().poll(context))).await {
        Poll::Ready(admitted) => admitted,
        Poll::Pending => {
            *service = service.clone();
            admitting.await
        }
    }
}

/// A request without a response is reported.
async fn failed(sent: Sent<'_>, error: BoxError) -> ServiceError {
    match sent.failed(failure(&*error), &*error).await {
        Ok(_) => ServiceError::Inner(error),
        Err(refused) => refused.into(),
    }
}

/// What a 304 or a 206 may be the answer to: nothing, for most requests.
fn conditions(headers: &HeaderMap) -> HeaderMap {
    let names = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::IF_RANGE];
    let lines = names.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    lines.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The URL that answered, where a redirect layer below says so. Without the feature `tower-http` it is
/// unknown.
#[cfg_attr(not(feature = "tower-http"), expect(unused_variables, reason = "nothing says so"))]
pub(crate) fn redirected(extensions: &Extensions) -> Option<Url> {
    #[cfg(feature = "tower-http")]
    return Url::parse(&extensions.get::<tower_http::follow_redirect::RequestUri>()?.0.to_string()).ok();
    #[cfg(not(feature = "tower-http"))]
    return None;
}

/// The address that answered, where hyper-util's connector says so.
#[cfg_attr(not(feature = "hyper-util"), expect(unused_variables, reason = "nothing says so"))]
fn remote_addr(extensions: &Extensions) -> Option<SocketAddr> {
    #[cfg(feature = "hyper-util")]
    return Some(extensions.get::<hyper_util::client::legacy::connect::HttpInfo>()?.remote_addr());
    #[cfg(not(feature = "hyper-util"))]
    return None;
}
