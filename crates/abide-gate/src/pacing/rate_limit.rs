//! `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11), and `X-RateLimit-Remaining` with `-Reset`: how long to wait
//! before the next request.
//!
//! The requests that are left are spread over the time until there are more, so that the last of them is not the one too many. A server
//! says this before it refuses anything; `Retry-After` is what it says when it does.

#![warn(clippy::arithmetic_side_effects)]

use std::time::Duration;

use http::HeaderMap;
use http::header::AGE;
use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::retry_after::{RETRY_AFTER_MAX, server_time};
use crate::WallMillis;

const RATELIMIT: &str = "ratelimit";
const RATELIMIT_POLICY: &str = "ratelimit-policy";
const X_REMAINING: &str = "x-ratelimit-remaining";
const X_RESET: &str = "x-ratelimit-reset";

/// No quota lasts longer than a leap year.
const WINDOW_SECONDS_MAX: u64 = 366 * 86_400;

/// More items or bytes than anybody sends with good intent.
const VALUE_LEN_MAX: usize = 4096;

/// A reset above this is a time, in seconds since 1970 (GitHub and its followers); below it is a number of seconds.
const EPOCH_SECONDS_MIN: i64 = 1_000_000_000;

/// Most responses say nothing.
pub(crate) fn has_rate_limit(headers: &HeaderMap) -> bool {
    // A look at the few names of a response is less than a look-up.
    headers.keys().any(|name| matches!(name.as_str(), RATELIMIT | X_REMAINING))
}

/// How long the next request had best wait: by `RateLimit`; without that field, or if it is malformed, by `X-RateLimit-Remaining`. Of
/// several quotas the one that asks for most counts. What a cache has kept is not current, so a response with an `Age` says nothing. The error
/// names a field that no server can mean, and that is ignored.
pub(crate) fn rate_limit(headers: &HeaderMap, wall: WallMillis) -> Result<Option<Duration>, &'static str> {
    if headers.get(AGE).is_some_and(|age| age.as_bytes().trim_ascii() != b"0") {
        return Ok(None);
    }
    match list(headers, RATELIMIT) {
        Some(limits) => standard(&limits, &list(headers, RATELIMIT_POLICY).unwrap_or_default()),
        None => older(headers, wall),
    }
}

fn standard(limits: &List, policies: &List) -> Result<Option<Duration>, &'static str> {
    let (mut longest, mut absurd) = (None, Ok(None));
    for limit in items(limits) {
        let policy = items(policies).find(|policy| policy.bare_item == limit.bare_item);
        let of_policy = |name: &str| policy.and_then(|policy| policy.params.get(name));
        // Quotas of bytes, or of requests at a time, say nothing of the delay. Another unit is none that we know.
        let unit = of_policy("qu").and_then(BareItem::as_string);
        if unit.is_some_and(|unit| unit.as_str() != "requests") {
            continue;
        }
        let integer = |value: &BareItem| value.as_integer().map(i64::from);
        let remaining = limit.params.get("r").and_then(integer);
        // Until more is available; or the whole window, if that is all that is known.
        let reset = limit.params.get("t").or(of_policy("w")).and_then(integer);
        if let (Some(remaining), Some(reset)) = (remaining, reset) {
            match spread(remaining, reset) {
                Some(wait) => longest = longest.max(Some(wait)),
                None => absurd = Err("RateLimit"),
            }
        }
    }
    // One absurd quota takes nothing from another.
    if longest.is_some() { Ok(longest) } else { absurd }
}

/// Lenient: the fields that most servers send today, which no specification defines. Reset is a number of seconds, or a time.
fn older(headers: &HeaderMap, wall: WallMillis) -> Result<Option<Duration>, &'static str> {
    let number = |name| {
        let value = headers.get(name)?.to_str().ok()?;
        value.trim().parse::<i64>().ok()
    };
    let (Some(remaining), Some(reset)) = (number(X_REMAINING), number(X_RESET)) else {
        return Ok(None);
    };
    let reset = match reset {
        EPOCH_SECONDS_MIN.. => {
            // It may be over by now.
            let now = server_time(headers, wall).as_millis() / 1_000;
            reset.saturating_sub_unsigned(now).max(0)
        }
        _ => reset,
    };
    spread(remaining, reset).map(Some).ok_or("X-RateLimit-Reset")
}

/// The delay of so many requests within so many seconds, if a server can mean that: one second more, because the last may not be over.
fn spread(remaining: i64, reset: i64) -> Option<Duration> {
    let remaining = u32::try_from(remaining.min(i64::from(u32::MAX))).ok()?;
    let seconds = u64::try_from(reset).ok().filter(|seconds| *seconds <= WINDOW_SECONDS_MAX)?;
    let window = Duration::from_secs(seconds.saturating_add(1));
    Some(window.checked_div(remaining.max(1)).unwrap_or(window).min(RETRY_AFTER_MAX))
}

/// The value of a field, if it is a List (RFC 9651 §3.1). "Malformed RateLimit header fields MUST be ignored."
fn list(headers: &HeaderMap, name: &str) -> Option<List> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|line| line.as_bytes()).collect();
    let value = lines.join(&b", "[..]);
    if value.is_empty() || value.len() > VALUE_LEN_MAX {
        return None;
    }
    Parser::new(&value).parse().ok()
}

fn items(list: &List) -> impl Iterator<Item = &Item> {
    list.iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn limit_of(fields: &[(&str, &str)]) -> Result<Option<Duration>, &'static str> {
        let headers =
            fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        rate_limit(&headers, WallMillis::from_millis(NOW * 1_000))
    }

    fn seconds(fields: &[(&str, &str)]) -> Option<f64> {
        limit_of(fields).unwrap().map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn what_is_left_is_spread_over_the_time_until_there_is_more() {
        let policy = ("ratelimit-policy", r#""default";q=10;w=60"#);
        for (value, wait) in [
            (r#""default";r=9;t=53"#, Some(6.0)),
            (r#""default";r=1;t=29"#, Some(30.0)),
            (r#""default";r=0;t=29"#, Some(30.0)),
            (r#""default";r=0;t=0"#, Some(1.0)),
            (r#""default";r=1"#, Some(61.0)),
            (r#""day";r=2;t=199;pk=:cHsdsRa894==:, "default";r=50;t=49"#, Some(100.0)),
            (r#""default";r=50;t=49, "day";r=2;t=199;pk=:cHsdsRa894==:"#, Some(100.0)),
            (r#""unknown";r=6"#, None),
            (r#""default";t=6"#, None),
        ] {
            assert_eq!(seconds(&[policy, ("ratelimit", value)]), wait, "{value}");
        }
        assert_eq!(seconds(&[policy]), None, "a policy alone says nothing of what is left");
    }

    #[test]
    fn quotas_of_something_else_say_nothing() {
        for unit in ["content-bytes", "concurrent-requests", "acme-units"] {
            let policy = format!(r#""default";q=65535;qu="{unit}";w=10"#);
            let fields = [("ratelimit-policy", &*policy), ("ratelimit", r#""default";r=0;t=60"#)];
            assert_eq!(limit_of(&fields), Ok(None), "{unit}");
        }
        let fields =
            [("ratelimit-policy", r#""default";q=5;qu="requests""#), ("ratelimit", r#""default";r=0;t=59"#)];
        assert_eq!(seconds(&fields), Some(60.0));
    }

    #[test]
    fn lenient_older_fields_count_where_the_standard_ones_do_not() {
        let reset = (NOW + 59).to_string();
        for (remaining, reset, wait) in [
            ("6", "59", Some(10.0)),
            ("6", &*reset, Some(10.0)),
            ("0", "1700000000", Some(1.0)),
            ("many", "59", None),
        ] {
            let fields = [(X_REMAINING, remaining), (X_RESET, reset)];
            assert_eq!(seconds(&fields), wait, "{remaining} {reset}");
            let malformed = [fields[0], fields[1], ("ratelimit", "limit=10, remaining=9")];
            assert_eq!(seconds(&malformed), wait, "{remaining} {reset}");
            let standard = [fields[0], fields[1], ("ratelimit", r#""a";r=2;t=3"#)];
            assert_eq!(seconds(&standard), Some(2.0));
        }
        assert_eq!(limit_of(&[(X_REMAINING, "0")]), Ok(None));
    }

    #[test]
    fn absurd_values_are_named_and_a_long_quota_waits_a_day() {
        assert_eq!(limit_of(&[("ratelimit", r#""a";r=0;t=31622401"#)]), Err("RateLimit"));
        assert_eq!(limit_of(&[("ratelimit", r#""a";r=-1;t=60"#)]), Err("RateLimit"));
        assert_eq!(limit_of(&[(X_REMAINING, "0"), (X_RESET, "-5")]), Err("X-RateLimit-Reset"));
        assert_eq!(limit_of(&[(X_REMAINING, "0"), (X_RESET, "9999999999")]), Err("X-RateLimit-Reset"));
        let (most, least) = (i64::MAX.to_string(), i64::MIN.to_string());
        assert_eq!(limit_of(&[(X_REMAINING, &most), (X_RESET, &least)]), Err("X-RateLimit-Reset"));
        assert_eq!(seconds(&[("ratelimit", r#""month";r=0;t=2592000"#)]), Some(86_400.0));
        let mixed = [("ratelimit", r#""a";r=-1;t=60, "b";r=0;t=59"#)];
        assert_eq!(seconds(&mixed), Some(60.0), "one absurd quota takes nothing from another");
    }

    #[test]
    fn a_cached_response_says_nothing() {
        let field = ("ratelimit", r#""a";r=0;t=59"#);
        assert_eq!(limit_of(&[field, ("age", "1")]), Ok(None));
        assert_eq!(seconds(&[field, ("age", "0")]), Some(60.0));
    }
}
