//! robots.txt through a clone of the inner client of reqwest.
//!
//! It has the proxy, TLS and resolver of the pages, so both meet one server, and never the middleware chain,
//! which would wait for itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Extensions;
use http::header::{COOKIE, HeaderValue, USER_AGENT};
use http_body_util::BodyExt;

use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse, on_the_wire};
use abide_gate::{BoxFuture, Clock, Failure, SystemClock};

use crate::exchange::{ObserveExchanges, Watched};
use crate::http11::Http11;
use crate::middleware::{observe_cookie, reqwest_failure};
use crate::wire::count;
use abide_http::{root_cause, same_resource};

/// One robots.txt request a call, through a reqwest client that neither follows redirects nor decodes bodies.
pub(crate) struct ReqwestFetch {
    pub(crate) client: reqwest::Client,
    pub(crate) user_agent: HeaderValue,
    pub(crate) has_cookies: Arc<AtomicBool>,
    pub(crate) http11: Option<Arc<Http11>>,
    pub(crate) exchanges: Option<Arc<dyn ObserveExchanges>>,
}

impl Fetch for ReqwestFetch {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        Box::pin(on_the_wire(request.budget(), async move {
            let started = SystemClock.now();
            let mut headers = request.headers();
            headers.insert(USER_AGENT, self.user_agent.clone());
            if self.has_cookies.load(Ordering::Relaxed) {
                // The rules must be those that every crawler sees. In reqwest a field of the request's own
                // goes before the jar's, and none can be left out. Not sent without need: a strict server
                // could take an empty field for a bad request, and a 400 allows everything.
                headers.insert(COOKIE, HeaderValue::from_static(""));
            }
            let (url, http11) = (request.url(), self.http11.as_deref());
            let client = http11.and_then(|http11| http11.client_for(url)).unwrap_or(&self.client);
            let built = client.get(url.clone()).headers(headers).timeout(request.budget()).build();
            let built = built.map_err(classify)?;
            let watched = Watched::begin(self.exchanges.as_ref(), &built, &Extensions::new(), false);
            let (sent, wire) = count(client.execute(built)).await;
            let response = match sent {
                Ok(response) => watched.answered(response),
                Err(error) => {
                    let may_be_repeated = wire.may_send_again(url, &error, http11);
                    watched.failed(&error);
                    return Err(classify(error).with_repetition(may_be_repeated));
                }
            };
            response.headers().keys().for_each(|name| observe_cookie(&self.has_cookies, name));
            if !same_resource(response.url(), request.url()) {
                let text =
                    "the inner client follows redirects by itself; build it with redirect::Policy::none()";
                return Err(FetchError::new(Failure::Other, text));
            }
            let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
            let body = body.map_err(classify).boxed_unsync();
            Ok(RobotsResponse::new(parts.status, parts.headers, body, started))
        }))
    }
}

impl fmt::Debug for ReqwestFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReqwestFetch").field("user_agent", &self.user_agent).finish_non_exhaustive()
    }
}

/// What a reqwest error was. Its text loses the URL, which may hold secrets.
fn classify(error: reqwest::Error) -> FetchError {
    let failure = reqwest_failure(&error).unwrap_or(Failure::Other);
    FetchError::new(failure, root_cause(&error.without_url()).to_string())
}
