//! How the layer is put together. The default is the polite choice.

use std::sync::Arc;

use abide_gate::GateBuilder;
use abide_gate::robots_cache::Fetch;
use abide_http::{BuildError, Crawler, CrawlerBuilder};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::BoxError;
use crate::layer::AbideLayer;
use crate::robots_fetch::ServiceFetch;
use crate::service::AbideService;

/// Settings of one crawler. Made by [`AbideLayer::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    crawler: CrawlerBuilder,
}

impl Builder {
    pub(crate) fn new(token: &str) -> Self {
        Self { crawler: Crawler::builder(token) }
    }

    /// The User-Agent of every request that has none. It must contain the first product token (RFC 9309 §2.2.1); without this setting it is
    /// that token.
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
    /// let builder = AbideLayer::builder("ExampleBot-News")
    ///     .crawler(|crawler| crawler.fallback("ExampleBot").scan(Scan::Headers));
    /// ```
    pub fn crawler(mut self, change: impl FnOnce(CrawlerBuilder) -> CrawlerBuilder) -> Self {
        self.crawler = change(self.crawler);
        self
    }

    /// Wraps `client` in the layer. A clone of the client fetches robots.txt. For a client with a decompression layer use
    /// [`build`](Self::build).
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn wrap<S, B, R>(self, client: S) -> Result<AbideService<S>, BuildError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Default + Send + 'static,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        Ok(self.build(client.clone())?.layer(client))
    }

    /// Builds the layer. Clones of `transport` fetch robots.txt: best the bare client, without the layers for pages. It must not follow
    /// redirects, add credentials or cookies, or decode bodies: a decompression layer stops after the first gzip member, and rules after it
    /// would be lost.
    ///
    /// All services that the layer wraps share its rules and permits.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build<S, B, R>(self, transport: S) -> Result<AbideLayer, BuildError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Default + Send + 'static,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let user_agent = self.crawler.checked_user_agent()?;
        self.build_with(Arc::new(ServiceFetch::<S, B>::new(transport, user_agent)))
    }

    /// Builds the layer, with a transport of your own for robots.txt.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with(self, fetch: Arc<dyn Fetch>) -> Result<AbideLayer, BuildError> {
        Ok(AbideLayer::new(self.crawler.build(fetch)?))
    }
}
