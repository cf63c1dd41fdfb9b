//! One request on the wire: here, in its host's turn, or through the chain to the half that paces.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use url::Url;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, DeniedKind, Gate, OrderProblem, Verdict, without_userinfo};
use abide_http::WatchedBody;
use abide_http::{NoAddress, Symptoms};

use crate::fault;
use crate::sends::counted;
use crate::wire::{Ahead, Wire};
use abide_http::redirect::same_resource;

/// An answer to one hop.
pub(crate) struct Sent {
    pub(crate) response: Response,
    /// The verdict by which it left.
    pub(crate) verdict: Verdict,
    /// How long it was on the wire, up to its head.
    pub(crate) wire: Duration,
}

/// What has come of a request that went out in its turn, which goes on if it was answered. The pacer hears of it.
pub(crate) fn answered(
    gate: &Gate,
    url: &Url,
    permit: &mut Option<Permit>,
    (answer, times): (Result<Response>, u32),
) -> Result<Response> {
    if let (Ok(response), Some(permit)) = (&answer, &permit) {
        permit.observe(response.status(), response.headers());
    }
    match answer {
        _ if times > 1 => Err(wrong_order(gate, url, OrderProblem::SentAgain { times })),
        Ok(response) => not_followed(gate, url, &response).map(|()| response),
        Err(mut error) => {
            // reqwest's own errors show it.
            if let Some(shown) = error.url_mut() {
                *shown = without_userinfo(shown);
            }
            Err(failed(gate, error, url, permit.take()))
        }
    }
}

/// An inner client that follows redirects has fetched past the gate: what it got is not handed out.
fn not_followed(gate: &Gate, asked: &Url, response: &Response) -> Result<()> {
    if same_resource(response.url(), asked) {
        return Ok(());
    }
    let got = without_userinfo(response.url());
    Err(refuse(Denied::new(DeniedKind::RedirectBypass { got }, asked, gate.wall())))
}

/// A request without an answer: what it means for the host, and for the caller.
fn failed(
    gate: &Gate,
    error: reqwest_middleware::Error,
    url: &Url,
    permit: Option<Permit>,
) -> reqwest_middleware::Error {
    let Some(permit) = permit else { return error };
    let symptoms = fault::of(&error);
    let address = symptoms.as_ref().and_then(Symptoms::refused_name).and_then(NoAddress::refused);
    if address.is_some() {
        permit.give_back();
        return refuse(Denied::new(DeniedKind::AddressRefused { address }, url, gate.wall()));
    }
    if error.is_builder() {
        // Nothing was sent.
        permit.give_back();
    } else if let Some(fault) = symptoms.and_then(|symptoms| symptoms.fault()) {
        permit.failed(fault);
    }
    error
}

/// What the gate tells the pacing half below it, and what that tells back: a cache between the two keeps neither errors nor
/// extensions of responses.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    url: Url,
    verdict: Verdict,
    budget: Duration,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    waited: Duration,
    wire: Duration,
    verdict: Option<Verdict>,
    refused: Option<Denied>,
}

impl Admission {
    /// The verdict and what is left of the budget, if the admission is for this URL: something between the halves may send
    /// again, or something else.
    pub(crate) fn for_url(&self, url: &Url) -> Option<(Verdict, Duration)> {
        let waited = self.told.lock().unwrap_or_else(PoisonError::into_inner).waited;
        (self.url == *url).then(|| (self.verdict.clone(), self.budget.saturating_sub(waited)))
    }

    pub(crate) fn tell(
        &self,
        sent: std::result::Result<&Sent, &reqwest_middleware::Error>,
        waited: Duration,
    ) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.waited += waited;
        match sent {
            Ok(sent) => {
                told.wire += sent.wire;
                told.verdict = Some(sent.verdict.clone());
            }
            Err(error) => told.refused = Denied::find(error),
        }
    }

    fn hear(&self) -> Told {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sends through the chain to the pacing half, with a cache between the two.
pub(crate) async fn send_through(
    gate: &Gate,
    url: &Url,
    verdict: Verdict,
    budget: &mut Duration,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Sent> {
    let told = Arc::default();
    let admission = Admission { url: url.clone(), verdict: verdict.clone(), budget: *budget, told };
    extensions.insert(admission.clone());
    // The pacing half counts for itself, so what is counted here went past it.
    let (response, times_unpaced) = counted(next.run(request, extensions)).await;
    let told = admission.hear();
    *budget = budget.saturating_sub(told.waited);
    match (response, told.refused) {
        _ if times_unpaced > 0 => Err(wrong_order(gate, url, OrderProblem::NoPacing)),
        // The same with a client that counts nothing, if nothing on the way has built the answer anew.
        (Ok(response), _) if told.verdict.is_none() && response.remote_addr().is_some() => {
            Err(wrong_order(gate, url, OrderProblem::NoPacing))
        }
        (Ok(response), _) => {
            not_followed(gate, url, &response)?;
            let verdict = told.verdict.unwrap_or(verdict);
            Ok(Sent { response, verdict, wire: told.wire })
        }
        (Err(_), Some(denied)) => Err(refuse(denied)),
        (Err(error), None) => Err(error),
    }
}

/// An error and not a warning: what should have waited has gone out already.
pub(crate) fn wrong_order(gate: &Gate, url: &Url, problem: OrderProblem) -> reqwest_middleware::Error {
    refuse(Denied::new(DeniedKind::WrongOrder { problem }, url, gate.wall()))
}

pub(crate) fn refuse(denied: Denied) -> reqwest_middleware::Error {
    reqwest_middleware::Error::middleware(denied)
}

/// The response with its turn in its body, and what has been taken of that in front; URL, version, header fields and extensions stay.
pub(crate) fn take_apart(
    url: Url,
    ahead: Option<Ahead>,
    response: Response,
    permit: Option<Permit>,
    read_timeout: Option<Duration>,
) -> http::Response<Wire> {
    let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
    let body = Wire::new(ahead, body, parts.version, permit).with_read_timeout(read_timeout);
    rebuilt(url, parts, body)
}

/// A response of these parts that knows its URL: that does not survive the conversion, and only a builder takes it back.
pub(crate) fn rebuilt<B>(url: Url, parts: http::response::Parts, body: B) -> http::Response<B> {
    use reqwest::ResponseBuilderExt;

    let mut builder = http::Response::builder();
    if let Some(extensions) = builder.extensions_mut() {
        *extensions = parts.extensions;
    }
    let taken = builder.url(url).body(body);
    let mut taken = taken.expect("a builder cannot fail that was given neither a status nor fields");
    *taken.status_mut() = parts.status;
    *taken.version_mut() = parts.version;
    *taken.headers_mut() = parts.headers;
    taken
}

/// The response for the caller. A small body that has ended on the wire needs nobody any more who watches it.
pub(crate) fn put_together(response: http::Response<WatchedBody<Wire>>) -> Response {
    Response::from(response.map(|body| match body.into_whole() {
        Ok(whole) => reqwest::Body::from(whole),
        Err(body) => reqwest::Body::wrap(body),
    }))
}
