//! For how long an answer counts (RFC 9309 §2.4, RFC 9111 §5.2.2), and when a failed one is tried again.
//!
//! Lifetimes have two bounds: no site has its robots.txt fetched with every page, and no copy is used for
//! more than a day.

use std::time::Duration;

use http::HeaderMap;
use http::header::CACHE_CONTROL;

use crate::robots_cache::RobotsPolicy;
use crate::text::digits;

/// The lifetime that `Cache-Control` asks for, within the policy's bounds; `None` if it asks for none. `Age`,
/// `Date`, `Expires` and `s-maxage` are ignored: they could only lengthen or confuse.
///
/// ```
/// use abide_gate::robots_cache::{RobotsPolicy, stated_lifetime};
///
/// let headers = http::HeaderMap::from_iter([(http::header::CACHE_CONTROL, "max-age=60".parse()?)]);
/// let lifetime = stated_lifetime(&headers, &RobotsPolicy::default());
/// assert_eq!(lifetime, Some(std::time::Duration::from_secs(300)), "five minutes at least");
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn stated_lifetime(headers: &HeaderMap, policy: &RobotsPolicy) -> Option<Duration> {
    let directives =
        // A comma within quotes cuts a directive, which can only shorten: without one the longest lifetime
        // applies.
        headers.get_all(CACHE_CONTROL).iter().flat_map(|value| value.as_bytes().split(|&b| b == b','));
    // RFC 9111 §4.2.1: of several values take the first, or call it stale. The smallest is never longer than
    // the first.
    let shortest = directives.filter_map(directive_lifetime).min()?;
    Some(shortest.clamp(policy.lifetime_min, policy.lifetime_max))
}

/// What one directive says. Several: the smallest counts.
fn directive_lifetime(directive: &[u8]) -> Option<Duration> {
    let directive = directive.trim_ascii();
    let name_len = directive.iter().take_while(|&&b| b.is_ascii_alphanumeric() || b == b'-').count();
    let (name, argument) = directive.split_at_checked(name_len)?;
    match &*name.to_ascii_lowercase() {
        // Lenient: `no-store` text is kept for our own use; a fetch for every page would burden the host
        // more.
        b"no-store" if argument.is_empty() => Some(Duration::ZERO),
        b"no-cache" => Some(Duration::ZERO),
        b"max-age" => {
            let value = argument.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
            // RFC 9111 §5.2: recipients ought to accept both forms of an argument, a token and a quoted
            // string.
            let inner = value.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\""));
            // §1.2.2: more than can be held is as long as can be.
            digits(inner.unwrap_or(value)).map(Duration::from_secs)
        }
        _ => None,
    }
}

/// How long until the next try after `attempts` failures in a row: doubling, bounded, ±10 % by `jitter` in
/// `0.0..1.0`.
pub(crate) fn back_off(attempts: u32, jitter: f64, policy: &RobotsPolicy) -> Duration {
    // A `u32` has no more bits to shift by. Any schedule is at its bound by then.
    let doublings = attempts.saturating_sub(1).min(31);
    let step = policy.retry_first.saturating_mul(1 << doublings).min(policy.retry_max);
    step.mul_f64(0.9 + 0.2 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_lifetime_is_between_five_minutes_and_a_day() {
        let table = include_str!("../../tests/vectors/cache_control.tsv");
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let columns: Vec<&str> = row.split('\t').collect();
            // Alone, and behind something that is no text.
            for before in [&b""[..], b"\xff\xfe, "] {
                let mut headers = HeaderMap::new();
                for value in &columns[1..] {
                    let value = [before, value.as_bytes()].concat();
                    headers.append(CACHE_CONTROL, HeaderValue::from_bytes(&value).unwrap());
                }
                let lifetime = stated_lifetime(&headers, &RobotsPolicy::default());
                assert_eq!(lifetime.map(|lifetime| lifetime.as_secs()), columns[0].parse().ok(), "{row}");
            }
        }
    }
}
