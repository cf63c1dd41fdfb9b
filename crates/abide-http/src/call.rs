//! One call, hop by hop, without I/O: what to do next, by what came of the last step.
//!
//! A client drives it, as the example of this crate shows. [`admit`] takes the steps that are the same for every client: robots.txt and rate limit.

#![expect(clippy::expect_used, reason = "each `expect` says why it holds")]

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::crawler::{Crawler, Options};
use crate::fetch_info::{CallSpan, Hop, RedirectHistory};
use crate::halves::SharedHandoff;
use crate::identity::{excerpt, foreign_host};
use crate::license::LicenseToken;
use crate::payment::{Payment, PaymentTerms};
use crate::preserved_fields::restore_fields;
use crate::reader::FieldSource;
use crate::redirect::{Redirect, RedirectTarget, redirect, same_resource};
use abide_gate::pacing::{NextHop, Permit};
use abide_gate::{Denied, DeniedKind, Failure, Origin, SignRequest, Verdict, has_userinfo, without_userinfo};

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
    /// Whether a permit is acquired here, and not by a middleware below.
    pub(crate) paces: bool,
    /// The hop that was handed down, to the call below or to this one.
    pub(crate) handoff: Option<SharedHandoff>,
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
    pub(crate) source: FieldSource,
    /// What signs this hop, in place of what signs all, because the server has asked for it.
    pub(crate) signer: Option<Arc<dyn SignRequest>>,
    /// The token of a licence, for the origin that has asked for one.
    license: Option<Box<LicenseToken>>,
    /// What the next request offers to pay.
    payment: Option<Box<Payment>>,
    given: Repetitions,
}

/// What servers have asked for, and were given by repeating the request: each once in a call.
#[derive(Debug, Default)]
struct Repetitions {
    signature: bool,
    license: bool,
    price: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct PendingHop {
    pub(crate) url: Url,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) waited: Duration,
    /// How long a middleware below had it on the wire.
    pub(crate) wire: Duration,
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
            paces: true,
            handoff: None,
            history: RedirectHistory::default(),
            method: method.clone(),
            hop: Some(PendingHop::to(if has_userinfo(url) { without_userinfo(url) } else { url.clone() })),
            span: CallSpan::none(),
            permit: None,
            is_sent: false,
            is_unconnected: false,
            target: None,
            next_hop: None,
            source: FieldSource::Wire,
            signer: None,
            license: None,
            payment: None,
            given: Repetitions::default(),
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
            Some(_) if self.paces && self.permit.is_none() => Step::Acquire,
            Some(_) => Step::Send,
            None if self.target.is_some() => Step::Follow,
            None => Step::Done,
        }
    }

    /// Whether the request may have to be sent once more, because a server can ask for a signature, a licence or a price.
    pub fn may_repeat(&self) -> bool {
        let Crawler { gate, settings, .. } = self.crawler;
        gate.signer().is_some() || settings.license.is_some() || settings.payment.is_some()
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
        self.method.is_idempotent() && self.payment.is_none() && self.time_left() != Some(Duration::ZERO)
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
        self.pending().verdict = Some(verdict);
        self.span = CallSpan::hop(self.history.hops().len(), self.url());
        Ok(())
    }

    /// Acquires the permit of a hop that was checked, whose verdict the gate replaces if rules change during the wait.
    async fn acquire(&mut self) -> Result<(), Denied> {
        let (gate, mut left) = (&self.crawler.gate, self.wait_left);
        let hop = self.hop.as_mut().expect("see `pending`");
        // Taken: if the wait for the permit is cancelled, the call checks again.
        let mut verdict = hop.verdict.take().expect("`checked` or `one_hop` has put it in");
        let permit = self.span.cover(pin!(gate.acquire(&hop.url, &mut verdict, &mut left))).await;
        self.spend(left);
        match permit {
            // The rules have changed during the wait. `checked` overrides them.
            Err(_) if !verdict.is_allowed() && self.override_reason().is_some() => return Ok(()),
            permit => (self.permit, self.is_sent) = (Some(permit?), false),
        }
        self.pending().verdict = Some(verdict);
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
        let is_current = |now: &Verdict| now.is_allowed() && now.crawl_delay() <= verdict.crawl_delay();
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

    /// Adds what a server has asked for, and signs the request, if requests are signed. Call this last before sending: a signature is valid for
    /// seconds, and for this request as it is.
    ///
    /// # Errors
    /// [`DeniedKind::NotSigned`].
    pub fn add_signature(&mut self, headers: &mut HeaderMap) -> Result<(), Denied> {
        if let Some(policy) = self.crawler.settings.payment.as_ref().filter(|_| self.payment.is_none()) {
            self.payment = policy.offer(self.url(), None).map(Box::new);
        }
        self.add_given(headers);
        let gate = &self.crawler.gate;
        let Some(signer) = self.signer.as_ref().or(gate.signer()) else { return Ok(()) };
        let signed = signer.sign(&self.method, self.url(), headers, gate.wall());
        signed.map_err(|error| self.denied(DeniedKind::NotSigned { reason: error.to_string() }))
    }

    /// Adds what a server has asked for, a price or the token of a licence.
    pub(crate) fn add_given(&self, headers: &mut HeaderMap) {
        if let Some(token) = &self.license {
            // In place of any other credentials.
            headers.insert(AUTHORIZATION, token.0.clone());
        }
        if let Some(payment) = &self.payment {
            payment.add(headers);
        }
    }

    /// Reports that the request is sent now: its permit counts until the response ends.
    pub fn sending(&mut self) {
        // At once, and not when it ends: what is between two halves may give up while the request is on the wire.
        if !std::mem::replace(&mut self.is_sent, true) {
            self.count_for_above(true);
        }
        self.is_unconnected = false;
        if let Some(payment) = &mut self.payment {
            payment.is_sent = true;
        }
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
        let PendingHop { waited, wire, .. } = *self.pending();
        // A look at the clock, which only a limit or a span needs.
        let is_needed = self.wire_left.is_some() || self.span.is_enabled();
        let wire = self.permit.as_ref().filter(|_| is_needed).map_or(wire, Permit::elapsed);
        self.wire_left = self.wire_left.map(|left| left.saturating_sub(wire));
        std::mem::replace(&mut self.span, CallSpan::none()).hop_answered(head.status, waited, wire);
        let terms = PaymentTerms::of(head.status, head.headers);
        if let Some(payment) = self.payment.take() {
            payment.settled(head.status, head.headers);
        }
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
        let target = if head.is_repeatable && self.may_repeat() && is_due() && self.gives(head) {
            self.history.hops.last_mut().expect("its response ended one").is_repeated = true;
            RedirectTarget::repeat(self.method.clone(), self.url().clone())
        } else if !head.status.is_redirection() {
            return Ok(());
        } else {
            let hop = self.redirects().count().saturating_sub(1);
            let policy = self.options.redirects.as_ref().unwrap_or(&self.crawler.settings.redirects);
            match redirect(policy, &self.method, self.url(), hop, head) {
                Redirect::Follow(target) => {
                    self.signer = None;
                    self.license = self.license.take().filter(|_| target.keeps_credentials);
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
    #[cold]
    fn gives(&mut self, head: ResponseHead<'_>) -> bool {
        let Crawler { gate, settings, .. } = self.crawler;
        let signer = gate.signer().and_then(|signer| signer.asked(head.status, head.headers));
        let token = || settings.license.as_ref()?.find(self.url(), head.status, head.headers);
        let offer = || settings.payment.as_ref()?.offer(self.url(), Some(self.history.last()?.payment()?));
        if signer.is_some() && !self.given.signature {
            self.given.signature = true;
        } else if !self.given.license
            && let Some(token) = token()
        {
            (self.license, self.given.license) = (Some(Box::new(token)), true);
        } else if !self.given.price
            && let Some(payment) = offer()
        {
            (self.payment, self.given.price) = (Some(Box::new(payment)), true);
        } else {
            return false;
        }
        // Also where it was given before: the nonce may be another.
        self.signer = signer.or(self.signer.take());
        true
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
        if let Some(mut payment) = self.payment.take_if(|_| self.is_unconnected) {
            payment.is_sent = false;
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
        if std::mem::take(&mut self.is_sent) {
            self.count_for_above(false);
        }
        self.give_back();
        if let Some(mut payment) = self.payment.take() {
            payment.is_sent = false;
        }
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
        self.source = FieldSource::Unknown;
    }

    /// Takes away what [`preserve_fields`](crate::preserve_fields) has added before a cache, and unites it with the fields that are there.
    pub fn restore_fields(&mut self, status: StatusCode, headers: &mut HeaderMap) {
        self.source = restore_fields(status, headers);
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
        self.permit = None;
        self.method = target.method;
        self.source = FieldSource::Wire;
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
        Self {
            url,
            verdict: None,
            waited: Duration::ZERO,
            wire: Duration::ZERO,
            is_later: false,
            may_go: None,
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.is_sent && self.is_unconnected {
            self.count_for_above(false);
        }
        // None in most calls; one that is cancelled after it was handed down has one.
        if self.handoff.is_some() && !self.paces {
            self.take_back();
        }
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
