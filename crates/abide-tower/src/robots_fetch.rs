//! robots.txt through a clone of a service.
//!
//! It has the connector, TLS and resolver of the pages, so both meet one server, and never the layer, which
//! would wait for itself.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse, on_the_wire};
use abide_gate::{BoxFuture, Clock, Failure, SystemClock};
use abide_http::{body_failure_of, root_cause, same_resource};
use bytes::Bytes;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::BodyExt;
use tower_service::Service;

use crate::BoxError;
use crate::error::failure;
use crate::service::redirected;

/// The transport of robots.txt over clones of a service. Bodies of requests are `B::default()`, which must be
/// empty.
///
/// The service must hand over bodies as they were sent. Codings are asked for and taken off by the gate, to
/// the last byte. A decompression layer in the service would stop after the first gzip member, drop what
/// follows it, and remove the field that says so; abide cannot detect this.
pub(crate) struct ServiceFetch<S, B> {
    /// Locked for as long as a clone takes, so that the service need not be `Sync`.
    service: Mutex<S>,
    user_agent: HeaderValue,
    /// A function's, so that a body that is not `Sync` does not matter.
    body: PhantomData<fn() -> B>,
}

impl<S, B> ServiceFetch<S, B> {
    pub(crate) fn new(service: S, user_agent: HeaderValue) -> Self {
        Self { service: Mutex::new(service), user_agent, body: PhantomData }
    }
}

impl<S, B, R> Fetch for ServiceFetch<S, B>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Default + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    fn fetch(&self, asked: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        let budget = asked.budget();
        // A clone for each request, because a service is ready for one at a time.
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = async move {
            let mut request = Request::new(B::default());
            *request.uri_mut() = Uri::try_from(asked.url().as_str())
                .map_err(|error| FetchError::new(Failure::Other, error.to_string()))?;
            *request.headers_mut() = asked.headers();
            request.headers_mut().insert(USER_AGENT, self.user_agent.clone());
            // A gate counts from its own clock, when the permit was acquired.
            let started = SystemClock.now();
            let no_answer = |error| failed(error, |error| failure(error).unwrap_or(Failure::Other));
            poll_fn(|context| service.poll_ready(context)).await.map_err(no_answer)?;
            let response = service.call(request).await.map_err(no_answer)?;
            if redirected(response.extensions()).is_some_and(|got| !same_resource(&got, asked.url())) {
                let text = "the service follows redirects by itself; put a redirect layer above this one";
                return Err(FetchError::new(Failure::Other, text));
            }
            let (parts, body) = response.into_parts();
            let body = body.map_err(|error| failed(error, body_failure_of)).boxed_unsync();
            Ok(RobotsResponse::new(parts.status, parts.headers, body, started))
        };
        Box::pin(on_the_wire(budget, sent))
    }
}

impl<S, B> fmt::Debug for ServiceFetch<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceFetch").field("user_agent", &self.user_agent).finish_non_exhaustive()
    }
}

/// The failure, in the words of its innermost cause.
fn failed(error: impl Into<BoxError>, failure: fn(&(dyn Error + 'static)) -> Failure) -> FetchError {
    let error = error.into();
    FetchError::new(failure(&*error), root_cause(&*error).to_string())
}
