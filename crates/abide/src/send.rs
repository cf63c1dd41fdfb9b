//! One request on the wire: here, in its host's turn, or through the chain to the half that paces.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use url::Url;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, Error, Failure, OrderProblem, Verdict, without_userinfo};
use abide_http::WatchedBody;

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
    url: &Url,
    permit: &mut Option<Permit>,
    (answer, times): (Result<Response>, u32),
) -> Result<Response> {
    if let (Ok(response), Some(permit)) = (&answer, &permit) {
        permit.observe(response.status(), response.headers());
    }
    match answer {
        _ if times > 1 => Err(wrong_order(url, OrderProblem::SentAgain { times })),
        Ok(response) => not_followed(url, &response).map(|()| response),
        Err(mut error) => {
            // reqwest's own errors show it.
            if let Some(shown) = error.url_mut() {
                *shown = without_userinfo(shown);
            }
            Err(failed(error, url, permit.take()))
        }
    }
}

/// An inner client that follows redirects has fetched past the gate: what it got is not handed out.
fn not_followed(asked: &Url, response: &Response) -> Result<()> {
    if same_resource(response.url(), asked) {
        return Ok(());
    }
    let got = without_userinfo(response.url());
    Err(refuse(Denied::RedirectBypass { asked: asked.clone(), got }.into()))
}

/// A request without an answer: what it means for the host, and for the caller.
fn failed(error: reqwest_middleware::Error, url: &Url, permit: Option<Permit>) -> reqwest_middleware::Error {
    let Some(permit) = permit else { return error };
    let failure = fault::of(&error);
    if let Some(Failure::AddressRefused(address)) = failure {
        permit.give_back();
        return refuse(Denied::AddressRefused { url: url.clone(), address: Some(address), hop: 0 }.into());
    }
    if error.is_builder() {
        // Nothing was sent.
        permit.give_back();
    } else if let Some(failure) = failure {
        permit.failed(failure);
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
            Err(error) => told.refused = Error::find(error).cloned(),
        }
    }

    fn hear(&self) -> Told {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sends through the chain to the pacing half, with a cache between the two.
pub(crate) async fn send_through(
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
        _ if times_unpaced > 0 => Err(wrong_order(url, OrderProblem::NoPacing)),
        // The same with a client that counts nothing, if nothing on the way has built the answer anew.
        (Ok(response), _) if told.verdict.is_none() && response.remote_addr().is_some() => {
            Err(wrong_order(url, OrderProblem::NoPacing))
        }
        (Ok(response), _) => {
            not_followed(url, &response)?;
            let verdict = told.verdict.unwrap_or(verdict);
            Ok(Sent { response, verdict, wire: told.wire })
        }
        (Err(_), Some(denied)) => Err(refuse(denied.into())),
        (Err(error), None) => Err(error),
    }
}

/// An error and not a warning: what should have waited has gone out already.
pub(crate) fn wrong_order(url: &Url, problem: OrderProblem) -> reqwest_middleware::Error {
    refuse(Denied::WrongOrder { url: url.clone(), problem }.into())
}

pub(crate) fn refuse(error: Error) -> reqwest_middleware::Error {
    reqwest_middleware::Error::middleware(error)
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
