//! One request on the wire, and its response in reqwest's types.
//!
//! Here is all that reqwest has a say in: how often it sends, when a request failed and why, content codings, and how a response is taken apart
//! and put together again, for reqwest has no way to change the body of one.

use std::cell::Cell;
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
use http::{Extensions, Version};
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use url::Url;

use abide_gate::pacing::Permit;
use abide_gate::{BoxFuture, Denied, DeniedKind, Failure, Gate, decoder, without_userinfo};
use abide_http::{
    Call, FetchInfo, ResponseBody, ResponseHead, body_failure_of, failure_of, is_of_the_caller,
};

use crate::client::Core;
use crate::middleware::ONE_REQUEST;

/// Sends a request that has its permit, and takes it at the last moment: it is 264 bytes, which every function on the way would copy.
#[allow(clippy::expect_used, reason = "a hop has one request until it is sent")]
pub(crate) fn sending<'f>(
    core: &Core,
    call: &mut Call<'_>,
    taken: &mut Option<Request>,
    extensions: &'f mut Extensions,
    next: Next<'f>,
) -> BoxFuture<'f, Result<Response>> {
    let request = taken.as_mut().expect(ONE_REQUEST);
    // Setting it allocates among the request's extensions.
    if request.timeout().copied() != call.timeout() {
        *request.timeout_mut() = call.timeout();
    }
    if core.decodes && request.headers().contains_key(RANGE) {
        // RFC 9110 §14.2: a range is of the coded page, and a part of that cannot be decoded.
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(IDENTITY);
    }
    call.sending();
    call.within(|| next.run(taken.take().expect(ONE_REQUEST), extensions))
}

/// Reports the result of so many requests to the call. The caller may have the response when [`Call::saved`] has been awaited.
pub(crate) fn answered(
    core: &Core,
    call: &mut Call<'_>,
    response: io::Result<Result<Response>>,
    times: u32,
    is_repeatable: bool,
) -> Result<Response> {
    // Our own read timeout, and no error of a middleware below, whose meaning for the host is unknown.
    let response = response.unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::Unsupported => {
            call.not_sent();
            Err(refuse(call.denied(DeniedKind::NoTimers)))
        }
        _ => {
            call.failed(Some(Failure::Timeout));
            Err(reqwest_middleware::Error::middleware(error))
        }
    });
    let mut is_coded = false;
    if let Ok(response) = &response {
        // A look at the few names of a response is less than two look-ups.
        for name in response.headers().keys() {
            observe_cookie(&core.has_cookies, name);
            is_coded |= *name == CONTENT_ENCODING;
        }
    }
    if times > 1 {
        if let Ok(response) = &response {
            call.observe(response.status(), response.headers());
        }
        return Err(wrong_order(core.crawler.gate(), call.url(), DeniedKind::SentAgain { times }));
    }
    let response = response.map_err(|error| failed(call, error))?;
    call.answered(head_of(&response, is_repeatable)).map_err(refuse)?;
    // A cache below rebuilds its responses, also those that have just come from the wire.
    if call.history().last().is_none_or(|hop| hop.remote_addr().is_none()) {
        call.lost_fields();
    }
    Ok(if is_coded && core.decodes { decoded(response) } else { response })
}

/// A response with such a field may have filled the client's cookie jar, if it has one.
pub(crate) fn observe_cookie(has_cookies: &AtomicBool, name: &HeaderName) {
    if *name == SET_COOKIE {
        has_cookies.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn head_of(response: &Response, is_repeatable: bool) -> ResponseHead<'_> {
    ResponseHead {
        status: response.status(),
        headers: response.headers(),
        remote_addr: response.remote_addr(),
        url: Some(response.url()),
        is_repeatable,
    }
}

/// Reports a request without a response to the call, and makes the caller's error.
fn failed(call: &mut Call<'_>, mut error: reqwest_middleware::Error) -> reqwest_middleware::Error {
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

/// The error for requests that something sent without a permit. Not only a warning, because they cannot be undone.
pub(crate) fn wrong_order(gate: &Gate, url: &Url, kind: DeniedKind) -> reqwest_middleware::Error {
    refuse(Denied::new(kind, url, gate.wall()))
}

#[cold]
pub(crate) fn refuse(denied: Denied) -> reqwest_middleware::Error {
    reqwest_middleware::Error::middleware(denied)
}

/// What a failed request met; `None` if the host has no part in it.
fn failure(error: &reqwest_middleware::Error) -> Option<Failure> {
    match error {
        reqwest_middleware::Error::Reqwest(error) => reqwest_failure(error),
        reqwest_middleware::Error::Middleware(_) => None,
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
    let mut head = take_head(response.url().clone(), &mut response);
    head.headers_mut().remove(CONTENT_ENCODING);
    let body = http::Response::<reqwest::Body>::from(response).into_body();
    Response::from(head.map(|()| reqwest::Body::wrap(decode(body))))
}

/// Moves the head out of a response, as an `http::Response` with its URL, which only reqwest's extension of the builder can set.
#[allow(clippy::expect_used, reason = "only a bad status or field makes a builder fail")]
fn take_head(url: Url, response: &mut Response) -> http::Response<()> {
    use reqwest::ResponseBuilderExt;

    let mut builder = http::Response::builder();
    if let Some(extensions) = builder.extensions_mut() {
        *extensions = std::mem::take(response.extensions_mut());
    }
    let head = builder.url(url).body(());
    let mut head = head.expect("a builder cannot fail that was given neither a status nor fields");
    *head.status_mut() = response.status();
    *head.version_mut() = response.version();
    *head.headers_mut() = std::mem::take(response.headers_mut());
    head
}

/// The response with its permit in its body, and the bytes taken so far in front. URL, version, header fields and extensions
/// stay, but for a length that is not that of the body, because a coding was taken off.
pub(crate) fn into_http(
    url: Url,
    taken: Option<reqwest::Result<Bytes>>,
    mut response: Response,
    permit: Option<Permit>,
    read_timeout: Option<Duration>,
) -> http::Response<ResponseBody<reqwest::Body>> {
    if response.content_length().is_none() {
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    let head = take_head(url, &mut response);
    let wire = http::Response::<reqwest::Body>::from(response).into_body();
    let mut body = ResponseBody::new(wire, head.version(), permit).with_read_timeout(read_timeout);
    if let Some(taken) = taken {
        body = body.with_taken(taken.map_err(Into::into));
    }
    head.map(|()| body)
}

pub(crate) fn into_reqwest(response: http::Response<ResponseBody<reqwest::Body>>) -> Response {
    Response::from(response.map(reqwest::Body::wrap))
}

pub(crate) fn with_whole_body(url: Url, response: &mut Response, body: Bytes, info: FetchInfo) -> Response {
    let head = take_head(url, response);
    let mut whole = Response::from(head.map(|()| reqwest::Body::from(body)));
    whole.extensions_mut().insert(info);
    whole
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

// How often a request went out under one permit: something below the pacing that sends again would go out unpaced.

thread_local! {
    /// Requests on the wire since the permit was acquired, while what sends them is polled: the client counts in the task that waits for it.
    static SENDS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Sends, and counts how often the client of [`Builder::build_with`](crate::Builder::build_with) was used for it. Another client counts nothing.
///
/// What tokio's task locals do, without a place for the future in them: it would be moved about in memory.
pub(crate) fn count_sends<F: Future + Unpin>(
    sends: &mut u32,
    mut sending: F,
) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let counting = Counting { outer: SENDS.replace(Some(*sends)) };
        let polled = Pin::new(&mut sending).poll(context);
        *sends = counting.sends();
        polled
    })
}

/// Gives the place back to the counter outside, also when the poll panics.
struct Counting {
    outer: Option<u32>,
}

impl Counting {
    fn sends(&self) -> u32 {
        SENDS.get().unwrap_or_default()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        SENDS.set(self.outer);
    }
}

/// A policy of reqwest that never sends again by itself: one permit, one request. It is asked after each answer, and counts;
/// a request that times out is dropped before, and is not counted.
pub(crate) fn never_again() -> reqwest::retry::Builder {
    reqwest::retry::never().classify_fn(|answer| {
        // A request without a permit of its own is robots.txt, which acquires its permit in the gate.
        SENDS.set(SENDS.get().map(|sends| sends.saturating_add(1)));
        answer.success()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_a_middleware_below_is_none_of_the_host() {
        let waited = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(failure(&reqwest_middleware::Error::middleware(waited)), None);
    }
}
