//! Acquiring the leases that a permit needs: it is used when the process has the lease of each of its hosts.
//!
//! Whatever the store says or fails to say, the process keeps its own promise: the local permit is held all the while. If the store
//! does not reply, hosts whose lease this process has go on as before, and others with a delay as many times as long as there are
//! processes.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;

use super::core::Core;
use super::lease::Readiness;
use super::moment::Moment;
use super::permit::Permit;
use super::queue::Late;
use super::refusal::Refusal;
use super::schedule::{Start, Why};
use super::scope::ScopeKey;
use super::shared::{SharedStore, User};
use super::turn::{self, Claim, Request};
use crate::clock::has_timers;
use crate::{Clock, NoTimers, SystemClock};

/// What keeps a permit from being used.
enum Obstacle {
    /// Not before then, because of this scope.
    Until(Start, u8),
    /// The lease of this scope.
    Lease(u8),
    /// The store is away, and nothing may go out without it.
    Closed,
}

/// A request that waits looks at least this often whether the host has been backed off.
const SLICE: Duration = Duration::from_millis(250);

/// A clock that lags behind tokio's is asked again after this.
const TICK: Duration = Duration::from_micros(100);

/// Waits for the leases, and marks the request as sent.
pub(crate) async fn obtain(
    store: &Arc<SharedStore>,
    request: &Request<'_>,
    permit: Permit,
) -> Result<Permit, Refusal> {
    if !has_timers() {
        return Err(Refusal::NoTimers(NoTimers));
    }
    let core = Arc::clone(permit.core());
    let entered = core.now()?;
    // The widest scope first: the process that has its lease is the only one that sends to the others, and needs theirs only for what
    // is known of them. So two processes never wait for each other.
    let widest = request.others.len();
    let wide = request.others.last().map(|group| ScopeKey::from(&*group.key));
    let enter = |(scope, claim): (u8, &Claim), now| {
        let (key, is_widest) = (request.key(scope), usize::from(scope) == widest);
        let under = wide.clone().filter(|_| !is_widest);
        (scope, store.enter(key.into(), under, claim.gap, now))
    };
    let mut claims: Vec<(u8, &Claim)> = (0..).zip(permit.claims().iter()).collect();
    claims.reverse();
    let mut users: Vec<(u8, User)> = claims.first().map(|claim| enter(*claim, entered)).into_iter().collect();
    loop {
        users.iter_mut().for_each(|(_, user)| user.look());
        let now = core.now()?;
        let (until, scope) = match obstacle(store, &core, request, &permit, &users, now) {
            None if users.len() < claims.len() => {
                users.extend(claims.iter().skip(1).map(|claim| enter(*claim, now)));
                continue;
            }
            None => {
                let (term, outage) = (store.term(), store.outage());
                let all = users.iter_mut().zip(&claims);
                if all.into_iter().all(|((_, user), (_, claim))| user.try_begin(claim.gap, term, outage, now))
                {
                    return Ok(permit.send_later(users.into_iter().map(|(_, user)| user).collect(), now));
                }
                // One has just been given up: the others are not used either.
                users.iter_mut().for_each(|(_, user)| user.end(now));
                continue;
            }
            Some(Obstacle::Lease(scope)) if usize::from(scope) == widest && users.len() > 1 => {
                // Another process may need them under that group.
                users.truncate(1);
                continue;
            }
            Some(Obstacle::Closed) => return Err(Refusal::Store { reason: store.reason() }),
            Some(Obstacle::Until(start, scope)) if start.at > request.patience => {
                return Err(core.defer(request, Late { start, scope }, now));
            }
            Some(Obstacle::Until(start, scope)) => (start.at, scope),
            Some(Obstacle::Lease(scope)) if now >= request.patience => {
                let at = now.plus(request.host.gap.max(SLICE));
                let late = Late { start: Start { at, why: Why::Elsewhere }, scope };
                return Err(core.defer(request, late, now));
            }
            Some(Obstacle::Lease(scope)) => (request.patience, scope),
        };
        let until = core.timeline.instant(until.min(now.plus(SLICE))).max(SystemClock.now() + TICK);
        if let Some((_, user)) = users.iter_mut().find(|(other, _)| *other == scope) {
            let _ = timeout_at(until.into(), user.news()).await;
        }
    }
}

fn obstacle(
    store: &SharedStore,
    core: &Core,
    request: &Request<'_>,
    permit: &Permit,
    users: &[(u8, User)],
    now: Moment,
) -> Option<Obstacle> {
    let (term, outage, options) = (store.term(), store.outage(), store.options());
    if let Some((start, scope)) = backed_off(core, permit, now) {
        return Some(Obstacle::Until(start, scope));
    }
    let mut last: Option<(Start, u8)> = None;
    for (scope, user) in users {
        let Some(claim) = permit.claims().iter().nth((*scope).into()) else { continue };
        let at = match user.readiness(claim.gap, term, outage, now) {
            Readiness::Now => continue,
            Readiness::At(at) => at,
            Readiness::Leased => return Some(Obstacle::Lease(*scope)),
            Readiness::Alone if options.fail_closed => return Some(Obstacle::Closed),
            Readiness::Alone => {
                let delay = claim.gap.saturating_mul(options.expected_workers);
                // At a time of its own within the first of these delays: all processes notice the outage at once.
                let first = outage.began.plus(delay.mul_f64(unit(core, request.key(*scope))));
                claim.before.plus(delay).max(first)
            }
        };
        if at > last.map_or(now, |(start, _)| start.at) {
            last = Some((Start { at, why: Why::Gap(claim.gap) }, *scope));
        }
    }
    last.map(|(start, scope)| Obstacle::Until(start, scope))
}

/// A backoff or a pause that has begun since the local permit was granted.
fn backed_off(core: &Core, permit: &Permit, now: Moment) -> Option<(Start, u8)> {
    let (mut last, mut scope) = (Start { at: now, why: Why::Hold }, 0..);
    let mut which = None;
    turn::each(core.table(), permit.claims(), |slot, _| {
        let (view, number) = (slot.view(), scope.next());
        let hold = Start { at: view.hold, why: Why::Hold };
        let start = hold.later(Start { at: view.pause, why: Why::Pause });
        if start.at > last.at {
            (last, which) = (start, number);
        }
    });
    Some((last, which?))
}

/// From 0 to 1, for this process and this host.
fn unit(core: &Core, key: &str) -> f64 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((core.seed, key));
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}
