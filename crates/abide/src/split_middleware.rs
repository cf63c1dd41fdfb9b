//! The two halves of the middleware, with an HTTP cache between them.
//!
//! What one hands to the other goes through the request's extensions, because a cache keeps neither errors nor extensions of responses.

#![allow(clippy::expect_used, reason = "each `expect` says why it holds")]

use std::sync::Arc;

use abide_gate::{Denied, DeniedKind};
use abide_http::{Call, admit, preserve_fields};
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};

use crate::client::Core;
use crate::middleware::{ANSWERED, count_sends, head_of, into_http, refuse, send_and_report};

/// The outer half: hands a hop on, and reports its response to the call.
pub(crate) async fn send_through_chain(
    call: &mut Call<'_>,
    mut request: Request,
    is_repeatable: bool,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Response> {
    *request.timeout_mut() = call.timeout();
    call.hand_down(request.headers_mut(), extensions);
    let mut times_unpaced = 0;
    // The inner half counts for itself, so what is counted here went past it.
    let sending = call.span().cover(next.run(request, extensions));
    let response = count_sends(&mut times_unpaced, sending).await;
    let (is_paced, denied) = call.take_back();
    // With a client that counts nothing, an address says the same, if nothing on the way has rebuilt the response.
    let has_address = response.as_ref().is_ok_and(|response| response.remote_addr().is_some());
    if times_unpaced > 0 || !is_paced && has_address {
        return Err(refuse(call.denied(DeniedKind::NoPacing)));
    }
    let mut response = response.map_err(|error| denied.map_or(error, refuse))?;
    call.restore_fields(response.status(), response.headers_mut());
    call.answered(head_of(&response, is_repeatable)).map_err(refuse)?;
    Ok(response)
}

/// The inner half: acquires the permit, and sends. Without an outer half, as when a cache revalidates in the background, it checks robots.txt itself.
pub(crate) async fn send_paced(
    core: &Core,
    mut request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Response> {
    let timeout = request.timeout().copied().or(core.timeout);
    let mut call = Call::one_hop(&core.crawler, extensions, request.method(), request.url(), timeout);
    let mut place = None;
    let sent = async {
        // Also what the outer half has signed: something between the two may have changed it.
        call.sign(request.headers_mut()).map_err(refuse)?;
        admit(&mut call).await.map_err(refuse)?;
        let mut taken = Some(request);
        // What is sent again, the half above decides.
        send_and_report(core, &mut call, &mut taken, false, extensions, next, &mut place).await
    }
    .await;
    call.report(sent.as_ref().err().and_then(|error| Denied::find(error)));
    call.saved().await;
    sent?;
    let response = place.expect(ANSWERED);
    let url = response.url().clone();
    let mut response = into_http(url, None, response, call.take_permit(), core.read_timeout);
    if Arc::strong_count(&core.gate_halves) > 1 {
        preserve_fields(&mut response, core.crawler.gate().wall());
    }
    Ok(Response::from(response.map(reqwest::Body::wrap)))
}
