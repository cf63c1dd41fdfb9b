//! Acquiring the leases that a permit needs, where processes share a store.
//!
//! A permit that was granted in this process is used when the process also has the lease of each of its hosts.
//! The local permit is kept all the while, so whatever the store says or fails to say, this process sends no faster than it would alone. If
//! the store does not reply, hosts whose lease this process has go on as before, and others with a delay as many times as long as there are
//! processes.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep_until, timeout_at};

use super::acquire::{self, Claim, Request};
use super::lease::Readiness;
use super::leases::{SharedStore, User};
use super::pacer::Core;
use super::permit::Permit;
use super::queue::DeadlineExceeded;
use super::refusal::Refusal;
use super::schedule::{Start, WaitReason};
use crate::DeniedKind;
use crate::clock::{Moment, has_timers};

/// A request that waits looks at least this often whether the host has been backed off.
const SLICE: Duration = Duration::from_millis(250);

/// Waits for the leases, and marks the request as sent.
pub(crate) async fn acquire_lease(
    store: &Arc<SharedStore>,
    request: &Request<'_>,
    permit: Permit,
) -> Result<Permit, Refusal> {
    if !has_timers() {
        return Err(Refusal::Denied(DeniedKind::NoTimers));
    }
    let core = Arc::clone(permit.core());
    // The widest scope first: the process that has its lease is the only one that sends to the others, and needs theirs only for what
    // is known of them. So two processes never wait for each other.
    let widest = request.others.last().map(|group| Arc::from(&*group.key));
    let mut claims: Vec<(u8, Claim)> = (0..).zip(permit.claims().iter().copied()).collect();
    claims.reverse();
    let mut users: Vec<User> = Vec::with_capacity(claims.len());
    loop {
        let now = core.now()?;
        let Some(exceeded) = obstacle(store, request, &permit, &users, now)? else {
            if let Some(next) = claims.get(users.len()) {
                let under = widest.clone().filter(|_| !users.is_empty());
                users.push(store.enter((*request.scope(next.0).key).into(), under, *next, now));
            } else if users.iter_mut().all(|user| user.try_begin(now)) {
                return Ok(permit.send_later(users.into(), now));
            } else {
                // One has just been given up: the others are not used either.
                users.iter_mut().for_each(|user| user.end(now));
            }
            continue;
        };
        if exceeded.start.at > request.deadline {
            return Err(core.defer(request, exceeded, now));
        }
        let until = core.timeline.timer(exceeded.start.at.min(now.plus(SLICE)));
        if exceeded.start.why == WaitReason::OtherProcess
            && users.first().is_some_and(|widest| widest.scope == exceeded.scope)
        {
            // Another process may need the others under that group.
            users.truncate(1);
        }
        match users.iter_mut().find(|user| user.scope == exceeded.scope) {
            Some(user) => drop(timeout_at(until, user.news()).await),
            // A backoff of a host whose group is not leased yet.
            None => sleep_until(until).await,
        }
    }
}

/// What keeps the permit from being used.
fn obstacle(
    store: &SharedStore,
    request: &Request<'_>,
    permit: &Permit,
    users: &[User],
    now: Moment,
) -> Result<Option<DeadlineExceeded>, Refusal> {
    let core = permit.core();
    let mut last = backed_off(core, permit, now);
    if last.is_some() {
        return Ok(last);
    }
    for user in users {
        let (scope, claim) = (user.scope, user.claim);
        let at = match user.readiness(now) {
            Readiness::Now => continue,
            Readiness::At(at) => at,
            Readiness::Leased => {
                let is_patient = now < request.deadline;
                let at = if is_patient { request.deadline } else { now.plus(request.host.delay.max(SLICE)) };
                return Ok(Some(DeadlineExceeded {
                    start: Start { at, why: WaitReason::OtherProcess },
                    scope,
                }));
            }
            Readiness::Alone if store.options.fail_closed => {
                return Err(Refusal::Denied(DeniedKind::Store { reason: store.reason() }));
            }
            Readiness::Alone => {
                let delay = claim.delay.saturating_mul(store.options.expected_workers);
                // At a time of its own within the first of these delays: all processes notice the outage at once.
                let first = store.outage().began.plus(delay.mul_f64(unit(core, &request.scope(scope).key)));
                claim.before.plus(delay).max(first)
            }
        };
        if at > last.map_or(now, |exceeded| exceeded.start.at) {
            last = Some(DeadlineExceeded { start: Start { at, why: WaitReason::Delay(claim.delay) }, scope });
        }
    }
    Ok(last)
}

/// A backoff or a pause that has begun since the local permit was granted.
fn backed_off(core: &Core, permit: &Permit, now: Moment) -> Option<DeadlineExceeded> {
    let (mut last, mut scope) = (None, 0);
    acquire::each(&core.table, permit.claims(), |schedule, _| {
        let backoff = Start { at: schedule.backoff().until, why: WaitReason::Backoff };
        let start = backoff.later(Start { at: schedule.breaker().until, why: WaitReason::Breaker });
        let start = start.later(Start { at: schedule.quota(), why: WaitReason::RateLimit });
        if start.at > last.map_or(now, |exceeded: DeadlineExceeded| exceeded.start.at) {
            last = Some(DeadlineExceeded { start, scope });
        }
        scope += 1;
    });
    last
}

/// From 0 to 1, for this process and this host.
fn unit(core: &Core, key: &str) -> f64 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((core.seed, key));
    crate::jitter::unit(hash)
}
