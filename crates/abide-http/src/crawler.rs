//! What all calls of a crawler share: its identity, its gate and its settings, whatever client it uses; and the options of one request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use crate::identity::Identity;
use crate::license::{LicenseToken, LicenseTokens};
use crate::payment::PaymentPolicy;
use crate::reader::{Reader, Scan};
use crate::redirect::RedirectPolicy;
use abide_gate::robots_cache::Fetch;
use abide_gate::{Gate, GateBuilder, Origin, SignRequest, lacks_timers};
use abide_permissions::{PermissionStore, ReadOptions, Usage};
use abide_robots::{InvalidText, ProductToken};
use url::Url;

/// What all calls of one crawler share.
#[derive(Debug)]
pub struct Crawler {
    pub(crate) gate: Gate,
    pub(crate) identity: Identity,
    pub(crate) reader: Reader,
    pub(crate) redirects: RedirectPolicy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) report_only: Option<Arc<str>>,
    pub(crate) payment: Option<PaymentPolicy>,
    pub(crate) license: Option<LicenseTokens>,
}

impl Crawler {
    /// The settings of a crawler with this product token: `[A-Za-z_-]+` (RFC 9309 §2.2.1).
    pub fn builder(token: &str) -> CrawlerBuilder {
        CrawlerBuilder {
            token: token.to_owned(),
            fallbacks: Vec::new(),
            user_agent: None,
            gate: GateBuilder::new(),
            redirects: RedirectPolicy::default(),
            timeout: None,
            scan: Scan::Eager,
            read: ReadOptions::for_tokens([]),
            policies: Vec::new(),
            permission_store: None,
            report_only: None,
            payment: None,
            license: None,
            signer: None,
        }
    }

    /// Its gate: robots.txt and rate limits.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The User-Agent that is sent.
    pub fn user_agent(&self) -> &HeaderValue {
        &self.identity.user_agent
    }
}

/// The settings that crawlers have in common, whatever their client. The default is the polite choice.
#[derive(Clone)]
#[must_use]
pub struct CrawlerBuilder {
    token: String,
    fallbacks: Vec<String>,
    user_agent: Option<String>,
    gate: GateBuilder,
    redirects: RedirectPolicy,
    timeout: Option<Duration>,
    scan: Scan,
    read: ReadOptions,
    policies: Vec<(String, Usage, bool)>,
    permission_store: Option<Arc<dyn PermissionStore>>,
    report_only: Option<Arc<str>>,
    payment: Option<PaymentPolicy>,
    license: Option<LicenseTokens>,
    /// Apart from the gate's settings, which may be replaced by others afterwards.
    signer: Option<Arc<dyn SignRequest>>,
}

impl CrawlerBuilder {
    /// A further product token. The first token of the chain that has a group in a robots.txt counts there (`ExampleBot-News`, then
    /// `ExampleBot`). For permissions every token of the chain counts.
    pub fn fallback(mut self, token: &str) -> Self {
        self.fallbacks.push(token.to_owned());
        self
    }

    /// The User-Agent of every request that has none. It must contain the first product token (RFC 9309 §2.2.1). Default: that token.
    pub fn user_agent(mut self, header: &str) -> Self {
        self.user_agent = Some(header.to_owned());
        self
    }

    /// How robots.txt is fetched, how hosts are rate-limited, which addresses may be contacted, and where that is stored.
    pub fn gate(mut self, change: impl FnOnce(GateBuilder) -> GateBuilder) -> Self {
        self.gate = change(self.gate);
        self
    }

    /// What [`gate`](Self::gate) has changed so far.
    pub fn gate_settings(&self) -> &GateBuilder {
        &self.gate
    }

    /// How redirects are followed. Default: 10 hops.
    pub fn redirects(mut self, policy: RedirectPolicy) -> Self {
        self.redirects = policy;
        self
    }

    /// How long a call may be on the wire, all hops together, unless the call says so itself. Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How permissions are read. Default: [`Scan::Eager`].
    pub fn scan(mut self, scan: Scan) -> Self {
        self.scan = scan;
        self
    }

    /// Limits and strictness of reading permissions. Its tokens are replaced by the crawler's own.
    pub fn read_options(mut self, options: ReadOptions) -> Self {
        self.read = options;
        self
    }

    /// A policy token: a group of robots.txt that names `token` and disallows a URL says that its content is not to be used so. It never
    /// decides whether the URL is fetched. With `fallback` the `*` group counts where no group names the token. The copy that is asked is
    /// the one that let the request out, and the answer a statement of [`FetchInfo::preferences`](crate::FetchInfo::preferences).
    pub fn policy_token(mut self, token: &str, usage: Usage, fallback: bool) -> Self {
        self.policies.push((token.to_owned(), usage, fallback));
        self
    }

    /// Where permissions are kept between fetches, so that a 304 comes with the last known rules. Default: nowhere.
    pub fn permission_store(mut self, store: Arc<dyn PermissionStore>) -> Self {
        self.permission_store = Some(store);
        self
    }

    /// Signs every request, each hop by itself, robots.txt included. Default: nothing is signed; some sites treat a signed crawler worse.
    #[cfg(feature = "identity")]
    pub fn sign_requests(mut self, identity: abide_identity::WebBotAuth) -> Self {
        self.signer = Some(Arc::new(crate::web_bot_auth::Signing(identity)));
        self
    }

    /// What may be paid for pages. Default: nothing, whatever a server asks for.
    pub fn payment(mut self, policy: PaymentPolicy) -> Self {
        self.payment = Some(policy);
        self
    }

    /// Where tokens of licences come from: `find` gets the URL and the parameters of the challenge of a 401 or 402 (RSL,
    /// `WWW-Authenticate: License`). If it has a token, the request is sent once more with `Authorization: License`, checked and paced like any
    /// other, once in a call and over https alone. Redirects within the origin keep the token. Never sent with robots.txt. Default: none.
    pub fn license_tokens(
        mut self,
        find: impl Fn(&Url, &[(String, String)]) -> Option<LicenseToken> + Send + Sync + 'static,
    ) -> Self {
        self.license = Some(LicenseTokens::new(find));
        self
    }

    /// Fetches URLs although robots.txt denies them, and only reports the denial: the verdict of each hop has it, and the reason given
    /// here. For link checkers of one's own pages. The rate limit stays, with the site's `Crawl-delay`.
    pub fn danger_report_only(mut self, why: &str) -> Self {
        self.report_only = Some(why.into());
        self
    }

    /// The User-Agent that will be sent: for the transport of robots.txt.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn checked_user_agent(&self) -> Result<HeaderValue, BuildError> {
        Ok(self.identity()?.user_agent)
    }

    fn identity(&self) -> Result<Identity, BuildError> {
        Identity::new(&self.token, &self.fallbacks, self.user_agent.as_deref())
    }

    /// The crawler, with a transport for robots.txt.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(self, fetch: Arc<dyn Fetch>) -> Result<Crawler, BuildError> {
        if lacks_timers() {
            return Err(BuildError::NoTimers);
        }
        let identity = self.identity()?;
        let tokens = identity.tokens.clone();
        let mut read = self.read.with_tokens(tokens.iter().cloned());
        for (token, usage, fallback) in self.policies {
            let token = ProductToken::new(&token).map_err(BuildError::Token)?;
            read = read.with_policy_token(token, usage, fallback);
        }
        let gate = match self.signer {
            Some(signer) => self.gate.sign_requests(signer),
            None => self.gate,
        };
        Ok(Crawler {
            identity,
            gate: gate.build(tokens, fetch),
            reader: Reader { options: read, scan: self.scan, store: self.permission_store },
            redirects: self.redirects,
            timeout: self.timeout,
            report_only: self.report_only,
            payment: self.payment,
            license: self.license,
        })
    }
}

impl fmt::Debug for CrawlerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrawlerBuilder")
            .field("token", &self.token)
            .field("gate", &self.gate)
            .field("scan", &self.scan)
            .finish_non_exhaustive()
    }
}

/// The crawler could not be built. Nothing has been sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A product token is invalid.
    Token(InvalidText),
    /// The User-Agent does not contain the first product token, so a site could not tell whose rules to write.
    UserAgent {
        /// The User-Agent given.
        user_agent: String,
        /// The first product token.
        token: String,
    },
    /// The User-Agent cannot stand in a header field.
    UserAgentField {
        /// The User-Agent given.
        user_agent: String,
    },
    /// The runtime that this was called in has no timers, so nothing could ever wait for a permit. Outside of a runtime the first request
    /// that must wait says so, with [`DeniedKind::NoTimers`](abide_gate::DeniedKind::NoTimers).
    NoTimers,
    /// The HTTP client could not be built.
    Client(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("the product token cannot be used"),
            Self::UserAgent { user_agent, token } => write!(
                f,
                "expected a User-Agent that contains the product token {token:?}, found {user_agent:?}; write it as \
                 \"{token}/1.0 (+https://example.com/bot)\""
            ),
            Self::UserAgentField { user_agent } => {
                write!(f, "expected a User-Agent of visible ASCII, found {user_agent:?}")
            }
            Self::NoTimers => f.write_str(
                "expected a tokio runtime with timers, found none; call enable_time or enable_all on tokio::runtime::Builder",
            ),
            Self::Client(_) => f.write_str("the inner client could not be built"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Token(error) => Some(error),
            Self::Client(error) => Some(&**error),
            Self::UserAgent { .. } | Self::UserAgentField { .. } | Self::NoTimers => None,
        }
    }
}

/// Options of one request. What they leave open is as the crawler's builder says.
///
/// With `abide` they are set through `RequestBuilderExt::abide`, with `abide-tower` in the request's extensions.
///
/// ```
/// use std::time::Duration;
/// use abide_http::{Options, RedirectPolicy};
///
/// let patient = Options::new().with_max_wait(Duration::from_secs(300));
/// let manual = Options::new().with_redirects(RedirectPolicy::never());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(crate) max_wait: Option<Duration>,
    pub(crate) scan: Option<Scan>,
    pub(crate) redirects: Option<RedirectPolicy>,
    pub(crate) ignore_robots: Option<(Origin, Arc<str>)>,
}

impl Options {
    /// The crawler's own settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long this call may wait for permits, all hops together. A longer wait is deferred at once.
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

    /// How redirects of this request are followed. `abide-tower` follows none.
    #[must_use]
    pub fn with_redirects(mut self, policy: RedirectPolicy) -> Self {
        self.redirects = Some(policy);
        self
    }

    /// Sends requests to `origin` whatever its robots.txt says, for the reason given, for instance on your own site.
    ///
    /// Logged and counted; the verdict names the reason. Other origins are checked as always, also when a redirect leads there, and the
    /// rate limit stays.
    #[must_use]
    pub fn danger_ignore_robots(mut self, origin: Origin, why: &str) -> Self {
        self.ignore_robots = Some((origin, why.into()));
        self
    }

    /// These, and those of `others` that are left open here.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            max_wait: self.max_wait.or(others.max_wait),
            scan: self.scan.or(others.scan),
            redirects: self.redirects.or(others.redirects),
            ignore_robots: self.ignore_robots.or(others.ignore_robots),
        }
    }
}
