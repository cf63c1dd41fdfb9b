//! The lease that a request needs, where processes share a store.
//!
//! The queue head waits for it in its place, so that whatever the store says or fails to say, this process
//! sends no faster than it would alone. If the store does not reply, hosts whose lease this process has go on
//! as before, and others wait for it, unless the policy says otherwise.

use std::sync::Arc;
use std::time::Duration;

use super::host::{Due, Grant, Request, WaitReason};
use super::lease::Readiness;
use super::policy::OnStoreOutage;
use super::shared_store::{SharedStore, User};
use crate::clock::Moment;

/// A caller that has come without the time to wait for a lease is deferred for so long at least.
const LEASE_WAIT_MIN: Duration = Duration::from_millis(250);

/// A caller that is deferred because the store is away may come back so much later: often enough to be there
/// soon after the store.
const OUTAGE_WAIT: Duration = Duration::from_secs(2);

/// The lease of one request, and its place among the users of that, from its turn on.
#[derive(Debug)]
pub(crate) struct Leasing {
    pub(crate) store: Arc<SharedStore>,
    pub(crate) user: Option<User>,
}

impl Leasing {
    /// Marks the request as sent under the lease, if it has asked for it and nothing keeps it from being sent.
    pub(crate) fn try_begin(&mut self, request: &Request<'_>, grant: Grant, now: Moment) -> bool {
        let Some(user) = &mut self.user else { return false };
        let is_free = due(&self.store, user, request, grant, now).is_none();
        is_free && user.try_begin(grant.delay, request.purpose.beside().is_some(), now)
    }

    /// What keeps the request from being sent, now that its turn has come in this process.
    pub(crate) fn obstacle(
        &mut self,
        key: &Arc<str>,
        request: &Request<'_>,
        grant: Grant,
        now: Moment,
    ) -> Option<Due> {
        let user = self.user.get_or_insert_with(|| self.store.enter(Arc::clone(key), grant.delay));
        due(&self.store, user, request, grant, now)
    }
}

/// When the request may start by its lease, if that is not now.
fn due(store: &SharedStore, user: &User, request: &Request<'_>, grant: Grant, now: Moment) -> Option<Due> {
    // What ends nobody knows when is waited for as long as the caller can.
    let wait_for = |why, wait| {
        let is_patient = now < request.deadline;
        Due { at: if is_patient { request.deadline } else { now.plus(wait) }, why }
    };
    let due = match user.readiness(grant.delay, now) {
        Readiness::Now => return None,
        Readiness::At(at) => Due { at, why: WaitReason::Delay(grant.delay) },
        Readiness::Leased => wait_for(WaitReason::OtherProcess, request.terms.delay.max(LEASE_WAIT_MIN)),
        Readiness::Alone => match store.options.on_outage {
            OnStoreOutage::Continue { workers } => {
                let delay = grant.delay.saturating_mul(workers.max(1));
                // At a time of its own within the first of these delays: all processes notice the
                // outage at once.
                let first = store.outage().began.plus(delay.mul_f64(store.unit(user.key())));
                Due { at: grant.before.plus(delay).max(first), why: WaitReason::Delay(grant.delay) }
            }
            OnStoreOutage::Defer | OnStoreOutage::FailClosed => wait_for(WaitReason::Store, OUTAGE_WAIT),
        },
    };
    (due.at > now).then_some(due)
}
