//! Both clients keep what adapters promise.

use abide::GateBuilder;
use abide_http::BoxError;
use abide_http::testing::{Adapter, conformance};
use abide_tower::{AbideBody, AbideLayer, AbideService};
use http::{HeaderMap, Request, Response};
use reqwest_middleware::ClientWithMiddleware;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;
use tower_http::follow_redirect::FollowRedirect;
use url::Url;

struct Reqwest(ClientWithMiddleware);

impl Adapter for Reqwest {
    type Body = reqwest::Body;

    async fn get(&self, url: Url, headers: HeaderMap) -> Result<Response<reqwest::Body>, BoxError> {
        Ok(self.0.get(url).headers(headers).send().await?.into())
    }
}

#[tokio::test]
async fn the_middleware_for_reqwest_conforms() {
    conformance(|gate| {
        let builder = abide::Abide::builder("ExampleBot").gate(gate);
        Reqwest(builder.build_client(reqwest::Client::builder()).unwrap())
    })
    .await;
}

type Inner = BoxCloneSyncService<Request<reqwest::Body>, Response<reqwest::Body>, reqwest::Error>;

struct Tower(FollowRedirect<AbideService<Inner>>);

impl Adapter for Tower {
    type Body = AbideBody<reqwest::Body>;

    async fn get(&self, url: Url, headers: HeaderMap) -> Result<Response<Self::Body>, BoxError> {
        let mut request = Request::get(url.as_str()).body(reqwest::Body::default())?;
        *request.headers_mut() = headers;
        Ok(self.0.clone().oneshot(request).await?)
    }
}

#[tokio::test]
async fn the_layer_for_tower_conforms() {
    conformance(|gate: GateBuilder| {
        let guarded = abide::Abide::builder("ExampleBot").gate(gate.clone()).build().unwrap().resolver();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let client = client.retry(reqwest::retry::never()).dns_resolver(guarded).build().unwrap();
        let inner = tower::service_fn(move |request: Request<reqwest::Body>| {
            let client = client.clone();
            async move { client.execute(request.try_into()?).await.map(Response::from) }
        });
        let layer = AbideLayer::builder("ExampleBot").gate(gate);
        Tower(FollowRedirect::new(layer.wrap(Inner::new(inner)).unwrap()))
    })
    .await;
}
