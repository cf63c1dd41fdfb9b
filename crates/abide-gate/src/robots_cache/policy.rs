//! The choices that RFC 9309 leaves to the crawler, with their bounds.
//!
//! Each default has its value and its reason here, once. Setters clamp, so that no setting goes below a limit
//! that the RFC names.

use std::time::Duration;

/// How robots.txt is fetched and cached: the choices that RFC 9309 §2.3–2.5 leaves to the crawler.
///
/// The default follows the RFC, and is polite where the RFC leaves a choice. Options that make a crawler less
/// polite begin with `danger_`.
///
/// ```
/// # use std::time::Duration;
/// # use abide_gate::robots_cache::RobotsPolicy;
/// let policy = RobotsPolicy::cautious().with_deadline(Duration::from_secs(10));
/// assert_eq!(policy.deadline(), Duration::from_secs(10));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct RobotsPolicy {
    pub(crate) refusals_are_unreachable: bool,
    pub(crate) redirects_max: usize,
    pub(crate) follow_downgrade: bool,
    pub(crate) html_is_unreachable: bool,
    /// A challenge in place of the file is read as its status says. Set by the gate.
    pub(crate) trusts_status: bool,
    pub(crate) long_outage: LongOutage,
    pub(crate) lifetime_min: Duration,
    pub(crate) lifetime_max: Duration,
    pub(crate) redirects_lifetime: Duration,
    pub(crate) retry_first: Duration,
    pub(crate) retry_max: Duration,
    pub(crate) body_limit: usize,
    pub(crate) deadline: Duration,
    /// How long a fetch may wait for a place among those on the wire, and then a `Fetch` before its request
    /// is sent.
    pub(crate) slot_wait_max: Duration,
    pub(crate) fetches_max: usize,
    pub(crate) store_timeout: Duration,
    pub(crate) memory_max: u64,
}

/// What a host without a copy becomes when it has been unreachable for long (RFC 9309 §2.3.1.4, last
/// paragraph).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LongOutage {
    /// After 30 days and 20 counted attempts: unavailable, so everything is allowed.
    #[default]
    Unavailable,
    /// Stricter: everything stays disallowed, however long it takes.
    Disallow,
    /// Lenient: everything is allowed from the first failure on. Set by
    /// [`RobotsPolicy::danger_allow_when_unreachable`].
    AllowAtOnce,
}

/// §2.5: the parsing limit MUST be at least 500 kibibytes.
pub(crate) const BODY_LIMIT_MIN: usize = 500 * 1024;
/// The largest limit that can be set, and so the largest body that a stored record may hold.
pub(crate) const BODY_LIMIT_MAX: usize = 16 * 1024 * 1024;
/// §2.4: a cached version SHOULD NOT be used for more than 24 hours.
pub(crate) const LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// For a million hosts: known hosts that are forgotten are asked for robots.txt again, which is impolite, not
/// only slow. Weighed as if no two had the same file; where a quarter are distinct, a million take 0.9 GB.
const MEMORY_MAX: u64 = 2 << 30;
/// §2.3.1.2: at least five redirects are followed.
pub(crate) const REDIRECTS_MIN: usize = 5;
/// More than any honest chain needs; browsers stop at 20.
const REDIRECTS_MAX: usize = 20;

impl Default for RobotsPolicy {
    fn default() -> Self {
        Self {
            refusals_are_unreachable: false,
            redirects_max: REDIRECTS_MIN,
            follow_downgrade: false,
            html_is_unreachable: false,
            trusts_status: false,
            long_outage: LongOutage::Unavailable,
            // Or `max-age=0` would mean a fetch of robots.txt with every page.
            lifetime_min: Duration::from_secs(5 * 60),
            lifetime_max: LIFETIME_MAX,
            // As `retry_max`, and not the day of a 4xx: the redirects may lead to rules all the same.
            redirects_lifetime: Duration::from_secs(60 * 60),
            retry_first: Duration::from_secs(60),
            retry_max: Duration::from_secs(60 * 60),
            body_limit: BODY_LIMIT_MIN,
            // One for all, because each byte of a slow server renews a timeout per read.
            deadline: Duration::from_secs(30),
            // The gate sets it to the longest wait that its pacer grants.
            slot_wait_max: Duration::from_secs(60),
            // Each takes a socket, and few more can be open where a process may have 1,024 files, as by
            // default.
            fetches_max: 512,
            store_timeout: Duration::from_secs(2),
            memory_max: MEMORY_MAX,
        }
    }
}

impl RobotsPolicy {
    /// The preset for those who would rather fetch too little:
    /// [`with_forbidden_unreachable`](Self::with_forbidden_unreachable).
    pub fn cautious() -> Self {
        Self::default().with_forbidden_unreachable()
    }

    /// Stricter than the RFC asks: 401, 403, 407, 408, 421, 425, and any 4xx that asks to wait, such as 429,
    /// are unreachable instead of unavailable.
    pub fn with_forbidden_unreachable(self) -> Self {
        Self { refusals_are_unreachable: true, ..self }
    }

    /// How many redirects of a robots.txt are followed, between 5 (the default) and 20. With more, it counts
    /// as unavailable.
    pub fn with_redirects_max(self, hops: usize) -> Self {
        // §2.3.1.2 SHOULD follow five: with fewer, rules that exist would count as unavailable.
        Self { redirects_max: hops.clamp(REDIRECTS_MIN, REDIRECTS_MAX), ..self }
    }

    /// Whether a redirect from https to http is followed. Off by default.
    ///
    /// Lenient: rules that are fetched without TLS can be changed on the way.
    pub fn with_downgrade(self, follow: bool) -> Self {
        Self { follow_downgrade: follow, ..self }
    }

    /// Stricter: a 2xx HTML document without one rule line is unreachable, because challenge and error pages
    /// are often sent with status 200. Without it such a document is a robots.txt without rules (RFC 9309
    /// §2.3.1.5).
    pub fn with_html_unreachable(self) -> Self {
        Self { html_is_unreachable: true, ..self }
    }

    /// Keeps everything disallowed even if robots.txt has been unreachable for 30 days.
    pub fn with_lasting_disallow(self) -> Self {
        Self { long_outage: LongOutage::Disallow, ..self }
    }

    /// Allows everything on a host whose robots.txt can't be fetched, if there is no last good copy.
    ///
    /// Against RFC 9309 §2.3.1.4: "the crawler MUST assume complete disallow".
    pub fn danger_allow_when_unreachable(self) -> Self {
        Self { long_outage: LongOutage::AllowAtOnce, ..self }
    }

    /// How long a robots.txt is used: at least `shortest`, whatever `Cache-Control` says, and at most
    /// `longest`, which is never more than 24 hours. Default: 5 minutes and 24 hours. A result is used for
    /// three of the host's delays at least, so that a page can follow it.
    pub fn with_lifetimes(mut self, shortest: Duration, longest: Duration) -> Self {
        // The longest first, and the shortest gives way to it: only the longest is a limit of the RFC.
        self.lifetime_max = longest.clamp(Duration::from_secs(1), LIFETIME_MAX);
        self.lifetime_min = shortest.clamp(Duration::from_secs(1), self.lifetime_max);
        self
    }

    /// When an unreachable robots.txt is fetched again: after `first`, doubling to `longest`, ±10 %. Default:
    /// 1 minute, 1 hour. `first` is at least one second, `longest` at most 24 hours.
    pub fn with_retry(mut self, first: Duration, longest: Duration) -> Self {
        // The longest first: the schedule ends at it, and `first` gives way.
        self.retry_max = longest.clamp(Duration::from_secs(1), LIFETIME_MAX);
        self.retry_first = first.clamp(Duration::from_secs(1), self.retry_max);
        self
    }

    /// How many decoded bytes of a robots.txt are read, between 500 KiB (RFC 9309 §2.5, the default) and 16
    /// MiB.
    pub fn with_body_limit(self, bytes: usize) -> Self {
        Self { body_limit: bytes.clamp(BODY_LIMIT_MIN, BODY_LIMIT_MAX), ..self }
    }

    /// How long one robots.txt may take on the wire, over all redirects, without waits for permits. Default:
    /// 30 seconds.
    pub fn with_deadline(self, deadline: Duration) -> Self {
        // A deadline of zero would make every site unreachable.
        Self { deadline: deadline.clamp(Duration::from_millis(1), Duration::from_secs(60 * 60)), ..self }
    }

    /// The time for all hops of one robots.txt on the wire.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// How many robots.txt a process fetches at a time, at least one; others queue in order. Default: 512.
    /// Each takes a socket. Where half of these places are taken, the next fetches have less time than
    /// [`with_deadline`](Self::with_deadline) says, but 5 seconds at least, so that slow origins do not keep
    /// others waiting. Only 64 bodies of more than 16 KiB are read at a time.
    pub fn with_fetches_max(self, fetches: usize) -> Self {
        // With none, no fetch would ever begin. A process has no more ports to one address.
        Self { fetches_max: fetches.clamp(1, 65_536), ..self }
    }

    /// How long an operation of the store may take before it counts as failed. Default: 2 seconds.
    pub fn with_store_timeout(self, timeout: Duration) -> Self {
        Self { store_timeout: timeout.clamp(Duration::from_millis(1), Duration::from_secs(60)), ..self }
    }

    /// How much memory a process uses for robots.txt, at least 4 MiB. Default: 2 GiB, enough for a million
    /// hosts with files of some hundred bytes.
    ///
    /// Beyond this, the robots.txt of a host that was not used for long is dropped, and loaded from the store
    /// or fetched when it is needed. Copies that verdicts and responses hold do not count. A file that
    /// several hosts share is kept once, and counts for each of them.
    pub fn with_memory_max(self, bytes: u64) -> Self {
        Self { memory_max: bytes.max(4 * 1024 * 1024), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_rfc_cannot_be_undercut() {
        let limits = |policy: RobotsPolicy| {
            (policy.body_limit, policy.redirects_max, policy.lifetime_min, policy.lifetime_max)
        };
        let (s, policy) =
            (Duration::from_secs, RobotsPolicy::default().with_body_limit(10).with_redirects_max(0));
        let set = policy.clone().with_lifetimes(Duration::ZERO, s(90 * 24 * 60 * 60));
        assert_eq!(limits(set), (512_000, 5, s(1), s(86_400)));
        assert_eq!(limits(policy.with_lifetimes(s(90), s(60))), (512_000, 5, s(60), s(60)));
    }

    #[test]
    fn each_setting_is_kept_within_its_bounds_and_changes_no_other() {
        let s = Duration::from_secs;
        let base = RobotsPolicy::cautious();
        let set = base
            .clone()
            .with_redirects_max(9)
            .with_retry(Duration::ZERO, s(999_999))
            .with_body_limit(usize::MAX)
            .with_deadline(s(9_999))
            .with_fetches_max(0)
            .with_store_timeout(s(999))
            .with_memory_max(1);
        assert_eq!((set.redirects_max, set.body_limit, set.fetches_max), (9, 16 * 1024 * 1024, 1));
        assert_eq!((set.retry_first, set.retry_max), (s(1), s(86_400)));
        assert_eq!((set.deadline(), set.store_timeout), (s(3_600), s(60)));
        assert_eq!(set.memory_max, 4_194_304);
        assert!(
            set.refusals_are_unreachable && set.lifetime_min == base.lifetime_min && !set.html_is_unreachable
        );
        assert_eq!(base.with_store_timeout(Duration::ZERO).store_timeout, Duration::from_millis(1));
    }
}
