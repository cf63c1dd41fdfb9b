//! Why a request did not go out: the refusal of the gate and of every client that is built on it.
//!
//! A refusal is an answer, not an accident: it carries the rule, the hop, and when to ask again. What every
//! refusal has is in `Inner` and, without its URL, in `DenialCause`, so one more field is added here alone;
//! what one kind has is in [`DeniedKind`].

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use url::Url;

use crate::gate::{Verdict, date, date_from};
use crate::pacing::DeferReason;
use crate::text::Escaped;
use crate::{Failure, Refusal, WallMillis, without_userinfo};

/// Why abide did not send a request, and when to retry it.
///
/// Small and cheap to clone. [`Denied::find`] finds it through any number of wrapping layers, but not above
/// an HTTP cache, which turns errors into text. `Display` is one sentence, in which URLs are cut after 200
/// characters; [`Denied::url`] is the whole URL.
#[derive(Debug, Clone)]
pub struct Denied {
    inner: Arc<Inner>,
}

/// What every refusal has.
#[derive(Debug, Clone)]
struct Inner {
    refusal: DenialCause,
    url: Url,
    redirects: Vec<(Url, StatusCode)>,
    decided_at: WallMillis,
}

/// A refusal without its URL: the callers that wait for one robots.txt share it.
#[derive(Debug, Clone)]
pub(crate) struct DenialCause {
    pub(crate) kind: DeniedKind,
    pub(crate) retry_at: Option<WallMillis>,
    /// The host or group that a deferred request waits for, where that need not be the host of the URL.
    pub(crate) key: Option<Box<str>>,
}

impl DenialCause {
    pub(crate) fn deferred(reason: DeferReason, retry_at: WallMillis, key: Option<&str>) -> Self {
        let (retry_at, key) = (Some(retry_at), key.map(Into::into));
        Self { retry_at, key, ..DeniedKind::Deferred { reason }.into() }
    }
}

impl From<DeniedKind> for DenialCause {
    /// Without a time to retry.
    fn from(kind: DeniedKind) -> Self {
        Self { kind, retry_at: None, key: None }
    }
}

/// The kinds of refusals, each with its details.
///
/// ```
/// use abide_gate::{Denied, DeniedKind};
///
/// fn report(denied: &Denied) {
///     match denied.kind() {
///         DeniedKind::Disallowed { verdict } => println!("skip {}: {verdict}", denied.url()),
///         DeniedKind::Deferred { reason } => println!("again at {:?}: {reason:?}", denied.retry_at()),
///         _ => println!("{denied}"),
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DeniedKind {
    /// A rule of the site forbids it: skip the URL.
    Disallowed {
        /// The rule, its line, and where it came from.
        verdict: Verdict,
    },
    /// The site's robots.txt can't be fetched, so everything is disallowed for now (RFC 9309 §2.3.1.4).
    Unreachable {
        /// The first of the failures in a row.
        since: SystemTime,
        /// What went wrong.
        cause: Failure,
    },
    /// The next free slot of the host is further away than the call may wait: requeue the URL.
    Deferred {
        /// What the host is waiting for.
        reason: DeferReason,
    },
    /// The host has refused so many requests in a row, or what stands before it has, that it is held: skip
    /// the host until then. The next request after that is the probe. See `docs/when-a-site-refuses-you.md`.
    Refusing {
        /// Who refuses, if one of the responses was recognised.
        by: Option<Refusal>,
        /// The first of them.
        since: SystemTime,
        /// How many in a row.
        responses: u32,
        /// The status of the last one.
        status: u16,
        /// The end of the hold.
        retry_at: SystemTime,
    },
    /// The site asks for a Crawl-delay of more than 24 hours, so it is not crawled.
    CrawlDelayTooLong {
        /// The delay asked for.
        asked: Duration,
    },
    /// The URL leads to an address that is not public.
    AddressRefused {
        /// The address, when known.
        address: Option<IpAddr>,
    },
    /// The URL is not http or https.
    UnsupportedUrl,
    /// The redirect chain is longer than the limit.
    TooManyRedirects,
    /// The inner client followed a redirect itself, so the new URL was not checked.
    RedirectBypass {
        /// The URL that answered.
        got: Url,
    },
    /// The order of the middlewares is wrong: something below abide, such as a retry, sent the request
    /// several times with one permit.
    ///
    /// A retry of timeouts alone is not detected, because reqwest does not report them.
    SentAgain {
        /// How often it went out.
        times: u32,
    },
    /// The request carries a User-Agent that does not contain the product token (RFC 9309 §2.2.1).
    Identity {
        /// The User-Agent of the request.
        user_agent: String,
        /// The product token whose rules would be obeyed.
        token: String,
    },
    /// The `Host` of the request names another site than its URL, so the site that answers is not the one
    /// whose rules were checked.
    ForeignHost {
        /// The `Host` of the request.
        host: String,
    },
    /// The request could not be signed.
    NotSigned {
        /// What failed.
        reason: String,
    },
    /// A callback of yours panicked, so the request was not sent.
    Panicked {
        /// Which one: a clock, an observer, a pacing key.
        callback: &'static str,
    },
    /// The site disallows the use that the pages are for, in its robots.txt or tdmrep.json: skip the URL.
    Purpose {
        /// The use, such as `train-ai`.
        usage: Box<str>,
        /// Where the site states it, such as `robots.txt line 2 (group *): Content-Usage`.
        source: Box<str>,
    },
    /// The site's tdmrep.json is required and could not be fetched, so it is unknown whether text and data
    /// mining is reserved.
    TdmrepUnknown,
    /// The request would have to wait, and there is no tokio runtime with timers.
    NoTimers,
    /// The runtime is shutting down, or a task of the gate was lost.
    Interrupted,
}

impl Denied {
    /// For the gate alone ([`Gate::denial`](crate::Gate::denial)): so every refusal has all that refusals
    /// have.
    pub(crate) fn by(refusal: DenialCause, url: &Url, now: WallMillis) -> Self {
        let (url, redirects) = (without_userinfo(url), Vec::new());
        Self { inner: Arc::new(Inner { refusal, url, redirects, decided_at: now }) }
    }

    /// The same refusal, of the page at `url` that needs what was refused.
    #[doc(hidden)]
    #[must_use]
    pub fn with_url(mut self, url: &Url) -> Self {
        Arc::make_mut(&mut self.inner).url = without_userinfo(url);
        self
    }

    /// Sets when to retry.
    #[doc(hidden)]
    #[must_use]
    pub fn with_retry_at(mut self, retry_at: Option<WallMillis>) -> Self {
        Arc::make_mut(&mut self.inner).refusal.retry_at = retry_at;
        self
    }

    /// Sets the hops before the refused one.
    #[doc(hidden)]
    #[must_use]
    pub fn after(mut self, redirects: Vec<(Url, StatusCode)>) -> Self {
        Arc::make_mut(&mut self.inner).redirects = redirects;
        self
    }

    /// The refusal somewhere in `error`'s chain of sources, if there is one.
    ///
    /// Works on `reqwest_middleware::Error`, also behind a retry middleware, on boxed errors, and on
    /// `anyhow::Error` through its `as_ref()`.
    ///
    /// ```
    /// # use abide_gate::{Denied, DeniedKind};
    /// # fn handle(error: Box<dyn std::error::Error + 'static>) {
    /// match Denied::find(&*error) {
    ///     Some(denied) => match denied.kind() {
    ///         DeniedKind::Disallowed { .. } => println!("skip {}", denied.url()),
    ///         DeniedKind::Deferred { .. } => println!("again at {:?}", denied.retry_at()),
    ///         _ => println!("refused: {denied}"),
    ///     },
    ///     None => println!("a network error: {error}"),
    /// }
    /// # }
    /// ```
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        // A refusal itself has it as its source.
        let inner = causes.find_map(|error| error.downcast_ref::<Arc<Inner>>())?;
        Some(Self { inner: Arc::clone(inner) })
    }

    /// What was refused.
    pub fn kind(&self) -> &DeniedKind {
        &self.inner.refusal.kind
    }

    /// The URL that was refused, without user information: after redirects that of the refused hop.
    pub fn url(&self) -> &Url {
        &self.inner.url
    }

    /// Which hop was refused; 0 is the request itself.
    pub fn hop(&self) -> usize {
        self.inner.redirects.len()
    }

    /// The hops before the refused one, first to last, with their status.
    pub fn redirects(&self) -> &[(Url, StatusCode)] {
        &self.inner.redirects
    }

    /// When it was refused.
    pub fn decided_at(&self) -> SystemTime {
        self.inner.decided_at.to_system_time()
    }

    /// When to retry [`url`](Self::url), if that is known: after redirects only the refused hop need be
    /// requested again.
    pub fn retry_at(&self) -> Option<SystemTime> {
        self.inner.refusal.retry_at.map(WallMillis::to_system_time)
    }

    /// How long after the refusal [`retry_at`](Self::retry_at) is, if that is known: what a queue waits
    /// before it asks again.
    pub fn retry_in(&self) -> Option<Duration> {
        Some(self.inner.refusal.retry_at?.since(self.inner.decided_at))
    }

    /// A stable name of the kind, for labels and logs.
    pub fn name(&self) -> &'static str {
        match self.kind() {
            DeniedKind::Disallowed { .. } => "disallowed",
            DeniedKind::Unreachable { .. } => "unreachable",
            DeniedKind::Deferred { .. } => "deferred",
            DeniedKind::Refusing { .. } => "refusing",
            DeniedKind::CrawlDelayTooLong { .. } => "crawl_delay_too_long",
            DeniedKind::AddressRefused { .. } => "address_refused",
            DeniedKind::UnsupportedUrl => "unsupported_url",
            DeniedKind::TooManyRedirects => "too_many_redirects",
            DeniedKind::RedirectBypass { .. } => "redirect_bypass",
            DeniedKind::SentAgain { .. } => "sent_again",
            DeniedKind::Identity { .. } => "identity",
            DeniedKind::ForeignHost { .. } => "foreign_host",
            DeniedKind::NotSigned { .. } => "not_signed",
            DeniedKind::Panicked { .. } => "panicked",
            DeniedKind::Purpose { .. } => "purpose",
            DeniedKind::TdmrepUnknown => "tdmrep_unknown",
            DeniedKind::NoTimers => "no_timers",
            DeniedKind::Interrupted => "interrupted",
        }
    }

    /// Whether the site's rules disallow it. A retry makes sense after its robots.txt has changed.
    pub fn is_disallowed(&self) -> bool {
        matches!(self.kind(), DeniedKind::Disallowed { .. })
    }

    /// Whether the site's robots.txt can't be fetched, for whatever reason.
    pub fn is_unreachable(&self) -> bool {
        matches!(self.kind(), DeniedKind::Unreachable { .. })
    }

    /// Whether no connection could be made ([`Failure::is_connect`]): for the site's robots.txt or where that
    /// redirects, or several times before, so that the host is left alone. It may pass, as where a resolver
    /// is down: check the link again at [`retry_at`](Self::retry_at).
    pub fn is_connect(&self) -> bool {
        match self.kind() {
            DeniedKind::Unreachable { cause, .. }
            | DeniedKind::Deferred { reason: DeferReason::Breaker { cause } } => cause.is_connect(),
            _ => false,
        }
    }

    /// Whether the request only has to wait for its host, which a queue does: keep the URL, and ask again
    /// [then](Self::retry_in). A site that cannot be reached ([`is_temporary`](Self::is_temporary)) may stay
    /// so for days.
    ///
    /// ```
    /// fn queue_again(denied: &abide_gate::Denied) -> Option<std::time::Duration> {
    ///     denied.is_deferred().then(|| denied.retry_in()).flatten()
    /// }
    /// ```
    pub fn is_deferred(&self) -> bool {
        // A breaker is open because the site cannot be reached.
        let is_down = |reason: &DeferReason| matches!(reason, DeferReason::Breaker { .. });
        matches!(self.kind(), DeniedKind::Deferred { reason } if !is_down(reason))
    }

    /// Whether a retry makes sense: at [`retry_at`](Self::retry_at), or, without one, when what has failed (a
    /// signer) works again.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self.kind(),
            DeniedKind::Unreachable { .. }
                | DeniedKind::Deferred { .. }
                | DeniedKind::Refusing { .. }
                | DeniedKind::Interrupted
                | DeniedKind::NotSigned { .. }
                | DeniedKind::TdmrepUnknown
        )
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A Location may be 300 KB long.
        let shown = |url: &Url| Escaped(url.as_str().as_bytes()).to_string();
        let Inner { refusal: DenialCause { kind, retry_at, key }, url, redirects, .. } = &*self.inner;
        let hop = match redirects.len() {
            0 => String::new(),
            number => format!(" (redirect {number})"),
        };
        let not_requested = |f: &mut fmt::Formatter<'_>| write!(f, "{} is not requested{hop}: ", shown(url));
        match kind {
            DeniedKind::Disallowed { verdict } => write!(f, "{}{hop}: {verdict}", shown(url)),
            DeniedKind::Unreachable { cause, .. } => {
                not_requested(f)?;
                write!(f, "its robots.txt is unreachable ({cause}), so everything is disallowed")
            }
            DeniedKind::Deferred { reason } => {
                write!(f, "{} is deferred{hop}: ", shown(url))?;
                reason.sentence(key.as_deref().or(url.host_str()).unwrap_or_default(), f)?;
                let Some(retry_at) = retry_at else { return Ok(()) };
                write!(f, "; not before {}", date_from(*retry_at))
            }
            DeniedKind::Refusing { by, since, responses, status, retry_at } => {
                not_requested(f)?;
                let host = Escaped(key.as_deref().or(url.host_str()).unwrap_or_default().as_bytes()).to_string();
                let by = by.map_or(String::new(), |by| format!(", {}", by.by()));
                let [since, again] = [*since, *retry_at].map(WallMillis::from);
                write!(f, "{host} refuses this crawler: {responses} × {status} in a row{by}, since {}", date(Some(since)))?;
                write!(f, "; held until {}", date_from(again))
            }
            DeniedKind::CrawlDelayTooLong { asked } => {
                not_requested(f)?;
                write!(f, "the site's Crawl-delay is {} s, and abide waits 24 h at most", asked.as_secs())
            }
            DeniedKind::AddressRefused { address: Some(address) } => write!(
                f,
                "{} is refused{hop}: {address} is not a public address (`allow_net` permits its network)",
                shown(url)
            ),
            DeniedKind::AddressRefused { address: None } => {
                write!(f, "{} is refused{hop}: it has no public address", shown(url))
            }
            DeniedKind::UnsupportedUrl => {
                let scheme = Escaped(url.scheme().as_bytes());
                write!(f, "expected an http or https URL, found the scheme \"{scheme}\"")
            }
            DeniedKind::TooManyRedirects => {
                write!(f, "expected at most {} redirects, found more", redirects.len().saturating_sub(1))
            }
            DeniedKind::RedirectBypass { got } => write!(
                f,
                "requested {} and got {}: the inner client follows redirects itself, unchecked; build it with \
                 redirect::Policy::none(), or let abide build it (build_client)",
                shown(url),
                shown(got)
            ),
            DeniedKind::SentAgain { times } => write!(
                f,
                "a middleware below abide sent the request {times} times with one permit: put retries above abide"
            ),
            DeniedKind::Identity { user_agent, token } => write!(
                f,
                "expected a User-Agent that contains the product token {token:?}, found {user_agent:?}; leave the field \
                 out of the request and set it on the builder"
            ),
            DeniedKind::ForeignHost { host } => write!(
                f,
                "the request is for {}, but its Host field is {host}, whose robots.txt was not checked; request \
                 {}://{host}/ and give its address to Builder::resolve",
                Escaped(url.authority().as_bytes()),
                url.scheme()
            ),
            DeniedKind::NotSigned { reason } => {
                not_requested(f)?;
                write!(f, "the request could not be signed: {}", Escaped(reason.as_bytes()))
            }
            DeniedKind::Panicked { callback } => {
                write!(f, "the {callback} panicked, so the request was not sent")
            }
            DeniedKind::Purpose { usage, source } => {
                not_requested(f)?;
                write!(f, "the site disallows {usage} ({source})")
            }
            DeniedKind::TdmrepUnknown => {
                not_requested(f)?;
                f.write_str("the site's tdmrep.json, which is required, could not be fetched")
            }
            DeniedKind::NoTimers => f.write_str(
                "expected a tokio runtime with timers, found none; call enable_time or enable_all on tokio::runtime::Builder",
            ),
            DeniedKind::Interrupted => f.write_str("the task that fetched robots.txt was lost; try again"),
        }
    }
}

impl Error for Denied {
    /// A transparent wrapper, such as `reqwest_middleware::Error`, has the source of what it wraps, so a walk
    /// along the sources goes past the refusal itself. Its source leads back to it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.inner)
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("abide refused the request")
    }
}

impl Error for Inner {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use abide_gate::testing::hosts;

    use super::*;
    use crate::{Gate, ManualClock};

    const AT: WallMillis = WallMillis::from_millis(1_800_000_000_000);

    fn url() -> Url {
        "https://a.example/x".parse().unwrap()
    }

    fn denied(kind: DeniedKind) -> Denied {
        Denied::by(kind.into(), &url(), AT)
    }

    fn disallowed() -> Denied {
        denied(DeniedKind::Disallowed { verdict: Verdict::robots_txt() })
    }

    fn deferred() -> Denied {
        denied(DeniedKind::Deferred { reason: DeferReason::Robots }).with_retry_at(Some(AT))
    }

    fn unreachable() -> Denied {
        let cause = Failure::Status(503);
        denied(DeniedKind::Unreachable { since: SystemTime::UNIX_EPOCH, cause }).with_retry_at(Some(AT))
    }

    fn refused() -> Denied {
        denied(DeniedKind::AddressRefused { address: None })
    }

    fn refusing() -> Denied {
        let (since, by) = (SystemTime::UNIX_EPOCH, Refusal::of_id("cloudflare"));
        let kind =
            DeniedKind::Refusing { by, since, responses: 25, status: 403, retry_at: AT.to_system_time() };
        denied(kind).with_retry_at(Some(AT))
    }

    #[test]
    fn a_host_that_is_left_alone_was_not_connected_to() {
        let after = |cause| denied(DeniedKind::Deferred { reason: DeferReason::Breaker { cause } });
        assert!(after(Failure::Refused).is_connect() && !after(Failure::Reset).is_connect());
        assert!(!deferred().is_connect() && !unreachable().is_connect() && !disallowed().is_connect());
    }

    #[test]
    fn what_only_waits_is_deferred_and_what_is_down_is_not() {
        let broken =
            denied(DeniedKind::Deferred { reason: DeferReason::Breaker { cause: Failure::Refused } });
        assert!(deferred().is_deferred() && !broken.is_deferred());
        assert!(![unreachable(), refusing(), disallowed()].iter().any(Denied::is_deferred));
        let later = deferred().with_retry_at(Some(AT.plus(Duration::from_millis(1_500))));
        assert_eq!((later.retry_in(), disallowed().retry_in()), (Some(Duration::from_millis(1_500)), None));
    }

    #[test]
    fn a_refusal_costs_a_result_one_pointer() {
        assert_eq!(size_of::<Result<(), Denied>>(), size_of::<usize>());
    }

    /// Of each kind one, as the gate makes it of a URL with user information.
    fn refusals(gate: &Gate) -> Vec<Denied> {
        let [user_agent, token, host, reason] =
            ["other/1.0", "TestBot", "b.example", "no key"].map(str::to_owned);
        let cause = Failure::Status(503);
        let kinds = [
            DeniedKind::Disallowed { verdict: Verdict::robots_txt() },
            DeniedKind::Unreachable { since: SystemTime::UNIX_EPOCH, cause },
            DeniedKind::Deferred { reason: DeferReason::Robots },
            refusing().kind().clone(),
            DeniedKind::CrawlDelayTooLong { asked: Duration::from_secs(86_401) },
            DeniedKind::AddressRefused { address: None },
            DeniedKind::UnsupportedUrl,
            DeniedKind::TooManyRedirects,
            DeniedKind::RedirectBypass { got: url() },
            DeniedKind::SentAgain { times: 2 },
            DeniedKind::Identity { user_agent, token },
            DeniedKind::ForeignHost { host },
            DeniedKind::NotSigned { reason },
            DeniedKind::Panicked { callback: "clock" },
            DeniedKind::Purpose { usage: "train-ai".into(), source: "robots.txt line 2".into() },
            DeniedKind::TdmrepUnknown,
            DeniedKind::NoTimers,
            DeniedKind::Interrupted,
        ];
        let secret = "https://user:secret@a.example/x".parse().unwrap();
        kinds.map(|kind| gate.deny(kind, &secret)).into()
    }

    #[tokio::test]
    async fn a_refusal_of_every_kind_has_what_every_refusal_has() {
        let clock = ManualClock::starting_at(AT);
        let gate = hosts::gate(Gate::builder().clock(Arc::new(clock)));
        let before = vec![(url(), StatusCode::FOUND)];
        let mut names = HashSet::new();
        for denied in refusals(&gate) {
            let name = denied.name();
            assert_eq!((denied.url(), denied.hop(), denied.retry_at()), (&url(), 0, None), "{name}");
            let late = denied.decided_at().duration_since(AT.to_system_time()).unwrap();
            assert!(late < Duration::from_secs(60), "{name}: by the clock of the gate");
            assert!(!denied.to_string().contains("secret"), "{name}: {denied}");
            assert!(names.insert(name), "{name}: two kinds of one name");
            let denied = denied.after(before.clone());
            assert_eq!((denied.hop(), denied.redirects()), (1, &*before), "{name}");
            let found = Denied::find(&denied).map(|found| found.name());
            assert_eq!(found, Some(name));
        }
    }

    #[test]
    fn a_refusal_says_what_where_and_when() {
        for (denied, name, is_temporary, retry_at) in [
            (disallowed(), "disallowed", false, None),
            (unreachable(), "unreachable", true, Some(AT)),
            (deferred(), "deferred", true, Some(AT)),
            (refused(), "address_refused", false, None),
            (refusing(), "refusing", true, Some(AT)),
            (denied(DeniedKind::UnsupportedUrl), "unsupported_url", false, None),
            (denied(DeniedKind::TooManyRedirects), "too_many_redirects", false, None),
            (denied(DeniedKind::RedirectBypass { got: url() }), "redirect_bypass", false, None),
            (denied(DeniedKind::Panicked { callback: "clock" }), "panicked", false, None),
            (denied(DeniedKind::NoTimers), "no_timers", false, None),
            (denied(DeniedKind::Interrupted), "interrupted", true, None),
        ] {
            assert_eq!((denied.name(), denied.url(), denied.hop()), (name, &url(), 0));
            let retry_at = retry_at.map(WallMillis::to_system_time);
            assert_eq!((denied.is_temporary(), denied.retry_at()), (is_temporary, retry_at), "{name}");
            assert_eq!(
                (denied.is_disallowed(), denied.is_unreachable()),
                (name == "disallowed", name == "unreachable")
            );
            assert_eq!(denied.decided_at(), AT.to_system_time());
        }
        assert!(denied(DeniedKind::NoTimers).to_string().contains("enable_time"), "it says what to do");
    }

    #[test]
    fn a_refusal_after_redirects_says_which_one_it_was() {
        let before = || vec![(url(), StatusCode::FOUND); 2];
        for (denied, expected) in [
            (refused(), "https://a.example/x is refused (redirect 2): it has no public address"),
            (
                deferred(),
                "https://a.example/x is deferred (redirect 2): the robots.txt of a.example has to wait; not before Fri, 15 Jan \
                 2027 08:00:00 GMT",
            ),
            (
                refusing(),
                "https://a.example/x is not requested (redirect 2): a.example refuses this crawler: 25 × 403 in a row, Cloudflare, since \
                 Thu, 01 Jan 1970 00:00:00 GMT; held until Fri, 15 Jan 2027 08:00:00 GMT",
            ),
            (
                unreachable(),
                "https://a.example/x is not requested (redirect 2): its robots.txt is unreachable (it returned \
                 status 503), so everything is disallowed",
            ),
        ] {
            let first = denied.to_string();
            assert_eq!(first, expected.replace(" (redirect 2)", ""), "the request itself");
            let denied = denied.after(before());
            assert_eq!(denied.to_string(), expected);
            assert_eq!((denied.hop(), denied.redirects()), (2, &before()[..]));
        }
    }

    #[test]
    fn a_refusal_is_found_in_any_depth_and_nowhere_else() {
        #[derive(Debug)]
        struct Layer(Box<dyn Error + Send + Sync>);
        impl fmt::Display for Layer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a layer")
            }
        }
        impl Error for Layer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&*self.0)
            }
        }
        for depth in 0..5 {
            let find = |error: Box<dyn Error + Send + Sync>| {
                Denied::find(&*(0..depth).fold(error, |inner, _| Layer(inner).into()))
            };
            assert!(find(refused().into()).is_some() && find(fmt::Error.into()).is_none());
            let denied = refused().after(vec![(url(), StatusCode::FOUND)]);
            // This has the source of what it wraps.
            let transparent = std::io::Error::other(denied);
            assert_eq!(find(transparent.into()).unwrap().hop(), 1, "all of it is found");
        }
    }
}
