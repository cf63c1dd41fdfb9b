//! A whole adapter: the driver of a call over a transport without a network.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::Denied;
use abide_gate::pacing::PacePolicy;
use abide_http::{
    Crawler, FetchInfo, NoResponse, Options, Outgoing, ResponseBody, Transport, TransportFetch, drive,
};
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const DELAY: Duration = PacePolicy::DELAY;

/// One site, and when which path of it was asked for.
#[derive(Debug, Default)]
struct Site(Mutex<Vec<(String, Instant)>>);

impl Transport for Site {
    type Body = Full<Bytes>;

    async fn send(&self, request: Outgoing) -> Result<Response<Full<Bytes>>, BoxError> {
        assert_eq!(request.headers["user-agent"], "ExampleBot");
        let asked = format!("{} {}", request.method, request.url.path());
        self.0.lock().unwrap().push((asked, Instant::now()));
        let redirect = |to| Response::builder().status(302).header("location", to).body(Full::default());
        Ok(match request.url.path() {
            "/robots.txt" => Response::new("User-agent: *\nDisallow: /secret".into()),
            "/go" => redirect("/page")?,
            "/to-secret" => redirect("/secret")?,
            "/to-cut" => redirect("/cut")?,
            "/cut" => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
            "/silent" => std::future::pending().await,
            _ => {
                let page = Response::builder().header("content-type", "text/html");
                page.body(Full::from("<meta name=robots content=noindex><body>page"))?
            }
        })
    }
}

fn crawler(site: &Arc<Site>) -> Crawler {
    let settings = Crawler::builder("ExampleBot");
    let fetch = TransportFetch::new(Arc::clone(site), settings.checked_user_agent().unwrap());
    settings.build(Arc::new(fetch)).unwrap()
}

async fn get(
    crawler: &Crawler,
    site: &Site,
    path: &str,
) -> Result<Response<ResponseBody<Full<Bytes>>>, NoResponse> {
    let request = Outgoing::get(format!("http://a.example{path}").parse().unwrap());
    drive(crawler, Options::new(), request, site, Some(60 * DELAY)).await
}

#[tokio::test(start_paused = true)]
async fn a_transport_is_all_that_an_adapter_needs() {
    let site = Arc::new(Site::default());
    let crawler = crawler(&site);
    let page = get(&crawler, &site, "/go").await.unwrap();
    let info = FetchInfo::of(page.extensions()).unwrap();
    let hops: Vec<_> = info.hops().iter().map(|hop| (hop.url().path(), hop.status().as_u16())).collect();
    assert_eq!(hops, [("/go", 302), ("/page", 200)]);
    assert!(info.permissions().rules().noindex());
    assert!(page.into_body().collect().await.unwrap().to_bytes().ends_with(b"page"), "it is whole");
    for (path, is_refused, hops) in
        [("/secret", true, 0), ("/to-secret", true, 1), ("/to-cut", false, 1), ("/silent", false, 0)]
    {
        let error = get(&crawler, &site, path).await.unwrap_err();
        assert_eq!(Denied::find(&error).is_some_and(|denied| denied.is_disallowed()), is_refused, "{path}");
        let history = match &error {
            NoResponse::Refused(refused) => &refused.history,
            NoResponse::Failed { history, .. } => history,
        };
        assert_eq!(history.hops().len(), hops, "{path}: {error:?}");
    }
    let log = site.0.lock().unwrap();
    let asked: Vec<_> = log.iter().map(|(asked, _)| asked.as_str()).collect();
    let pages = [
        "GET /robots.txt",
        "GET /go",
        "GET /page",
        "GET /to-secret",
        "GET /to-cut",
        "GET /cut",
        "GET /silent",
    ];
    assert_eq!(asked, pages);
    assert!(log.windows(2).all(|pair| pair[1].1 - pair[0].1 >= DELAY), "{log:?}");
}
