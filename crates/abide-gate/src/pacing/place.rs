//! A place in the queues: waiting, and leaving.

use std::sync::Arc;

use tokio::time::timeout_at;

use super::acquire::{self, Claims, Progress, Request, Who};
use super::core::Core;
use super::moment::Moment;
use super::permit::Permit;
use super::queue::{WaiterNotify, Wakers, wake};
use super::refusal::Refusal;
use crate::clock::has_timers;

/// Somebody's place. Dropping it leaves all queues, and whoever becomes first by that is woken.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    core: Arc<Core>,
    claims: Claims,
    ticket: u64,
    arrived: Moment,
    notify: Arc<WaiterNotify>,
    has_left: bool,
}

impl QueuePlace {
    pub(crate) fn new(
        core: Arc<Core>,
        claims: Claims,
        ticket: u64,
        arrived: Moment,
        notify: Arc<WaiterNotify>,
    ) -> Self {
        Self { core, claims, ticket, arrived, notify, has_left: false }
    }

    /// Waits for the turn, which is taken without a pause in between: no turn is ever on its way to somebody.
    pub(crate) async fn wait(mut self, request: &Request<'_>) -> Result<Permit, Refusal> {
        loop {
            let now = self.core.now()?;
            if let Some(exceeded) = self.notify.exceeded.get() {
                return Err(self.core.defer(request, *exceeded, now));
            }
            let until = match self.look(request, now) {
                Progress::Granted => {
                    self.has_left = true;
                    let waited = now.since(self.arrived);
                    return Ok(Permit::unsent(Arc::clone(&self.core), self.claims.clone(), now, waited));
                }
                Progress::DeadlineExceeded(exceeded) => return Err(self.core.defer(request, exceeded, now)),
                Progress::Wait(until) if has_timers() => until,
                Progress::Wait(_) => return Err(Refusal::NoTimers),
            };
            self.sleep(until).await;
        }
    }

    /// Until then, or until somebody rings.
    async fn sleep(&self, until: Moment) {
        let _ = timeout_at(self.core.timeline.timer(until), self.notify.wake.notified()).await;
    }

    fn look(&mut self, request: &Request<'_>, now: Moment) -> Progress {
        let mut wakers = Wakers::new();
        let who = Who { ticket: self.ticket, arrived: self.arrived, deadline: request.deadline };
        let outlook = acquire::look(self.core.table(), &mut self.claims, who, now, &mut wakers);
        wake(wakers);
        outlook
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let mut wakers = Wakers::new();
        acquire::leave(self.core.table(), &self.claims, self.ticket, &mut wakers);
        wake(wakers);
    }
}
