//! The next hop of a redirect that has a Retry-After: it waits as long as that says, wherever it leads.
//!
//! Servers that are still making a result redirect to it, again and again (303), and say how long it takes. A
//! client that does not wait has spent its redirects within seconds.

use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};

use super::deferral::DeferReason;
use super::wait_request::{WaitRequest, wait_request};
use crate::DeniedKind;
use crate::clock::{Clock, has_timers};
use crate::denied::DenialCause;

/// When the next hop of a redirect may go out: [`Gate::next_hop`](crate::Gate::next_hop).
#[derive(Clone, Copy, Debug)]
pub struct NextHop {
    at: Instant,
    status: u16,
    retry_after: Duration,
}

impl NextHop {
    /// What a response that has come now asks for. RFC 9110 §10.2.3: Retry-After of a 3xx is "the minimum
    /// time that the user agent is asked to wait before issuing the redirected request".
    pub(crate) fn of(status: StatusCode, headers: &HeaderMap, clock: &dyn Clock) -> Option<Self> {
        // Most responses end here, without a look at the clock.
        if !status.is_redirection() {
            return None;
        }
        match wait_request(status, headers, clock.wall()) {
            WaitRequest::NextHop { retry_after } => {
                let at = clock.now().checked_add(retry_after)?;
                Some(Self { at, status: status.as_u16(), retry_after })
            }
            _ => None,
        }
    }

    /// Waits until then, if that is within `left`; and how long that was.
    pub(crate) async fn wait(self, clock: &dyn Clock, left: Duration) -> Result<Duration, DenialCause> {
        let wait = self.at.saturating_duration_since(clock.now());
        if wait > left {
            let Self { status, retry_after, .. } = self;
            let reason = DeferReason::Redirect { status, retry_after };
            return Err(DenialCause::deferred(reason, clock.wall().plus(wait), None));
        }
        if !wait.is_zero() {
            if !has_timers() {
                return Err(DeniedKind::NoTimers.into());
            }
            tokio::time::sleep(wait).await;
        }
        Ok(wait)
    }
}
