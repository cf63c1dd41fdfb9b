//! Stories through the layer, over sockets, checked by the server's log. One file each.
#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

mod addresses;
mod failures;
mod gate;
mod hops;
mod layers;
mod log;
mod permits;
mod readiness;
mod reading;

use std::convert::Infallible;
use std::future::ready;
use std::iter::{Once, once};
use std::net::SocketAddr;
use std::time::Duration;

use abide_tests::Server;
use abide_tower::pacing::PacePolicy;
use abide_tower::{
    AbideBody, AbideLayer, AbideService, Builder, Denied, Gate, GateBuilder, GuardedResolver, Options,
    ServiceError,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt, service_fn};

/// A resolver.
type Names = BoxCloneSyncService<Name, Once<SocketAddr>, Infallible>;
type Inner = Client<HttpConnector<GuardedResolver<Names>>, Full<Bytes>>;
type Layered = AbideService<Inner>;
type Page = Response<AbideBody<Incoming>>;

/// No delay between requests, and this server may be contacted.
fn settings(server: &Server) -> GateBuilder {
    let pace = PacePolicy::default().danger_min_delay(Duration::ZERO);
    Gate::builder().allow_net(server.address().ip().into()).pace(pace)
}

/// hyper-util's client; every name leads to `server`. Its port counts for URLs that name none.
fn inner(server: &Server, settings: &GateBuilder) -> Inner {
    let address = server.address();
    let names = Names::new(service_fn(move |_| ready(Ok(once(address)))));
    let resolver = GuardedResolver::over(names, settings.address_guard().clone());
    Client::builder(TokioExecutor::new()).build(HttpConnector::new_with_resolver(resolver))
}

fn builder(settings: GateBuilder) -> Builder {
    AbideLayer::builder("ExampleBot").user_agent("ExampleBot/1.0 (+https://example.com/bot)").gate(settings)
}

/// A client whose every name leads to `server`.
fn client_with(server: &Server, settings: GateBuilder) -> Layered {
    let inner = inner(server, &settings);
    builder(settings).wrap(inner).unwrap()
}

fn client(server: &Server) -> Layered {
    client_with(server, settings(server))
}

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

async fn send(client: &Layered, url: &str) -> Result<Page, ServiceError> {
    client.clone().oneshot(get(url)).await
}

/// The status of a request that must succeed; its body is read.
async fn status(client: &Layered, url: &str) -> u16 {
    let page = send(client, url).await.unwrap_or_else(|error| panic!("{url}: {error:?}"));
    let status = page.status().as_u16();
    page.into_body().collect().await.unwrap();
    status
}

/// The refusal of a request that must not succeed.
async fn refused(client: &Layered, url: &str) -> Denied {
    let error = send(client, url).await.expect_err("the request is refused");
    Denied::find(&error).unwrap_or_else(|| panic!("{url} is refused, and not by {error:?}"))
}

/// The refusal of a request that may not wait.
async fn impatient(client: &Layered, url: &str) -> Denied {
    let mut request = get(url);
    request.extensions_mut().insert(Options::new().with_max_wait(Duration::ZERO));
    let error = client.clone().oneshot(request).await.expect_err("the request would have to wait");
    error.refused().unwrap_or_else(|| panic!("{url}: {error:?}")).clone()
}
