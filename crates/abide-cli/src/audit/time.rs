//! `WARC-Date`: when a request began, as exactly as its writer knew.
//!
//! WARC/1.0 has whole seconds, and WARC/1.1 fractions: what a coarse date leaves open is never held
//! against a crawler.

use std::time::Duration;

use abide::WallMillis;
use abide_permissions::UnavailableAfter;

/// A time, and by how much later it may have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time {
    /// Since 1970.
    micros: i64,
    /// Whole seconds, as WARC/1.0 has them.
    is_coarse: bool,
}

impl Time {
    /// `2026-11-21T00:31:50Z`, with up to nine digits of a second.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let rest = text.strip_suffix('Z')?;
        let (seconds, fraction) = rest.split_once('.').unwrap_or((rest, ""));
        if !(fraction.len() <= 9 && fraction.bytes().all(|digit| digit.is_ascii_digit())) {
            return None;
        }
        let is_date_and_time = seconds.len() == 19 && seconds.as_bytes().get(10) == Some(&b'T');
        let seconds = UnavailableAfter::parse(&format!("{seconds}Z")).filter(|_| is_date_and_time)?;
        let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
        let micros = seconds.unix_seconds().checked_mul(1_000_000)?.checked_add(micros)?;
        Some(Self { micros, is_coarse: fraction.is_empty() })
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
        let micros = u64::try_from(self.micros - earlier.micros).unwrap_or(0);
        let doubt = if self.is_coarse || earlier.is_coarse { Duration::from_secs(1) } else { Duration::ZERO };
        Duration::from_micros(micros) + doubt
    }

    /// By how much this is certainly too early for what was to begin `wait` after `from`.
    pub(super) fn is_within(self, from: Self, wait: Duration) -> bool {
        let most = self.since_at_most(from);
        // The doubt is up to a second, and less than that.
        most < wait || most == wait && (self.is_coarse || from.is_coarse)
    }

    pub(super) fn is_before(self, other: Self) -> bool {
        self.micros < other.micros
    }
}

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
        assert_eq!(Time::parse("2026-11-21T00:31:50.5"), None);
        assert_eq!(Time::parse("2026-11-21"), None);
    }
}
