//! The middlewares: one for both halves, or one for each, with a cache between them; and the loop that follows the redirects of a call.

#![allow(clippy::expect_used, reason = "each hop has one request, as `ONE_REQUEST` says")]

use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, Version};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use abide_gate::{Denied, DeniedKind};
use abide_http::{
    Call, CallSpan, Options, RedirectHistory, ResponseBody, Step, Target, admit, log_failed, restore_fields,
};

use crate::client::{Abide, Core};
use crate::send::{
    answered, head_of, into_http, into_reqwest, refuse, sending, take_short_body, with_whole_body,
    wrong_order,
};
use crate::split_middleware::{Sent, send_paced, send_through_chain};

/// Gate and pacing in one middleware: the default.
#[derive(Debug, Clone)]
pub struct AbideMiddleware {
    abide: Abide,
}

/// The outer half: robots.txt, redirect hops, permissions. Needs [`PacingMiddleware`] below it.
#[derive(Debug, Clone)]
pub struct GateMiddleware {
    abide: Abide,
}

/// The inner half: permits and feedback, below an HTTP cache.
#[derive(Debug, Clone)]
pub struct PacingMiddleware {
    abide: Abide,
}

impl AbideMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

impl GateMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

impl PacingMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

/// As `async_trait` would write it, except that the call is made before the future is: with the macro a future has room for the
/// request twice, and it is allocated and moved for every call.
impl Middleware for AbideMiddleware {
    fn handle<'m, 'e, 'n, 'f>(
        &'m self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'f>>
    where
        'm: 'f,
        'e: 'f,
        'n: 'f,
    {
        Box::pin(RedirectLoop::new(&self.abide, Pace::Here, extensions, request).run(extensions, next))
    }
}

#[async_trait]
impl Middleware for GateMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        if !self.abide.core.has_pacing_half.load(Ordering::Relaxed) {
            let gate = self.abide.gate_handle();
            let error = wrong_order(gate, request.url(), DeniedKind::NoPacing);
            Denied::find(&error).iter().for_each(|denied| gate.report_refused(denied));
            return Err(error);
        }
        RedirectLoop::new(&self.abide, Pace::Below, extensions, request).run(extensions, next).await
    }
}

#[async_trait]
impl Middleware for PacingMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        send_paced(&self.abide.core, request, extensions, next).await
    }
}

/// Which middleware acquires the permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Here,
    Below,
}

/// A call under way.
///
/// Its future is allocated for each call, so it is made here, and what is rare is boxed.
pub(crate) struct RedirectLoop<'a> {
    core: &'a Core,
    pace: Pace,
    call: Call<'a>,
    /// The next request, until it is sent.
    request: Option<Request>,
    copy: Option<Box<RequestCopy>>,
}

impl<'a> RedirectLoop<'a> {
    #[inline]
    pub(crate) fn new(abide: &'a Abide, pace: Pace, extensions: &mut Extensions, request: Request) -> Self {
        let options = extensions.get::<Options>().cloned().unwrap_or_default();
        // Of an attempt before this one, if something above sends again.
        extensions.remove::<RedirectHistory>();
        let core = &*abide.core;
        let timeout = request.timeout().copied();
        let call = Call::new(&core.crawler, options, request.method(), request.url(), timeout);
        let call = if pace == Pace::Below { call.paced_below() } else { call };
        Self { core, pace, call, copy: RequestCopy::of(&request), request: Some(request) }
    }

    /// The whole call, in its span.
    #[expect(clippy::manual_async_fn, reason = "it has room twice for what it takes by value")]
    #[inline]
    pub(crate) fn run(
        mut self,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> impl Future<Output = Result<Response>> {
        async move {
            // Within the future: what is above may enter its own span only when it is polled.
            let span = CallSpan::begin(self.call.method(), self.call.url());
            let response = span.cover(pin!(self.hops(extensions, &next))).await;
            let response = match response {
                Ok(response) => response,
                Err(error) => {
                    extensions.insert(self.call.without_response());
                    return Err(error);
                }
            };
            let history = self.call.history();
            span.answered(history.hops().len(), response.status(), history.waited());
            // Apart from the wait: what is matched on would be kept through it.
            let reading = match self.finish(response) {
                Ok(response) => return Ok(response),
                Err(reading) => reading,
            };
            Ok(into_reqwest(span.cover(reading).await))
        }
    }

    /// The last response.
    async fn hops(&mut self, extensions: &mut Extensions, next: &Next<'_>) -> Result<Response> {
        loop {
            let request = self.request.as_mut().expect(ONE_REQUEST);
            self.call.sign(request.headers_mut()).map_err(|denied| self.refused(denied))?;
            admit(&mut self.call).await.map_err(|denied| self.refused(denied))?;
            let response = match self.pace {
                Pace::Here => self.send(extensions, next.clone()).await,
                Pace::Below => self.send_through_chain(extensions, next.clone()).await,
            };
            let response = response.map_err(|error| self.failed(error))?;
            if self.call.step() != Step::Follow {
                return Ok(response);
            }
            Box::pin(self.follow(response)).await;
        }
    }

    async fn send(&mut self, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let (mut request, is_repeatable) = (self.request.take().expect(ONE_REQUEST), self.is_repeatable());
        self.call.add_signature(request.headers_mut()).map_err(refuse)?;
        let sending = sending(self.core, &mut self.call, request, extensions, next);
        let answer = self.call.span().cover(sending).await;
        let response = answered(self.core, &mut self.call, answer, is_repeatable);
        self.call.saved().await;
        let response = response?;
        // A cache below rebuilds its responses, also those that have just come from the wire.
        if response.remote_addr().is_none() {
            self.call.set_source(abide_http::FieldSource::Unknown);
        }
        Ok(response)
    }

    /// Through the chain to the half that paces.
    async fn send_through_chain(&mut self, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let mut request = self.request.take().expect(ONE_REQUEST);
        *request.timeout_mut() = self.call.timeout();
        self.call.add_given(request.headers_mut());
        self.call.sending();
        let is_repeatable = self.is_repeatable();
        let sending =
            Box::pin(send_through_chain(&self.call, self.core.crawler.gate(), request, extensions, next));
        let Sent { response, verdict, wait_left, wire } = self.call.span().cover(sending).await;
        self.call.waited_below(wait_left);
        let mut response = response?;
        self.call.set_source(restore_fields(response.status(), response.headers_mut()));
        self.call.answered_below(head_of(&response, is_repeatable), verdict, wire).map_err(refuse)?;
        Ok(response)
    }

    fn is_repeatable(&self) -> bool {
        self.copy.as_ref().is_none_or(|copy| !copy.has_body || copy.body.is_some())
    }

    /// A redirect: the response is dropped unread, which ends it, and then its permit.
    async fn follow(&mut self, response: Response) {
        self.call.keep_rules(response.status(), response.headers()).await;
        drop(response);
        let target = self.call.follow();
        let request = self.copy.take().unwrap_or_default().follow(target);
        self.copy = RequestCopy::of(&request);
        self.request = Some(request);
    }

    /// Attaches the fetch info. A body that is all here and not read for permissions ends its permit now.
    ///
    /// # Errors
    /// Otherwise what is to be awaited: the head is read.
    fn finish(
        &mut self,
        mut response: Response,
    ) -> std::result::Result<
        Response,
        Pin<Box<impl Future<Output = http::Response<ResponseBody<reqwest::Body>>>>>,
    > {
        let (url, history) = (self.call.url().clone(), self.call.take_history());
        let permit = self.call.take_permit();
        // The half that paces counts the silence of its server.
        let limit = self.core.read_timeout.filter(|_| permit.is_some());
        let reading = self.call.reading(self.copy.as_ref().map(|copy| &copy.headers));
        let Some(unscanned) = reading.without_scan(response.status(), response.headers()) else {
            return Err(Box::pin(reading.finish(history, into_http(url, None, response, permit, limit))));
        };
        match take_short_body(&mut response) {
            Ok(body) => Ok(with_whole_body(url, response, body, unscanned.fetch_info(history))),
            Err(ahead) => {
                Err(Box::pin(reading.finish(history, into_http(url, ahead, response, permit, limit))))
            }
        }
    }

    fn refused(&self, denied: Denied) -> reqwest_middleware::Error {
        refuse(self.call.refused(denied))
    }

    /// There is no response. A refusal, from below or of this hop, gets the hops before it.
    fn failed(&self, error: reqwest_middleware::Error) -> reqwest_middleware::Error {
        match Denied::find(&error) {
            Some(denied) => self.refused(denied),
            None => {
                let hops = self.call.history().hops().len();
                log_failed(hops, self.call.url(), &error);
                if hops == 0 { error } else { without_long_url(error) }
            }
        }
    }
}

/// reqwest shows the URL of a request in its error, whole, and a server may redirect to one of 300 KB.
fn without_long_url(error: reqwest_middleware::Error) -> reqwest_middleware::Error {
    match error {
        reqwest_middleware::Error::Reqwest(error)
            if error.url().is_some_and(|url| url.as_str().len() > HOP_URL_SHOWN_MAX) =>
        {
            error.without_url().into()
        }
        error => error,
    }
}

/// Honest URLs are shorter. With one that is not, an error of reqwest has no URL.
const HOP_URL_SHOWN_MAX: usize = 2000;

const ONE_REQUEST: &str = "a hop begins with its request, and ends when it has been sent";

/// What the next hop may need of this request: taken before anything is added to it. The body is cloned, if it can be.
#[derive(Default)]
struct RequestCopy {
    headers: HeaderMap,
    version: Version,
    has_body: bool,
    body: Option<reqwest::Body>,
}

impl RequestCopy {
    /// `None`: nothing that is worth keeping.
    fn of(request: &Request) -> Option<Box<Self>> {
        let is_plain = request.headers().is_empty() && request.body().is_none();
        if is_plain && request.version() == Version::default() {
            return None;
        }
        Some(Box::new(Self {
            headers: request.headers().clone(),
            version: request.version(),
            has_body: request.body().is_some(),
            body: request.body().and_then(|_| request.try_clone()?.body_mut().take()),
        }))
    }

    fn follow(mut self, target: Target) -> Request {
        target.change(&mut self.headers);
        let mut request = Request::new(target.method().clone(), target.url().clone());
        *request.headers_mut() = self.headers;
        *request.version_mut() = self.version;
        if target.keeps_body() {
            *request.body_mut() = self.body;
        }
        request
    }
}
