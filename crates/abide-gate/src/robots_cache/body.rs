//! Reading a robots.txt up to the parsing limit (RFC 9309 §2.5).
//!
//! A hostile body is endless, cut short, or a bomb. Memory is bounded by the limit, and a short body never
//! parsed: what is missing may disallow.

use std::time::Duration;

use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::coding::DecodedBody;
use crate::robots_cache::fetch::{FetchBody, FetchError};
use crate::{Coding, Failure};

/// The decoded body. It counts as read only when its whole coded stream was consumed: a gzip member left over
/// may be what disallows.
pub(crate) fn decoded(body: FetchBody, coding: Option<Coding>) -> FetchBody {
    let Some(coding) = coding else { return body };
    DecodedBody::new(body, coding, |why| FetchError::new(Failure::Body, why)).strict().boxed_unsync()
}

/// A body of more bytes than this waits for one of [`LARGE_BODIES_MAX`] places before it grows: nearly all
/// robots.txt are shorter.
const SMALL_BODY_MAX: usize = 16 * 1024;
/// With the limit of a body, this bounds the memory of those that are read, to 32 MiB by default: fetches are
/// many, because most only wait.
pub(crate) const LARGE_BODIES_MAX: usize = 64;

/// Whole lines of at most `limit` bytes, and whether there was more. At most two bytes more are read, and the
/// rest is dropped unread. Any error before that is an error. `Content-Length` allocates nothing.
pub(crate) async fn read(
    mut body: FetchBody,
    limit: usize,
    large: &Semaphore,
) -> Result<(Vec<u8>, bool), FetchError> {
    let (mut read, mut place) = (Vec::new(), None);
    // A unit of UTF-16 more shows whether the last line is complete.
    let len_max = limit.saturating_add(2);
    while read.len() < len_max {
        // A body that is always ready, such as an endless row of empty frames, must not starve the deadline.
        tokio::task::coop::consume_budget().await;
        let Some(frame) = body.frame().await.transpose()? else {
            // hyper ends the body of an HTTP/2 stream that was reset with NO_ERROR, too.
            if body.size_hint().lower() > 0 {
                return Err(FetchError::new(Failure::Body, "it is shorter than its Content-Length"));
            }
            break;
        };
        let Ok(data) = frame.into_data() else { continue };
        append(&mut read, &data, len_max);
        if read.len() > SMALL_BODY_MAX && place.is_none() {
            place = large.acquire().await.ok();
        }
    }
    Ok(if read.len() > limit { (cut(read, limit), true) } else { (read, false) })
}

/// The first `len` bytes, or as many as come within `limit`, and before the end or an error.
pub(crate) async fn start(mut body: FetchBody, len: usize, limit: Duration) -> Vec<u8> {
    let mut read = Vec::new();
    let reading = async {
        while read.len() < len {
            tokio::task::coop::consume_budget().await;
            let Some(Ok(frame)) = body.frame().await else { break };
            let Ok(data) = frame.into_data() else { continue };
            append(&mut read, &data, len);
        }
    };
    _ = timeout(limit, reading).await;
    read
}

/// Appends what still fits. The buffer doubles, but never beyond what it may hold.
fn append(read: &mut Vec<u8>, data: &[u8], len_max: usize) {
    let room = len_max.saturating_sub(read.len());
    let data = data.get(..room).unwrap_or(data);
    let needed = read.len().saturating_add(data.len());
    if needed > read.capacity() {
        // `Vec` would double its 256 KiB to more than the limit.
        let capacity = needed.max(read.capacity().saturating_mul(2)).min(len_max);
        read.reserve_exact(capacity.saturating_sub(read.len()));
    }
    read.extend_from_slice(data);
}

/// Cuts `read`, which is longer than the limit, at its last line end. What follows the limit shows whether
/// the last line is complete. A line that the limit cuts is dropped, because it could be the `Allow: /` of
/// `Allow: /x`.
pub(super) fn cut(mut read: Vec<u8>, limit: usize) -> Vec<u8> {
    // U+0A41 has a byte that is a line feed in ASCII.
    let (units, _) = read.as_chunks::<2>();
    let whole = match *read {
        [0xff, 0xfe, ..] => whole_lines(units, limit / 2, |unit| u16::from_le_bytes(*unit)).saturating_mul(2),
        [0xfe, 0xff, ..] => whole_lines(units, limit / 2, |unit| u16::from_be_bytes(*unit)).saturating_mul(2),
        _ => whole_lines(&read, limit, |byte| u16::from(*byte)),
    };
    read.truncate(whole);
    read
}

fn whole_lines<T>(units: &[T], limit: usize, value: fn(&T) -> u16) -> usize {
    let is_line_end = |unit: &T| matches!(value(unit), 0x0a | 0x0d);
    if units.get(limit).is_some_and(is_line_end) {
        return limit;
    }
    units.iter().take(limit).rposition(is_line_end).map_or(0, |at| at.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{Full, StreamBody};

    use super::*;

    const LIMIT: usize = 64;

    async fn read_all(bytes: Vec<u8>) -> (Vec<u8>, bool) {
        let body = Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync();
        read(body, LIMIT, &Semaphore::new(1)).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_are_long_and_stall_keep_no_short_one_waiting() {
        let large = Semaphore::new(2);
        let body = |len: usize, is_whole: bool| {
            let frames =
                futures_util::stream::iter([Ok(http_body::Frame::data(Bytes::from(vec![b'\n'; len])))]);
            let rest = futures_util::stream::poll_fn(move |_| match is_whole {
                true => std::task::Poll::Ready(None),
                false => std::task::Poll::Pending,
            });
            BodyExt::boxed_unsync(StreamBody::new(futures_util::StreamExt::chain(frames, rest)))
        };
        let within = |seconds, body| {
            let read = read(body, 512_000, &large);
            tokio::time::timeout(std::time::Duration::from_secs(seconds), read)
        };
        let long = SMALL_BODY_MAX + 1;
        let (a, b, c, d) = tokio::join!(
            within(30, body(long, false)),
            within(30, body(long, false)),
            within(29, body(long, true)),
            within(1, body(SMALL_BODY_MAX, true)),
        );
        assert!(a.is_err() && b.is_err() && c.is_err(), "the third waits for a place");
        assert_eq!(d.unwrap().unwrap().0.len(), SMALL_BODY_MAX);
        assert_eq!(large.available_permits(), 2);
    }

    #[tokio::test]
    async fn one_endless_line_leaves_nothing() {
        assert_eq!(read_all(vec![b'a'; 10_000]).await, (Vec::new(), true));
    }

    #[tokio::test]
    async fn utf_16_is_cut_between_its_own_lines() {
        // With the mark as long as the limit.
        let line = |end: &str| format!("Disallow: /{}{end}", "a".repeat(LIMIT / 2 - 12));
        // U+0A41 and U+410A have a byte that is a line feed in ASCII, one of them on either side of the unit.
        for (text, kept) in [
            ("Disallow: /a\nAllow: /\u{a41}\u{410a}more of it and on and on".to_owned(), 28),
            (line("\n"), LIMIT),
            (line("\r\nx"), LIMIT),
            (line("\u{a41}"), 0),
            (line("\u{410a}"), 0),
        ] {
            for unit in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
                let bytes: Vec<u8> =
                    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(unit).collect();
                assert_eq!(read_all(bytes.clone()).await, (bytes[..kept].to_vec(), true), "{text:?}");
                let (half, truncated) = read_all(bytes[..=LIMIT].to_vec()).await;
                assert!(truncated && half.len() < 30, "half a unit ends no line");
            }
        }
    }

    #[test]
    fn the_buffer_never_outgrows_the_limit() {
        let mut read = Vec::new();
        while read.len() < 512_002 {
            append(&mut read, &[b'x'; 7001], 512_002);
            assert!(read.capacity() <= 512_002, "{}", read.capacity());
        }
        assert_eq!(read.len(), 512_002);
    }

    #[tokio::test]
    async fn an_error_before_the_limit_is_an_error_and_after_it_is_not() {
        let broken = || Err(FetchError::new(Failure::Body, "cut"));
        for (len, ok) in [(0, false), (LIMIT, false), (LIMIT + 2, true), (LIMIT + 9, true)] {
            let first = Ok(http_body::Frame::data(Bytes::from(vec![b'\n'; len])));
            let frames = futures_util::stream::iter([first, broken()]);
            let body = BodyExt::boxed_unsync(StreamBody::new(frames));
            assert_eq!(read(body, LIMIT, &Semaphore::new(1)).await.is_ok(), ok, "{len}");
        }
    }
}
