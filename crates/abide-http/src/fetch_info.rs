//! What a response carries: the hops that led to it, verdicts, waits and permissions. Attached to its extensions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, StatusCode};
use tokio::sync::watch;
use url::Url;

use crate::payment::PaymentTerms;
use crate::permission_history::StoredPermissions;
use crate::reader::Fields;
use abide_gate::Verdict;
use abide_permissions::{
    AppDirectives, Head, HeadEnd, Permissions, Preference, Preferences, Provenance, ReadOptions, Usage,
    license_challenge, licenses,
};
use abide_robots::Target;

/// The way to one response. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FetchInfo {
    inner: Arc<Inner>,
}

/// What a fetch found out.
#[derive(Debug)]
struct Inner {
    read: ReadOptions,
    history: RedirectHistory,
    fields: Fields,
    outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Known(Permissions),
    /// With what earlier fetches have stored.
    Stored(Box<StoredPermissions>),
    /// Nothing but the reason why no head was looked at: no field says anything.
    Nothing(HeadEnd),
    /// The header's part is known; the head comes with the body.
    Later(watch::Receiver<Option<Head>>),
}

impl FetchInfo {
    pub(crate) fn new(read: ReadOptions, history: RedirectHistory, fields: Fields, outcome: Outcome) -> Self {
        Self { inner: Arc::new(Inner { read, history, fields, outcome }) }
    }

    /// The fetch info that [`Call::finish`](crate::Call::finish) attached to a response.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Every request that went out, first to last.
    pub fn hops(&self) -> &[Hop] {
        self.inner.history.hops()
    }

    /// The verdict that let the last hop out.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.inner.history.last().map(Hop::verdict)
    }

    /// What the response says of payment: the price that a 402 asks for, or what was charged. Nothing is ever paid without a
    /// [`PaymentPolicy`](crate::PaymentPolicy).
    pub fn payment(&self) -> Option<&PaymentTerms> {
        self.inner.history.last().and_then(Hop::payment)
    }

    /// How long this call waited for its permits, all hops together. Outside of reqwest's timeouts.
    pub fn waited(&self) -> Duration {
        self.inner.history.waited()
    }

    /// Why a 3xx was returned and not followed; `None` when the answer is no redirect.
    pub fn stopped(&self) -> Option<Stopped> {
        self.inner.history.stopped()
    }

    /// What the site permits you to do with this response, as far as is known now.
    ///
    /// With [`Scan::Lazy`](crate::Scan::Lazy) the head's part is missing until the body has been read that far.
    pub fn permissions(&self) -> Permissions {
        let Inner { read, fields, outcome, .. } = &*self.inner;
        match outcome {
            Outcome::Known(permissions) => Permissions::clone(permissions),
            Outcome::Stored(known) => known.permissions.clone(),
            Outcome::Nothing(reason) => fields.permissions(read, Head::not_scanned(*reason)),
            Outcome::Later(head) => {
                let head = head.borrow().clone().unwrap_or_else(|| Head::not_scanned(HeadEnd::NotScanned));
                fields.permissions(read, head)
            }
        }
    }

    /// What the site asks of those who *use* the content: AI training, search, text and data mining.
    ///
    /// From the robots.txt that let the last hop out, as it was then (draft-ietf-aipref-attach: "the copy of robots.txt that is
    /// current at the time of the fetch"), from the response's own fields, and from the metas of its head. Preferences never
    /// decide whether something may be fetched.
    ///
    /// ```
    /// use abide_permissions::{Preference, Usage};
    /// # fn may_train(info: &abide_http::FetchInfo) -> bool {
    /// info.preferences().resolve(&Usage::TrainAi) != Preference::Disallow
    /// # }
    /// ```
    pub fn preferences(&self) -> Preferences {
        let hop = self.inner.history.last();
        let target = hop.map(|hop| Target::of(hop.url()));
        let file = hop.and_then(|hop| hop.verdict().tdmrep()).zip(target.as_ref());
        let is_unknown = hop.is_some_and(|hop| hop.verdict().is_tdmrep_unknown());
        if let Outcome::Stored(known) = &self.inner.outcome {
            let known = known.preferences.clone();
            // What fields and metas of the page said supersedes the file.
            let is_stated = known.resolve(&Usage::Tdm) != Preference::Unknown;
            let known = if is_stated { known } else { known.with_tdm(file, [], &[]) };
            return if is_unknown { known.with_unread_sources() } else { known };
        }
        let permissions = self.permissions();
        let own = self.inner.fields.preferences(&self.inner.read, permissions.metas(), file);
        let is_complete = permissions.is_complete() && !is_unknown;
        let own = if is_complete { own } else { own.with_unread_sources() };
        match hop {
            Some(hop) => with_robots(own, hop),
            None => own,
        }
    }

    /// Where the site states licence terms for the content (RSL 1.0): in the robots.txt that let the last hop out, in `Link` fields, in
    /// the head. Only the URLs, as written, each with its place; fetching and reading the documents is yours.
    pub fn licenses(&self) -> Vec<(Box<str>, Provenance)> {
        let rules = self.rules_and_url().map(|(rules, _)| rules);
        licenses(rules, self.inner.fields.lines(), Some(self.permissions().head()))
    }

    /// The parameters of a `WWW-Authenticate: License` challenge, names in lower case: with 401 or 402 it says that the content is
    /// for licensees only. `None`: there is none.
    pub fn license_challenge(&self) -> Option<Vec<(String, String)>> {
        license_challenge(self.inner.fields.lines())
    }

    /// The App-Directives that robots.txt held for the last hop's URL when it was fetched (draft-nottingham-plan-b).
    pub fn app_directives(&self) -> Option<AppDirectives> {
        let (rules, url) = self.rules_and_url()?;
        Some(AppDirectives::of(rules, &Target::of(url)))
    }

    fn rules_and_url(&self) -> Option<(&abide_robots::Rules, &Url)> {
        let hop = self.inner.history.last()?;
        Some((hop.verdict().rules()?.rules(), hop.url()))
    }

    /// The permissions when the head has been seen to its end, or the body was dropped.
    ///
    /// Resolves at once unless [`Scan::Lazy`](crate::Scan::Lazy) is in use; then the caller must read or drop the body.
    pub fn settled(&self) -> impl Future<Output = Permissions> + Send + 'static + use<> {
        let info = self.clone();
        async move {
            if let Outcome::Later(head) = &info.inner.outcome {
                // A closed channel means that the body is gone; its last value still stands.
                let _ = head.clone().wait_for(Option::is_some).await;
            }
            info.permissions()
        }
    }
}

/// Adds what robots.txt prefers for a hop's URL: the very copy that let the request out.
pub(crate) fn with_robots(preferences: Preferences, hop: &Hop) -> Preferences {
    let (verdict, target) = (hop.verdict(), Target::of(hop.url()));
    let preferences = match verdict.rules() {
        Some(robots) => preferences.with_robots(robots.rules(), &target),
        None => preferences,
    };
    match verdict.entry().and_then(|entry| entry.copy()) {
        Some(copy) => preferences.with_policy_tokens(copy.body(), &target),
        None => preferences,
    }
}

/// The hops of one call, first to last, and why they ended.
///
/// `abide` leaves it in the *request's* extensions too when a call ends with an error: one of the network is the client's own, so
/// that a retry above can judge it, and cannot hold the hops before it. Middlewares above find it there.
#[derive(Debug, Clone, Default)]
pub struct RedirectHistory {
    hops: Vec<Hop>,
    stopped: Option<Stopped>,
    unanswered: Duration,
}

impl RedirectHistory {
    /// One more request has been answered. The caller that follows redirects bounds how many there are.
    #[inline]
    pub(crate) fn push(&mut self, hop: Hop) {
        if self.hops.is_empty() {
            // Most calls have one hop, and room for more is a large block.
            self.hops.reserve_exact(1);
        }
        self.hops.push(hop);
    }

    /// The last answer is a redirect that is not followed.
    pub(crate) fn stop(&mut self, stopped: Stopped) {
        self.stopped = Some(stopped);
    }

    /// The hops, first to last.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// The last hop.
    pub fn last(&self) -> Option<&Hop> {
        self.hops.last()
    }

    /// How long the call waited for its permits, those of requests that were never answered among them.
    pub fn waited(&self) -> Duration {
        self.hops.iter().map(Hop::waited).fold(self.unanswered, Duration::saturating_add)
    }

    /// The call has waited so long in all, and ends without an answer.
    pub(crate) fn ends_after(&mut self, waited: Duration) {
        self.unanswered = waited.saturating_sub(self.waited());
    }

    /// Why a 3xx was not followed.
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// What each hop answered.
    pub fn chain(&self) -> Vec<(Url, StatusCode)> {
        self.hops.iter().map(|hop| (hop.url.clone(), hop.status)).collect()
    }

    /// The last hop has redirected; these rules are for its own URL only.
    pub(crate) fn keep_rules(&mut self, permissions: Permissions) {
        if let Some(hop) = self.hops.last_mut() {
            hop.permissions = Some(Arc::new(permissions));
        }
    }
}

/// One request that went out.
#[derive(Debug, Clone)]
pub struct Hop {
    url: Url,
    status: StatusCode,
    verdict: Verdict,
    waited: Duration,
    remote: Option<SocketAddr>,
    permissions: Option<Arc<Permissions>>,
    payment: Option<Box<PaymentTerms>>,
}

impl Hop {
    /// A request for `url`, allowed by `verdict`, that was answered with `status` after `waited` for its permit.
    #[inline]
    pub(crate) fn new(url: Url, status: StatusCode, verdict: Verdict, waited: Duration) -> Self {
        Self { url, status, verdict, waited, remote: None, permissions: None, payment: None }
    }

    /// The address that answered.
    #[must_use]
    #[inline]
    pub(crate) fn with_remote_addr(mut self, remote: Option<SocketAddr>) -> Self {
        self.remote = remote;
        self
    }

    /// What the response said of payment.
    #[must_use]
    pub(crate) fn with_payment(mut self, terms: Option<PaymentTerms>) -> Self {
        self.payment = terms.map(Box::new);
        self
    }

    /// What the response said of payment: its price, or what was charged.
    pub fn payment(&self) -> Option<&PaymentTerms> {
        self.payment.as_deref()
    }

    /// The URL that was asked for, without user information.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What it answered.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Why it was allowed.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// How long it waited for its permit.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The address that answered, when known.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// The header rules of the URL of a hop that redirected. They never reach its target, whose own are
    /// [`FetchInfo::permissions`](crate::FetchInfo::permissions).
    pub fn permissions(&self) -> Option<&Permissions> {
        self.permissions.as_deref()
    }
}

/// Why a 3xx was not followed and reached the caller as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// No `Location`, or an empty one.
    NoLocation,
    /// More than one `Location` field.
    SeveralLocations,
    /// `Location` is no URL reference.
    InvalidLocation,
    /// `Location` leads to a scheme other than http and https.
    UnsupportedScheme,
    /// 307 or 308, and the request's body is a stream that cannot be sent twice.
    BodyNotRepeatable,
    /// Following is off for this client or request.
    NotFollowing,
    /// The limit of the redirect policy is reached.
    AtLimit,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoLocation => "the redirect names no Location",
            Self::SeveralLocations => "the redirect has more than one Location",
            Self::InvalidLocation => "the redirect's Location is no URL",
            Self::UnsupportedScheme => "the redirect leads to a scheme other than http and https",
            Self::BodyNotRepeatable => "the redirect wants the body again, and it can be sent only once",
            Self::NotFollowing => "following redirects is switched off",
            Self::AtLimit => "the limit of redirects is reached",
        })
    }
}
