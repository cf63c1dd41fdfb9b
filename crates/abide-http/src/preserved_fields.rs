//! What the server sent, past a cache between the halves.
//!
//! HTTP caches do not keep all field lines: http-cache loses the second line of a field when a 304 updates its entry, fields that a 304 adds, and
//! lines that are not ASCII. A lost `X-Robots-Tag` would be a restriction that is not obeyed. So the half that paces, which has the response of the
//! wire, writes all lines of each field that matters here into one line of a further field. A cache keeps it, and replaces it where a 304 brings
//! another, as it should the field itself (RFC 9111 §3.2). The outer half takes it away again, and puts back what it says.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use abide_gate::WallMillis;

use crate::reader::FieldSource;

/// Fields, and those that carry their lines past a cache.
const PRESERVED: [(&str, &str); 8] = [
    ("robots-tag", "abide-received-robots-tag"),
    ("x-robots-tag", "abide-received-x-robots-tag"),
    ("content-usage", "abide-received-content-usage"),
    ("content-signal", "abide-received-content-signal"),
    ("tdm-reservation", "abide-received-tdm-reservation"),
    ("tdm-policy", "abide-received-tdm-policy"),
    // These two decide whether the head is read.
    ("content-type", "abide-received-content-type"),
    ("content-encoding", "abide-received-content-encoding"),
];

/// When the answer came, or was last said to be still good.
const TIME: HeaderName = HeaderName::from_static("abide-received-at");

/// Copies the fields that came from the wire. Of a 304, which updates what is kept, only the fields that it has.
pub fn preserve_fields<B>(response: &mut Response<B>, now: WallMillis) {
    let is_update = response.status() == StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    headers.insert(TIME, HeaderValue::from(now.as_millis()));
    for (name, copy) in PRESERVED {
        // A server could send it as well.
        headers.remove(copy);
        if !is_update || headers.contains_key(name) {
            let lines = encode(headers.get_all(name).iter().map(HeaderValue::as_bytes));
            headers.insert(copy, lines);
        }
    }
}

/// Takes away what was preserved, and unites it with the fields that are there.
pub(crate) fn restore_fields(status: StatusCode, headers: &mut HeaderMap) -> FieldSource {
    let time =
        headers.remove(TIME).and_then(|time| time.to_str().ok()?.parse().ok().map(WallMillis::from_millis));
    let mut is_complete = true;
    for (name, copy) in PRESERVED {
        match headers.remove(copy).map(|preserved| decode(&preserved)) {
            Some(Some(lines)) => unite(headers, name, lines),
            // A 304 that is handed on says nothing of fields that it has not.
            None if status == StatusCode::NOT_MODIFIED => {}
            Some(None) | None => is_complete = false,
        }
    }
    time.filter(|_| is_complete).map_or(FieldSource::Unknown, FieldSource::Kept)
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
        text.extend(percent_encode(line, NON_ALPHANUMERIC));
        if text.len() > BYTES_MAX {
            return HeaderValue::from_static("cut");
        }
    }
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("cut"))
}

fn decode(preserved: &HeaderValue) -> Option<Vec<HeaderValue>> {
    let mut words = preserved.to_str().ok()?.split(' ');
    words.next().filter(|version| *version == VERSION)?;
    let line = |word: &str| Some(percent_decode_str(word.strip_prefix('=')?).collect::<Vec<u8>>());
    words.map(|word| HeaderValue::from_bytes(&line(word)?).ok()).collect()
}

const VERSION: &str = "1";

/// More of one field is not read, unless the caller sets a limit beyond all that is common. Then it is unknown.
const BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: FieldSource = FieldSource::Kept(WallMillis::from_millis(7));

    fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &[u8])| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
        };
        lines.iter().map(line).collect()
    }

    fn preserved(status: u16, lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut response = Response::builder().status(status).body(()).unwrap();
        *response.headers_mut() = headers(lines);
        preserve_fields(&mut response, WallMillis::from_millis(7));
        response.headers().clone()
    }

    #[test]
    fn all_lines_come_back_whatever_a_cache_did_to_them() {
        let lines: [(&'static str, &[u8]); 7] = [
            ("x-robots-tag", b"noindex, caf\xe9"),
            ("x-robots-tag", b""),
            ("x-robots-tag", b"100% =x"),
            ("content-type", b"text/plain"),
            ("content-type", b"text/html"),
            ("robots-tag", b"nofollow"),
            // What the cache has besides counts, too.
            ("robots-tag", b"noindex"),
        ];
        let mut kept = preserved(200, &lines[..6]);
        kept.remove("x-robots-tag");
        kept.insert("content-type", HeaderValue::from_static("text/html"));
        kept.insert("robots-tag", HeaderValue::from_static("noindex"));
        assert_eq!(restore_fields(StatusCode::OK, &mut kept), KEPT);
        assert_eq!(kept, headers(&lines));
    }

    #[test]
    fn what_was_not_told_is_unknown() {
        let whole = preserved(200, &[("x-robots-tag", b"nofollow")]);
        let mut without = vec![headers(&[("x-robots-tag", b"nofollow")])];
        for name in PRESERVED.map(|(_, copy)| copy).into_iter().chain([TIME.as_str()]) {
            let mut headers = whole.clone();
            headers.remove(name);
            without.push(headers);
        }
        for bad in ["", "2", "1 x", "1 =%0A", "cut"] {
            let mut headers = whole.clone();
            headers.insert("abide-received-x-robots-tag", HeaderValue::from_static(bad));
            without.push(headers);
        }
        for mut headers in without {
            assert_eq!(restore_fields(StatusCode::OK, &mut headers), FieldSource::Unknown);
            assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-robots-tag"]);
        }
        let long = vec![b'x'; BYTES_MAX];
        let mut headers = preserved(200, &[("x-robots-tag", &long)]);
        assert_eq!(restore_fields(StatusCode::OK, &mut headers), FieldSource::Unknown);
    }

    #[test]
    fn a_304_tells_of_the_fields_that_it_has_and_of_no_server_s_own() {
        let sent: [(&'static str, &[u8]); 2] =
            [("x-robots-tag", b"all"), ("abide-received-robots-tag", b"1")];
        let mut update = preserved(304, &sent);
        let names: Vec<_> = update.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-robots-tag", "abide-received-at", "abide-received-x-robots-tag"]);
        assert_eq!(restore_fields(StatusCode::NOT_MODIFIED, &mut update), KEPT);
        assert_eq!(update, headers(&sent[..1]));
    }
}
