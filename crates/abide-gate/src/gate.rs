//! The gate, which checks robots.txt, then acquires a permit of the host; and its verdict.
//!
//! Only this file, its builder and `paced.rs` know both `robots_cache` and `pacing`. An operator must be able
//! to say why a page was fetched or not, so a verdict keeps the rule, its line, and the state of robots.txt
//! that it was made from.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use abide_robots::{Record, Target};
use http::{HeaderMap, StatusCode};
use httpdate::fmt_http_date;
use url::Url;

use crate::builder::GateBuilder;
use crate::clock::has_timers;
use crate::denied::{DenialCause, Denied, DeniedKind};
use crate::event::Event;
use crate::paced::{file_delay, last_delay};
use crate::pacing::{BackoffCause, DeferReason, HostReport, NextHop, NextSlot, Pacer, Permit};
use crate::robots_cache::{GoodCopy, RobotsCache, RobotsEntry, Source};
use crate::text::Escaped;
use crate::{AddressGuard, Clock, HolderId, Host, Origin, SignRequest, Stats, WallMillis};

/// Decides whether and when a request may be sent: robots.txt and rate limits. Cheap to clone; clones share
/// everything.
#[derive(Debug, Clone)]
pub struct Gate {
    pub(crate) robots: Arc<RobotsCache>,
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) addresses: Arc<AddressGuard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) overrides: Arc<AtomicU64>,
    pub(crate) trusts_status: bool,
    pub(crate) signer: Option<Arc<dyn SignRequest>>,
}

impl Gate {
    /// The settings of a gate, the polite defaults.
    pub fn builder() -> GateBuilder {
        GateBuilder::new()
    }

    /// Checks robots.txt, then acquires a permit of the host. Both together wait at most `budget` for
    /// permits.
    ///
    /// # Errors
    /// Every refusal there is.
    pub async fn admit(&self, url: &Url, budget: Duration) -> Result<(Verdict, Permit), Denied> {
        let mut left = budget;
        let mut verdict = self.check(url, &mut left).await?;
        if let Some(denied) = self.denial(&verdict, url) {
            return Err(denied);
        }
        let permit = self.acquire(url, &mut verdict, &mut left).await?;
        Ok((verdict, permit))
    }

    /// Checks whether `url` may be fetched. This may fetch robots.txt, never `url`, and acquires no permit
    /// for it.
    ///
    /// `left` is how long this may wait for the permits of robots.txt. The wait is taken from it, also when
    /// it ends in an error. The fetch itself has a deadline of its own.
    ///
    /// # Errors
    /// A refusal that is not a verdict: an unsupported URL, a refused address, a robots.txt request that was
    /// deferred or lost.
    pub async fn check(&self, url: &Url, left: &mut Duration) -> Result<Verdict, Denied> {
        let origin = self.address_check(url)?;
        if is_robots_txt(url) {
            return Ok(Verdict::robots_txt());
        }
        let verdict = Verdict::robots(self.entry_within(&origin, url, left).await?, &Target::of(url));
        if let Some(entry) = verdict.entry() {
            self.pacer.observers.notify(&Event::Checked { origin: entry.origin(), verdict: &verdict });
        }
        Ok(verdict)
    }

    /// Like [`check`](Self::check), without I/O and without notifying an observer. `None` if robots.txt is
    /// not in memory.
    pub fn check_cached(&self, url: &Url) -> Option<Verdict> {
        let origin = self.address_check(url).ok()?;
        if is_robots_txt(url) {
            return Some(Verdict::robots_txt());
        }
        Some(Verdict::robots(self.robots.cached(&origin)?, &Target::of(url)))
    }

    /// The same verdict, but the request may be sent although robots.txt denies it, for the reason `why`.
    /// This is logged and counted.
    pub fn override_denial(&self, verdict: Verdict, why: &Arc<str>) -> Verdict {
        let Some(origin) = verdict.entry().map(|entry| entry.origin()) else { return verdict };
        self.overrides.fetch_add(1, Ordering::Relaxed);
        self.pacer.observers.notify(&Event::Overridden { origin, reason: why });
        Verdict { override_reason: Some(Arc::clone(why)), ..verdict }
    }

    /// Reports to the observers that a request ended with this refusal: for adapters to HTTP clients.
    pub fn report_refused(&self, denied: &Denied) {
        self.pacer.observers.notify(&Event::Refused { denied, hop: denied.hop() });
    }

    /// The robots.txt of an origin, fetched if needed.
    ///
    /// # Errors
    /// A robots.txt request that was deferred or lost.
    pub async fn entry(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Denied> {
        self.entry_within(origin, &origin.robots_url(), &mut self.max_wait()).await
    }

    /// Like [`entry`](Self::entry), without I/O. `None` if robots.txt is not in memory.
    pub fn cached(&self, origin: &Origin) -> Option<Arc<RobotsEntry>> {
        self.robots.cached(origin)
    }

    /// Every robots.txt in memory, in no particular order: for reports. Looks at each of them.
    pub fn entries(&self) -> Vec<Arc<RobotsEntry>> {
        self.robots.all()
    }

    /// Fetches the robots.txt files of these origins that are not in memory, as many at a time as the policy
    /// allows, and waits for them.
    pub async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {
        self.robots.prefetch(origins).await;
    }

    /// Marks the origin's robots.txt as stale, so that it is fetched before its next use. The last good copy
    /// is kept, and is used while the origin is known to fail.
    ///
    /// Other processes with the same store notice this when their own copies expire.
    pub async fn invalidate(&self, origin: &Origin) {
        self.robots.invalidate(origin).await;
    }

    /// The entry from memory, or fetched if robots.txt can get its permit within what is `left`.
    async fn entry_within(
        &self,
        origin: &Origin,
        url: &Url,
        left: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Denied> {
        match self.robots.usable(origin) {
            Some(entry) => Ok(entry),
            // Boxed, because most calls do not need it and should not carry the room for it.
            None => Box::pin(self.fetched_entry(origin, url, left)).await,
        }
    }

    async fn fetched_entry(
        &self,
        origin: &Origin,
        url: &Url,
        left: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Denied> {
        loop {
            if self.robots.cached(origin).is_none() {
                if *left < self.max_wait() {
                    self.refuse_a_long_wait(origin, url, *left)?;
                }
                // A fetch has a deadline, and so needs timers.
                if !has_timers() {
                    return Err(self.denied(DeniedKind::NoTimers, url));
                }
            }
            let refused = match self.robots.get_within(origin, left).await {
                Ok(entry) => return Ok(entry),
                Err(refused) => refused,
            };
            // The fetch waits as long as most callers do. A caller with more time tries again.
            let wait = refused.retry_at.map_or(Duration::ZERO, |time| time.since(self.clock.wall()));
            if wait.is_zero() || wait > *left {
                return Err(self.denied(refused, url));
            }
            tokio::time::sleep(wait).await;
            *left = left.saturating_sub(wait);
        }
    }

    /// Refuses at once where the fetch, which all its callers share, would wait for its permit for longer
    /// than this caller has left.
    fn refuse_a_long_wait(&self, origin: &Origin, url: &Url, left: Duration) -> Result<(), Denied> {
        // As the request itself will ask.
        let (crawl_delay, _) = file_delay(last_delay(&self.pacer, url).unwrap_or_default());
        let slot = self.pacer.next_slot(&origin.robots_url(), crawl_delay);
        let slot = slot.map_err(|refusal| self.denied(refusal, url))?;
        if slot.wait <= left {
            return Ok(());
        }
        Err(self.denied(DenialCause::deferred(DeferReason::Robots, slot.not_before.into(), None), url))
    }

    /// Acquires a permit of the host of a URL that `verdict` allows, within `left`. The wait is taken from
    /// that, also if it ends in an error.
    ///
    /// If rules expire or change during the wait, robots.txt is checked again and `verdict` is replaced.
    ///
    /// # Errors
    /// [`DeniedKind::Deferred`] at once if the wait would be too long; [`DeniedKind::CrawlDelayTooLong`]; a
    /// denial by rules that have changed during the wait.
    pub async fn acquire(
        &self,
        url: &Url,
        verdict: &mut Verdict,
        left: &mut Duration,
    ) -> Result<Permit, Denied> {
        loop {
            let delay =
                if verdict.is_robots_txt() { last_delay(&self.pacer, url) } else { verdict.crawl_delay() };
            let began = self.clock.now();
            let permit = self.pacer.acquire(url, delay.unwrap_or_default(), *left).await;
            let until_now = |_: &DenialCause| self.clock.now().saturating_duration_since(began);
            *left = left.saturating_sub(permit.as_ref().map_or_else(until_now, Permit::waited));
            let permit = permit.map_err(|refusal| self.denied(refusal, url))?;
            // After a wait the rules are checked again: they may have changed meanwhile, also those of a
            // fresh entry.
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
                    // The Crawl-delay has grown meanwhile, and the queue did not know: the permit came too
                    // early.
                    permit.give_back();
                }
                _ => {
                    permit.give_back();
                    *verdict = Box::pin(self.check(url, left)).await?;
                    if let Some(denied) = self.denial(verdict, url) {
                        return Err(denied);
                    }
                }
            }
        }
    }

    /// What a redirect that has just come asks of its next hop, for clients that follow redirects themselves.
    /// `None`: nothing.
    pub fn next_hop(&self, status: StatusCode, headers: &HeaderMap) -> Option<NextHop> {
        NextHop::of(status, headers, &*self.clock)
    }

    /// Waits until the next hop, which leads to `url`, may go out. The wait is taken from `left`. Then the
    /// URL is checked and a permit acquired, as of any other.
    ///
    /// # Errors
    /// [`DeniedKind::Deferred`] at once if the wait would be longer than `left`.
    pub async fn await_hop(&self, hop: NextHop, url: &Url, left: &mut Duration) -> Result<(), Denied> {
        let waited = hop.wait(&*self.clock, *left).await.map_err(|refusal| self.denied(refusal, url))?;
        *left = left.saturating_sub(waited);
        Ok(())
    }

    /// When the next request to the URL's host could be sent. Neither waits nor reserves.
    ///
    /// # Errors
    /// An unsupported URL.
    pub fn next_slot(&self, url: &Url) -> Result<NextSlot, Denied> {
        let origin = Origin::of(url).map_err(|_| self.denied(DeniedKind::UnsupportedUrl, url))?;
        let crawl_delay = self.robots.cached(&origin).and_then(|entry| entry.crawl_delay());
        let slot = self.pacer.next_slot(url, crawl_delay.unwrap_or_default());
        slot.map_err(|refusal| self.denied(refusal, url))
    }

    /// The name under which this gate leases hosts from its [`HostStore`](crate::pacing::HostStore), such as
    /// stands in the `holder` of the view `abide.hosts` of `abide-postgres`. `None`: it has no such store.
    pub fn holder(&self) -> Option<HolderId> {
        self.pacer.keeper.as_ref().map(|keeper| keeper.holder())
    }

    /// The host that has been free for the longest time, or else will be free first. A host without a request
    /// so far is free; of equal hosts, the first is returned.
    pub fn next_ready<'h>(&self, hosts: impl IntoIterator<Item = &'h Host>) -> Option<(&'h Host, NextSlot)> {
        self.pacer.next_ready(hosts)
    }

    /// Backs off a host, or a group of hosts by its name, until `until`, unless it is backed off for longer.
    /// Returns the end of the backoff.
    ///
    /// A time more than 27 h ahead is considered a mistake and cut to 24 h.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use abide_gate::{DeniedKind, Gate, Host, pacing::DeferReason};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let gate = abide_gate::testing::hosts::gate(Gate::builder());
    /// let url = "http://a.example/".parse()?;
    /// gate.back_off(&Host::of(&url)?, gate.wall().plus(Duration::from_secs(3_600)));
    ///
    /// let denied = gate.admit(&url, gate.max_wait()).await.unwrap_err();
    /// assert!(matches!(denied.kind(), DeniedKind::Deferred { reason: DeferReason::Backoff { .. } }));
    /// # Ok(()) }
    /// ```
    pub fn back_off(&self, host: impl AsRef<str>, until: WallMillis) -> WallMillis {
        self.pacer.back_off(&self.pacer.policy.key.of_host(host.as_ref()), until, BackoffCause::Operator)
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
        let Stats { hosts, in_flight, waiting, backed_off, refusing, .. } = self.pacer.stats();
        let overrides = self.overrides.load(Ordering::Relaxed);
        Stats { overrides, hosts, in_flight, waiting, backed_off, refusing, ..self.robots.stats() }
    }

    /// Gives up all leases in the shared store and saves the last backoffs, within `limit`. Returns whether
    /// all of that is done. Without a store there is nothing to do.
    ///
    /// Before a process ends, drop its responses, await this, and close the store, or other processes wait
    /// for its hosts until the leases end.
    pub async fn settled(&self, limit: Duration) -> bool {
        self.pacer.settled(limit).await
    }

    /// The signer of requests, if requests are signed.
    pub fn signer(&self) -> Option<&Arc<dyn SignRequest>> {
        self.signer.as_ref()
    }

    /// Whether responses are read by their status alone ([`GateBuilder::danger_trust_status`]).
    pub fn trusts_status(&self) -> bool {
        self.trusts_status
    }

    /// How long a call may wait for permits, unless it sets its own limit.
    pub fn max_wait(&self) -> Duration {
        self.pacer.policy.max_wait
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
            Err(refused) => Err(self.denied(DeniedKind::AddressRefused { address: refused.address() }, url)),
        }
    }

    /// Why `url`, whose verdict this is, is not requested. `None`: it is allowed.
    pub fn denial(&self, verdict: &Verdict, url: &Url) -> Option<Denied> {
        if verdict.is_allowed() {
            return None;
        }
        let entry = verdict.entry()?;
        let Some(cause) = entry.unreachable() else {
            return Some(self.denied(DeniedKind::Disallowed { verdict: verdict.clone() }, url));
        };
        let since = entry.failing_since().unwrap_or(entry.asked_at()).to_system_time();
        let kind = DeniedKind::Unreachable { since, cause };
        Some(self.denied(kind, url).with_retry_at(Some(entry.retry_at())))
    }

    /// The refusal of `url` for another reason than the gate has, decided now: for adapters to HTTP clients.
    #[doc(hidden)]
    pub fn deny(&self, kind: DeniedKind, url: &Url) -> Denied {
        self.denied(kind, url)
    }

    /// Every refusal is made here. It has the pacer's own reason also where a robots.txt was refused: the
    /// caller may hold an open response of the host.
    #[cold]
    pub(crate) fn denied(&self, refusal: impl Into<DenialCause>, url: &Url) -> Denied {
        Denied::by(refusal.into(), url, self.clock.wall())
    }
}

/// Exactly that path, and no query: RFC 9309 §2.2.2.
fn is_robots_txt(url: &Url) -> bool {
    url.path() == "/robots.txt" && url.query().is_none()
}

/// Whether a URL may be fetched, and why. Cheap to clone.
///
/// `Display` is one sentence, in which text of servers is escaped and cut at 200 characters.
///
/// ```
/// # use abide_gate::Verdict;
/// fn log(verdict: &Verdict) {
///     match verdict.rule() {
///         Some(rule) => println!("line {} decides: {verdict}", rule.line()),
///         None => println!("no rule covers it: {verdict}"),
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Verdict {
    /// What is known of the origin's robots.txt. `None` for `/robots.txt` itself: "The /robots.txt URI is
    /// implicitly allowed" (RFC 9309 §2.2.2).
    entry: Option<Arc<RobotsEntry>>,
    rules: Option<abide_robots::RobotsVerdict>,
    /// By robots.txt.
    is_allowed: bool,
    override_reason: Option<Arc<str>>,
}

impl Verdict {
    pub(crate) fn robots(entry: Arc<RobotsEntry>, target: &Target<'_>) -> Self {
        let rules = entry.rules.as_ref().map(|rules| rules.verdict(target));
        let is_allowed =
            rules.as_ref().map_or_else(|| entry.is_allowed(target), |verdict| verdict.is_allowed());
        Self { entry: Some(entry), rules, is_allowed, ..Self::robots_txt() }
    }

    pub(crate) fn robots_txt() -> Self {
        Self { entry: None, rules: None, is_allowed: true, override_reason: None }
    }

    /// Whether the URL may be fetched: robots.txt allows it, or its denial was overridden.
    pub fn is_allowed(&self) -> bool {
        self.override_reason.is_some() || self.is_allowed
    }

    /// The rule that decided; `None` if no rule matches the URL, or there is no robots.txt.
    pub fn rule(&self) -> Option<Record<'_>> {
        self.rules()?.rule()
    }

    /// The verdict of the rules alone: group, token, line. `None` if there is no robots.txt.
    pub fn rules(&self) -> Option<&abide_robots::RobotsVerdict> {
        self.rules.as_ref()
    }

    /// The origin's robots.txt: where it came from, its age, when it is fetched again.
    pub fn entry(&self) -> Option<&Arc<RobotsEntry>> {
        self.entry.as_ref()
    }

    /// Where the rules came from. `None` for `/robots.txt` itself.
    pub fn source(&self) -> Option<Source> {
        self.entry().map(|entry| entry.source())
    }

    /// The Crawl-delay that the site asks for.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.entry()?.crawl_delay()
    }

    /// Whether the entry that it was made from has expired.
    pub(crate) fn has_lapsed(&self, now: WallMillis) -> bool {
        self.entry().is_some_and(|entry| entry.fresh_until() <= now)
    }

    pub(crate) fn is_robots_txt(&self) -> bool {
        self.entry.is_none()
    }

    /// Why the request is sent although robots.txt denies it; `None` if robots.txt allows it.
    pub fn override_reason(&self) -> Option<&str> {
        self.override_reason.as_deref()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.override_reason {
            write!(f, "fetched against robots.txt ({why}): ")?;
        }
        let Some(entry) = &self.entry else {
            return f.write_str("allowed, because robots.txt itself always is");
        };
        f.write_str(if self.is_allowed { "allowed" } else { "disallowed" })?;
        if let Some(rules) = &self.rules {
            write_verdict(f, rules)?;
        }
        let url = entry.origin().robots_url();
        let url = Escaped(url.as_str().as_bytes());
        match entry.source() {
            Source::Fresh => write!(f, " of {url}, fetched {}", date(entry.fetched_at()))?,
            Source::Revalidated => {
                let confirmed = entry.copy().map(GoodCopy::validated_at);
                write!(f, " of {url}, fetched {}, confirmed {}", date(entry.fetched_at()), date(confirmed))?;
            }
            Source::LastGood => {
                write!(f, " of the last good copy of {url}, fetched {}", date(entry.fetched_at()))?;
                write_failure(f, entry)?;
            }
            Source::Unavailable(status) => {
                write!(f, ", because {url} is unavailable: it returned status {status}")?;
            }
            Source::TooManyRedirects => write!(f, ", because {url} is unavailable: it redirects too often")?,
            Source::LongOutage => {
                write!(f, ", because {url} counts as unavailable")?;
                write_failure(f, entry)?;
            }
            Source::Unreachable(cause) if self.is_allowed => {
                write!(f, ", because robots.txt itself always is, though {url} is unreachable: {cause}")?;
            }
            Source::Unreachable(cause) => {
                let (since, again) = (date(entry.failing_since()), date_from(entry.retry_at()));
                write!(
                    f,
                    " for now, because {url} is unreachable since {since}: {cause}; next attempt at {again}"
                )?;
            }
        }
        if entry.is_truncated() {
            f.write_str(", cut at the size limit")?;
        }
        if entry.is_not_text() {
            f.write_str(", which is an HTML page without rules")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verdict({self})")
    }
}

/// Writes which rule decided, of which group, on which line.
fn write_verdict(f: &mut fmt::Formatter<'_>, verdict: &abide_robots::RobotsVerdict) -> fmt::Result {
    match verdict.rule() {
        Some(rule) => {
            let pattern = Escaped(rule.value());
            write!(f, " by \"{}: {pattern}\" on line {}", rule.kind().name(), rule.line())?;
            match verdict.token() {
                Some(token) => write!(f, " (group {})", Escaped(token.as_bytes())),
                None => f.write_str(" (group *)"),
            }
        }
        None if verdict.is_robots_txt() => {
            f.write_str(", because robots.txt itself is exempt from the rules")
        }
        None if !verdict.rules().has_group() => f.write_str(", because no group is for the crawler"),
        None => f.write_str(", because it matches no rule"),
    }
}

/// Writes since when robots.txt has not been fetched, and why.
fn write_failure(f: &mut fmt::Formatter<'_>, entry: &RobotsEntry) -> fmt::Result {
    match (entry.failing_since(), entry.failure()) {
        (Some(since), Some(cause)) => write!(f, ", unreachable since {}: {cause}", date(Some(since))),
        (Some(since), None) => write!(f, ", unreachable since {}", date(Some(since))),
        (None, Some(cause)) => write!(f, ", because {cause}"),
        (None, None) => Ok(()),
    }
}

/// A time for people, as in HTTP fields.
pub(crate) fn date(time: Option<WallMillis>) -> String {
    // The last second that an HTTP date can show.
    const LAST: WallMillis = WallMillis::from_millis(253_402_300_799_000);
    time.map_or("just now".to_owned(), |time| fmt_http_date(time.min(LAST).to_system_time()))
}

/// The first second that is not before `time`, so that it is never too early.
pub(crate) fn date_from(time: WallMillis) -> String {
    date(Some(time.plus(Duration::from_millis(999))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_late_to_be_shown_or_shown_too_early() {
        assert_eq!(date(Some(WallMillis::from_millis(u64::MAX))), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(date_from(WallMillis::from_millis(0)), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date_from(WallMillis::from_millis(1)), "Thu, 01 Jan 1970 00:00:01 GMT", "nor too early");
    }
}
