//! hyper-util's client behind the gate: a tower stack with redirects above the layer and a timeout below it.

use std::convert::Infallible;
use std::time::Duration;

use abide_examples::Web;
use abide_tower::{AbideLayer, Denied, Gate, GuardedResolver, ResponseExt};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_http::follow_redirect::FollowRedirectLayer;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // In place of the real web; with that, `GuardedResolver::new` over the system's resolver.
    let web = Web::start().await;
    let address = web.address();
    let names = service_fn(move |_: Name| async move { Ok::<_, Infallible>(std::iter::once(address)) });
    let settings = Gate::builder().allow_net(address.ip().into());
    let resolver = GuardedResolver::over(names, settings.address_guard().clone());

    let client = Client::builder(TokioExecutor::new())
        .build::<_, Empty<Bytes>>(HttpConnector::new_with_resolver(resolver));
    // robots.txt goes through a clone of the bare client.
    let abide = AbideLayer::builder("ExampleBot")
        .user_agent("ExampleBot/1.0 (+https://example.com/bot)")
        .gate(settings)
        .build(client.clone())?;
    let service = ServiceBuilder::new()
        .layer(FollowRedirectLayer::new()) // above: each hop passes the gate
        .layer(abide)
        .timeout(Duration::from_secs(30)) // below: counts the wire, and not the wait for the permit
        .service(client);

    for url in [
        "http://bakery.example/bread.html",
        "http://bakery.example/partner",
        "http://bakery.example/old-recipes",
        "http://bakery.example/inside",
    ] {
        let request = http::Request::get(url).body(Empty::new())?;
        match service.clone().oneshot(request).await {
            Ok(page) => {
                let permissions = page.permissions();
                let last =
                    page.fetch_info().and_then(|info| info.hops().first()).map(|hop| hop.url().to_string());
                let (status, last) = (page.status(), last.unwrap_or_default());
                let body = page.into_body().collect().await.map_err(anyhow::Error::from_boxed)?;
                let bytes = body.to_bytes().len();
                println!(
                    "{status}  {url}\n     {last}: {bytes} bytes, may be indexed: {}",
                    permissions.may_index()
                );
            }
            Err(error) => match Denied::find(&error) {
                Some(denied) if denied.is_disallowed() => println!("skip {url}\n     {denied}"),
                Some(denied) => println!("no   {url}\n     {denied}"),
                None => println!("fail {url}\n     {error:?}"),
            },
        }
    }
    Ok(())
}
