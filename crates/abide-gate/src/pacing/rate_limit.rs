//! How many requests a server says are left, and how long to wait before the next one therefore: `RateLimit`
//! with `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11), the fields of its earlier drafts, and
//! what came before them.
//!
//! The requests that are left are spread over the time until there are more, so that the last of them is not
//! the one too many. A server says this before it refuses anything; `Retry-After` is what it says when it
//! does.

#![warn(clippy::arithmetic_side_effects)]

use std::time::Duration;

use http::HeaderMap;
use http::header::AGE;
use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::retry_after::{LINES_MAX, RETRY_AFTER_MAX, span_of};
use crate::WallMillis;

const RATELIMIT: &str = "RateLimit";
const RATELIMIT_POLICY: &str = "RateLimit-Policy";

/// What is left, and until when: drafts 00 to 06, and the fields that most servers send today, which no
/// specification defines.
const OLDER: [(&str, &str); 3] = [
    ("RateLimit-Remaining", "RateLimit-Reset"),
    ("X-RateLimit-Remaining", "X-RateLimit-Reset"),
    ("X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"),
];

/// No quota lasts longer than a leap year.
const WINDOW_MAX: Duration = Duration::from_secs(366 * 86_400);

/// More items or bytes than anybody sends with good intent.
const VALUE_LEN_MAX: usize = 4096;

/// So many quotas have the most generous of servers, times ten.
const MEMBERS_MAX: usize = 64;

/// Most responses say nothing.
pub(crate) fn has_rate_limit(headers: &HeaderMap) -> bool {
    let is_one = |name: &str| {
        let mut names = OLDER.iter().map(|(remaining, _)| *remaining).chain([RATELIMIT]);
        names.any(|field| name.eq_ignore_ascii_case(field))
    };
    // A look at the few names of a response is less than a look-up.
    headers.keys().any(|name| is_one(name.as_str()))
}

/// How long the next request had best wait: of several quotas, lines, and generations of the fields the one
/// that asks for most counts. What a cache has kept is not current, so a response with an `Age` says nothing.
/// The error names a field that no server can mean, and that is ignored.
pub(crate) fn rate_limit(headers: &HeaderMap, wall: WallMillis) -> Result<Option<Duration>, &'static str> {
    if headers.get(AGE).is_some_and(|age| age.as_bytes().trim_ascii() != b"0") {
        return Ok(None);
    }
    let members = |name| -> Vec<&[u8]> {
        let lines = headers.get_all(name).iter().take(LINES_MAX);
        lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).take(MEMBERS_MAX).collect()
    };
    let mut quotas = standard(headers);
    for (remaining, reset) in OLDER {
        quotas.extend(older(reset, &members(remaining), &members(reset), headers, wall));
    }
    let [remaining, reset] = ["remaining", "reset"].map(|key| -> Vec<&[u8]> {
        members(RATELIMIT).into_iter().filter_map(|member| value_of(member, key)).collect()
    });
    quotas.extend(older(RATELIMIT, &remaining, &reset, headers, wall));
    // One absurd quota takes nothing from another.
    match (quotas.iter().filter_map(|(_, wait)| *wait).max(), quotas.first()) {
        (None, Some((field, _))) => Err(field),
        (longest, _) => Ok(longest),
    }
}

/// A field, and the wait for the quota that it states. Nothing: no server can mean that.
type Quota = (&'static str, Option<Duration>);

fn standard(headers: &HeaderMap) -> Vec<Quota> {
    let [limits, policies] =
        [RATELIMIT, RATELIMIT_POLICY].map(|name| list(headers, name).unwrap_or_default());
    let quota = |limit: &Item| {
        let policy = items(&policies).find(|policy| policy.bare_item == limit.bare_item);
        let of_policy = |name: &str| policy.and_then(|policy| policy.params.get(name));
        // Quotas of bytes, or of requests at a time, say nothing of the delay. Another unit is none that we
        // know.
        let unit = of_policy("qu").and_then(BareItem::as_string);
        if unit.is_some_and(|unit| unit.as_str() != "requests") {
            return None;
        }
        let remaining = limit.params.get("r").and_then(number)?;
        // Until more is available; or the whole window, if that is all that is known.
        let reset = limit.params.get("t").or(of_policy("w")).and_then(number)?;
        let reset = Duration::try_from_secs_f64(reset).ok();
        Some((RATELIMIT, reset.and_then(|reset| spread(remaining, reset))))
    };
    items(&limits).filter_map(quota).collect()
}

/// Lenient: a draft that has changed and fields of no specification are read as their senders mean them.
/// Lines and members that are as many belong together one by one; otherwise the least that remains counts,
/// and the latest reset.
fn older(
    field: &'static str,
    remaining: &[&[u8]],
    resets: &[&[u8]],
    headers: &HeaderMap,
    wall: WallMillis,
) -> Vec<Quota> {
    let number = |text: &&[u8]| str::from_utf8(text).ok()?.trim_matches(['"', ' ', '\t']).parse::<f64>().ok();
    let left: Vec<f64> = remaining.iter().filter_map(number).filter(|left| left.is_finite()).collect();
    // The comma of a date leaves its weekday over, which is no time.
    let spans: Vec<Duration> = resets.iter().filter_map(|reset| span_of(reset, headers, wall)).collect();
    let (Some(least), false) = (left.iter().copied().reduce(f64::min), resets.is_empty()) else {
        return Vec::new();
    };
    if left.len() == spans.len() {
        return left.iter().zip(&spans).map(|(left, span)| (field, spread(*left, *span))).collect();
    }
    vec![(field, spans.iter().max().and_then(|span| spread(least, *span)))]
}

/// The delay of so many requests within such a time, if a server can mean that: one second more, because the
/// last may not be over.
fn spread(remaining: f64, reset: Duration) -> Option<Duration> {
    if remaining < 0.0 || reset > WINDOW_MAX {
        return None;
    }
    // A part of a request is none.
    let window = reset.saturating_add(Duration::from_secs(1));
    Some(window.div_f64(remaining.floor().max(1.0)).min(RETRY_AFTER_MAX))
}

fn number(value: &BareItem) -> Option<f64> {
    match value {
        BareItem::Integer(number) => Some(i64::from(*number) as f64),
        BareItem::Decimal(number) => Some((*number).into()),
        _ => None,
    }
}

/// The value of a member of draft 07: `remaining=0`, and behind a semicolon where a server takes that for the
/// comma.
fn value_of<'m>(member: &'m [u8], key: &str) -> Option<&'m [u8]> {
    member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).find_map(|part| {
        let (name, value) = part.split_at_checked(key.len())?;
        let value = value.trim_ascii_start().strip_prefix(b"=")?;
        name.eq_ignore_ascii_case(key.as_bytes()).then_some(value)
    })
}

/// The value of a field, if it is a List (RFC 9651 §3.1). "Malformed RateLimit header fields MUST be
/// ignored."
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
    use proptest::prelude::*;

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
    fn lenient_older_fields_count_as_well() {
        let reset = (NOW + 59).to_string();
        for (remaining, reset, wait) in [
            ("6", "59", Some(10.0)),
            ("6", &*reset, Some(10.0)),
            ("0", "1700000000", Some(1.0)),
            ("many", "59", None),
        ] {
            let fields = [("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", reset)];
            assert_eq!(seconds(&fields), wait, "{remaining} {reset}");
            let malformed = [fields[0], fields[1], ("ratelimit", "limit=10, remaining=9")];
            assert_eq!(seconds(&malformed), wait, "{remaining} {reset}");
            let standard = [fields[0], fields[1], ("ratelimit", r#""a";r=2;t=3"#)];
            let longer = wait.map_or(2.0, |wait| wait.max(2.0));
            assert_eq!(seconds(&standard), Some(longer));
        }
        assert_eq!(limit_of(&[("x-ratelimit-remaining", "0")]), Ok(None));
    }

    #[test]
    fn absurd_values_are_named_and_a_long_quota_waits_a_day() {
        assert_eq!(limit_of(&[("ratelimit", r#""a";r=0;t=31622401"#)]), Err("RateLimit"));
        assert_eq!(limit_of(&[("ratelimit", r#""a";r=-1;t=60"#)]), Err("RateLimit"));
        assert_eq!(
            limit_of(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "-5")]),
            Err("X-RateLimit-Reset")
        );
        assert_eq!(
            limit_of(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9999999999")]),
            Err("X-RateLimit-Reset")
        );
        let (most, least) = (i64::MAX.to_string(), i64::MIN.to_string());
        assert_eq!(
            limit_of(&[("x-ratelimit-remaining", &most), ("x-ratelimit-reset", &least)]),
            Err("X-RateLimit-Reset")
        );
        assert_eq!(seconds(&[("ratelimit", r#""month";r=0;t=2592000"#)]), Some(86_400.0));
        let mixed = [("ratelimit", r#""a";r=-1;t=60, "b";r=0;t=59"#)];
        assert_eq!(seconds(&mixed), Some(60.0), "one absurd quota takes nothing from another");
    }

    #[test]
    fn fields_of_every_generation_are_read() {
        let table = include_str!("../../tests/vectors/rate_limit.tsv");
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let mut columns = row.split('\t');
            let wait = columns.next().unwrap();
            let fields: Vec<_> = columns.map(|field| field.split_once(": ").unwrap()).collect();
            let waits = limit_of(&fields).map(|wait| wait.map(|wait| wait.as_secs_f64().to_string()));
            let shown = waits.map_or("!".to_owned(), |wait| wait.unwrap_or("-".to_owned()));
            assert_eq!(shown, wait, "{row}");
            let names: HeaderMap =
                fields.iter().map(|(name, _)| (name.parse().unwrap(), "".parse().unwrap())).collect();
            assert!(has_rate_limit(&names) || wait == "-", "{row}");
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_there_is_nothing_or_up_to_a_day(
            fields in prop::collection::vec((0_usize..8, r#"("a"|[0-9]{1,20}|[-=;., "rtw]|remaining=|reset=|limit=|1e9){0,9}"#), 0..5)
        ) {
            let names = ["ratelimit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset", "x-ratelimit-remaining",
                "x-ratelimit-reset", "x-rate-limit-remaining", "x-rate-limit-reset"];
            let fields: Vec<_> = fields.iter().map(|(name, value)| (names[*name], &**value)).collect();
            prop_assert!(limit_of(&fields).is_ok_and(|wait| wait <= Some(RETRY_AFTER_MAX)) || limit_of(&fields).is_err());
        }
    }

    #[test]
    fn a_cached_response_says_nothing() {
        let field = ("ratelimit", r#""a";r=0;t=59"#);
        assert_eq!(limit_of(&[field, ("age", "1")]), Ok(None));
        assert_eq!(seconds(&[field, ("age", "0")]), Some(60.0));
    }
}
