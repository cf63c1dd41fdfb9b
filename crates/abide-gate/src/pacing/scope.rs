//! Scopes: what else requests are grouped by, beside the host.
//!
//! Some sites are one machine behind many names, and some operators ask for one limit for all of theirs. A group has a schedule like a host,
//! filed under its key, which begins with the kind of the group and a slash so that no host can have it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::policy::{DELAY_MAX, PacePolicy};
use super::schedule::Terms;

/// A group of hosts with a rate limit of its own, in addition to that of each host.
///
/// A request waits until its host and all its scopes permit it. Each scope has its own delay and its own limit of requests in flight.
/// Crawl-delay and backoffs apply to the host only, unless a scope has [feedback](Scope::with_feedback).
///
/// ```
/// # use std::time::Duration;
/// # use abide_gate::pacing::{PacePolicy, Scope};
/// // The shops of one provider, on one machine: at most two requests in flight to all of them together.
/// let shops = Scope::custom(|url| url.host_str()?.ends_with(".shops.example").then(|| "shops".to_owned()));
/// let policy = PacePolicy::default().with_scope(shops.with_max_in_flight(2).with_delay(Duration::from_millis(200)));
/// assert_eq!(policy.scopes().len(), 1);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Scope {
    /// The kind of the group, with which its keys begin.
    kind: &'static str,
    key: Arc<KeyOf>,
    pub(crate) terms: Terms,
    pub(crate) feedback: bool,
}

/// The group of a request.
type KeyOf = dyn Fn(&Url) -> Option<String> + Send + Sync;

impl Scope {
    /// Groups by registrable domain (`example.co.uk` for `www.example.co.uk`), by the Public Suffix List that is compiled in. Addresses and
    /// names without a suffix belong to no group.
    #[cfg(feature = "psl")]
    pub fn registrable_domain() -> Self {
        Self::new("domain", |url| match url.host()? {
            url::Host::Domain(name) => {
                psl::domain_str(name.strip_suffix('.').unwrap_or(name)).map(str::to_owned)
            }
            _ => None,
        })
    }

    /// Groups by a key of your own; a request with `None` belongs to no group. If the function panics, the URL is refused.
    pub fn custom(key: impl Fn(&Url) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::new("custom", key)
    }

    fn new(kind: &'static str, key: impl Fn(&Url) -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            kind,
            key: Arc::new(key),
            terms: Terms { delay: PacePolicy::DELAY, limit: 1 },
            feedback: false,
        }
    }

    /// Least time between the end of a response and the start of the next request in this scope. Default 1 s, at most 24 h.
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.terms.delay = delay.min(DELAY_MAX);
        self
    }

    /// Most requests in flight in this scope, at least 1. Default 1. The limit of each host stays what it is.
    pub fn with_max_in_flight(mut self, max: u16) -> Self {
        self.terms.limit = max.max(1);
        self
    }

    /// Applies Crawl-delay, backoffs and the circuit breaker of a host to the whole scope.
    pub fn with_feedback(self) -> Self {
        Self { feedback: true, ..self }
    }

    /// The key of this request. May run user code.
    pub(crate) fn key(&self, url: &Url) -> Option<String> {
        Some(format!("{}/{}", self.kind, (self.key)(url)?))
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({}, {:?}, feedback: {})", self.kind, self.terms, self.feedback)
    }
}

#[cfg(all(test, feature = "psl"))]
mod tests {
    use super::*;

    #[test]
    fn registrable_domains() {
        for (url, expected) in [
            ("http://www.example.co.uk/", Some("domain/example.co.uk")),
            ("http://example.com./", Some("domain/example.com")),
            ("http://a.b.example.com:81/", Some("domain/example.com")),
            ("http://co.uk/", None),
            ("http://127.0.0.1/", None),
            ("http://[::1]/", None),
        ] {
            let key = Scope::registrable_domain().key(&url.parse().unwrap());
            assert_eq!(key.as_deref(), expected, "{url}");
        }
    }
}
