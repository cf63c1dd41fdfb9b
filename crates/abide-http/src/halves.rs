//! A call in two halves, with an HTTP cache between them: what the upper one hands to the lower one, and what that reports back.
//!
//! A cache keeps neither errors nor extensions of responses, so both go through the request's extensions. The lower half begins a call of its own
//! each time that it is reached: something between the halves may send again, or something else, or nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Extensions, HeaderMap, Method};
use url::Url;

use crate::call::{Call, PendingHop};
use crate::crawler::{Crawler, Options};
use crate::redirect::{RedirectPolicy, same_resource};
use abide_gate::pacing::Permit;
use abide_gate::{Denied, SignRequest, Verdict};

/// A hop that the upper half has checked, and what the lower half reports of it.
#[derive(Debug, Clone)]
pub(crate) struct Handoff {
    hop: PendingHop,
    wait_left: Duration,
    signer: Option<Arc<dyn SignRequest>>,
    /// The verdict by which the request went out. `None`: a cache answered.
    sent_by: Option<Verdict>,
    denied: Option<Denied>,
    /// How many requests are on the wire for it, or have been.
    sends: u32,
}

pub(crate) type SharedHandoff = Arc<Mutex<Handoff>>;

fn lock(handoff: &SharedHandoff) -> MutexGuard<'_, Handoff> {
    handoff.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Call<'a> {
    /// A call of one hop, because what is above follows redirects. Its options are those of the request's `extensions`. If these have a hop that
    /// was [handed down](Self::hand_down), the call goes on with it, and reports to the call above.
    pub fn one_hop(
        crawler: &'a Crawler,
        extensions: &Extensions,
        method: &Method,
        url: &Url,
        timeout: Option<Duration>,
    ) -> Self {
        let options = extensions.get::<Options>().cloned().unwrap_or_default();
        let mut call =
            Self::new(crawler, options.with_redirects(RedirectPolicy::never()), method, url, timeout);
        call.handoff = extensions.get::<SharedHandoff>().cloned();
        let above = call.above().map(|above| above.clone());
        if let Some(above) = above.filter(|above| same_resource(&above.hop.url, call.url())) {
            call.hop = Some(PendingHop { waited: Duration::ZERO, wire: Duration::ZERO, ..above.hop });
            (call.wait_left, call.signer) = (above.wait_left, above.signer);
            // What is between the halves may have taken long, as a retry that pauses does.
            call.was_late();
        }
        call
    }

    /// Leaves it to a middleware below to acquire the permits of this call: one that begins a call of [`one_hop`](Self::one_hop).
    pub fn paced_below(&mut self) {
        self.paces = false;
    }

    /// Hands this hop, which was checked, to the middleware below, in the request's extensions; and adds to its fields what a server has asked for.
    pub fn hand_down(&mut self, headers: &mut HeaderMap, extensions: &mut Extensions) {
        self.add_given(headers);
        let handoff = Arc::new(Mutex::new(Handoff {
            hop: self.pending().clone(),
            wait_left: self.wait_left,
            signer: self.signer.clone(),
            sent_by: None,
            denied: None,
            sends: 0,
        }));
        self.handoff = Some(Arc::clone(&handoff));
        extensions.insert(handoff);
    }

    /// Takes back the hop that was handed down. Returns whether its request was paced below, and not answered by a cache, and the refusal from there.
    pub fn take_back(&mut self) -> (bool, Option<Denied>) {
        let Some(handoff) = self.handoff.take() else { return (false, None) };
        let Handoff { hop, wait_left, sent_by, denied, sends, .. } = lock(&handoff).clone();
        if sends > 0 {
            self.sending();
        } else {
            self.not_sent();
        }
        let is_paced = sent_by.is_some();
        self.hop = Some(PendingHop { verdict: sent_by.or(hop.verdict), ..hop });
        self.wait_left = wait_left;
        (is_paced, denied)
    }

    /// Reports the end of a call of one hop to the call above; without one, a refusal to observers. The call has no hop from then on, and no URL.
    pub fn report(&mut self, denied: Option<Denied>) {
        let history = self.take_history();
        // Apart from the lock, because the clock is the user's.
        let wire = self.permit.as_ref().filter(|_| self.handoff.is_some()).map(Permit::elapsed);
        let Some(mut above) = self.above() else {
            if let Some(denied) = denied {
                self.crawler.gate.report_refused(&denied);
            }
            return;
        };
        let waited = history.waited();
        above.wait_left = above.wait_left.saturating_sub(waited);
        above.hop.waited = above.hop.waited.saturating_add(waited);
        if let Some(hop) = history.last() {
            above.hop.wire = above.hop.wire.saturating_add(wire.unwrap_or_default());
            above.sent_by = Some(hop.verdict().clone());
        } else {
            above.denied = denied;
        }
    }

    /// Counts for the call above that the request of this one is sent, or that it was not after all.
    pub(crate) fn count_for_above(&self, is_sent: bool) {
        if let Some(mut above) = self.above() {
            let sends = above.sends;
            above.sends = if is_sent { sends.saturating_add(1) } else { sends.saturating_sub(1) };
        }
    }

    /// The hop of the call above, if there is one.
    fn above(&self) -> Option<MutexGuard<'_, Handoff>> {
        self.handoff.as_ref().filter(|_| self.paces).map(lock)
    }
}
