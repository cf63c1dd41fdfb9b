//! The content codings of pages, asked for and taken off here.
//!
//! reqwest 0.13 takes codings off whatever header fields a request has, and drops what follows the first gzip member. For robots.txt that
//! would hide rules, and both kinds of requests go through one client. So its decoding is switched off, and pages are decoded here, with
//! the same fields for those above.

use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use reqwest::{Request, Response};

use abide_gate::Coding;

use crate::send::rebuilt;

/// In the order in which reqwest asks for them when it has all its features.
const ALL: HeaderValue = HeaderValue::from_static("zstd,gzip,deflate,br");

/// Asks for all codings, unless the request says what it wants.
pub(crate) fn ask(request: &mut Request) {
    request.headers_mut().entry(ACCEPT_ENCODING).or_insert(ALL);
}

/// The response with its coding taken off, and without the fields that were about the coded body.
pub(crate) fn taken_off(response: Response) -> Response {
    let Ok(Some(coding)) = Coding::of(response.headers()) else { return response };
    let url = response.url().clone();
    let (mut parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
    parts.headers.remove(CONTENT_ENCODING);
    parts.headers.remove(CONTENT_LENGTH);
    Response::from(rebuilt(url, parts, reqwest::Body::wrap(coding.taken_off(body))))
}
