//! One call, hop by hop, without I/O: what to do next, by what came of the last step.
//!
//! A client drives it, as the example of this crate shows. [`admit`] takes the steps that are the same for every client: robots.txt and rate limit.

#![expect(clippy::expect_used, reason = "each `expect` says why it holds")]

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::challenge::{Given, RequestEnd};
use crate::crawler::{Crawler, Options};
use crate::fetch_info::{CallSpan, Hop, RedirectHistory};
use crate::identity::{excerpt, foreign_host};
use crate::payment::PaymentTerms;
use crate::redirect::{Redirect, RedirectTarget, redirect, same_resource};
use abide_gate::pacing::{NextHop, Permit};
use abide_gate::{Denied, DeniedKind, Failure, Origin, Verdict, has_userinfo, without_userinfo};

/// What to do next.
///
/// ```
/// use abide_http::Step;
///
/// let waits_for = |step| match step {
///     Step::Check | Step::Acquire => "its permit",
///     Step::Send => "the server",
///     _ => "the caller",
/// };
/// assert_eq!(waits_for(Step::Acquire), "its permit");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Check robots.txt for [`Call::url`].
    Check,
    /// Acquire a permit of its host.
    Acquire,
    /// Send the request, then report the result: [`Call::answered`] or [`Call::failed`].
    Send,
    /// Drop the response, which redirects; then [`Call::follow`].
    Follow,
    /// Return the response.
    Done,
}

/// One call: a request for each hop.
///
/// Everything that is decided for a request is decided here. What is rare is boxed, because every call carries the room for it.
///
/// ```
/// use abide_http::{Call, Crawler, Options, admit};
///
/// /// The first steps of an adapter: then the request may be sent.
/// async fn admitted<'a>(crawler: &'a Crawler, url: &url::Url) -> Result<Call<'a>, abide_gate::Denied> {
///     let mut call = Call::new(crawler, Options::new(), &http::Method::GET, url, None);
///     admit(&mut call).await?;
///     Ok(call)
/// }
/// ```
#[derive(Debug)]
pub struct Call<'a> {
    pub(crate) crawler: &'a Crawler,
    pub(crate) options: Options,
    pub(crate) history: RedirectHistory,
    /// How long the call may still wait for permits.
    pub(crate) wait_left: Duration,
    /// How long the call may still be on the wire.
    wire_left: Option<Duration>,
    pub(crate) method: Method,
    pub(crate) hop: Option<PendingHop>,
    span: CallSpan,
    pub(crate) permit: Option<Permit>,
    /// Whether the request of the permit is on the wire. Before that, the permit is given back, and the next request needs no delay.
    is_sent: bool,
    /// Whether it failed before anything was sent. Its host was contacted, so the permit ends as that of a request that was sent.
    is_unconnected: bool,
    target: Option<Box<RedirectTarget>>,
    /// What the redirect asks of the hop after it.
    next_hop: Option<Box<NextHop>>,
    /// Whether something on the way may have dropped field lines.
    pub(crate) has_lost_fields: bool,
    given: Given,
}

#[derive(Debug, Clone)]
pub(crate) struct PendingHop {
    pub(crate) url: Url,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) waited: Duration,
    /// Whether hops before it have used some of the timeout.
    pub(crate) is_later: bool,
    /// What the redirect that led here asks for by its Retry-After.
    pub(crate) may_go: Option<Box<NextHop>>,
}

/// The head of a response.
///
/// ```
/// let (parts, _) = http::Response::new("a page").into_parts();
/// let (status, headers) = (parts.status, &parts.headers);
/// let head = abide_http::ResponseHead { status, headers, remote_addr: None, url: None, is_repeatable: true };
/// assert!(head.status.is_success());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'r> {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// The address that sent it, if the client reports it.
    pub remote_addr: Option<SocketAddr>,
    /// The URL that it is the response to, if the client reports it.
    pub url: Option<&'r Url>,
    /// Whether the request has no body, or one that can be sent again.
    pub is_repeatable: bool,
}

impl<'a> Call<'a> {
    /// A call that checks, acquires and sends. The user information of `url` is neither checked nor reported. `timeout` limits the
    /// time that the call is on the wire, all hops together.
    #[inline]
    pub fn new(
        crawler: &'a Crawler,
        options: Options,
        method: &Method,
        url: &Url,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            wait_left: options.max_wait.unwrap_or(crawler.gate.max_wait()),
            wire_left: timeout,
            options,
            crawler,
            history: RedirectHistory::default(),
            method: method.clone(),
            hop: Some(PendingHop::to(if has_userinfo(url) { without_userinfo(url) } else { url.clone() })),
            span: CallSpan::none(),
            permit: None,
            is_sent: false,
            is_unconnected: false,
            target: None,
            next_hop: None,
            has_lost_fields: false,
            given: Given::default(),
        }
    }

    /// The method of this hop.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// What to do next.
    pub fn step(&self) -> Step {
        match &self.hop {
            Some(PendingHop { verdict: None, .. }) => Step::Check,
            Some(_) if self.permit.is_none() => Step::Acquire,
            Some(_) => Step::Send,
            None if self.target.is_some() => Step::Follow,
            None => Step::Done,
        }
    }

    /// Whether the request may have to be sent once more, because there is a hook that answers challenges.
    pub fn may_repeat(&self) -> bool {
        !self.crawler.settings.challenges.is_empty()
    }

    /// The URL of this hop, without user information.
    pub fn url(&self) -> &Url {
        let pending = self.hop.as_ref().map(|hop| &hop.url);
        pending
            .or_else(|| self.history.last().map(Hop::url))
            .expect("a hop is pending, or it is in the history")
    }

    /// How long the request may be on the wire.
    pub fn timeout(&self) -> Option<Duration> {
        self.wire_left
    }

    /// Whether the request that was just sent may go out once more, under the same permit, because its server has not responded on a connection that
    /// was kept (RFC 9112 §9.3.1), or wants another protocol: only if it may be processed twice, and costs nothing.
    pub fn may_send_again(&self) -> bool {
        self.method.is_idempotent() && !self.given.is_offer() && self.time_left() != Some(Duration::ZERO)
    }

    /// How long a request that is sent again may be on the wire.
    pub fn time_left(&self) -> Option<Duration> {
        let spent = self.permit.as_ref().map_or(Duration::ZERO, Permit::elapsed);
        self.wire_left.map(|left| left.saturating_sub(spent))
    }

    /// The verdict by which the pending request goes out.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.hop.as_ref()?.verdict.as_ref()
    }

    /// The span of this hop.
    pub fn span(&self) -> &CallSpan {
        &self.span
    }

    /// The constructor and `follow` put it in; `answered` takes it and ends the hop.
    pub(crate) fn pending(&mut self) -> &mut PendingHop {
        self.hop.as_mut().expect("a hop is checked, permitted and sent before its response comes")
    }

    /// The call has waited for permits until so much is left.
    fn spend(&mut self, left: Duration) {
        let waited = self.wait_left.saturating_sub(left);
        self.wait_left = left;
        let pending = self.pending();
        pending.waited = pending.waited.saturating_add(waited);
    }

    pub(crate) fn checked(&mut self, verdict: Verdict) -> Result<(), Denied> {
        let verdict = match self.override_reason() {
            Some(why) if !verdict.is_allowed() => self.crawler.gate.override_denial(verdict, why),
            _ => verdict,
        };
        if !verdict.is_allowed()
            && let Some(denied) = verdict.refusal(self.url(), self.crawler.gate.wall())
        {
            return Err(denied);
        }
        if let Some(denied) = self.purpose_refusal(&verdict) {
            return Err(denied);
        }
        self.pending().verdict = Some(verdict);
        self.span = CallSpan::hop(self.history.hops().len(), self.url());
        Ok(())
    }

    /// Why the page is not requested although it may be: the site disallows the use that it is for. `None` where that is unknown.
    fn purpose_refusal(&self, verdict: &Verdict) -> Option<Denied> {
        // The owner of a site may pass over what its files say.
        if self.override_reason().is_some() {
            return None;
        }
        self.crawler.purpose_refusal(verdict, self.url())
    }

    /// Acquires the permit of a hop that was checked, whose verdict the gate replaces if rules change during the wait.
    async fn acquire(&mut self) -> Result<(), Denied> {
        let (gate, mut left) = (&self.crawler.gate, self.wait_left);
        let hop = self.hop.as_mut().expect("see `pending`");
        // Taken: if the wait for the permit is cancelled, the call checks again.
        let mut verdict = hop.verdict.take().expect("`checked` has put it in");
        let permit = self.span.cover(pin!(gate.acquire(&hop.url, &mut verdict, &mut left))).await;
        self.spend(left);
        match permit {
            // The rules have changed during the wait. `checked` overrides them.
            Err(_) if !verdict.is_allowed() && self.override_reason().is_some() => return Ok(()),
            permit => (self.permit, self.is_sent) = (Some(permit?), false),
        }
        if let Some(denied) = self.purpose_refusal(&verdict) {
            return Err(denied);
        }
        self.pending().verdict = Some(verdict);
        Ok(())
    }

    /// Checks and acquires, if neither needs a wait. A second path beside `acquire`, because most requests take it: the clock is read once less,
    /// and no future is made: 1,300 instructions less for a small request (bench `overhead`).
    fn admit_at_once(&mut self) -> Result<(), Denied> {
        let gate = &self.crawler.gate;
        if self.step() == Step::Check
            && self.hop.as_ref().is_some_and(|hop| hop.may_go.is_none())
            && let Some(verdict) = gate.check_at_once(self.url())
        {
            self.checked(verdict)?;
            if self.step() == Step::Acquire
                && let Some(verdict) = self.verdict()
                && let Some(permit) = self.span.within(|| gate.acquire_at_once(self.url(), verdict))
            {
                (self.permit, self.is_sent) = (Some(permit), false);
            }
        }
        Ok(())
    }

    /// Why the request goes out although robots.txt denies it: for the origin that the caller named, or for all.
    fn override_reason(&self) -> Option<&Arc<str>> {
        let for_one = self.options.ignore_robots.as_deref();
        let for_one = for_one.filter(|(origin, _)| Origin::of(self.url()).is_ok_and(|url| url == *origin));
        for_one.map(|(_, why)| why).or(self.crawler.settings.report_only.as_ref())
    }

    /// Reports that the client was not ready for a while. If the host is backed off meanwhile, or rules may have changed, this returns the
    /// permit, because robots.txt may need it, and the call continues with [`Step::Check`].
    pub fn was_late(&mut self) {
        let Some(verdict) = self.verdict() else { return };
        let now = match verdict.override_reason() {
            Some(_) => Some(verdict.clone()),
            None => self.crawler.gate.check_cached(self.url()),
        };
        let is_current = |now: &Verdict| {
            now.is_allowed()
                && now.crawl_delay() <= verdict.crawl_delay()
                && self.purpose_refusal(now).is_none()
        };
        let is_backed_off = self.permit.as_ref().is_some_and(Permit::is_backed_off);
        match now.filter(|now| is_current(now) && !is_backed_off) {
            Some(now) => self.pending().verdict = Some(now),
            None => {
                self.give_back();
                self.pending().verdict = None;
            }
        }
    }

    /// Makes the request name this crawler and only the site of its URL.
    ///
    /// # Errors
    /// [`DeniedKind::Identity`] or [`DeniedKind::ForeignHost`].
    pub fn sign(&self, headers: &mut HeaderMap) -> Result<(), Denied> {
        if let Some(host) = foreign_host(headers, self.url()).map(excerpt) {
            return Err(self.denied(DeniedKind::ForeignHost { host }));
        }
        self.crawler.identity.sign(headers).map_err(|kind| self.denied(kind))
    }

    /// Adds what is offered unasked, and signs the request, if requests are signed. Call this last before sending: a signature is valid for
    /// seconds, and for this request as it is.
    ///
    /// # Errors
    /// [`DeniedKind::NotSigned`].
    pub fn add_signature(&mut self, headers: &mut HeaderMap) -> Result<(), Denied> {
        let Crawler { gate, settings, .. } = self.crawler;
        let url = self.url().clone();
        self.given.offer(&settings.challenges, &url, headers);
        let Some(signer) = self.given.signer().or(gate.signer()) else { return Ok(()) };
        let signed = signer.sign(&self.method, &url, headers, gate.wall());
        signed.map_err(|error| self.denied(DeniedKind::NotSigned { reason: error.to_string() }))
    }

    /// Reports that the request is sent now: its permit counts until the response ends.
    pub fn sending(&mut self) {
        self.is_sent = true;
        self.is_unconnected = false;
        self.given.sent();
    }

    /// Reports the head of the response.
    ///
    /// # Panics
    /// If no request was admitted after the last response.
    ///
    /// # Errors
    /// [`DeniedKind::RedirectBypass`] if it is the response to another URL: the client has followed a redirect past the gate.
    pub fn answered(&mut self, head: ResponseHead<'_>) -> Result<(), Denied> {
        self.observe(head.status, head.headers);
        if let Some(got) = head.url.filter(|got| !same_resource(got, self.url())) {
            return Err(self.denied(DeniedKind::RedirectBypass { got: without_userinfo(got) }));
        }
        let waited = self.pending().waited;
        // A look at the clock, which only a limit or a span needs.
        let is_needed = self.wire_left.is_some() || self.span.is_enabled();
        let wire = self.permit.as_ref().filter(|_| is_needed).map_or(Duration::ZERO, Permit::elapsed);
        self.wire_left = self.wire_left.map(|left| left.saturating_sub(wire));
        std::mem::replace(&mut self.span, CallSpan::none()).hop_answered(head.status, waited, wire);
        let terms = PaymentTerms::of(head.status, head.headers);
        self.given.settle(RequestEnd::Answered(head));
        if self.history.hops.is_empty() {
            // Most calls have one hop, and room for more is a large block.
            self.history.hops.reserve_exact(1);
        }
        // Taken last, so that it is moved once.
        let hop = self.hop.take().expect("a response ends one hop");
        self.history.hops.push(Hop {
            url: hop.url,
            status: head.status,
            verdict: hop.verdict.expect("a verdict lets a request out"),
            waited,
            remote: head.remote_addr,
            permissions: None,
            payment: terms.map(Box::new),
            is_repeated: false,
        });
        self.follow_or_finish(head)
    }

    /// Reports a response to its host, which is backed off if the response asks for that.
    pub fn observe(&mut self, status: StatusCode, headers: &HeaderMap) {
        // A request that was answered was sent.
        self.sending();
        if let Some(permit) = &self.permit {
            self.span.within(|| permit.observe(status, headers));
        }
    }

    fn follow_or_finish(&mut self, head: ResponseHead<'_>) -> Result<(), Denied> {
        // Within what the call may still wait. Else the response is the caller's: by 429 it may have backed its host off.
        let is_due = || self.crawler.gate.next_slot(self.url()).is_ok_and(|slot| slot.wait <= self.wait_left);
        let target = if head.is_repeatable && self.may_repeat() && is_due() && self.answers(head) {
            self.history.hops.last_mut().expect("its response ended one").is_repeated = true;
            RedirectTarget::repeat(self.method.clone(), self.url().clone())
        } else if !head.status.is_redirection() {
            return Ok(());
        } else {
            let hop = self.redirects().count().saturating_sub(1);
            let policy = self.options.redirects.as_ref().unwrap_or(&self.crawler.settings.redirects);
            match redirect(policy, &self.method, self.url(), hop, head) {
                Redirect::Follow(target) => {
                    self.given.forget_signer();
                    self.next_hop = self.crawler.gate.next_hop(head.status, head.headers).map(Box::new);
                    target
                }
                Redirect::TooMany(url) => {
                    return Err(Denied::new(DeniedKind::TooManyRedirects, &url, self.crawler.gate.wall()));
                }
                Redirect::End(stopped) => {
                    self.history.stopped = stopped;
                    return Ok(());
                }
            }
        };
        self.target = Some(Box::new(target));
        Ok(())
    }

    /// Waits as long as the redirect that led here asks for. Before robots.txt is checked, because that may
    /// change meanwhile.
    async fn await_redirect(&mut self) -> Result<(), Denied> {
        let Some(hop) = self.pending().may_go.take() else { return Ok(()) };
        let mut left = self.wait_left;
        let waited = self.crawler.gate.await_hop(*hop, self.url(), &mut left).await;
        self.spend(left);
        waited
    }

    /// The hops that redirected. A request that was repeated with what its server asked for was not redirected.
    fn redirects(&self) -> impl Iterator<Item = &Hop> {
        self.history.hops().iter().filter(|hop| hop.status.is_redirection() && !hop.is_repeated)
    }

    /// Whether the same request goes out once more, with something that the response asks for.
    fn answers(&mut self, head: ResponseHead<'_>) -> bool {
        let url = self.url().clone();
        self.given.answer(&self.crawler.settings.challenges, &url, head)
    }

    /// Reports that there is no response; `None` if the host is not the reason. Await [`saved`](Self::saved) before the call, and its permit, ends.
    ///
    /// Returns the refusal, if the request was not sent because its address must not be contacted.
    pub fn failed(&mut self, failure: Option<Failure>) -> Option<Denied> {
        if let Some(Failure::AddressRefused(address)) = failure {
            self.not_sent();
            return Some(self.denied(DeniedKind::AddressRefused { address: Some(address) }));
        }
        // Nothing was sent, so nothing is paid. TLS and the way to the host can also fail later.
        let unsent = |error: Failure| error.is_connect() && !matches!(error, Failure::Tls | Failure::NoRoute);
        self.is_unconnected = failure.is_some_and(unsent);
        if self.is_unconnected {
            self.given.settle(RequestEnd::NotSent);
        }
        let permit = self.permit.as_ref()?;
        // What earlier hops have left of the timeout may be too short for any server.
        let is_ours = failure == Some(Failure::Timeout)
            && self.hop.as_ref().is_some_and(|hop| hop.is_later)
            && self.wire_left.is_some_and(|left| permit.elapsed() >= left);
        if let Some(failure) = failure.filter(|_| !is_ours) {
            self.span.within(|| permit.failed(failure));
        }
        None
    }

    /// Reports that the request was not sent: its permit is returned, and the next request needs no delay.
    pub fn not_sent(&mut self) {
        self.is_sent = false;
        self.give_back();
        self.given.settle(RequestEnd::NotSent);
    }

    fn give_back(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.give_back();
        }
    }

    /// Waits until a backoff by the response is in the shared store.
    pub async fn saved(&self) {
        if let Some(permit) = self.permit.as_ref().filter(|permit| !permit.is_saved()) {
            self.span.cover(Box::pin(permit.saved())).await;
        }
    }

    /// Something on the way, such as a cache, may have dropped field lines: nothing is known but what is stated.
    pub fn lost_fields(&mut self) {
        self.has_lost_fields = true;
    }

    /// The permit, for the body of the response.
    pub fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }

    /// Goes where the redirect leads: [`url`](Self::url) and [`method`](Self::method) are those of the next request, and the fields of the one
    /// before become its own: no credentials to another origin, no signature, no offer to pay, nothing about a body that is not sent.
    /// Returns whether the body is sent again (307, 308). The response before has been dropped: its permit ends here.
    ///
    /// # Panics
    /// If the call is not at [`Step::Follow`].
    pub fn follow(&mut self, headers: &mut HeaderMap) -> bool {
        let target = *self.target.take().expect("Step::Follow");
        target.change(headers);
        self.given.add_to(headers);
        self.permit = None;
        self.method = target.method;
        self.has_lost_fields = false;
        let may_go = self.next_hop.take();
        self.hop = Some(PendingHop { is_later: true, may_go, ..PendingHop::to(target.url) });
        target.keeps_body
    }

    /// The hops so far.
    pub fn history(&self) -> &RedirectHistory {
        &self.history
    }

    /// Creates a refusal of this hop.
    pub fn denied(&self, kind: DeniedKind) -> Denied {
        Denied::new(kind, self.url(), self.crawler.gate.wall())
    }

    /// Ends the call with this refusal, adds the hops before it, and notifies observers.
    #[must_use]
    pub fn refused(&self, denied: Denied) -> Denied {
        let denied = denied.after(self.redirects().map(|hop| (hop.url.clone(), hop.status)).collect());
        self.crawler.gate.report_refused(&denied);
        denied
    }

    /// The hops of a call that ends without a response, with how long it has waited.
    pub fn take_history(&mut self) -> RedirectHistory {
        let unanswered = self.hop.as_ref().map_or(Duration::ZERO, |hop| hop.waited);
        RedirectHistory { unanswered, ..std::mem::take(&mut self.history) }
    }
}

impl PendingHop {
    fn to(url: Url) -> Self {
        Self { url, verdict: None, waited: Duration::ZERO, is_later: false, may_go: None }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.is_sent {
            self.give_back();
        }
    }
}

/// Checks robots.txt and acquires the host's permit, so that the call continues with [`Step::Send`].
///
/// # Errors
/// A refusal of any kind.
pub async fn admit(call: &mut Call<'_>) -> Result<(), Denied> {
    call.admit_at_once()?;
    // Boxed, because most calls do not need it and should not carry the room for it.
    if call.step() == Step::Send { Ok(()) } else { Box::pin(admit_after_waiting(call)).await }
}

async fn admit_after_waiting(call: &mut Call<'_>) -> Result<(), Denied> {
    loop {
        match call.step() {
            Step::Check => {
                call.await_redirect().await?;
                let mut left = call.wait_left;
                let verdict = call.crawler.gate.check(call.url(), &mut left).await;
                call.spend(left);
                call.checked(verdict?)?;
            }
            Step::Acquire => call.acquire().await?,
            Step::Send | Step::Follow | Step::Done => return Ok(()),
        }
    }
}
