//! HTTP/2: many requests on one connection, and still one at a time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use abide_tower::pacing::DeferReason;
use abide_tower::{Denied, DeniedKind, ResponseExt};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tower::ServiceExt;

use crate::{Layered, builder, connector, get, impatient, refused, settings_for};

type Answer = Result<Response<BoxBody<Bytes, h2::Error>>, h2::Error>;

/// Serves HTTP/2 without TLS; the log has the paths.
async fn serve(log: Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            let service = service_fn(move |request: Request<Incoming>| {
                log.lock().unwrap().push(request.uri().path().to_owned());
                std::future::ready(answer(&request))
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

fn answer(request: &Request<Incoming>) -> Answer {
    let page = Response::builder().header("content-type", "text/html");
    let plain = Response::builder().header("content-type", "text/plain");
    let of_length = |length: usize| Response::builder().header("content-length", length);
    let response = match request.uri().path() {
        "/robots.txt" => plain.body(Full::from("User-agent: *\nDisallow: /private/").map_err(never).boxed()),
        "/calm" => return Err(h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM)),
        "/trailers" => {
            let trailers = HeaderMap::from_iter([("checksum".parse().unwrap(), "abc".parse().unwrap())]);
            plain.body(frames(stream::iter([data("body"), Ok(Frame::trailers(trailers))])))
        }
        "/calm-later" => {
            // RST_STREAM when the bytes before it were read: it would overtake them otherwise.
            let calm = stream::once(async {
                READ.notified().await;
                Err(h2::Reason::ENHANCE_YOUR_CALM.into())
            });
            plain.body(frames(stream::iter([data("page")]).chain(calm)))
        }
        "/open" => page.body(frames(stream::repeat_with(|| data(&"x".repeat(16 * 1024))))),
        // Bytes, and no END_STREAM.
        "/length-0" => of_length(0).body(frames(stream::pending())),
        "/length-2" => of_length(2).body(frames(stream::iter([data("ok")]).chain(stream::pending()))),
        _ => page.body(Full::from("<meta name=robots content=noindex>page").map_err(never).boxed()),
    };
    Ok(response.unwrap())
}

fn never(never: Infallible) -> h2::Error {
    match never {}
}

fn data(text: &str) -> Result<Frame<Bytes>, h2::Error> {
    Ok(Frame::data(Bytes::copy_from_slice(text.as_bytes())))
}

fn frames(
    frames: impl Stream<Item = Result<Frame<Bytes>, h2::Error>> + Send + Sync + 'static,
) -> BoxBody<Bytes, h2::Error> {
    BodyExt::boxed(StreamBody::new(frames))
}

static READ: tokio::sync::Notify = tokio::sync::Notify::const_new();

fn client(address: SocketAddr) -> Layered {
    let settings = settings_for(address);
    let connector = connector(address, &settings);
    let inner = Client::builder(TokioExecutor::new()).http2_only(true).build(connector);
    builder(settings).wrap(inner).unwrap()
}

#[tokio::test]
async fn pages_are_gated_and_read() {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let client = client(serve(Arc::clone(&log)).await);
    let page = client.clone().oneshot(get("http://a.example/x")).await.unwrap();
    assert_eq!(page.version(), Version::HTTP_2);
    assert!(!page.permissions().may_index());
    assert!(refused(&client, "http://a.example/private/x").await.is_disallowed());
    assert_eq!(*log.lock().unwrap(), ["/robots.txt", "/x"]);
}

#[tokio::test]
async fn trailers_pass_and_end_the_permit() {
    let client = client(serve(Arc::default()).await);
    let page = client.clone().oneshot(get("http://a.example/trailers")).await.unwrap();
    let body = page.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["checksum"], "abc");
    assert_eq!(body.to_bytes(), "body");
    assert_eq!(client.oneshot(get("http://a.example/x")).await.unwrap().status(), 200);
}

/// RFC 9113 §8.1: a response ends with END_STREAM. Bytes that were counted say nothing of that.
#[tokio::test]
async fn a_stream_keeps_the_permit_until_its_end_whatever_its_length() {
    let client = client(serve(Arc::default()).await);
    for path in ["open", "length-0", "length-2"] {
        let mut page = client.clone().oneshot(get(&format!("http://a.example/{path}"))).await.unwrap();
        if path == "length-2" {
            assert_eq!(page.frame().await.unwrap().unwrap().into_data().unwrap(), "ok");
        }
        let reason = deferred(&impatient(&client, "http://a.example/x").await);
        assert!(matches!(reason, DeferReason::InFlight { .. }), "{path} {reason:?}");
        drop(page);
        assert_eq!(client.clone().oneshot(get("http://a.example/x")).await.unwrap().status(), 200);
    }
}

/// Why a request was deferred.
fn deferred(denied: &Denied) -> DeferReason {
    let DeniedKind::Deferred { reason } = denied.kind() else { panic!("{denied:?}") };
    reason.clone()
}

#[tokio::test]
async fn enhance_your_calm_backs_the_host_off() {
    let client = client(serve(Arc::default()).await);
    let error = client.clone().oneshot(get("http://a.example/calm")).await.unwrap_err();
    assert!(error.refused().is_none(), "{error:?}");
    let denied = refused(&client, "http://a.example/x").await;
    assert!(matches!(deferred(&denied), DeferReason::Backoff { .. }), "{denied:?}");
}

#[tokio::test]
async fn enhance_your_calm_within_a_body_backs_the_host_off() {
    let client = client(serve(Arc::default()).await);
    let page = client.clone().oneshot(get("http://a.example/calm-later")).await.unwrap();
    let mut body = page.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "page");
    READ.notify_one();
    body.frame().await.unwrap().unwrap_err();
    let denied = refused(&client, "http://a.example/x").await;
    assert!(matches!(deferred(&denied), DeferReason::Backoff { .. }), "{denied:?}");
}
