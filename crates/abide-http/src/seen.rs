//! What the server sent, past a cache between the halves.
//!
//! HTTP caches do not keep all field lines: http-cache loses the second line of a field when a 304 updates its entry, fields that a 304 adds,
//! and lines that are not ASCII. A lost `X-Robots-Tag` would be a restriction that nobody obeys. So the half that paces, which has the
//! answer of the wire, writes all lines of the fields that matter here into a field of its own for each of them. The cache keeps that
//! one line with its entry, and replaces it where a 304 brings another, as it should the field itself (RFC 9111 §3.2). The outer half
//! takes it away again, and puts back what it says.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use abide_gate::WallMillis;

/// Where an answer comes from, as far as its fields are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From the wire.
    Wire,
    /// From the wire at that time, with all fields that were there then.
    Kept(WallMillis),
    /// Through something that may have dropped fields.
    Unknown,
}

/// A field that matters, and the one that tells of its lines.
struct Told {
    name: &'static str,
    by: HeaderName,
}

const TOLD: [Told; 8] = [
    Told { name: "robots-tag", by: HeaderName::from_static("abide-seen-robots-tag") },
    Told { name: "x-robots-tag", by: HeaderName::from_static("abide-seen-x-robots-tag") },
    Told { name: "content-usage", by: HeaderName::from_static("abide-seen-content-usage") },
    Told { name: "content-signal", by: HeaderName::from_static("abide-seen-content-signal") },
    Told { name: "tdm-reservation", by: HeaderName::from_static("abide-seen-tdm-reservation") },
    Told { name: "tdm-policy", by: HeaderName::from_static("abide-seen-tdm-policy") },
    // These two decide whether the head is read.
    Told { name: "content-type", by: HeaderName::from_static("abide-seen-content-type") },
    Told { name: "content-encoding", by: HeaderName::from_static("abide-seen-content-encoding") },
];

/// When the answer came, or was last said to be still good.
const TIME: HeaderName = HeaderName::from_static("abide-seen-at");

/// Tells what has come from the wire. Of a 304, which updates what is kept, only the fields that it has.
pub fn tell_seen<B>(response: &mut Response<B>, now: WallMillis) {
    let is_update = response.status() == StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    headers.insert(TIME, HeaderValue::from(now.as_millis()));
    for Told { name, by } in &TOLD {
        // A server could send it as well.
        headers.remove(by);
        if !is_update || headers.contains_key(*name) {
            let lines = encode(headers.get_all(*name).iter().map(HeaderValue::as_bytes));
            headers.insert(by, lines);
        }
    }
}

/// Takes away what was told, and unites it with the fields that are there.
pub fn take_seen(status: StatusCode, headers: &mut HeaderMap) -> Source {
    let time =
        headers.remove(TIME).and_then(|time| time.to_str().ok()?.parse().ok().map(WallMillis::from_millis));
    let mut is_complete = true;
    for Told { name, by } in &TOLD {
        match headers.remove(by).map(|told| decode(&told)) {
            Some(Some(lines)) => unite(headers, name, lines),
            // A 304 that is handed on says nothing of fields that it has not.
            None if status == StatusCode::NOT_MODIFIED => {}
            Some(None) | None => is_complete = false,
        }
    }
    time.filter(|_| is_complete).map_or(Source::Unknown, Source::Kept)
}

fn unite(headers: &mut HeaderMap, name: &'static str, mut lines: Vec<HeaderValue>) {
    let others: Vec<_> = headers.get_all(name).iter().filter(|line| !lines.contains(line)).cloned().collect();
    lines.extend(others);
    headers.remove(name);
    for line in lines {
        headers.append(name, line);
    }
}

/// As text of ASCII letters, digits and percent signs, which any cache keeps: `1 =noindex =googlebot%3A%20nofollow`.
fn encode<'a>(lines: impl Iterator<Item = &'a [u8]>) -> HeaderValue {
    let mut text = VERSION.to_owned();
    for line in lines {
        text.push_str(" =");
        for &byte in line {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
        if text.len() > BYTES_MAX {
            return HeaderValue::from_static("cut");
        }
    }
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("cut"))
}

fn decode(told: &HeaderValue) -> Option<Vec<HeaderValue>> {
    let mut words = told.to_str().ok()?.split(' ');
    words.next().filter(|version| *version == VERSION)?;
    words.map(|word| line(word.strip_prefix('=')?)).collect()
}

fn line(text: &str) -> Option<HeaderValue> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high << 4 | low).ok()?
            }
            byte => byte,
        });
    }
    HeaderValue::from_bytes(&bytes).ok()
}

const VERSION: &str = "1";

/// More of one field is not read, unless the caller sets a limit beyond all that is common. Then it is unknown.
const BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &[u8])| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
        };
        lines.iter().map(line).collect()
    }

    /// What is told of these fields, and the fields themselves.
    fn told(status: u16, lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut response = Response::builder().status(status).body(()).unwrap();
        *response.headers_mut() = headers(lines);
        tell_seen(&mut response, WallMillis::from_millis(7));
        response.headers().clone()
    }

    #[test]
    fn all_lines_come_back_whatever_a_cache_did_to_them() {
        let lines: [(&'static str, &[u8]); 5] = [
            ("x-robots-tag", b"noindex, caf\xe9"),
            ("x-robots-tag", b""),
            ("x-robots-tag", b"100% =x"),
            ("content-type", b"text/plain"),
            ("content-type", b"text/html"),
        ];
        let mut kept = told(200, &lines);
        kept.remove("x-robots-tag");
        kept.insert("content-type", HeaderValue::from_static("text/html"));
        assert_eq!(take_seen(StatusCode::OK, &mut kept), Source::Kept(WallMillis::from_millis(7)));
        assert_eq!(kept, headers(&lines));
    }

    #[test]
    fn what_the_cache_has_besides_counts_too() {
        let mut kept = told(200, &[("x-robots-tag", b"nofollow")]);
        kept.insert("x-robots-tag", HeaderValue::from_static("noindex"));
        assert_eq!(take_seen(StatusCode::OK, &mut kept), Source::Kept(WallMillis::from_millis(7)));
        assert_eq!(kept, headers(&[("x-robots-tag", b"nofollow"), ("x-robots-tag", b"noindex")]));
    }

    #[test]
    fn what_was_not_told_is_unknown() {
        let whole = told(200, &[("x-robots-tag", b"nofollow")]);
        let mut without: Vec<HeaderMap> = TOLD
            .iter()
            .map(|told| {
                let mut headers = whole.clone();
                headers.remove(&told.by);
                headers
            })
            .collect();
        for bad in ["", "2", "1 x", "1 =%4", "1 =%0A", "cut"] {
            let mut headers = whole.clone();
            headers.insert(&TOLD[1].by, HeaderValue::from_static(bad));
            without.push(headers);
        }
        let mut timeless = whole.clone();
        timeless.remove(TIME);
        without.extend([timeless, headers(&[("x-robots-tag", b"nofollow")])]);
        for mut headers in without {
            assert_eq!(take_seen(StatusCode::OK, &mut headers), Source::Unknown);
            assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-robots-tag"]);
        }
        let long = vec![b'x'; BYTES_MAX];
        let mut headers = told(200, &[("x-robots-tag", &long)]);
        assert_eq!(take_seen(StatusCode::OK, &mut headers), Source::Unknown);
    }

    #[test]
    fn a_304_tells_of_the_fields_that_it_has_and_of_no_server_s_own() {
        let sent: [(&'static str, &[u8]); 2] = [("x-robots-tag", b"all"), ("abide-seen-robots-tag", b"1")];
        let mut update = told(304, &sent);
        let names: Vec<_> = update.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-robots-tag", "abide-seen-at", "abide-seen-x-robots-tag"]);
        assert_eq!(
            take_seen(StatusCode::NOT_MODIFIED, &mut update),
            Source::Kept(WallMillis::from_millis(7))
        );
        assert_eq!(update, headers(&sent[..1]));
    }
}
