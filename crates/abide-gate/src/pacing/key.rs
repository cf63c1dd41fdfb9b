//! The pacing key of a request: which requests share a delay.
//!
//! Some sites are one machine behind many names. With a wider key than the host they are paced as one, and
//! everything that is known of a host then belongs to the key.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use url::Url;

use crate::denied::DenialCause;
use crate::origin::pacing_key_of;
use crate::{DeniedKind, caught};

/// Which requests are paced together. Each request has one key, and all that belongs to pacing belongs to the
/// key: the delay, the limit of requests in flight, the Crawl-delay of the origin that is asked, backoffs,
/// the circuit breaker, RateLimit fields, and the lease.
///
/// A group of hosts is stricter than its hosts: what one of them asks for counts for all.
///
/// ```
/// # use abide_gate::pacing::{PacePolicy, PacingKey};
/// // The shops of one provider are one machine.
/// let shops = PacingKey::custom(|url| url.host_str()?.ends_with(".shops.example").then(|| "shops".to_owned()));
/// let policy = PacePolicy::default().with_key(shops);
/// # let _ = policy;
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct PacingKey(Option<Arc<KeyOf>>);

/// The key of a URL. `None`: its host.
type KeyOf = dyn Fn(&Url) -> Option<String> + Send + Sync;

impl PacingKey {
    /// The host, which is the default: http, https and all ports of a name share one key.
    pub fn host() -> Self {
        Self(None)
    }

    /// The registrable domain (`example.co.uk` for `www.example.co.uk`), by the Public Suffix List that is
    /// compiled in. Addresses and names without a suffix are paced by host.
    #[cfg(feature = "psl")]
    pub fn registrable_domain() -> Self {
        Self::custom(|url| match url.host()? {
            url::Host::Domain(name) => {
                psl::domain_str(name.strip_suffix('.').unwrap_or(name)).map(str::to_owned)
            }
            _ => None,
        })
    }

    /// A key of your own. A request with `None` is paced by its host. If the function panics, the URL is
    /// refused.
    ///
    /// Let it depend on the host of the URL alone: robots.txt is paced by the key of its own URL, and a host
    /// that is reported or backed off by that of its root.
    pub fn custom(key: impl Fn(&Url) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(key)))
    }

    /// The key of this request. Runs the user's code.
    pub(crate) fn of<'u>(&self, url: &'u Url) -> Result<Cow<'u, str>, DenialCause> {
        let host = pacing_key_of(url).ok_or(DeniedKind::UnsupportedUrl)?;
        let Some(key) = &self.0 else { return Ok(host) };
        let key = caught(|| key(url)).ok_or(DeniedKind::Panicked { callback: "pacing key" })?;
        Ok(key.map_or(host, Cow::Owned))
    }

    /// The key of a host, or of a group by its own name.
    pub(crate) fn of_host<'h>(&self, host: &'h str) -> Cow<'h, str> {
        let url = self.0.as_ref().and_then(|_| Url::parse(&format!("http://{host}/")).ok());
        let key = url.and_then(|url| self.of(&url).ok().map(Cow::into_owned));
        key.map_or(Cow::Borrowed(host), Cow::Owned)
    }
}

impl fmt::Debug for PacingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "PacingKey(custom)" } else { "PacingKey(host)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "psl")]
    fn a_name_without_a_registrable_domain_is_its_own_key() {
        for (url, expected) in [
            ("http://www.example.co.uk/", "example.co.uk"),
            ("http://example.com./", "example.com"),
            ("http://a.b.example.com:81/", "example.com"),
            ("http://co.uk/", "co.uk"),
            ("http://127.0.0.1/", "127.0.0.1"),
            ("http://[::1]/", "[::1]"),
        ] {
            assert_eq!(PacingKey::registrable_domain().of(&url.parse().unwrap()).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn a_host_and_the_name_of_its_group_lead_to_the_same_key() {
        let shops = PacingKey::custom(|url| url.host_str()?.contains("shop").then(|| "shops".to_owned()));
        for (host, key) in [("a-shop.example", "shops"), ("shops", "shops"), ("b.example", "b.example")] {
            assert_eq!(shops.of_host(host), key);
        }
        assert_eq!(PacingKey::host().of_host("a.example"), "a.example");
    }
}
