//! When the permit of a response ends in HTTP/2.

use std::time::Duration;

use abide::pacing::DeferReason;
use abide::{Denied, DeniedKind, Options, RequestBuilderExt, Scan};

use crate::beside::Site;
use crate::builder;

/// Plain text whose length is stated, and whose end does not come unless by its length.
fn open(text: &str) -> String {
    format!("http://a.example/page?type=text/plain&field=content-length:{}&body={text}&end=open", text.len())
}

/// RFC 9113 §8.1: a response ends with END_STREAM. Bytes that were counted say nothing of that.
#[tokio::test]
async fn http2_permits_last_until_the_stream_ends_or_is_dropped() {
    let site = Site::start(true).await;
    let client = reqwest::Client::builder().http2_prior_knowledge();
    let client = builder(site.address).build_client(client).unwrap();
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
