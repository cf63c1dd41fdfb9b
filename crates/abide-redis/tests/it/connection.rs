//! What becomes of a connection, and what is said at the first one.

use std::time::{Duration, Instant};

use abide_gate::pacing::HostState;
use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Origin, StoreError, WallMillis};
use abide_redis::Store;
use abide_tests::Redis;
use tokio::time::timeout;

use crate::support::{self, Cluster, PATIENCE, Proxy, connect, follow, ms, refusal, wait_for};

async fn probe(store: &Store) -> Result<HostState, StoreError> {
    support::probe(store, "a.example").await
}

/// Waits until a command works again.
async fn back(store: &Store) {
    wait_for("it is found again", async || probe(store).await.is_ok()).await;
}

#[tokio::test]
async fn a_server_without_eval_is_refused_with_the_reason() {
    let removed = ["--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""];
    let Some(redis) = Redis::start_new(&removed) else { return };
    let error = refusal(&redis.url()).await;
    assert!(error.ends_with("abide needs EVAL, and the server does not have it"), "{error}");
    let Some(redis) = Redis::start() else { return };
    for (forbidden, reason) in [
        (["-eval", "-evalsha"], "abide needs EVAL, and the user may not run it"),
        (["-time", "-time"], "abide needs EVAL, and the user may not run what its scripts call"),
    ] {
        let user = ["ACL", "SETUSER", "crawler", "reset", "on", ">s3cret", "~abide:*", "+@all"];
        redis.ask::<()>(&[&user[..], &forbidden[..]].concat());
        let url = redis.url().replace("//", "//crawler:s3cret@");
        let error = refusal(&url).await;
        assert!(error.contains(reason) && !error.contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn the_permissions_of_the_readme_suffice() {
    let Some(redis) = Redis::start() else { return };
    let user =
        ["ACL", "SETUSER", "crawler", "on", ">s3cret", "~abide:*", "+eval", "+evalsha", "+get", "+set"];
    redis.ask::<()>(&[&user[..], &["+del", "+pexpire", "+time", "+info", "+scan"]].concat());
    let store = connect(&redis.url().replace("//", "//crawler:s3cret@")).await;
    probe(&store).await.unwrap();
    let origin: Origin = "https://a.example".parse().unwrap();
    store.save(&origin, &sample_record(&origin, WallMillis::from_millis(0), "")).await.unwrap();
    assert_eq!(store.sweep(WallMillis::from_millis(1)).await.unwrap(), 1);
}

#[tokio::test]
async fn unix_sockets_databases_and_the_other_name_are_understood() {
    let directory = tempfile::TempDir::new().unwrap();
    let socket = directory.path().join("redis.sock");
    let Some(redis) = Redis::start_new(&["--unixsocket", socket.to_str().unwrap()]) else { return };
    let port = redis.port();
    for url in [format!("unix://{}", socket.display()), format!("valkey://127.0.0.1:{port}/3")] {
        probe(&connect(&url).await).await.unwrap();
    }
    let keys = redis.info("keyspace", "db3");
    assert!(keys.starts_with("keys=256,"), "{keys}");
}

#[tokio::test]
async fn a_replica_is_refused_also_if_it_takes_writes() {
    for read_only in ["yes", "no"] {
        let Some(primary) = Redis::start_new(&[]) else { return };
        let Some(replica) = Redis::start_new(&["--replica-read-only", read_only]) else { return };
        follow(&replica, &primary);
        let error = refusal(&replica.url()).await;
        assert!(error.ends_with("READONLY: it is a replica"), "{error}");
    }
}

#[tokio::test]
async fn one_node_of_a_cluster_is_refused_with_the_url_that_is_right() {
    let Some(cluster) = Cluster::start() else { return };
    for node in &cluster.nodes {
        let error = refusal(&node.url()).await;
        let right = format!("expected a URL such as redis+cluster://127.0.0.1:{}", node.port());
        assert!(error.ends_with(&right), "{error}");
        // And from any one node the others are found.
        let store = connect(&format!("redis+cluster://127.0.0.1:{}", node.port())).await;
        for n in 0..6 {
            support::probe(&store, &format!("h{n}.example")).await.unwrap();
        }
    }
    let elsewhere = Store::connect("redis+cluster://127.0.0.1:1,127.0.0.1:2").await.unwrap_err();
    assert!(elsewhere.is_unreachable(), "{elsewhere}");
    let Some(redis) = Redis::start() else { return };
    let url = redis.url().replace("redis://", "redis+cluster://");
    let error = refusal(&url).await;
    assert!(error.contains("it is not a cluster"), "{error}");
}

/// The leak of a well-known chat service in March 2023: a cancelled command left its answer for the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_commands_never_give_their_replies_to_others() {
    let (Some(redis), Some(cluster)) = (Redis::start(), Cluster::start()) else { return };
    for url in [redis.url(), cluster.url()] {
        let store = connect(&url).await;
        let origin = |n: usize| -> Origin { format!("https://h{n}.example").parse().unwrap() };
        for n in 0..50 {
            let body = format!("# {n} {}", "x".repeat(n * 997 % 9_000));
            let record = sample_record(&origin(n), WallMillis::from_millis(n as u64), body);
            store.save(&origin(n), &record).await.unwrap();
        }
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..4_usize {
            let store = store.clone();
            tasks.spawn(async move {
                for step in 0..300_usize {
                    let n = (task * 13 + step * 7) % 50;
                    let patience = Duration::from_micros((step as u64 * 7_919 + task as u64 * 31) % 900);
                    let origin = origin(n);
                    match step % 4 {
                        0 => drop(timeout(patience, probe(&store)).await),
                        1 | 2 => drop(timeout(patience, store.load(&origin)).await),
                        // The echo: whatever was cancelled before, this is the reply to this question.
                        _ => {
                            let record = store.load(&origin).await.unwrap().expect("it was saved");
                            let body = record.copy().unwrap().body().to_vec();
                            assert!(body.starts_with(format!("# {n} ").as_bytes()), "not {n}");
                        }
                    }
                }
            });
        }
        tasks.join_all().await;
    }
}

/// Also if it was down when the store was opened.
#[tokio::test]
async fn a_lost_server_fails_commands_at_once_and_is_found_again() {
    let Some(mut redis) = Redis::start() else { return };
    let store = Store::builder(&redis.url()).command_timeout(PATIENCE).open().unwrap();
    for _ in 0..2 {
        redis.kill();
        // A command that waited for it would say that it did not answer.
        for _ in 0..200 {
            let error = probe(&store).await.unwrap_err().to_string();
            assert!(error.contains("cannot be reached"), "{error}");
        }
        redis.start_again();
        back(&store).await;
    }
}

/// By a server with a `timeout`, or by something on the way: that is no outage.
#[tokio::test]
async fn a_connection_that_was_closed_is_made_again_by_the_next_command() {
    let Some(redis) = Redis::start() else { return };
    let store = connect(&redis.url()).await;
    for _ in 0..20 {
        redis.ask::<()>(&["CLIENT", "KILL", "TYPE", "normal"]);
        probe(&store).await.unwrap();
    }
}

/// Its task ends with the runtime in which it was made.
#[test]
fn a_connection_does_not_outlive_its_runtime_and_the_store_does() {
    let Some(redis) = Redis::start() else { return };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime().block_on(connect(&redis.url()));
    for _ in 0..3 {
        runtime().block_on(probe(&store)).unwrap();
    }
}

/// A server that was paused, and one whose machine has gone: nothing says that the connection is over.
/// Callers may have less patience than the store, and than the quarter of its limit after which a silent
/// connection is replaced.
#[tokio::test]
async fn a_silent_server_is_found_again() {
    let (Some(redis), Some(other)) = (Redis::start(), Redis::start_new(&[])) else { return };
    let proxy = Proxy::start(redis.port()).await;
    let store = Store::builder(&proxy.url()).open().unwrap();
    back(&store).await;
    redis.pause();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        assert!(probe(&store).await.unwrap_err().to_string().contains("did not answer within 1s"));
    }
    redis.resume();
    back(&store).await;
    proxy.lead_to(other.port());
    wait_for("another connection is used", async || timeout(ms(200), probe(&store)).await.is_ok()).await;
    assert_eq!(other.ask::<Vec<String>>(&["KEYS", "*born*"]).len(), 256, "the other one was greeted");
}

/// It answers, but leases cannot be kept there: a process that asks whether it is back must not take it for
/// well.
#[tokio::test]
async fn a_server_that_takes_no_writes_is_away() {
    let Some(redis) = Redis::start() else { return };
    let store = connect(&redis.url()).await;
    for (name, bad, good) in [("min-replicas-to-write", "1", "0"), ("maxmemory", "1", "0")] {
        probe(&store).await.unwrap();
        redis.ask::<()>(&["CONFIG", "SET", name, bad]);
        assert!(probe(&store).await.is_err(), "{name}");
        redis.ask::<()>(&["CONFIG", "SET", name, good]);
    }
    probe(&store).await.unwrap();
}

#[tokio::test]
async fn no_error_has_a_password() {
    let Some(redis) = Redis::start_new(&["--requirepass", "s3cret-of-the-server"]) else { return };
    let port = redis.port();
    for url in [
        format!("redis://:s3cret-of-ours@127.0.0.1:{port}/"),
        format!("redis://operator:s3cret-of-ours@127.0.0.1:{port}/"),
        format!("redis://127.0.0.1:{port}/"),
        format!("redis+cluster://operator:s3cret-of-ours@127.0.0.1:{port}"),
        format!("redis+sentinel://operator:s3cret-of-ours@127.0.0.1:{port}/main"),
    ] {
        let shown = format!("{} {:?}", refusal(&url).await, Store::builder(&url).open().unwrap());
        assert!(shown.contains("wrong user name or password"), "{url}: {shown}");
        assert!(!shown.contains("s3cret") && !shown.contains("operator"), "{shown}");
    }
    // This server says what it was asked: "unknown command 'AUTH', with args beginning with: 's3cret'".
    let Some(redis) = Redis::start_new(&["--rename-command", "AUTH", ""]) else { return };
    for scheme in ["redis", "redis+cluster", "redis+sentinel"] {
        let name = if scheme.ends_with("sentinel") { "/main" } else { "" };
        let url = format!("{scheme}://:s3cret-of-ours@127.0.0.1:{}{name}", redis.port());
        let error = refusal(&url).await;
        assert!(!error.contains("s3cret") && error.starts_with("the store at 127.0.0.1:"), "{error}");
    }
}
