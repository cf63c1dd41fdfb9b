//! How long a response is fresh: when to look again, and nothing else (RFC 9111 §4.2).

use std::time::{Duration, SystemTime};

/// What to assume where a response does not say how long it is fresh.
///
/// ```
/// use std::time::Duration;
/// use abide_permissions::FreshnessPolicy;
///
/// let policy = FreshnessPolicy::default().with_default_ttl(Duration::from_secs(86_400));
/// assert_eq!(policy.default_ttl(), Duration::from_secs(86_400));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshnessPolicy {
    heuristic_percent: u32,
    default_ttl: Duration,
}

impl FreshnessPolicy {
    /// Percent of the time since `Last-Modified` for which a response is taken to be fresh. Default 10, as RFC 9111 §4.2.2
    /// has it; 0 turns the heuristic off.
    #[must_use]
    pub const fn with_heuristic_percent(mut self, percent: u32) -> Self {
        self.heuristic_percent = percent;
        self
    }

    /// The planned interval between visits, used where nothing else is known (draft-illyes-repext-03 §3.1.4: "typically
    /// matching the scheduled recrawl frequency of the resource"). Default 0: look again at any time.
    #[must_use]
    pub const fn with_default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = ttl;
        self
    }

    /// Percent of the time since `Last-Modified`.
    #[must_use]
    pub const fn heuristic_percent(&self) -> u32 {
        self.heuristic_percent
    }

    /// The planned interval between visits.
    #[must_use]
    pub const fn default_ttl(&self) -> Duration {
        self.default_ttl
    }
}

impl Default for FreshnessPolicy {
    fn default() -> Self {
        Self { heuristic_percent: 10, default_ttl: Duration::ZERO }
    }
}

/// Whether it is time to look again. Rules hold all the same (draft-illyes-repext-03 §3.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Not yet; for so long.
    Fresh {
        /// How much longer.
        left: Duration,
    },
    /// A recrawl is due.
    Stale {
        /// Since when.
        since: SystemTime,
    },
}

impl Freshness {
    pub(crate) fn at(now: SystemTime, until: SystemTime) -> Self {
        match until.duration_since(now) {
            Ok(left) if !left.is_zero() => Self::Fresh { left },
            _ => Self::Stale { since: until },
        }
    }

    /// Whether a recrawl is not due yet.
    #[must_use]
    pub const fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh { .. })
    }
}

/// The fields that decide freshness, by their lower-case names.
pub(crate) const CACHING_FIELDS: [&str; 5] = ["cache-control", "expires", "date", "last-modified", "age"];

/// How long after it was received a response stays fresh. `lines` gives the lines of a field.
pub(crate) fn lifetime<'a, I>(
    lines: impl Fn(&str) -> I,
    received: SystemTime,
    policy: &FreshnessPolicy,
) -> Duration
where
    I: Iterator<Item = &'a [u8]>,
{
    let text = |name: &str| lines(name).next().and_then(|line| std::str::from_utf8(line).ok()).map(str::trim);
    let time = |name: &str| text(name).and_then(|text| httpdate::parse_http_date(text).ok());
    let control = CacheControl::of(lines("cache-control"));
    if control.is_uncacheable {
        return Duration::ZERO;
    }
    let date = time("date").unwrap_or(received);
    let stated = if let Some(max_age) = control.max_age {
        max_age
    } else if lines("expires").next().is_some() {
        // RFC 9111 §5.3: an invalid date, "especially the value 0", is in the past.
        time("expires").and_then(|expires| expires.duration_since(date).ok()).unwrap_or(Duration::ZERO)
    } else if let Some(modified) = time("last-modified").filter(|_| policy.heuristic_percent > 0) {
        let unchanged = date.duration_since(modified).unwrap_or(Duration::ZERO);
        unchanged
            .checked_mul(policy.heuristic_percent)
            .map_or(Duration::MAX, |percents| percents.div_f64(100.0))
    } else {
        policy.default_ttl
    };
    let age = text("age").and_then(seconds).unwrap_or(Duration::ZERO);
    stated.saturating_sub(age)
}

/// The directives that matter to a private cache: `s-maxage` does not.
#[derive(Default)]
struct CacheControl {
    max_age: Option<Duration>,
    /// `no-cache` or `no-store`.
    is_uncacheable: bool,
}

impl CacheControl {
    fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut control = Self::default();
        for directive in lines.flat_map(|line| line.split(|byte| *byte == b',')) {
            let directive = String::from_utf8_lossy(directive.trim_ascii());
            let (name, value) = match directive.split_once('=') {
                Some((name, value)) => (name.trim_ascii(), Some(value.trim_ascii().trim_matches('"'))),
                None => (&*directive, None),
            };
            match name.to_ascii_lowercase().as_str() {
                // RFC 9111 §4.2.1: the first counts, and what cannot be read is stale.
                "max-age" if control.max_age.is_none() => {
                    control.max_age = Some(value.and_then(seconds).unwrap_or(Duration::ZERO));
                }
                "no-store" => control.is_uncacheable = true,
                // With names of fields it concerns those alone (RFC 9111 §5.2.2.4).
                "no-cache" if value.is_none() => control.is_uncacheable = true,
                _ => {}
            }
        }
        control
    }
}

/// RFC 9111 §1.2.2: a number too large for us is 2,147,483,648.
fn seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| Duration::from_secs(text.parse::<u64>().map_or(1 << 31, |seconds| seconds.min(1 << 31))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Wed, 01 Jan 2025 00:00:00 GMT";

    fn seconds_fresh(fields: &[(&str, &str)]) -> u64 {
        let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_735_689_600);
        let lines = |name: &str| {
            let name = name.to_owned();
            fields.iter().filter(move |(field, _)| *field == name).map(|(_, value)| value.as_bytes())
        };
        let policy = FreshnessPolicy::default().with_default_ttl(Duration::from_secs(7));
        lifetime(lines, received, &policy).as_secs()
    }

    #[test]
    fn a27_freshness_comes_from_the_caching_fields() {
        let later = ("expires", "Wed, 01 Jan 2025 01:00:00 GMT");
        let modified = ("last-modified", "Tue, 31 Dec 2024 22:00:00 GMT");
        for (fields, expected) in [
            (vec![("cache-control", "max-age=60")], 60),
            (vec![("cache-control", "public, MAX-AGE = \"60\"")], 60),
            (vec![("cache-control", "max-age=60"), later], 60),
            (vec![("cache-control", "max-age=60, max-age=5")], 60),
            (vec![("cache-control", "private"), ("cache-control", "max-age=60")], 60),
            (vec![("cache-control", "s-maxage=60")], 7),
            (vec![("cache-control", "max-age=soon"), later], 0),
            (vec![("cache-control", "max-age=-1")], 0),
            (vec![("cache-control", "max-age=99999999999999999999")], 1 << 31),
            (vec![("cache-control", "max-age=60"), ("age", "20")], 40),
            (vec![("cache-control", "max-age=60"), ("age", "70")], 0),
            (vec![("cache-control", "max-age=60, no-cache")], 0),
            (vec![("cache-control", "max-age=60, no-cache=\"set-cookie\"")], 60),
            (vec![("cache-control", "max-age=60, no-store")], 0),
            (vec![("date", DATE), later], 3600),
            (vec![later], 3600),
            (vec![("date", "Wed, 01 Jan 2025 00:30:00 GMT"), later], 1800),
            (vec![("expires", "0")], 0),
            (vec![("expires", "Wed, 01 Jan 2020 01:00:00 GMT")], 0),
            (vec![("expires", "never"), modified], 0),
            (vec![("date", DATE), modified], 720),
            (vec![modified], 720),
            (vec![("last-modified", "yesterday")], 7),
        ] {
            assert_eq!(seconds_fresh(&fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn a28_without_any_directive_the_recrawl_interval_decides() {
        assert_eq!(seconds_fresh(&[]), 7);
        assert_eq!(seconds_fresh(&[("age", "3")]), 4);
    }
}
