//! What the errors of hyper-util's client are taken for, those that have no type of their own among them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use abide_tests::{Reply, Server, Step};
use abide_tower::{Denied, DeniedKind, Failure};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::{builder, get, inner, settings};

/// What robots.txt met.
fn cause(denied: &Denied) -> Failure {
    let DeniedKind::Unreachable { cause, .. } = denied.kind() else { panic!("{denied:?}") };
    *cause
}

#[tokio::test]
async fn a_resolver_that_fails_is_a_failure_of_the_name() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let resolver = service_fn(|_: Name| async {
        Err::<std::iter::Empty<SocketAddr>, _>(io::Error::other("no such host"))
    });
    let inner = Client::builder(TokioExecutor::new())
        .build::<_, Full<bytes::Bytes>>(HttpConnector::new_with_resolver(resolver));
    let client = builder(settings(&server)).wrap(inner).unwrap();
    let error = client.oneshot(get("http://a.example/")).await.expect_err("no name, no page");
    let failure = cause(&Denied::find(&error).unwrap());
    assert!(failure.is_dns() && failure.is_connect(), "{failure:?}");
}

#[tokio::test]
async fn the_timeout_of_tower_is_a_timeout() {
    let server = Server::start(|_| Reply::raw(vec![Step::Hang])).await;
    let settings = settings(&server);
    let inner = inner(&server, &settings);
    let timed = ServiceBuilder::new().timeout(Duration::from_millis(10)).service(inner);
    let client = builder(settings).wrap(timed).unwrap();
    let error = client.oneshot(get("http://a.example/")).await.expect_err("no answer, no page");
    assert_eq!(cause(&Denied::find(&error).unwrap()), Failure::Timeout);
}
