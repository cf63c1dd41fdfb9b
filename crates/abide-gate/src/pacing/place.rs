//! A place in the lines: waiting, and leaving.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;

use super::core::Core;
use super::moment::Moment;
use super::permit::Permit;
use super::queue::{Bells, Seat, ring};
use super::refusal::Refusal;
use super::turn::{self, Claims, Outlook, Request, Who};
use crate::clock::has_timers;
use crate::{Clock, NoTimers, SystemClock};

/// Somebody's place. Dropping it leaves all lines, and whoever becomes first by that is woken.
#[derive(Debug)]
pub(crate) struct Place {
    core: Arc<Core>,
    claims: Claims,
    ticket: u64,
    arrived: Moment,
    seat: Arc<Seat>,
    has_left: bool,
}

/// Less than the resolution of tokio's timers, so that it delays nobody.
const TICK: Duration = Duration::from_micros(100);

impl Place {
    pub(crate) fn new(
        core: Arc<Core>,
        claims: Claims,
        ticket: u64,
        arrived: Moment,
        seat: Arc<Seat>,
    ) -> Self {
        Self { core, claims, ticket, arrived, seat, has_left: false }
    }

    /// Waits for the turn, which is taken without a pause in between: no turn is ever on its way to somebody.
    pub(crate) async fn wait(mut self, request: &Request<'_>) -> Result<Permit, Refusal> {
        loop {
            let now = self.core.now()?;
            if let Some(late) = self.seat.late.get() {
                return Err(self.core.defer(request, *late, now));
            }
            let until = match self.look(request, now) {
                Outlook::Granted => {
                    self.has_left = true;
                    let waited = now.since(self.arrived);
                    return Ok(Permit::unsent(Arc::clone(&self.core), self.claims.clone(), now, waited));
                }
                Outlook::Late(late) => return Err(self.core.defer(request, late, now)),
                Outlook::Wait(until) if has_timers() => until,
                Outlook::Wait(_) => return Err(Refusal::NoTimers(NoTimers)),
            };
            self.sleep(until).await;
        }
    }

    /// Until then, or until somebody rings.
    async fn sleep(&self, until: Moment) {
        // A clock that lags behind tokio's shall not keep the processor busy: it is asked again after a tick.
        let until = self.core.timeline.instant(until).max(SystemClock.now() + TICK);
        let _ = timeout_at(until.into(), self.seat.bell.notified()).await;
    }

    fn look(&mut self, request: &Request<'_>, now: Moment) -> Outlook {
        let mut bells = Bells::new();
        let who = Who { ticket: self.ticket, arrived: self.arrived, patience: request.patience };
        let outlook = turn::look(self.core.table(), &mut self.claims, who, now, &mut bells);
        ring(bells);
        outlook
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let mut bells = Bells::new();
        turn::leave(self.core.table(), &self.claims, self.ticket, &mut bells);
        ring(bells);
    }
}
