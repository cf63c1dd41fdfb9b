//! `abide-tower` over a client with TLS, for stories that the middleware and the layer have in common.

use std::time::Duration;

use abide_tests::{Authority, Server};
use abide_tower::pacing::PacePolicy;
use abide_tower::{AbideLayer, AbideService, CrawlerBuilder, Gate};
use tower::ServiceExt;
use tower::util::BoxCloneService;

use crate::trusting;

type Inner = BoxCloneService<http::Request<reqwest::Body>, http::Response<reqwest::Body>, reqwest::Error>;

pub(crate) type Layered = AbideService<Inner>;

/// A crawler whose every name leads to `server`.
pub(crate) fn layered(
    server: &Server,
    authority: &Authority,
    delay: Duration,
    change: impl FnOnce(CrawlerBuilder) -> CrawlerBuilder,
) -> Layered {
    let settings = Gate::builder()
        .allow_net(server.address().ip().into())
        .pace(PacePolicy::default().danger_min_delay(delay));
    let client = trusting(authority).redirect(reqwest::redirect::Policy::none());
    let client = client.dns_resolver(server.names()).build().unwrap();
    let inner = tower::service_fn(move |request: http::Request<reqwest::Body>| {
        let client = client.clone();
        async move { client.execute(request.try_into()?).await.map(http::Response::from) }
    });
    AbideLayer::builder("ExampleBot").gate(settings).crawler(change).wrap(inner.boxed_clone()).unwrap()
}

/// The status that a GET ends with. Redirects are followed by a layer above, as in a crawler.
pub(crate) async fn follow(service: Layered, url: &str) -> u16 {
    let service = tower_http::follow_redirect::FollowRedirect::new(service);
    let request = http::Request::get(url).body(reqwest::Body::default()).unwrap();
    service.oneshot(request).await.unwrap().status().as_u16()
}
