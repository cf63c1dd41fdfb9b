//! The gate: checks robots.txt, then acquires a permit of the host.
//!
//! Only this file, its builder and `paced.rs` know both `robots_cache` and `pacing`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use abide_robots::Target;
use url::Url;

use crate::builder::GateBuilder;
use crate::clock::has_timers;
use crate::denied::{Denied, DeniedKind};
use crate::event::{Event, Observers};
use crate::paced::last_delay;
use crate::pacing::{Ask, BackoffCause, DeferReason, HostReport, NextSlot, Pacer, Permit, Refusal};
use crate::robots_cache::TDMREP;
use crate::robots_cache::{RobotsCache, RobotsEntry};
use crate::verdict::Verdict;
use crate::{AddressGuard, Clock, Host, Origin, SignRequest, Stats, WallMillis};

/// Decides whether and when a request may be sent: robots.txt and rate limits. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Gate {
    pub(crate) robots: Arc<RobotsCache>,
    pub(crate) tdmrep: Option<Arc<RobotsCache>>,
    pub(crate) requires_tdmrep: bool,
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) addresses: Arc<AddressGuard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) max_wait: Duration,
    pub(crate) overrides: Arc<AtomicU64>,
    pub(crate) observers: Observers,
    pub(crate) signer: Option<Arc<dyn SignRequest>>,
}

impl Gate {
    /// The settings of a gate, the polite defaults.
    pub fn builder() -> GateBuilder {
        GateBuilder::new()
    }

    /// Checks robots.txt, then acquires a permit of the host. Both together wait at most `budget` for permits.
    ///
    /// # Errors
    /// Every refusal there is.
    pub async fn admit(&self, url: &Url, budget: Duration) -> Result<(Verdict, Permit), Denied> {
        let mut left = budget;
        let mut verdict = self.check(url, &mut left).await?;
        if let Some(denied) = verdict.refusal(url, self.clock.wall()) {
            return Err(denied);
        }
        let permit = self.acquire(url, &mut verdict, &mut left).await?;
        Ok((verdict, permit))
    }

    /// Checks whether `url` may be fetched. This may fetch robots.txt, never `url`, and acquires no permit for it.
    ///
    /// `left` is how long this may wait for the permits of robots.txt. The wait is taken from it, also when it ends in an error. The
    /// fetch itself has a deadline of its own.
    ///
    /// # Errors
    /// A refusal that is not a verdict: an unsupported URL, a refused address, a robots.txt request that was deferred or lost.
    pub async fn check(&self, url: &Url, left: &mut Duration) -> Result<Verdict, Denied> {
        match self.verdict_at_once(url) {
            Some(verdict) => Ok(self.observed(verdict)),
            // Boxed, because most calls do not need it and should not carry the room for it.
            None => Box::pin(self.check_after_fetching(url, left)).await,
        }
    }

    /// Like [`check`](Self::check), without I/O. `None` if robots.txt is not in memory.
    pub fn check_cached(&self, url: &Url) -> Option<Verdict> {
        self.verdict_at_once(url).or_else(|| self.verdict_by_cache(url))
    }

    fn verdict_at_once(&self, url: &Url) -> Option<Verdict> {
        if is_robots_txt(url) || self.addresses.check_url(url).is_err() {
            return None;
        }
        let answer = self.robots.at_hand(url)?;
        self.with_tdmrep(answer.explain(&Target::of(url)), |cache| cache.at_hand(url))
    }

    fn verdict_by_cache(&self, url: &Url) -> Option<Verdict> {
        let origin = self.address_check(url).ok()?;
        if is_robots_txt(url) {
            return Some(Verdict::robots_txt());
        }
        let verdict = self.robots.cached(&origin)?.explain(&Target::of(url));
        self.with_tdmrep(verdict, |cache| cache.cached(&origin))
    }

    /// The verdict with the site's tdmrep.json, if the settings fetch it. `None`: it is not at hand, or it is required and unknown.
    fn with_tdmrep(
        &self,
        verdict: Verdict,
        at_hand: impl FnOnce(&RobotsCache) -> Option<Arc<RobotsEntry>>,
    ) -> Option<Verdict> {
        let Some(cache) = self.tdmrep_for(&verdict) else { return Some(verdict) };
        let entry = if may_fetch_tdmrep(&verdict) { Some(at_hand(cache)?) } else { None };
        let verdict = verdict.with_tdmrep(entry);
        let is_refused = self.requires_tdmrep && verdict.is_tdmrep_unknown();
        (!is_refused).then_some(verdict)
    }

    /// The cache of tdmrep.json, for a page that is going to be fetched.
    fn tdmrep_for(&self, verdict: &Verdict) -> Option<&Arc<RobotsCache>> {
        self.tdmrep.as_ref().filter(|_| verdict.is_allowed())
    }

    async fn check_after_fetching(&self, url: &Url, left: &mut Duration) -> Result<Verdict, Denied> {
        let origin = self.address_check(url)?;
        if is_robots_txt(url) {
            return Ok(Verdict::robots_txt());
        }
        let verdict = self.entry(&self.robots, &origin, url, left).await?.explain(&Target::of(url));
        let mut tdmrep = None;
        if let Some(cache) = self.tdmrep_for(&verdict)
            && may_fetch_tdmrep(&verdict)
        {
            // Its request is the first that keeps the site's delay, so the pacer does not know it yet.
            if let Some(delay) = verdict.crawl_delay() {
                self.pacer.change_crawl_delay(&origin, delay);
            }
            tdmrep = Some(self.entry(cache, &origin, url, left).await?);
        }
        let retry_at = tdmrep.as_ref().map(|entry| entry.retry_at());
        let verdict = self.with_tdmrep(verdict, |_| tdmrep).map(|verdict| self.observed(verdict));
        verdict.ok_or_else(|| self.denied(DeniedKind::TdmrepUnknown, url).with_retry_at(retry_at))
    }

    fn observed(&self, verdict: Verdict) -> Verdict {
        if let Some(answer) = verdict.entry() {
            self.observers.notify(&Event::Checked { origin: answer.origin(), verdict: &verdict });
        }
        verdict
    }

    /// The same verdict, but the request may be sent although robots.txt denies it, for the reason `why`. This is logged and counted.
    pub fn overridden(&self, verdict: Verdict, why: &Arc<str>) -> Verdict {
        let Some(origin) = verdict.entry().map(|answer| answer.origin()) else { return verdict };
        self.overrides.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::warn!(name: "abide.robots.overridden", target: "abide::robots", %origin, reason = ?why, "robots.txt is passed over");
        self.observers.notify(&Event::Overridden { origin, reason: why });
        let verdict = if self.tdmrep.is_some() { verdict.with_unknown_tdmrep() } else { verdict };
        verdict.overridden(Arc::clone(why))
    }

    /// Reports to the observers that a request ended with this refusal: for adapters to HTTP clients.
    pub fn report_refused(&self, denied: &Denied) {
        let hop = denied.hop();
        #[cfg(feature = "tracing")]
        {
            let origin = Origin::of(denied.url()).ok();
            let origin = origin.as_ref().map(tracing::field::display);
            tracing::debug!(name: "abide.request.refused", target: "abide::request", origin, hop, refusal = denied.name(), "refused");
        }
        self.observers.notify(&Event::Refused { denied, hop });
    }

    /// The robots.txt of an origin, fetched if needed.
    ///
    /// # Errors
    /// A robots.txt request that was deferred or lost.
    pub async fn answer(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Denied> {
        self.entry(&self.robots, origin, &origin.robots_url(), &mut self.max_wait.clone()).await
    }

    /// Like [`answer`](Self::answer), without I/O. `None` if robots.txt is not in memory.
    pub fn cached(&self, origin: &Origin) -> Option<Arc<RobotsEntry>> {
        self.robots.cached(origin)
    }

    /// Fetches the robots.txt files of these origins, unless they are in memory, as many at a time as the policy allows, and waits for
    /// them.
    pub async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {
        self.robots.prefetch(origins).await;
    }

    /// Marks the origin's robots.txt as stale, so that it is fetched before its next use. The last good copy is kept, and is used while the
    /// origin is known to fail.
    ///
    /// Other processes with the same store notice this when their own copies expire.
    pub async fn invalidate(&self, origin: &Origin) {
        self.robots.invalidate(origin).await;
    }

    /// The entry from memory, or fetched if robots.txt can get its permit within what is `left`.
    async fn entry(
        &self,
        cache: &Arc<RobotsCache>,
        origin: &Origin,
        url: &Url,
        left: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Denied> {
        loop {
            if *left < self.max_wait && cache.cached(origin).is_none() {
                self.refuse_a_long_wait(origin, url, *left)?;
            }
            // A fetch has a deadline, and so needs timers.
            if cache.cached(origin).is_none() && !has_timers() {
                return Err(self.denied(DeniedKind::NoTimers, url));
            }
            let mut waited = Duration::ZERO;
            let loaded = cache.get_timed(origin, &mut waited).await;
            *left = left.saturating_sub(waited);
            let refused = match loaded {
                Ok(answer) => return Ok(answer),
                Err(refused) => refused,
            };
            // The fetch waits as long as most callers do. A caller with more time tries again.
            let not_before = refused.not_before;
            let wait = not_before.map_or(Duration::ZERO, |time| time.since(self.clock.wall()));
            if wait.is_zero() || wait > *left {
                return Err(self.denied_by(url, refused));
            }
            Box::pin(tokio::time::sleep(wait)).await;
            *left = left.saturating_sub(wait);
        }
    }

    /// Refuses at once where the fetch, which all its callers share, would wait for its permit for longer than this caller has left.
    fn refuse_a_long_wait(&self, origin: &Origin, url: &Url, left: Duration) -> Result<(), Denied> {
        // As the request itself will ask.
        let crawl_delay = last_delay(&self.pacer, url).unwrap_or_default();
        let slot = self.pacer.next_slot(&origin.robots_url(), Ask { crawl_delay, ..Ask::default() });
        let slot = slot.map_err(|refusal| self.denied_by(url, refusal))?;
        if slot.wait <= left {
            return Ok(());
        }
        let denied = self.denied(DeniedKind::Deferred { reason: DeferReason::Robots }, url);
        Err(denied.with_retry_at(Some(slot.not_before)))
    }

    /// Acquires a permit of the URL's host within `left`, for a URL that `verdict` allows. The wait is subtracted from `left`, also if it
    /// ends in an error.
    ///
    /// If rules expire or change during the wait, robots.txt is checked again and `verdict` is replaced.
    ///
    /// # Errors
    /// [`DeniedKind::Deferred`] at once if the wait would be too long; [`DeniedKind::CrawlDelayTooLong`]; [`DeniedKind::Store`] if the
    /// policy is to fail closed; a denial by rules that have changed during the wait.
    pub async fn acquire(
        &self,
        url: &Url,
        verdict: &mut Verdict,
        left: &mut Duration,
    ) -> Result<Permit, Denied> {
        match self.permit_at_once(url, verdict) {
            Some(permit) => Ok(permit),
            None => Box::pin(self.acquire_after_waiting(url, verdict, left)).await,
        }
    }

    /// A permit that is there this instant, without asking a store.
    fn permit_at_once(&self, url: &Url, verdict: &Verdict) -> Option<Permit> {
        // On a busy machine a verdict can expire between check and permit. This is looked at first, because a permit that is given back is still
        // reported as granted.
        if verdict.is_robots_txt() || verdict.has_lapsed(self.clock.wall()) {
            return None;
        }
        let place = verdict.entry()?.place();
        let crawl_delay = verdict.crawl_delay().unwrap_or_default();
        let ask = Ask { crawl_delay, place: place.load(Ordering::Relaxed), ..Ask::default() };
        let permit = self.pacer.at_once(url, &ask)?;
        place.store(permit.place(), Ordering::Relaxed);
        Some(permit)
    }

    async fn acquire_after_waiting(
        &self,
        url: &Url,
        verdict: &mut Verdict,
        left: &mut Duration,
    ) -> Result<Permit, Denied> {
        loop {
            let permit = self.permit(url, verdict, left).await?;
            // After a wait the rules are checked again: they may have changed meanwhile, also those of a fresh entry.
            let is_current = permit.waited().is_zero() && !verdict.has_lapsed(self.clock.wall());
            if is_current || verdict.override_reason().is_some() {
                return Ok(permit);
            }
            match self.check_cached(url) {
                Some(now) if now.is_allowed() => {
                    let is_in_time = now.crawl_delay().unwrap_or_default() <= permit.delay();
                    *verdict = now;
                    if is_in_time {
                        return Ok(permit);
                    }
                    // The Crawl-delay has grown meanwhile, and the queue did not know: the permit came too early.
                    permit.give_back();
                }
                _ => {
                    permit.give_back();
                    *verdict = Box::pin(self.check(url, left)).await?;
                    if let Some(denied) = verdict.refusal(url, self.clock.wall()) {
                        return Err(denied);
                    }
                }
            }
        }
    }

    /// A permit of the host. The wait is taken from what is `left`.
    async fn permit(&self, url: &Url, verdict: &Verdict, left: &mut Duration) -> Result<Permit, Denied> {
        let delay =
            if verdict.is_robots_txt() { last_delay(&self.pacer, url) } else { verdict.crawl_delay() };
        let crawl_delay = delay.unwrap_or_default();
        let ask = Ask { crawl_delay, budget: Some(*left), ..Ask::default() };
        let began = self.clock.now();
        let permit = self.pacer.acquire(url, ask).await;
        let waited = match &permit {
            Ok(permit) => permit.waited(),
            Err(_) => self.clock.now().saturating_duration_since(began),
        };
        *left = left.saturating_sub(waited);
        permit.map_err(|refusal| self.denied_by(url, refusal))
    }

    /// When the next request to the URL's host could be sent. Neither waits nor reserves.
    ///
    /// # Errors
    /// An unsupported URL.
    pub fn next_slot(&self, url: &Url) -> Result<NextSlot, Denied> {
        let origin = Origin::of(url).map_err(|_| self.denied(DeniedKind::UnsupportedUrl, url))?;
        let crawl_delay = self.robots.cached(&origin).and_then(|answer| answer.crawl_delay());
        let ask = Ask { crawl_delay: crawl_delay.unwrap_or_default(), ..Ask::default() };
        self.pacer.next_slot(url, ask).map_err(|refusal| self.denied_by(url, refusal))
    }

    /// The host that has been free for the longest time, or else will be free first. A host without a request so far is free; of equal
    /// hosts, the first is returned.
    pub fn next_ready<'h>(&self, hosts: impl IntoIterator<Item = &'h Host>) -> Option<(&'h Host, NextSlot)> {
        self.pacer.next_ready(hosts)
    }

    /// Backs off a host, or a group of hosts by its key, until `until`, unless it is already backed off for longer. Returns the end of the
    /// backoff.
    ///
    /// A time more than 27 h ahead is considered a mistake and cut to 24 h.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use abide_gate::{DeniedKind, Gate, Host, pacing::DeferReason};
    /// # use abide_gate::{BoxFuture, robots_cache::{FetchError, RobotsRequest, RobotsResponse}};
    /// # #[derive(Debug)]
    /// # struct Missing;
    /// # impl abide_gate::robots_cache::Fetch for Missing {
    /// #     fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
    /// #         let (status, now) = (http::StatusCode::NOT_FOUND, std::time::Instant::now());
    /// #         Box::pin(async move { Ok(RobotsResponse::whole(status, Default::default(), "", now)) })
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gate = Gate::builder().build(vec!["ExampleBot".parse()?], Arc::new(Missing));
    /// let url = "http://a.example/".parse()?;
    /// gate.back_off(&Host::of(&url)?, gate.wall().plus(Duration::from_secs(3_600)));
    ///
    /// let denied = gate.admit(&url, gate.max_wait()).await.unwrap_err();
    /// assert!(matches!(denied.kind(), DeniedKind::Deferred { reason: DeferReason::Backoff { .. } }));
    /// # Ok(()) }
    /// ```
    pub fn back_off(&self, scope: impl AsRef<str>, until: WallMillis) -> WallMillis {
        self.pacer.back_off(scope.as_ref(), until, BackoffCause::Operator)
    }

    /// The report of a host, if the host is known.
    pub fn report(&self, host: &Host) -> Option<HostReport> {
        self.pacer.report(host)
    }

    /// The reports of all known hosts and groups of hosts, in no particular order.
    pub fn reports(&self) -> Vec<HostReport> {
        self.pacer.reports()
    }

    /// Counts since the start, and sums over all hosts that are known. Looks at each of them.
    pub fn stats(&self) -> Stats {
        let Stats { hosts, in_flight, waiting, backed_off, .. } = self.pacer.stats();
        let overrides = self.overrides.load(Ordering::Relaxed);
        Stats { overrides, hosts, in_flight, waiting, backed_off, ..self.robots.stats() }
    }

    /// Gives up all leases in the shared store and saves the last backoffs, within `limit`. Returns whether all of that is done. Without a
    /// store there is nothing to do.
    ///
    /// Before a process ends, drop its responses, await this, and close the store. Otherwise, other processes wait for its hosts until the
    /// leases end.
    pub async fn settled(&self, limit: Duration) -> bool {
        self.pacer.settled(limit).await
    }

    /// The signer of requests, if requests are signed.
    pub fn signer(&self) -> Option<&Arc<dyn SignRequest>> {
        self.signer.as_ref()
    }

    /// How long a call may wait for permits, unless it sets its own limit.
    pub fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// The monotonic time of the gate's clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The wall-clock time of the gate's clock.
    pub fn wall(&self) -> WallMillis {
        self.clock.wall()
    }

    /// The origin, unless the URL names an address that must not be contacted.
    fn address_check(&self, url: &Url) -> Result<Origin, Denied> {
        let origin = Origin::of(url).map_err(|_| self.denied(DeniedKind::UnsupportedUrl, url))?;
        match self.addresses.check_url(url) {
            Ok(()) => Ok(origin),
            Err(refused) => {
                let address = refused.address();
                Err(self.denied(DeniedKind::AddressRefused { address }, url))
            }
        }
    }

    fn denied(&self, kind: DeniedKind, url: &Url) -> Denied {
        Denied::new(kind, url, self.clock.wall())
    }

    /// What the pacer's refusal, of a page or of its robots.txt, means for `url`.
    pub(crate) fn denied_by(&self, url: &Url, refusal: Refusal) -> Denied {
        // With its own reason also for robots.txt: the caller may hold an open response of the host.
        self.denied(refusal.kind, url).with_retry_at(refusal.not_before).with_scope(refusal.scope)
    }
}

/// robots.txt can deny tdmrep.json like any other file.
fn may_fetch_tdmrep(verdict: &Verdict) -> bool {
    verdict.entry().is_some_and(|entry| entry.is_allowed(&Target::new(TDMREP)))
}

/// Exactly that path, and no query: RFC 9309 §2.2.2.
fn is_robots_txt(url: &Url) -> bool {
    url.path() == "/robots.txt" && url.query().is_none()
}
