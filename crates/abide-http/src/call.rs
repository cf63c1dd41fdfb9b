//! One call, hop by hop, without I/O: each step is a value that is used up, and gives the next one.
//!
//! [`Check`] → [`Acquire`] → [`SendRequest`] → [`Sent`] → [`Follow`], which begins again, or [`Done`]. So a
//! client that sends before it has a permit, or forgets to report a response, does not compile. A step that
//! is dropped ends its call: a request that was not sent gives its permit back.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use thiserror::Error;
use url::Url;

use crate::challenge::{Given, RequestEnd};
use crate::crawler::{Crawler, Options};
use crate::fetch_info::{CallSpan, Hop, RedirectHistory, Stopped, log_failed};
use crate::identity::{excerpt, foreign_host};
use crate::redirect::{Redirect, RedirectTarget, redirect, same_resource};
use crate::tdmrep::Tdmrep;
use abide_gate::pacing::{NextHop, Permit, RefusalReporter};
use abide_gate::{
    Denied, DeniedKind, Failure, Origin, Refusal, Verdict, has_userinfo, lacks_timers, without_userinfo,
};

/// What all steps of a call know: each of them dereferences to it.
///
/// ```
/// fn shown(step: &abide_http::SendRequest<'_>) -> String {
///     format!("{} {} after {} hops", step.method(), step.url(), step.history().hops().len())
/// }
/// ```
#[derive(Debug)]
pub struct Call<'a> {
    pub(crate) crawler: &'a Crawler,
    pub(crate) options: Options,
    pub(crate) history: RedirectHistory,
    /// How long the call may still wait for permits.
    wait_left: Duration,
    /// How long the call may still be on the wire.
    wire_left: Option<Duration>,
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// How long this hop has waited.
    waited: Duration,
    /// Whether hops before this one have used some of the timeout.
    is_later: bool,
    span: CallSpan,
    pub(crate) permit: Option<Permit>,
    /// Whether the response is a refusal is seen in its body, and reported then.
    pub(crate) refusals: Option<RefusalReporter>,
    /// Whether the request of the permit is on the wire. Before that, the permit is given back, and the next
    /// request needs no delay.
    is_sent: bool,
    /// Whether something on the way may have dropped field lines.
    pub(crate) has_lost_fields: bool,
    given: Given,
    /// Of the site of this hop.
    tdmrep: Tdmrep,
}

impl Crawler {
    /// Begins a call. The user information of `url` is neither checked nor reported. `timeout` limits the
    /// time that the call is on the wire, all hops together.
    pub fn call(&self, options: Options, method: &Method, url: &Url, timeout: Option<Duration>) -> Check<'_> {
        let call = Box::new(Call {
            wait_left: options.max_wait.unwrap_or(self.gate.max_wait()),
            wire_left: timeout,
            options,
            crawler: self,
            history: RedirectHistory::default(),
            method: method.clone(),
            url: if has_userinfo(url) { without_userinfo(url) } else { url.clone() },
            waited: Duration::ZERO,
            is_later: false,
            span: CallSpan::none(),
            permit: None,
            refusals: None,
            is_sent: false,
            has_lost_fields: false,
            given: Given::default(),
            tdmrep: Tdmrep::default(),
        });
        Check { call, may_go: None }
    }
}

impl Call<'_> {
    /// The method of this hop.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The URL of this hop, without user information.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The hops so far.
    pub fn history(&self) -> &RedirectHistory {
        &self.history
    }

    /// How long the request may be on the wire.
    pub fn timeout(&self) -> Option<Duration> {
        let spent = self.permit.as_ref().filter(|_| self.is_sent && self.wire_left.is_some());
        let spent = spent.map_or(Duration::ZERO, Permit::elapsed);
        self.wire_left.map(|left| left.saturating_sub(spent))
    }

    /// Whether the request may have to be sent once more, because there is a hook that answers challenges.
    pub fn may_repeat(&self) -> bool {
        !self.crawler.settings.challenges.is_empty()
    }

    /// The span of this hop.
    pub fn span(&self) -> &CallSpan {
        &self.span
    }

    fn denied(&self, kind: DeniedKind) -> Denied {
        self.crawler.gate.deny(kind, &self.url)
    }

    /// The call has waited for permits until so much is left.
    fn spend(&mut self, left: Duration) {
        self.waited = self.waited.saturating_add(self.wait_left.saturating_sub(left));
        self.wait_left = left;
    }

    /// Makes the request name this crawler and only the site of its URL.
    fn identify(&self, headers: &mut HeaderMap) -> Result<(), Denied> {
        if let Some(host) = foreign_host(headers, &self.url).map(excerpt) {
            return Err(self.denied(DeniedKind::ForeignHost { host }));
        }
        self.crawler.identity.sign(headers).map_err(|kind| self.denied(kind))
    }

    async fn check(
        &mut self,
        may_go: Option<Box<NextHop>>,
        headers: &mut HeaderMap,
    ) -> Result<Verdict, Denied> {
        // Now, and not when the request must wait, or is on the wire: tokio panics where it has no timers.
        if lacks_timers() {
            return Err(self.denied(DeniedKind::NoTimers));
        }
        self.identify(headers)?;
        let gate = &self.crawler.gate;
        let mut left = self.wait_left;
        if let Some(hop) = may_go {
            // As long as the redirect that led here asks for. Before robots.txt is checked, because that may
            // change meanwhile.
            let waited = gate.await_hop(*hop, &self.url, &mut left).await;
            self.spend(left);
            waited?;
        }
        let checked = self.crawler.check_files(&self.url, &mut left).await;
        self.spend(left);
        let (verdict, tdmrep) = checked?;
        self.tdmrep = tdmrep;
        self.allowed(verdict)
    }

    /// The verdict, if the request may be sent by it.
    fn allowed(&mut self, verdict: Verdict) -> Result<Verdict, Denied> {
        let gate = &self.crawler.gate;
        let verdict = match self.override_reason() {
            Some(why) if !verdict.is_allowed() => gate.override_denial(verdict, why),
            _ => verdict,
        };
        if let Some(denied) = gate.denial(&verdict, &self.url) {
            return Err(denied);
        }
        if let Some(denied) = self.purpose_refusal(&verdict) {
            return Err(denied);
        }
        self.span = CallSpan::hop(self.history.hops().len(), &self.url);
        Ok(verdict)
    }

    /// Why the page is not requested although it may be: the site disallows the use that it is for. `None`
    /// where that is unknown.
    fn purpose_refusal(&self, verdict: &Verdict) -> Option<Denied> {
        // The owner of a site may pass over what its files say.
        if self.override_reason().is_some() {
            return None;
        }
        self.crawler.purpose_refusal(verdict, &self.tdmrep, &self.url)
    }

    async fn acquire(&mut self, mut verdict: Verdict) -> Result<Verdict, Denied> {
        loop {
            let mut left = self.wait_left;
            let acquiring = self.crawler.gate.acquire(&self.url, &mut verdict, &mut left);
            let permit = self.span.instrument(acquiring).await;
            self.spend(left);
            match permit {
                // The rules have changed during the wait.
                Err(_) if !verdict.is_allowed() && self.override_reason().is_some() => {
                    verdict = self.allowed(verdict)?;
                }
                permit => {
                    (self.permit, self.is_sent) = (Some(permit?), false);
                    // The rules may be others than before the wait.
                    return self.purpose_refusal(&verdict).map_or(Ok(verdict), Err);
                }
            }
        }
    }

    /// Why the request goes out although robots.txt denies it: for the origin that the caller named, or for
    /// all.
    fn override_reason(&self) -> Option<&Arc<str>> {
        let ignored = self.options.ignore_robots.as_deref().unwrap_or_default();
        let is_named =
            |(origin, _): &&(Origin, Arc<str>)| Origin::of(&self.url).is_ok_and(|url| url == *origin);
        ignored.iter().find(is_named).map(|(_, why)| why).or(self.crawler.settings.report_only.as_ref())
    }

    /// Adds what is offered unasked, and signs the request, if requests are signed. A signature is valid for
    /// seconds, and for this request as it is.
    fn sign(&mut self, headers: &mut HeaderMap) -> Result<(), Denied> {
        let Crawler { gate, settings, .. } = self.crawler;
        self.given.offer(&settings.challenges, &self.url, headers);
        if let Some(signer) = self.given.signer().or(gate.signer()) {
            let signed = signer.sign(&self.method, &self.url, headers, gate.wall());
            signed.map_err(|error| self.denied(DeniedKind::NotSigned { reason: error.to_string() }))?;
        }
        // From now on, its permit counts until the response ends.
        self.is_sent = true;
        self.given.sent();
        Ok(())
    }

    /// Reports a response to its host, which is backed off if the response asks for that, and held if it
    /// refuses us time after time.
    fn observe(&mut self, ResponseHead { status, headers, .. }: ResponseHead<'_>) {
        let Some(permit) = &self.permit else { return };
        let reporter = permit.refusals();
        self.refusals = self.span.within(|| {
            permit.observe_waits(status, headers);
            let refusal = self.crawler.refusal_in_head(status, headers);
            if refusal.is_none() && self.may_be_refused_in_body(status, headers) {
                return Some(reporter);
            }
            reporter.report(status, refusal);
            None
        });
    }

    /// Whether the body has to be looked at to know whether the response is a refusal.
    pub(crate) fn may_be_refused_in_body(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let is_read = self.method != Method::HEAD && !self.crawler.gate.trusts_status();
        is_read && Refusal::may_be_in_body(status, headers)
    }

    /// Waits until a backoff by the response is in the shared store.
    async fn saved(&self) {
        if let Some(permit) = self.permit.as_ref().filter(|permit| !permit.is_saved()) {
            self.span.instrument(permit.saved()).await;
        }
    }

    /// Ends the hop: `None` if its response is the last one.
    fn answered(&mut self, verdict: Verdict, head: ResponseHead<'_>) -> Result<Option<NextRequest>, Denied> {
        if let Some(got) = head.url.filter(|got| !same_resource(got, &self.url)) {
            return Err(self.denied(DeniedKind::RedirectBypass { got: without_userinfo(got) }));
        }
        let wire = self.permit.as_ref().map_or(Duration::ZERO, Permit::elapsed);
        self.wire_left = self.wire_left.map(|left| left.saturating_sub(wire));
        let waited = std::mem::take(&mut self.waited);
        std::mem::replace(&mut self.span, CallSpan::none()).hop_answered(head.status, waited, wire);
        self.given.settle(RequestEnd::Answered(head));
        self.history.hops.push(Hop {
            url: self.url.clone(),
            status: head.status,
            verdict,
            tdmrep: std::mem::take(&mut self.tdmrep),
            waited,
            remote: head.remote_addr,
            permissions: None,
            is_repeated: false,
        });
        if self.is_given(head) {
            if let Some(hop) = self.history.hops.last_mut() {
                hop.is_repeated = true;
            }
            let target = RedirectTarget::repeat(self.method.clone(), self.url.clone());
            return Ok(Some(NextRequest { target, may_go: None }));
        }
        // Where a gatekeeper redirects is no page of the site.
        if self.crawler.refusal_in_head(head.status, head.headers).is_some() {
            return Ok(None);
        }
        let hop = self.redirects().count().saturating_sub(1);
        let policy = self.options.redirects.as_ref().unwrap_or(&self.crawler.settings.redirects);
        let gate = &self.crawler.gate;
        let is_known = |url: &Url| self.history.hops().iter().any(|hop| hop.url == *url);
        match redirect(policy, &self.method, &self.url, hop, head) {
            Redirect::Follow(target) if !policy.follows_circles && is_known(&target.url) => {
                Err(gate.deny(DeniedKind::TooManyRedirects, &target.url))
            }
            Redirect::Follow(target) if policy.returns_repeats && self.repeats(&target.url) => {
                self.history.stopped = Some(Stopped::Repeats);
                Ok(None)
            }
            Redirect::Follow(target) => {
                self.given.forget_signer();
                let may_go = gate.next_hop(head.status, head.headers).map(Box::new);
                Ok(Some(NextRequest { target, may_go }))
            }
            Redirect::TooMany(url) => Err(gate.deny(DeniedKind::TooManyRedirects, &url)),
            Redirect::End(stopped) => {
                self.history.stopped = stopped;
                Ok(None)
            }
        }
    }

    /// Whether the last two hops were this URL: another request for it is the same once more.
    fn repeats(&self, target: &Url) -> bool {
        let last = self.history.hops().iter().rev().take(2);
        last.filter(|hop| hop.status.is_redirection() && same_resource(&hop.url, target)).count() == 2
    }

    /// Whether the same request goes out once more, with something that the response asks for.
    fn is_given(&mut self, head: ResponseHead<'_>) -> bool {
        let Crawler { gate, settings, .. } = self.crawler;
        if settings.challenges.is_empty() || !head.is_repeatable {
            return false;
        }
        // Within what the call may still wait. Else the response is the caller's: by 429 it may have backed
        // its host off.
        let is_due = gate.next_slot(&self.url).is_ok_and(|slot| slot.wait <= self.wait_left);
        is_due && self.given.answer(&settings.challenges, &self.url, head)
    }

    /// The hops that redirected. A request that was repeated with what its server asked for was not
    /// redirected.
    fn redirects(&self) -> impl Iterator<Item = &Hop> {
        self.history.hops().iter().filter(|hop| hop.status.is_redirection() && !hop.is_repeated)
    }

    /// The request was not sent: its permit is returned, and the next request needs no delay.
    fn not_sent(&mut self) {
        self.is_sent = false;
        self.give_back();
        self.given.settle(RequestEnd::NotSent);
    }

    fn give_back(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.give_back();
        }
    }

    /// The hops of a call that ends without a response, with how long it has waited.
    fn take_history(&mut self) -> RedirectHistory {
        RedirectHistory { unanswered: self.waited, ..std::mem::take(&mut self.history) }
    }

    /// Ends the call with this refusal, adds the hops before it, and notifies observers.
    fn refuse(mut self: Box<Self>, denied: Denied) -> Refused {
        let denied = denied.after(self.redirects().map(|hop| (hop.url.clone(), hop.status)).collect());
        // A file is no call of anyone's: the page that needs it is refused, if anything is.
        if !self.crawler.settings.is_of_a_file {
            self.crawler.gate.report_refused(&denied);
        }
        let _open = if self.is_sent { self.permit.take().map(Box::new) } else { None };
        Refused { denied, history: self.take_history(), _open }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.is_sent {
            self.give_back();
        }
    }
}

/// A call that ended with a refusal. It has been reported to the observers. If a response is refused, its
/// permit ends with this.
///
/// ```
/// fn shown(refused: &abide_http::Refused) -> String {
///     format!("{}, after {} responses", refused.denied, refused.history.hops().len())
/// }
/// ```
#[derive(Debug, Error)]
#[error("the request was refused")]
#[non_exhaustive]
pub struct Refused {
    /// Why, with the hops that redirected.
    #[source]
    pub denied: Denied,
    /// All hops, and how long the call has waited.
    pub history: RedirectHistory,
    /// Of a response that is refused: drop that before.
    _open: Option<Box<Permit>>,
}

impl From<Refused> for Denied {
    fn from(refused: Refused) -> Self {
        refused.denied
    }
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

/// What follows a response that is not the last one.
#[derive(Debug)]
struct NextRequest {
    target: RedirectTarget,
    /// What the redirect asks of the hop after it by its Retry-After.
    may_go: Option<Box<NextHop>>,
}

/// The first step of each hop: robots.txt.
#[derive(Debug)]
#[must_use = "a call that is dropped sends nothing"]
pub struct Check<'a> {
    call: Box<Call<'a>>,
    /// What the redirect that led here asks for by its Retry-After.
    may_go: Option<Box<NextHop>>,
}

impl<'a> Check<'a> {
    /// For a response that is there already.
    pub(crate) fn read(self) -> Done<'a> {
        Done { call: self.call, has_sure_end: false }
    }

    /// Makes the fields of the request name this crawler, and only the site of its URL, and checks
    /// robots.txt.
    ///
    /// # Errors
    /// A refusal of any kind.
    pub async fn check(self, headers: &mut HeaderMap) -> Result<Acquire<'a>, Refused> {
        let Self { mut call, may_go } = self;
        match call.check(may_go, headers).await {
            Ok(verdict) => Ok(Acquire { call, verdict }),
            Err(denied) => Err(call.refuse(denied)),
        }
    }

    /// Checks robots.txt and acquires the host's permit.
    ///
    /// # Errors
    /// A refusal of any kind.
    pub async fn admit(self, headers: &mut HeaderMap) -> Result<SendRequest<'a>, Refused> {
        self.check(headers).await?.acquire().await
    }
}

/// A hop that robots.txt allows: it needs the host's permit.
#[derive(Debug)]
#[must_use = "a call that is dropped sends nothing"]
pub struct Acquire<'a> {
    call: Box<Call<'a>>,
    verdict: Verdict,
}

impl<'a> Acquire<'a> {
    /// The verdict by which the request goes out.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Waits for the permit. If rules change during the wait, the URL is checked again.
    ///
    /// # Errors
    /// A refusal of any kind.
    pub async fn acquire(self) -> Result<SendRequest<'a>, Refused> {
        let Self { mut call, verdict } = self;
        match call.acquire(verdict).await {
            Ok(verdict) => Ok(SendRequest { call, verdict }),
            Err(denied) => Err(call.refuse(denied)),
        }
    }
}

/// A hop that has its permit. Dropped before it is sent, it gives the permit back.
#[derive(Debug)]
#[must_use = "a call that is dropped sends nothing"]
pub struct SendRequest<'a> {
    call: Box<Call<'a>>,
    verdict: Verdict,
}

impl<'a> SendRequest<'a> {
    /// The verdict by which the request goes out.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Reports that the client was not ready for a while.
    ///
    /// # Errors
    /// The host was backed off meanwhile, or rules may have changed: the permit is returned, because
    /// robots.txt may need it, and the call continues with this step.
    pub fn was_late(mut self) -> Result<Self, Check<'a>> {
        let now = match self.verdict.override_reason() {
            Some(_) => Some(self.verdict.clone()),
            None => self.crawler.gate.check_cached(&self.url),
        };
        let is_backed_off = self.permit.as_ref().is_some_and(Permit::is_backed_off);
        let is_current = |now: &Verdict| {
            now.is_allowed()
                && now.crawl_delay() <= self.verdict.crawl_delay()
                && self.purpose_refusal(now).is_none()
        };
        match now.filter(|now| is_current(now) && !is_backed_off) {
            Some(verdict) => Ok(Self { verdict, ..self }),
            None => {
                self.call.give_back();
                Err(Check { call: self.call, may_go: None })
            }
        }
    }

    /// Adds to the fields what is offered unasked, and the signature, if requests are signed. Send the
    /// request right after that, without redirects and hidden retries.
    ///
    /// # Errors
    /// [`DeniedKind::NotSigned`].
    pub fn send(self, headers: &mut HeaderMap) -> Result<Sent<'a>, Refused> {
        let Self { mut call, verdict } = self;
        match call.sign(headers) {
            Ok(()) => Ok(Sent { call, verdict }),
            Err(denied) => Err(call.refuse(denied)),
        }
    }
}

/// A request that is on the wire. Dropped, it counts as sent: the host's delay begins.
#[derive(Debug)]
#[must_use = "report the response, or that there is none"]
pub struct Sent<'a> {
    call: Box<Call<'a>>,
    verdict: Verdict,
}

impl<'a> Sent<'a> {
    /// Whether the request may go out once more, under the same permit, because its server has not responded
    /// on a connection that was kept (RFC 9112 §9.3.1), or wants another protocol: only if it may be
    /// processed twice, and costs nothing.
    pub fn may_send_again(&self) -> bool {
        self.method.is_idempotent() && !self.given.is_offer() && self.timeout() != Some(Duration::ZERO)
    }

    /// Prepares the fields of the same request anew, which [may be sent again](Self::may_send_again).
    ///
    /// # Errors
    /// [`DeniedKind::NotSigned`].
    pub fn send_again(self, headers: &mut HeaderMap) -> Result<Self, Refused> {
        let Self { mut call, verdict } = self;
        match call.identify(headers).and_then(|()| call.sign(headers)) {
            Ok(()) => Ok(Self { call, verdict }),
            Err(denied) => Err(call.refuse(denied)),
        }
    }

    /// Something on the way, such as a cache, may have dropped field lines of the response: nothing is known
    /// but what is stated.
    pub fn lost_fields(&mut self) {
        self.call.has_lost_fields = true;
    }

    /// Reports that the request was not sent after all: its permit is returned, and the next request needs no
    /// delay.
    pub fn not_sent(&mut self) {
        self.call.not_sent();
    }

    /// Reports the head of the response. A backoff that it asks for is in the shared store afterwards.
    ///
    /// # Errors
    /// [`DeniedKind::RedirectBypass`] if it is the response to another URL: the client has followed a
    /// redirect past the gate. [`DeniedKind::TooManyRedirects`].
    pub async fn answered(self, head: ResponseHead<'_>) -> Result<Answered<'a>, Refused> {
        let Self { mut call, verdict } = self;
        call.observe(head);
        let next = call.answered(verdict, head);
        call.saved().await;
        match next {
            Ok(None) => Ok(Answered::Done(Done { call, has_sure_end: false })),
            Ok(Some(next)) => {
                // Those of a gatekeeper are not the site's.
                if call.crawler.refusal_in_head(head.status, head.headers).is_none() {
                    call.keep_rules(head).await;
                }
                Ok(Answered::Follow(Follow { call, next }))
            }
            Err(denied) => Err(call.refuse(denied)),
        }
    }

    /// Refuses the response, whose host is nevertheless backed off if it asks for that.
    pub async fn refused(mut self, response: Option<ResponseHead<'_>>, kind: DeniedKind) -> Refused {
        let denied = self.denied(kind);
        if let Some(head) = response {
            self.call.observe(head);
        }
        self.refused_below(denied).await
    }

    /// Reports that something below has refused the request.
    pub async fn refused_below(self, denied: Denied) -> Refused {
        self.call.saved().await;
        self.call.refuse(denied)
    }

    /// Reports that there is no response, because of `failure`; `None` if the host is not the reason. The
    /// error, which is the caller's, is logged: its innermost cause alone, because the texts around that may
    /// contain the URL.
    ///
    /// # Errors
    /// The refusal, if the request was not sent because its address must not be contacted.
    pub async fn failed(
        self,
        failure: Option<Failure>,
        error: &(dyn std::error::Error + Send + Sync + 'static),
    ) -> Result<RedirectHistory, Refused> {
        let Self { mut call, .. } = self;
        if let Some(Failure::AddressRefused(address)) = failure {
            call.not_sent();
            let denied = call.denied(DeniedKind::AddressRefused { address: Some(address) });
            return Err(call.refuse(denied));
        }
        // Nothing was sent, so nothing is paid. TLS and the way to the host can also fail later.
        let unsent = |error: Failure| error.is_connect() && !matches!(error, Failure::Tls | Failure::NoRoute);
        if failure.is_some_and(unsent) {
            call.given.settle(RequestEnd::NotSent);
        }
        // What earlier hops have left of the timeout may be too short for any server.
        let is_ours =
            failure == Some(Failure::Timeout) && call.is_later && call.timeout() == Some(Duration::ZERO);
        if let (Some(failure), Some(permit)) = (failure.filter(|_| !is_ours), &call.permit) {
            call.span.within(|| permit.failed(failure));
        }
        call.saved().await;
        log_failed(call.history.hops().len(), &call.url, error);
        Ok(call.take_history())
    }
}

/// What a response asks for.
#[derive(Debug)]
pub enum Answered<'a> {
    /// A further request: it redirects, or asks for something that is given.
    Follow(Follow<'a>),
    /// Nothing: it is the caller's.
    Done(Done<'a>),
}

/// A response after which another request is sent.
#[derive(Debug)]
#[must_use = "a call that is dropped sends nothing"]
pub struct Follow<'a> {
    call: Box<Call<'a>>,
    next: NextRequest,
}

impl<'a> Follow<'a> {
    /// Whether the body is sent again (307, 308, and the same request once more).
    pub fn keeps_body(&self) -> bool {
        self.next.target.keeps_body
    }

    /// Does not go on: the response is the caller's.
    pub fn stop(self) -> Done<'a> {
        Done { call: self.call, has_sure_end: false }
    }

    /// Drops the response, which ends its permit, and goes where it leads. `headers`, those of the request
    /// before as its caller made them, become those of the next one: no credentials to another origin, no
    /// signature, no offer to pay, nothing about a body that is not sent.
    pub fn follow<R>(self, response: R, headers: &mut HeaderMap) -> Check<'a> {
        let Self { mut call, next } = self;
        drop(response);
        call.permit = None;
        // What is given to a server that asks for it is no refusal.
        call.refusals = None;
        call.is_sent = false;
        next.target.change(headers);
        call.given.add_to(headers);
        (call.url, call.method) = (next.target.url, next.target.method);
        (call.is_later, call.has_lost_fields) = (true, false);
        Check { call, may_go: next.may_go }
    }
}

/// A response that is the caller's, and has not been read.
#[derive(Debug)]
#[must_use = "without it the response has no fetch info, and its permit ends"]
pub struct Done<'a> {
    pub(crate) call: Box<Call<'a>>,
    pub(crate) has_sure_end: bool,
}

macro_rules! knows_its_call {
    ($($step:ident)*) => {
        $(
            impl<'a> Deref for $step<'a> {
                type Target = Call<'a>;

                fn deref(&self) -> &Call<'a> {
                    &self.call
                }
            }
        )*
    };
}

knows_its_call!(Check Acquire SendRequest Sent Follow Done);
