//! The middlewares: one for both halves, or one for each, with a cache between them; and the loop that follows the redirects of a call.

#![allow(clippy::expect_used, reason = "each hop has one request, as `ONE_REQUEST` says")]

use std::future::ready;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;

use http::{Extensions, HeaderMap, Version};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use abide_gate::{Denied, DeniedKind};
use abide_http::{Call, CallSpan, Options, RedirectHistory, ResponseBody, Step, admit, log_failed};

use crate::client::{Abide, Core};
use crate::send::{
    answered, count_sends, head_of, into_http, into_reqwest, refuse, sending, take_short_body,
    with_whole_body,
};
use crate::split_middleware::{Sent, send_paced, send_through_chain};

/// Both halves in one, which is the default, or one of them.
#[derive(Debug, Clone)]
pub(crate) struct AbideMiddleware {
    pub(crate) abide: Abide,
    pub(crate) part: Part,
}

/// What a middleware does of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// The outer half: robots.txt, redirect hops, permissions.
    Gate,
    /// The inner half: permits and feedback, below an HTTP cache.
    Pacing,
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
        let core = &*self.abide.core;
        match self.part {
            Part::Pacing => Box::pin(send_paced(core, request, extensions, next)),
            Part::Gate if !core.has_pacing_half.load(Ordering::Relaxed) => {
                let denied = Denied::new(DeniedKind::NoPacing, request.url(), core.crawler.gate().wall());
                core.crawler.gate().report_refused(&denied);
                Box::pin(ready(Err(refuse(denied))))
            }
            Part::Whole | Part::Gate => {
                Box::pin(RedirectLoop::new(core, self.part, extensions, request).run(extensions, next))
            }
        }
    }
}

/// A call under way.
///
/// It is boxed apart from its future: each is below the 1,032 bytes up to which glibc's allocator has a cache for each thread, both
/// together are not, and a larger block costs more than two small ones.
struct RedirectLoop<'a> {
    core: &'a Core,
    part: Part,
    call: Call<'a>,
    /// The next request, until it is sent.
    request: Option<Request>,
    copy: Option<Box<RequestCopy>>,
}

impl<'a> RedirectLoop<'a> {
    #[inline]
    fn new(core: &'a Core, part: Part, extensions: &mut Extensions, request: Request) -> Box<Self> {
        let options = extensions.get::<Options>().cloned().unwrap_or_default();
        // Of an attempt before this one, if something above sends again.
        extensions.remove::<RedirectHistory>();
        let timeout = request.timeout().copied().or(core.timeout);
        let call = Call::new(&core.crawler, options, request.method(), request.url(), timeout);
        let mut new =
            Box::new(Self { core, part, call, copy: RequestCopy::of(&request), request: Some(request) });
        if part == Part::Gate {
            new.call.paced_below();
        }
        new
    }

    /// The whole call, in its span.
    async fn run(mut self: Box<Self>, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        // Within the future: what is above may enter its own span only when it is polled.
        let span = CallSpan::begin(self.call.method(), self.call.url());
        let response = span.cover(pin!(self.hops(&span, extensions, &next))).await;
        if response.is_err() {
            extensions.insert(self.call.without_response());
        }
        response
    }

    /// Hop by hop to the last response, with its fetch info.
    async fn hops(
        &mut self,
        span: &CallSpan,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Result<Response> {
        let response = loop {
            let request = self.request.as_mut().expect(ONE_REQUEST);
            self.call.sign(request.headers_mut()).map_err(|denied| self.refused(denied))?;
            admit(&mut self.call).await.map_err(|denied| self.refused(denied))?;
            let response = match self.part {
                Part::Gate => self.send_through_chain(extensions, next.clone()).await,
                Part::Whole | Part::Pacing => self.send(extensions, next.clone()).await,
            };
            let response = response.map_err(|error| self.failed(error))?;
            if self.call.step() != Step::Follow {
                break response;
            }
            Box::pin(self.follow(response)).await;
        };
        let history = self.call.history();
        span.answered(history.hops().len(), response.status(), history.waited());
        // Apart from the wait: what is matched on would be kept through it.
        let reading = match self.finish(response) {
            Ok(response) => return Ok(response),
            Err(reading) => reading,
        };
        Ok(into_reqwest(reading.await))
    }

    async fn send(&mut self, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let is_repeatable = self.is_repeatable();
        let sending = pin!(self.sending(extensions, next)?);
        let answer = count_sends(self.call.cover(sending)).await;
        let response = answered(self.core, &mut self.call, answer, is_repeatable);
        self.call.saved().await;
        let response = response?;
        // A cache below rebuilds its responses, also those that have just come from the wire.
        if self.call.history().last().is_none_or(|hop| hop.remote_addr().is_none()) {
            self.call.lost_fields();
        }
        Ok(response)
    }

    /// Not `async`, so that the future of a call has no room for a request.
    fn sending<'f>(
        &mut self,
        extensions: &'f mut Extensions,
        next: Next<'f>,
    ) -> Result<impl Future<Output = io::Result<Result<Response>>> + use<'f>> {
        let mut request = self.request.take().expect(ONE_REQUEST);
        self.call.add_signature(request.headers_mut()).map_err(refuse)?;
        Ok(sending(self.core, &mut self.call, request, extensions, next))
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
        let Sent { response, verdict, wait_left, wire } = self.call.cover(sending).await;
        self.call.waited_below(wait_left);
        let mut response = response?;
        self.call.restore_fields(response.status(), response.headers_mut());
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
        let request = self.copy.take().unwrap_or_default().follow(&mut self.call);
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
        let (url, permit) = (self.call.url().clone(), self.call.take_permit());
        // The half that paces counts the silence of its server.
        let limit = self.core.read_timeout.filter(|_| permit.is_some());
        let request = self.copy.as_ref().map(|copy| &copy.headers);
        let reading = self.call.reading(request, response.status(), response.headers());
        let mut ahead = None;
        if reading.leaves_body() {
            match take_short_body(&mut response) {
                Ok(body) => return Ok(with_whole_body(url, response, body, reading.fetch_info())),
                Err(taken) => ahead = taken,
            }
        }
        Err(Box::pin(reading.finish(into_http(url, ahead, response, permit, limit))))
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

    fn follow(mut self, call: &mut Call<'_>) -> Request {
        let keeps_body = call.follow(&mut self.headers);
        let mut request = Request::new(call.method().clone(), call.url().clone());
        *request.headers_mut() = self.headers;
        *request.version_mut() = self.version;
        if keeps_body {
            *request.body_mut() = self.body;
        }
        request
    }
}
