//! One crawler identity, and the layer that puts it around services.

use std::fmt;
use std::sync::Arc;

use abide_gate::Gate;
use abide_http::Crawler;
use http::HeaderValue;
use tower_layer::Layer;

use crate::builder::Builder;
use crate::service::AbideService;

/// Checks and rate-limits the requests of a service. Cheap to clone; clones, and all services that they wrap, share rules and permits.
#[derive(Clone)]
pub struct AbideLayer {
    crawler: Arc<Crawler>,
}

impl AbideLayer {
    /// A crawler with this product token: `[A-Za-z_-]+` (RFC 9309 §2.2.1). `build` returns an error if the token is invalid.
    pub fn builder(token: &str) -> Builder {
        Builder::new(token)
    }

    pub(crate) fn new(crawler: Crawler) -> Self {
        Self { crawler: Arc::new(crawler) }
    }

    /// The gate: checks without fetching, rules of an origin for many URLs, the next slot of a host, reports.
    pub fn gate(&self) -> &Gate {
        self.crawler.gate()
    }

    /// The User-Agent of every request.
    pub fn user_agent(&self) -> &HeaderValue {
        self.crawler.user_agent()
    }
}

impl<S> Layer<S> for AbideLayer {
    type Service = AbideService<S>;

    fn layer(&self, inner: S) -> AbideService<S> {
        AbideService::new(Arc::clone(&self.crawler), inner)
    }
}

impl fmt::Debug for AbideLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbideLayer").field("user_agent", self.user_agent()).finish_non_exhaustive()
    }
}
