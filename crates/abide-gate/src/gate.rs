//! The composition: robots.txt first, then the host's turn.
//!
//! The only place that knows both `access` and `pacing`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use abide_robots::Target;
use url::Url;

use crate::access::{AccessCache, Refused, RobotsEntry};
use crate::builder::GateBuilder;
use crate::clock::has_timers;
use crate::error::{Denied, Error};
use crate::event::{Event, Observers};
use crate::paced::last_gap;
use crate::pacing::{Ask, DeferReason, NextSlot, Pacer, Permit, Refusal};
use crate::verdict::Verdict;
use crate::{AddressGuard, Clock, Origin, WallMillis, without_userinfo};

/// Everything that a crawler asks before a request goes out. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Gate {
    pub(crate) access: AccessCache,
    pub(crate) pacer: Pacer,
    pub(crate) addresses: Arc<AddressGuard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) max_wait: Duration,
    pub(crate) overrides: Arc<AtomicU64>,
    pub(crate) observers: Observers,
}

impl Gate {
    /// The settings of a gate, the polite defaults.
    pub fn builder() -> GateBuilder {
        GateBuilder::new()
    }

    /// Asks robots.txt, then waits for the host's turn: at most `budget` for the turns of both.
    ///
    /// # Errors
    /// Every refusal there is.
    pub async fn admit(&self, url: &Url, budget: Duration) -> Result<(Verdict, Permit), Error> {
        let mut left = budget;
        let verdict = self.judge_within(url, &mut left).await?;
        if let Some(denied) = verdict.refusal(url) {
            return Err(denied.into());
        }
        let turn = self.turn(url, verdict, &mut left).await?;
        Ok((turn.verdict, turn.permit))
    }

    /// May this URL be fetched? May fetch robots.txt, never `url`, and takes no turn for it.
    ///
    /// `budget` bounds the wait for the turn of robots.txt; the fetch itself is bounded by its own deadline.
    ///
    /// # Errors
    /// A refusal that is no verdict: an unsupported URL, a refused address, a robots.txt request that was deferred or lost.
    pub async fn judge(&self, url: &Url, mut budget: Duration) -> Result<Verdict, Error> {
        self.judge_within(url, &mut budget).await
    }

    /// The same; what was waited for the turn of robots.txt is taken from `left`, also when it ends in an error.
    ///
    /// # Errors
    /// Those of [`judge`](Self::judge).
    pub async fn judge_within(&self, url: &Url, left: &mut Duration) -> Result<Verdict, Error> {
        match self.judge_at_once(url) {
            Some(verdict) => Ok(verdict),
            // Boxed, as is whatever is rare in a call: it need not carry the room for it.
            None => Box::pin(self.judge_after_learning(url, left)).await,
        }
    }

    /// The same where robots.txt is known and nothing is to be asked, which most requests meet: without waiting, and without a
    /// future. `None`: [`judge_within`](Self::judge_within) says more.
    pub fn judge_at_once(&self, url: &Url) -> Option<Verdict> {
        let verdict = self.verdict_at_once(url)?;
        self.tell_judged(&verdict);
        Some(verdict)
    }

    fn verdict_at_once(&self, url: &Url) -> Option<Verdict> {
        if is_robots_txt(url) || self.addresses.check_url(url).is_err() {
            return None;
        }
        let answer = self.access.at_hand(url)?;
        Some(Verdict::robots(answer.explain(&Target::of(url))))
    }

    async fn judge_after_learning(&self, url: &Url, left: &mut Duration) -> Result<Verdict, Error> {
        let origin = self.address_check(url)?;
        if is_robots_txt(url) {
            return Ok(Verdict::robots_txt());
        }
        let answer = self.learn(&origin, url, left).await?;
        let verdict = Verdict::robots(answer.explain(&Target::of(url)));
        self.tell_judged(&verdict);
        Ok(verdict)
    }

    fn tell_judged(&self, verdict: &Verdict) {
        if let Some(answer) = verdict.entry() {
            self.observers.tell(&Event::Checked { origin: answer.origin(), verdict });
        }
    }

    /// The same from what is known now, without any I/O. `None`: not known.
    pub fn judge_cached(&self, url: &Url) -> Option<Verdict> {
        self.verdict_at_once(url).or_else(|| self.verdict_by_cache(url))
    }

    fn verdict_by_cache(&self, url: &Url) -> Option<Verdict> {
        let origin = self.address_check(url).ok()?;
        if is_robots_txt(url) {
            return Some(Verdict::robots_txt());
        }
        Some(Verdict::robots(self.access.cached(&origin)?.explain(&Target::of(url))))
    }

    /// A verdict that passes robots.txt over, for the reason given. robots.txt is still asked for, since pacing stays, and its
    /// Crawl-delay with it. What was waited for its turn is taken from `left`. Logged and counted.
    ///
    /// # Errors
    /// An unsupported URL or a refused address.
    pub async fn overridden(&self, url: &Url, why: Arc<str>, left: &mut Duration) -> Result<Verdict, Error> {
        let origin = self.address_check(url)?;
        let crawl_delay = self.learn(&origin, url, left).await.ok().and_then(|answer| answer.crawl_delay());
        self.overrides.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::warn!(name: "abide.robots.overridden", target: "abide::robots", %origin, reason = ?why, "robots.txt is passed over");
        self.observers.tell(&Event::Overridden { origin: &origin, reason: &why });
        Ok(Verdict::overridden(why, crawl_delay))
    }

    /// Tells the observers that a request ended with this refusal: for those who build a client on the gate.
    pub fn tell_refused(&self, error: &Error) {
        let (denied, hop) = (error.denied(), error.chain().len());
        #[cfg(feature = "tracing")]
        {
            let origin = denied.url().and_then(|url| Origin::of(url).ok());
            let origin = origin.as_ref().map(tracing::field::display);
            tracing::debug!(name: "abide.request.refused", target: "abide::request", origin, hop, refusal = denied.name(), "refused");
        }
        self.observers.tell(&Event::Refused { denied, hop });
    }

    /// How often robots.txt was passed over.
    pub fn overrides(&self) -> u64 {
        self.overrides.load(Ordering::Relaxed)
    }

    /// What is known of an origin's robots.txt; fetched if need be.
    ///
    /// # Errors
    /// A robots.txt request that was deferred or lost.
    pub async fn answer(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Error> {
        self.learn(origin, &origin.robots_url(), &mut self.max_wait.clone()).await
    }

    /// The answer at hand, or fetched if the turn of robots.txt can come within what is `left`.
    async fn learn(
        &self,
        origin: &Origin,
        url: &Url,
        left: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Error> {
        loop {
            if *left < self.max_wait && self.access.cached(origin).is_none() {
                self.refuse_a_long_wait(origin, url, *left)?;
            }
            // A fetch has a deadline, and so needs timers.
            if self.access.cached(origin).is_none() && !has_timers() {
                return Err(Denied::NoTimers.into());
            }
            let mut waited = Duration::ZERO;
            let learnt = self.access.learn(origin, &mut waited).await;
            *left = left.saturating_sub(waited);
            let refused = match learnt {
                Ok(answer) => return Ok(answer),
                Err(refused) => refused,
            };
            // The fetch waits as long as most callers do; one with more patience asks again.
            let wait = match &refused {
                Refused::Deferred { not_before, .. } => not_before.since(self.clock.wall()),
                _ => Duration::ZERO,
            };
            if wait.is_zero() || wait > *left {
                return Err(denied_access(url, refused));
            }
            Box::pin(tokio::time::sleep(wait)).await;
            *left -= wait;
        }
    }

    /// The fetch belongs to all who wait, and waits longer than this caller does.
    fn refuse_a_long_wait(&self, origin: &Origin, url: &Url, left: Duration) -> Result<(), Error> {
        let slot = self.pacer.next_slot(&origin.robots_url(), Ask::new());
        let slot = slot.map_err(|refusal| denied_turn(url, refusal))?;
        if slot.wait <= left {
            return Ok(());
        }
        let not_before = slot.not_before.to_system_time();
        let denied =
            Denied::Deferred { url: without_userinfo(url), not_before, reason: DeferReason::Robots, hop: 0 };
        Err(denied.into())
    }

    /// Waits for the turn of the URL's host, at most what is `left`, for a URL that `verdict` allows. What was waited is taken
    /// from `left`, also when it ends in an error.
    ///
    /// Rules can expire or change while a request waits. Then its turn is given back and robots.txt is asked again first: what
    /// leaves is allowed by what is known when it leaves.
    ///
    /// # Errors
    /// With [`Denied::Deferred`] at once when the turn cannot come in time; with [`Denied::CrawlDelayTooLong`]; with
    /// [`Denied::Store`] when told to fail closed; with what robots.txt says by then.
    pub async fn turn(&self, url: &Url, verdict: Verdict, left: &mut Duration) -> Result<Turn, Error> {
        match self.turn_at_once(url, &verdict) {
            Some(permit) => Ok(Turn { verdict, permit, waited: Duration::ZERO }),
            None => Box::pin(self.turn_after_waiting(url, verdict, left)).await,
        }
    }

    /// The same if the host's turn is there this instant, and no store must be asked: without waiting, and without a future. `None`:
    /// [`turn`](Self::turn) waits for it.
    pub fn turn_at_once(&self, url: &Url, verdict: &Verdict) -> Option<Permit> {
        // A busy machine can take as long between verdict and turn as a wait would. Looked at first: a turn that is given back is
        // told as granted all the same.
        if verdict.is_robots_txt() || verdict.has_lapsed(self.clock.wall()) {
            return None;
        }
        let ask = Ask::new().with_crawl_delay(verdict.crawl_delay().unwrap_or_default());
        self.pacer.at_once(url, &ask)
    }

    async fn turn_after_waiting(
        &self,
        url: &Url,
        mut verdict: Verdict,
        left: &mut Duration,
    ) -> Result<Turn, Error> {
        let budget = *left;
        loop {
            let permit = self.permit(url, &verdict, left).await?;
            let is_current = permit.waited().is_zero() && !verdict.has_lapsed(self.clock.wall());
            if is_current || verdict.override_reason().is_some() {
                return Ok(Turn { verdict, permit, waited: budget.saturating_sub(*left) });
            }
            match self.judge_cached(url) {
                Some(now) if now.is_allowed() && now.crawl_delay() <= verdict.crawl_delay() => {
                    return Ok(Turn { verdict: now, permit, waited: budget.saturating_sub(*left) });
                }
                // The turn was taken by a Crawl-delay that has grown meanwhile.
                Some(now) if now.is_allowed() => {
                    permit.give_back();
                    verdict = now;
                    continue;
                }
                _ => permit.give_back(),
            }
            verdict = Box::pin(self.judge_within(url, left)).await?;
            if let Some(denied) = verdict.refusal(url) {
                return Err(denied.into());
            }
        }
    }

    /// The host's turn; what it took to wait for it is taken from what is `left`.
    async fn permit(&self, url: &Url, verdict: &Verdict, left: &mut Duration) -> Result<Permit, Error> {
        let delay = if verdict.is_robots_txt() { last_gap(&self.pacer, url) } else { verdict.crawl_delay() };
        let ask = Ask::new().with_crawl_delay(delay.unwrap_or_default()).with_budget(*left);
        let began = self.clock.now();
        let permit = self.pacer.acquire(url, ask).await;
        let waited = match &permit {
            Ok(permit) => permit.waited(),
            Err(_) => self.clock.now().saturating_duration_since(began),
        };
        *left = left.saturating_sub(waited);
        permit.map_err(|refusal| denied_turn(url, refusal))
    }

    /// When the next request to the URL's host could go out. Waits for nothing and reserves nothing.
    ///
    /// # Errors
    /// An unsupported URL.
    pub fn next_slot(&self, url: &Url) -> Result<NextSlot, Error> {
        let origin = Origin::of(url).map_err(|_| unsupported(url))?;
        let crawl_delay = self.access.cached(&origin).and_then(|answer| answer.crawl_delay());
        let ask = Ask::new().with_crawl_delay(crawl_delay.unwrap_or_default());
        self.pacer.next_slot(url, ask).map_err(|refusal| denied_turn(url, refusal))
    }

    /// How robots.txt is kept: prefetching, forgetting, counters.
    pub fn access(&self) -> &AccessCache {
        &self.access
    }

    /// How hosts are paced: holds, reports.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// How long a call may wait for its turns unless it says otherwise.
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
    fn address_check(&self, url: &Url) -> Result<Origin, Error> {
        let origin = Origin::of(url).map_err(|_| unsupported(url))?;
        match self.addresses.check_url(url) {
            Ok(()) => Ok(origin),
            Err(refused) => {
                let address = refused.address();
                Err(Denied::AddressRefused { url: without_userinfo(url), address, hop: 0 }.into())
            }
        }
    }
}

/// A turn that was waited for: the request may go out now.
#[derive(Debug)]
pub struct Turn {
    pub(crate) verdict: Verdict,
    pub(crate) permit: Permit,
    pub(crate) waited: Duration,
}

impl Turn {
    /// The verdict when the turn came, the permit, and how long was waited.
    pub fn into_parts(self) -> (Verdict, Permit, Duration) {
        (self.verdict, self.permit, self.waited)
    }
}

/// Exactly that path, and no query: RFC 9309 §2.2.2.
fn is_robots_txt(url: &Url) -> bool {
    url.path() == "/robots.txt" && url.query().is_none()
}

fn unsupported(url: &Url) -> Error {
    Denied::UnsupportedUrl { url: without_userinfo(url) }.into()
}

fn denied_turn(url: &Url, refusal: Refusal) -> Error {
    let url = without_userinfo(url);
    let denied = match refusal {
        Refusal::Deferred(deferral) => Denied::Deferred {
            url,
            not_before: deferral.not_before().to_system_time(),
            reason: deferral.reason().clone(),
            hop: 0,
        },
        Refusal::CrawlDelayTooLong { asked } => Denied::CrawlDelayTooLong { url, asked },
        Refusal::UnsupportedUrl(_) => Denied::UnsupportedUrl { url },
        Refusal::Store { reason } => Denied::Store { reason },
        Refusal::Panicked { callback } => Denied::Panicked { callback },
        Refusal::NoTimers(_) => Denied::NoTimers,
    };
    denied.into()
}

fn denied_access(url: &Url, refused: Refused) -> Error {
    let Refused::Deferred { not_before, why } = refused else { return Denied::Interrupted.into() };
    match why.downcast_ref::<Refusal>() {
        // With its own reason: whoever holds an open response of the host can do something about it.
        Some(refusal) => denied_turn(url, refusal.clone()),
        None => {
            let (url, not_before) = (without_userinfo(url), not_before.to_system_time());
            Denied::Deferred { url, not_before, reason: DeferReason::Robots, hop: 0 }.into()
        }
    }
}
