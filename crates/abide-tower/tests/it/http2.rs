//! HTTP/2: many requests on one connection, and still one at a time.

use std::convert::Infallible;
use std::net::SocketAddr;

use abide_tower::DeniedKind;
use abide_tower::pacing::DeferReason;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{Request, Response, Version};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tower::ServiceExt;

use crate::{builder, connector, get, impatient, settings_for};

/// Serves HTTP/2 without TLS.
async fn serve() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(&request)));
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// A text of a stated length. Below `/open` no END_STREAM follows it.
fn answer(request: &Request<Incoming>) -> Response<impl Body<Data = Bytes, Error = Infallible> + use<>> {
    let text = if request.uri().path() == "/open" { "ok" } else { "" };
    let frames = stream::iter([Ok(Frame::data(Bytes::from(text)))]);
    let end = if text.is_empty() { stream::empty().boxed() } else { stream::pending().boxed() };
    let response = Response::builder().header("content-length", text.len());
    response.body(StreamBody::new(frames.chain(end))).unwrap()
}

/// RFC 9113 §8.1: a response ends with END_STREAM. Bytes that were counted say nothing of that.
#[tokio::test]
async fn a_stream_keeps_the_permit_until_its_end_whatever_its_length() {
    let address = serve().await;
    let settings = settings_for(address);
    let connector = connector(address, &settings);
    let inner = Client::builder(TokioExecutor::new()).http2_only(true).build(connector);
    let client = builder(settings).wrap(inner).unwrap();
    let mut page = client.clone().oneshot(get("http://a.example/open")).await.unwrap();
    assert_eq!(page.version(), Version::HTTP_2);
    assert_eq!(page.frame().await.unwrap().unwrap().into_data().unwrap(), "ok");
    let denied = impatient(&client, "http://a.example/x").await;
    let in_flight = matches!(denied.kind(), DeniedKind::Deferred { reason: DeferReason::InFlight { .. } });
    assert!(in_flight, "{denied:?}");
    drop(page);
    assert_eq!(client.oneshot(get("http://a.example/x")).await.unwrap().status(), 200);
}
