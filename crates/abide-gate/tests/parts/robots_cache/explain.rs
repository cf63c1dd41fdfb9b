//! What an answer and an explanation say of themselves.

use std::time::Duration;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::Scripted;
use abide_gate::robots_cache::RobotsResponse;
use abide_gate::{Clock, Failure, SystemClock};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn an_entry_is_as_old_as_its_last_confirmation() {
    let world = World::of(Scripted::text(GOOD));
    let answer = world.ask().await;
    sleep(Duration::from_secs(90)).await;
    assert_eq!(answer.age(world.wall()), Some(Duration::from_secs(90)));
    let shown = format!("{answer:?}");
    assert!(shown.contains("https://a.example") && shown.contains("Fresh"), "{shown}");
    let without = World::of(Scripted::error(Failure::Tls)).ask().await;
    assert_eq!(without.age(world.wall()), None);
}

#[tokio::test(start_paused = true)]
async fn debug_shows_nothing_that_a_server_sent() {
    let secret = http::HeaderMap::from_iter([(http::header::SET_COOKIE, "SECRET".parse().unwrap())]);
    let reply = RobotsResponse::whole(http::StatusCode::NOT_FOUND, secret, "SECRET", SystemClock.now());
    let shown = format!("{reply:?}");
    assert!(shown.starts_with("RobotsResponse") && shown.contains("404"), "{shown}");
    let world = World::of(Scripted::text("User-agent: *\nDisallow: /SECRET\n"));
    world.ask().await;
    let (cache, store) = (format!("{:?}", world.cache), format!("{:?}", world.store));
    assert!(cache.starts_with("RobotsCache"), "{cache}");
    assert!(store.starts_with("MemoryStore { records: "), "{store}");
    assert!([shown, cache, store].iter().all(|shown| !shown.contains("SECRET")));
}
