//! One request on the wire, and its response in reqwest's types.

use std::time::Duration;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, DeniedKind, Gate, without_userinfo};
use abide_http::{Call, ResponseHead, WatchedBody};
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use url::Url;

use crate::client::Core;
use crate::middleware::BoxFuture;
use crate::read_timeout::{WithReadTimeout, with_read_timeout};
use crate::response_body::{Ahead, ResponseBody};
use crate::robots_fetch::observe_cookies;
use crate::send_count::{CountSends, count_sends};
use crate::{codings, failure};

/// A request that has its permit, on its way. Made without waiting, so that the future of a call has no room for a request.
pub(crate) fn sending<'f>(
    core: &Core,
    call: &mut Call<'_>,
    mut request: Request,
    extensions: &'f mut Extensions,
    next: Next<'f>,
) -> CountSends<WithReadTimeout<BoxFuture<'f, Result<Response>>>> {
    // Setting it costs a place among the request's extensions.
    if request.timeout().copied() != call.timeout() {
        *request.timeout_mut() = call.timeout();
    }
    if core.decodes {
        codings::ask(&mut request);
    }
    call.sending();
    call.span().within(|| count_sends(with_read_timeout(core.read_timeout, next.run(request, extensions))))
}

/// What came of it. Reports it to the call. The response may be returned when [`Call::saved`] has been awaited.
pub(crate) fn answered(
    core: &Core,
    call: &mut Call<'_>,
    (response, times): (Result<Response>, u32),
    is_repeatable: bool,
) -> Result<Response> {
    if times > 1 {
        if let Ok(response) = &response {
            call.observe(response.status(), response.headers());
        }
        return Err(wrong_order(core.crawler.gate(), call.url(), DeniedKind::SentAgain { times }));
    }
    let response = response.map_err(|error| failed(call, error))?;
    call.answered(head_of(&response, is_repeatable)).map_err(refuse)?;
    observe_cookies(&core.has_cookies, response.headers());
    Ok(if core.decodes { codings::taken_off(response) } else { response })
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

/// A request without a response: what it means for the host, and for the caller.
fn failed(call: &mut Call<'_>, mut error: reqwest_middleware::Error) -> reqwest_middleware::Error {
    // reqwest's own errors show it.
    if let Some(shown) = error.url_mut() {
        *shown = without_userinfo(shown);
    }
    if error.is_builder() {
        call.not_sent();
    }
    match call.failed(failure::of(&error)) {
        Some(denied) => refuse(denied),
        None => error,
    }
}

/// An error and not a warning: what should have waited has gone out already.
pub(crate) fn wrong_order(gate: &Gate, url: &Url, kind: DeniedKind) -> reqwest_middleware::Error {
    refuse(Denied::new(kind, url, gate.wall()))
}

pub(crate) fn refuse(denied: Denied) -> reqwest_middleware::Error {
    reqwest_middleware::Error::middleware(denied)
}

/// The response with its permit in its body, and what has been taken of that in front; URL, version, header fields and extensions stay.
pub(crate) fn take_apart(
    url: Url,
    ahead: Option<Ahead>,
    response: Response,
    permit: Option<Permit>,
    read_timeout: Option<Duration>,
) -> http::Response<ResponseBody> {
    let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
    let body = ResponseBody::new(ahead, body, parts.version, permit).with_read_timeout(read_timeout);
    rebuilt(url, parts, body)
}

/// A response of these parts that knows its URL: that does not survive the conversion, and only a builder takes it back.
#[allow(clippy::expect_used, reason = "only a bad status or field makes a builder fail")]
pub(crate) fn rebuilt<B>(url: Url, parts: http::response::Parts, body: B) -> http::Response<B> {
    use reqwest::ResponseBuilderExt;

    let mut builder = http::Response::builder();
    if let Some(extensions) = builder.extensions_mut() {
        *extensions = parts.extensions;
    }
    let taken = builder.url(url).body(body);
    let mut taken = taken.expect("a builder cannot fail that was given neither a status nor fields");
    *taken.status_mut() = parts.status;
    *taken.version_mut() = parts.version;
    *taken.headers_mut() = parts.headers;
    taken
}

/// The response for the caller. A small body that has ended on the wire needs nobody any more who watches it.
pub(crate) fn put_together(response: http::Response<WatchedBody<ResponseBody>>) -> Response {
    Response::from(response.map(|body| match body.into_whole() {
        Ok(whole) => reqwest::Body::from(whole),
        Err(body) => reqwest::Body::wrap(body),
    }))
}
