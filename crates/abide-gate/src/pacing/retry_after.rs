//! `Retry-After` (RFC 9110 §10.2.3): seconds, or a date; and what else servers write there.
//!
//! The field comes from a server that may be wrong, broken or hostile, and decides how long a host is left
//! alone: whatever it holds, the result is nothing or a time of up to a day. A number that can be read is
//! never taken for less than it says, because a crawler that comes back early is refused again.

#![warn(clippy::arithmetic_side_effects)]

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use time::OffsetDateTime;
use time::format_description::well_known::{Iso8601, Rfc2822};

use crate::WallMillis;

/// The longest time a server can ask for: 24 h. Longer is taken as this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// How long the server asks us to stay away, at most [`RETRY_AFTER_MAX`]; nothing if no field is usable.
///
/// Seconds are read wherever a number stands: `120`, `119.5`, `120s`, `"120"`, `120;`, `2 minutes`; a number
/// above 10^9 is Unix time, above 10^12 in milliseconds. A date has one of HTTP's three forms, or that of ISO
/// 8601, or almost one of these. Of several lines and members the longest time counts. `0`, a date that has
/// passed, a negative number, words and an empty field are not usable: a server that answers 429 and means
/// "now" is not believed.
///
/// A date is counted from the response's own `Date` if that parses and is within a day of `wall`, so that a
/// server whose clock is wrong still gets the time it meant; else from `wall`.
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
    // Most errors have none, and then no date need be read.
    headers.get(RETRY_AFTER)?;
    let base = server_time(headers, wall);
    let lines = headers.get_all(RETRY_AFTER).iter().take(LINES_MAX);
    let longest = lines.filter_map(|line| span(text(line.as_bytes())?, base)).max()?;
    // Stricter: RFC 9110 allows zero, "at once". From a server that has just refused us it is no answer to
    // believe. Lenient: a day is the most we stay away by order of one header field; if the server still
    // means it, it will say so again.
    (!longest.is_zero()).then(|| longest.min(RETRY_AFTER_MAX))
}

/// More lines than anybody sends with good intent.
pub(crate) const LINES_MAX: usize = 16;

/// Longer than any date or list that anybody sends with good intent.
const LINE_LEN_MAX: usize = 256;

/// A number above this is a time, in seconds since 1970; below it, it is a number of seconds.
const UNIX_SECONDS_MIN: f64 = 1e9;

/// A number above this is a time in milliseconds since 1970.
const UNIX_MILLIS_MIN: f64 = 1e12;

/// The time from which the server counts.
fn server_time(headers: &HeaderMap, wall: WallMillis) -> WallMillis {
    let date = headers.get(DATE).and_then(|field| date(text(field.as_bytes())?));
    let is_near = |date: &WallMillis| date.since(wall).max(wall.since(*date)) <= RETRY_AFTER_MAX;
    date.filter(is_near).unwrap_or(wall)
}

/// How long until what a field of this response says, if that is a number or a date: of several members the
/// longest. Zero: it has passed.
pub(crate) fn span_of(field: &[u8], headers: &HeaderMap, wall: WallMillis) -> Option<Duration> {
    span(text(field)?, server_time(headers, wall))
}

fn text(field: &[u8]) -> Option<&str> {
    str::from_utf8(field).ok().filter(|text| text.is_ascii() && text.len() <= LINE_LEN_MAX)
}

fn span(line: &str, base: WallMillis) -> Option<Duration> {
    let member = |text: &str| date(text).map(|date| date.since(base)).or_else(|| number(text, base));
    // Lenient: the field is no list, but proxies join lines. A comma within a date leaves its weekday over,
    // which is no time.
    date(line).map(|date| date.since(base)).or_else(|| line.split(',').filter_map(member).max())
}

/// A number behind any words: of seconds; of units that add up, as in `1h30m` and `PT1H30M`; or Unix time.
fn number(text: &str, base: WallMillis) -> Option<Duration> {
    // What follows is a parameter or a comment.
    let text = text.split([';', '(']).next()?.trim_end_matches(is_around);
    let (words, amounts) = text.split_at_checked(text.find(|c: char| c.is_ascii_digit())?)?;
    // In `retry-5` it is no sign.
    let is_negative = |words: &str| !words.ends_with(|c: char| c.is_ascii_alphanumeric());
    if words.trim_end().strip_suffix('-').is_some_and(is_negative) {
        return None;
    }
    let amounts = amounts_of(amounts)?;
    if let [(number, "")] = *amounts
        && number > UNIX_SECONDS_MIN
    {
        let seconds = if number > UNIX_MILLIS_MIN { number / 1_000.0 } else { number };
        return Some(WallMillis::from_millis(0).plus(whole_seconds(seconds)).since(base));
    }
    if let [(number, "")] = *amounts {
        return Some(whole_seconds(number));
    }
    let seconds: Option<f64> = amounts.iter().map(|(number, unit)| Some(number * unit_seconds(unit)?)).sum();
    seconds.map(whole_seconds)
}

/// Each number with the text behind it.
fn amounts_of(mut text: &str) -> Option<Vec<(f64, &str)>> {
    let mut amounts = Vec::new();
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, behind) = text.split_at_checked(end)?;
        let (unit, rest) =
            behind.split_at_checked(behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len()))?;
        amounts.push((number.parse().ok()?, unit.trim()));
        text = rest;
    }
    Some(amounts)
}

/// Nothing without a unit, and nothing with one that is not known, because it may be longer than a second.
fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit.split_whitespace().next()?.to_ascii_lowercase().as_str() {
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

/// Rounded up. More than fits is still a long time.
fn whole_seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.ceil()).unwrap_or(Duration::MAX)
}

/// The three forms of RFC 9110 §5.6.7. Lenient: these with another zone or dashes, and ISO 8601, because
/// libraries of servers write them.
fn date(text: &str) -> Option<WallMillis> {
    let text = text.trim_matches(is_around);
    if let Ok(date) = httpdate::parse_http_date(text) {
        return Some(date.into());
    }
    let (clock, east) = without_zone(text);
    // The weekday says nothing that the date does not.
    let clock = clock.trim_start_matches(|c: char| c.is_ascii_alphabetic() || matches!(c, ',' | ' '));
    let date = if clock.as_bytes().get(4) == Some(&b'-') {
        OffsetDateTime::parse(&format!("{}Z", clock.replacen(' ', "T", 1)), &Iso8601::PARSING)
    } else {
        OffsetDateTime::parse(&format!("{} +0000", clock.replace('-', " ")), &Rfc2822)
    };
    let date = date.ok()?;
    // A fraction is rounded up.
    let seconds = date.unix_timestamp().saturating_add(i64::from(date.nanosecond() > 0)).saturating_sub(east);
    Some(WallMillis::from_millis(u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000)))
}

/// The text before the zone, and how many seconds the zone is ahead of UTC. Lenient: without a zone it is
/// UTC.
fn without_zone(text: &str) -> (&str, i64) {
    let offset = |len: usize| {
        let (before, zone) = text.split_at_checked(text.len().checked_sub(len)?)?;
        let (sign, digits) = (zone.get(..1)?, zone.get(1..)?.replace(':', ""));
        let [hours, minutes] = [digits.get(..2)?, digits.get(2..)?].map(|digits| digits.parse::<u32>().ok());
        let east = hours?
            .saturating_mul(60)
            .saturating_add(minutes.filter(|_| digits.len() == 4)?)
            .saturating_mul(60);
        match sign {
            "+" => Some((before, i64::from(east))),
            "-" => Some((before, i64::from(east).saturating_neg())),
            _ => None,
        }
    };
    let (text, east) = offset(5).or_else(|| offset(6)).unwrap_or((text, 0));
    let name = ["GMT", "UTC", "UT", "Z"].into_iter().find(|name| {
        text.len()
            .checked_sub(name.len())
            .and_then(|start| text.get(start..))
            .is_some_and(|end| end.eq_ignore_ascii_case(name))
    });
    let end = text.len().saturating_sub(name.map_or(0, str::len));
    (text.get(..end).unwrap_or(text).trim_end(), east)
}

/// Between what is stated and the ends of a member.
fn is_around(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '"' | '\'' | '}' | ']' | '.')
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

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
        assert_eq!(wait(&[&"9".repeat(LINE_LEN_MAX)], None), Some(86_400));
        assert_eq!(wait(&[&"9".repeat(LINE_LEN_MAX + 1)], None), None, "no sender means that");
    }

    #[test]
    fn a_time_counts_from_the_servers_own_clock_within_a_day() {
        for retry in ["Sun, 06 Nov 1994 09:49:47 GMT", "1994-11-06T09:49:47Z"] {
            // The server is an hour ahead: it means ten seconds.
            assert_eq!(wait(&[retry], Some("Sun, 06 Nov 1994 09:49:37 GMT")), Some(10));
            assert_eq!(wait(&[retry], Some("Sun, 06-Nov-1994 09:49:37 UTC")), Some(10));
            // It is a year ahead, or talks nonsense: our clock.
            assert_eq!(wait(&[retry], Some("Mon, 06 Nov 1995 09:49:37 GMT")), Some(3_610));
            assert_eq!(wait(&[retry], Some("yesterday")), Some(3_610));
        }
        // Seconds do not care for dates.
        assert_eq!(wait(&["10"], Some("Sun, 06 Nov 1994 09:49:37 GMT")), Some(10));
        let year_2001 = WallMillis::from_millis(1_000_000_000_000);
        for time in ["1000000060", "1000000060.0", "1000000060000"] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, time.parse().unwrap())]);
            assert_eq!(retry_after(&headers, year_2001), Some(Duration::from_secs(60)), "{time}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_not_usable() {
        for field in [&b"\xff\xfe1"[..], "\u{2212}5".as_bytes()] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_bytes(field).unwrap())]);
            assert_eq!(retry_after(&headers, NOW), None);
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_there_is_nothing_or_up_to_a_day(
            field in "([0-9]{1,3}|[-+.,;:\" TZ]|Sun|Nov|GMT|1994|[a-z]){0,12}"
        ) {
            prop_assert!(wait(&[&field], Some(&field)).is_none_or(|wait| (1..=86_400).contains(&wait)));
        }

        #[test]
        fn a_number_is_never_taken_for_less(seconds in 1_u32..86_400, fraction in 0_u32..1_000) {
            for form in ["{}", "{}s", "\"{}\"", "{};", "1, {}", "in {} seconds"] {
                let number = format!("{seconds}.{fraction:03}");
                let least = u64::from(seconds).saturating_add(u64::from(fraction > 0));
                prop_assert_eq!(wait(&[&form.replace("{}", &number)], None), Some(least));
            }
        }
    }
}
