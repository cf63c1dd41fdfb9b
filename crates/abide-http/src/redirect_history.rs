//! The requests that went out for one response, and why no more followed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use url::Url;

use abide_gate::Verdict;
use abide_permissions::Permissions;

use crate::payment::PaymentTerms;

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
    /// One more request has been answered. Whoever follows redirects bounds how many there are.
    #[inline]
    pub fn push(&mut self, hop: Hop) {
        if self.hops.is_empty() {
            // Most calls have one hop, and room for more is a large block.
            self.hops.reserve_exact(1);
        }
        self.hops.push(hop);
    }

    /// The last answer is a redirect that is not followed.
    pub fn stop(&mut self, stopped: Stopped) {
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
    pub fn ends_after(&mut self, waited: Duration) {
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
    pub fn new(url: Url, status: StatusCode, verdict: Verdict, waited: Duration) -> Self {
        Self { url, status, verdict, waited, remote: None, permissions: None, payment: None }
    }

    /// The address that answered.
    #[must_use]
    #[inline]
    pub fn with_remote_addr(mut self, remote: Option<SocketAddr>) -> Self {
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
