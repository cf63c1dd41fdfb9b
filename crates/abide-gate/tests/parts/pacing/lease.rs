//! What a process does with a lease: when it may send, and what its task does next.

use super::*;
use crate::clock::millisecond as at;

const SHARED: &Sharing = &Sharing {
    on_outage: OnStoreOutage::Defer,
    timeout: Duration::from_secs(1),
    lease: Duration::from_secs(8),
};
const DELAY: Duration = Duration::from_secs(1);

/// Leased at 1 s, for a request that waits.
fn held(is_wanted: bool) -> Lease {
    let mut lease = Lease::default();
    lease.enter(DELAY);
    lease.leased(is_wanted, SHARED, at(1_000), at(1_000));
    lease
}

/// While the store replies.
fn readiness(lease: &Lease, now: Moment) -> Readiness {
    lease.readiness(DELAY, SHARED, StoreOutage::default(), now)
}

/// While the store replies.
fn plan(lease: &Lease, is_unsaved: bool, now: Moment) -> Plan {
    lease.plan(is_unsaved, StoreOutage::default(), now)
}

fn sends(lease: &mut Lease, starts: u64, ends: u64) {
    assert_eq!(readiness(lease, at(starts)), Readiness::Now);
    lease.begin(false, at(starts));
    lease.end(false, at(ends));
}

fn down(began: u64, confirmed: u64) -> StoreOutage {
    let [began, confirmed, probe] = [began, confirmed, confirmed + 1_000].map(at);
    StoreOutage { began, confirmed, probe, ..StoreOutage::default() }
}

#[test]
fn a_process_sends_until_shortly_before_its_lease_ends() {
    let mut lease = held(false);
    for (now, expected) in [
        (1_000, Readiness::Now),
        (8_499, Readiness::Now),
        (8_500, Readiness::Leased),
        (99_000, Readiness::Leased),
    ] {
        assert_eq!(readiness(&lease, at(now)), expected, "at {now} ms");
    }
    // Its life counts from when it was asked for.
    lease.leased(false, SHARED, at(5_000), at(6_000));
    assert_eq!(readiness(&lease, at(12_499)), Readiness::Now);
    assert_eq!(readiness(&lease, at(12_500)), Readiness::Leased);
}

#[test]
fn a_holder_goes_on_while_it_knows_that_the_store_is_away() {
    let lease = held(false);
    for (outage, now, readiness) in [
        // It was away before the lease ended, and so cannot have given it to another.
        (down(8_000, 60_000), 60_500, Readiness::Now),
        // The process was paused since: the store may be back.
        (down(8_000, 60_000), 70_000, Readiness::Leased),
        // The lease had ended before: another process may have it.
        (down(9_500, 60_000), 60_500, Readiness::Leased),
    ] {
        assert_eq!(lease.readiness(DELAY, SHARED, outage, at(now)), readiness, "{outage:?} at {now} ms");
    }
    let closed = &Sharing { on_outage: OnStoreOutage::FailClosed, ..*SHARED };
    assert_eq!(lease.readiness(DELAY, closed, down(8_000, 8_000), at(8_400)), Readiness::Now);
    assert_eq!(lease.readiness(DELAY, closed, down(8_000, 9_000), at(9_100)), Readiness::Alone);
}

#[test]
fn our_own_request_in_a_reply_delays_nothing() {
    let mut lease = held(false);
    sends(&mut lease, 2_000, 3_000);
    lease.replied(0, at(3_090));
    assert_eq!(readiness(&lease, at(3_500)), Readiness::Now);
    lease.replied(0, at(3_200));
    assert_eq!(readiness(&lease, at(3_500)), Readiness::At(at(4_200)));
}

#[test]
fn a_wanted_lease_is_handed_over_after_its_quantum() {
    for (requests, now, hands_over) in
        [(3, 3_999, false), (3, 4_000, true), (2, 4_000, false), (2, 5_100, true), (0, 4_000, true)]
    {
        let mut lease = held(true);
        for n in 0..requests {
            sends(&mut lease, 1_000 + n * 600, 1_500 + n * 600);
        }
        let plan = plan(&lease, false, at(now));
        assert_eq!(plan == Plan::Release, hands_over, "{requests} requests, at {now} ms: {plan:?}");
        let waits = readiness(&lease, at(now)) == Readiness::Leased;
        assert_eq!(waits, hands_over, "what is about to be handed over starts nothing");
    }
}

#[test]
fn a_task_ends_when_nothing_needs_the_lease_and_nothing_is_owed() {
    let mut lease = held(false);
    lease.give_up(at(9_000), at(9_000));
    assert_eq!(plan(&lease, false, at(2_000)), Plan::Sleep(at(9_000)), "a request waits");
    lease.leave();
    assert_eq!(plan(&lease, false, at(2_000)), Plan::End);
    lease.change();
    assert_eq!(plan(&lease, true, at(2_000)), Plan::Release, "a backoff that the store does not know");
    assert_eq!(plan(&lease, false, at(2_000)), Plan::End, "and is over");
    lease.refused(true, at(3_000), at(3_000), at(0));
    assert_eq!(plan(&lease, false, at(2_000)), Plan::Release, "its place in queue");
}

#[test]
fn after_an_outage_holders_renew_first_and_claim_what_they_had() {
    let back = |back| StoreOutage { back: at(back), ..down(8_000, 19_000) };
    assert_eq!(held(false).plan(false, back(20_000), at(20_000)), Plan::Ask { is_held: true });
    assert_eq!(
        held(false).plan(false, StoreOutage { back: at(8_500), ..down(8_000, 8_000) }, at(30_000)),
        Plan::Ask { is_held: false },
        "it ended after the outage"
    );
    let mut wants = Lease::default();
    wants.enter(DELAY);
    assert_eq!(wants.plan(false, back(20_000), at(20_000)), Plan::Sleep(at(23_000)));
    assert_eq!(wants.plan(false, back(20_000), at(23_000)), Plan::Ask { is_held: false });
}

#[test]
fn what_is_not_saved_is_saved_while_a_process_waits_for_a_lease() {
    let mut lease = Lease::default();
    lease.enter(DELAY);
    lease.refused(false, at(3_000), at(3_000), at(0));
    lease.change();
    assert_eq!(plan(&lease, true, at(100)), Plan::Ask { is_held: false }, "its place in queue stays");
    let settling = StoreOutage { back: at(50), ..down(10, 20) };
    assert_eq!(lease.plan(true, settling, at(100)), Plan::Release, "takes nothing, and is not delayed");
    lease.replied(1, Moment::NEVER);
    assert_eq!(plan(&lease, true, at(100)), Plan::Sleep(at(3_000)));
}

#[test]
fn a_holder_renews_its_lease_while_the_servers_of_others_are_away() {
    let mut lease = held(false);
    assert_eq!(lease.plan(false, down(4_000, 4_900), at(5_000)), Plan::Ask { is_held: true });
    lease.unanswered(SHARED, at(5_500));
    assert_eq!(
        lease.plan(false, down(4_000, 5_500), at(5_600)),
        Plan::Sleep(at(6_500)),
        "not without a pause"
    );
    lease.leased(false, SHARED, at(9_500), at(9_501));
    assert_eq!(lease.readiness(DELAY, SHARED, down(4_000, 8_000), at(12_000)), Readiness::Now);
}

#[test]
fn a_lease_that_is_due_waits_for_others_unless_there_is_news() {
    let mut lease = held(false);
    assert_eq!(plan(&lease, false, at(4_999)), Plan::Sleep(at(5_000)));
    assert_eq!(plan(&lease, false, at(5_000)), Plan::Renew);
    lease.renewal = RenewalPhase::Waiting;
    assert_eq!(plan(&lease, false, at(5_000)), Plan::Sleep(at(9_000)));
    assert_eq!(plan(&lease, false, at(9_000)), Plan::Ask { is_held: false }, "it has waited in vain");
    assert!(!lease.is_sent(at(9_000)), "a lease that has ended is not claimed");
    lease.change();
    assert_eq!(plan(&lease, true, at(5_000)), Plan::Ask { is_held: true }, "a backoff is saved at once");
    assert!(lease.is_sent(at(5_500)));
    assert_eq!(plan(&lease, true, at(5_500)), Plan::Sleep(at(6_500)), "one call at a time");
}

#[test]
fn an_arrival_asks_at_once_but_not_twice_within_half_a_second() {
    let mut lease = Lease::default();
    lease.enter(DELAY);
    assert_eq!(plan(&lease, false, at(100)), Plan::Ask { is_held: false });
    lease.refused(false, at(3_000), at(9_000), at(100));
    lease.leave();
    lease.enter(DELAY);
    assert_eq!(plan(&lease, false, at(200)), Plan::Sleep(at(600)));
    assert_eq!(plan(&lease, false, at(600)), Plan::Ask { is_held: false });
}

#[test]
fn nothing_starts_under_a_lease_that_was_given_up() {
    let mut lease = held(true);
    assert_eq!(readiness(&lease, at(1_000)), Readiness::Now);
    lease.give_up(at(2_000), at(2_000));
    assert_eq!(readiness(&lease, at(1_001)), Readiness::Leased);
}
