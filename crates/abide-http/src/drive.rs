//! A whole adapter for a client that can send one request: the driver of a call, and robots.txt by the same
//! client.
//!
//! `abide` and `abide-tower` have drivers of their own, because they stand between middlewares and services
//! of others. Any other client needs only to say how a request is sent, and what failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Response};
use http_body::Body;
use http_body_util::BodyExt;
use thiserror::Error;
use url::Url;

use crate::body::{BoxError, ResponseBody};
use crate::call::{Answered, Refused, ResponseHead, Sent};
use crate::crawler::{Crawler, Options};
use crate::failure::{body_failure_of, failure_of, is_of_the_caller, root_cause};
use crate::fetch_info::{CallSpan, RedirectHistory};
use crate::read_timeout::with_read_timeout;
use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse, on_the_wire};
use abide_gate::{BoxFuture, Clock, Failure, SystemClock};

/// An HTTP client, as far as [`drive`] and [`TransportFetch`] need one: it sends one request.
///
/// The example `hyper` of this crate has one for a plain hyper connection.
pub trait Transport: Send + Sync + 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;

    /// Sends one request: without following redirects, repeating it, and undoing content codings, or
    /// robots.txt could lose rules. Of the addresses of a name only those may be used that
    /// [`permitted_addresses`](crate::permitted_addresses) returns. A `SocketAddr` among the extensions of
    /// the response is the address that sent it.
    fn send(&self, request: Outgoing) -> impl Future<Output = Result<Response<Self::Body>, BoxError>> + Send;

    /// What a request met that failed; `None` if the host has no part in it. Default: [`failure_of`], else
    /// [`Failure::Other`].
    fn failure(&self, error: &BoxError) -> Option<Failure> {
        if is_of_the_caller(&**error) {
            return None;
        }
        Some(failure_of(&**error).unwrap_or(Failure::Other))
    }

    /// Whether the request may go out once more under its permit, if it may be processed twice: the server
    /// has closed a kept connection before it responded (RFC 9112 §9.3.1). Default: no, which is right for a
    /// client that opens a connection for each request.
    fn may_send_again(&self, _error: &BoxError) -> bool {
        false
    }
}

/// A request. It can be sent again, so its body is in memory.
///
/// ```
/// let page = abide_http::Outgoing::get("https://example.org/".parse()?);
/// assert_eq!(page.method, http::Method::GET);
/// # Ok::<(), url::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// How long the call may be on the wire, all hops together. A transport that gets the request keeps to
    /// it until the body has ended.
    pub timeout: Option<Duration>,
}

impl Outgoing {
    /// A GET of `url`.
    pub fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new(), timeout: None }
    }
}

/// Why there is no response. [`Denied::find`](abide_gate::Denied::find) finds a refusal in it.
///
/// ```
/// fn hops(error: &abide_http::NoResponse) -> usize {
///     match error {
///         abide_http::NoResponse::Refused(refused) => refused.history.hops().len(),
///         abide_http::NoResponse::Failed { history, .. } => history.hops().len(),
///     }
/// }
/// ```
#[derive(Debug, Error)]
pub enum NoResponse {
    /// By abide.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// By the network: the transport's error, or that the server was silent for too long.
    #[error("the request failed")]
    Failed {
        /// The error.
        #[source]
        error: BoxError,
        /// The hops before.
        history: RedirectHistory,
    },
}

/// Drives a call with a transport: each hop is checked, rate-limited and sent, and the last response is read
/// for permissions. A server that sends nothing for `read_timeout` has failed.
///
/// # Errors
/// [`NoResponse`].
pub async fn drive<T: Transport>(
    crawler: &Crawler,
    options: Options,
    request: Outgoing,
    transport: &T,
    read_timeout: Option<Duration>,
) -> Result<Response<ResponseBody<T::Body>>, NoResponse> {
    let span = CallSpan::begin(&request.method, &request.url);
    let response = span.instrument(hops(crawler, options, request, transport, read_timeout)).await?;
    if let Some(info) = crate::FetchInfo::of(response.extensions()) {
        span.answered(info.hops().len(), response.status(), info.waited());
    }
    Ok(response)
}

async fn hops<T: Transport>(
    crawler: &Crawler,
    options: Options,
    mut request: Outgoing,
    transport: &T,
    read_timeout: Option<Duration>,
) -> Result<Response<ResponseBody<T::Body>>, NoResponse> {
    let mut check = crawler.call(options, &request.method, &request.url, request.timeout);
    loop {
        // What is added for one request, such as its signature, does not go along with a redirect.
        let mut outgoing = request.clone();
        let ready = check.admit(&mut outgoing.headers).await?;
        outgoing.timeout = ready.timeout();
        let mut sent = ready.send(&mut outgoing.headers)?;
        let mut answer = send(&sent, outgoing, transport, read_timeout).await;
        if let Err(Unanswered { may_send_again: true, .. }) = answer
            && sent.may_send_again()
        {
            let mut outgoing = request.clone();
            sent = sent.send_again(&mut outgoing.headers)?;
            outgoing.timeout = sent.timeout();
            answer = send(&sent, outgoing, transport, read_timeout).await;
        }
        let response = match answer {
            Ok(response) => response,
            Err(Unanswered { error, failure, .. }) => {
                let history = sent.failed(failure, &*error).await?;
                return Err(NoResponse::Failed { error, history });
            }
        };
        let head = ResponseHead {
            status: response.status(),
            headers: response.headers(),
            remote_addr: response.extensions().get().copied(),
            url: None,
            is_repeatable: true,
        };
        match sent.answered(head).await {
            Ok(Answered::Follow(follow)) => {
                let keeps_body = follow.keeps_body();
                check = follow.follow(response, &mut request.headers);
                request.method = check.method().clone();
                request.url = check.url().clone();
                if !keeps_body {
                    request.body = Bytes::new();
                }
            }
            Ok(Answered::Done(done)) => {
                return Ok(done.finish(&request.headers, response, read_timeout).await);
            }
            Err(refused) => {
                // Before its permit ends.
                drop(response);
                return Err(refused.into());
            }
        }
    }
}

/// Why a request has no response, and what that means.
struct Unanswered {
    error: BoxError,
    failure: Option<Failure>,
    may_send_again: bool,
}

/// Sends a request once, within the span of the hop and the read timeout.
async fn send<T: Transport>(
    sent: &Sent<'_>,
    request: Outgoing,
    transport: &T,
    read_timeout: Option<Duration>,
) -> Result<Response<T::Body>, Unanswered> {
    let answer = with_read_timeout(read_timeout, transport.send(request));
    match sent.span().instrument(answer).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => {
            let (failure, may_send_again) = (transport.failure(&error), transport.may_send_again(&error));
            Err(Unanswered { error, failure, may_send_again })
        }
        Err(late) => {
            let failure = Some(Failure::Timeout);
            Err(Unanswered { error: late.into(), failure, may_send_again: false })
        }
    }
}

/// Fetches robots.txt by a [`Transport`], so that it comes from the server of the pages.
///
/// ```
/// use std::sync::Arc;
///
/// fn crawler(transport: Arc<impl abide_http::Transport + 'static>) -> Result<abide_http::Crawler, abide_http::BuildError> {
///     let settings = abide_http::Crawler::builder("ExampleBot");
///     let fetch = abide_http::TransportFetch::new(transport, settings.checked_user_agent()?);
///     settings.build(Arc::new(fetch))
/// }
/// ```
pub struct TransportFetch<T> {
    transport: Arc<T>,
    user_agent: HeaderValue,
}

impl<T: Transport> TransportFetch<T> {
    /// Fetches with this User-Agent.
    pub fn new(transport: Arc<T>, user_agent: HeaderValue) -> Self {
        Self { transport, user_agent }
    }
}

impl<T: Transport> Fetch for TransportFetch<T> {
    fn fetch(&self, asked: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        let budget = asked.budget();
        Box::pin(on_the_wire(budget, async move {
            let mut request = Outgoing::get(asked.url().clone());
            request.headers = asked.headers();
            request.headers.insert(USER_AGENT, self.user_agent.clone());
            request.timeout = Some(budget);
            let started = SystemClock.now();
            let response = self.transport.send(request).await.map_err(|error| {
                let failure = self.transport.failure(&error).unwrap_or(Failure::Other);
                let may_be_repeated = self.transport.may_send_again(&error);
                FetchError::new(failure, root_cause(&*error).to_string()).with_repetition(may_be_repeated)
            })?;
            let (parts, body) = response.into_parts();
            let body = body.map_err(|error| {
                let error = error.into();
                FetchError::new(body_failure_of(&*error), root_cause(&*error).to_string())
            });
            Ok(RobotsResponse::new(parts.status, parts.headers, body.boxed_unsync(), started))
        }))
    }
}

impl<T> fmt::Debug for TransportFetch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportFetch").field("user_agent", &self.user_agent).finish_non_exhaustive()
    }
}
