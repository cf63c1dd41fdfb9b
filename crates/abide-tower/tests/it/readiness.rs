//! What a service below hears: `poll_ready` before each call, and no reservation kept while a request waits.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use abide_gate::{Clock, ManualClock, WallMillis};
use abide_tower::pacing::{DeferReason, PacePolicy};
use abide_tower::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse};
use abide_tower::{AbideLayer, BoxFuture, DeniedKind, Gate, Options, ServiceError};
use bytes::Bytes;
use futures_util::future::poll_immediate;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::sync::Notify;
use tower::{Layer, Service, ServiceExt, service_fn};

type Empty = http_body_util::Empty<Bytes>;

/// robots.txt that arrives on a signal: first none, then one that forbids everything.
#[derive(Debug, Default)]
struct Later(Notify, AtomicBool);

impl Fetch for Later {
    fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        Box::pin(async {
            self.0.notified().await;
            let (headers, began) = (HeaderMap::new(), std::time::Instant::now());
            let (status, text) = match self.1.swap(true, Ordering::SeqCst) {
                false => (StatusCode::NOT_FOUND, ""),
                true => (StatusCode::OK, "User-agent: *\nDisallow: /"),
            };
            Ok(RobotsResponse::whole(status, headers, text, began))
        })
    }
}

/// What the mock has seen.
#[derive(Debug, Default)]
struct Seen {
    is_open: AtomicBool,
    fails: AtomicBool,
    calls: AtomicUsize,
    reserved: AtomicUsize,
}

/// A service that insists on `poll_ready` before each `call`, and counts its reservations.
#[derive(Debug)]
struct Strict {
    seen: Arc<Seen>,
    has_reserved: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), has_reserved: false }
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        self.release();
    }
}

impl Strict {
    fn new() -> Self {
        let seen = Seen { is_open: AtomicBool::new(true), ..Seen::default() };
        Self { seen: Arc::new(seen), has_reserved: false }
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.has_reserved) {
            self.seen.reserved.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Service<Request<Empty>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = std::io::Error;
    type Future = Ready<Result<Self::Response, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        if self.seen.fails.load(Ordering::SeqCst) {
            return Poll::Ready(Err(std::io::Error::other("shut down")));
        }
        if !self.seen.is_open.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        if !std::mem::replace(&mut self.has_reserved, true) {
            self.seen.reserved.fetch_add(1, Ordering::SeqCst);
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Empty>) -> Self::Future {
        assert!(self.has_reserved, "called without poll_ready");
        self.release();
        self.seen.calls.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Response::new(Full::default())))
    }
}

fn request() -> Request<Empty> {
    Request::get("http://a.example/x").body(Empty::new()).unwrap()
}

fn layer(robots: &Arc<Later>) -> AbideLayer {
    // A permit that were lost would be missed for an hour.
    let pace = PacePolicy::default().danger_min_delay(Duration::from_secs(3600));
    let settings = Gate::builder().pace(pace);
    AbideLayer::builder("ExampleBot").gate(settings).build_with(Arc::clone(robots) as Arc<dyn Fetch>).unwrap()
}

#[tokio::test(start_paused = true)]
async fn back_pressure_passes_through() {
    let inner = Strict::new();
    let seen = Arc::clone(&inner.seen);
    let mut service = layer(&Arc::default()).layer(inner);
    seen.is_open.store(false, Ordering::SeqCst);
    assert!(poll_immediate(service.ready()).await.is_none());
    seen.is_open.store(true, Ordering::SeqCst);
    assert!(poll_immediate(service.ready()).await.is_some());
    seen.fails.store(true, Ordering::SeqCst);
    let error = service.ready().await.unwrap_err();
    assert!(matches!(&error, ServiceError::Inner(_)), "{error:?}");
    assert_eq!(format!("{:#}", anyhow::Error::new(error)), "the inner service failed: shut down");
}

#[tokio::test(start_paused = true)]
async fn no_reservation_is_kept_while_robots_txt_is_awaited() {
    let (inner, robots) = (Strict::new(), Arc::<Later>::default());
    let seen = Arc::clone(&inner.seen);
    let mut service = layer(&robots).layer(inner);
    service.ready().await.unwrap();
    assert_eq!(seen.reserved.load(Ordering::SeqCst), 1);
    let mut call = std::pin::pin!(service.call(request()));
    assert!(poll_immediate(call.as_mut()).await.is_none());
    assert_eq!(seen.reserved.load(Ordering::SeqCst), 0);
    robots.0.notify_one();
    let slot = tokio::time::timeout(Duration::from_secs(7300), call).await;
    // robots.txt took the host's permit, and the next is an hour away.
    let error = slot.expect("no hang").unwrap_err();
    assert!(matches!(error.refused().unwrap().kind(), DeniedKind::Deferred { .. }), "{error:?}");
    assert_eq!(seen.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_it_is_sent_gives_its_permit_back() {
    let (inner, robots) = (Strict::new(), Arc::<Later>::default());
    let seen = Arc::clone(&inner.seen);
    let layer = layer(&robots);
    let url = "http://a.example/x".parse().unwrap();
    robots.0.notify_one();
    layer.gate().check(&url, &mut { Duration::from_secs(1) }).await.unwrap();
    tokio::time::advance(Duration::from_secs(3601)).await;

    let mut service = layer.layer(inner);
    service.ready().await.unwrap();
    // Its permit is there at once, but the service below is no longer: it has to reserve again, since it waited for a moment.
    let holder = layer.gate().admit(&url, Duration::ZERO).await.unwrap().1;
    let mut patient = request();
    patient.extensions_mut().insert(Options::new().with_max_wait(Duration::from_secs(7200)));
    {
        let mut call = std::pin::pin!(service.call(patient));
        assert!(poll_immediate(call.as_mut()).await.is_none());
        seen.is_open.store(false, Ordering::SeqCst);
        drop(holder);
        tokio::time::advance(Duration::from_secs(3601)).await;
        assert!(poll_immediate(call.as_mut()).await.is_none());
        assert!(!layer.gate().next_slot(&url).unwrap().wait.is_zero(), "the call has the permit");
    }
    assert!(layer.gate().next_slot(&url).unwrap().wait.is_zero(), "the permit was given back");
    assert_eq!(seen.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn what_waited_for_the_service_below_is_checked_again() {
    let (inner, robots) = (Strict::new(), Arc::<Later>::default());
    let seen = Arc::clone(&inner.seen);
    let clock = Arc::new(ManualClock::starting_at(WallMillis::from_millis(1_800_000_000_000)));
    let settings = Gate::builder().clock(clock as Arc<dyn Clock>);
    let builder = AbideLayer::builder("ExampleBot").gate(settings);
    let layer = builder.build_with(Arc::clone(&robots) as Arc<dyn Fetch>).unwrap();
    let mut service = layer.layer(inner);
    service.ready().await.unwrap();
    let mut call = std::pin::pin!(service.call(request()));
    assert!(poll_immediate(call.as_mut()).await.is_none());
    // The service below closes; robots.txt comes, and the permit.
    seen.is_open.store(false, Ordering::SeqCst);
    robots.0.notify_one();
    let waited = tokio::time::timeout(Duration::from_secs(20), call.as_mut()).await;
    assert!(waited.is_err(), "nothing leaves through a service that is not ready");
    assert!(layer.gate().check_cached(&"http://a.example/x".parse().unwrap()).unwrap().is_allowed());
    // A day later it opens, and the rules are others.
    tokio::time::advance(Duration::from_secs(25 * 3600)).await;
    seen.is_open.store(true, Ordering::SeqCst);
    robots.0.notify_one();
    let error = call.await.unwrap_err();
    assert!(error.refused().unwrap().is_disallowed(), "{error:?}");
    assert_eq!(seen.calls.load(Ordering::SeqCst), 0);
}

/// RFC 9113 §8.1: a response ends with END_STREAM. Bytes that were counted say nothing of that.
#[tokio::test]
async fn a_stream_keeps_the_permit_until_its_end_whatever_its_length() {
    let inner = service_fn(|_: Request<Empty>| {
        let text = Ok::<_, Infallible>(Frame::data(Bytes::from("ok")));
        let page = Response::builder().version(Version::HTTP_2).header("content-length", 2);
        let page = page.header("content-type", "text/plain");
        let body = StreamBody::new(stream::iter([text]).chain(stream::pending()));
        ready(Ok::<_, Infallible>(page.body(body).unwrap()))
    });
    let robots = Arc::<Later>::default();
    robots.0.notify_one();
    let settings = Gate::builder().pace(PacePolicy::default().danger_min_delay(Duration::ZERO));
    let layer = AbideLayer::builder("ExampleBot").gate(settings).build_with(robots as Arc<dyn Fetch>);
    let service = layer.unwrap().layer(inner);
    let mut page = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(page.frame().await.unwrap().unwrap().into_data().unwrap(), "ok");
    let mut hasty = request();
    hasty.extensions_mut().insert(Options::new().with_max_wait(Duration::ZERO));
    let error = service.clone().oneshot(hasty).await.unwrap_err();
    let DeniedKind::Deferred { reason } = error.refused().unwrap().kind() else { panic!("{error:?}") };
    assert!(matches!(reason, DeferReason::InFlight { .. }), "{reason:?}");
    drop(page);
    assert_eq!(service.oneshot(request()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_service_that_is_not_sync_will_do() {
    let boxed = tower::util::BoxCloneService::new(Strict::new());
    let settings = Gate::builder().pace(PacePolicy::default().danger_min_delay(Duration::ZERO));
    let service = AbideLayer::builder("ExampleBot").gate(settings).wrap(boxed).unwrap();
    // The mock answers robots.txt with an empty page, which forbids nothing.
    assert_eq!(service.oneshot(request()).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn clones_and_layers_of_one_builder_share_their_permits() {
    let robots = Arc::<Later>::default();
    let layer = layer(&robots);
    let url = "http://a.example/x".parse().unwrap();
    robots.0.notify_one();
    layer.gate().check(&url, &mut { Duration::from_secs(1) }).await.unwrap();
    tokio::time::advance(Duration::from_secs(3601)).await;
    layer.clone().layer(Strict::new()).oneshot(request()).await.unwrap();
    let other = layer.layer(Strict::new());
    let error = other.oneshot(request()).await.unwrap_err();
    assert!(matches!(error.refused().unwrap().kind(), DeniedKind::Deferred { .. }), "{error:?}");
}

#[test]
fn everything_can_cross_threads() {
    fn both<T: Clone + Send + Sync + 'static>() {}
    fn sends<T: Send>(_: T) {}
    both::<AbideLayer>();
    both::<abide_tower::AbideService<Strict>>();
    both::<abide_tower::FetchInfo>();
    sends(layer(&Arc::default()).layer(Strict::new()).oneshot(request()));
    fn body<B: Send + Sync>() {}
    body::<abide_tower::AbideBody<Full<Bytes>>>();
}
