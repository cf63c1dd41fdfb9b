//! `Retry-After` (RFC 9110 §10.2.3): seconds, or an HTTP date.
//!
//! The field comes from a server that may be wrong, broken or hostile, and decides how long a host is left alone: whatever it holds, the
//! result is nothing or a time of up to a day.

#![warn(clippy::arithmetic_side_effects)]

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::WallMillis;
use crate::text::digits;

/// The longest time a server can ask for: 24 h. Longer is taken as this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// How long the server asks us to stay away, at most [`RETRY_AFTER_MAX`]; nothing if no field is usable.
///
/// `0`, a date that has passed, a negative number, a fraction, words and an empty field are not usable: a server that
/// answers 429 and means "now" is not believed. Of several fields the longest counts.
///
/// A date is counted from the response's own `Date` if that parses and is within a day of `wall`, so that a server whose
/// clock is wrong still gets the time it meant; else from `wall`.
///
/// ```
/// # use std::time::Duration;
/// # use abide_gate::{WallMillis, pacing::retry_after};
/// let mut headers = http::HeaderMap::new();
/// headers.insert("retry-after", "120".parse()?);
/// assert_eq!(retry_after(&headers, WallMillis::from_millis(0)), Some(Duration::from_secs(120)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn retry_after(headers: &HeaderMap, wall: WallMillis) -> Option<Duration> {
    let base = server_time(headers, wall);
    let fields = headers.get_all(RETRY_AFTER).iter().take(FIELDS_MAX);
    fields.filter_map(|field| parse(field.as_bytes(), base)).max()
}

/// More fields than anybody sends with good intent.
const FIELDS_MAX: usize = 16;

/// The time from which the server counts.
pub(crate) fn server_time(headers: &HeaderMap, wall: WallMillis) -> WallMillis {
    let date = headers.get(DATE).and_then(|field| http_date(field.as_bytes()));
    let is_near = |date: &WallMillis| date.since(wall).max(wall.since(*date)) <= RETRY_AFTER_MAX;
    date.filter(is_near).unwrap_or(wall)
}

fn parse(field: &[u8], base: WallMillis) -> Option<Duration> {
    let text = field.trim_ascii();
    let wait = match digits(text) {
        Some(seconds) => Duration::from_secs(seconds),
        None => http_date(text)?.since(base),
    };
    // Stricter: RFC 9110 allows zero, "at once". From a server that has just refused us it is no answer to believe.
    // Lenient: a day is the most we stay away by order of one header field; if the server still means it, it will say so again.
    (!wait.is_zero()).then(|| wait.min(RETRY_AFTER_MAX))
}

/// The three forms of RFC 9110 §5.6.7, with or without spaces around them.
fn http_date(text: &[u8]) -> Option<WallMillis> {
    httpdate::parse_http_date(str::from_utf8(text).ok()?).ok().map(WallMillis::from)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110.
    const NOW: WallMillis = WallMillis::from_millis(784_111_777_000);

    fn wait(fields: &[&str], date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(RETRY_AFTER, HeaderValue::from_str(field).unwrap());
        }
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_str(date).unwrap());
        }
        retry_after(&headers, NOW).map(|wait| wait.as_secs())
    }

    #[test]
    fn every_row_of_the_table_is_read_as_it_says() {
        let table = include_str!("../../tests/vectors/retry_after.tsv");
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let columns: Vec<&str> = row.split('\t').collect();
            assert_eq!(wait(&columns[1..], None), columns[0].parse().ok(), "{row}");
        }
        assert_eq!(wait(&["\t7\t"], None), Some(7), "tabs part the columns of the table");
    }

    #[test]
    fn a_date_counts_from_the_servers_own_clock_within_a_day() {
        let retry = &["Sun, 06 Nov 1994 09:49:47 GMT"];
        // The server is an hour ahead: it means ten seconds.
        assert_eq!(wait(retry, Some("Sun, 06 Nov 1994 09:49:37 GMT")), Some(10));
        // It is a year ahead, or talks nonsense: our clock.
        assert_eq!(wait(retry, Some("Mon, 06 Nov 1995 09:49:37 GMT")), Some(3_610));
        assert_eq!(wait(retry, Some("yesterday")), Some(3_610));
        // Seconds do not care for dates.
        assert_eq!(wait(&["10"], Some("Sun, 06 Nov 1994 09:49:37 GMT")), Some(10));
    }

    #[test]
    fn bytes_that_are_not_text_are_not_usable() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_bytes(b"\xff\xfe1").unwrap());
        assert_eq!(retry_after(&headers, NOW), None);
    }
}
