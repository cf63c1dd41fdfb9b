//! HTTP/2: many requests on one connection, and still one at a time.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_tower::pacing::{DeferReason, PacePolicy};
use abide_tower::{Denied, DeniedKind, Gate, GuardedResolver, Options, ResponseExt};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tower::ServiceExt;

use crate::{Names, builder, get};

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
    let body = match request.uri().path() {
        "/robots.txt" => whole("User-agent: *\nDisallow: /private/"),
        "/calm" => return Err(h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM)),
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("checksum", "abc".parse().unwrap());
            let frames = [Ok(Frame::data(Bytes::from("body"))), Ok(Frame::trailers(trailers))];
            StreamBody::new(Frames(frames.into_iter().collect())).boxed()
        }
        "/calm-later" => return Ok(calm_later()),
        "/open" => StreamBody::new(Endless).boxed(),
        "/length-0" => return Ok(that_stays_open("")),
        "/length-2" => return Ok(that_stays_open("ok")),
        _ => whole("<meta name=robots content=noindex>page"),
    };
    Ok(Response::builder().header("content-type", "text/html").body(body).unwrap())
}

/// Bytes, and no END_STREAM.
fn that_stays_open(text: &'static str) -> Response<BoxBody<Bytes, h2::Error>> {
    let body = StreamBody::new(Open(Some(Bytes::from(text)))).boxed();
    let head = Response::builder().header("content-length", text.len()).header("content-type", "text/plain");
    head.body(body).unwrap()
}

fn whole(text: &'static str) -> BoxBody<Bytes, h2::Error> {
    Full::from(text).map_err(|never| match never {}).boxed()
}

fn calm_later() -> Response<BoxBody<Bytes, h2::Error>> {
    let body = StreamBody::new(Calm(Some(Bytes::from("page")), Box::pin(READ.notified()))).boxed();
    Response::builder().header("content-type", "text/plain").body(body).unwrap()
}

/// Bytes, and RST_STREAM when they were read: it would overtake them otherwise.
struct Calm(Option<Bytes>, Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

static READ: tokio::sync::Notify = tokio::sync::Notify::const_new();

impl futures_core::Stream for Calm {
    type Item = Result<Frame<Bytes>, h2::Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        match self.0.take() {
            Some(data) => std::task::Poll::Ready(Some(Ok(Frame::data(data)))),
            None => self.1.as_mut().poll(context).map(|()| Some(Err(h2::Reason::ENHANCE_YOUR_CALM.into()))),
        }
    }
}

struct Open(Option<Bytes>);

impl futures_core::Stream for Open {
    type Item = Result<Frame<Bytes>, h2::Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        match self.0.take() {
            Some(data) => std::task::Poll::Ready(Some(Ok(Frame::data(data)))),
            None => std::task::Poll::Pending,
        }
    }
}

struct Frames(std::collections::VecDeque<Result<Frame<Bytes>, h2::Error>>);

impl futures_core::Stream for Frames {
    type Item = Result<Frame<Bytes>, h2::Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front())
    }
}

struct Endless;

impl futures_core::Stream for Endless {
    type Item = Result<Frame<Bytes>, h2::Error>;

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16 * 1024])))))
    }
}

type Http2 = abide_tower::AbideService<Client<HttpConnector<GuardedResolver<Names>>, Full<Bytes>>>;

fn client(address: SocketAddr) -> Http2 {
    let settings = Gate::builder()
        .allow_net(address.ip().into())
        .pace(PacePolicy::default().danger_min_delay(Duration::ZERO));
    let resolver = GuardedResolver::over(Names(address), settings.address_guard().clone());
    let inner = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build(HttpConnector::new_with_resolver(resolver));
    builder(settings).wrap(inner).unwrap()
}

#[tokio::test]
async fn pages_are_gated_and_read() {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let client = client(serve(Arc::clone(&log)).await);
    let page = client.clone().oneshot(get("http://a.example/x")).await.unwrap();
    assert_eq!(page.version(), Version::HTTP_2);
    assert!(!page.permissions().may_index());
    let error = client.oneshot(get("http://a.example/private/x")).await.unwrap_err();
    assert!(Denied::find(&error).unwrap().is_disallowed());
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

#[tokio::test]
async fn a_stream_that_is_open_keeps_the_permit() {
    let client = client(serve(Arc::default()).await);
    let page = client.clone().oneshot(get("http://a.example/open")).await.unwrap();
    let mut request = get("http://a.example/x");
    request.extensions_mut().insert(Options::new().with_max_wait(Duration::ZERO));
    let error = client.clone().oneshot(request).await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    let DeniedKind::Deferred { reason } = denied.kind() else { panic!("{error:?}") };
    assert!(matches!(reason, DeferReason::InFlight { .. }), "{reason:?}");
    drop(page);
    assert_eq!(client.oneshot(get("http://a.example/x")).await.unwrap().status(), 200);
}

/// RFC 9113 §8.1: a response ends with END_STREAM. Bytes that were counted say nothing of that.
#[tokio::test]
async fn a_stream_keeps_the_permit_also_after_the_length_that_it_stated() {
    let client = client(serve(Arc::default()).await);
    for path in ["length-0", "length-2"] {
        let mut page = client.clone().oneshot(get(&format!("http://a.example/{path}"))).await.unwrap();
        if path == "length-2" {
            assert_eq!(page.frame().await.unwrap().unwrap().into_data().unwrap(), "ok");
        }
        let mut request = get("http://a.example/x");
        request.extensions_mut().insert(Options::new().with_max_wait(Duration::ZERO));
        let error = client.clone().oneshot(request).await.unwrap_err();
        let denied = Denied::find(&error).unwrap();
        let DeniedKind::Deferred { reason } = denied.kind() else { panic!("{error:?}") };
        assert!(matches!(reason, DeferReason::InFlight { .. }), "{path} {reason:?}");
        drop(page);
        assert_eq!(client.clone().oneshot(get("http://a.example/x")).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn enhance_your_calm_backs_the_host_off() {
    let client = client(serve(Arc::default()).await);
    let error = client.clone().oneshot(get("http://a.example/calm")).await.unwrap_err();
    assert!(error.refused().is_none(), "{error:?}");
    let error = client.oneshot(get("http://a.example/x")).await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    let DeniedKind::Deferred { reason } = denied.kind() else { panic!("{error:?}") };
    assert!(matches!(reason, DeferReason::Backoff { .. }), "{reason:?}");
}

#[tokio::test]
async fn enhance_your_calm_within_a_body_backs_the_host_off() {
    let client = client(serve(Arc::default()).await);
    let page = client.clone().oneshot(get("http://a.example/calm-later")).await.unwrap();
    let mut body = page.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "page");
    READ.notify_one();
    body.frame().await.unwrap().unwrap_err();
    let error = client.oneshot(get("http://a.example/x")).await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    let DeniedKind::Deferred { reason } = denied.kind() else { panic!("{error:?}") };
    assert!(matches!(reason, DeferReason::Backoff { .. }), "{reason:?}");
}
