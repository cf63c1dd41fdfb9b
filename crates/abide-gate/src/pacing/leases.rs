//! The leases that a request needs, where processes share a store.
//!
//! The queue head waits for them in its place, so that whatever the store says or fails to say, this process
//! sends no faster than it would alone. If the store does not reply, hosts whose lease this process has go on
//! as before, and others wait for it, unless the policy says otherwise.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::{Claim, Claims, Request};
use super::lease::Readiness;
use super::policy::OnStoreOutage;
use super::queue::DeadlineExceeded;
use super::schedule::{Start, WaitReason};
use super::shared_store::{SharedStore, User};
use crate::clock::Moment;

/// A caller that has come without the time to wait for a lease is deferred for so long at least.
const LEASE_WAIT_MIN: Duration = Duration::from_millis(250);

/// A caller that is deferred because the store is away may come back so much later: often enough to be there
/// soon after the store.
const OUTAGE_WAIT: Duration = Duration::from_secs(2);

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
        let is_free = has_all && self.obstacle(request, claims, now).is_none();
        let mut users = self.users.iter_mut().zip(claims.widest_first());
        let is_beside = |claim: &Claim| claims.beside.is_some() && claim.feedback;
        let mut begin = |(user, (_, claim)): (&mut User, (u8, &Claim))| {
            user.try_begin(claim.terms.delay, is_beside(claim), now)
        };
        if is_free && users.all(&mut begin) {
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
    ) -> Option<DeadlineExceeded> {
        // What ends nobody knows when is waited for as long as the caller can.
        let wait_for = |why, wait| {
            let is_patient = now < request.deadline;
            (if is_patient { request.deadline } else { now.plus(wait) }, why)
        };
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
                    wait_for(WaitReason::OtherProcess, request.host.terms.delay.max(LEASE_WAIT_MIN))
                }
                Readiness::Alone => match self.store.options.on_outage {
                    OnStoreOutage::Continue { workers } => {
                        let delay = claim.terms.delay.saturating_mul(workers.max(1));
                        // At a time of its own within the first of these delays: all processes notice the
                        // outage at once.
                        let first = self.store.outage().began.plus(delay.mul_f64(self.store.unit(key)));
                        (claim.before.plus(delay).max(first), WaitReason::Delay(claim.terms.delay))
                    }
                    OnStoreOutage::Defer | OnStoreOutage::FailClosed => {
                        wait_for(WaitReason::Store, OUTAGE_WAIT)
                    }
                },
            };
            if at > now {
                return Some(DeadlineExceeded { start: Start { at, why }, scope });
            }
        }
        None
    }
}
