//! What is done to the turns of one scope: plain functions of what is stored and the server's `now`. The same as `turn.lua`, for
//! servers without EVAL; the suites run on both.

use std::time::Duration;

use abide_gate::WallMillis;
use abide_gate::pacing::{self, LeaseId, ScopeState};

use crate::greeting::ON_ITS_WAY;

/// What is stored of a scope, in microseconds of the server's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) now: u64,
    pub(crate) slot: Slot,
    /// Leases and the ends of their lives.
    pub(crate) flight: Vec<(String, u64)>,
}

/// The hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) hold: u64,
    pub(crate) cause: String,
    /// The largest gap that was asked for.
    pub(crate) gap: u64,
    /// Complaints in a row.
    pub(crate) strikes: u8,
}

/// What is to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    /// The slot, and for how long it is kept.
    pub(crate) slot: Option<(Slot, u64)>,
    /// A lease, the end of its life, and for how long the set is kept.
    pub(crate) lease: Option<(String, u64, u64)>,
    /// Leases that have expired by then are removed.
    pub(crate) clean_until: Option<u64>,
    /// Leases that would live for longer are removed.
    pub(crate) clean_after: Option<u64>,
    pub(crate) remove: Option<String>,
}

/// An operation, its numbers in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Reserve(Reserve),
    Response {
        lease: LeaseId,
        gap: u64,
    },
    Unsent {
        lease: LeaseId,
    },
    /// Takes a grant back that moved the start from one time to another.
    Undo {
        lease: LeaseId,
        moved: (u64, u64),
    },
    Renew {
        lease: LeaseId,
        ttl: u64,
    },
    Hold {
        /// The end, from now; below zero it has passed.
        ahead: i64,
        strikes: u8,
        cause: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reserve {
    pub(crate) lease: LeaseId,
    pub(crate) gap: u64,
    pub(crate) limit: u16,
    pub(crate) max_wait: u64,
    pub(crate) ttl: u64,
    /// The grant is for then at the earliest, from now: another scope of the request is not free before.
    pub(crate) delay: u64,
    /// Since when the server's data is whole.
    pub(crate) born: u64,
    /// Whether what is not known may have been evicted.
    pub(crate) is_evicting: bool,
    /// Would it be granted? Nothing is written, but for a host that may have been evicted.
    pub(crate) is_question: bool,
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// After this wait; the start was moved from one time to another.
    Granted {
        wait: u64,
        moved: (u64, u64),
        strikes: u8,
    },
    InFlight {
        wait: u64,
    },
    Gap {
        wait: u64,
    },
    Hold {
        wait: u64,
        strikes: u8,
        cause: String,
    },
    /// The clock was set back since the connection was greeted, and its epoch lies in the future.
    Stale,
    /// What is left of the hold in force.
    Held {
        left: u64,
    },
    Done,
}

/// Strikes are kept for so long after the end of their hold.
const STRIKES_KEPT: u64 = pacing::STRIKES_KEPT.as_micros() as u64;

const DAY: u64 = 86_400_000_000;

/// What lies further ahead (27 h: a day, the jitter, and some) is the work of a clock that was set back.
pub(crate) const CREDIBLE: u64 = 97_200_000_000;

/// Leases for less long may be renewed by others for longer, up to this.
const LEASE: u64 = 3_600_000_000;

/// For so long a key is kept after its last promise.
const KEPT: u64 = 3_600_000_000;

/// No promise is for longer: a start, and its gap or its lease.
const OWED_MAX: u64 = 2 * CREDIBLE;

impl Stored {
    /// Answers an operation, and says what is to be written for it.
    pub(crate) fn apply(mut self, operation: &Operation) -> (Outcome, Writes) {
        let mut writes = Writes::default();
        if let Operation::Reserve(ask) = operation
            && ask.born > self.after(ON_ITS_WAY)
        {
            return (Outcome::Stale, writes);
        }
        if self.repair() {
            writes.slot = Some(self.kept_slot());
        }
        self.slot.strikes = self.strikes();
        let outcome = match operation {
            Operation::Reserve(ask) => self.reserve(ask, &mut writes),
            Operation::Response { lease, gap } => {
                self.slot.end = self.slot.end.max(self.now);
                self.slot.gap = self.slot.gap.max(*gap);
                writes.slot = Some(self.kept_slot());
                writes.remove = Some(lease.to_string());
                Outcome::Done
            }
            Operation::Unsent { lease } => {
                writes.remove = Some(lease.to_string());
                Outcome::Done
            }
            Operation::Undo { lease, moved: (before, after) } => {
                if self.slot.start == *after {
                    self.slot.start = *before;
                    writes.slot = Some(self.kept_slot());
                }
                writes.remove = Some(lease.to_string());
                Outcome::Done
            }
            Operation::Renew { lease, ttl } => {
                let lease = lease.to_string();
                if self.alive().any(|(name, _)| *name == lease) {
                    writes.lease = Some(self.kept_lease(lease, self.after(*ttl)));
                }
                Outcome::Done
            }
            Operation::Hold { ahead, strikes, cause } => {
                let until = self.now.saturating_add_signed(*ahead);
                let told = if self.is_forgiven(until) { 0 } else { *strikes };
                if until > self.slot.hold || told > self.slot.strikes {
                    if until > self.slot.hold {
                        (self.slot.hold, self.slot.cause) = (until, cause.clone());
                    }
                    self.slot.strikes = self.slot.strikes.max(told);
                    writes.slot = Some(self.kept_slot());
                }
                Outcome::Held { left: self.slot.hold.saturating_sub(self.now) }
            }
        };
        (outcome, writes)
    }

    fn reserve(&mut self, ask: &Reserve, writes: &mut Writes) -> Outcome {
        self.drop_leases_of_the_future(ask.ttl, writes);
        // Who asks again for a lease that it has, since its answer was lost, does not wait for itself.
        let own = ask.lease.to_string();
        if self.alive().filter(|(lease, _)| *lease != own).count() >= ask.limit.into() {
            // With one in flight the last start is its own.
            let starts = if ask.limit == 1 { self.slot.start } else { self.now };
            return Outcome::InFlight { wait: starts.saturating_sub(self.now) };
        }
        let mut ready = self.slot.start.max(self.slot.end).max(ask.born).saturating_add(ask.gap);
        // A hold says nothing of when the host was asked last.
        let is_known = self.slot.start.max(self.slot.end) > 0;
        let may_be_evicted = ask.is_evicting && !is_known;
        if may_be_evicted {
            ready = ready.max(self.after(ask.gap));
        }
        let is_held = self.slot.hold > ready;
        let wait = ready.max(self.slot.hold).saturating_sub(self.now);
        if wait > ask.max_wait {
            if may_be_evicted {
                // The one write of a refusal: the next ask counts from here, or it would be refused for ever.
                (self.slot.start, self.slot.gap) = (self.now, ask.gap);
                writes.slot = Some(self.kept_slot());
            }
            // Who asks again and is refused has had a grant whose answer was lost: it would stand in the way of all.
            writes.remove = self.flight.iter().any(|(lease, _)| *lease == own).then_some(own);
            let strikes = self.slot.strikes;
            return match is_held {
                true => Outcome::Hold { wait, strikes, cause: self.slot.cause.clone() },
                false => Outcome::Gap { wait },
            };
        }
        let (wait, before) = (wait.max(ask.delay), self.slot.start);
        if !ask.is_question {
            self.slot.start = before.max(self.after(wait));
            self.slot.gap = self.slot.gap.max(ask.gap);
            writes.slot = Some(self.kept_slot());
            writes.clean_until = Some(self.now);
            writes.lease = Some(self.kept_lease(own, self.after(wait).saturating_add(ask.ttl)));
        }
        Outcome::Granted { wait, moved: (before, self.slot.start), strikes: self.slot.strikes }
    }

    /// A lease that ends later than any that is given now is of a time before the clock was set back.
    fn drop_leases_of_the_future(&mut self, ttl: u64, writes: &mut Writes) {
        let last = self.slot.start.max(self.now).saturating_add(ttl.max(LEASE));
        let before = self.flight.len();
        self.flight.retain(|(_, expiry)| *expiry <= last);
        writes.clean_after = (self.flight.len() < before).then_some(last);
    }

    /// What lies in the future because the clock was set back, or since somebody else has written it: nobody waits for years.
    fn repair(&mut self) -> bool {
        let (before, credible) = (self.slot.clone(), self.after(CREDIBLE));
        // No response has ended in the future: by so much at least was the clock set back, and the last start is older by that.
        let set_back = self.slot.end.saturating_sub(self.now);
        self.slot.start = self.slot.start.saturating_sub(set_back).max(self.slot.start.min(self.now));
        if self.slot.start > credible {
            self.slot.start = self.now;
        }
        self.slot.end = self.slot.end.min(self.now);
        if self.slot.hold > credible {
            self.slot.hold = self.after(DAY);
        }
        self.slot.gap = self.slot.gap.min(CREDIBLE);
        before != self.slot
    }

    fn after(&self, span: u64) -> u64 {
        self.now.saturating_add(span)
    }

    /// For how long something is kept that ends then.
    fn life(&self, end: u64, gap: u64) -> u64 {
        let owed = end.saturating_sub(self.now).saturating_add(gap).min(OWED_MAX);
        owed.saturating_add(KEPT)
    }

    /// No promise outlives what is kept.
    fn kept_slot(&self) -> (Slot, u64) {
        let last = self.slot.start.max(self.slot.end).max(self.slot.hold);
        (self.slot.clone(), self.life(last, self.slot.gap))
    }

    fn kept_lease(&self, lease: String, expiry: u64) -> (String, u64, u64) {
        let last = self.flight.iter().map(|(_, expiry)| *expiry).max().unwrap_or(0).max(expiry);
        (lease, expiry, self.life(last, 0))
    }

    /// Those that are not forgiven.
    fn strikes(&self) -> u8 {
        if self.is_forgiven(self.slot.hold) { 0 } else { self.slot.strikes }
    }

    /// What led to a hold that ended then.
    fn is_forgiven(&self, end: u64) -> bool {
        end.saturating_add(STRIKES_KEPT) <= self.now
    }

    fn alive(&self) -> impl Iterator<Item = &(String, u64)> {
        self.flight.iter().filter(|(_, expiry)| *expiry > self.now)
    }

    /// For reports.
    pub(crate) fn state(mut self) -> ScopeState {
        self.repair();
        let anchor = self.slot.start.max(self.slot.end);
        let quiet = (anchor > 0).then(|| Duration::from_micros(self.now.saturating_sub(anchor)));
        let held = Duration::from_micros(self.slot.hold.saturating_sub(self.now));
        let in_flight = u32::try_from(self.alive().count()).unwrap_or(u32::MAX);
        ScopeState::new(in_flight, quiet, held, self.strikes())
    }

    /// Whether a grant that starts after `wait` still stands. With one request in flight nothing can have ended since, unless the
    /// server has lost somebody's lease.
    pub(crate) fn stands(&self, lease: LeaseId, gap: u64, limit: u16, wait: u64) -> bool {
        let (lease, start) = (lease.to_string(), self.after(wait));
        let is_undisturbed = limit > 1 || self.slot.end.checked_add(gap).is_some_and(|ready| ready <= start);
        is_undisturbed && self.slot.hold <= start && self.alive().any(|(name, _)| *name == lease)
    }
}

/// The time from `now` until the end of a hold, below zero if it has passed. More than 27 h (24 h and the jitter) is the mistake of a
/// clock: 24 h.
pub(crate) fn ahead(until: WallMillis, now: WallMillis) -> i64 {
    let believed = |span| if span > Duration::from_micros(CREDIBLE) { DAY } else { micros(span) };
    believed(until.since(now)).cast_signed().saturating_sub_unsigned(micros(now.since(until)))
}

/// Whole microseconds, rounded up, and no more than is believed anyway.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX).min(CREDIBLE)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What anybody may have written, and what we do.
    fn number() -> impl Strategy<Value = u64> {
        const NOW: u64 = 1_800_000_000_000_000;
        let ours = prop_oneof![NOW - DAY..NOW + DAY, NOW - 9..NOW + 9, 0..DAY];
        prop_oneof![Just(0), any::<u64>(), u64::MAX - 9..=u64::MAX, ours]
    }

    fn stored() -> impl Strategy<Value = Stored> {
        let slot = (number(), number(), number(), number(), any::<u8>()).prop_map(
            |(start, end, hold, gap, strikes)| Slot { start, end, hold, cause: String::new(), gap, strikes },
        );
        let flight = vec((0..4_u128, number()), 0..4).prop_map(|leases| {
            leases.into_iter().map(|(lease, expiry)| (LeaseId(lease).to_string(), expiry)).collect()
        });
        (number(), slot, flight).prop_map(|(now, slot, flight)| Stored { now, slot, flight })
    }

    fn ask() -> impl Strategy<Value = Reserve> {
        let numbers = (number(), number(), number(), number(), number());
        (0..4_u128, numbers, 1..3_u16, any::<bool>(), any::<bool>()).prop_map(
            |(lease, (gap, max_wait, ttl, delay, born), limit, is_evicting, is_question)| Reserve {
                lease: LeaseId(lease),
                gap,
                limit,
                max_wait,
                ttl,
                delay,
                born,
                is_evicting,
                is_question,
            },
        )
    }

    fn operations() -> impl Strategy<Value = Operation> {
        let lease = || (0..4_u128).prop_map(LeaseId);
        prop_oneof![
            ask().prop_map(Operation::Reserve),
            (lease(), number()).prop_map(|(lease, gap)| Operation::Response { lease, gap }),
            lease().prop_map(|lease| Operation::Unsent { lease }),
            (lease(), number(), number())
                .prop_map(|(lease, before, after)| Operation::Undo { lease, moved: (before, after) }),
            (lease(), number()).prop_map(|(lease, ttl)| Operation::Renew { lease, ttl }),
            (any::<i64>(), any::<u8>()).prop_map(|(ahead, strikes)| Operation::Hold {
                ahead,
                strikes,
                cause: String::new()
            }),
        ]
    }

    #[test]
    fn a_hold_ends_ahead_or_has_ended_and_27_hours_away_at_most() {
        let now = WallMillis(1_800_000_000_000);
        let (hour, credible) = (3_600_000_000_i64, CREDIBLE.cast_signed());
        for (until, expected) in [
            (now, 0),
            (now.plus(Duration::from_secs(3_600)), hour),
            (now.minus(Duration::from_secs(3_600)), -hour),
            (now.plus(Duration::from_secs(27 * 3_600)), credible),
            (now.plus(Duration::from_millis(27 * 3_600_000 + 1)), 24 * hour),
            (WallMillis(u64::MAX), 24 * hour),
            (WallMillis(0), -credible),
        ] {
            assert_eq!(ahead(until, now), expected, "{until:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_096, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_that_is_stored_panics_or_is_kept_for_longer_than_a_promise(
            stored in stored(), operation in operations(),
        ) {
            let (_, writes) = stored.clone().apply(&operation);
            let lives = [writes.slot.map(|(_, life)| life), writes.lease.map(|(_, _, life)| life)];
            for life in lives.into_iter().flatten() {
                prop_assert!(life <= OWED_MAX + KEPT, "{life}");
            }
            stored.state();
        }

        #[test]
        fn nothing_that_is_stored_lets_a_request_out_too_early(stored in stored(), ask in ask()) {
            let (outcome, _) = stored.clone().apply(&Operation::Reserve(ask.clone()));
            let mut known = stored;
            known.repair();
            let Slot { start, end, hold, gap, .. } = known.slot;
            let credible = known.now.saturating_add(CREDIBLE);
            prop_assert!(start <= credible && end <= known.now && hold <= credible && gap <= CREDIBLE);
            if let Outcome::Granted { wait, .. } = outcome {
                let at = known.now.saturating_add(wait);
                prop_assert!(at >= start.max(end).max(ask.born).saturating_add(ask.gap) && at >= hold);
                let (own, last) = (ask.lease.to_string(), start.max(known.now).saturating_add(ask.ttl.max(LEASE)));
                let others = known.flight.iter().filter(|(lease, expiry)| {
                    *lease != own && *expiry > known.now && *expiry <= last
                });
                prop_assert!(others.count() < usize::from(ask.limit));
            }
        }

        #[test]
        fn a_grant_stands_only_if_its_gap_is_over_by_then(
            stored in stored(), gap in number(), limit in 1..3_u16, wait in number(),
        ) {
            if stored.stands(LeaseId(0), gap, limit, wait) {
                let start = u128::from(stored.now) + u128::from(wait);
                let Slot { end, hold, .. } = stored.slot;
                prop_assert!(limit > 1 || u128::from(end) + u128::from(gap) <= start);
                prop_assert!(u128::from(hold) <= start);
                let own = LeaseId(0).to_string();
                prop_assert!(stored.alive().any(|(lease, _)| *lease == own));
            }
        }
    }
}
