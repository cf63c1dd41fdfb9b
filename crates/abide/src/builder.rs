//! How a crawler is put together. The default is the polite choice.
//!
//! Most methods set what [`abide_http`] keeps for all clients; what is reqwest's own (the client, its
//! redirects, its resolver) is set up here.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::header::ACCEPT_ENCODING;
use ipnet::IpNet;
use reqwest::dns::Resolve;
use reqwest_middleware::ClientWithMiddleware;

use abide_gate::pacing::{HostStore, PacePolicy};
use abide_gate::robots_cache::{Fetch, RobotsPolicy, RobotsStore};
use abide_gate::{Clock, Event, GateBuilder, SignRequest};
use abide_http::{AnswerChallenge, BuildError, Crawler, CrawlerBuilder, RedirectPolicy, Scan};
use abide_permissions::{PermissionStore, ReadOptions, Usage};

use crate::client::{Abide, Core};
use crate::exchange::ObserveExchanges;
use crate::http11::Http11;
use crate::middleware::CODINGS;
use crate::resolver::{GuardedResolver, SystemResolver};
use crate::robots_fetch::ReqwestFetch;
use crate::wire::never_again;

/// Settings of one crawler. Made by [`Abide::builder`].
///
/// ```
/// let abide = abide::Abide::builder("ExampleBot").max_wait(std::time::Duration::from_secs(300)).build()?;
/// assert_eq!(abide.user_agent(), "ExampleBot");
/// # Ok::<(), abide::BuildError>(())
/// ```
#[must_use]
pub struct Builder {
    crawler: CrawlerBuilder,
    timeout: Option<Duration>,
    connect_timeout: Duration,
    read_timeout: Duration,
    decodes: bool,
    fixed_names: HashMap<String, Vec<SocketAddr>>,
    resolver: Arc<dyn Resolve>,
    fetch: Option<Arc<dyn Fetch>>,
    http11: Option<reqwest::ClientBuilder>,
    exchanges: Option<Arc<dyn ObserveExchanges>>,
    /// Of the client that is built: see [`Core::has_cookies`].
    has_cookies: Arc<AtomicBool>,
}

impl Builder {
    pub(crate) fn new(token: &str) -> Self {
        Self {
            crawler: Crawler::builder(token),
            timeout: None,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(60),
            decodes: true,
            fixed_names: HashMap::new(),
            resolver: Arc::new(SystemResolver),
            fetch: None,
            http11: None,
            exchanges: None,
            has_cookies: Arc::default(),
        }
    }

    /// Adds a further product token, such as `ExampleBot` after `ExampleBot-News`. In a robots.txt, the first
    /// token that has a group counts; for permissions, every token counts.
    pub fn fallback(self, token: &str) -> Self {
        self.shared(|crawler| crawler.fallback(token))
    }

    /// Goes by the rules of robots.txt for another crawler than this one, which still sends its own name.
    /// Repeated, the first that has a group counts. For tools that ask what a site allows others; a crawler
    /// that fetches pages with this setting breaks the rules that are meant for it.
    pub fn danger_rules_of(self, token: &str) -> Self {
        self.shared(|crawler| crawler.danger_rules_of(token))
    }

    /// The User-Agent that every request carries. It must contain the first product token (RFC 9309 §2.2.1);
    /// without this setting it is that token.
    pub fn user_agent(self, header: &str) -> Self {
        self.shared(|crawler| crawler.user_agent(header))
    }

    /// Replaces all settings of the gate, for instance by those of another client. The methods below change
    /// single settings.
    pub fn gate(self, settings: GateBuilder) -> Self {
        self.gated(|_| settings)
    }

    /// How robots.txt is fetched and cached, and what its absence means. Default: as RFC 9309 says.
    pub fn robots(self, policy: RobotsPolicy) -> Self {
        self.gated(|gate| gate.robots(policy))
    }

    /// The rate limit of each host. Default: one request at a time, one second apart.
    pub fn pace(self, policy: PacePolicy) -> Self {
        self.gated(|gate| gate.pace(policy))
    }

    /// How long a call may wait for its permits, all hops together. Default: 30 s. A call that would wait
    /// longer is deferred at once.
    pub fn max_wait(self, wait: Duration) -> Self {
        self.gated(|gate| gate.max_wait(wait))
    }

    /// How long the client that we build waits for a connection. Default: 10 s.
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// How long a call may take on the wire: all hops, and the body of the last. Waiting for permits and for
    /// robots.txt does not count. A request's own `timeout` takes precedence. Default: no limit.
    ///
    /// In contrast, `reqwest::ClientBuilder::timeout` limits each hop, because abide follows the redirects.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// How long a server may send nothing: before the head of its response (1xx responses do not count), and
    /// between the bytes of its body while they are read. After that, the request ends and its host is free.
    /// Default: 60 s. `Duration::MAX` means no limit. Set more for uploads that take longer: meanwhile most
    /// servers send nothing.
    ///
    /// Set it here and not on `reqwest::ClientBuilder`. The error is a
    /// `reqwest_middleware::Error::Middleware` before the head, and reqwest's own error with `is_timeout` in
    /// the body. Both have an [`io::Error`](std::io::Error) of the kind `TimedOut` among their sources.
    pub fn read_timeout(self, timeout: Duration) -> Self {
        Self { read_timeout: timeout, ..self }
    }

    /// Whether abide requests pages in gzip, deflate, brotli and zstd, and decodes them, whatever features
    /// reqwest has. The last two are the features `brotli` and `zstd` of this crate. On by default.
    ///
    /// The client that is built asks for them by a default field. A request's own `Accept-Encoding` is kept,
    /// and one with `Range` asks for no coding. If this is off, no `Accept-Encoding` is sent, and bodies stay
    /// as the server encoded them.
    pub fn decode(self, on: bool) -> Self {
        Self { decodes: on, ..self }
    }

    /// How page redirects are followed. Default: 10 hops.
    pub fn redirects(self, policy: RedirectPolicy) -> Self {
        self.shared(|crawler| crawler.redirects(policy))
    }

    /// How permissions are read. Default: [`Scan::Eager`].
    pub fn scan(self, scan: Scan) -> Self {
        self.shared(|crawler| crawler.scan(scan))
    }

    /// Limits and strictness of reading permissions. The crawler's product tokens replace those of `options`.
    pub fn read_options(self, options: ReadOptions) -> Self {
        self.shared(|crawler| crawler.read_options(options))
    }

    /// Fetches the `/.well-known/tdmrep.json` of each site before its first page:
    /// [`CrawlerBuilder::fetch_tdmrep`](abide_http::CrawlerBuilder::fetch_tdmrep). Off by default.
    pub fn fetch_tdmrep(self) -> Self {
        self.shared(CrawlerBuilder::fetch_tdmrep)
    }

    /// Like [`fetch_tdmrep`](Self::fetch_tdmrep), and refuses pages of a site whose tdmrep.json is unknown:
    /// [`DeniedKind::TdmrepUnknown`](abide_gate::DeniedKind::TdmrepUnknown).
    pub fn require_tdmrep(self) -> Self {
        self.shared(CrawlerBuilder::require_tdmrep)
    }

    /// Goes by the status of a response alone, also where a challenge or a block page is recognised:
    /// [`GateBuilder::danger_trust_status`].
    pub fn danger_trust_status(self) -> Self {
        self.gated(GateBuilder::danger_trust_status)
    }

    /// Adds a policy token: if a group of robots.txt names `token` and disallows a URL, the content must not
    /// be used in this way. It never decides whether the URL is fetched. With `fallback`, the `*` group
    /// counts where no group names the token. The result is part of
    /// [`FetchInfo::preferences`](crate::FetchInfo::preferences).
    pub fn policy_token(self, token: &str, usage: Usage, fallback: bool) -> Self {
        self.shared(|crawler| crawler.policy_token(token, usage, fallback))
    }

    /// Declares what the pages are for, such as [`Usage::TrainAi`]. A URL for which robots.txt, or the
    /// tdmrep.json that [is fetched](Self::fetch_tdmrep), disallows that use is not requested:
    /// [`DeniedKind::Purpose`](abide_gate::DeniedKind::Purpose). Then
    /// [`allows_purpose`](crate::ResponseExt::allows_purpose) of a page unites all places. Default: none.
    pub fn purpose(self, usage: Usage) -> Self {
        self.shared(|crawler| crawler.purpose(usage))
    }

    /// Allows requests to exactly this network, although it is not public: `127.0.0.1/32` does not open
    /// `127.0.0.2`.
    pub fn allow_net(self, net: IpNet) -> Self {
        self.gated(|gate| gate.allow_net(net))
    }

    /// Allows requests to every address, private ones included.
    pub fn danger_allow_all_addresses(self) -> Self {
        self.gated(GateBuilder::danger_allow_all_addresses)
    }

    /// Resolves `name` to `address`, instead of asking a resolver. The address must be public or allowed,
    /// like any other. The port is for URLs without one; 0 means the scheme's default.
    ///
    /// Use this and not `reqwest::ClientBuilder::resolve`, which bypasses the address guard.
    pub fn resolve(mut self, name: &str, address: SocketAddr) -> Self {
        // As it stands in a parsed URL: ASCII, lower case, without trailing dot.
        let parsed =
            url::Host::parse(name).map_or_else(|_| name.to_ascii_lowercase(), |host| host.to_string());
        self.fixed_names.entry(parsed.trim_end_matches('.').to_owned()).or_default().push(address);
        self
    }

    /// The resolver of the client. Its addresses are checked. Default: the operating system's.
    pub fn resolver(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    /// Where robots.txt records are kept. Default: in memory.
    pub fn robots_store(self, store: Arc<dyn RobotsStore>) -> Self {
        self.gated(|gate| gate.robots_store(store))
    }

    /// Where leases and backoffs of hosts are kept, for restarts and other processes. Default: in memory
    /// only.
    pub fn host_store(self, store: Arc<dyn HostStore>) -> Self {
        self.gated(|gate| gate.host_store(store))
    }

    /// Where permissions of pages are kept between fetches. Default: nowhere.
    ///
    /// With a store, a 304 has the last known rules (draft-illyes-repext-03 §3.1.4: they "MUST continue to be
    /// honored"), and so has a page whose head was not read this time. The permissions of a 304 for another
    /// version than the recorded one are unknown: `ETag` and `Last-Modified` are compared, or the validators
    /// of the request. A head that is scanned lazily is not kept.
    pub fn permission_store(self, store: Arc<dyn PermissionStore>) -> Self {
        self.shared(|crawler| crawler.permission_store(store))
    }

    /// Signs every request, robots.txt and each redirect hop included, for instance with a `WebBotAuth` of
    /// `abide-identity` (feature `identity`). Default: off, because some sites treat a signed crawler worse.
    pub fn sign_requests(self, signer: impl SignRequest + 'static) -> Self {
        self.shared(|crawler| crawler.sign_requests(signer))
    }

    /// Adds a hook that answers what servers ask for, such as a `PaymentPolicy` (feature `price`) or
    /// `LicenseTokens` (feature `license`) of `abide-identity`. Default: none.
    pub fn answer_challenges(self, hook: impl AnswerChallenge + 'static) -> Self {
        self.shared(|crawler| crawler.answer_challenges(hook))
    }

    /// Adds an observer of everything: robots.txt, permits, decisions and refusals. Requests wait while it
    /// runs, so it should return soon. No lock is held meanwhile, and its panics are caught.
    pub fn observer(self, observer: Arc<dyn Fn(&Event<'_>) + Send + Sync>) -> Self {
        self.gated(|gate| gate.observer(observer))
    }

    /// Adds an observer of what goes over the wire, such as the writer of an archive: pages with every
    /// redirect hop, robots.txt and tdmrep.json, each with the response as the server sent it. Of two, the
    /// last counts. A [`fetch`](Self::fetch) of your own is not observed. Default: none.
    pub fn exchanges(self, observer: Arc<dyn ObserveExchanges>) -> Self {
        Self { exchanges: Some(observer), ..self }
    }

    /// Fetches URLs although robots.txt denies them, and only reports the denial: for checking links of your
    /// own pages. The verdict of each hop has the denial and the reason `why`. The rate limit and the site's
    /// `Crawl-delay` stay.
    pub fn danger_report_only(self, why: &str) -> Self {
        self.shared(|crawler| crawler.danger_report_only(why))
    }

    /// The client that fetches robots.txt. Default: a clone of the client that is built.
    pub fn fetch(self, fetch: Arc<dyn Fetch>) -> Self {
        Self { fetch: Some(fetch), ..self }
    }

    /// A second client for origins that respond over HTTP/1.1 only, and say so in HTTP/2
    /// (`HTTP_1_1_REQUIRED`, RFC 9113 §7): the request is sent once more with it, under the same permit,
    /// unless it could have an effect, and later requests go there at once. Default: none, so that such
    /// requests fail.
    ///
    /// Give it the settings of the other one, because reqwest's builder can't be cloned. abide replaces the
    /// same ones, and turns HTTP/2 off. A middleware between abide and its client does not see these
    /// requests.
    ///
    /// ```
    /// let inner = || reqwest::Client::builder().pool_max_idle_per_host(1);
    /// let client = abide::Abide::builder("ExampleBot").http11(inner()).build_client(inner())?;
    /// # Ok::<(), abide::BuildError>(())
    /// ```
    pub fn http11(self, inner: reqwest::ClientBuilder) -> Self {
        Self { http11: Some(inner), ..self }
    }

    /// The clock. Default: the system's.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        self.gated(|gate| gate.clock(clock))
    }

    /// Paces hosts together with `other`, another crawler of this process with rules of its own:
    /// [`GateBuilder::paced_with`].
    pub fn paced_with(self, other: &Abide) -> Self {
        self.gated(|gate| gate.paced_with(other.gate()))
    }

    /// Builds a client with the whole middleware from `inner`.
    ///
    /// [`user_agent`](Self::user_agent), or the product token, replaces the User-Agent of `inner`.
    /// [`build_with`](Self::build_with) lists what else changes. Add further middlewares above it or with
    /// `build_with`: below this client, it is not noticed what sends again.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_client(self, inner: reqwest::ClientBuilder) -> Result<ClientWithMiddleware, BuildError> {
        Ok(self.build_both(inner)?.1)
    }

    /// The same, with the crawler: to check URLs without a request, for the [`Gate`](abide_gate::Gate), or to
    /// wait for its stores before the program ends.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let (abide, client) = abide::Abide::builder("ExampleBot").build_both(reqwest::Client::builder())?;
    /// let page = client.get("https://example.org/").send().await?;
    /// println!("{}, next in {:?}", page.status(), abide.next_slot(page.url())?.wait);
    /// abide.gate().settled(Duration::from_secs(2)).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_both(
        self,
        inner: reqwest::ClientBuilder,
    ) -> Result<(Abide, ClientWithMiddleware), BuildError> {
        // reqwest copies each request that it might send again, or count. Nothing sends again between this
        // middleware and this client.
        let (abide, inner) =
            self.build_around(inner, || reqwest::retry::never().max_retries_per_request(0), false)?;
        let client = abide.wrap(inner);
        Ok((abide, client))
    }

    /// Builds the crawler and its inner client, for chains of your own: [`Abide::wrap`], or
    /// [`Abide::middleware`] below others.
    ///
    /// abide cannot read the settings of reqwest's builder, so it replaces some:
    ///
    /// | on `inner` | becomes |
    /// | --- | --- |
    /// | `redirect`, `retry` | off: abide follows redirects, and one permit is for one request |
    /// | `user_agent` | that of [`user_agent`](Self::user_agent) |
    /// | `dns_resolver` | that of [`resolver`](Self::resolver), guarded |
    /// | `connect_timeout` | that of [`connect_timeout`](Self::connect_timeout) |
    /// | `http1_allow_obsolete_multiline_headers_in_responses` and the two like it | on: folded fields, spaces before the colon, bad lines |
    /// | `gzip` and the other codings | off: they would drop what follows the first gzip member of a robots.txt. abide decodes pages itself ([`decode`](Self::decode)) |
    ///
    /// All other settings of `inner` stay, and apply to robots.txt, too:
    ///
    /// * `timeout` limits each hop; [`timeout`](Self::timeout) limits a whole call.
    /// * `default_headers` go to every host and with robots.txt, so they must contain no credentials and no
    ///   `Host`. An `Accept-Encoding` there is replaced.
    /// * A cookie jar keeps the cookies that robots.txt sets. After any response has set a cookie, robots.txt
    ///   is requested with an empty `Cookie` field instead of the jar's. Until then, a jar that was filled
    ///   beforehand sends its cookies with robots.txt.
    /// * `resolve` bypasses the address guard; use [`resolve`](Self::resolve).
    /// * An http, https or socks5h proxy (also one of the environment) or a `unix_socket` resolves names
    ///   itself, so that only literal addresses are checked. The proxy's own name is checked: one with a
    ///   private address needs [`allow_net`](Self::allow_net), unless it is written as an address. `no_proxy`
    ///   ignores the environment. Over a `unix_socket`, responses have no address, like those of a cache, so
    ///   that what a page does not state is unknown.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with(self, inner: reqwest::ClientBuilder) -> Result<(Abide, reqwest::Client), BuildError> {
        self.build_around(inner, never_again, true)
    }

    fn build_around(
        mut self,
        inner: reqwest::ClientBuilder,
        retry: fn() -> reqwest::retry::Builder,
        counts_sends: bool,
    ) -> Result<(Abide, reqwest::Client), BuildError> {
        let build =
            |inner: reqwest::ClientBuilder| inner.build().map_err(|error| BuildError::Client(error.into()));
        let http11 = self.http11.take();
        let http11 = http11.map(|inner| build(self.configured(inner, retry()).http1_only())).transpose()?;
        let http11 = http11.map(|client| Arc::new(Http11::new(client)));
        let client = build(self.configured(inner, retry()))?;
        let fetch: Arc<dyn Fetch> = match self.fetch.take() {
            Some(fetch) => fetch,
            None => Arc::new(ReqwestFetch {
                client: client.clone(),
                user_agent: self.crawler.checked_user_agent()?,
                has_cookies: Arc::clone(&self.has_cookies),
                http11: http11.clone(),
                exchanges: self.exchanges.clone(),
            }),
        };
        Ok((self.finish(fetch, counts_sends, http11)?, client))
    }

    /// Replaces the settings that are ours.
    fn configured(
        &self,
        inner: reqwest::ClientBuilder,
        retry: reqwest::retry::Builder,
    ) -> reqwest::ClientBuilder {
        let codings = self.decodes.then_some((ACCEPT_ENCODING, CODINGS));
        inner
            .default_headers(codings.into_iter().collect())
            .redirect(reqwest::redirect::Policy::none())
            .retry(retry)
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            // Lenient: what browsers and curl read. RFC 9112 §5.2: a user agent MUST replace the line ends of
            // a folded field by spaces. §5.1 lets clients take a space before the colon off, and a line that
            // is no field says nothing.
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_ignore_invalid_headers_in_responses(true)
            .dns_resolver(self.guarded_resolver())
            .connect_timeout(self.connect_timeout)
    }

    /// Builds the crawler alone, for a client of your own. It fetches robots.txt with a client that it
    /// builds.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(mut self) -> Result<Abide, BuildError> {
        // The codings of its pages are the client's own.
        self.decodes = false;
        match self.fetch.take() {
            Some(fetch) => self.finish(fetch, false, None),
            None => {
                let http11 = self.http11.take().unwrap_or_default();
                Ok(self.http11(http11).build_with(reqwest::Client::builder())?.0)
            }
        }
    }

    fn gated(self, change: impl FnOnce(GateBuilder) -> GateBuilder) -> Self {
        self.shared(|crawler| crawler.gate(change))
    }

    fn shared(self, change: impl FnOnce(CrawlerBuilder) -> CrawlerBuilder) -> Self {
        Self { crawler: change(self.crawler), ..self }
    }

    fn guarded_resolver(&self) -> Arc<GuardedResolver> {
        let addresses = Arc::new(self.crawler.gate_settings().address_guard().clone());
        let (fixed, inner) = (self.fixed_names.clone(), Arc::clone(&self.resolver));
        Arc::new(GuardedResolver { fixed, inner, addresses })
    }

    fn finish(
        self,
        fetch: Arc<dyn Fetch>,
        counts_sends: bool,
        http11: Option<Arc<Http11>>,
    ) -> Result<Abide, BuildError> {
        let core = Core {
            resolver: self.guarded_resolver(),
            crawler: self.crawler.build(fetch)?,
            timeout: self.timeout,
            read_timeout: Some(self.read_timeout).filter(|&limit| limit < Duration::MAX),
            decodes: self.decodes,
            counts_sends,
            http11,
            exchanges: self.exchanges,
            has_cookies: self.has_cookies,
        };
        Ok(Abide { core: Arc::new(core) })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("crawler", &self.crawler).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_without_timers_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let built = runtime.block_on(async { Abide::builder("ExampleBot").build().map(drop) });
        assert!(matches!(built, Err(BuildError::NoTimers)), "{built:?}");
        assert!(Abide::builder("ExampleBot").build().is_ok(), "outside of a runtime nothing can be said");
    }
}
