//! Options of one request.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::Origin;

use crate::redirect::RedirectPolicy;
use crate::scan::Scan;

/// Options of one request. What they leave open is as the crawler's builder says.
///
/// With `abide` they are set through `RequestBuilderExt::abide`, with `abide-tower` in the request's extensions.
///
/// ```
/// use std::time::Duration;
/// use abide_http::{Options, RedirectPolicy};
///
/// let patient = Options::new().with_max_wait(Duration::from_secs(300));
/// let manual = Options::new().with_redirects(RedirectPolicy::never());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(crate) max_wait: Option<Duration>,
    pub(crate) scan: Option<Scan>,
    pub(crate) redirects: Option<RedirectPolicy>,
    pub(crate) ignore_robots: Option<(Origin, Arc<str>)>,
}

impl Options {
    /// The crawler's own settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long this call may wait for permits, all hops together. A longer wait is deferred at once.
    #[must_use]
    pub fn with_max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Some(wait);
        self
    }

    /// How the permissions of this response are read.
    #[must_use]
    pub fn with_scan(mut self, scan: Scan) -> Self {
        self.scan = Some(scan);
        self
    }

    /// How redirects of this request are followed. `abide-tower` follows none.
    #[must_use]
    pub fn with_redirects(mut self, policy: RedirectPolicy) -> Self {
        self.redirects = Some(policy);
        self
    }

    /// Sends requests to `origin` whatever its robots.txt says, for the reason given, for instance on your own site.
    ///
    /// Logged and counted; the verdict names the reason. Other origins are checked as always, also when a redirect leads there, and the
    /// rate limit stays.
    #[must_use]
    pub fn danger_ignore_robots(mut self, origin: Origin, why: &str) -> Self {
        self.ignore_robots = Some((origin, why.into()));
        self
    }

    /// These, and those of `others` that are left open here.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            max_wait: self.max_wait.or(others.max_wait),
            scan: self.scan.or(others.scan),
            redirects: self.redirects.or(others.redirects),
            ignore_robots: self.ignore_robots.or(others.ignore_robots),
        }
    }
}
