//! robots.txt requests behind the address guard and with permits of their host, like all requests.
//!
//! The cache knows neither permits nor addresses: it gets a [`Fetch`] that is guarded, signed and
//! rate-limited already.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use url::Url;

use crate::pacing::{
    BackoffCause, FILE_DELAY_MAX, NextHop, Pacer, Permit, Purpose, WaitRequest, wait_request,
};
use crate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse, full};
use crate::{AddressGuard, BoxFuture, Clock, Failure, Host, SignRequest};

/// The user's transport, behind the address guard and the pacer.
#[derive(Debug)]
pub(crate) struct PacedFetch {
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) addresses: Arc<AddressGuard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signer: Option<Arc<dyn SignRequest>>,
    /// A place for each fetch on the wire, which has a socket.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) places_max: usize,
}

/// No fetch has less time, unless its policy says so: far more than a robots.txt takes.
const CROWDED_BUDGET: Duration = Duration::from_secs(5);

/// A look at the store that took longer is followed by another permit: the lease of the host is valid for
/// little more when a permit is granted.
const STORE_LOOK_MAX: Duration = Duration::from_millis(250);

/// How long a fetch may be on the wire when so many places of all are free, its own among them.
///
/// Slow origins must delay themselves alone. A fetch that waits for its bytes takes a socket and little else,
/// so there are places for many more than are slow by chance. Where half of them are taken, the next ones
/// have less time, the fewer are free: however many origins drip their robots.txt, places become free for
/// others within seconds.
fn budget_when(free: usize, all: usize, budget: Duration) -> Duration {
    let share = 2.0 * free as f64 / all.max(1) as f64;
    budget.mul_f64(share.min(1.0)).max(CROWDED_BUDGET.min(budget))
}

impl Fetch for PacedFetch {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        Box::pin(self.signed(request))
    }
}

impl PacedFetch {
    /// Signs the request, if requests are signed, and repeats it if the server asks for another signature.
    async fn signed(&self, mut request: RobotsRequest) -> Result<RobotsResponse, FetchError> {
        let Some(signer) = &self.signer else { return self.paced(request, None).await };
        let reply = self.paced(request.clone(), Some(&**signer)).await?;
        let spent = self.clock.now().saturating_duration_since(reply.started());
        request.budget = request.budget.saturating_sub(spent);
        let wait = reply.hold().map(|until| until.since(self.clock.wall())).unwrap_or_default();
        let asked = signer.asked(reply.status(), reply.headers());
        // This reply is the last one where its repetition could not be sent in time.
        let Some(signer) = asked.filter(|_| wait <= self.pacer.policy.max_wait && !request.budget.is_zero())
        else {
            return Ok(reply);
        };
        // Its permit ends with it.
        drop(reply);
        let mut reply = self.paced(request, Some(&*signer)).await?;
        // As if it had begun earlier by the first exchange: one deadline is kept for both.
        reply.started = reply.started.checked_sub(spent).unwrap_or(reply.started);
        Ok(reply)
    }

    async fn paced(
        &self,
        mut request: RobotsRequest,
        signer: Option<&dyn SignRequest>,
    ) -> Result<RobotsResponse, FetchError> {
        if let Err(refused) = self.addresses.check_url(request.url()) {
            return Err(FetchError::new(refused, refused.to_string()));
        }
        let (permit, fetching) = self.admitted_if_needed(&request).await?;
        self.pacer.granted(&permit);
        let granted =
            budget_when(self.places.available_permits().saturating_add(1), self.places_max, request.budget);
        let now = self.clock.now();
        // As if it had begun earlier, so that the caller, who keeps the time of the body, leaves it no more.
        let started = now.checked_sub(request.budget.saturating_sub(granted)).unwrap_or(now);
        request.budget = granted;
        self.sign(&mut request, signer)?;
        let (throttle, waits) = (request.throttle, request.permit_wait.clone());
        let mut fetched = self.fetch.fetch(request.clone()).await;
        request.budget = granted.saturating_sub(self.clock.now().saturating_duration_since(now));
        // RFC 9112 §9.3.1: a kept connection can be closed while a request is on its way. It is a GET, so it
        // is sent again, on a new connection. Once, and under the same permit: the server has not responded
        // to the first, and no other request is on the wire.
        if fetched.as_ref().is_err_and(|error| error.may_be_repeated) && !request.budget.is_zero() {
            self.sign(&mut request, signer)?;
            fetched = self.fetch.fetch(request).await;
        }
        match fetched {
            Ok(reply) => {
                let before = self.clock.wall();
                let mut backoff = permit.observe_waits(reply.status(), reply.headers());
                waits.add_gap(permit.gap());
                waits.lock().next_hop = NextHop::of(reply.status(), reply.headers(), &*self.clock);
                // Stricter: robots.txt returned 429 before, and again after the time that it had asked for.
                // For a page, Retry-After alone counts, because its caller decides when to come back.
                // robots.txt would be requested with every page, every second.
                if let Some(throttle) = throttle
                    && let WaitRequest::Throttle { .. } =
                        wait_request(reply.status(), reply.headers(), before)
                {
                    let cause = BackoffCause::Answer { status: reply.status().as_u16(), retry_after: None };
                    let until = self.clock.wall().plus(throttle);
                    backoff = Some(self.pacer.back_off(&permit.key, until, cause));
                }
                // A backoff counts on the monotonic clock, this entry on the wall clock, and must have
                // expired when the host is requested again, first for robots.txt. The thread may have stood
                // still between the two readings, and each is off by a rounding.
                let apart = self.clock.wall().since(before).saturating_add(Duration::from_millis(2));
                // Before the body is read, which may take long: other processes must not send to a host that
                // is backed off.
                permit.saved().await;
                // The permit lives as long as the body, which is dropped when enough of it has been read.
                let body = reply.body.map_err(move |error| {
                    let _until_the_end = &fetching;
                    if error.failure() == Some(Failure::EnhanceYourCalm) {
                        permit.failed(Failure::EnhanceYourCalm);
                    }
                    error
                });
                let backed_off_until = backoff.map(|until| until.minus(apart));
                Ok(RobotsResponse { body: body.boxed_unsync(), started, backed_off_until, ..reply })
            }
            Err(error) => {
                match error.failure() {
                    // It was resolved, and nothing was sent.
                    Some(Failure::AddressRefused(_)) => permit.give_back(),
                    Some(failure) => {
                        permit.failed(failure);
                        permit.saved().await;
                    }
                    None => {}
                }
                Err(error)
            }
        }
    }

    /// The last thing before the request is sent: a signature is for one request.
    fn sign(&self, request: &mut RobotsRequest, signer: Option<&dyn SignRequest>) -> Result<(), FetchError> {
        let Some(signer) = signer else { return Ok(()) };
        let mut fields = HeaderMap::new();
        signer.sign(&Method::GET, request.url(), &mut fields, self.clock.wall()).map_err(|error| {
            FetchError::new(Failure::Other, format!("the request could not be signed: {error}"))
        })?;
        request.fields = fields;
        Ok(())
    }

    /// The same as `admitted`, unless another process has fetched it meanwhile.
    async fn admitted_if_needed(
        &self,
        request: &RobotsRequest,
    ) -> Result<(Permit, OwnedSemaphorePermit), FetchError> {
        let (permit, fetching) = self.admitted(request).await?;
        let began = self.clock.now();
        if request.is_stored_meanwhile().await {
            permit.give_back();
            return Err(FetchError::stored_meanwhile());
        }
        if self.clock.now().saturating_duration_since(began) <= STORE_LOOK_MAX {
            return Ok((permit, fetching));
        }
        permit.give_back();
        drop(fetching);
        self.admitted(request).await
    }

    /// A permit, and a place among the fetches on the wire. The wait for either counts.
    async fn admitted(&self, request: &RobotsRequest) -> Result<(Permit, OwnedSemaphorePermit), FetchError> {
        self.await_hop(request).await?;
        let permit = self.permit(request).await?;
        // The permit first: hosts that only wait for their delay take no place from the others.
        if let Ok(fetching) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok((permit, fetching));
        }
        permit.give_back();
        let (began, left) = (self.clock.now(), self.budget(request));
        request.permit_wait.begin(began);
        let fetching = timeout(left, Arc::clone(&self.places).acquire_owned()).await;
        request.permit_wait.add(self.clock.now().saturating_duration_since(began));
        let Ok(Ok(fetching)) = fetching else { return Err(FetchError::deferred(full(self.clock.wall()))) };
        Ok((self.permit(request).await?, fetching))
    }

    async fn await_hop(&self, request: &RobotsRequest) -> Result<(), FetchError> {
        let Some(hop) = request.permit_wait.lock().next_hop.take() else { return Ok(()) };
        request.permit_wait.begin(self.clock.now());
        let waited = Box::pin(hop.wait(&*self.clock, self.budget(request))).await;
        request.permit_wait.add(*waited.as_ref().unwrap_or(&Duration::ZERO));
        waited.map(|_| ()).map_err(FetchError::deferred)
    }

    async fn permit(&self, request: &RobotsRequest) -> Result<Permit, FetchError> {
        let asked = self.clock.now();
        request.permit_wait.begin(asked);
        let (url, is_background) = (request.url(), request.permit_wait.lock().is_background);
        let (delay, beside) = file_delay(last_delay(&self.pacer, url).unwrap_or_default());
        let purpose = Purpose::File { is_background, beside };
        let permit = self.pacer.acquire_unreported(url, delay, self.budget(request), purpose).await;
        let now = self.clock.now();
        request.permit_wait.add(permit.as_ref().map_or(now.saturating_duration_since(asked), Permit::waited));
        permit.map_err(FetchError::deferred)
    }

    /// All hops together wait as long as a call may.
    fn budget(&self, request: &RobotsRequest) -> Duration {
        self.pacer.policy.max_wait.saturating_sub(request.permit_wait.at(self.clock.now()).0)
    }
}

/// The delay before the robots.txt of a site whose pages have this one; and that again, if robots.txt does
/// not keep it.
///
/// It must be fresh when a page goes out, and is not fresh for more than 24 hours (RFC 9309 §2.4). If it kept
/// a delay of more than a third of that, it would take the place of every page, with the other files that a
/// page waits for. Such a site gets it at our own delay, and its pages at its own.
pub(crate) fn file_delay(of_pages: Duration) -> (Duration, Option<Duration>) {
    if of_pages > FILE_DELAY_MAX { (Duration::ZERO, Some(of_pages)) } else { (of_pages, None) }
}

/// The delay that was last asked for the URL's host.
pub(crate) fn last_delay(pacer: &Pacer, url: &Url) -> Option<Duration> {
    let host = Host::of(url).ok()?;
    Some(pacer.report(&host)?.delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_has_less_time_the_fewer_places_are_free() {
        let s = Duration::from_secs;
        for (free, budget, granted) in [
            (512, s(30), s(30)),
            (256, s(30), s(30)),
            (128, s(30), s(15)),
            (64, s(30), Duration::from_millis(7_500)),
            (10, s(30), s(5)),
            (1, s(30), s(5)),
            (1, s(2), s(2)),
        ] {
            assert_eq!(budget_when(free, 512, budget), granted, "{free} of 512, {budget:?}");
        }
        assert_eq!(budget_when(1, 1, s(30)), s(30));
    }
}
