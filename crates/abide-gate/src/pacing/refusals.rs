//! The row of refusals: a host that refuses us time after time is held.
//!
//! A firewall that refuses one page refuses thousands, and each is a request that the site does not want. But
//! removal pages and private areas are 403 too, so only a row counts, with nothing else in between. When a
//! hold is over, one request is the probe: if it is refused as well, the hold is twice as long, and anything
//! else ends it.

use std::time::Duration;

use http::StatusCode;

use super::backoff::BackoffCause;
use crate::clock::Moment;
use crate::{Refusal, WallMillis};

/// How the host has received a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// By a challenge or a block page that was recognised.
    Refused(Refusal),
    /// By a status that refuses, for whatever reason.
    MaybeRefused,
    /// It says nothing of whether we are let in.
    Neutral,
    LetIn,
}

impl Reception {
    pub(crate) fn of(status: StatusCode, refusal: Option<Refusal>) -> Self {
        match (refusal, status.as_u16()) {
            (Some(refusal), _) => Self::Refused(refusal),
            // 405 and 406 are what some firewalls answer; 410 is that of a page, unless everything is gone.
            (None, 401 | 403 | 405 | 406 | 410) => Self::MaybeRefused,
            // A price, the law, and all that asks to slow down (`wait_request`), which the backoff is for.
            (None, 402 | 451 | 420 | 429 | 430 | 509 | 529) => Self::Neutral,
            (None, _) => Self::LetIn,
        }
    }
}

/// Refusals in a row, and the hold they led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusalRow {
    /// When the first of them came.
    pub(crate) since: WallMillis,
    /// How many there are, those of other processes that share the store among them.
    pub(crate) responses: u32,
    recognised: u32,
    /// The last status.
    pub(crate) status: u16,
    /// Who has refused, if one was recognised.
    pub(crate) by: Option<Refusal>,
    /// When the hold began. Never: there is none.
    pub(crate) began: Moment,
    /// Its end. From then on one request is let through as the probe.
    pub(crate) until: Moment,
    /// How many holds in a row.
    holds: u8,
}

/// When a response came: its request was granted at `granted`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedAt {
    pub(crate) granted: Moment,
    pub(crate) now: Moment,
    pub(crate) wall: WallMillis,
    /// From 0 to 1.
    pub(crate) jitter: f64,
}

/// So many that were recognised are enough: each is certain.
const RECOGNISED_MAX: u32 = 5;

/// The first hold; each probe that is refused doubles it.
const FIRST: Duration = Duration::from_secs(3_600);

/// The longest hold.
const LONGEST: Duration = Duration::from_secs(86_400);

/// 1 h doubled five times is more than a day.
const HOLDS_MAX: u8 = 6;

/// Jitter adds at most a tenth, so that not all hosts of one firewall are probed at once.
const JITTER: f64 = 0.1;

/// How long the row is kept after its hold has ended, so that a crawl that comes back to the host after some
/// hours sends one probe. Then it takes a whole row again; so it does in a new process, because stores keep
/// the hold alone.
const KEPT_AFTER_HOLD: Duration = Duration::from_secs(86_400);

impl RefusalRow {
    /// After a response. `max` plain refusals in a row hold the host.
    pub(crate) fn after(&self, reception: Reception, status: StatusCode, max: u32, at: ReceivedAt) -> Self {
        let refusal = match reception {
            Reception::Neutral => return *self,
            // It was on its way when the hold began, which it says nothing on.
            _ if at.granted < self.began => return *self,
            Reception::LetIn => return Self::default(),
            Reception::Refused(refusal) => Some(refusal),
            Reception::MaybeRefused => None,
        };
        let before = if self.is_over(at.now) { Self::default() } else { *self };
        let counted = Self {
            since: if before.responses == 0 { at.wall } else { before.since },
            responses: before.responses.saturating_add(1),
            recognised: before.recognised.saturating_add(u32::from(refusal.is_some())),
            status: status.as_u16(),
            by: refusal.or(before.by),
            ..before
        };
        let is_enough = counted.responses >= max || counted.recognised >= RECOGNISED_MAX.min(max);
        if is_enough || before.was_held() { counted.held(at) } else { counted }
    }

    fn held(self, ReceivedAt { now, jitter, .. }: ReceivedAt) -> Self {
        let lasts = FIRST.saturating_mul(1 << self.holds.min(HOLDS_MAX)).min(LONGEST);
        let until = now.plus(lasts + lasts.mul_f64(JITTER * jitter));
        Self { began: now, until, holds: self.holds.saturating_add(1).min(HOLDS_MAX), ..self }
    }

    /// Also when the hold is over, as long as its probe is not answered.
    pub(crate) fn was_held(&self) -> bool {
        self.began != Moment::NEVER
    }

    /// It asks for nothing: there is none, or its hold is long over.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        *self == Self::default() || (self.was_held() && self.until.plus(KEPT_AFTER_HOLD) <= now)
    }

    /// What other processes learn from the store while the host is held.
    pub(crate) fn cause(&self) -> BackoffCause {
        let Self { since, responses, status, by, holds, .. } = *self;
        BackoffCause::Refusing { by, since, responses, status, holds }
    }

    /// With the hold of another process, which lasts until `until`. `None`: it is no news.
    pub(crate) fn merged(&self, cause: BackoffCause, until: Moment, now: Moment) -> Option<Self> {
        let BackoffCause::Refusing { by, since, responses, status, holds } = cause else { return None };
        if until <= now.max(self.until) {
            return None;
        }
        let holds = holds.min(HOLDS_MAX).max(self.holds);
        Some(Self { since, responses, status, by, began: now, until, holds, recognised: self.recognised })
    }

    /// Another process has sent something since the hold ended. If that had been refused, the hold would be
    /// longer.
    pub(crate) fn probed_elsewhere(&self, last_of_others: Moment, now: Moment) -> Self {
        let is_probed = self.was_held() && self.until <= now && last_of_others > self.until;
        if is_probed { Self::default() } else { *self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::second;

    const OK: StatusCode = StatusCode::OK;
    const NO: StatusCode = StatusCode::FORBIDDEN;

    fn cloudflare() -> Refusal {
        Refusal::of_id("cloudflare").unwrap()
    }

    fn at(now: Moment) -> ReceivedAt {
        ReceivedAt { granted: now, now, wall: WallMillis::from_millis(7), jitter: 0.0 }
    }

    fn received(row: RefusalRow, status: StatusCode, refusal: Option<Refusal>, now: Moment) -> RefusalRow {
        row.after(Reception::of(status, refusal), status, 25, at(now))
    }

    #[test]
    fn a_row_is_forgotten_a_day_after_its_hold() {
        let held =
            (0..5).fold(RefusalRow::default(), |row, _| received(row, NO, Some(cloudflare()), second(1)));
        let probe = |hours: u64| received(held, NO, Some(cloudflare()), second(1 + hours * 3_600));
        assert_eq!((probe(24).responses, probe(24).until), (6, second(1 + 26 * 3_600)));
        assert_eq!((probe(25).responses, probe(25).was_held()), (1, false), "it takes a whole row again");
    }

    #[test]
    fn each_status_refuses_lets_in_or_says_nothing() {
        for status in 100..=999 {
            let expected = match status {
                401 | 403 | 405 | 406 | 410 => Reception::MaybeRefused,
                402 | 420 | 429 | 430 | 451 | 509 | 529 => Reception::Neutral,
                _ => Reception::LetIn,
            };
            let code = StatusCode::from_u16(status).unwrap();
            assert_eq!(Reception::of(code, None), expected, "{status}");
            assert_eq!(Reception::of(code, Some(cloudflare())), Reception::Refused(cloudflare()));
        }
    }

    #[test]
    fn the_25th_plain_or_the_5th_recognised_in_a_row_holds() {
        for (refusal, enough) in [(None, 25), (Some(cloudflare()), 5)] {
            let mut row = RefusalRow::default();
            for count in 1..=enough {
                assert!(!row.was_held());
                row = received(row, NO, refusal, second(count));
                // Neither counts nor ends the row.
                row = received(row, StatusCode::TOO_MANY_REQUESTS, None, second(count));
            }
            assert_eq!((row.began, row.until), (second(enough), second(enough + 3_600)), "{refusal:?}");
            assert_eq!((u64::from(row.responses), row.by, row.status), (enough, refusal, 403));
        }
        let fewer = (1..=3).fold(RefusalRow::default(), |row, _| {
            row.after(Reception::Refused(cloudflare()), OK, 3, at(second(1)))
        });
        assert!(fewer.was_held(), "a setting of three holds after three of any kind");
    }

    #[test]
    fn anything_else_ends_the_row() {
        let row = (1..25).fold(RefusalRow::default(), |row, at| received(row, NO, None, second(at)));
        assert_eq!(row.responses, 24);
        for status in [OK, StatusCode::NOT_FOUND, StatusCode::FOUND, StatusCode::NOT_MODIFIED] {
            assert_eq!(received(row, status, None, second(30)), RefusalRow::default());
        }
    }

    #[test]
    fn holds_double_from_1_h_to_a_day_until_a_probe_is_let_in() {
        let mut row = (1..25).fold(RefusalRow::default(), |row, at| received(row, NO, None, second(at)));
        let mut now = second(30);
        for hours in [1, 2, 4, 8, 16, 24, 24] {
            row = received(row, NO, None, now);
            assert_eq!(row.until.since(now), Duration::from_secs(hours * 3_600));
            // One that was on its way.
            let late = ReceivedAt { granted: second(1), ..at(now) };
            assert_eq!(row.after(Reception::LetIn, OK, 25, late), row);
            now = row.until;
        }
        let jittered = row.after(Reception::MaybeRefused, NO, 25, ReceivedAt { jitter: 1.0, ..at(now) });
        assert_eq!(jittered.until.since(now), LONGEST + LONGEST / 10);
        assert!(!row.is_over(now) && row.is_over(now.plus(KEPT_AFTER_HOLD)));
        assert_eq!(received(row, OK, None, now), RefusalRow::default());
    }

    #[test]
    fn a_hold_of_another_process_is_probed_once_by_any_of_them() {
        let first = (1..=25).fold(RefusalRow::default(), |row, at| received(row, NO, None, second(at)));
        let other = RefusalRow::default().merged(first.cause(), first.until, second(30)).unwrap();
        assert_eq!((other.until, other.responses), (first.until, 25));
        assert_eq!(other.merged(first.cause(), first.until, second(31)), None, "known already");
        let then = first.until.plus(Duration::from_secs(9));
        assert_eq!(other.probed_elsewhere(first.until, then), other, "nothing was sent since");
        assert_eq!(other.probed_elsewhere(then, then), RefusalRow::default());
        let refused = received(other, NO, None, then);
        assert_eq!(refused.until.since(then), FIRST * 2);
        assert!(other.merged(refused.cause(), refused.until, then).is_some(), "it has grown");
    }
}
