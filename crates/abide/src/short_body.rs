//! An answer whose body is short, all here, and of no interest to the scan, as most that are not pages: nobody need watch it.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Version, header};
use reqwest::{Response, ResponseBuilderExt};
use url::Url;

use abide_http::FetchInfo;

use crate::response_body::Ahead;

/// The body, if it has come to its end, as far as can be seen without waiting.
///
/// # Errors
/// What was taken of it, which is to be replayed.
pub(crate) fn take_body(response: &mut Response) -> Result<Bytes, Option<Ahead>> {
    let length = match response.content_length() {
        // HTTP/2 could still send trailers.
        Some(0) if response.version() <= Version::HTTP_11 => return Ok(Bytes::new()),
        Some(length) if length <= AHEAD_MAX && ends_with_its_length(response) => length,
        _ => return Err(None),
    };
    match poll_chunk(response) {
        Poll::Ready(Ok(Some(data))) if data.len() as u64 == length => match poll_chunk(response) {
            // The connection is free for the next request.
            Poll::Ready(Ok(None)) => Ok(data),
            _ => Err(Some(Ok(data))),
        },
        Poll::Ready(chunk) => Err(chunk.transpose()),
        Poll::Pending => Err(None),
    }
}

/// RFC 9112 §6.3: a message with a length ends there, so that no trailers follow, which `chunk` would pass over.
fn ends_with_its_length(response: &Response) -> bool {
    response.version() <= Version::HTTP_11 && response.headers().contains_key(header::CONTENT_LENGTH)
}

/// What is not here is asked for again by whoever waits for it, and wakes him then.
fn poll_chunk(response: &mut Response) -> Poll<reqwest::Result<Option<Bytes>>> {
    pin!(response.chunk()).poll(&mut Context::from_waker(Waker::noop()))
}

/// The same response with its body at hand.
#[allow(clippy::expect_used, reason = "only a bad status or field makes a builder fail")]
pub(crate) fn put_together(url: Url, mut response: Response, body: Bytes, info: FetchInfo) -> Response {
    // The URL is not part of an `http::Response`, and only a builder takes it back.
    let mut builder = http::Response::builder();
    if let Some(extensions) = builder.extensions_mut() {
        *extensions = std::mem::take(response.extensions_mut());
    }
    let whole = builder.url(url).body(reqwest::Body::from(body));
    let mut whole = whole.expect("a builder cannot fail that was given neither a status nor fields");
    *whole.status_mut() = response.status();
    *whole.version_mut() = response.version();
    *whole.headers_mut() = std::mem::take(response.headers_mut());
    let mut whole = Response::from(whole);
    whole.extensions_mut().insert(info);
    whole
}

/// A longer body is taken in pieces, by whoever watches it.
const AHEAD_MAX: u64 = 16 * 1024;
