//! One crawler identity: its settings, and the layer that puts it around services.
//!
//! The builder is that of `abide_http::Crawler` with what tower needs: a service by which robots.txt is
//! fetched.

use std::sync::Arc;

use abide_gate::robots_cache::Fetch;
use abide_gate::{Gate, GateBuilder};
use abide_http::{BuildError, Crawler, CrawlerBuilder};
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::BoxError;
use crate::robots_fetch::ServiceFetch;
use crate::service::AbideService;

/// Checks and rate-limits the requests of a service. Cheap to clone; clones, and all services that they wrap,
/// share rules and permits.
///
/// ```
/// use tower::{Layer, service_fn};
///
/// let client = service_fn(async |_: http::Request<String>| std::io::Result::Ok(http::Response::new(String::new())));
/// let layer = abide_tower::AbideLayer::builder("ExampleBot").build(client)?;
/// let (pages, feeds) = (layer.layer(client), layer.layer(client));
/// assert!(std::ptr::eq(pages.gate(), feeds.gate()), "they share rules and permits");
/// # Ok::<(), abide_tower::BuildError>(())
/// ```
#[derive(Debug, Clone)]
pub struct AbideLayer {
    crawler: Arc<Crawler>,
}

impl AbideLayer {
    /// A crawler with this product token: `[A-Za-z_-]+` (RFC 9309 §2.2.1). `build` returns an error if the
    /// token is invalid.
    pub fn builder(token: &str) -> Builder {
        Builder { crawler: Crawler::builder(token) }
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
        AbideService { crawler: Arc::clone(&self.crawler), inner }
    }
}

/// Settings of one crawler; the default is the polite choice. Made by [`AbideLayer::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    crawler: CrawlerBuilder,
}

impl Builder {
    /// The User-Agent of every request that has none. It must contain the first product token (RFC 9309
    /// §2.2.1). Default: that token.
    pub fn user_agent(self, header: &str) -> Self {
        self.crawler(|crawler| crawler.user_agent(header))
    }

    /// The settings of robots.txt, rate limits, waits, addresses and stores. Default: [`GateBuilder::new`].
    pub fn gate(self, settings: GateBuilder) -> Self {
        self.crawler(|crawler| crawler.gate(|_| settings))
    }

    /// All other settings: those that crawlers have in common, whatever their client.
    ///
    /// ```
    /// use abide_tower::{AbideLayer, Scan};
    ///
    /// let builder = AbideLayer::builder("ExampleBot-News")
    ///     .crawler(|crawler| crawler.fallback("ExampleBot").scan(Scan::Headers));
    /// ```
    pub fn crawler(self, change: impl FnOnce(CrawlerBuilder) -> CrawlerBuilder) -> Self {
        Self { crawler: change(self.crawler) }
    }

    /// Wraps `client` in the layer. A clone of the client fetches robots.txt. For a client with a
    /// decompression layer use [`build`](Self::build).
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn wrap<S, B, R>(self, client: S) -> Result<AbideService<S>, BuildError>
    where
        S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        B: Default + Send + 'static,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Ok(self.build(client.clone())?.layer(client))
    }

    /// Builds the layer. Clones of `transport` fetch robots.txt: best the bare client, without the layers for
    /// pages. It must not follow redirects, add credentials or cookies, or decode bodies: a decompression
    /// layer stops after the first gzip member, and rules after it would be lost.
    ///
    /// All services that the layer wraps share its rules and permits.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build<S, B, R>(self, transport: S) -> Result<AbideLayer, BuildError>
    where
        S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        B: Default + Send + 'static,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let user_agent = self.crawler.checked_user_agent()?;
        self.build_with(Arc::new(ServiceFetch::<S, B>::new(transport, user_agent)))
    }

    /// Builds the layer, with a transport of your own for robots.txt.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with(self, fetch: Arc<dyn Fetch>) -> Result<AbideLayer, BuildError> {
        Ok(AbideLayer { crawler: Arc::new(self.crawler.build(fetch)?) })
    }
}
