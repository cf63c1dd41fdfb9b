//! The permit: one request on the wire, until its response has ended.
//!
//! The delay counts from the end of the response, so the permit lives in the response body and ends when it is dropped, whatever happens to
//! the caller. It owns all it needs, and its end awaits nothing: a `Drop` cannot.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::acquire::{self, Claims};
use super::open_bodies;
use super::pacer::Pacer;
use super::shared_store::User;
use crate::clock::Moment;
use crate::{Failure, WallMillis};

/// The right to send one request to a host, now.
///
/// Keep it until the response has *ended*: its body was read to the end, is known to be empty, or was dropped. The delay to the next
/// request counts from then. A permit may live in a response body, be sent to other threads, and be dropped anywhere, also outside a
/// runtime; dropping it ends the response and wakes the next request.
///
/// Report the result: [`observe`](Self::observe) the head of the response, or that the request [`failed`](Self::failed).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use abide_gate::{BoxFuture, Failure, Gate, robots_cache::{FetchError, RobotsRequest, RobotsResponse}};
/// # #[derive(Debug)]
/// # struct Missing;
/// # impl abide_gate::robots_cache::Fetch for Missing {
/// #     fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
/// #         let (status, now) = (http::StatusCode::NOT_FOUND, std::time::Instant::now());
/// #         Box::pin(async move { Ok(RobotsResponse::whole(status, Default::default(), "", now)) })
/// #     }
/// # }
/// # let fetch = std::sync::Arc::new(Missing);
/// # let (gate, url) = (Gate::builder().build(vec!["ExampleBot".parse()?], fetch), "http://a.example/".parse()?);
/// # async fn send() -> Result<(http::StatusCode, http::HeaderMap), Failure> { Err(Failure::Reset) }
/// let (_, permit) = gate.admit(&url, gate.max_wait()).await?;
/// match send().await {
///     Ok((status, headers)) => permit.finish_with(status, &headers),
///     Err(fault) => drop(permit.failed(fault)),
/// }
/// # Ok(()) }
/// ```
#[must_use = "the response ends for its host when the permit is dropped: keep it until the response has ended"]
pub struct Permit {
    pacer: Arc<Pacer>,
    claims: Claims,
    /// When the request went on the wire, as far as we know.
    started: Moment,
    waited: Duration,
    /// Unless it is given back.
    is_sent: bool,
    /// What keeps the leases of its hosts, if there is a shared store.
    users: Box<[User]>,
}

impl Permit {
    pub(crate) fn new(
        pacer: Arc<Pacer>,
        claims: Claims,
        started: Moment,
        waited: Duration,
        users: Box<[User]>,
    ) -> Self {
        if !pacer.is_watched.load(Ordering::Relaxed) {
            open_bodies::watch(&pacer);
        }
        Self { pacer, claims, started, waited, is_sent: true, users }
    }

    /// Where the host's schedule is, for the next permit of it.
    pub(crate) fn place(&self) -> u32 {
        self.claims.host.schedule.place()
    }

    /// The delay behind the request before, by which it was granted.
    pub(crate) fn delay(&self) -> Duration {
        self.claims.host.terms.delay
    }

    /// How long the next request waits at least: for the delay, or for what a RateLimit field has left.
    pub(crate) fn gap(&self) -> Duration {
        let (now, mut gap) = (self.pacer.now_or_system(), Duration::ZERO);
        acquire::each(&self.pacer.table, &self.claims, |host, claim| {
            gap = gap.max(claim.terms.delay).max(host.feedback().quota.since(now));
        });
        gap
    }

    /// How long this call has waited for the permit.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How long ago the request was sent, as far as is known.
    pub fn elapsed(&self) -> Duration {
        self.pacer.now_or_system().since(self.started)
    }

    /// Reports the head of the response. Returns the end of the host's backoff, if it is backed off now.
    ///
    /// 429 and 503 back the host off (for a valid Retry-After, up to 24 h; else for 60 s, doubling); any response closes the circuit
    /// breaker. Call this once per request, and not for informational responses (1xx).
    pub fn observe(&self, status: StatusCode, headers: &HeaderMap) -> Option<WallMillis> {
        self.pacer.observe(&self.claims, self.started, status, headers)
    }

    /// Reports that the request failed without a response. Returns the end of the host's backoff or of the breaker's pause, if there is
    /// one. Await [`saved`](Self::saved) before you return the error.
    pub fn failed(&self, fault: Failure) -> Option<WallMillis> {
        self.pacer.failed(&self.claims, self.started, fault)
    }

    /// Whether a host or group that it is for has been backed off since it was acquired, so that its request is not to be sent any more.
    pub fn is_backed_off(&self) -> bool {
        let (now, mut is_backed_off) = (self.pacer.now_or_system(), false);
        acquire::each(&self.pacer.table, &self.claims, |host, _| {
            is_backed_off |= host.feedback().backoff.until > now
        });
        is_backed_off
    }

    /// Whether the shared store has all that was [observed](Self::observe) and that [failed](Self::failed). Always true without a store.
    pub fn is_saved(&self) -> bool {
        !self.users.iter().any(User::is_unsaved)
    }

    /// Waits until a backoff that was [observed](Self::observe) is in the shared store, so that no other process sends to the host and no
    /// restart forgets it. Await this before you return the response. It takes at most
    /// [`store_timeout`](super::PacePolicy::with_store_timeout), and does not wait for a store that is away.
    pub async fn saved(&self) {
        for user in self.users.iter().filter(|user| user.is_unsaved()) {
            user.saved().await;
        }
    }

    /// Reports that the response has ended. The same as dropping the permit.
    pub fn finish(self) {}

    /// [`observe`](Self::observe) and [`finish`](Self::finish) in one, for clients that have read the whole body.
    pub fn finish_with(self, status: StatusCode, headers: &HeaderMap) {
        self.observe(status, headers);
    }

    /// Reports that nothing was and will be sent: the next request needs no delay.
    pub fn give_back(mut self) {
        self.is_sent = false;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // The clock is the user's, so it is read before any lock is taken.
        let (table, now) = (&self.pacer.table, self.pacer.now_or_system());
        self.pacer.act(|effects| {
            let end = if self.is_sent { acquire::end } else { acquire::give_back };
            end(table, &self.claims, self.started, now, effects);
            // Last, because from here on the lease may go to another process, with the end of this response.
            self.users.iter_mut().for_each(|user| user.end(now));
        });
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("waited", &self.waited).finish_non_exhaustive()
    }
}
