//! One crawler: its identity, its gate, and the clients that are built on them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use crate::middleware::{AbideMiddleware, Part};
use crate::resolver::GuardedResolver;

/// One crawler identity: everything that is asked, paced and read under it. Cheap to clone; clones share everything.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use abide::Abide;
///
/// let (abide, inner) = Abide::builder("ExampleBot")
///     .user_agent("ExampleBot/1.0 (+https://example.com/bot)")
///     .build_with(reqwest::Client::builder())?;
/// let url = "https://example.org/a".parse()?;
/// if abide.check(&url).await?.is_allowed() {
///     let page = abide.wrap(inner).get(url).send().await?;
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
    /// How long a server may be silent. `None`: without limit.
    pub(crate) read_timeout: Option<Duration>,
    /// Whether pages are asked for in content codings, and decoded.
    pub(crate) decodes: bool,
    /// Whether any response has set a cookie, which a jar in the client may have kept.
    pub(crate) has_cookies: Arc<AtomicBool>,
    /// For clients of the crawler's owner.
    pub(crate) resolver: Arc<GuardedResolver>,
    /// Whether anybody has taken the half that paces.
    pub(crate) has_pacing_half: AtomicBool,
}

impl Abide {
    /// A crawler with this product token: `[A-Za-z_-]+` (RFC 9309 §2.2.1).
    ///
    /// A token that is none is reported by `build`.
    pub fn builder(token: &str) -> Builder {
        Builder::new(token)
    }

    /// Whether `url` may be fetched. May fetch robots.txt, never `url`; acquires no permit for it.
    ///
    /// # Errors
    /// A refusal other than disallow and unreachable, which are verdicts: an unsupported URL, a refused address, a robots.txt
    /// request that was deferred.
    pub async fn check(&self, url: &Url) -> Result<Verdict, Denied> {
        self.gate_handle().check(url, &mut self.gate_handle().max_wait()).await
    }

    /// Whether `url` may be fetched, from what is known now. No I/O; `None`: not known.
    pub fn check_cached(&self, url: &Url) -> Option<Verdict> {
        self.gate_handle().check_cached(url)
    }

    /// The rules of an origin, for bulk checks at nanoseconds each. May fetch robots.txt.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn rules(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Denied> {
        self.gate_handle().answer(origin).await
    }

    /// Fetches the robots.txt of all these origins that is not at hand, as many at a time as the policy allows.
    pub async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {
        self.gate_handle().prefetch(origins).await;
    }

    /// Forgets that the origin's robots.txt is fresh, so that its next use asks again. The last good copy is kept.
    pub async fn invalidate(&self, origin: &Origin) {
        self.gate_handle().invalidate(origin).await;
    }

    /// Asks robots.txt and waits for the permit of `url`, for people with their own client.
    ///
    /// One permit is one request. Report the answer through the permit, and drop it when the body has ended.
    ///
    /// # Errors
    /// A refusal of any kind.
    pub async fn acquire(&self, url: &Url) -> Result<Permit, Denied> {
        Ok(self.gate_handle().admit(url, self.gate_handle().max_wait()).await?.1)
    }

    /// When the next request to the host of `url` could go out, for schedulers. Waits for nothing and reserves nothing.
    ///
    /// # Errors
    /// An unsupported URL.
    pub fn next_slot(&self, url: &Url) -> Result<NextSlot, Denied> {
        self.gate_handle().next_slot(url)
    }

    /// The gate itself: policies, reports per host, prefetching.
    pub fn gate_handle(&self) -> &Gate {
        self.core.crawler.gate()
    }

    /// The User-Agent that is sent.
    pub fn user_agent(&self) -> &HeaderValue {
        self.core.crawler.user_agent()
    }

    /// Puts the whole middleware around a client that does not follow redirects, such as the one that
    /// [`Builder::build_with`] returns.
    ///
    /// A client that was built elsewhere must have `redirect::Policy::none()` and `retry::never()`; if it follows a redirect,
    /// the request ends with [`DeniedKind::RedirectBypass`](crate::DeniedKind::RedirectBypass). Its resolver is guarded only if it is that of
    /// [`resolver`](Self::resolver); else only literal addresses are refused. The codings of its pages are its own.
    pub fn wrap(&self, inner: reqwest::Client) -> ClientWithMiddleware {
        reqwest_middleware::ClientBuilder::new(inner).with(self.middleware()).build()
    }

    /// The resolver of the clients that we build, for one of your own: it returns only addresses that may be contacted. One crawler can
    /// have several clients; what they send shares rules, permits and backoffs.
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

    /// Gate and pacing in one: the default.
    pub fn middleware(&self) -> impl Middleware + Clone + use<> {
        self.part(Part::Whole)
    }

    /// The outer half: robots.txt, redirect hops, permissions. Put [`pacing`](Self::pacing) below it, with an HTTP cache between
    /// them, so that cache hits are not paced. Without it the requests end with
    /// [`DeniedKind::NoPacing`](crate::DeniedKind::NoPacing).
    pub fn gate(&self) -> impl Middleware + Clone + use<> {
        self.part(Part::Gate)
    }

    /// The inner half: permits and feedback.
    pub fn pacing(&self) -> impl Middleware + Clone + use<> {
        self.core.has_pacing_half.store(true, Ordering::Relaxed);
        self.part(Part::Pacing)
    }

    fn part(&self, part: Part) -> AbideMiddleware {
        AbideMiddleware { abide: self.clone(), part }
    }
}

impl fmt::Debug for Abide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abide").field("user_agent", self.user_agent()).finish_non_exhaustive()
    }
}
