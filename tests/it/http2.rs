//! When the permit of a response ends in HTTP/1.1 and HTTP/2, and trailers under each way of scanning.

use std::sync::Arc;
use std::time::Duration;

use abide::pacing::DeferReason;
use abide::{Abide, Denied, DeniedKind, Options, RequestBuilderExt, ResponseExt, Scan};
use abide_tests::Names;
use http_body_util::BodyExt;
use reqwest_middleware::ClientWithMiddleware;

use crate::beside::Site;

use crate::Built;

/// A page in many frames, then a trailer.
const TRAILERS: &str = "http://a.example/page?type=text/html&body=<head><meta name=robots content=nosnippet></head><body>&frames=200&trailer=x-checksum:42";

/// Plain text whose length is stated, and whose end does not come unless by its length.
fn open(text: &str) -> String {
    format!("http://a.example/page?type=text/plain&field=content-length:{}&body={text}&end=open", text.len())
}

fn inner(http2: bool) -> reqwest::ClientBuilder {
    let inner = reqwest::Client::builder();
    if http2 { inner.http2_prior_knowledge() } else { inner }
}

fn client_of(site: &Site, http2: bool) -> ClientWithMiddleware {
    Abide::builder("ExampleBot")
        .resolver(Arc::new(Names(site.address)))
        .allow_net(site.address.ip().into())
        .delay(Duration::ZERO)
        .build_client(inner(http2))
        .unwrap()
}

/// Everything a body holds: its bytes, then its trailers.
async fn drained(response: reqwest::Response) -> (Vec<u8>, Option<http::HeaderMap>) {
    let body = http::Response::<reqwest::Body>::from(response).into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned();
    (body.to_bytes().to_vec(), trailers)
}

#[tokio::test]
async fn trailers_and_bytes_are_those_of_the_raw_client() {
    for http2 in [false, true] {
        let site = Site::start(http2).await;
        let raw = inner(http2).dns_resolver(Arc::new(Names(site.address))).build().unwrap();
        let theirs = raw.get(TRAILERS).header("te", "trailers").send().await.unwrap();
        let version = theirs.version();
        let theirs = drained(theirs).await;
        assert!(theirs.1.is_some(), "the raw client has the trailers");
        for scan in [Scan::Eager, Scan::Lazy, Scan::Headers, Scan::Off] {
            let ours = client_of(&site, http2).get(TRAILERS).header("te", "trailers");
            let ours = ours.abide(Options::new().with_scan(scan)).send().await.unwrap();
            assert_eq!(ours.version(), version);
            assert!(scan != Scan::Eager || ours.permissions().rules().nosnippet());
            assert_eq!(drained(ours).await, theirs, "{version:?} {scan:?}");
        }
    }
}

/// RFC 9113 §8.1: a response ends with END_STREAM. Bytes that were counted say nothing of that.
#[tokio::test]
async fn http2_permits_last_until_the_stream_ends_or_is_dropped() {
    let site = Site::start(true).await;
    let client = client_of(&site, true);
    let at_once = async || {
        let now = Options::new().with_max_wait(Duration::ZERO);
        client.get("http://a.example/page?body=x").abide(now).send().await
    };
    for text in ["", "ok"] {
        for scan in [Scan::Eager, Scan::Lazy, Scan::Headers, Scan::Off] {
            let page = client.get(open(text)).abide(Options::new().with_scan(scan));
            let mut page = page.send().await.unwrap();
            let error = at_once().await.unwrap_err();
            let denied = Denied::find(&error).unwrap();
            let DeniedKind::Deferred { reason } = denied.kind() else { panic!("{denied:?}") };
            assert!(matches!(reason, DeferReason::InFlight { .. }), "{text} {scan:?} unread: {reason:?}");
            if !text.is_empty() {
                assert_eq!(page.chunk().await.unwrap().unwrap(), text);
            }
            let error = at_once().await.unwrap_err();
            assert!(Denied::find(&error).is_some(), "{text} {scan:?}: its bytes were read");
            drop(page);
            assert_eq!(at_once().await.unwrap().status(), 200, "{text} {scan:?}: dropped");
        }
    }
}
