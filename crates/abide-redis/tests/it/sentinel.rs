//! A primary that sentinels watch: it is found, and so is the one that takes its place.

use std::time::Instant;

use abide_redis::Store;
use abide_tests::Redis;
use tokio::task::spawn_blocking;

use crate::crew::website::{start, stop_and_check, until_all_came, until_served, website};
use crate::crew::workers::Crew;
use crate::support::{Watched, connect, ms, probe, refusal, start_sentinel, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_by_sentinels_shortens_no_delay() {
    let Some(mut watched) = Watched::start() else { return };
    let website = website(ms(5)).await;
    let crew = Crew { delay: ms(300), patience: ms(1_000), ..Crew::new(watched.url(), website.address()) };
    let workers = start(&crew, &website).await;
    let watched = spawn_blocking(move || {
        let over = watched.fail_over();
        // It comes back as if nothing had happened, and is made a replica.
        watched.primary.start_again();
        (watched, over)
    });
    let (watched, over) = watched.await.unwrap();
    until_served(&website, crew.hosts as usize, over).await;
    until_all_came(&website, &crew, Instant::now()).await;
    assert!(watched.is_primary(&watched.replica));
    stop_and_check(workers, &website, &crew).await;
}

#[tokio::test]
async fn a_name_unknown_to_sentinels_is_an_error() {
    let Some(watched) = Watched::start() else { return };
    probe(&connect(&watched.url()).await, "a.example").await.unwrap();
    let error = refusal(&watched.url().replace("/main", "/other")).await;
    assert!(error.ends_with("no primary of this name is known there"), "{error}");
    let server = watched.primary.url().replace("redis://", "redis+sentinel://") + "main";
    let error = refusal(&server).await;
    assert!(error.ends_with("it is not a sentinel: use redis:// instead"), "{error}");
    let nothing = Store::connect("redis+sentinel://127.0.0.1:1/main").await.unwrap_err();
    assert!(nothing.is_unreachable(), "{nothing}");
}

/// The first of three says nothing: the library waits for it, so another one is asked first the next time.
#[tokio::test]
async fn a_silent_sentinel_is_passed_over() {
    let Some(watched) = Watched::start() else { return };
    watched.sentinels[0].pause();
    let store = Store::builder(&watched.url()).open().unwrap();
    wait_for("another one is asked", async || probe(&store, "a.example").await.is_ok()).await;
}

#[tokio::test]
async fn the_password_is_for_the_primary_and_asking_sentinels() {
    let Some(primary) = Redis::start_new(&["--requirepass", "s3cret"]) else { return };
    let Some(sentinel) = start_sentinel(&primary, &["auth-pass", "s3cret"]) else { return };
    for asks in [false, true] {
        if asks {
            sentinel.ask::<()>(&["ACL", "SETUSER", "default", "resetpass", ">s3cret"]);
        }
        let url = |password| format!("redis+sentinel://:{password}@127.0.0.1:{}/main", sentinel.port());
        probe(&connect(&url("s3cret")).await, "a.example").await.unwrap();
        let error = refusal(&url("wr0ng")).await;
        assert!(error.ends_with("wrong user name or password") && !error.contains("wr0ng"), "{error}");
    }
}
