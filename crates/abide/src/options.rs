//! What can be asked for one request, or set for all.

use std::sync::Arc;
use std::time::Duration;

use abide_http::Scan;

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

impl Options {
    /// These, and those of `others` that are left open here.
    fn or(self, others: Self) -> Self {
        Self {
            max_wait: self.max_wait.or(others.max_wait),
            scan: self.scan.or(others.scan),
            redirects: self.redirects.or(others.redirects),
            ignore_robots: self.ignore_robots.or(others.ignore_robots),
        }
    }
}

/// abide's options on a request of `reqwest-middleware`.
pub trait RequestBuilderExt: sealed::Sealed {
    /// Sets options of this request. What they leave open stays as it was: as set by an earlier call, or for all requests of the
    /// client, with `ClientBuilder::with_init(Extension(options))`.
    ///
    /// No `with_init` runs for a request that goes through `ClientWithMiddleware::execute`, or through the client as a service: such
    /// a request has the defaults, or what `execute_with_extensions` gives it.
    #[must_use]
    fn abide(self, options: Options) -> Self;
}

impl RequestBuilderExt for reqwest_middleware::RequestBuilder {
    fn abide(mut self, options: Options) -> Self {
        let set = self.extensions().get::<Options>().cloned().unwrap_or_default();
        self.with_extension(options.or(set))
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::RequestBuilder {}
}
