//! The steps of a turn, each under the locks of all its scopes: enter, look, leave, end.
//!
//! A request waits for all its scopes and takes all of them or none. Tickets are drawn under the locks, so the order of any two
//! requests is the same in every line in which both stand; whoever has the lowest ticket is therefore first in all his
//! lines, and there is always somebody who can go.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::moment::Moment;
use super::queue::{Bells, LINE_MAX, Late, Line, Seat, Waiter};
use super::schedule::{Start, Why};
use super::slot::Slot;
use super::table::{Findings, Locked, SlotId, Table, Upkeep};
use crate::Origin;

/// One scope of a request, as asked for.
#[derive(Debug)]
pub(crate) struct Wanted<K> {
    pub(crate) key: K,
    pub(crate) hash: u64,
    pub(crate) gap: Duration,
    pub(crate) limit: u16,
    /// Whether Crawl-delay, holds and the breaker belong to it.
    pub(crate) feedback: bool,
}

/// All scopes of a request: the host, and what the policy adds.
#[derive(Debug)]
pub(crate) struct Request<'u> {
    pub(crate) host: Wanted<Cow<'u, str>>,
    pub(crate) others: Vec<Wanted<String>>,
    /// When it has waited long enough.
    pub(crate) patience: Moment,
}

impl Request<'_> {
    /// The key of one of the scopes.
    pub(crate) fn key(&self, scope: u8) -> &str {
        match usize::from(scope).checked_sub(1) {
            Some(other) => self.others.get(other).map_or(&self.host.key, |wanted| &wanted.key),
            None => &self.host.key,
        }
    }

    /// The gap that it asks of one of the scopes.
    pub(crate) fn gap(&self, scope: u8) -> Duration {
        let other = usize::from(scope).checked_sub(1).and_then(|other| self.others.get(other));
        other.map_or(self.host.gap, |wanted| wanted.gap)
    }
}

/// One scope of a request whose slot is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) slot: SlotId,
    pub(crate) gap: Duration,
    pub(crate) limit: u16,
    pub(crate) feedback: bool,
    /// The anchor before the grant: for giving it back, and for a longer gap.
    pub(crate) before: Moment,
}

/// All claims of a request.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    pub(crate) host: Claim,
    pub(crate) others: Box<[Claim]>,
}

impl Claims {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Claim> {
        std::iter::once(&self.host).chain(&self.others)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Claim> {
        std::iter::once(&mut self.host).chain(&mut self.others)
    }

    pub(crate) fn lock<'t>(&self, table: &'t Table) -> Locked<'t> {
        table.lock_slots(self.host.slot, self.others.iter().map(|claim| claim.slot))
    }
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) ticket: u64,
    pub(crate) arrived: Moment,
    pub(crate) patience: Moment,
}

/// What became of somebody who came, or looked again.
#[derive(Debug)]
pub(crate) enum Outlook {
    /// It is his turn, and he has taken it.
    Granted,
    /// His turn cannot come in time.
    Late(Late),
    /// He waits, and looks again then at the latest.
    Wait(Moment),
}

/// What a newcomer got.
#[derive(Debug)]
pub(crate) enum Entry {
    /// The turn.
    Granted(Claims),
    /// Not in time.
    Late(Late),
    /// A place in all lines.
    Queued(Claims, u64, Arc<Seat>),
}

/// Finds the slots of all scopes and takes the turn, or a place, or neither.
pub(crate) fn enter(
    table: &Table,
    request: &Request<'_>,
    origin: impl FnOnce() -> Option<Origin>,
    upkeep: Upkeep,
    findings: &mut Findings,
    bells: &mut Bells,
) -> Entry {
    let now = upkeep.now;
    if request.others.is_empty()
        && let Some(claims) = enter_idle(table, request, upkeep, findings)
    {
        return Entry::Granted(claims);
    }
    let hashes: Vec<u64> = request.others.iter().map(|wanted| wanted.hash).collect();
    let mut locked = table.lock(request.host.hash, &hashes);
    locked.clean_sometimes(request.host.hash, upkeep, findings);
    let mut claims = claims(&mut locked, request, upkeep, findings);
    for claim in claims.iter() {
        wake_the_line(&mut locked, claim, now, bells);
    }
    if is_free(&mut locked, &claims, now) {
        grant(&mut locked, &mut claims, None, Duration::ZERO, now, bells);
        return Entry::Granted(claims);
    }
    if let Some(late) = arrives_late(&mut locked, &claims, request.patience, now) {
        return Entry::Late(late);
    }
    let (ticket, seat, origin) = (locked.draw_ticket(), Arc::new(Seat::default()), origin());
    for (scope, claim) in (0..).zip(claims.iter()) {
        let Some(slot) = locked.slot(claim.slot) else { continue };
        let (patience, origin, seat) = (request.patience, origin.clone(), Arc::clone(&seat));
        let origin = origin.filter(|_| claim.feedback);
        slot.open_line(claim.limit).push(Waiter { ticket, patience, gap: claim.gap, scope, origin, seat });
    }
    Entry::Queued(claims, ticket, seat)
}

/// What most requests meet: one scope, its host is known, nobody waits, and it is free.
pub(crate) fn enter_idle(
    table: &Table,
    request: &Request<'_>,
    upkeep: Upkeep,
    findings: &mut Findings,
) -> Option<Claims> {
    let Wanted { ref key, hash, gap, limit, feedback } = request.host;
    let mut locked = table.lock(hash, &[]);
    let id = locked.find(hash, key)?;
    let slot = locked.slot(id)?;
    let (view, terms) = (slot.view(), slot.terms(gap, limit));
    if slot.waiting() > 0 || view.is_full(terms) || view.start(terms).at > upkeep.now {
        return None;
    }
    let host = Claim { slot: id, gap, limit, feedback, before: slot.anchor };
    slot.grant(terms, upkeep.now);
    locked.clean_sometimes(hash, upkeep, findings);
    Some(Claims { host, others: Box::default() })
}

fn claims(locked: &mut Locked<'_>, request: &Request<'_>, upkeep: Upkeep, findings: &mut Findings) -> Claims {
    locked.make_room(request.host.hash, &request.host.key, upkeep, findings);
    request.others.iter().for_each(|other| locked.make_room(other.hash, &other.key, upkeep, findings));
    let mut claim = |hash, key: &str, gap, limit, feedback| {
        let slot = locked.find_or_insert(hash, key);
        Claim { slot, gap, limit, feedback, before: Moment::NEVER }
    };
    let Wanted { ref key, hash, gap, limit, feedback } = request.host;
    let host = claim(hash, key, gap, limit, feedback);
    let others = request
        .others
        .iter()
        .map(|other| claim(other.hash, &other.key, other.gap, other.limit, other.feedback));
    Claims { host, others: others.collect() }
}

/// A newcomer is also somebody who notices that the first in line has fallen asleep.
fn wake_the_line(locked: &mut Locked<'_>, claim: &Claim, now: Moment, bells: &mut Bells) {
    let Some(line) = locked.slot(claim.slot).and_then(Slot::line_mut) else { return };
    let before = bells.len();
    line.dismiss_sleepers(now, bells);
    if bells.len() > before {
        bells.extend(line.first().cloned());
    }
}

/// Nobody waits, and it could start this instant.
fn is_free(locked: &mut Locked<'_>, claims: &Claims, now: Moment) -> bool {
    claims.iter().all(|claim| {
        locked.slot(claim.slot).is_some_and(|slot| {
            let (view, terms) = (slot.view(), slot.terms(claim.gap, claim.limit));
            slot.line().is_none_or(Line::is_empty) && !view.is_full(terms) && view.start(terms).at <= now
        })
    })
}

/// The budget test on arrival.
fn arrives_late(locked: &mut Locked<'_>, claims: &Claims, patience: Moment, now: Moment) -> Option<Late> {
    let last = last_scope(locked, claims, |slot, claim| {
        let queued = slot.line().map(Line::gaps).unwrap_or_default();
        slot.view().arrival(slot.terms(claim.gap, claim.limit), queued, now)
    });
    let full =
        claims.iter().any(|claim| locked.slot(claim.slot).is_some_and(|slot| slot.waiting() >= LINE_MAX));
    (full || last.start.at > patience).then(|| last.not_at_once(now))
}

/// The scope that is free last.
fn last_scope(locked: &mut Locked<'_>, claims: &Claims, start: impl Fn(&Slot, &Claim) -> Start) -> Late {
    let mut last = Late { start: Start { at: Moment::NEVER, why: Why::Gap(claims.host.gap) }, scope: 0 };
    for (scope, claim) in (0..).zip(claims.iter()) {
        let Some(slot) = locked.slot(claim.slot) else { continue };
        let start = start(slot, claim);
        if start.at > last.start.at {
            last = Late { start, scope };
        }
    }
    last
}

/// Somebody who waits looks whether it is his turn.
pub(crate) fn look(table: &Table, claims: &mut Claims, who: Who, now: Moment, bells: &mut Bells) -> Outlook {
    let Who { ticket, arrived, patience } = who;
    let mut locked = claims.lock(table);
    for claim in claims.iter_mut() {
        let line = locked.slot(claim.slot).and_then(|slot| slot.line());
        claim.gap = line.and_then(|line| line.gap_of(ticket)).unwrap_or(claim.gap);
    }
    let first = claims.iter().all(|claim| {
        locked.slot(claim.slot).and_then(|slot| slot.line()).is_some_and(|line| line.is_first(ticket))
    });
    let full = claims.iter().any(|claim| {
        locked.slot(claim.slot).is_some_and(|slot| slot.view().is_full(slot.terms(claim.gap, claim.limit)))
    });
    let last =
        last_scope(&mut locked, claims, |slot, claim| slot.view().start(slot.terms(claim.gap, claim.limit)));
    let can_go = first && !full;
    if can_go && last.start.at <= now {
        grant(&mut locked, claims, Some(ticket), now.since(arrived), now, bells);
        return Outlook::Granted;
    }
    if can_go && last.start.at > patience {
        return Outlook::Late(last);
    }
    if now >= patience {
        return Outlook::Late(out_of_patience(&mut locked, claims, ticket, now));
    }
    Outlook::Wait(if can_go { last.start.at } else { patience })
}

/// Why the wait was in vain: a response that is still open, or those who are still before us.
fn out_of_patience(locked: &mut Locked<'_>, claims: &Claims, ticket: u64, now: Moment) -> Late {
    let last = last_scope(locked, claims, |slot, claim| {
        let (view, terms) = (slot.view(), slot.terms(claim.gap, claim.limit));
        let before = slot.line().map(|line| line.gaps_before(ticket)).unwrap_or_default();
        let start = view.arrival(terms, before, now);
        // An open response is the reason also for those further back, if it has been open for longer than a gap.
        let is_slow = view.is_full(terms) && now.since(view.open_since) > terms.gap;
        let why = if is_slow && matches!(start.why, Why::Gap(_)) {
            Why::InFlight(view.open_since)
        } else {
            start.why
        };
        Start { why, ..start }
    });
    // Whoever is not first in one of his lines may find all of them free: those before him wait elsewhere.
    last.not_at_once(now)
}

/// Takes the turn in all scopes.
fn grant(
    locked: &mut Locked<'_>,
    claims: &mut Claims,
    ticket: Option<u64>,
    waited: Duration,
    now: Moment,
    bells: &mut Bells,
) {
    for claim in claims.iter_mut() {
        let Some(slot) = locked.slot(claim.slot) else { continue };
        if let Some(ticket) = ticket
            && let Some(line) = slot.line_mut()
        {
            line.remove(ticket);
        }
        let terms = slot.terms(claim.gap, claim.limit);
        claim.before = slot.anchor;
        slot.grant(terms, now);
        slot.waited(waited);
        if !slot.view().is_full(terms) {
            bells.extend(slot.line().and_then(Line::first).cloned());
        }
    }
}

/// Somebody gives up his place. Whoever becomes first is woken.
pub(crate) fn leave(table: &Table, claims: &Claims, ticket: u64, bells: &mut Bells) {
    let mut locked = claims.lock(table);
    for claim in claims.iter() {
        let Some(line) = locked.slot(claim.slot).and_then(Slot::line_mut) else { continue };
        let was_first = line.is_first(ticket);
        line.remove(ticket);
        if was_first {
            bells.extend(line.first().cloned());
        }
    }
}

/// The response has ended: the gap counts from now.
pub(crate) fn end(table: &Table, claims: &Claims, started: Moment, now: Moment, bells: &mut Bells) {
    each(table, claims, |slot, _| {
        slot.end(started, now);
        slot.changed(now, bells);
    });
}

/// Nothing was sent: the turn goes on as if it had not been taken.
pub(crate) fn give_back(table: &Table, claims: &Claims, started: Moment, now: Moment, bells: &mut Bells) {
    each(table, claims, |slot, claim| {
        slot.give_back(started, claim.before);
        slot.changed(now, bells);
    });
}

/// The request goes on the wire later than it was granted.
pub(crate) fn start_later(table: &Table, claims: &Claims, granted: Moment, now: Moment) {
    each(table, claims, |slot, _| slot.start_later(granted, now));
}

/// Does something to the slot of each claim, under all locks.
pub(crate) fn each(table: &Table, claims: &Claims, mut action: impl FnMut(&mut Slot, &Claim)) {
    let mut locked = claims.lock(table);
    for claim in claims.iter() {
        if let Some(slot) = locked.slot(claim.slot) {
            action(slot, claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::moment::Timeline;
    use super::*;

    fn at(millis: u64) -> Moment {
        let began = Instant::now();
        Timeline::starting(began).moment(began + Duration::from_millis(millis))
    }

    fn upkeep(now: Moment) -> Upkeep {
        Upkeep { now, gap: Duration::ZERO, open_max: Duration::from_secs(60) }
    }

    /// A request with gaps of a second, for a host and a group, that waits for a minute at most.
    fn request<'u>(table: &Table, host: &'u str, group: Option<&str>, now: Moment) -> Request<'u> {
        let (gap, limit, feedback) = (Duration::from_secs(1), 1, true);
        let host = Wanted { key: host.into(), hash: table.hash(host), gap, limit, feedback };
        let other =
            |key: &str| Wanted { key: key.to_owned(), hash: table.hash(key), gap, limit, feedback: false };
        let others = group.map(other).into_iter().collect();
        Request { host, others, patience: now.plus(Duration::from_secs(60)) }
    }

    fn comes(table: &Table, request: &Request<'_>, now: Moment, bells: &mut Bells) -> Entry {
        enter(table, request, || None, upkeep(now), &mut Findings::default(), bells)
    }

    fn takes(table: &Table, request: &Request<'_>, now: Moment) -> Claims {
        match comes(table, request, now, &mut Bells::new()) {
            Entry::Granted(claims) => claims,
            other => panic!("{other:?}"),
        }
    }

    fn queues(table: &Table, request: &Request<'_>, now: Moment) -> (Claims, u64, Arc<Seat>) {
        match comes(table, request, now, &mut Bells::new()) {
            Entry::Queued(claims, ticket, seat) => (claims, ticket, seat),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn scopes_are_numbered_from_the_host_on() {
        let table = Table::new(100);
        let request = request(&table, "a.example", Some("group"), at(0));
        for (scope, key) in [(0, "a.example"), (1, "group")] {
            assert_eq!(request.key(scope), key);
        }
        assert_eq!(request.key(7), "a.example");
    }

    #[test]
    fn who_need_not_wait_takes_no_place_in_line() {
        let (table, began) = (Table::new(100), at(0));
        for group in [None, Some("group")] {
            let host = group.unwrap_or("a.example");
            let asked = request(&table, host, group.map(|_| "others"), began);
            let claims = takes(&table, &asked, began);
            end(&table, &claims, began, began, &mut Bells::new());
            let free = began.plus(Duration::from_secs(1));
            takes(&table, &asked, free);
        }
    }

    #[test]
    fn the_short_way_is_open_when_the_host_is_known_and_free_and_nobody_waits() {
        let (table, began) = (Table::new(100), at(0));
        let asked = request(&table, "a.example", None, began);
        let short = |now| enter_idle(&table, &asked, upkeep(now), &mut Findings::default());
        assert!(short(began).is_none(), "it is not known");
        let claims = takes(&table, &asked, began);
        assert!(short(began.plus(Duration::from_secs(5))).is_none(), "one is in flight");
        end(&table, &claims, began, began, &mut Bells::new());
        let free = began.plus(Duration::from_secs(1));
        assert!(short(began.plus(Duration::from_millis(999))).is_none(), "the gap");
        let claims = short(free).expect("the gap has passed in this instant");
        end(&table, &claims, free, free, &mut Bells::new());
        let (waiting, ticket, _) = queues(&table, &asked, free);
        let later = free.plus(Duration::from_secs(2));
        assert!(short(later).is_none(), "somebody waits, though it is free");
        leave(&table, &waiting, ticket, &mut Bells::new());
        assert!(short(later).is_some());
    }

    #[test]
    fn a_newcomer_wakes_whoever_is_behind_a_sleeper_and_nobody_else() {
        let (table, began) = (Table::new(100), at(0));
        let asked = request(&table, "a.example", None, began);
        let claims = takes(&table, &asked, began);
        end(&table, &claims, began, began, &mut Bells::new());
        let impatient = Request {
            patience: began.plus(Duration::from_secs(2)),
            ..request(&table, "a.example", None, began)
        };
        let (_, _, asleep) = queues(&table, &impatient, began);
        let (_, _, behind) = queues(&table, &asked, began);
        let woken = |seconds| {
            let mut bells = Bells::new();
            comes(&table, &asked, began.plus(Duration::from_secs(seconds)), &mut bells);
            bells
                .iter()
                .map(|seat| (Arc::ptr_eq(seat, &asleep), Arc::ptr_eq(seat, &behind)))
                .collect::<Vec<_>>()
        };
        assert_eq!(woken(2), [], "he may still be on his way");
        assert_eq!(woken(4), [(true, false), (false, true)]);
        assert_eq!(woken(5), []);
    }

    #[test]
    fn of_two_scopes_that_are_free_at_once_the_first_is_named() {
        let (table, began) = (Table::new(100), at(0));
        let asked = request(&table, "a.example", Some("group"), began);
        let claims = takes(&table, &asked, began);
        end(&table, &claims, began, began, &mut Bells::new());
        match comes(&table, &Request { patience: began, ..asked }, began, &mut Bells::new()) {
            Entry::Late(late) => {
                assert_eq!((late.scope, late.start.at), (0, began.plus(Duration::from_secs(1))))
            }
            other => panic!("{other:?}"),
        }
    }
    #[test]
    fn who_is_out_of_patience_hears_of_a_response_that_is_open_for_longer_than_a_gap() {
        let (table, began) = (Table::new(100), at(0));
        let asked = request(&table, "a.example", None, began);
        let open = takes(&table, &asked, began);
        queues(&table, &asked, began);
        let (mut third, ticket, _) = queues(&table, &asked, began);
        let mut why = |now: Moment| {
            let who = Who { ticket, arrived: began, patience: now };
            match look(&table, &mut third, who, now, &mut Bells::new()) {
                Outlook::Late(late) => late.start.why,
                other => panic!("{other:?}"),
            }
        };
        let (gap, second) = (Why::Gap(Duration::from_secs(1)), began.plus(Duration::from_secs(1)));
        let later = second.plus(Duration::from_nanos(1));
        assert_eq!((why(second), why(later)), (gap, Why::InFlight(began)));
        end(&table, &open, began, later, &mut Bells::new());
        assert_eq!(why(later.plus(Duration::from_secs(5))), gap, "nothing is open any more");
    }
}
