//! How a crawler is put together. The default is the polite choice.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::dns::Resolve;
use reqwest_middleware::ClientWithMiddleware;
use url::Url;

use abide_gate::pacing::{HostStore, PacePolicy};
use abide_gate::robots_cache::{Fetch, RobotsPolicy, RobotsStore};
use abide_gate::{Clock, Event, GateBuilder};
use abide_http::{BuildError, Crawler, CrawlerBuilder, LicenseToken, PaymentPolicy, RedirectPolicy, Scan};
use abide_permissions::{PermissionStore, ReadOptions, Usage};

use crate::client::{Abide, Core};
use crate::resolver::{GuardedResolver, SystemResolver};
use crate::robots_fetch::ReqwestFetch;
use crate::send::never_again;

/// Settings of one crawler. Made by [`Abide::builder`].
#[must_use]
pub struct Builder {
    /// What every client has in common.
    crawler: CrawlerBuilder,
    connect_timeout: Duration,
    read_timeout: Duration,
    decodes: bool,
    fixed_names: HashMap<String, Vec<SocketAddr>>,
    resolver: Arc<dyn Resolve>,
    fetch: Option<Arc<dyn Fetch>>,
}

impl Builder {
    pub(crate) fn new(token: &str) -> Self {
        Self {
            crawler: Crawler::builder(token),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(60),
            decodes: true,
            fixed_names: HashMap::new(),
            resolver: Arc::new(SystemResolver),
            fetch: None,
        }
    }

    /// A further product token: the first of the chain that has a group in a robots.txt counts there
    /// (`ExampleBot-News`, then `ExampleBot`). For permissions every token of the chain counts.
    pub fn fallback(self, token: &str) -> Self {
        self.shared(|crawler| crawler.fallback(token))
    }

    /// The User-Agent that every request carries. It must contain the first product token (RFC 9309 §2.2.1); without this
    /// setting it is that token.
    pub fn user_agent(self, header: &str) -> Self {
        self.shared(|crawler| crawler.user_agent(header))
    }

    /// All settings of the gate at once, for instance those that another client uses too. The methods below change single ones.
    pub fn gate(self, settings: GateBuilder) -> Self {
        self.gated(|_| settings)
    }

    /// How robots.txt is obtained, and what its absence means. Default: RFC 9309.
    pub fn robots(self, policy: RobotsPolicy) -> Self {
        self.gated(|gate| gate.robots(policy))
    }

    /// How fast a host is asked. Default: one at a time, a second apart.
    pub fn pace(self, policy: PacePolicy) -> Self {
        self.gated(|gate| gate.pace(policy))
    }

    /// How long a call may wait for its permits, all hops together. Default: 30 s. Longer waits are deferred at once.
    pub fn max_wait(self, wait: Duration) -> Self {
        self.gated(|gate| gate.max_wait(wait))
    }

    /// How long the client that we build waits for a connection. Default: 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a call may be on the wire, all hops together, with the body of the last. Waiting for permits and for robots.txt is not
    /// counted. A request's own `timeout` goes before. Default: no limit.
    ///
    /// `reqwest::ClientBuilder::timeout` counts for each hop by itself, as abide follows the redirects.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.shared(|crawler| crawler.timeout(timeout))
    }

    /// How long a server may send nothing: before the head of its response, also while it sends 1xx ones, and between the bytes of its body
    /// while they are awaited. The host of a silent server is free again after that. Default: 60 s. `Duration::MAX` is no limit.
    ///
    /// A `read_timeout` of `reqwest::ClientBuilder` counts besides, so set it here instead. The error is a
    /// `reqwest_middleware::Error::Middleware` for a head, and reqwest's own with `is_timeout` for a body. Both have an
    /// [`io::Error`](std::io::Error) of the kind `TimedOut` among their sources.
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// Whether pages are asked for in gzip, brotli, deflate and zstd, and decoded, whichever of these features reqwest has. On by default.
    ///
    /// A request's own `Accept-Encoding` stays as it is. Switched off, none is sent, and bodies come as the server coded them.
    pub fn decode(mut self, on: bool) -> Self {
        self.decodes = on;
        self
    }

    /// How page redirects are followed. Default: 10 hops.
    pub fn redirects(self, policy: RedirectPolicy) -> Self {
        self.shared(|crawler| crawler.redirects(policy))
    }

    /// How permissions are read. Default: [`Scan::Eager`].
    pub fn scan(self, scan: Scan) -> Self {
        self.shared(|crawler| crawler.scan(scan))
    }

    /// Limits and strictness of reading permissions. Its tokens are replaced by the crawler's own.
    pub fn read_options(self, options: ReadOptions) -> Self {
        self.shared(|crawler| crawler.read_options(options))
    }

    /// Fetches the `/.well-known/tdmrep.json` of each site before its first page: [`GateBuilder::fetch_tdmrep`]. Off by default.
    pub fn fetch_tdmrep(self) -> Self {
        self.gated(GateBuilder::fetch_tdmrep)
    }

    /// The same, and refuses the pages of a site whose tdmrep.json is unknown: [`GateBuilder::require_tdmrep`].
    pub fn require_tdmrep(self) -> Self {
        self.gated(GateBuilder::require_tdmrep)
    }

    /// A policy token: a group of robots.txt that names `token` and disallows a URL says that its content is not to be used so. It never
    /// decides whether the URL is fetched. With `fallback` the `*` group counts where no group names the token. The copy that is asked is
    /// the one that let the request out, and the answer a statement of [`FetchInfo::preferences`](crate::FetchInfo::preferences).
    pub fn policy_token(self, token: &str, usage: Usage, fallback: bool) -> Self {
        self.shared(|crawler| crawler.policy_token(token, usage, fallback))
    }

    /// Allows contact with a network that is not public. Exactly this network: `127.0.0.1/32` does not open `127.0.0.2`.
    pub fn allow_net(self, net: IpNet) -> Self {
        self.gated(|gate| gate.allow_net(net))
    }

    /// Allows contact with every address, private ones included.
    pub fn danger_allow_all_addresses(self) -> Self {
        self.gated(GateBuilder::danger_allow_all_addresses)
    }

    /// The addresses of a name, instead of asking a resolver. They are guarded like others. The port counts for URLs that name
    /// none; 0 means the scheme's own.
    ///
    /// Give names here and not to `reqwest::ClientBuilder::resolve`, which goes past the guard.
    pub fn resolve(mut self, name: &str, address: SocketAddr) -> Self {
        self.fixed_names.entry(canonical(name)).or_default().push(address);
        self
    }

    /// The resolver of the client that we build. Default: the operating system's.
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Where robots.txt is kept. Default: memory.
    pub fn robots_store(self, store: Arc<dyn RobotsStore>) -> Self {
        self.gated(|gate| gate.robots_store(store))
    }

    /// Where hosts are leased from, and backoffs are shared with other processes. Default: nowhere.
    pub fn host_store(self, store: Arc<dyn HostStore>) -> Self {
        self.gated(|gate| gate.host_store(store))
    }

    /// Where permissions are kept between fetches. Default: nowhere.
    ///
    /// With a store, a 304 comes with the last known rules (draft-illyes-repext-03 §3.1.4: they "MUST continue to be honored"),
    /// and so does a page whose head was not read this time. A 304 of another version than the recorded one is unknown: its ETag and
    /// Last-Modified are compared, or else what the request asked for. A head that is scanned lazily is not kept.
    pub fn permission_store(self, store: Arc<dyn PermissionStore>) -> Self {
        self.shared(|crawler| crawler.permission_store(store))
    }

    /// Signs every request, each hop by itself, robots.txt included. Default: nothing is signed; some sites treat a signed crawler worse.
    #[cfg(feature = "identity")]
    pub fn sign_requests(self, identity: abide_identity::WebBotAuth) -> Self {
        self.shared(|crawler| crawler.sign_requests(identity))
    }

    /// What may be paid for pages. Default: nothing, whatever a server asks for.
    pub fn payment(self, policy: PaymentPolicy) -> Self {
        self.shared(|crawler| crawler.payment(policy))
    }

    /// Where tokens of licences come from: `find` gets the URL and the parameters of a `WWW-Authenticate: License` (RSL, with 401 or 402). If it
    /// has a token, the request is sent once more with it, in its turn: [`CrawlerBuilder::license_tokens`](abide_http::CrawlerBuilder::license_tokens).
    pub fn license_tokens(
        self,
        find: impl Fn(&Url, &[(String, String)]) -> Option<LicenseToken> + Send + Sync + 'static,
    ) -> Self {
        self.shared(|crawler| crawler.license_tokens(find))
    }

    /// Hears of everything: of robots.txt, permits, decisions and refusals. Several may listen.
    pub fn observer(self, observer: Arc<dyn Fn(&Event<'_>) + Send + Sync>) -> Self {
        self.gated(|gate| gate.observer(observer))
    }

    /// Fetches URLs although robots.txt denies them, and only reports the denial, for link checkers of one's own pages. The verdict of each
    /// hop has the denial, and the reason given here. The rate limit stays, with the site's `Crawl-delay`.
    pub fn danger_report_only(self, why: &str) -> Self {
        self.shared(|crawler| crawler.danger_report_only(why))
    }

    /// The transport of robots.txt. Default: a clone of the client that we build.
    pub fn fetch(mut self, fetch: Arc<dyn Fetch>) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// The clock. Default: the machine's.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        self.gated(|gate| gate.clock(clock))
    }

    /// A client with the whole middleware, built from `inner`.
    ///
    /// The User-Agent of `inner` is replaced by that of [`user_agent`](Self::user_agent), or by the product token if none was given.
    /// What else changes on `inner` is listed at [`build_with`](Self::build_with).
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_client(self, inner: reqwest::ClientBuilder) -> Result<ClientWithMiddleware, BuildError> {
        let (abide, inner) = self.build_with(inner)?;
        Ok(abide.wrap(inner))
    }

    /// The crawler and its inner client, for middleware chains of your own: [`Abide::wrap`], or [`Abide::gate`] and
    /// [`Abide::pacing`] with a cache between them.
    ///
    /// reqwest's builder cannot be asked what it was told, so what abide must know is said to abide's:
    ///
    /// | on `inner` | becomes |
    /// | --- | --- |
    /// | `redirect`, `retry` | off: abide follows redirects, and one permit is one request |
    /// | `user_agent` | that of [`user_agent`](Self::user_agent) |
    /// | `dns_resolver` | that of [`resolver`](Self::resolver), guarded |
    /// | `connect_timeout` | that of [`connect_timeout`](Self::connect_timeout) |
    /// | `gzip` and the other codings | off: they would drop what follows the first gzip member of a robots.txt. abide decodes pages itself ([`decode`](Self::decode)) |
    ///
    /// What else is set on `inner` stays, and holds for robots.txt, too:
    ///
    /// * `timeout` counts for each hop by itself; [`timeout`](Self::timeout) is that of a whole call.
    /// * `default_headers` go to every host and with robots.txt. No credentials there, and no `Host`: the site that answers would not be the one
    ///   whose rules are known. An `Accept-Encoding` there is replaced.
    /// * A cookie jar keeps what robots.txt sets. As soon as any response has set a cookie, robots.txt is asked for with an empty `Cookie`, which
    ///   goes before the jar's. A jar that is filled beforehand sends its cookies with robots.txt until then.
    /// * `resolve` goes past the address guard; use [`resolve`](Self::resolve).
    /// * An http, https or socks5h proxy, also one of the environment, or a `unix_socket` resolves the names of sites itself, past the address guard: only literal
    ///   addresses are refused then. The name of the proxy is resolved and guarded here: one with a private address needs
    ///   [`allow_net`](Self::allow_net), one that is written as an address does not. `no_proxy` keeps the environment out.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with(
        mut self,
        inner: reqwest::ClientBuilder,
    ) -> Result<(Abide, reqwest::Client), BuildError> {
        let client = self.inner_client(inner)?;
        let has_cookies = Arc::new(AtomicBool::new(false));
        let fetch: Arc<dyn Fetch> = match self.fetch.take() {
            Some(fetch) => fetch,
            None => Arc::new(ReqwestFetch {
                client: client.clone(),
                user_agent: self.crawler.checked_user_agent()?,
                addresses: self.crawler.gate_settings().address_guard().clone(),
                has_cookies: Arc::clone(&has_cookies),
            }),
        };
        Ok((self.finish(fetch, has_cookies)?, client))
    }

    /// The crawler alone, for a client of your own. robots.txt is fetched by a client that is built for it.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(mut self) -> Result<Abide, BuildError> {
        // The codings of its pages are the client's own.
        self.decodes = false;
        match self.fetch.take() {
            Some(fetch) => self.finish(fetch, Arc::default()),
            None => Ok(self.build_with(reqwest::Client::builder())?.0),
        }
    }

    fn gated(self, change: impl FnOnce(GateBuilder) -> GateBuilder) -> Self {
        self.shared(|crawler| crawler.gate(change))
    }

    fn shared(mut self, change: impl FnOnce(CrawlerBuilder) -> CrawlerBuilder) -> Self {
        self.crawler = change(self.crawler);
        self
    }

    fn resolver_of_all(&self) -> Arc<GuardedResolver> {
        let addresses = Arc::new(self.crawler.gate_settings().address_guard().clone());
        Arc::new(GuardedResolver::new(self.fixed_names.clone(), Arc::clone(&self.resolver), addresses))
    }

    fn inner_client(&self, inner: reqwest::ClientBuilder) -> Result<reqwest::Client, BuildError> {
        inner
            .redirect(reqwest::redirect::Policy::none())
            .retry(never_again())
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .dns_resolver(self.resolver_of_all())
            .connect_timeout(self.connect_timeout)
            .build()
            .map_err(|error| BuildError::Client(error.into()))
    }

    fn finish(self, fetch: Arc<dyn Fetch>, has_cookies: Arc<AtomicBool>) -> Result<Abide, BuildError> {
        let core = Core {
            resolver: self.resolver_of_all(),
            crawler: self.crawler.build(fetch)?,
            read_timeout: Some(self.read_timeout).filter(|&limit| limit < Duration::MAX),
            decodes: self.decodes,
            has_cookies,
            has_pacing_half: AtomicBool::new(false),
        };
        Ok(Abide { core: Arc::new(core) })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("crawler", &self.crawler).finish_non_exhaustive()
    }
}

/// The name as it stands in a parsed URL: ASCII, lower case, without trailing dot.
fn canonical(name: &str) -> String {
    let parsed = url::Host::parse(name).map_or_else(|_| name.to_ascii_lowercase(), |host| host.to_string());
    parsed.trim_end_matches('.').to_owned()
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
