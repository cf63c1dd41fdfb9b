//! The leases that a request needs, where processes share a store.
//!
//! The queue head waits for them in its place, so that whatever the store says or fails to say, this process sends no faster than it would alone.
//! If the store does not reply, hosts whose lease this process has go on as before, and others with a delay as many times as long as there
//! are processes.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::{Claims, Request};
use super::lease::Readiness;
use super::queue::DeadlineExceeded;
use super::schedule::{Start, WaitReason};
use super::shared_store::{SharedStore, User};
use crate::DeniedKind;
use crate::clock::Moment;
use crate::denied::Refusal;

/// A caller that has come without the time to wait for a lease is deferred for so long at least.
const LEASE_WAIT_MIN: Duration = Duration::from_millis(250);

/// The leases of one request: its place among the users of each.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) store: Arc<SharedStore>,
    /// The widest scope first: the process that has its lease is the only one that sends to the others, and needs theirs only for what is
    /// known of them. So two processes never wait for each other.
    pub(crate) users: Vec<User>,
}

impl Leases {
    /// Marks the request as sent under all leases, if it has asked for all of them and nothing keeps it from being sent.
    pub(crate) fn try_begin(&mut self, request: &Request<'_>, claims: &Claims, now: Moment) -> bool {
        let has_all = self.users.len() > claims.others.len();
        let is_free = has_all && matches!(self.obstacle(request, claims, now), Ok(None));
        let mut users = self.users.iter_mut().zip(claims.widest_first());
        if is_free && users.all(|(user, (_, claim))| user.try_begin(claim.terms.delay, now)) {
            return true;
        }
        // One has just been given up: the others are not used either.
        self.users.iter_mut().for_each(|user| user.end(now));
        false
    }

    /// What keeps the request from being sent, now that its turn has come in this process. It asks for one lease after the other.
    pub(crate) fn obstacle(
        &mut self,
        request: &Request<'_>,
        claims: &Claims,
        now: Moment,
    ) -> Result<Option<DeadlineExceeded>, Refusal> {
        for (n, (scope, claim)) in claims.widest_first().enumerate() {
            let key = &*request.scope(scope).key;
            if n == self.users.len() {
                let under = self.users.first().map(User::key);
                self.users.push(self.store.enter(key.into(), under, claim.terms.delay));
            }
            let Some(user) = self.users.get(n) else { break };
            let (at, why) = match user.readiness(claim.terms.delay, now) {
                Readiness::Now => continue,
                Readiness::At(at) => (at, WaitReason::Delay(claim.terms.delay)),
                Readiness::Leased => {
                    // Another process may need the others under that group.
                    if n == 0 {
                        self.users.truncate(1);
                    }
                    let is_patient = now < request.deadline;
                    let wait = request.host.terms.delay.max(LEASE_WAIT_MIN);
                    (if is_patient { request.deadline } else { now.plus(wait) }, WaitReason::OtherProcess)
                }
                Readiness::Alone if self.store.options.fail_closed => {
                    return Err(DeniedKind::Store { reason: self.store.reason() }.into());
                }
                Readiness::Alone => {
                    let delay = claim.terms.delay.saturating_mul(self.store.options.expected_workers);
                    // At a time of its own within the first of these delays: all processes notice the outage at once.
                    let first = self.store.outage().began.plus(delay.mul_f64(self.store.unit(key)));
                    (claim.before.plus(delay).max(first), WaitReason::Delay(claim.terms.delay))
                }
            };
            if at > now {
                return Ok(Some(DeadlineExceeded { start: Start { at, why }, scope }));
            }
        }
        Ok(None)
    }
}
