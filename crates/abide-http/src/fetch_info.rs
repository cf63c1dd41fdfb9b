//! What is reported of a call: the fetch info of its response, and its spans and events in `tracing`
//! (feature).
//!
//! The caller has only the response in hand, so all that a call has found out travels with it, attached to
//! its extensions: the hops that led to it, verdicts, waits and permissions. What a page permits is read when
//! it is asked for: most callers ask little of it.
//!
//! Spans and events show origins, never a path, a header field or a body, and are the same for both clients.
//! `docs/observability.md` lists the names.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Method, StatusCode};
use thiserror::Error;
use tokio::sync::watch;
use url::Url;

use crate::call::Call;
#[cfg(feature = "tracing")]
use crate::failure::root_cause;
use crate::reader::{RuleFields, not_scanned};
use crate::tdmrep::Tdmrep;
use abide_gate::{Refusal, Verdict, without_userinfo};
use abide_permissions::{
    Answer, AppDirectives, Head, PermissionError, PermissionRecord, Permissions, Preference, Preferences,
    Provenance, ReadOptions, Usage, license_challenge, licenses,
};
use abide_robots::Target;

/// What abide attaches to a response: hops, verdicts, waits, permissions, preferences.
#[derive(Debug, Clone)]
pub struct FetchInfo {
    read: ReadOptions,
    history: RedirectHistory,
    fields: RuleFields,
    outcome: HeadOutcome,
    refusal: Option<Refusal>,
    purpose: Option<Usage>,
    /// Of a response without hops: its URL, and what is known of its robots.txt and tdmrep.json.
    site: Option<Box<(Url, Verdict, Tdmrep)>>,
}

#[derive(Debug, Clone)]
pub(crate) enum HeadOutcome {
    /// The head, or why none was looked at. What it permits is read on request: many callers never ask.
    Known(Head),
    /// What is known from this fetch and those before it.
    Stored(Box<PermissionRecord>),
    /// The header's part is known; the head comes with the body.
    Later(watch::Receiver<Option<Head>>),
}

impl FetchInfo {
    /// Of the last response of the call, which loses its history to it.
    pub(crate) fn new(
        call: &mut Call<'_>,
        fields: RuleFields,
        outcome: HeadOutcome,
        refusal: Option<Refusal>,
    ) -> Self {
        let (settings, history) = (&call.crawler.settings, std::mem::take(&mut call.history));
        let (read, purpose) = (settings.read.clone(), settings.purpose.clone());
        Self { read, history, fields, outcome, refusal, purpose, site: None }
    }

    /// For a response without hops.
    pub(crate) fn add_site(&mut self, url: &Url, verdict: Option<Verdict>, tdmrep: Tdmrep) {
        self.site = verdict.map(|verdict| Box::new((without_userinfo(url), verdict, tdmrep)));
    }

    /// The URL of the response, and what is known of the files of its site.
    fn site(&self) -> Option<(&Url, &Verdict, &Tdmrep)> {
        let of_hop = self.history.last().map(|hop| (hop.url(), hop.verdict(), &hop.tdmrep));
        of_hop.or_else(|| self.site.as_deref().map(|(url, verdict, tdmrep)| (url, verdict, tdmrep)))
    }

    /// The fetch info that [`Done::finish`](crate::Done::finish) attached to a response.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// The requests of the call, first to last.
    pub fn hops(&self) -> &[Hop] {
        self.history.hops()
    }

    /// The verdict of the last hop. Of a response that was only [read](crate::Crawler::read): what is known
    /// now, without I/O.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.site().map(|(_, verdict, _)| verdict)
    }

    /// Whether what stands before the site has answered in its place: a challenge or a block page, whatever
    /// its status. Then this is not the page: its permissions and preferences are unknown, and nothing is
    /// kept of it. abide never solves a challenge.
    ///
    /// ```
    /// fn is_the_page(info: &abide_http::FetchInfo) -> bool {
    ///     info.refusal().is_none()
    /// }
    /// ```
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// How long this call waited for permits, all hops together.
    pub fn waited(&self) -> Duration {
        self.history.waited()
    }

    /// Why a 3xx was returned and not followed; `None` if the response is not a redirect.
    pub fn stopped(&self) -> Option<Stopped> {
        self.history.stopped()
    }

    /// What the site permits you to do with the page, as far as is known now. Each call reads it again.
    ///
    /// With [`Scan::Lazy`](crate::Scan::Lazy) the head's part is missing until the body has been read that
    /// far.
    pub fn permissions(&self) -> Permissions {
        let Self { read, fields, outcome, .. } = self;
        if let Some(refusal) = &self.refusal {
            return Permissions::unknown(fields.received.to_system_time(), refusal.to_string());
        }
        let head = match outcome {
            HeadOutcome::Stored(known) => return known.permissions(read),
            HeadOutcome::Known(head) => head.clone(),
            HeadOutcome::Later(head) => head.borrow().clone().unwrap_or_else(not_scanned),
        };
        fields.permissions(read, head)
    }

    /// What the site says about *uses* of the content: AI training, search, text and data mining.
    ///
    /// Read from the robots.txt of the last hop (draft-ietf-aipref-attach: "the copy of robots.txt that is
    /// current at the time of the fetch"), the response's fields, and the metas of its head. They decide
    /// whether a page is fetched only where a [purpose](crate::CrawlerBuilder::purpose) is declared.
    ///
    /// ```
    /// # fn may_train(info: &abide_http::FetchInfo) -> bool {
    /// info.preferences().training().is_allowed()
    /// # }
    /// ```
    pub fn preferences(&self) -> Preferences {
        let Self { read, fields, outcome, .. } = self;
        let site = self.site();
        let target = site.map(|(url, ..)| Target::of(url));
        let file = site.and_then(|(_, _, tdmrep)| tdmrep.text()).zip(target.as_ref());
        let permissions = self.permissions();
        if let HeadOutcome::Stored(known) = outcome {
            let known = known.preferences(read);
            // What fields and metas of the page said supersedes the file.
            let is_stated = matches!(known.resolve(&Usage::Tdm), Preference::Allow | Preference::Disallow);
            let known = if is_stated { known } else { known.with_tdm(file, [], &[]) };
            return match site {
                Some((_, verdict, tdmrep)) => with_unread_files(known, verdict, tdmrep),
                None => known,
            };
        }
        let preferences = Preferences::new(read).with_fields(fields.lines()).with_page(&permissions);
        let preferences = preferences.with_tdm(file, fields.lines(), permissions.metas());
        let preferences = match () {
            () if self.refusal.is_some() => {
                self.refusal.iter().fold(preferences, |known, by| known.with_unread_source(&by.to_string()))
            }
            // A rule that was not understood is no statement on a use.
            () if permissions.is_read() => preferences,
            () if permissions.head_end().is_complete() => {
                preferences.with_unread_source("response fields may be missing")
            }
            () => preferences.with_unread_source(&permissions.head_end().to_string()),
        };
        match site {
            Some((url, verdict, tdmrep)) => {
                with_robots(with_unread_files(preferences, verdict, tdmrep), verdict, url)
            }
            None => preferences.with_unread_source("robots.txt is not in memory"),
        }
    }

    /// What the pages are [for](crate::CrawlerBuilder::purpose), if that is declared.
    pub fn purpose(&self) -> Option<&Usage> {
        self.purpose.as_ref()
    }

    /// Whether the page may be used for what the crawler has [declared](crate::CrawlerBuilder::purpose): yes,
    /// no, unset or unknown. It unites what robots.txt and tdmrep.json state with the response fields and the
    /// page's head, and counts `noai` too. Unknown if no purpose was declared.
    pub fn allows_purpose(&self) -> Answer {
        match &self.purpose {
            Some(usage) => self.preferences().with_noai(&self.permissions()).answer(usage),
            None => Preferences::default().with_unread_source(NO_PURPOSE).training(),
        }
    }

    /// The URLs of licence terms for the content (RSL 1.0), as written, each with its place: the robots.txt
    /// of the last hop, `Link` fields, or the head. abide does not fetch the documents.
    pub fn licenses(&self) -> Vec<(Box<str>, Provenance)> {
        let (rules, permissions) = (self.verdict().and_then(Verdict::rules), self.permissions());
        let rules = rules.map(|entry| entry.rules());
        match &self.outcome {
            HeadOutcome::Stored(known) => {
                let links = known.lines("link").map(|line| ("link", line));
                licenses(rules, links, Some(permissions.head()))
            }
            _ => licenses(rules, self.fields.lines(), Some(permissions.head())),
        }
    }

    /// The parameters of `WWW-Authenticate: License`, if there is one, names in lower case: with 401 or 402
    /// the content is for licensees only.
    pub fn license_challenge(&self) -> Option<Vec<(String, String)>> {
        license_challenge(self.fields.lines())
    }

    /// The App-Directives of robots.txt for the last hop's URL (draft-nottingham-plan-b).
    pub fn app_directives(&self) -> Option<AppDirectives> {
        let (url, verdict, _) = self.site()?;
        Some(AppDirectives::of(verdict.rules()?.rules(), &Target::of(url)))
    }

    /// Waits until the head was read to its end, or the body was dropped, and returns the permissions.
    ///
    /// Resolves at once unless [`Scan::Lazy`](crate::Scan::Lazy) is in use; then the caller must read or drop
    /// the body.
    pub fn settled(&self) -> impl Future<Output = Permissions> + Send + 'static + use<> {
        // Without the hops, which it does not need.
        let (read, fields, outcome) = (self.read.clone(), self.fields.clone(), self.outcome.clone());
        let (history, refusal) = (RedirectHistory::default(), self.refusal);
        let info = Self { read, fields, outcome, refusal, history, purpose: None, site: None };
        async move {
            if let HeadOutcome::Later(head) = &info.outcome {
                // A closed channel means that the body is gone; its last value still stands.
                let _ = head.clone().wait_for(Option::is_some).await;
            }
            info.permissions()
        }
    }
}

const NO_PURPOSE: &str = "no purpose is declared (Builder::purpose)";

/// Adds what is known of a URL before it is requested: by robots.txt and, where it is fetched, tdmrep.json.
pub(crate) fn with_site(
    preferences: Preferences,
    verdict: &Verdict,
    tdmrep: &Tdmrep,
    url: &Url,
) -> Preferences {
    let target = Target::of(url);
    let file = tdmrep.text().map(|file| (file, &target));
    with_robots(with_unread_files(preferences, verdict, tdmrep).with_tdm(file, [], &[]), verdict, url)
}

/// What of the site's files was not read, though it may state preferences.
fn with_unread_files(preferences: Preferences, verdict: &Verdict, tdmrep: &Tdmrep) -> Preferences {
    let preferences = match tdmrep {
        Tdmrep::Unknown => preferences.with_unread_source("tdmrep.json is unknown"),
        _ => preferences,
    };
    match verdict.entry() {
        Some(entry) if entry.is_truncated() => {
            preferences.with_unread_source("robots.txt is cut at the size limit")
        }
        _ => preferences,
    }
}

/// Adds what robots.txt prefers for a URL: the very copy that let the request out.
pub(crate) fn with_robots(preferences: Preferences, verdict: &Verdict, url: &Url) -> Preferences {
    let target = Target::of(url);
    let preferences = match verdict.rules() {
        Some(robots) => preferences.with_robots(robots.rules(), &target),
        None => preferences,
    };
    match verdict.entry().and_then(|entry| entry.copy()) {
        Some(copy) => preferences.with_policy_tokens(copy.body(), &target),
        None => preferences,
    }
}

/// The hops of one call, first to last.
///
/// `abide` also puts it into the *request's* extensions if a call ends with an error: a network error is the
/// client's own, so that a retry above can recognize it, and has no room for the hops.
///
/// ```
/// use abide_http::RedirectHistory;
/// use http::Extensions;
///
/// /// How far a call came that ended with an error.
/// fn last_url(extensions: &Extensions) -> Option<String> {
///     let history = extensions.get::<RedirectHistory>()?;
///     Some(history.last()?.url().to_string())
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct RedirectHistory {
    /// The redirect policy bounds how many there are.
    pub(crate) hops: Vec<Hop>,
    pub(crate) stopped: Option<Stopped>,
    /// How long the call waited for a request without a response.
    pub(crate) unanswered: Duration,
}

impl RedirectHistory {
    /// The hops, first to last.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// The last hop.
    pub fn last(&self) -> Option<&Hop> {
        self.hops.last()
    }

    /// How long the call waited for permits, also for requests without a response.
    pub fn waited(&self) -> Duration {
        self.hops.iter().map(Hop::waited).fold(self.unanswered, Duration::saturating_add)
    }

    /// Why a 3xx was not followed.
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }
}

/// One request of a call.
///
/// ```
/// use abide_http::FetchInfo;
///
/// fn print(info: &FetchInfo) {
///     for hop in info.hops() {
///         println!("{} {}: {}, waited {:?}", hop.status(), hop.url(), hop.verdict(), hop.waited());
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Hop {
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) verdict: Verdict,
    pub(crate) tdmrep: Tdmrep,
    pub(crate) waited: Duration,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) permissions: Option<Arc<Permissions>>,
    /// The same request was sent once more, with what the response asked for.
    pub(crate) is_repeated: bool,
}

impl Hop {
    /// The URL of the request, without user information.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The status of the response.
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

    /// The permissions of a hop that redirected. They do not apply to its target, whose own are
    /// [`FetchInfo::permissions`](crate::FetchInfo::permissions).
    pub fn permissions(&self) -> Option<&Permissions> {
        self.permissions.as_deref()
    }
}

/// Why a 3xx was returned to the caller instead of followed.
///
/// ```
/// use abide_http::{FetchInfo, Stopped};
///
/// fn is_at_the_limit(info: &FetchInfo) -> bool {
///     info.stopped() == Some(Stopped::AtLimit)
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stopped {
    /// No `Location`, or an empty one.
    #[error("the redirect names no Location")]
    NoLocation,
    /// More than one `Location` field, and they differ.
    #[error("the redirect has more than one Location")]
    SeveralLocations,
    /// `Location` is not a valid URL reference.
    #[error("the redirect's Location is no URL")]
    InvalidLocation,
    /// `Location` leads to a scheme other than http and https.
    #[error("the redirect leads to a scheme other than http and https")]
    UnsupportedScheme,
    /// 307 or 308, and the request's body is a stream that cannot be sent twice.
    #[error("the redirect wants the body again, and it can be sent only once")]
    BodyNotRepeatable,
    /// Following is off for this client or request.
    #[error("following redirects is switched off")]
    NotFollowing,
    /// The limit of the redirect policy is reached.
    #[error("the limit of redirects is reached")]
    AtLimit,
    /// It leads to its own URL again:
    /// [`RedirectPolicy::with_repeats_returned`](crate::RedirectPolicy::with_repeats_returned).
    #[error("it redirects to itself again, as pages do that set a cookie first, and no cookies are kept")]
    Repeats,
}

/// The span of one call, `abide.request`, or of one hop of it. Without the feature `tracing` it is nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), url::ParseError> {
/// let span = abide_http::CallSpan::begin(&http::Method::GET, &"https://example.org/a".parse()?);
/// let page = span.instrument(async { http::Response::new("a page") }).await;
/// span.answered(1, page.status(), std::time::Duration::ZERO);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct CallSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

#[cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, reason = "a span that is nothing has no use for what it would show")
)]
impl CallSpan {
    /// Begins the span of a call for `url`, as a child of the current span.
    pub fn begin(method: &Method, url: &Url) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                target: "abide::request",
                "abide.request",
                %method,
                origin = %origin(url),
                hops = tracing::field::Empty,
                status = tracing::field::Empty,
                waited_ms = tracing::field::Empty,
            ),
        }
    }

    /// No span: the hop has not begun.
    pub(crate) const fn none() -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::Span::none(),
        }
    }

    /// The span of a hop, `abide.hop`, from now, before its permit is acquired, to the head of its response.
    /// Before it `number` hops were answered.
    pub(crate) fn hop(number: usize, url: &Url) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                target: "abide::request",
                "abide.hop",
                hop = number,
                origin = %origin(url),
                status = tracing::field::Empty,
                waited_ms = tracing::field::Empty,
                wire_ms = tracing::field::Empty,
            ),
        }
    }

    /// Whether a subscriber records it.
    #[cfg(feature = "tracing")]
    fn is_enabled(&self) -> bool {
        !self.span.is_disabled()
    }

    /// A part of the call in which nothing is awaited.
    pub(crate) fn within<T>(&self, sending: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        let _entered = self.span.enter();
        sending()
    }

    /// A part of the call, or the whole: polled and dropped within the span, with what it holds.
    pub fn instrument<F: Future>(&self, calling: F) -> impl Future<Output = F::Output> {
        #[cfg(feature = "tracing")]
        return tracing::Instrument::instrument(calling, self.span.clone());
        #[cfg(not(feature = "tracing"))]
        return calling;
    }

    /// The call has its response, after so many requests, and has `waited` for their permits.
    pub fn answered(&self, hops: usize, status: StatusCode, waited: Duration) {
        #[cfg(feature = "tracing")]
        // Without a subscriber not even the numbers are computed.
        if self.is_enabled() {
            let waited = millis(waited);
            self.span.record("hops", hops).record("status", status.as_u16()).record("waited_ms", waited);
        }
    }

    /// The head of the hop's response is here: after `waited` for the permit, and `wire` on the wire.
    pub(crate) fn hop_answered(&self, status: StatusCode, waited: Duration, wire: Duration) {
        #[cfg(feature = "tracing")]
        if self.is_enabled() {
            let (waited, wire) = (millis(waited), millis(wire));
            self.span.record("status", status.as_u16()).record("waited_ms", waited).record("wire_ms", wire);
        }
    }
}

/// Logs that a request ended with a network error, after `hops` responses.
///
/// Only the innermost cause of `error` is logged, because the texts around it may contain the URL.
pub(crate) fn log_failed(hops: usize, url: &Url, error: &(dyn Error + 'static)) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.request.failed", target: "abide::request", origin = %origin(url), hop = hops,
        error = ?cause(error), "the network failed"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (hops, url, error);
}

pub(crate) fn not_persisted(url: &Url, error: &PermissionError) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.permissions.not_persisted", target: "abide::permissions", origin = %origin(url),
        error = ?error.to_string(), "permissions could not be kept"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (url, error);
}

/// Of a URL only the origin is shown.
#[cfg(feature = "tracing")]
fn origin(url: &Url) -> String {
    abide_gate::Origin::of(url).map_or_else(|_| url.scheme().to_owned(), |origin| origin.to_string())
}

#[cfg(feature = "tracing")]
fn cause(error: &(dyn Error + 'static)) -> String {
    error.source().map_or_else(|| "no cause is known".to_owned(), |cause| root_cause(cause).to_string())
}

#[cfg(feature = "tracing")]
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
