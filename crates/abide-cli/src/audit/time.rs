//! `WARC-Date`: when a request began, as exactly as its writer knew.
//!
//! WARC/1.0 has whole seconds. WARC/1.1 has fractions, or no seconds at all. What a coarse date leaves open
//! is never held against a crawler.

use std::time::Duration;

use abide::WallMillis;
use abide_permissions::UnavailableAfter;

/// A time, and by how much later it may have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time {
    /// Since 1970.
    micros: i64,
    /// The same of what it leaves open: a second, if it has whole seconds.
    doubt: i64,
}

impl Time {
    /// `2026-11-21T00:31:50Z`, with up to nine digits of a second, or cut behind any of its parts.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let form = FORMS.iter().find(|form| form.len == text.strip_suffix('Z').unwrap_or(text).len());
        if let Some(Form { rest, doubt, .. }) = form.filter(|form| text.ends_with('Z') == form.has_time) {
            let micros = seconds(&format!("{}{rest}", text.trim_end_matches('Z')))?.checked_mul(SECOND)?;
            return Some(Self { micros, doubt: *doubt });
        }
        let (whole, fraction) = text.strip_suffix('Z')?.split_once('.')?;
        if !(1..=9).contains(&fraction.len()) || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
        Some(Self { micros: seconds(whole)?.checked_mul(SECOND)?.checked_add(micros)?, doubt: 0 })
    }

    pub(super) fn wall(self) -> WallMillis {
        WallMillis::from_millis(u64::try_from(self.micros / 1_000).unwrap_or(0))
    }

    pub(super) fn plus(self, time: Duration) -> Self {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Self { micros: self.micros.saturating_add(micros), ..self }
    }

    /// How long after `earlier` this was at most: of dates in whole seconds, up to a second more.
    pub(super) fn since_at_most(self, earlier: Self) -> Duration {
        let between = self.micros.saturating_sub(earlier.micros).max(0);
        Duration::from_micros(between.saturating_add(self.doubt.max(earlier.doubt)).unsigned_abs())
    }

    /// By how much this is certainly too early for what was to begin `wait` after `from`.
    pub(super) fn is_within(self, from: Self, wait: Duration) -> bool {
        let most = self.since_at_most(from);
        // What is left open is less than the doubt.
        most < wait || most == wait && self.doubt.max(from.doubt) > 0
    }

    pub(super) fn is_before(self, other: Self) -> bool {
        self.micros < other.micros
    }
}

/// Seconds since 1970 of a date and time in whole seconds, without its `Z`.
fn seconds(text: &str) -> Option<i64> {
    let is_date_and_time = text.len() == 19 && text.as_bytes().get(10) == Some(&b'T');
    let time = UnavailableAfter::parse(&format!("{text}Z")).filter(|_| is_date_and_time)?;
    Some(time.unix_seconds())
}

/// A date as W3C's note on ISO 8601 allows it, to which ISO 28500:2017 refers.
struct Form {
    len: usize,
    has_time: bool,
    /// What it lacks.
    rest: &'static str,
    /// What that leaves open at most, in microseconds.
    doubt: i64,
}

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
const FORMS: [Form; 5] = [
    Form { len: 19, has_time: true, rest: "", doubt: SECOND },
    Form { len: 16, has_time: true, rest: ":00", doubt: 60 * SECOND },
    Form { len: 10, has_time: false, rest: "T00:00:00", doubt: DAY },
    Form { len: 7, has_time: false, rest: "-01T00:00:00", doubt: 31 * DAY },
    Form { len: 4, has_time: false, rest: "-01-01T00:00:00", doubt: 366 * DAY },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_leave_a_second_of_doubt() {
        let at = |text: &str| Time::parse(&format!("2026-11-21T00:31:{text}Z")).unwrap();
        let second = Duration::from_secs(1);
        assert!(at("50.999").is_within(at("50.000001"), second));
        assert!(!at("51.000001").is_within(at("50.000001"), second));
        assert!(at("50").is_within(at("50"), second), "less than a second, whatever the fractions were");
        assert!(!at("51").is_within(at("50"), second));
        assert!(!at("51").is_within(at("50.5"), second));
        for bad in [
            "2026-11-21T00:31:50.5",
            "2026-11-21T00:31:50.Z",
            "2026-11-21Z",
            "2026-11-21T00:31",
            "21-11-2026",
            "",
        ] {
            assert_eq!(Time::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_date_may_be_cut_behind_any_part() {
        let exact = Time::parse("2026-11-21T00:31:50.5Z").unwrap();
        let minute = Duration::from_secs(60);
        for (text, doubt) in
            [("2026-11-21T00:31Z", 60), ("2026-11-21", 86_400), ("2026-11", 2_678_400), ("2026", 31_622_400)]
        {
            let coarse = Time::parse(text).unwrap();
            assert!(coarse <= exact && exact.since_at_most(coarse) >= Duration::from_secs(doubt), "{text}");
            assert!(!exact.is_within(coarse, minute), "{text}: it may have been before");
        }
    }
}
