//! The two halves of the middleware, with an HTTP cache between them: what the outer one hands to the inner one, and what that reports back.
//!
//! A cache between the two keeps neither errors nor extensions of responses, so both go through the request's extensions.

#![allow(clippy::expect_used, reason = "each `expect` says why it holds")]

use std::mem::replace;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, DeniedKind, SignRequest, Verdict};
use abide_http::{Call, Options, RedirectPolicy, admit, preserve_fields, same_resource};
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use url::Url;

use crate::client::Core;
use crate::middleware::{ANSWERED, count_sends, head_of, into_http, refuse, send_and_report};

/// A request that the outer half has checked, for the inner half.
#[derive(Debug, Clone)]
struct Handoff {
    url: Url,
    verdict: Verdict,
    wait_left: Duration,
    signer: Option<Arc<dyn SignRequest>>,
    is_redirected: bool,
    sent: Arc<Mutex<HopReport>>,
}

#[derive(Debug, Default)]
struct HopReport {
    waited: Duration,
    /// How long the request was on the wire, up to the head of its response.
    wire: Duration,
    /// The verdict by which the request went out. `None`: a cache answered.
    verdict: Option<Verdict>,
    denied: Option<Denied>,
    is_sent: bool,
}

impl Handoff {
    fn report(&self) -> std::sync::MutexGuard<'_, HopReport> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hop on its way through the chain: when that ends, and also when the caller is cancelled, the call is notified whether the hop was sent.
struct Through<'c, 'a> {
    call: &'c mut Call<'a>,
    handoff: Handoff,
}

impl Drop for Through<'_, '_> {
    fn drop(&mut self) {
        if self.handoff.report().is_sent {
            self.call.sending();
        } else {
            self.call.not_sent();
        }
    }
}

/// The outer half: hands a hop on, and reports its response to the call.
pub(crate) async fn send_through_chain(
    call: &mut Call<'_>,
    mut request: Request,
    is_repeatable: bool,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Response> {
    *request.timeout_mut() = call.timeout();
    call.add_given(request.headers_mut());
    let (url, wait_left, mut times_unpaced) = (call.url().clone(), call.wait_left(), 0);
    let verdict = call.verdict().cloned().expect("a call is checked before it is sent");
    let (signer, is_redirected) = (call.signer().cloned(), !call.history().hops().is_empty());
    let handoff = Handoff { url, verdict, wait_left, signer, is_redirected, sent: Arc::default() };
    extensions.insert(handoff.clone());
    let through = Through { call, handoff };
    // The inner half counts for itself, so what is counted here went past it.
    let sending = through.call.cover(next.run(request, extensions));
    let response = count_sends(&mut times_unpaced, sending).await;
    let mut report = through.handoff.report();
    let (waited, wire) = (report.waited, report.wire);
    let (verdict, denied) = (report.verdict.take(), report.denied.take());
    drop(report);
    drop(through);
    call.spend(wait_left.saturating_sub(waited));
    // With a client that counts nothing, an address says the same, if nothing on the way has rebuilt the response.
    let has_address = response.as_ref().is_ok_and(|response| response.remote_addr().is_some());
    if times_unpaced > 0 || verdict.is_none() && has_address {
        return Err(refuse(call.denied(DeniedKind::NoPacing)));
    }
    let mut response = response.map_err(|error| denied.map_or(error, refuse))?;
    call.restore_fields(response.status(), response.headers_mut());
    call.answered_below(head_of(&response, is_repeatable), verdict, wire).map_err(refuse)?;
    Ok(response)
}

/// The inner half: acquires the permit, and sends. Without an outer half, as when a cache revalidates in the background, it checks robots.txt itself.
pub(crate) async fn send_paced(
    core: &Core,
    mut request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Response> {
    let options = extensions.get::<Options>().cloned().unwrap_or_default();
    let options = options.with_redirects(RedirectPolicy::never());
    let timeout = request.timeout().copied().or(core.timeout);
    let mut call = Call::new(&core.crawler, options, request.method(), request.url(), timeout);
    let handoff = extensions.get::<Handoff>().cloned();
    // Something between the halves may send again, or something else.
    if let Some(handoff) = handoff.as_ref().filter(|handoff| same_resource(&handoff.url, call.url())) {
        let left = handoff.wait_left.saturating_sub(handoff.report().waited);
        call = call.checked_above(handoff.verdict.clone(), left).signed_by(handoff.signer.clone());
        if handoff.is_redirected {
            call = call.redirected();
        }
        // What is between the halves may have taken long, as a retry that pauses does.
        call.was_late();
    }
    let (wait_left, mut wire) = (call.wait_left(), Duration::ZERO);
    let response = async {
        // Also what the outer half has signed: something between the two may have changed it.
        call.sign(request.headers_mut()).map_err(refuse)?;
        admit(&mut call).await.map_err(refuse)?;
        let was_sent = handoff.as_ref().is_some_and(|handoff| replace(&mut handoff.report().is_sent, true));
        let (mut taken, mut place) = (Some(request), None);
        // What is sent again, the half above decides.
        let sent = send_and_report(core, &mut call, &mut taken, false, extensions, next, &mut place);
        let answered = sent.await;
        if let Some(handoff) = &handoff {
            handoff.report().is_sent = was_sent || call.is_sent();
        }
        wire = call.permit().map(Permit::elapsed).unwrap_or_default();
        call.saved().await;
        answered.map(|_| place.expect(ANSWERED))
    }
    .await;
    let denied = response.as_ref().err().and_then(|error| Denied::find(error));
    if let Some(handoff) = handoff {
        let mut report = handoff.report();
        report.waited = report.waited.saturating_add(wait_left.saturating_sub(call.wait_left()));
        if response.is_ok() {
            report.wire = report.wire.saturating_add(wire);
            report.verdict = call.history().last().map(|hop| hop.verdict().clone());
        } else {
            report.denied = denied;
        }
    } else if let Some(denied) = denied {
        core.crawler.gate().report_refused(&denied);
    }
    let response = response?;
    let url = response.url().clone();
    let mut response = into_http(url, None, response, call.take_permit(), core.read_timeout);
    if Arc::strong_count(&core.gate_halves) > 1 {
        preserve_fields(&mut response, core.crawler.gate().wall());
    }
    Ok(Response::from(response.map(reqwest::Body::wrap)))
}
