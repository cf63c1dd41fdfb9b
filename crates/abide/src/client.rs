//! One crawler: its identity, its gate, and the clients that are built on them.
//!
//! One `Abide` can serve several reqwest clients, which then share rules, permits and stores: a host sees one
//! crawler.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::HeaderValue;
use reqwest::dns::Resolve;
use reqwest_middleware::{ClientWithMiddleware, Middleware};
use url::Url;

use abide_gate::pacing::{NextSlot, Permit};
use abide_gate::robots_cache::RobotsEntry;
use abide_gate::{Denied, Gate, Origin, Verdict};
use abide_http::Crawler;

use crate::builder::Builder;
use crate::exchange::ObserveExchanges;
use crate::http11::Http11;
use crate::middleware::{self, AbideMiddleware};
use crate::resolver::GuardedResolver;

/// One crawler: its name, its robots.txt cache, its rate limits. Cheap to clone; clones share everything.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use abide::Abide;
///
/// let (abide, client) = Abide::builder("ExampleBot")
///     .user_agent("ExampleBot/1.0 (+https://example.com/bot)")
///     .build_both(reqwest::Client::builder())?;
/// let url = "https://example.org/a".parse()?;
/// if abide.check(&url).await?.is_allowed() {
///     let page = client.get(url).send().await?;
///     println!("{}", page.status());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Abide {
    pub(crate) core: Arc<Core>,
}

/// What all clones and middlewares of an [`Abide`] share.
pub(crate) struct Core {
    pub(crate) crawler: Crawler,
    /// Of requests without a timeout of their own: for the wire, all hops together.
    pub(crate) timeout: Option<Duration>,
    /// How long a server may be silent. `None`: without limit.
    pub(crate) read_timeout: Option<Duration>,
    /// Whether pages are asked for in content codings, and decoded.
    pub(crate) decodes: bool,
    /// Whether the client that was built with it counts its requests: what is not counted has gone through
    /// another.
    pub(crate) counts_sends: bool,
    /// For origins that respond over HTTP/1.1 only.
    pub(crate) http11: Option<Arc<Http11>>,
    pub(crate) exchanges: Option<Arc<dyn ObserveExchanges>>,
    /// Whether any response has set a cookie, which a jar in the client may have kept.
    pub(crate) has_cookies: Arc<AtomicBool>,
    /// For clients of the crawler's owner.
    pub(crate) resolver: Arc<GuardedResolver>,
}

impl Abide {
    /// A crawler with this product token: `[A-Za-z_-]+` (RFC 9309 §2.2.1).
    ///
    /// `build` returns an error if the token is invalid.
    pub fn builder(token: &str) -> Builder {
        Builder::new(token)
    }

    /// Checks whether `url` may be fetched. This may fetch robots.txt, never `url`, and acquires no permit
    /// for it.
    ///
    /// # Errors
    /// An unsupported URL, a refused address, a robots.txt request that was deferred, or a
    /// [purpose](Builder::purpose) that the site disallows. *Disallowed* and *unreachable* are verdicts.
    pub async fn check(&self, url: &Url) -> Result<Verdict, Denied> {
        self.core.crawler.check(url, &mut self.gate().max_wait()).await
    }

    /// Checks whether `url` may be fetched, without I/O. `None` if robots.txt is not in memory.
    pub fn check_cached(&self, url: &Url) -> Option<Verdict> {
        self.gate().check_cached(url)
    }

    /// The rules of an origin, for many checks at nanoseconds each. May fetch robots.txt.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn rules(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Denied> {
        self.gate().entry(origin).await
    }

    /// Fetches the robots.txt files of these origins, unless they are in memory, as many at a time as the
    /// policy allows.
    pub async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {
        self.gate().prefetch(origins).await;
    }

    /// Marks the origin's robots.txt as stale, so that it is fetched before its next use. The last good copy
    /// is kept.
    pub async fn invalidate(&self, origin: &Origin) {
        self.gate().invalidate(origin).await;
    }

    /// [Checks](Self::check) the URL and waits for a permit, for a client of your own.
    ///
    /// A permit is for one request. Report the response through the permit, and drop it when the body has
    /// ended.
    ///
    /// # Errors
    /// A refusal of any kind.
    pub async fn acquire(&self, url: &Url) -> Result<Permit, Denied> {
        Ok(self.admit(url, self.gate().max_wait()).await?.1)
    }

    /// [Acquires](Self::acquire) a permit within `budget` instead of the crawler's
    /// [`max_wait`](Builder::max_wait), and returns the verdict with it.
    ///
    /// # Errors
    /// A refusal of any kind.
    pub async fn admit(&self, url: &Url, budget: Duration) -> Result<(Verdict, Permit), Denied> {
        let mut left = budget;
        let mut verdict = self.core.crawler.check(url, &mut left).await?;
        if let Some(denied) = self.gate().denial(&verdict, url) {
            return Err(denied);
        }
        let permit = self.gate().acquire(url, &mut verdict, &mut left).await?;
        Ok((verdict, permit))
    }

    /// When the next request to the host of `url` could be sent, for schedulers. Neither waits nor reserves.
    ///
    /// # Errors
    /// An unsupported URL.
    pub fn next_slot(&self, url: &Url) -> Result<NextSlot, Denied> {
        self.gate().next_slot(url)
    }

    /// The gate: policies, reports per host, manual backoffs.
    pub fn gate(&self) -> &Gate {
        self.core.crawler.gate()
    }

    /// The User-Agent of every request.
    pub fn user_agent(&self) -> &HeaderValue {
        self.core.crawler.user_agent()
    }

    /// Wraps a client that does not follow redirects, such as the one that [`Builder::build_with`] returns,
    /// in the whole middleware.
    ///
    /// A client that was built elsewhere must have `redirect::Policy::none()` and `retry::never()`; if it
    /// follows a redirect, the request ends with
    /// [`DeniedKind::RedirectBypass`](crate::DeniedKind::RedirectBypass). Resolved addresses are checked only
    /// if it uses [`resolver`](Self::resolver). It decodes pages itself.
    pub fn wrap(&self, inner: reqwest::Client) -> ClientWithMiddleware {
        reqwest_middleware::ClientBuilder::new(inner).with(self.middleware()).build()
    }

    /// A resolver for your own client: it returns only addresses that may be contacted. All clients of a
    /// crawler share rules, permits and backoffs.
    ///
    /// ```
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use abide::Abide;
    ///
    /// let abide = Abide::builder("ExampleBot").build()?;
    /// let client = |builder: reqwest::ClientBuilder| {
    ///     let policy = reqwest::redirect::Policy::none();
    ///     builder.redirect(policy).retry(reqwest::retry::never()).dns_resolver(abide.resolver()).build()
    /// };
    /// let plain = abide.wrap(client(reqwest::Client::builder())?);
    /// let german = abide.wrap(client(reqwest::Client::builder().user_agent("ExampleBot/de"))?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn resolver(&self) -> Arc<impl Resolve + use<>> {
        Arc::clone(&self.core.resolver)
    }

    /// The middleware that [`wrap`](Self::wrap) uses, for a chain of your own: the last one before the
    /// client. Retries and HTTP caches stand outside of it.
    pub fn middleware(&self) -> impl Middleware + Clone + use<> {
        AbideMiddleware { abide: self.clone() }
    }

    /// Reads the header fields and the head of a response that did not come through abide, or lost on its way
    /// what abide attached to it: from a cache, an archive, a test. The body stays whole.
    ///
    /// Afterwards [`ResponseExt::permissions`](crate::ResponseExt::permissions) says what the site permits,
    /// if whatever kept the response kept its header lines. No request is sent: robots.txt's part of the
    /// preferences is known while it is in memory. A body in a content coding is not read, and its
    /// permissions are unknown.
    ///
    /// ```
    /// use abide::{Abide, ResponseExt};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let stored = http::Response::builder().header("content-type", "text/html").header("content-length", 38);
    /// let stored = stored.body("<meta name=robots content=noindex><p>x")?;
    /// let abide = Abide::builder("ExampleBot").build()?;
    /// let page = abide.read(stored.into()).await;
    /// assert!(page.permissions().rules().noindex());
    /// assert_eq!(page.text().await?.len(), 38);
    /// # Ok(()) }
    /// ```
    pub async fn read(&self, response: reqwest::Response) -> reqwest::Response {
        middleware::read(&self.core.crawler, response).await
    }
}

impl fmt::Debug for Abide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abide").field("user_agent", self.user_agent()).finish_non_exhaustive()
    }
}
