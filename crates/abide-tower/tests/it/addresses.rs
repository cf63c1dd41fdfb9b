//! No packet to an address that is not public.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use abide_tests::{Reply, Server};
use abide_tower::{Denied, DeniedKind, Failure, Gate, GuardedResolver};
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use tower::{ServiceExt, service_fn};

use crate::{builder, client_with, get, refused};

async fn web() -> Server {
    Server::start(|_| Reply::with_headers(404, &[("connection", "close")], "")).await
}

#[tokio::test]
async fn resolved_addresses_are_refused_with_nothing_sent() {
    let server = web().await;
    let client = client_with(&server, Gate::builder());
    let denied = refused(&client, "http://a.example/").await;
    let DeniedKind::Unreachable { cause: Failure::AddressRefused(address), .. } = denied.kind() else {
        panic!("{denied:?}")
    };
    assert_eq!(*address, server.address().ip());
    assert!(server.log().is_empty());
}

#[tokio::test]
async fn rebinding_gains_nothing() {
    let server = web().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let (first, then) = (server.address(), SocketAddr::from(([127, 0, 0, 2], server.address().port())));
    let names = service_fn(move |_: Name| {
        let answer = if asked.fetch_add(1, Ordering::Relaxed) == 0 { first } else { then };
        async move { Ok::<_, Infallible>(std::iter::once(answer)) }
    });
    let settings = crate::settings(&server);
    let resolver = GuardedResolver::over(names, settings.address_guard().clone());
    let connector = HttpConnector::new_with_resolver(resolver);
    let inner = Client::builder(TokioExecutor::new()).build::<_, Full<Bytes>>(connector);
    let client = builder(settings).wrap(inner).unwrap();
    let error = client.clone().oneshot(get("http://a.example/x")).await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    let DeniedKind::AddressRefused { address } = denied.kind() else { panic!("{error:?}") };
    assert_eq!(*address, Some(then.ip()));
    assert_eq!(server.asked(), ["a.example/robots.txt"]);
    // It was no request: the next is not made to wait for it.
    assert!(client.gate().next_slot(&"http://a.example/y".parse().unwrap()).unwrap().wait.is_zero());
}
