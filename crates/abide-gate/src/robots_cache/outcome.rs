//! What a response to a robots.txt request means (RFC 9309 §2.3.1).
//!
//! It follows §2.3.1 in its order: the head decides, and only the body of a 2xx is read. What is not
//! understood is unreachable, never allowed.

use std::time::Duration;

use abide_robots::{ParseOptions, RecordKind, Robots};
use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, StatusCode};

use crate::pacing::{WaitRequest, wait_request};
use crate::robots_cache::freshness::stated_lifetime;
use crate::robots_cache::record::whole_seconds;
use crate::robots_cache::{GoodCopy, RobotsPolicy, Validators};
use crate::{Coding, Failure, WallMillis};

/// How an attempt to get a robots.txt ended, as the record's transition takes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FetchOutcome {
    /// §2.3.1.1: a complete 2xx body.
    Rules(GoodCopy),
    /// 304 to the validators of this copy, which has the fields of the 304 now.
    NotModified(GoodCopy),
    /// §2.3.1.3: the server says that there is none, and will say so for a while.
    Unavailable { status: u16, lifetime: Duration },
    /// 408, 421, 425, or a 4xx with a Retry-After: unavailable unless there is a copy, and it may be
    /// different in a minute.
    UnavailableForNow { status: u16, hold: Option<WallMillis> },
    /// 429 and its kin: unavailable unless there is a copy, and nothing is sent before the backoff has ended.
    Throttled { status: u16, hold: Option<WallMillis> },
    /// §2.3.1.2: more redirects than are followed, or a circle of them.
    TooManyRedirects,
    /// §2.3.1.4: it could not be fetched.
    Unreachable { cause: Failure, hold: Option<WallMillis> },
}

/// What to do next after the head of a response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AfterHead {
    /// 2xx: the body has the rules, in this coding.
    ReadBody(Option<Coding>),
    /// 304 to a request without validators: send it once more.
    AskAgain,
    /// A redirect, if its Location is good.
    Follow,
    /// The head decides, and the body is never read.
    Done(FetchOutcome),
}

/// Reads the head of a response that came at `now` and has backed its host off until `hold`, by RFC 9309
/// §2.3.1. The request had the validators of `copy`. A failure: robots.txt is unreachable.
pub(crate) fn classify(
    status: StatusCode,
    headers: &HeaderMap,
    now: WallMillis,
    hold: Option<WallMillis>,
    copy: Option<&GoodCopy>,
    policy: &RobotsPolicy,
) -> Result<AfterHead, Failure> {
    let asked = wait_request(status, headers, now);
    let status = status.as_u16();
    let lifetime = || stated_lifetime(headers, policy);
    let unreachable = Err(Failure::Status(status));
    Ok(match status {
        // Stricter: we sent no Range, so this is a part of the file, and a part is never parsed.
        206 => return unreachable,
        // RFC 9110 §15.3.5 and §15.3.6: without content there is nothing that could be in a coding.
        204 | 205 => AfterHead::ReadBody(None),
        // §2.3.1.1: if the crawler successfully downloads the file, it MUST follow the parseable rules. What
        // cannot be decoded, the parser cannot read: no rules would mean allow all.
        200..=299 => AfterHead::ReadBody(coding(headers)?),
        // §2.3.1.2: crawlers SHOULD follow at least five consecutive redirects.
        301 | 302 | 303 | 307 | 308 => AfterHead::Follow,
        // RFC 9111 §3.2: the fields that the 304 has replace the old ones; the others stay.
        304 => copy.map_or(AfterHead::AskAgain, |copy| {
            AfterHead::Done(FetchOutcome::NotModified(GoodCopy {
                validators: Validators::of(headers).or(&copy.validators),
                lifetime: lifetime().and_then(whole_seconds).or(copy.lifetime),
                ..copy.clone()
            }))
        }),
        300..=399 => return Err(Failure::RedirectStatus),
        // Stricter (`with_forbidden_unreachable`): these say "not you" or "not now" rather than "there is
        // none".
        401 | 403 | 407 | 408 | 421 | 425 if policy.refusals_are_unreachable => return unreachable,
        400..=499 if policy.refusals_are_unreachable && asked.backs_off() => return unreachable,
        // §2.3.1.3, and the host asks us to slow down: the pacer backs it off. Stricter: a copy stays in
        // force, because the file is still there.
        400..=499 if matches!(asked, WaitRequest::Throttle { .. }) => {
            AfterHead::Done(FetchOutcome::Throttled { status, hold })
        }
        // §2.3.1.3, but temporary, or with a time to wait for what is not gone: fetched again soon, and a
        // copy stays in force.
        400..=499 if asked.backs_off() || matches!(status, 408 | 421 | 425) => {
            AfterHead::Done(FetchOutcome::UnavailableForNow { status, hold })
        }
        // §2.3.1.3: "Unavailable" means status codes in the 400-499 range: the crawler MAY access any
        // resources.
        400..=499 => {
            let lifetime = lifetime().unwrap_or(policy.lifetime_max);
            AfterHead::Done(FetchOutcome::Unavailable { status, lifetime })
        }
        // §2.3.1.4: server errors, 500-599: the crawler MUST assume complete disallow. Stricter: so are
        // statuses unknown to HTTP, and a final 1xx.
        _ => return unreachable,
    })
}

/// The content coding, unless one is named that is not taken off. Clients take `chunked` off, and may leave
/// any other transfer coding as it is.
pub(super) fn coding(headers: &HeaderMap) -> Result<Option<Coding>, Failure> {
    let values = headers.get_all(TRANSFER_ENCODING).iter();
    let mut members = values.flat_map(|value| value.as_bytes().split(|&b| b == b',')).map(<[u8]>::trim_ascii);
    // Lenient: `identity`, which RFC 2616 §3.6 had, and which means that nothing was done.
    let is_taken_off = |member: &[u8]| {
        [&b""[..], b"chunked", b"identity"].iter().any(|known| member.eq_ignore_ascii_case(known))
    };
    if members.all(is_taken_off) { Coding::of(headers) } else { Err(Failure::TransferCoding) }
}

/// Whether a body is still in a coding: in one that was not named, in a second one below the named one, or in
/// what a decoding client left.
pub(crate) fn looks_coded(body: &[u8]) -> bool {
    // The magic numbers of gzip (RFC 1952 §2.3.1) and zstd (RFC 8878 §3.1.1).
    if body.starts_with(&[0x1f, 0x8b]) || body.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return true;
    }
    // Brotli and deflate have none. Stricter: bytes that are in neither UTF-8 nor any other text are taken
    // for one of them, not for a text without rules, which would mean allow all. An exception is a body that
    // has records and does not begin like such a stream: a text too short to compress is stored as it is,
    // behind some bytes of which one occurs in no text.
    let start = body.get(..TEXT_LEN_LOOKED_AT).unwrap_or(body);
    if !start.iter().copied().any(is_odd) || is_wide(start) {
        return false;
    }
    // A character that is cut off at the end is not invalid.
    let is_utf8 = std::str::from_utf8(start).map_or_else(|error| error.error_len().is_none(), |_| true);
    let head = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let begins_oddly = head.iter().take(4).any(|&b| b == 0x0b || is_odd(b) || (b >= 0x80 && !is_utf8));
    begins_oddly
        || (!is_utf8 && Robots::parse(body).records().all(|record| record.kind() == RecordKind::Other))
}

/// UTF-16 and UTF-32, with a mark or by their many NULs.
fn is_wide(start: &[u8]) -> bool {
    let has_mark =
        [&b"\xff\xfe"[..], b"\xfe\xff", b"\0\0\xfe\xff"].iter().any(|mark| start.starts_with(mark));
    // In UTF-16 every other byte of Latin text is NUL, in UTF-32 three of four are.
    has_mark || start.iter().filter(|&&b| b == 0).count() > start.len() / 4
}

/// A control character that is no white space and neither a NUL, an escape nor the end of a file in DOS.
fn is_odd(b: u8) -> bool {
    b < b' ' && !matches!(b, 0 | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | 0x1a | 0x1b)
}

/// Enough of a stream to hold what no text does.
const TEXT_LEN_LOOKED_AT: usize = 4_096;

/// Whether a 2xx document is HTML rather than text: by its type, or by how it begins.
pub(crate) fn is_html(content_type: Option<&[u8]>, body: &[u8]) -> bool {
    let essence = content_type.and_then(|value| value.split(|&b| b == b';').next()).unwrap_or_default();
    let essence = essence.trim_ascii();
    if [&b"text/html"[..], b"application/xhtml+xml"].iter().any(|html| essence.eq_ignore_ascii_case(html)) {
        return true;
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    let begins = |start: &&[u8]| body.get(..start.len()).is_some_and(|body| body.eq_ignore_ascii_case(start));
    [&b"<!doctype html"[..], b"<html", b"<head", b"<body"].iter().any(begins)
}

/// Whether any line is a rule, of any group, as the parser reads it.
pub(crate) fn has_rule(body: &[u8]) -> bool {
    let is_rule = |kind| matches!(kind, RecordKind::Allow | RecordKind::Disallow);
    // It was cut at the policy's limit, so the reader must not cut it at a lower one.
    let options = ParseOptions::new().with_limit(body.len());
    Robots::parse_with(body, options).records().any(|record| is_rule(record.kind()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::RETRY_AFTER;

    use super::*;
    use crate::robots_cache::RobotsRecord;

    const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);

    /// Each status from 100 to 999, by default and by the preset `cautious`.
    #[test]
    fn each_status_is_classified() {
        let (default, cautious) = (RobotsPolicy::default(), RobotsPolicy::cautious());
        let hold = Some(WallMillis::from_millis(7));
        for status in 100..=999 {
            let unreachable = Err(Failure::Status(status));
            let gone = FetchOutcome::Unavailable { status, lifetime: default.lifetime_max };
            let expected = match status {
                206 => unreachable.clone(),
                200..=299 => Ok(AfterHead::ReadBody(None)),
                301 | 302 | 303 | 307 | 308 => Ok(AfterHead::Follow),
                304 => Ok(AfterHead::AskAgain),
                300..=399 => Err(Failure::RedirectStatus),
                420 | 429 | 430 => Ok(AfterHead::Done(FetchOutcome::Throttled { status, hold })),
                408 | 421 | 425 => Ok(AfterHead::Done(FetchOutcome::UnavailableForNow { status, hold })),
                400..=499 => Ok(AfterHead::Done(gone)),
                _ => unreachable.clone(),
            };
            let if_cautious = match status {
                401 | 403 | 407 | 408 | 420 | 421 | 425 | 429 | 430 => unreachable,
                _ => expected.clone(),
            };
            for (policy, expected) in [(&default, expected), (&cautious, if_cautious)] {
                let code = StatusCode::from_u16(status).unwrap();
                assert_eq!(classify(code, &HeaderMap::new(), NOW, hold, None, policy), expected, "{status}");
            }
        }
        let record =
            RobotsRecord::sample(&"https://a.example".parse().unwrap(), WallMillis::default(), "".into());
        let conditional =
            classify(StatusCode::NOT_MODIFIED, &HeaderMap::new(), NOW, None, record.copy(), &default);
        assert!(matches!(conditional, Ok(AfterHead::Done(FetchOutcome::NotModified(_)))));
    }

    #[test]
    fn no_4xx_that_asks_to_wait_says_that_there_is_no_file() {
        let hold = Some(WallMillis::from_millis(7));
        for status in 400..=499 {
            let code = StatusCode::from_u16(status).unwrap();
            let read = |retry_after: &str, policy: &RobotsPolicy| {
                let fields = HeaderMap::from_iter([(RETRY_AFTER, retry_after.parse().unwrap())]);
                classify(code, &fields, NOW, hold, None, policy)
            };
            let expected = match status {
                420 | 429 | 430 => FetchOutcome::Throttled { status, hold },
                _ => FetchOutcome::UnavailableForNow { status, hold },
            };
            assert_eq!(read("600", &RobotsPolicy::default()), Ok(AfterHead::Done(expected)), "{status}");
            assert_eq!(read("600", &RobotsPolicy::cautious()), Err(Failure::Status(status)), "{status}");
            let gone = matches!(
                read("soon", &RobotsPolicy::default()),
                Ok(AfterHead::Done(FetchOutcome::Unavailable { .. }))
            );
            assert_eq!(gone, !matches!(status, 408 | 420 | 421 | 425 | 429 | 430), "{status}");
        }
    }

    #[test]
    fn a_coding_that_is_left_is_unreachable() {
        for (value, coded) in [
            ("chunked", false),
            ("Chunked", false),
            ("identity", false),
            ("Identity, chunked", false),
            ("gzip, chunked", true),
            ("gzip", true),
            ("identity, gzip", true),
        ] {
            let headers = HeaderMap::from_iter([(TRANSFER_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(coding(&headers).err(), coded.then_some(Failure::TransferCoding), "{value}");
        }
        assert!(looks_coded(b"\x1f\x8b\x08") && looks_coded(&[0x28, 0xb5, 0x2f, 0xfd]));
        assert!(!looks_coded(b"User-agent: *"));
    }

    #[test]
    fn streams_without_a_name_are_no_texts() {
        for (coded, body) in [
            // "User-agent: *\nAllow: /\n" in deflate, and in brotli as it is and as it was.
            (true, &b"\x78\x9c\x0b\x2d\x4e\x2d\xd2\x4d\x4c\x4f\xcd\x2b\xb1\x52\xd0\xe2\x72\xcc\xc9\xc9\x2f\xb7\x52\xd0\x07"[..]),
            (true, b"\x8b\x0b\x80\x03\x92\x40\x55\x73\xea"),
            (true, b"\x0b\x0b\x80User-agent: *\nAllow: /\n\x03"),
            (true, b"\x83\x0c\x80User-agent: *\nDisallow: /\n\x03"),
            (true, b"\x83\r\x80User-agent: *\r\nDisallow: /\r\n\x03"),
            (true, b"P\x03\x10User-agent: *\nDisallow: /\n\x03"),
            (true, b"!d\x00\x04User-agent: *\nDisallow: /\n\x03"),
            (false, b"\0\0\xfe\xff\0\0\0#\0\0\x04\x3f\0\0\xd8\xff"),
            (false, b"# caf\xe9\x01\nUser-agent *\nDisallow /\n"),
            (false, b"# caf\xe9\x13\nUser-agent: *\nDisalow: /a\n"),
            (false, b"# caf\xe9 \x95\x13\nSitemap: https://a.example/s.xml"),
            // Strange, but texts: Latin-1, a DOS end of file, escapes, NUL, both marks, rules among rubbish.
            (false, b"# \xe9t\xe9\nDisallow: /\n\x1a"),
            (false, b"# \xe9t\xe9\n"),
            (false, b"# in UTF-8 \x01\x02"),
            (false, b"\x1b[31m\0 \xe9"),
            (false, b"\xef\xbb\xbf# \xe9"),
            (false, b"\xff\xfe\x01\x02\xe9"),
            (false, b"User-agent: *\nDisallow: /\n\x01\xe9"),
            (false, b""),
        ] {
            assert_eq!(looks_coded(body), coded, "{body:?}");
        }
        // A character that the look ends within is whole.
        let text = ["text\u{1}".to_owned(), "\u{e9}".repeat(4_096)].concat();
        assert!(!looks_coded(text.as_bytes()));
    }

    #[test]
    fn html_is_known_by_type_or_beginning() {
        assert!(is_html(Some(b"Text/HTML; charset=utf-8"), b"User-agent: *"));
        assert!(is_html(None, b"\xef\xbb\xbf \n<!DOCTYPE HTML><p>"));
        assert!(!is_html(Some(b"text/plain"), b"User-agent: *"));
        let late = "#\n".repeat(300_000) + "Allow: /";
        for rule in ["<html>\n disallow : /\n", "Dissallow: /x", "Disallow /x", "\u{feff}Allow: /", &late] {
            assert!(has_rule(rule.as_bytes()), "{rule}");
        }
        assert!(has_rule(b"\xff\xfeA\0l\0l\0o\0w\0:\0/\0"), "UTF-16");
        assert!(!has_rule(b"<html>\n<p>You may allow: this\n") && !has_rule(b"User-agent: *\n"));
    }
}
