//! The middleware: the loop that follows the redirects of a call, and one request on the wire, with its response in reqwest's types.
//!
//! `abide_http::Call` decides, and this drives it with reqwest. It stands between the middlewares of a stack, so it says which of them
//! a hop passes: all that are below it. Here is all that reqwest has a say in: how often it sends, when a request failed and why, content
//! codings, and how a response is taken apart and put together again, for reqwest has no way to change the body of one.

#![allow(clippy::expect_used, reason = "each `expect` says why it holds")]

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue, RANGE, SET_COOKIE,
};
use http::{Extensions, HeaderMap, Method, Version};
use reqwest::{Request, Response, ResponseBuilderExt};
use reqwest_middleware::{Error, Middleware, Next, Result};
use url::Url;

use abide_gate::pacing::Permit;
use abide_gate::{BoxFuture, Denied, DeniedKind, Failure, decoder, without_userinfo};
use abide_http::{
    Call, CallSpan, Crawler, Options, RedirectHistory, ResponseBody, ResponseHead, Step, admit,
    body_failure_of, failure_of, is_of_the_caller, log_failed, with_read_timeout,
};

use crate::client::{Abide, Core};
use crate::wire::{Wire, count};

#[derive(Debug, Clone)]
pub(crate) struct AbideMiddleware {
    pub(crate) abide: Abide,
}

/// As `async_trait` would write it, but the call is made before the future: with the macro a future has room for the request twice, and it is
/// allocated and moved for each call.
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
        Box::pin(RedirectLoop::run(core, request, extensions, next))
    }
}

struct RedirectLoop<'a> {
    core: &'a Core,
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
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> impl Future<Output = Result<Response>> {
        let options = extensions.get::<Options>().cloned().unwrap_or_default();
        // Of an attempt before this one, if something above sends again.
        extensions.remove::<RedirectHistory>();
        let timeout = request.timeout().copied().or(core.timeout);
        let call = Box::new(Call::new(&core.crawler, options, request.method(), request.url(), timeout));
        let (copy, request) = (RequestCopy::of(&request), Some(request));
        let mut new = Self { core, call, copy, request, keeps_codings: false };
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
        loop {
            let request = self.request.as_mut().expect(ONE_REQUEST);
            self.call.sign(request.headers_mut()).map_err(|denied| self.refused(denied, extensions))?;
            admit(&mut self.call).await.map_err(|denied| self.refused(denied, extensions))?;
            let is_repeatable = self.copy.as_ref().is_none_or(|copy| !copy.has_body || copy.body.is_some());
            let (mut place, next) = (None, next.clone());
            let (call, request, copy) = (&mut self.call, &mut self.request, &mut self.copy);
            let sent =
                send_and_report(self.core, call, request, copy, is_repeatable, extensions, next, &mut place);
            let answered = sent.await;
            self.call.saved().await;
            let sends = answered.map_err(|error| self.failed(error, extensions))?;
            self.keeps_codings = self.core.decodes && (sends > 0 || !self.core.counts_sends);
            if self.call.step() == Step::Follow {
                Box::pin(self.follow(place.expect(ANSWERED))).await;
                continue;
            }
            let history = self.call.history();
            span.answered(history.hops().len(), place.as_ref().expect(ANSWERED).status(), history.waited());
            // Apart from the wait: what is matched on would be kept through it.
            let reading = match self.finish(&mut place) {
                Ok(response) => return Ok(response),
                Err(reading) => reading,
            };
            return Ok(Response::from(reading.await.map(reqwest::Body::wrap)));
        }
    }

    /// A redirect: the response is dropped unread, which ends it, and then its permit.
    async fn follow(&mut self, response: Response) {
        self.call.keep_rules(response.status(), response.headers()).await;
        drop(response);
        let mut copy = *self.copy.take().unwrap_or_default();
        let keeps_body = self.call.follow(&mut copy.headers);
        let mut request = Request::new(self.call.method().clone(), self.call.url().clone());
        *request.headers_mut() = copy.headers;
        *request.version_mut() = copy.version;
        if keeps_body {
            *request.body_mut() = copy.body;
        }
        self.copy = RequestCopy::of(&request);
        self.request = Some(request);
    }

    /// Attaches the fetch info. A short body that is all here ends its permit now.
    ///
    /// # Errors
    /// Otherwise what is to be awaited: more of the body, or the store of permissions.
    fn finish(
        &mut self,
        place: &mut Option<Response>,
    ) -> std::result::Result<Response, BoxFuture<'_, http::Response<ResponseBody<reqwest::Body>>>> {
        let response = place.as_mut().expect(ANSWERED);
        let (url, permit) = (self.call.url().clone(), self.call.take_permit());
        let limit = self.core.read_timeout;
        let request = self.copy.as_ref().map(|copy| &copy.headers);
        let mut reading = self.call.reading(request, response.status(), response.headers());
        if self.keeps_codings {
            reading.codings_kept_below(response.version(), response.headers());
        }
        let mut ahead = None;
        if reading.is_immediate() {
            match take_short_body(response) {
                Ok(body) => {
                    let info = reading.fetch_info(&body);
                    let mut whole = Response::from(take_head(url, response, body));
                    whole.extensions_mut().insert(info);
                    return Ok(whole);
                }
                Err(taken) => ahead = taken,
            }
        }
        let response = place.take().expect(ANSWERED);
        Err(Box::pin(reading.finish(into_http(url, ahead, response, permit, limit))))
    }

    #[cold]
    fn refused(&mut self, denied: Denied, extensions: &mut Extensions) -> Error {
        let denied = self.call.refused(denied);
        extensions.insert(self.call.take_history());
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
        extensions.insert(self.call.take_history());
        let is_long = error.url().is_some_and(|url| url.as_str().len() > HOP_URL_SHOWN_MAX);
        // reqwest shows the URL of a request in its error, whole, and a server may redirect to one of 300 KB.
        if hops > 0 && is_long { error.without_url() } else { error }
    }
}

/// Honest URLs are shorter. With one that is not, an error of reqwest has no URL.
const HOP_URL_SHOWN_MAX: usize = 2000;

const ANSWERED: &str = "a hop has its response, unless it ends with an error";

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

    /// The request again, unless it has a body that can be sent only once.
    fn request(copy: &mut Option<Box<Self>>, method: Method, url: Url) -> Option<Request> {
        let mut request = Request::new(method, url);
        let Some(copy) = copy else { return Some(request) };
        request.headers_mut().clone_from(&copy.headers);
        *request.version_mut() = copy.version;
        *request.body_mut() = copy.body.take();
        let again = request.try_clone();
        copy.body = request.body_mut().take();
        again.filter(|again| again.body().is_some() == copy.has_body)
    }
}

/// See [`Abide::read`].
pub(crate) async fn read(crawler: &Crawler, mut response: Response) -> Response {
    let url = response.url().clone();
    let head = take_head(url.clone(), &mut response, ());
    let read = crawler.read(&url, head.map(|()| reqwest::Body::from(response))).await;
    Response::from(read.map(reqwest::Body::wrap))
}

/// Signs and sends a request that has its permit, and reports the result to the call. Returns how often the client counted it.
///
/// Takes the request at the last moment, and puts the response into `place`: every function and future on the way would copy their 264 and 136
/// bytes. Await [`Call::saved`] before the caller of abide has it.
#[expect(clippy::too_many_arguments, reason = "what is taken apart is not moved")]
async fn send_and_report(
    core: &Core,
    call: &mut Call<'_>,
    taken: &mut Option<Request>,
    copy: &mut Option<Box<RequestCopy>>,
    is_repeatable: bool,
    extensions: &mut Extensions,
    next: Next<'_>,
    place: &mut Option<Response>,
) -> Result<u32> {
    let request = taken.as_mut().expect(ONE_REQUEST);
    // Setting it allocates among the request's extensions.
    if request.timeout().copied() != call.timeout() {
        *request.timeout_mut() = call.timeout();
    }
    let mut wire = Wire::default();
    let sent = send(core, call, taken, &mut wire, extensions, next.clone(), place).await;
    let again = sent.as_ref().err().and_then(|error| request_again(core, call, copy, wire, error));
    let sent = match again {
        // One permit, and one request that is responded to: the one before has ended, and its server has closed the connection or not taken it.
        Some(request) => {
            (*taken, wire) = (Some(request), Wire::default());
            Box::pin(send(core, call, taken, &mut wire, extensions, next, place)).await
        }
        None => sent,
    };
    let sends = wire.sends;
    match sent {
        Ok(()) => {}
        Err(SendError::Refused(denied)) => return Err(refuse(denied)),
        Err(SendError::Failed(_)) if sends > 1 => return Err(sent_again(call, sends)),
        Err(SendError::Failed(error)) => return Err(failed(call, error)),
        Err(SendError::Late(error)) => {
            let error = timed_out(call, error);
            return Err(if sends > 1 { sent_again(call, sends) } else { error });
        }
    }
    let response = place.as_ref().expect(ANSWERED);
    let mut is_coded = false;
    // A look at the few names of a response is less than two look-ups.
    for name in response.headers().keys() {
        observe_cookie(&core.has_cookies, name);
        is_coded |= *name == CONTENT_ENCODING;
    }
    let refused = if sends > 1 {
        call.observe(response.status(), response.headers());
        Some(sent_again(call, sends))
    } else {
        call.answered(head_of(response, is_repeatable)).err().map(refuse)
    };
    if let Some(refused) = refused {
        *place = None;
        return Err(refused);
    }
    // A cache below rebuilds its responses, also those that have just come from the wire.
    if call.history().last().is_none_or(|hop| hop.remote_addr().is_none()) {
        call.lost_fields();
    }
    if is_coded && core.decodes {
        *place = place.take().map(decoded);
    }
    Ok(sends)
}

/// Why there is no response.
enum SendError {
    Refused(Denied),
    Failed(Error),
    /// By our own read timeout.
    Late(io::Error),
}

/// Sends a request once, within the span of the hop and the read timeout.
async fn send(
    core: &Core,
    call: &mut Call<'_>,
    taken: &mut Option<Request>,
    wire: &mut Wire,
    extensions: &mut Extensions,
    next: Next<'_>,
    place: &mut Option<Response>,
) -> std::result::Result<(), SendError> {
    let request = taken.as_mut().expect(ONE_REQUEST);
    call.add_signature(request.headers_mut()).map_err(SendError::Refused)?;
    // A look at the few names of a request is less than a look-up.
    if core.decodes && request.headers().keys().any(|name| *name == RANGE) {
        // RFC 9110 §14.2: a range is of the coded page, and a part of that cannot be decoded.
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(IDENTITY);
    }
    call.sending();
    let request = taken.take().expect(ONE_REQUEST);
    let mut sending = match core.http11.as_ref().and_then(|http11| http11.client_for(request.url())) {
        Some(client) => Box::pin(async { Ok(client.execute(request).await?) }),
        None => call.span().within(|| next.run(request, extensions)),
    };
    let answer = {
        let sending = poll_fn(|context| {
            let polled = sending.as_mut().poll(context);
            polled.map(|result| result.map(|response| *place = Some(response)))
        });
        let sending = pin!(with_read_timeout(core.read_timeout, sending));
        count(wire, call.span().cover(sending)).await
    };
    // A request that is given up has ended before that is reported.
    drop(sending);
    answer.map_err(SendError::Late)?.map_err(SendError::Failed)
}

/// The request once more, signed anew, if it may go out again for what the error says.
#[cold]
fn request_again(
    core: &Core,
    call: &Call<'_>,
    copy: &mut Option<Box<RequestCopy>>,
    wire: Wire,
    error: &SendError,
) -> Option<Request> {
    let SendError::Failed(Error::Reqwest(error)) = error else { return None };
    // Asked first, because a host that wants HTTP/1.1 is remembered, whatever becomes of this request.
    if !(wire.may_send_again(call.url(), error, core.http11.as_deref()) && call.may_send_again()) {
        return None;
    }
    let mut request = RequestCopy::request(copy, call.method().clone(), call.url().clone())?;
    *request.timeout_mut() = call.time_left();
    call.sign(request.headers_mut()).ok()?;
    Some(request)
}

/// An error, not only a warning: requests without a permit cannot be undone.
#[cold]
fn sent_again(call: &Call<'_>, times: u32) -> Error {
    refuse(call.denied(DeniedKind::SentAgain { times }))
}

/// Our own read timeout, and no error of a middleware below, whose meaning for the host is unknown.
#[cold]
fn timed_out(call: &mut Call<'_>, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::Unsupported {
        call.not_sent();
        return refuse(call.denied(DeniedKind::NoTimers));
    }
    call.failed(Some(Failure::Timeout));
    Error::middleware(error)
}

/// A response with such a field may have filled the client's cookie jar, if it has one.
pub(crate) fn observe_cookie(has_cookies: &AtomicBool, name: &HeaderName) {
    if *name == SET_COOKIE {
        has_cookies.store(true, Ordering::Relaxed);
    }
}

fn head_of(response: &Response, is_repeatable: bool) -> ResponseHead<'_> {
    ResponseHead {
        status: response.status(),
        headers: response.headers(),
        remote_addr: response.remote_addr(),
        url: Some(response.url()),
        is_repeatable,
    }
}

/// Reports a request without a response to the call, and makes the caller's error.
fn failed(call: &mut Call<'_>, mut error: Error) -> Error {
    // reqwest shows the URL in its errors.
    if let Some(shown) = error.url_mut() {
        *shown = without_userinfo(shown);
    }
    if error.is_builder() {
        call.not_sent();
    }
    match call.failed(failure(&error)) {
        Some(denied) => refuse(denied),
        None => error,
    }
}

#[cold]
fn refuse(denied: Denied) -> Error {
    Error::middleware(denied)
}

/// What a failed request met; `None` if the host has no part in it.
fn failure(error: &Error) -> Option<Failure> {
    match error {
        Error::Reqwest(error) => reqwest_failure(error),
        Error::Middleware(_) => None,
    }
}

pub(crate) fn reqwest_failure(error: &reqwest::Error) -> Option<Failure> {
    if error.is_builder() || is_of_the_caller(error) {
        None
    } else if error.is_timeout() {
        Some(Failure::Timeout)
    } else if error.is_decode() || error.is_body() {
        Some(body_failure_of(error))
    } else if let Some(failure) = failure_of(error) {
        Some(failure)
    } else if error.is_connect() {
        Some(Failure::Connect)
    } else {
        error.is_request().then_some(Failure::Other)
    }
}

/// As reqwest asks for them when it has all its features.
pub(crate) const CODINGS: HeaderValue = HeaderValue::from_static("zstd,gzip,deflate,br");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The response with its coding taken off. It keeps the length of the coded body, at which its connection ends it, until [`into_http`].
///
/// reqwest 0.13 takes codings off whatever header fields a request has, and drops what follows the first gzip member. For robots.txt that
/// would hide rules, and both kinds of requests go through one client. So its decoding is switched off, and pages are decoded here.
fn decoded(mut response: Response) -> Response {
    let Some(decode) = decoder(response.headers()) else { return response };
    let mut head = take_head(response.url().clone(), &mut response, ());
    head.headers_mut().remove(CONTENT_ENCODING);
    Response::from(head.map(|()| reqwest::Body::wrap(decode(reqwest::Body::from(response)))))
}

/// Moves the head out of a response, to another body, with its URL, which only reqwest's extension of the builder can set.
fn take_head<B>(url: Url, response: &mut Response, body: B) -> http::Response<B> {
    let mut builder = http::Response::builder();
    if let Some(extensions) = builder.extensions_mut() {
        *extensions = std::mem::take(response.extensions_mut());
    }
    let head = builder.url(url).body(body);
    let mut head = head.expect("a builder cannot fail that was given neither a status nor fields");
    *head.status_mut() = response.status();
    *head.version_mut() = response.version();
    std::mem::swap(head.headers_mut(), response.headers_mut());
    head
}

/// The response with its permit in its body, and the bytes taken so far in front. URL, version, header fields and extensions
/// stay, but for a length that is not that of the body, because a coding was taken off.
fn into_http(
    url: Url,
    taken: Option<reqwest::Result<Bytes>>,
    mut response: Response,
    permit: Option<Permit>,
    read_timeout: Option<Duration>,
) -> http::Response<ResponseBody<reqwest::Body>> {
    if response.content_length().is_none() {
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    let head = take_head(url, &mut response, ());
    let mut body = ResponseBody::new(response.into(), head.version(), permit).with_read_timeout(read_timeout);
    if let Some(taken) = taken {
        body = body.with_taken(taken.map_err(Into::into));
    }
    head.map(|()| body)
}

/// Takes a short body, if all of it has arrived, as most have with their head: a body that is read as it comes costs several allocations.
///
/// # Errors
/// What was taken of it, for the replay.
pub(crate) fn take_short_body(
    response: &mut Response,
) -> std::result::Result<Bytes, Option<reqwest::Result<Bytes>>> {
    // RFC 9112 §6.3: a message with a length ends there, so that no trailers follow, which `chunk` would pass over. In HTTP/2 they could.
    let length = match response.content_length() {
        Some(0) if response.version() <= Version::HTTP_11 => return Ok(Bytes::new()),
        Some(length) if length <= AHEAD_MAX && response.version() <= Version::HTTP_11 => length,
        _ => return Err(None),
    };
    // Without a waker: the task that reads on polls again, and is woken then.
    match pin!(response.chunk()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(Some(data))) if data.len() as u64 == length => Ok(data),
        Poll::Ready(chunk) => Err(chunk.transpose()),
        Poll::Pending => Err(None),
    }
}

/// The longest body that is taken at once, in bytes.
const AHEAD_MAX: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_a_middleware_below_is_none_of_the_host() {
        let waited = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(failure(&Error::middleware(waited)), None);
    }
}
