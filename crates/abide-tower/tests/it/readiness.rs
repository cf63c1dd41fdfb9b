//! What a service below hears: `poll_ready` before each call, and no reservation kept while a request waits.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
use tokio::sync::{Notify, Semaphore};
use tower::buffer::Buffer;
use tower::limit::ConcurrencyLimit;
use tower::util::BoxCloneSyncService;
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

/// A service that insists on `poll_ready` before each `call`.
type Strict = ConcurrencyLimit<BoxCloneSyncService<Request<Empty>, Response<Full<Bytes>>, Infallible>>;

/// Such a service, its one place, which is taken from `poll_ready` on, and how often it was called.
fn strict() -> (Strict, Arc<Semaphore>, Arc<AtomicUsize>) {
    let (place, calls) = (Arc::new(Semaphore::new(1)), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&calls);
    let page = BoxCloneSyncService::new(service_fn(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Response::new(Full::default())))
    }));
    (Strict::with_semaphore(page, Arc::clone(&place)), place, calls)
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
    let (inner, place, _) = strict();
    let mut service = layer(&Arc::default()).layer(inner);
    let taken = place.acquire().await.unwrap();
    assert!(poll_immediate(service.ready()).await.is_none());
    drop(taken);
    assert!(poll_immediate(service.ready()).await.is_some());
    let (shut_down, _) = Buffer::pair(strict().0, 1);
    let error = layer(&Arc::default()).layer(shut_down).ready().await.err().unwrap();
    assert!(matches!(&error, ServiceError::Inner(_)), "{error:?}");
    let printed = format!("{:#}", anyhow::Error::new(error));
    assert_eq!(printed, "the inner service failed: buffer's worker closed unexpectedly");
}

#[tokio::test(start_paused = true)]
async fn no_reservation_is_kept_while_robots_txt_is_awaited() {
    let ((inner, place, calls), robots) = (strict(), Arc::<Later>::default());
    let mut service = layer(&robots).layer(inner);
    service.ready().await.unwrap();
    assert_eq!(place.available_permits(), 0);
    let mut call = std::pin::pin!(service.call(request()));
    assert!(poll_immediate(call.as_mut()).await.is_none());
    assert_eq!(place.available_permits(), 1);
    robots.0.notify_one();
    let slot = tokio::time::timeout(Duration::from_secs(7300), call).await;
    // robots.txt took the host's permit, and the next is an hour away.
    let error = slot.expect("no hang").unwrap_err();
    assert!(matches!(error.refused().unwrap().kind(), DeniedKind::Deferred { .. }), "{error:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_it_is_sent_gives_its_permit_back() {
    let ((inner, place, calls), robots) = (strict(), Arc::<Later>::default());
    let layer = layer(&robots);
    let url = "http://a.example/x".parse().unwrap();
    robots.0.notify_one();
    layer.gate().check(&url, &mut { Duration::from_secs(1) }).await.unwrap();
    tokio::time::advance(Duration::from_secs(3601)).await;

    let mut service = layer.layer(inner);
    service.ready().await.unwrap();
    // Its permit is there at once, but the service below is no longer: it has to reserve again, since it
    // waited for a moment.
    let holder = layer.gate().admit(&url, Duration::ZERO).await.unwrap().1;
    let mut patient = request();
    patient.extensions_mut().insert(Options::new().with_max_wait(Duration::from_secs(7200)));
    {
        let mut call = std::pin::pin!(service.call(patient));
        assert!(poll_immediate(call.as_mut()).await.is_none());
        let _taken = place.try_acquire().unwrap();
        drop(holder);
        tokio::time::advance(Duration::from_secs(3601)).await;
        assert!(poll_immediate(call.as_mut()).await.is_none());
        assert!(!layer.gate().next_slot(&url).unwrap().wait.is_zero(), "the call has the permit");
    }
    assert!(layer.gate().next_slot(&url).unwrap().wait.is_zero(), "the permit was given back");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn what_waited_for_the_service_below_is_checked_again() {
    let ((inner, place, calls), robots) = (strict(), Arc::<Later>::default());
    let clock = Arc::new(ManualClock::starting_at(WallMillis::from_millis(1_800_000_000_000)));
    let settings = Gate::builder().clock(clock as Arc<dyn Clock>);
    let builder = AbideLayer::builder("ExampleBot").gate(settings);
    let layer = builder.build_with(Arc::clone(&robots) as Arc<dyn Fetch>).unwrap();
    let mut service = layer.layer(inner);
    service.ready().await.unwrap();
    let mut call = std::pin::pin!(service.call(request()));
    assert!(poll_immediate(call.as_mut()).await.is_none());
    // The place of the service below is taken; robots.txt comes, and the permit.
    let taken = place.try_acquire().unwrap();
    robots.0.notify_one();
    let waited = tokio::time::timeout(Duration::from_secs(20), call.as_mut()).await;
    assert!(waited.is_err(), "nothing leaves through a service that is not ready");
    assert!(layer.gate().check_cached(&"http://a.example/x".parse().unwrap()).unwrap().is_allowed());
    // A day later it is free, and the rules are others.
    tokio::time::advance(Duration::from_secs(25 * 3600)).await;
    drop(taken);
    robots.0.notify_one();
    let error = call.await.unwrap_err();
    assert!(error.refused().unwrap().is_disallowed(), "{error:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
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
    let boxed = tower::util::BoxCloneService::new(strict().0);
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
    layer.clone().layer(strict().0).oneshot(request()).await.unwrap();
    let other = layer.layer(strict().0);
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
    sends(layer(&Arc::default()).layer(strict().0).oneshot(request()));
    fn body<B: Send + Sync>() {}
    body::<abide_tower::AbideBody<Full<Bytes>>>();
}
