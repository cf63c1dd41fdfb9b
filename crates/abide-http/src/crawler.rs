//! What all calls of a crawler share: its identity, its gate and its settings, whatever client it uses; and
//! the options of one request.
//!
//! The builders of `abide` and `abide-tower` build one, and have no settings besides it: two clients of one
//! crawler cannot differ in what they obey.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use thiserror::Error;

use crate::body::BoxError;
use crate::challenge::{AnswerChallenge, SignWhenAsked};
use crate::fetch_info::with_site;
use crate::identity::Identity;
use crate::reader::Scan;
use crate::redirect::RedirectPolicy;
use crate::tdmrep::{OnUnknown, Tdmrep, TdmrepCache};
use abide_gate::robots_cache::Fetch;
use abide_gate::{
    Denied, DeniedKind, Gate, GateBuilder, Origin, Refusal, SignRequest, Verdict, lacks_timers,
};
use abide_permissions::{PermissionStore, Preferences, ReadOptions, Usage};
use abide_robots::{InvalidText, ProductToken};
use url::Url;

/// What all calls of one crawler share.
///
/// ```
/// use abide_http::{BuildError, Crawler};
///
/// fn crawler(fetch: impl abide_gate::robots_cache::Fetch) -> Result<Crawler, BuildError> {
///     Crawler::builder("ExampleBot").user_agent("ExampleBot/1.0 (+https://example.com/bot)").build(std::sync::Arc::new(fetch))
/// }
/// ```
#[derive(Debug)]
pub struct Crawler {
    pub(crate) gate: Gate,
    pub(crate) identity: Identity,
    pub(crate) settings: CallSettings,
    /// None: tdmrep.json is not fetched.
    pub(crate) tdmrep: Option<Arc<TdmrepCache>>,
}

/// What calls go by, besides the gate and the options of their own.
#[derive(Clone, Debug)]
pub(crate) struct CallSettings {
    pub(crate) read: ReadOptions,
    pub(crate) scan: Scan,
    /// Where permissions are kept between fetches. A head that is scanned lazily is not kept.
    pub(crate) permissions: Option<Arc<dyn PermissionStore>>,
    pub(crate) redirects: RedirectPolicy,
    /// It sends requests for files about sites only, and those are no calls of the user's.
    pub(crate) is_of_a_file: bool,
    /// What the pages are for.
    pub(crate) purpose: Option<Usage>,
    pub(crate) report_only: Option<Arc<str>>,
    /// In the order in which they are asked, but for signing, which goes first.
    pub(crate) challenges: Vec<Arc<dyn AnswerChallenge>>,
}

impl Default for CallSettings {
    fn default() -> Self {
        Self {
            read: ReadOptions::for_tokens([]),
            scan: Scan::Eager,
            permissions: None,
            redirects: RedirectPolicy::default(),
            is_of_a_file: false,
            purpose: None,
            report_only: None,
            challenges: Vec::new(),
        }
    }
}

impl CallSettings {
    /// For a file that says something about its site, and is no page.
    fn of_a_file(challenges: Vec<Arc<dyn AnswerChallenge>>) -> Self {
        Self {
            is_of_a_file: true,
            scan: Scan::Off,
            redirects: RedirectPolicy::of_a_file(),
            challenges,
            ..Self::default()
        }
    }
}

impl Crawler {
    /// The settings of a crawler with this product token: `[A-Za-z_-]+` (RFC 9309 §2.2.1).
    pub fn builder(token: &str) -> CrawlerBuilder {
        CrawlerBuilder {
            token: token.to_owned(),
            fallbacks: Vec::new(),
            rules_of: Vec::new(),
            user_agent: None,
            gate: GateBuilder::new(),
            policies: Vec::new(),
            signer: None,
            tdmrep: None,
            settings: CallSettings::default(),
        }
    }

    /// The gate: robots.txt and rate limits.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Checks whether `url` may be fetched: its robots.txt, and what the pages are
    /// [for](CrawlerBuilder::purpose). This may fetch robots.txt, and the tdmrep.json that [is
    /// fetched](CrawlerBuilder::fetch_tdmrep), never `url`, and acquires no permit for it. `left` is how long
    /// this may wait for permits of these files. The wait is taken from it.
    ///
    /// # Errors
    /// A refusal that is not a verdict of robots.txt: an unsupported URL, a refused address, a file that was
    /// deferred, a use that the site disallows.
    pub async fn check(&self, url: &Url, left: &mut Duration) -> Result<Verdict, Denied> {
        let (verdict, tdmrep) = self.check_files(url, left).await?;
        match self.purpose_refusal(&verdict, &tdmrep, url).filter(|_| verdict.is_allowed()) {
            Some(denied) => Err(denied),
            None => Ok(verdict),
        }
    }

    /// The verdict of robots.txt, and what is known of tdmrep.json before a page that may be fetched.
    pub(crate) async fn check_files(
        &self,
        url: &Url,
        left: &mut Duration,
    ) -> Result<(Verdict, Tdmrep), Denied> {
        let verdict = self.gate.check(url, left).await?;
        let tdmrep = match &self.tdmrep {
            Some(cache) if verdict.is_allowed() => cache.before(&verdict, url, left).await?,
            other => other.as_ref().map_or(Tdmrep::NotFetched, |_| Tdmrep::Unknown),
        };
        Ok((verdict, tdmrep))
    }

    /// Why `url` is not requested for what the pages are for: robots.txt or tdmrep.json disallow it. `None`
    /// where no purpose is declared, and where they allow it, state nothing, or are unknown.
    pub(crate) fn purpose_refusal(&self, verdict: &Verdict, tdmrep: &Tdmrep, url: &Url) -> Option<Denied> {
        let usage = self.settings.purpose.as_ref()?;
        let answer = with_site(Preferences::new(&self.settings.read), verdict, tdmrep, url).answer(usage);
        let source = answer.sources().first().filter(|_| answer.is_disallowed())?;
        let (usage, source) = (usage.to_string().into(), source.to_string().into());
        Some(self.gate.deny(DeniedKind::Purpose { usage, source }, url))
    }

    /// Whether what stands before a site has answered in its place, as far as the head shows.
    pub(crate) fn refusal_in_head(&self, status: StatusCode, headers: &HeaderMap) -> Option<Refusal> {
        if self.gate.trusts_status() { None } else { Refusal::in_head(status, headers) }
    }

    /// The User-Agent of every request.
    pub fn user_agent(&self) -> &HeaderValue {
        &self.identity.user_agent
    }
}

/// Settings of a crawler that do not depend on the HTTP client. The default is the polite choice.
///
/// ```
/// let settings = abide_http::Crawler::builder("ExampleBot-News").fallback("ExampleBot").scan(abide_http::Scan::Headers);
/// assert_eq!(settings.checked_user_agent()?, "ExampleBot-News");
/// # Ok::<(), abide_http::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CrawlerBuilder {
    token: String,
    fallbacks: Vec<String>,
    rules_of: Vec<String>,
    user_agent: Option<String>,
    gate: GateBuilder,
    policies: Vec<(String, Usage, bool)>,
    /// Apart from the gate's settings, which may be replaced by others afterwards.
    signer: Option<Arc<dyn SignRequest>>,
    tdmrep: Option<OnUnknown>,
    settings: CallSettings,
}

impl CrawlerBuilder {
    /// Adds a further product token, such as `ExampleBot` after `ExampleBot-News`. In a robots.txt, the first
    /// token that has a group counts; for permissions, every token counts.
    pub fn fallback(mut self, token: &str) -> Self {
        self.fallbacks.push(token.to_owned());
        self
    }

    /// Goes by the rules of robots.txt for other crawlers than this one, which still sends its own name: the
    /// first of these tokens that has a group counts. For tools that ask what a site allows others; a crawler
    /// that fetches pages with this setting breaks the rules that are meant for it.
    pub fn danger_rules_of(mut self, token: &str) -> Self {
        self.rules_of.push(token.to_owned());
        self
    }

    /// The User-Agent of every request that has none. It must contain the first product token (RFC 9309
    /// §2.2.1). Default: that token.
    pub fn user_agent(self, header: &str) -> Self {
        Self { user_agent: Some(header.to_owned()), ..self }
    }

    /// How robots.txt is fetched, how hosts are rate-limited, which addresses may be contacted, and where
    /// that is stored.
    pub fn gate(self, change: impl FnOnce(GateBuilder) -> GateBuilder) -> Self {
        Self { gate: change(self.gate), ..self }
    }

    /// What [`gate`](Self::gate) has changed so far.
    pub fn gate_settings(&self) -> &GateBuilder {
        &self.gate
    }

    /// How permissions are read. Default: [`Scan::Eager`].
    pub fn scan(mut self, scan: Scan) -> Self {
        self.settings.scan = scan;
        self
    }

    /// Limits and strictness of reading permissions. The crawler's product tokens replace those of `options`.
    pub fn read_options(mut self, options: ReadOptions) -> Self {
        self.settings.read = options;
        self
    }

    /// Adds a policy token: if a group of robots.txt names `token` and disallows a URL, the content must not
    /// be used in this way. It never decides whether the URL is fetched. With `fallback`, the `*` group
    /// counts where no group names the token. The result is part of
    /// [`FetchInfo::preferences`](crate::FetchInfo::preferences).
    pub fn policy_token(mut self, token: &str, usage: Usage, fallback: bool) -> Self {
        self.policies.push((token.to_owned(), usage, fallback));
        self
    }

    /// Fetches the `/.well-known/tdmrep.json` of a site before its first page, as a page is fetched: checked
    /// against robots.txt, rate-limited, each of at most 5 redirects checked, at most 512,000 bytes. It is
    /// kept in memory for at most 24 hours, or for three of the host's delays if these are longer. 404 and
    /// 410 mean that there is none. If it can't be fetched, the last good copy applies, and it is tried again
    /// after 1 minute, doubling to 1 hour; without a copy, the preferences are unknown. Off by default.
    pub fn fetch_tdmrep(self) -> Self {
        Self { tdmrep: Some(OnUnknown::Go), ..self }
    }

    /// Like [`fetch_tdmrep`](Self::fetch_tdmrep), and refuses pages of a site whose tdmrep.json is unknown:
    /// [`DeniedKind::TdmrepUnknown`](abide_gate::DeniedKind::TdmrepUnknown).
    pub fn require_tdmrep(self) -> Self {
        Self { tdmrep: Some(OnUnknown::Refuse), ..self }
    }

    /// Declares what the pages are for, such as [`Usage::TrainAi`]. A URL for which robots.txt, or the
    /// tdmrep.json that [is fetched](Self::fetch_tdmrep), disallows that use is not requested:
    /// [`DeniedKind::Purpose`](abide_gate::DeniedKind::Purpose). Where they are unset or unknown, it is,
    /// because the response may say more:
    /// then ask [`FetchInfo::allows_purpose`](crate::FetchInfo::allows_purpose), which unites all places.
    /// Default: none.
    pub fn purpose(mut self, usage: Usage) -> Self {
        self.settings.purpose = Some(usage);
        self
    }

    /// Where permissions are kept between fetches, so that a 304 has the last known rules. Default: nowhere.
    pub fn permission_store(mut self, store: Arc<dyn PermissionStore>) -> Self {
        self.settings.permissions = Some(store);
        self
    }

    /// How page redirects are followed. Default: 10 hops. `abide-tower` follows none.
    pub fn redirects(mut self, policy: RedirectPolicy) -> Self {
        self.settings.redirects = policy;
        self
    }

    /// Signs every request, robots.txt and each redirect hop included, for instance with a `WebBotAuth` of
    /// `abide-identity`. Default: off, because some sites treat a signed crawler worse.
    pub fn sign_requests(self, signer: impl SignRequest + 'static) -> Self {
        Self { signer: Some(Arc::new(signer)), ..self }
    }

    /// Adds a hook that answers what servers ask for, such as a `PaymentPolicy` or `LicenseTokens` of
    /// `abide-identity`. The hooks are asked in the order in which they were added, for signatures first.
    /// Default: none.
    pub fn answer_challenges(mut self, hook: impl AnswerChallenge + 'static) -> Self {
        self.settings.challenges.push(Arc::new(hook));
        self
    }

    /// Fetches URLs although robots.txt denies them, and only reports the denial: for checking links of your
    /// own pages. The verdict of each hop has the denial and the reason `why`. The rate limit and the site's
    /// `Crawl-delay` stay.
    pub fn danger_report_only(mut self, why: &str) -> Self {
        self.settings.report_only = Some(why.into());
        self
    }

    /// The User-Agent of every request, for the transport of robots.txt.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn checked_user_agent(&self) -> Result<HeaderValue, BuildError> {
        Ok(self.identity()?.user_agent)
    }

    fn identity(&self) -> Result<Identity, BuildError> {
        Identity::new(&self.token, &self.fallbacks, self.user_agent.as_deref())
    }

    /// Builds the crawler, with a transport for robots.txt.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(self, fetch: Arc<dyn Fetch>) -> Result<Crawler, BuildError> {
        // Now, and not when the first request must wait, perhaps hours later.
        if lacks_timers() {
            return Err(BuildError::NoTimers);
        }
        let identity = self.identity()?;
        let mut settings = self.settings;
        settings.read = settings.read.with_tokens(identity.tokens.iter().cloned());
        for (token, usage, fallback) in self.policies {
            let token = ProductToken::new(&token).map_err(BuildError::Token)?;
            settings.read = settings.read.with_policy_token(token, usage, fallback);
        }
        // Last, so that settings which were replaced after `sign_requests` are signed for as well.
        let gate = match self.signer {
            Some(signer) => self.gate.sign_requests(signer),
            None => self.gate,
        };
        let rules_of = self.rules_of.iter().map(|token| ProductToken::lenient(token));
        let rules_of = rules_of.collect::<Result<Vec<_>, _>>().map_err(BuildError::Token)?;
        let tokens = if rules_of.is_empty() { identity.tokens.clone() } else { rules_of };
        let gate = gate.build(tokens, Arc::clone(&fetch));
        let signs: Option<Arc<dyn AnswerChallenge>> =
            gate.signer().map(|signer| Arc::new(SignWhenAsked(Arc::clone(signer))) as _);
        settings.challenges.splice(0..0, signs.clone());
        let tdmrep = self.tdmrep.map(|on_unknown| {
            let settings = CallSettings::of_a_file(signs.into_iter().collect());
            let crawler = Crawler { gate: gate.clone(), identity: identity.clone(), settings, tdmrep: None };
            Arc::new(TdmrepCache::new(crawler, fetch, on_unknown))
        });
        Ok(Crawler { gate, identity, settings, tdmrep })
    }
}

/// The crawler could not be built. Nothing has been sent.
///
/// ```
/// let settings = abide_http::Crawler::builder("ExampleBot").user_agent("Mozilla/5.0");
/// match settings.checked_user_agent().unwrap_err() {
///     abide_http::BuildError::UserAgent { token, .. } => assert_eq!(token, "ExampleBot", "the User-Agent must contain it"),
///     error => panic!("{error}"),
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A product token is invalid.
    #[error("the product token cannot be used")]
    Token(#[source] InvalidText),
    /// The User-Agent does not contain the first product token, so a site could not tell whose rules to
    /// write.
    #[error(
        "expected a User-Agent that contains the product token {token:?}, found {user_agent:?}; write it as \
         \"{token}/1.0 (+https://example.com/bot)\""
    )]
    UserAgent {
        /// The User-Agent given.
        user_agent: String,
        /// The first product token.
        token: String,
    },
    /// The User-Agent is not a valid header value.
    #[error("expected a User-Agent of visible ASCII, found {user_agent:?}")]
    UserAgentField {
        /// The User-Agent given.
        user_agent: String,
    },
    /// The current tokio runtime has no timers, so no request could wait for a permit. Outside of a runtime,
    /// this is only detected by the first request that must wait:
    /// [`DeniedKind::NoTimers`](abide_gate::DeniedKind::NoTimers).
    #[error(
        "expected a tokio runtime with timers, found none; call enable_time or enable_all on tokio::runtime::Builder"
    )]
    NoTimers,
    /// The HTTP client could not be built.
    #[error("the inner client could not be built")]
    Client(#[source] BoxError),
}

/// Options of one request. Options that are not set are those of the crawler.
///
/// Set them with `RequestBuilderExt::abide`, or with `abide-tower` in the request's extensions.
///
/// ```
/// use std::time::Duration;
/// use abide_http::{Options, RedirectPolicy};
///
/// let patient = Options::new().with_max_wait(Duration::from_secs(300));
/// let manual = Options::new().with_redirects(RedirectPolicy::never());
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Options {
    pub(crate) max_wait: Option<Duration>,
    pub(crate) scan: Option<Scan>,
    pub(crate) redirects: Option<RedirectPolicy>,
    /// Origins, each with the reason.
    pub(crate) ignore_robots: Option<Vec<(Origin, Arc<str>)>>,
}

impl Options {
    /// The crawler's own settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long this call may wait for permits, all hops together. A call that would wait longer is deferred
    /// at once.
    pub fn with_max_wait(self, wait: Duration) -> Self {
        Self { max_wait: Some(wait), ..self }
    }

    /// How the permissions of this response are read.
    pub fn with_scan(self, scan: Scan) -> Self {
        Self { scan: Some(scan), ..self }
    }

    /// How redirects of this request are followed. `abide-tower` follows none.
    pub fn with_redirects(self, policy: RedirectPolicy) -> Self {
        Self { redirects: Some(policy), ..self }
    }

    /// Ignores the robots.txt of `origin`, for the reason `why`, for instance on your own site. Repeated, of
    /// several origins.
    ///
    /// Each such request is logged and counted, and its verdict names the reason. Other origins are checked
    /// as always, also after a redirect, and the rate limit stays.
    pub fn danger_ignore_robots(self, origin: Origin, why: &str) -> Self {
        let mut ignored = self.ignore_robots.unwrap_or_default();
        ignored.push((origin, why.into()));
        Self { ignore_robots: Some(ignored), ..self }
    }

    /// Fills options that are not set from `others`.
    pub fn or(self, others: Self) -> Self {
        Self {
            max_wait: self.max_wait.or(others.max_wait),
            scan: self.scan.or(others.scan),
            redirects: self.redirects.or(others.redirects),
            ignore_robots: self.ignore_robots.or(others.ignore_robots),
        }
    }
}
