//! RateLimit fields through the middleware.

use std::time::Duration;

use abide_tests::{Quota, Server};

use crate::client;

#[tokio::test]
async fn a_quota_is_never_exceeded() {
    let quota = Quota::new(10, Duration::from_secs(2));
    let (counter, server) = (quota.clone(), Server::start(move |seen| quota.answer(seen)).await);
    let client = client(&server);
    for page in 0..20 {
        let response = client.get(format!("http://a.example/{page}")).send().await.unwrap();
        assert_eq!(response.status(), 200, "page {page}");
    }
    assert_eq!((counter.refused(), server.log().len()), (0, 21));
}
