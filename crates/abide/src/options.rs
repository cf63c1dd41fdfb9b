//! What can be asked for one request, or set for all.

use std::sync::Arc;
use std::time::Duration;

use abide_visit::Scan;

/// Options of one request, set through [`RequestBuilderExt::abide`](crate::RequestBuilderExt::abide).
///
/// ```
/// # use abide::Options;
/// # use std::time::Duration;
/// let patient = Options::new().with_max_wait(Duration::from_secs(300));
/// let manual = Options::new().with_redirects(false);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(crate) max_wait: Option<Duration>,
    pub(crate) scan: Option<Scan>,
    pub(crate) redirects: Option<bool>,
    pub(crate) ignore_robots: Option<Arc<str>>,
}

impl Options {
    /// Nothing changed: the client's own settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long this call may wait for its turns, all hops together. Longer waits are deferred at once.
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

    /// Whether redirects are followed. When not, the 3xx is the answer.
    #[must_use]
    pub fn with_redirects(mut self, follow: bool) -> Self {
        self.redirects = Some(follow);
        self
    }

    /// Asks for this URL whatever robots.txt says, for the reason given, for instance on your own site.
    ///
    /// It is logged and counted, shows in the verdict as an override, holds for the first hop's origin only, and never
    /// switches off pacing.
    #[must_use]
    pub fn danger_ignore_robots(mut self, why: &str) -> Self {
        self.ignore_robots = Some(why.into());
        self
    }
}

/// abide's options on a request of `reqwest-middleware`.
pub trait RequestBuilderExt: sealed::Sealed {
    /// Sets the options of this request.
    #[must_use]
    fn abide(self, options: Options) -> Self;
}

impl RequestBuilderExt for reqwest_middleware::RequestBuilder {
    fn abide(self, options: Options) -> Self {
        self.with_extension(options)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::RequestBuilder {}
}
