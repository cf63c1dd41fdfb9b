//! What can be asked for one request.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::Origin;
use abide_http::Scan;

/// Options of one request, in its extensions. Without them the layer's own settings count.
///
/// A redirect layer above may or may not copy extensions to the next hop (tower-http 0.6 does not).
///
/// ```
/// # use std::time::Duration;
/// use abide_tower::Options;
///
/// let request = http::Request::builder()
///     .uri("https://example.org/a")
///     .extension(Options::new().with_max_wait(Duration::from_secs(300)))
///     .body(())?;
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(crate) max_wait: Option<Duration>,
    pub(crate) scan: Option<Scan>,
    pub(crate) ignore_robots: Option<(Origin, Arc<str>)>,
}

impl Options {
    /// Nothing changed: the layer's own settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long this request may wait for its turn. Longer waits are deferred at once.
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

    /// Asks `origin` whatever its robots.txt says, for the reason given, for instance on your own site.
    ///
    /// It is logged and counted, shows in the verdict as an override, and never switches off pacing. The origin is named so that a
    /// hop to another one, to which a redirect layer has copied the extensions, is asked like any other.
    #[must_use]
    pub fn danger_ignore_robots(mut self, origin: Origin, why: &str) -> Self {
        self.ignore_robots = Some((origin, why.into()));
        self
    }
}
