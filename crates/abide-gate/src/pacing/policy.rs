//! The policy: how considerate the pacer is.
//!
//! Every default is the polite choice and has its value here, once. A setting that makes the crawler less
//! polite begins with `danger_`, and is reported when the pacer is built, so that it is never taken by
//! accident.

use std::collections::HashMap;
use std::time::Duration;

use super::host::Terms;
use super::key::PacingKey;
use crate::Host;

/// The rate limit of hosts. The default is the polite choice.
///
/// | | default |
/// | --- | --- |
/// | in flight per host | 1, until the body ends or is dropped |
/// | delay, from the end of a response to the next request | 1 s, or the site's Crawl-delay if larger |
/// | longest wait inside a call | 30 s |
///
/// Options that make the crawler less polite begin with `danger_`. With more than one request in flight per
/// host, the delay is kept between the starts of requests, so that the server can see shorter delays.
///
/// ```
/// # use std::time::Duration;
/// # use abide_gate::pacing::PacePolicy;
/// let policy = PacePolicy::default().with_delay(Duration::from_secs(2)).with_delay(Duration::from_millis(10));
/// assert_eq!(policy.min_delay(), Duration::from_secs(2), "delay only raises");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PacePolicy {
    terms: Terms,
    hosts: HashMap<Host, HostPace>,
    pub(crate) key: PacingKey,
    pub(crate) max_wait: Duration,
    pub(crate) adaptive: bool,
    pub(crate) backoff_on_forbidden: bool,
    pub(crate) refusals_max: u32,
    /// Set by the gate.
    pub(crate) trusts_status: bool,
    pub(crate) max_hosts: usize,
    pub(crate) shared: Sharing,
}

/// The longest delay that is honoured: 24 h.
pub const DELAY_MAX: Duration = Duration::from_secs(86_400);

/// The longest delay of a site that is also kept before its robots.txt: 8 h, so that it, a page and what the
/// page waits for besides fit into a day. At a longer one robots.txt keeps our own delay, and the pages go on
/// counting from the page before.
pub const FILE_DELAY_MAX: Duration = Duration::from_secs(8 * 3_600);

/// What a site of one's own can bear: the delay, and how many requests in flight.
const OWN_SITE: (Duration, u16) = (Duration::from_millis(100), 4);

/// Bounds of the life of a lease.
const LEASE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(3_600));

/// A million hosts take 150 MB to 250 MB.
const MAX_HOSTS: usize = 1_000_000;

impl Default for PacePolicy {
    fn default() -> Self {
        Self {
            terms: Terms { delay: Self::DELAY, limit: 1 },
            hosts: HashMap::new(),
            key: PacingKey::host(),
            max_wait: Self::MAX_WAIT,
            adaptive: false,
            backoff_on_forbidden: false,
            refusals_max: Self::REFUSALS_MAX,
            trusts_status: false,
            max_hosts: MAX_HOSTS,
            shared: Sharing {
                on_outage: OnStoreOutage::Defer,
                timeout: Duration::from_secs(1),
                lease: Duration::from_secs(7),
            },
        }
    }
}

impl PacePolicy {
    /// The default delay between the end of a response and the next request to the host: 1 s, the least that
    /// crawlers agree on.
    pub const DELAY: Duration = Duration::from_secs(1);

    /// The default of how long a call waits for permits: 30 s, as long as people and load balancers wait for
    /// a page.
    pub const MAX_WAIT: Duration = Duration::from_secs(30);

    /// The default of how many refusals in a row hold a host: 25, as many as a site may have removed or
    /// closed beside each other.
    pub const REFUSALS_MAX: u32 = 25;

    /// For long crawls that sites should not notice: 3 s, or five times as long as the site takes to respond,
    /// up to 30 s.
    pub fn archive() -> Self {
        Self::default().with_delay(Duration::from_secs(3)).with_adaptive_delay()
    }

    /// Sets the least time between the end of a response and the next request to the host. Never lowers the
    /// delay; at most 24 h.
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.terms.delay = self.terms.delay.max(delay).min(DELAY_MAX);
        self
    }

    /// Sets the delay, also below 1 s. A site's longer Crawl-delay still applies.
    pub fn danger_min_delay(mut self, delay: Duration) -> Self {
        self.terms.delay = delay.min(DELAY_MAX);
        self
    }

    /// Allows more than one request in flight per host.
    pub fn danger_max_in_flight(mut self, max: u16) -> Self {
        self.terms.limit = max.max(1);
        self
    }

    /// How long a call may wait for permits, unless the call sets its own limit. Default 30 s.
    pub fn with_max_wait(self, wait: Duration) -> Self {
        Self { max_wait: wait, ..self }
    }

    /// Sets the delay of one host. Never lowers it; at most 24 h.
    pub fn with_host_delay(mut self, host: Host, delay: Duration) -> Self {
        let pace = self.hosts.entry(host).or_default();
        pace.at_least = pace.at_least.max(delay.min(DELAY_MAX));
        self
    }

    /// Sets the delay of one host, also below 1 s, and how many requests may be in flight, at least 1.
    pub fn danger_host(mut self, host: Host, delay: Duration, max_in_flight: u16) -> Self {
        let pace = self.hosts.entry(host).or_default();
        pace.terms = Some(Terms { delay: delay.min(DELAY_MAX), limit: max_in_flight.max(1) });
        pace.at_least = Duration::ZERO;
        self
    }

    /// Hosts that are your own: 100 ms, and four requests in flight. Their Crawl-delay and backoffs still
    /// apply.
    pub fn with_own_sites(self, hosts: impl IntoIterator<Item = Host>) -> Self {
        hosts.into_iter().fold(self, |policy, host| policy.danger_host(host, OWN_SITE.0, OWN_SITE.1))
    }

    /// Excludes hosts from leases: each process that shares the store rate-limits them alone, with its own
    /// backoffs. For sites of your own that several processes crawl at once.
    pub fn danger_unleased(mut self, hosts: impl IntoIterator<Item = Host>) -> Self {
        for host in hosts {
            self.hosts.entry(host).or_default().is_unleased = true;
        }
        self
    }

    /// Sets which requests are paced together: [`PacingKey`]. Default: those to one host.
    ///
    /// A limit on all requests together is a semaphore of your own around the calls.
    pub fn with_key(self, key: PacingKey) -> Self {
        Self { key, ..self }
    }

    /// Makes the delay follow the site: five times the time to its last response head, never below the
    /// configured delay, at most 30 s. Only 2xx responses shorten it, because errors are often quick.
    pub fn with_adaptive_delay(self) -> Self {
        Self { adaptive: true, ..self }
    }

    /// Backs the host off after a 403, as after a 429, because some sites throttle with it.
    pub fn with_backoff_on_forbidden(self) -> Self {
        Self { backoff_on_forbidden: true, ..self }
    }

    /// How many refusals in a row hold a host for an hour, doubling to a day: 401, 403, 405, 406 and 410,
    /// with nothing else in between. Default 25; from 1 to 10,000. Five that are [recognised](crate::Refusal)
    /// as those of a gatekeeper are enough, or fewer if this is less.
    pub fn with_refusals_max(self, max: u32) -> Self {
        Self { refusals_max: max.clamp(1, 10_000), ..self }
    }

    /// How many hosts are kept in memory. Default 1,000,000, 150 MB to 250 MB. A host with a delay or backoff
    /// that has not ended is never dropped, even if the table grows beyond this.
    pub fn with_hosts_max(self, max: usize) -> Self {
        Self { max_hosts: max.max(1), ..self }
    }

    /// What is sent while the shared store is away. Default: nothing to hosts that this process has not
    /// leased ([`OnStoreOutage::Defer`]).
    pub fn with_store_outage(mut self, on_outage: OnStoreOutage) -> Self {
        self.shared.on_outage = on_outage;
        self
    }

    /// How long the shared store may take for one command. Default 1 s; from 1 ms to 60 s. A call may exceed
    /// its wait by this time.
    pub fn with_store_timeout(mut self, timeout: Duration) -> Self {
        self.shared.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(60));
        self
    }

    /// How long a lease of a host lasts. It is renewed after half of that. If a process dies, others send to
    /// its hosts after this time and one delay. Default 7 s; from 250 ms to one hour.
    pub fn with_lease(mut self, ttl: Duration) -> Self {
        self.shared.lease = ttl.clamp(LEASE.0, LEASE.1);
        self
    }

    /// The delay of hosts without a setting of their own.
    pub fn min_delay(&self) -> Duration {
        self.terms.delay
    }

    pub(crate) fn terms_of(&self, host: &str) -> Terms {
        // Most policies name no host, and an empty map hashes nothing.
        self.hosts.get(host).map_or(self.terms, |own| own.terms.unwrap_or(self.terms).at_least(own.at_least))
    }

    /// A host of the operator's own may be left out, unless it is paced with others.
    pub(crate) fn is_leased(&self, key: &str) -> bool {
        self.hosts.get(key).is_none_or(|own| !own.is_unleased)
    }

    /// What should be said once in the log, since it differs from the polite default.
    pub(crate) fn exceptions(&self) -> impl Iterator<Item = (&str, Terms)> {
        let is_less_polite = self.terms.delay < Self::DELAY || self.terms.limit > 1;
        let all = is_less_polite.then_some(("every host", self.terms));
        all.into_iter().chain(self.hosts.keys().map(|host| (host.as_str(), self.terms_of(host.as_str()))))
    }
}

/// What a process sends while the shared store does not respond.
///
/// ```
/// # use abide_gate::pacing::{OnStoreOutage, PacePolicy};
/// // Eight processes would rather crawl unevenly than pause.
/// let policy = PacePolicy::default().with_store_outage(OnStoreOutage::Continue { workers: 8 });
/// # let _ = policy;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStoreOutage {
    /// Requests go on to the hosts that it has leased, by local limits, and to no others, unless the store is
    /// not [shared](super::HostStore::is_shared): those are deferred
    /// ([`DeferReason::Store`](super::DeferReason::Store)). Of several processes one at most sends to a host.
    #[default]
    Defer,
    /// Requests also go to hosts that no process was known to have leased, with a delay that is as many times
    /// as long as there are processes, from a random start on. A site gets no more requests than promised,
    /// but of several processes some come too early after each other.
    Continue {
        /// How many processes share the store, at least 1.
        workers: u32,
    },
    /// Nothing goes out without a lease that has not ended.
    FailClosed,
}

/// What is done about the shared store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    pub(crate) on_outage: OnStoreOutage,
    pub(crate) timeout: Duration,
    pub(crate) lease: Duration,
}

/// What is set for one host. The rest is as for all hosts, in whatever order they are set.
#[derive(Clone, Copy, Debug, Default)]
struct HostPace {
    terms: Option<Terms>,
    at_least: Duration,
    is_unleased: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_one_host_changes_nothing_else_of_it() {
        let [slow, own, alone] = ["slow.example", "own.example", "alone.example"]
            .map(|name| Host::of(&format!("http://{name}/").parse().unwrap()).unwrap());
        let seconds = Duration::from_secs;
        let all = |policy: PacePolicy| policy.with_delay(seconds(10)).danger_max_in_flight(2);
        let single = |policy: PacePolicy| {
            let policy = policy.with_host_delay(slow.clone(), seconds(5)).danger_unleased([alone.clone()]);
            policy.with_own_sites([own.clone()])
        };
        for policy in [single(all(PacePolicy::default())), all(single(PacePolicy::default()))] {
            let pace = |host| (policy.terms_of(host), policy.is_leased(host));
            let terms = |delay, limit| Terms { delay, limit };
            assert_eq!(pace("slow.example"), (terms(seconds(10), 2), true), "never lowered");
            assert_eq!(pace("alone.example"), (terms(seconds(10), 2), false));
            assert_eq!(pace("own.example"), (terms(OWN_SITE.0, OWN_SITE.1), true));
        }
    }

    #[test]
    fn a_lease_lasts_from_250_ms_to_one_hour_and_a_command_60_s_at_most() {
        let policy = PacePolicy::default().with_store_timeout(Duration::MAX);
        assert_eq!(policy.shared.timeout, Duration::from_secs(60));
        for (asked, lives) in
            [(0, 250), (249, 250), (60_000, 60_000), (3_600_001, 3_600_000), (u64::MAX, 3_600_000)]
        {
            let policy = PacePolicy::default().with_lease(Duration::from_millis(asked));
            assert_eq!(policy.shared.lease, Duration::from_millis(lives));
        }
    }
}
