//! A primary that sentinels watch: it is found, and so is the one that takes its place.

use std::time::{Duration, Instant};

use abide_gate::pacing::{LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk};
use abide_redis::Store;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::support::judge::{
    assert_one_robots_txt_each, assert_spaced, assert_spaced_together, by_host, by_worker, until_all_came,
    until_shared, website, within,
};
use crate::support::workers::{Crew, stop};
use crate::support::{Cluster, Redis, Sentinel, Watched, ms, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_by_sentinels_shortens_no_gap_and_what_follows_is_shared_again() {
    let Some(mut watched) = Watched::start(&[]) else { return };
    let website = website(ms(5)).await;
    let crew = Crew {
        gap: ms(300),
        is_fail_closed: true,
        lease: ms(3_000),
        ..Crew::new(watched.url(), website.address())
    };
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(&website, &crew, began).await;
    let watched = spawn_blocking(move || {
        watched.fail_over();
        // It comes back as if nothing had happened, and is made a replica.
        watched.primary.start_again();
        watched
    });
    let watched = watched.await.unwrap();
    until_all_came(&website, &crew, Instant::now()).await;
    stop(workers).await;
    assert!(watched.is_primary(watched.replica.port()));
    let log = website.log();
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn during_a_failover_each_process_keeps_its_own_and_a_longer_gap() {
    let Some(mut watched) = Watched::start(&[]) else { return };
    let website = website(ms(5)).await;
    let crew = Crew { lease: ms(3_000), ..Crew::new(watched.url(), website.address()) };
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(&website, &crew, began).await;
    let down = Instant::now();
    let (over, _watched) = spawn_blocking(move || (watched.fail_over(), watched)).await.unwrap();
    until_shared(&website, &crew, over).await;
    stop(workers).await;
    let log = website.log();
    assert_spaced(&by_host(&within(&log, log[0].at, down)), crew.gap);
    assert_spaced(&by_worker(&log), crew.gap);
    // The replica is looked at every 20 ms.
    let alone = within(&log, down + ms(300), over - ms(50));
    assert_spaced(&by_worker(&alone), crew.gap * crew.workers);
    assert_spaced_together(&within(&log, over, Instant::now()), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
}

#[tokio::test]
async fn a_name_that_sentinels_do_not_know_is_told() {
    let Some(watched) = Watched::start(&[]) else { return };
    let store = Store::connect(&watched.url()).await.unwrap();
    assert_eq!(store.peek(&"a.example".into()).await.unwrap().in_flight, 0);
    let other = watched.url().replace("/main", "/other");
    // A server that is no sentinel knows none either.
    let server = watched.primary.url().replace("redis://", "redis+sentinel://") + "main";
    for url in [other, server] {
        let error = Store::connect(&url).await.unwrap_err().to_string();
        assert!(error.ends_with("no primary of this name is known there"), "{error}");
    }
    let nobody = Store::connect("redis+sentinel://127.0.0.1:1/main").await.unwrap_err();
    assert!(nobody.is_unreachable(), "{nobody}");
}

#[tokio::test]
async fn the_password_is_for_the_primary_and_for_sentinels_that_want_one() {
    let Some(primary) = Redis::start_with(&["--requirepass", "s3cret"]) else { return };
    let knows = "sentinel auth-pass main s3cret\n";
    for lines in [knows.to_owned(), format!("{knows}requirepass s3cret\n")] {
        let sentinel = Sentinel::start(primary.port(), &lines);
        let store = Store::connect(&sentinel.url("s3cret")).await.unwrap();
        assert_eq!(store.peek(&"a.example".into()).await.unwrap().in_flight, 0);
        let error = Store::connect(&sentinel.url("wr0ng")).await.unwrap_err().to_string();
        assert!(error.ends_with("wrong user name or password") && !error.contains("wr0ng"), "{error}");
    }
}

fn follow(replica: &Redis, primary: &Redis) {
    replica.ask::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    wait_until("the replica has all", || replica.info("replication", "master_link_status") == "up");
}

/// Of a host that nobody knows.
async fn wait_of(store: &Store, host: &str) -> Duration {
    let ask = LeaseAsk { lease: LeaseId::random(), max_wait: ms(600_000), ttl: ms(60_000) };
    for _ in 0..10 {
        match store.reserve(&[ScopeAsk::new(host.into(), ms(60_000), 1)], ask).await {
            Ok(Reply::Granted { wait, .. }) => return wait,
            // It is greeted again.
            _ => sleep(ms(100)).await,
        }
    }
    panic!("no turn")
}

/// Neither server is started again, and the epoch of the first comes back to it as a copy.
#[tokio::test]
async fn a_primary_that_was_a_replica_in_between_owes_every_host_one_gap() {
    for is_greeted_in_between in [true, false] {
        let args = ["--repl-diskless-sync-delay", "0"];
        let (Some(one), Some(other)) = (Redis::start_with(&args), Redis::start_with(&args)) else { return };
        follow(&other, &one);
        let before = one.aged().connect().await.unwrap();
        assert_eq!(wait_of(&before, "a.example").await, ms(0));
        other.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
        follow(&one, &other);
        if is_greeted_in_between {
            assert!(wait_of(&Store::connect(&other.url()).await.unwrap(), "b.example").await > ms(30_000));
        }
        one.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
        follow(&other, &one);
        if is_greeted_in_between {
            // Its connection was open all the time.
            assert!(wait_of(&before, "c.example").await > ms(30_000));
        }
        let after = Store::connect(&one.url()).await.unwrap();
        assert!(wait_of(&after, "d.example").await > ms(30_000));
        assert!(wait_of(&before, "e.example").await > ms(20_000), "and all agree");
    }
}

#[tokio::test]
async fn a_replica_is_refused_also_if_it_takes_writes() {
    for read_only in ["yes", "no"] {
        let Some(primary) = Redis::start_with(&["--repl-diskless-sync-delay", "0"]) else { return };
        let Some(replica) = Redis::start_with(&["--replica-read-only", read_only]) else { return };
        follow(&replica, &primary);
        let error = Store::connect(&replica.url()).await.unwrap_err().to_string();
        assert!(error.ends_with("READONLY: it is a replica"), "{error}");
    }
}

#[tokio::test]
async fn sentinels_and_clusters_want_a_user_who_may_ask_for_info() {
    let Some(primary) = Redis::start() else { return };
    primary.ask::<()>(&["ACL", "SETUSER", "crawler", "on", ">s3cret", "~*", "+@all", "-info"]);
    let sentinel = Sentinel::start(primary.port(), "");
    let watched = sentinel.url("s3cret").replace("//:", "//crawler:");
    let Some(cluster) = Cluster::start(&[]) else { return };
    cluster.nodes[1].ask::<()>(&["ACL", "SETUSER", "default", "-info"]);
    for url in [watched, cluster.url()] {
        let error = Store::connect(&url).await.unwrap_err().to_string();
        assert!(
            error.ends_with("the user may not run INFO, without which no failover is noticed: allow +info")
        );
    }
    let alone = format!("redis://crawler:s3cret@127.0.0.1:{}/", primary.port());
    assert!(
        wait_of(&Store::connect(&alone).await.unwrap(), "a.example").await > ms(30_000),
        "it counts as new"
    );
}
