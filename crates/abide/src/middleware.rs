//! The middlewares: one for both halves, or one for each, with a cache between them; and the loop that follows the redirects of a call.
//!
//! `abide_http::Call` decides, and this drives it with reqwest. It stands between the middlewares of a stack, so it says which of them
//! a hop passes: all that are below it.

#![allow(clippy::expect_used, reason = "each hop has one request, as `ONE_REQUEST` says")]

use std::future::ready;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;

use http::{Extensions, HeaderMap, Version};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

use abide_gate::pacing::Permit;
use abide_gate::{Denied, DeniedKind};
use abide_http::{
    Call, CallSpan, Options, RedirectHistory, ResponseBody, Step, admit, log_failed, with_read_timeout,
};

use crate::client::{Abide, Core};
use crate::send::{
    answered, count_sends, head_of, into_http, into_reqwest, refuse, sending, take_short_body,
    with_whole_body,
};
use crate::split_middleware::{Returned, send_paced, send_through_chain};

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
                Box::pin(RedirectLoop::run(core, self.part, request, extensions, next))
            }
        }
    }
}

/// A call under way.
struct RedirectLoop<'a> {
    core: &'a Core,
    part: Part,
    /// Boxed apart from the future, which has the rest: each is below the 1,032 bytes up to which glibc's allocator has a cache for each
    /// thread, both together are not, and a larger block costs more than two small ones.
    call: Box<Call<'a>>,
    /// The next request, until it is sent.
    request: Option<Request>,
    copy: Option<Box<RequestCopy>>,
    /// Whether the client that sends takes no codings off, as one of the user's may.
    keeps_codings: bool,
}

impl<'a> RedirectLoop<'a> {
    /// The whole call, in its span. Not `async`, for then the future would have room twice for what it is given.
    fn run(
        core: &'a Core,
        part: Part,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> impl Future<Output = Result<Response>> {
        let options = extensions.get::<Options>().cloned().unwrap_or_default();
        // Of an attempt before this one, if something above sends again.
        extensions.remove::<RedirectHistory>();
        let timeout = request.timeout().copied().or(core.timeout);
        let mut call = Box::new(Call::new(&core.crawler, options, request.method(), request.url(), timeout));
        if part == Part::Gate {
            call.paced_below();
        }
        let (copy, request) = (RequestCopy::of(&request), Some(request));
        let mut new = Self { core, part, call, copy, request, keeps_codings: false };
        async move {
            // Within the future: what is above may enter its own span only when it is polled.
            let span = CallSpan::begin(new.call.method(), new.call.url());
            span.cover(pin!(new.hops(&span, extensions, &next))).await
        }
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
            self.call.sign(request.headers_mut()).map_err(|denied| self.refused(denied, extensions))?;
            admit(&mut self.call).await.map_err(|denied| self.refused(denied, extensions))?;
            let response = match self.part {
                Part::Gate => Box::pin(self.send_through_chain(extensions, next.clone())).await,
                Part::Whole | Part::Pacing => {
                    let request = self.request.as_mut().expect(ONE_REQUEST);
                    let signed = self.call.add_signature(request.headers_mut());
                    signed.map_err(|denied| self.refused(denied, extensions))?;
                    let next = next.clone();
                    let sending = sending(self.core, &mut self.call, &mut self.request, extensions, next);
                    let sending = pin!(with_read_timeout(self.core.read_timeout, sending));
                    let (is_repeatable, mut sends) = (self.is_repeatable(), 0);
                    let answer = count_sends(&mut sends, self.call.cover(sending)).await;
                    self.keeps_codings = self.core.decodes && (sends > 0 || !self.core.counts_sends);
                    let response = answered(self.core, &mut self.call, answer, sends, is_repeatable);
                    if self.call.permit().is_none_or(Permit::is_saved) {
                        response
                    } else {
                        // Boxed with the response, which is moved less without a wait.
                        Box::pin(async {
                            self.call.saved().await;
                            response
                        })
                        .await
                    }
                }
            };
            let response = response.map_err(|error| self.failed(error, extensions))?;
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

    async fn send_through_chain(&mut self, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let mut request = self.request.take().expect(ONE_REQUEST);
        *request.timeout_mut() = self.call.timeout();
        self.call.add_given(request.headers_mut());
        let (gate, is_repeatable) = (self.core.crawler.gate(), self.is_repeatable());
        let sending = Box::pin(send_through_chain(&mut self.call, gate, request, extensions, next));
        let Returned { response, verdict, wait_left, wire } = sending.await;
        self.call.spend(wait_left);
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

    /// Attaches the fetch info. A short body that is all here ends its permit now.
    ///
    /// # Errors
    /// Otherwise what is to be awaited: more of the body, or the store of permissions.
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
        let mut reading = self.call.reading(request, response.status(), response.headers());
        if self.keeps_codings {
            reading = reading.without_codings_below(response.version(), response.headers());
        }
        let mut ahead = None;
        if reading.is_immediate() {
            match take_short_body(&mut response) {
                Ok(body) => {
                    let info = reading.fetch_info(&body);
                    return Ok(with_whole_body(url, &mut response, body, info));
                }
                Err(taken) => ahead = taken,
            }
        }
        Err(Box::pin(reading.finish(into_http(url, ahead, response, permit, limit))))
    }

    #[cold]
    fn refused(&mut self, denied: Denied, extensions: &mut Extensions) -> Error {
        let denied = self.call.refused(denied);
        extensions.insert(self.call.without_response());
        refuse(denied)
    }

    /// There is no response. A refusal, from below or of this hop, gets the hops before it.
    #[cold]
    fn failed(&mut self, error: Error, extensions: &mut Extensions) -> Error {
        if let Some(denied) = Denied::find(&error) {
            return self.refused(denied, extensions);
        }
        let hops = self.call.history().hops().len();
        log_failed(hops, self.call.url(), &error);
        extensions.insert(self.call.without_response());
        if hops == 0 { error } else { without_long_url(error) }
    }
}

/// reqwest shows the URL of a request in its error, whole, and a server may redirect to one of 300 KB.
fn without_long_url(error: Error) -> Error {
    match error {
        Error::Reqwest(error) if error.url().is_some_and(|url| url.as_str().len() > HOP_URL_SHOWN_MAX) => {
            error.without_url().into()
        }
        error => error,
    }
}

/// Honest URLs are shorter. With one that is not, an error of reqwest has no URL.
const HOP_URL_SHOWN_MAX: usize = 2000;

pub(crate) const ONE_REQUEST: &str = "a hop begins with its request, and ends when it has been sent";

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
