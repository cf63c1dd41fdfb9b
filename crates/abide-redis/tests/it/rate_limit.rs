//! Two crawlers that share a Redis: one fetches robots.txt for both, and they share what the server says of requests that are left.

use std::sync::Arc;
use std::time::Duration;

use abide::Abide;
use abide::pacing::PacePolicy;
use abide::robots_cache::RobotsPolicy;
use abide_tests::{Quota, Redis, Server};
use tokio::task::JoinSet;

use crate::support::{PATIENCE, connect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_crawlers_share_a_quota_and_a_robots_txt() {
    let Some(redis) = Redis::start() else { return };
    let quota = Quota::new(10, Duration::from_secs(2));
    let (counter, server) = (quota.clone(), Server::start(move |seen| quota.answer(seen)).await);
    let mut crawlers = JoinSet::new();
    for crawler in 0..2 {
        let store = Arc::new(connect(&redis.url()).await);
        let client = Abide::builder("ExampleBot")
            .resolver(server.names())
            .allow_net(server.address().ip().into())
            .pace(PacePolicy::default().danger_min_delay(Duration::ZERO).with_store_timeout(PATIENCE))
            .robots(RobotsPolicy::default().with_store_timeout(PATIENCE))
            .max_wait(Duration::from_secs(300))
            .host_store(store.clone())
            .robots_store(store)
            .build_client(reqwest::Client::builder())
            .unwrap();
        crawlers.spawn(async move {
            for page in 0..12 {
                let response = client.get(format!("http://a.example/{crawler}/{page}")).send().await.unwrap();
                assert_eq!(response.status(), 200, "page {page} of {crawler}");
            }
        });
    }
    crawlers.join_all().await;
    assert_eq!(counter.refused(), 0);
    let robots = server.log().iter().filter(|seen| seen.path == "/robots.txt").count();
    assert_eq!((server.log().len(), robots), (25, 1));
}
