//! The adapter for a plain hyper connection, which is an example, keeps what adapters promise; and the suite
//! notices one that does not.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::{AddressGuard, Failure, GateBuilder};
use abide_http::testing::{Adapter, conformance};
use abide_http::{BoxError, Crawler, Options, Outgoing, ResponseBody, Transport, TransportFetch, drive};
use http::{HeaderMap, Response};
use hyper::body::Incoming;
use url::Url;

use crate::hyper_example::Hyper;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    FollowsRedirects,
    KeepsFailuresToItself,
    ConnectsAnywhere,
    SendsTwice,
}

struct Client {
    crawler: Crawler,
    transport: Arc<Flawed>,
}

struct Flawed {
    hyper: Hyper,
    flaw: Flaw,
}

impl Client {
    fn new(gate: GateBuilder, flaw: Flaw) -> Self {
        let settings = Crawler::builder("ExampleBot").gate(|_| gate);
        let addresses = match flaw {
            Flaw::ConnectsAnywhere => AddressGuard::default().danger_allow_all(),
            _ => settings.gate_settings().address_guard().clone(),
        };
        let transport = Arc::new(Flawed { hyper: Hyper { addresses }, flaw });
        let fetch = TransportFetch::new(Arc::clone(&transport), settings.checked_user_agent().unwrap());
        Self { crawler: settings.build(Arc::new(fetch)).unwrap(), transport }
    }
}

impl Adapter for Client {
    type Body = ResponseBody<Incoming>;

    async fn get(&self, url: Url, headers: HeaderMap) -> Result<Response<Self::Body>, BoxError> {
        let request = Outgoing { headers, ..Outgoing::get(url) };
        let silence = Some(Duration::from_secs(60));
        Ok(drive(&self.crawler, Options::new(), request, &*self.transport, silence).await?)
    }
}

impl Transport for Flawed {
    type Body = Incoming;

    async fn send(&self, request: Outgoing) -> Result<Response<Incoming>, BoxError> {
        let first = self.hyper.send(request.clone()).await;
        match (self.flaw, &first) {
            (Flaw::FollowsRedirects, Ok(response)) if response.status().is_redirection() => {
                let to = response.headers()["location"].to_str()?;
                self.hyper.send(Outgoing { url: request.url.join(to)?, ..request }).await
            }
            (Flaw::SendsTwice, Err(_)) => self.hyper.send(request).await,
            _ => first,
        }
    }

    fn failure(&self, error: &BoxError) -> Option<Failure> {
        if self.flaw == Flaw::KeepsFailuresToItself { None } else { self.hyper.failure(error) }
    }
}

#[tokio::test]
async fn the_example_for_hyper_conforms() {
    conformance(|gate| Client::new(gate, Flaw::None)).await;
}

#[tokio::test]
async fn each_broken_promise_of_an_adapter_is_caught() {
    for (flaw, promise) in [
        (Flaw::FollowsRedirects, "a redirect to a disallowed URL is refused"),
        (Flaw::KeepsFailuresToItself, "a host whose requests fail is left alone"),
        (Flaw::ConnectsAnywhere, "a name that leads to a private address is refused"),
        (Flaw::SendsTwice, "each request is sent once"),
    ] {
        let suite = tokio::spawn(conformance(move |gate| Client::new(gate, flaw)));
        let panic = suite.await.expect_err("the suite fails").into_panic();
        let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(message.contains(promise), "{flaw:?}: {message}");
    }
}
