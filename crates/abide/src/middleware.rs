//! The middleware: the loop that follows the redirects of a call, and one request on the wire, with its
//! response in reqwest's types.
//!
//! The steps of `abide_http` decide, and this drives them with reqwest. It stands between the middlewares of
//! a stack, so it says which of them a hop passes: all that are below it. Here is all that reqwest has a say
//! in: how often it sends, when a request failed and why, content codings, and how a response is taken apart
//! and put together again, for reqwest has no way to change the body of one.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue, RANGE, SET_COOKIE,
    TRANSFER_ENCODING,
};
use http::{Extensions, HeaderMap, Method, Version};
use reqwest::{Request, Response, ResponseBuilderExt};
use reqwest_middleware::{Error, Middleware, Next, Result};
use url::Url;

use abide_gate::{Denied, DeniedKind, Failure, decoder, without_userinfo};
use abide_http::{
    Answered, CallSpan, Check, Crawler, Done, Options, RedirectHistory, Refused, ResponseHead, SendRequest,
    Sent, body_failure_of, failure_of, is_of_the_caller, with_read_timeout,
};

use crate::client::{Abide, Core};
use crate::exchange::Watched;
use crate::wire::{Wire, count};

#[derive(Debug, Clone)]
pub(crate) struct AbideMiddleware {
    pub(crate) abide: Abide,
}

/// As `async_trait` would write it.
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
        Box::pin(call(&self.abide.core, request, extensions, next))
    }
}

/// The whole call, in its span.
async fn call(
    core: &Core,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Response> {
    let options = extensions.get::<Options>().cloned().unwrap_or_default();
    // Of an attempt before this one, if something above sends again.
    extensions.remove::<RedirectHistory>();
    let timeout = request.timeout().copied().or(core.timeout);
    let check = core.crawler.call(options, request.method(), request.url(), timeout);
    let span = CallSpan::begin(check.method(), check.url());
    span.instrument(follow(core, check, request, extensions, next, &span)).await
}

/// Hop by hop to the last response, with its fetch info.
async fn follow(
    core: &Core,
    mut check: Check<'_>,
    mut request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
    span: &CallSpan,
) -> Result<Response> {
    loop {
        let mut copy = RequestCopy::of(&request);
        let ready = check.admit(request.headers_mut()).await;
        let ready = ready.map_err(|refused| ended(refused, extensions))?;
        let (mut sent, response, wire) =
            exchange(core, ready, request, &mut copy, extensions, next.clone()).await?;
        response.headers().keys().for_each(|name| observe_cookie(&core.has_cookies, name));
        // A cache below rebuilds its responses, also those that have just come from the wire.
        if response.remote_addr().is_none() {
            sent.lost_fields();
        }
        let head = ResponseHead {
            status: response.status(),
            headers: response.headers(),
            remote_addr: response.remote_addr(),
            url: Some(response.url()),
            is_repeatable: copy.is_repeatable(),
        };
        let answered = match wire.sends {
            0 | 1 => sent.answered(head).await,
            // An error, not only a warning: requests without a permit cannot be undone.
            times => Err(sent.refused(Some(head), DeniedKind::SentAgain { times }).await),
        };
        match answered {
            Ok(Answered::Follow(follow)) => {
                let keeps_body = follow.keeps_body();
                // The response is dropped unread, which ends it.
                check = follow.follow(response, &mut copy.headers);
                request = copy.into_request(check.method().clone(), check.url().clone(), keeps_body);
            }
            Ok(Answered::Done(done)) => {
                let history = done.history();
                span.answered(history.hops().len(), response.status(), history.waited());
                let is_ours = wire.sends > 0 || !core.counts_sends;
                return Ok(finish(core, done, &copy.headers, response, is_ours).await);
            }
            Err(refused) => {
                // Before its permit ends.
                drop(response);
                return Err(ended(refused, extensions));
            }
        }
    }
}

/// The response that the caller gets. `is_ours`: of the client that abide has built, which takes no codings
/// off by itself.
async fn finish(
    core: &Core,
    done: Done<'_>,
    request: &HeaderMap,
    response: Response,
    is_ours: bool,
) -> Response {
    let is_coded = response.headers().contains_key(CONTENT_ENCODING);
    let response = if is_coded && core.decodes { decoded(response) } else { response };
    let headers = response.headers();
    // RFC 9112 §6.3: without any of them, the closed connection is the end, and a broken one looks the same.
    let is_framed = response.version() >= Version::HTTP_2 || headers.contains_key(TRANSFER_ENCODING);
    let is_sure = headers.contains_key(CONTENT_LENGTH) || core.decodes && is_ours && is_framed;
    let response = into_http(done.url().clone(), response);
    let read = done.with_sure_end(is_sure).finish(request, response, core.read_timeout).await;
    Response::from(read.map(reqwest::Body::wrap))
}

/// See [`Abide::read`].
pub(crate) async fn read(crawler: &Crawler, response: Response) -> Response {
    let url = response.url().clone();
    let read = crawler.read(&url, with_url(url.clone(), response)).await;
    Response::from(read.map(reqwest::Body::wrap))
}

/// Sends a request that has its permit; once more under that, if its server has closed the connection or not
/// taken it.
async fn exchange<'a>(
    core: &Core,
    ready: SendRequest<'a>,
    mut request: Request,
    copy: &mut RequestCopy,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<(Sent<'a>, Response, Wire)> {
    prepare(core, &mut request);
    *request.timeout_mut() = ready.timeout();
    let sent = ready.send(request.headers_mut());
    let mut sent = sent.map_err(|refused| ended(refused, extensions))?;
    let (mut answer, mut wire) = send(core, &sent, request, extensions, next.clone()).await;
    let again = answer.as_ref().err().and_then(|failed| request_again(core, &sent, copy, wire, failed));
    if let Some(mut request) = again {
        prepare(core, &mut request);
        *request.timeout_mut() = sent.timeout();
        let again = sent.send_again(request.headers_mut());
        sent = again.map_err(|refused| ended(refused, extensions))?;
        (answer, wire) = send(core, &sent, request, extensions, next).await;
    }
    match answer {
        Ok(response) => Ok((sent, response, wire)),
        Err(_) if wire.sends > 1 => {
            let kind = DeniedKind::SentAgain { times: wire.sends };
            Err(ended(sent.refused(None, kind).await, extensions))
        }
        Err(unanswered) => Err(failed(sent, unanswered, extensions).await),
    }
}

fn prepare(core: &Core, request: &mut Request) {
    if core.decodes && request.headers().contains_key(RANGE) {
        // RFC 9110 §14.2: a range is of the coded page, and a part of that cannot be decoded.
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(IDENTITY);
    }
}

/// Why there is no response, and what that means for the host.
struct Unanswered {
    error: Error,
    failure: Option<Failure>,
}

/// Sends a request once, within the span of the hop and the read timeout. A request that is given up has
/// ended afterwards.
async fn send(
    core: &Core,
    sent: &Sent<'_>,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> (std::result::Result<Response, Unanswered>, Wire) {
    let watched = Watched::begin(core.exchanges.as_ref(), &request, extensions, core.decodes);
    let sending = async {
        match core.http11.as_ref().and_then(|http11| http11.client_for(request.url())) {
            Some(client) => Ok(client.execute(request).await?),
            None => next.run(request, extensions).await,
        }
    };
    let sending = sent.span().instrument(with_read_timeout(core.read_timeout, sending));
    let (answer, wire) = count(sending).await;
    let answer = match answer {
        Ok(Ok(response)) => Ok(watched.answered(response)),
        Ok(Err(error)) => {
            watched.failed(&error);
            Err(Unanswered { failure: failure(&error), error })
        }
        // Our own read timeout, and no error of a middleware below, whose meaning for the host is unknown.
        Err(late) => {
            watched.failed(&late);
            Err(Unanswered { failure: Some(Failure::Timeout), error: Error::middleware(late) })
        }
    };
    (answer, wire)
}

/// The request once more, if it may go out again for what the error says.
fn request_again(
    core: &Core,
    sent: &Sent<'_>,
    copy: &mut RequestCopy,
    wire: Wire,
    unanswered: &Unanswered,
) -> Option<Request> {
    let Error::Reqwest(error) = &unanswered.error else { return None };
    // Asked first, because a host that wants HTTP/1.1 is remembered, whatever becomes of this request.
    let may_send_again =
        wire.may_send_again(sent.url(), error, core.http11.as_deref()) && sent.may_send_again();
    if may_send_again { copy.request(sent.method().clone(), sent.url().clone()) } else { None }
}

/// Reports a request without a response to the call, and makes the caller's error.
async fn failed(mut sent: Sent<'_>, unanswered: Unanswered, extensions: &mut Extensions) -> Error {
    let Unanswered { mut error, failure } = unanswered;
    // reqwest shows the URL in its errors.
    if let Some(shown) = error.url_mut() {
        *shown = without_userinfo(shown);
    }
    if error.is_builder() {
        sent.not_sent();
    }
    if failure.is_none()
        && let Some(denied) = Denied::find(&error)
    {
        return ended(sent.refused_below(denied.clone()).await, extensions);
    }
    let history = match sent.failed(failure, &error).await {
        Ok(history) => history,
        Err(refused) => return ended(refused, extensions),
    };
    let is_long = error.url().is_some_and(|url| url.as_str().len() > HOP_URL_SHOWN_MAX);
    // reqwest shows the URL of a request in its error, whole, and a server may redirect to one of 300 KB.
    let is_hidden = !history.hops().is_empty() && is_long;
    extensions.insert(history);
    if is_hidden { error.without_url() } else { error }
}

/// Honest URLs are shorter. With one that is not, an error of reqwest has no URL.
const HOP_URL_SHOWN_MAX: usize = 2000;

/// A refusal as the caller's error. The hops before it are in the extensions, as those of every call that has
/// no response.
fn ended(refused: Refused, extensions: &mut Extensions) -> Error {
    extensions.insert(refused.history);
    Error::middleware(refused.denied)
}

/// What the next hop may need of this request: taken before anything is added to it. The body is cloned, if
/// it can be.
struct RequestCopy {
    headers: HeaderMap,
    version: Version,
    has_body: bool,
    body: Option<reqwest::Body>,
}

impl RequestCopy {
    fn of(request: &Request) -> Self {
        Self {
            headers: request.headers().clone(),
            version: request.version(),
            has_body: request.body().is_some(),
            body: request.body().and_then(|_| request.try_clone()?.body_mut().take()),
        }
    }

    fn is_repeatable(&self) -> bool {
        !self.has_body || self.body.is_some()
    }

    /// The request again, unless it has a body that can be sent only once.
    fn request(&mut self, method: Method, url: Url) -> Option<Request> {
        let mut request = Request::new(method, url);
        request.headers_mut().clone_from(&self.headers);
        *request.version_mut() = self.version;
        *request.body_mut() = self.body.take();
        let again = request.try_clone();
        self.body = request.body_mut().take();
        again.filter(|again| again.body().is_some() == self.has_body)
    }

    /// The next request of the call.
    fn into_request(self, method: Method, url: Url, keeps_body: bool) -> Request {
        let mut request = Request::new(method, url);
        *request.headers_mut() = self.headers;
        *request.version_mut() = self.version;
        *request.body_mut() = self.body.filter(|_| keeps_body);
        request
    }
}

/// A response with such a field may have filled the client's cookie jar, if it has one.
pub(crate) fn observe_cookie(has_cookies: &AtomicBool, name: &HeaderName) {
    if *name == SET_COOKIE {
        has_cookies.store(true, Ordering::Relaxed);
    }
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
pub(crate) const CODINGS: HeaderValue =
    HeaderValue::from_static(match (cfg!(feature = "brotli"), cfg!(feature = "zstd")) {
        (true, true) => "zstd,gzip,deflate,br",
        (true, false) => "gzip,deflate,br",
        (false, true) => "zstd,gzip,deflate",
        (false, false) => "gzip,deflate",
    });
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The response with its coding taken off. It keeps the length of the coded body, at which its connection
/// ends it, until [`into_http`].
///
/// reqwest 0.13 takes codings off whatever header fields a request has, and drops what follows the first gzip
/// member. For robots.txt that would hide rules, and both kinds of requests go through one client. So its
/// decoding is switched off, and pages are decoded here.
fn decoded(mut response: Response) -> Response {
    let Some(decode) = decoder(response.headers()) else { return response };
    response.headers_mut().remove(CONTENT_ENCODING);
    let response = with_url(response.url().clone(), response);
    Response::from(response.map(|body| reqwest::Body::wrap(decode(body))))
}

/// The response with its body apart. URL, version, header fields and extensions stay, but for a length that
/// is not that of the body, because a coding was taken off. Only reqwest's extension of the builder can set
/// the URL.
fn into_http(url: Url, mut response: Response) -> http::Response<reqwest::Body> {
    if response.content_length().is_none() {
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    with_url(url, response)
}

pub(crate) fn with_url(url: Url, response: Response) -> http::Response<reqwest::Body> {
    let (mut parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
    // The builder is given nothing else, so it cannot fail.
    if let Ok(with_url) = http::Response::builder().url(url).body(()) {
        parts.extensions.extend(with_url.into_parts().0.extensions);
    }
    http::Response::from_parts(parts, body)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_timeout_of_a_middleware_below_is_none_of_the_host() {
        let waited = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(failure(&Error::middleware(waited)), None);
    }
}
