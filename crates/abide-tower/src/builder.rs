//! How the layer is put together. The default is the polite choice.

use std::sync::Arc;

use abide_gate::GateBuilder;
use abide_gate::robots_cache::Fetch;
use abide_http::{BuildError, Crawler, CrawlerBuilder, LicenseToken, PaymentPolicy, Scan};
use abide_permissions::{PermissionStore, ReadOptions, Usage};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;
use url::Url;

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

    /// A further product token: the first of the chain that has a group in a robots.txt counts there
    /// (`ExampleBot-News`, then `ExampleBot`). For permissions every token of the chain counts.
    pub fn fallback(self, token: &str) -> Self {
        Self { crawler: self.crawler.fallback(token) }
    }

    /// The User-Agent that every request carries unless it has one. It must contain the first product token (RFC 9309 §2.2.1);
    /// without this setting it is that token.
    pub fn user_agent(self, header: &str) -> Self {
        Self { crawler: self.crawler.user_agent(header) }
    }

    /// How robots.txt is obtained, how fast hosts are asked, how long a call may wait, which addresses may be contacted, and where
    /// all that is kept. Default: [`GateBuilder::new`].
    pub fn gate(self, settings: GateBuilder) -> Self {
        Self { crawler: self.crawler.gate(|_| settings) }
    }

    /// How permissions are read. Default: [`Scan::Eager`].
    pub fn scan(self, scan: Scan) -> Self {
        Self { crawler: self.crawler.scan(scan) }
    }

    /// Limits and strictness of reading permissions. Its tokens are replaced by the crawler's own.
    pub fn read_options(self, options: ReadOptions) -> Self {
        Self { crawler: self.crawler.read_options(options) }
    }

    /// A policy token: a group of robots.txt that names `token` and disallows a URL says that its content is not to be used so. It never
    /// decides whether the URL is fetched. With `fallback` the `*` group counts where no group names the token. The copy that is asked is
    /// the one that let the request out, and the answer a statement of [`FetchInfo::preferences`](crate::FetchInfo::preferences).
    pub fn policy_token(self, token: &str, usage: Usage, fallback: bool) -> Self {
        Self { crawler: self.crawler.policy_token(token, usage, fallback) }
    }

    /// Where permissions are kept between fetches, so that a 304 comes with the last known rules. Default: nowhere.
    pub fn permission_store(self, store: Arc<dyn PermissionStore>) -> Self {
        Self { crawler: self.crawler.permission_store(store) }
    }

    /// Signs every request, each hop by itself, robots.txt included. Default: nothing is signed; some sites treat a signed crawler worse.
    #[cfg(feature = "identity")]
    pub fn sign_requests(self, identity: abide_identity::WebBotAuth) -> Self {
        Self { crawler: self.crawler.sign_requests(identity) }
    }

    /// What may be paid for pages. Default: nothing, whatever a server asks for.
    pub fn payment(self, policy: PaymentPolicy) -> Self {
        Self { crawler: self.crawler.payment(policy) }
    }

    /// Where tokens of licences come from: `find` gets the URL and the parameters of a `WWW-Authenticate: License` (RSL, with 401 or 402). If it
    /// has a token, the request is sent once more with it, in its turn: [`CrawlerBuilder::license_tokens`](abide_http::CrawlerBuilder::license_tokens).
    pub fn license_tokens(
        self,
        find: impl Fn(&Url, &[(String, String)]) -> Option<LicenseToken> + Send + Sync + 'static,
    ) -> Self {
        Self { crawler: self.crawler.license_tokens(find) }
    }

    /// Fetches URLs although robots.txt denies them, and only reports the denial, for link checkers of one's own pages. The verdict of the
    /// response has the denial, and the reason given here. The rate limit stays, with the site's `Crawl-delay`.
    pub fn danger_report_only(self, why: &str) -> Self {
        Self { crawler: self.crawler.danger_report_only(why) }
    }

    /// The client with the layer around it; robots.txt goes through a clone of the client. For a client with a decompression layer use
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

    /// The layer, with a service through whose clones robots.txt goes: best the bare client, without the layers that are only
    /// for pages. It must neither follow redirects, nor add credentials or cookies, nor decode bodies: a decompression layer stops after
    /// the first gzip member, and rules behind it are lost without a trace.
    ///
    /// Every service that the layer is put around shares its rules and its permits.
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

    /// The layer, with a transport of your own for robots.txt.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with(self, fetch: Arc<dyn Fetch>) -> Result<AbideLayer, BuildError> {
        Ok(AbideLayer::new(self.crawler.build(fetch)?))
    }
}
