//! HTTP/2, and trailers in both versions: bodies reach the caller as the raw client hands them out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use abide::pacing::{DeferReason, PacePolicy};
use abide::{Abide, Denied, DeniedKind, Options, RequestBuilderExt, ResponseExt, Scan};
use abide_tests::Names;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest_middleware::ClientWithMiddleware;
use tokio::net::TcpListener;

type Answer = Response<BoxBody<Bytes, std::convert::Infallible>>;

/// Frames that are sent one after the other.
struct Frames(std::collections::VecDeque<Frame<Bytes>>);

impl futures_core::Stream for Frames {
    type Item = Result<Frame<Bytes>, std::convert::Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front().map(Ok))
    }
}

fn whole(text: impl Into<Bytes>) -> BoxBody<Bytes, std::convert::Infallible> {
    http_body_util::Full::new(text.into()).boxed()
}

/// A page in many frames, then a trailer.
fn with_trailers() -> BoxBody<Bytes, std::convert::Infallible> {
    let head = "<head><meta name=robots content=nosnippet></head><body>";
    let mut frames = std::collections::VecDeque::from([Frame::data(Bytes::from_static(head.as_bytes()))]);
    for number in 0..200_u32 {
        frames.push_back(Frame::data(Bytes::from(format!("<p>{number}").repeat(500))));
    }
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-checksum", "42".parse().unwrap());
    frames.push_back(Frame::trailers(trailers));
    BodyExt::boxed(http_body_util::StreamBody::new(Frames(frames)))
}

/// Bytes, and END_STREAM whenever the server gets to it: never.
fn that_stays_open(text: &'static str) -> BoxBody<Bytes, std::convert::Infallible> {
    let frames = std::collections::VecDeque::from([Frame::data(Bytes::from_static(text.as_bytes()))]);
    BodyExt::boxed(http_body_util::StreamBody::new(Open(Frames(frames))))
}

struct Open(Frames);

impl futures_core::Stream for Open {
    type Item = Result<Frame<Bytes>, std::convert::Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        match self.0.0.pop_front() {
            Some(frame) => std::task::Poll::Ready(Some(Ok(frame))),
            None => std::task::Poll::Pending,
        }
    }
}

async fn answer(request: Request<Incoming>) -> Result<Answer, hyper::Error> {
    let html = |body| Response::builder().header("content-type", "text/html").body(body).unwrap();
    let path = request.uri().path().to_owned();
    Ok(match path.as_str() {
        "/robots.txt" => Response::builder().status(404).body(whole("")).unwrap(),
        "/again" => Response::builder()
            .status(307)
            .header("location", "/echo")
            .body(whole("x".repeat(100_000)))
            .unwrap(),
        "/echo" => {
            let method = request.method().clone();
            let body = request.into_body().collect().await?.to_bytes();
            html(whole([method.as_str().as_bytes(), b" ", &body].concat()))
        }
        "/trailers" => Response::builder()
            .header("content-type", "text/html")
            .header("trailer", "x-checksum")
            .body(with_trailers())
            .unwrap(),
        "/length-0" | "/length-2" => {
            let text = if path == "/length-0" { "" } else { "ok" };
            Response::builder()
                .header("content-length", text.len())
                .header("content-type", "text/plain")
                .body(that_stays_open(text))
                .unwrap()
        }
        _ => html(whole("page")),
    })
}

/// A server of either version.
async fn serve(http2: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream = TokioIo::new(stream);
            tokio::spawn(async move {
                // A client that leaves is no concern of this server.
                let _ = if http2 {
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(stream, service_fn(answer))
                        .await
                } else {
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(stream, service_fn(answer))
                        .await
                };
            });
        }
    });
    address
}

fn inner(http2: bool) -> reqwest::ClientBuilder {
    let inner = reqwest::Client::builder();
    if http2 { inner.http2_prior_knowledge() } else { inner }
}

fn client(address: SocketAddr, http2: bool) -> ClientWithMiddleware {
    Abide::builder("ExampleBot")
        .resolver(Arc::new(Names(address)))
        .allow_net(address.ip().into())
        .pace(PacePolicy::default().danger_min_delay(Duration::ZERO))
        .build_client(inner(http2))
        .unwrap()
}

/// Everything a body holds: its bytes, then its trailers.
async fn drained(response: reqwest::Response) -> (Vec<u8>, Option<http::HeaderMap>) {
    let mut body = http::Response::<reqwest::Body>::from(response).into_body();
    let (mut bytes, mut trailers) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        match frame.unwrap().into_data() {
            Ok(data) => bytes.extend(data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    (bytes, trailers)
}

#[tokio::test]
async fn trailers_and_bytes_are_those_of_the_raw_client_in_both_versions() {
    for http2 in [false, true] {
        let address = serve(http2).await;
        let raw = inner(http2).dns_resolver(Arc::new(Names(address))).build().unwrap();
        let client = client(address, http2);
        let theirs = raw.get("http://a.example/trailers").header("te", "trailers").send().await.unwrap();
        let version = theirs.version();
        let theirs = drained(theirs).await;
        assert!(theirs.1.is_some(), "the raw client has the trailers");
        for scan in [Scan::Eager, Scan::Lazy, Scan::Headers, Scan::Off] {
            let ours = client
                .get("http://a.example/trailers")
                .header("te", "trailers")
                .abide(Options::new().with_scan(scan));
            let ours = ours.send().await.unwrap();
            assert_eq!(ours.version(), version);
            if scan == Scan::Eager {
                assert!(ours.permissions().rules().nosnippet());
            }
            assert_eq!(drained(ours).await, theirs, "{version:?} {scan:?}");
        }
    }
}

#[tokio::test]
async fn http2_bodies_are_sent_again_and_redirect_bodies_dropped() {
    let address = serve(true).await;
    let client = client(address, true);
    for _ in 0..5 {
        let answer = client.post("http://a.example/again").body("x=1").send().await.unwrap();
        assert_eq!(answer.version(), http::Version::HTTP_2);
        assert_eq!(answer.text().await.unwrap(), "POST x=1");
    }
}

#[tokio::test]
async fn http2_turns_are_free_when_a_body_has_ended_or_was_dropped() {
    let address = serve(true).await;
    let client = client(address, true);
    for _ in 0..3 {
        let page = client.get("http://a.example/trailers").send().await.unwrap();
        let soon = Options::new().with_max_wait(Duration::from_millis(50));
        let other = client.get("http://a.example/x").abide(soon).send().await;
        assert!(other.is_err(), "one request in flight, streams or not");
        drop(page);
        assert_eq!(client.get("http://a.example/x").send().await.unwrap().status(), 200);
    }
}

/// RFC 9113 §8.1: a response ends with END_STREAM. Bytes that were counted say nothing of that.
#[tokio::test]
async fn http2_turns_last_until_the_stream_ends_whatever_its_length() {
    let client = client(serve(true).await, true);
    for path in ["length-0", "length-2"] {
        for scan in [Scan::Eager, Scan::Lazy, Scan::Headers, Scan::Off] {
            let page = client.get(format!("http://a.example/{path}")).abide(Options::new().with_scan(scan));
            let mut page = page.send().await.unwrap();
            let at_once = || Options::new().with_max_wait(Duration::ZERO);
            let error = client.get("http://a.example/x").abide(at_once()).send().await.unwrap_err();
            let denied = Denied::find(&error).unwrap();
            let DeniedKind::Deferred { reason } = denied.kind() else { panic!("{denied:?}") };
            assert!(matches!(reason, DeferReason::InFlight { .. }), "{path} {scan:?} unread: {reason:?}");
            if path == "length-2" {
                assert_eq!(page.chunk().await.unwrap().unwrap(), "ok");
            }
            let error = client.get("http://a.example/x").abide(at_once()).send().await.unwrap_err();
            assert!(Denied::find(&error).is_some(), "{path} {scan:?}: its bytes were read");
            drop(page);
            let next = client.get("http://a.example/x").abide(at_once()).send().await.unwrap();
            assert_eq!(next.status(), 200, "{path} {scan:?}: dropped");
        }
    }
}

/// RFC 9112 §6.3: a response with a length ends there, read or not.
#[tokio::test]
async fn http1_turns_end_with_the_length_read_or_not() {
    let client = client(serve(false).await, false);
    let mut kept = Vec::new();
    for path in ["length-0", "length-2"] {
        kept.push(client.get(format!("http://a.example/{path}")).send().await.unwrap());
        assert_eq!(client.get("http://a.example/x").send().await.unwrap().status(), 200, "{path}");
    }
}
