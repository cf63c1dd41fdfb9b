//! What the suites cannot see: what lies in the server, and what a loss does.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::{Backoff, BackoffCause, HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{HolderId, Origin, WallMillis};
use abide_redis::Store;
use abide_tests::Redis;

use crate::conformance::used;
use crate::support::{LEASED, asking, connect, follow, ms, probe};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// Of `a.example`.
const HOST: &str = "abide:{b249}:host:a.example";

fn lease(ttl: Duration) -> Want {
    Want::Lease { ttl, again_in: MINUTE, is_held: false }
}

fn held(ttl: Duration) -> Want {
    Want::Lease { ttl, again_in: MINUTE, is_held: true }
}

async fn exchange(store: &Store, holder: u128, want: Want) -> (LeaseStatus, HostState) {
    store.exchange("a.example", asking(holder, want)).await.unwrap()
}

async fn status(store: &Store, holder: u128, want: Want) -> LeaseStatus {
    exchange(store, holder, want).await.0
}

fn is_busy(status: LeaseStatus, within: Duration) -> bool {
    matches!(status, LeaseStatus::Busy { wait, .. } if wait > Duration::ZERO && wait <= within)
}

#[tokio::test]
async fn a_refusal_writes_only_who_waits() {
    let Some(redis) = Redis::start() else { return };
    let store = connect(&redis.url()).await;
    assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
    let before: String = redis.ask(&["GET", HOST]);
    let scripts = used(&redis, "evalsha");
    for holder in 2..6 {
        assert!(is_busy(status(&store, holder, lease(HOUR)).await, HOUR));
        let after: String = redis.ask(&["GET", HOST]);
        let differ = before.split(' ').zip(after.split(' ')).map(|(a, b)| a != b).collect::<Vec<_>>();
        let (checksum, waiting, written) = (1, 10, 11);
        assert!((0..13).all(|n| differ[n] == [checksum, waiting, written].contains(&n)), "{before}\n{after}");
    }
    assert_eq!(used(&redis, "evalsha"), scripts + 4, "each is one script");
}

#[tokio::test]
async fn leases_that_are_renewed_together_are_one_script() {
    let Some(redis) = Redis::start() else { return };
    let store = connect(&redis.url()).await;
    let ask = |n: u64| (Arc::from(format!("h{n}.example")), asking(1, lease(HOUR)));
    let asks: Vec<_> = (0..64).map(ask).collect();
    assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
    assert_eq!(store.exchange("h7.example", asking(2, lease(HOUR))).await.unwrap().0, LEASED);
    let scripts = used(&redis, "evalsha");
    let replies = store.exchange_all(&asks).await;
    assert_eq!(used(&redis, "evalsha"), scripts + 1);
    for (n, reply) in replies.into_iter().enumerate() {
        let status = reply.unwrap().0;
        assert!(if n == 7 { is_busy(status, HOUR) } else { status == LEASED }, "{n}: {status:?}");
    }
}

/// What is stored there, each time with one byte changed.
fn flipped(redis: &Redis, key: &str) -> Vec<Vec<u8>> {
    let whole: Vec<u8> = redis.ask(&["GET", key]);
    let flip = |at| whole.iter().enumerate().map(|(n, byte)| byte ^ u8::from(n == at)).collect();
    (0..whole.len()).map(flip).collect()
}

#[tokio::test]
async fn a_record_with_a_changed_byte_or_of_another_type_is_absent() {
    let Some(redis) = Redis::start() else { return };
    let store = connect(&redis.url()).await;
    let origin: Origin = "https://a.example".parse().unwrap();
    let record = sample_record(&origin, WallMillis::from_millis(0), "");
    store.save(&origin, &record).await.unwrap();
    let key = redis.ask::<Vec<String>>(&["KEYS", "abide:*:robots:*"]).remove(0);
    for value in flipped(&redis, &key) {
        redis.ask::<()>(&[b"SET", key.as_bytes(), &value]);
        assert_eq!(RobotsStore::load(&store, &origin).await.unwrap(), None, "{}", value.escape_ascii());
    }
    redis.ask::<()>(&["DEL", &key]);
    redis.ask::<()>(&["HSET", &key, "a", "b"]);
    assert_eq!(RobotsStore::load(&store, &origin).await.unwrap(), None, "another type");
    assert_eq!(store.sweep(WallMillis::from_millis(1)).await.unwrap(), 0, "a sweep passes over it");
    store.save(&origin, &record).await.unwrap();
    assert_eq!(RobotsStore::load(&store, &origin).await.unwrap(), Some(record), "and it is replaced");
    #[cfg(feature = "permissions")]
    {
        use abide_permissions::PermissionStore;
        use abide_permissions::testing::sample_record;

        let (record, url) = (sample_record("https://a.example/", 2), "https://a.example/");
        PermissionStore::save(&store, &record).await.unwrap();
        let key = redis.ask::<Vec<String>>(&["KEYS", "abide:*:permissions:*"]).remove(0);
        for value in flipped(&redis, &key) {
            redis.ask::<()>(&[b"SET", key.as_bytes(), &value]);
            assert_eq!(PermissionStore::load(&store, url).await.unwrap(), None, "{}", value.escape_ascii());
        }
        // It is dated later by a second, which would keep it.
        PermissionStore::save(&store, &sample_record(url, 1)).await.unwrap();
        assert_eq!(PermissionStore::load(&store, url).await.unwrap(), Some(sample_record(url, 1)));
    }
}

/// Another program may write anything into a key: its host waits for a while, and the store is not taken for
/// away.
#[tokio::test]
async fn what_is_not_ours_lets_nothing_out_early() {
    let Some(redis) = Redis::start() else { return };
    let store = connect(&redis.url()).await;
    let absurd: [&[u8]; 7] = [
        b"",
        b"nan nan nan 0 none 0 0 0 0 0 0",
        b"1 1 1 1 none 0 0 0 0 0",
        b"-1 0 0 0 none 0 0 0 0 0 0",
        b"\xff\xfe",
        b"0 0 0 0 \xff 0 0 0 0 0 0",
        b"+1 0 0 0 none 0 0 0 0 0 0",
    ];
    assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
    let sealed = |fields: &[u8]| {
        redis.put(HOST, fields);
        redis.ask::<Vec<u8>>(&["GET", HOST])
    };
    for value in flipped(&redis, HOST).into_iter().chain(absurd.map(sealed)) {
        let what = value.escape_ascii().to_string();
        redis.ask::<()>(&[b"SET", HOST.as_bytes(), &value]);
        assert!(is_busy(status(&store, 1, lease(MINUTE)).await, MINUTE), "{what}");
        let reply = exchange(&store, 1, held(MINUTE)).await;
        assert!(is_busy(reply.0, MINUTE) && reply.1.quiet < Some(MINUTE), "{what}: {reply:?}");
    }
    redis.ask::<()>(&["DEL", HOST]);
    redis.ask::<()>(&["HSET", HOST, "a", "b"]);
    assert!(is_busy(status(&store, 1, lease(MINUTE)).await, MINUTE), "another type");
    // Numbers that are out of all bounds.
    let most = "99999999999999999999";
    redis.put(HOST, format!("{most} {most} {most} 999 none 2 {most} 9 3:{most} 1 1"));
    let state = exchange(&store, 1, lease(MINUTE)).await.1;
    let backoff = state.backoff.unwrap();
    assert_eq!((state.quiet, state.delay, backoff.throttles), (Some(Duration::ZERO), HOUR * 24, 255));
    assert!(backoff.left <= HOUR * 24 && backoff.left > HOUR * 23, "{backoff:?}");
    // A marker, likewise: one that cannot be read is a loss.
    redis.ask::<()>(&[b"SET".as_slice(), b"abide:{b249}:born", b"\xff"]);
    redis.ask::<()>(&["DEL", HOST]);
    assert!(is_busy(status(&store, 1, lease(MINUTE)).await, MINUTE));
}

#[tokio::test]
async fn every_key_expires_and_none_before_what_is_owed() {
    let Some(redis) = Redis::start() else { return };
    let store = connect(&redis.url()).await;
    let backoff =
        Backoff { left: HOUR, over: Duration::ZERO, throttles: 1, cause: BackoffCause::EnhanceYourCalm };
    let lease = Want::Lease { ttl: MINUTE, again_in: ms(0), is_held: false };
    let states = [
        (Want::Release, HostState { quiet: Some(ms(0)), delay: HOUR * 24, backoff: None }, HOUR * 24),
        (Want::Release, HostState { delay: ms(0), backoff: Some(backoff), quiet: None }, HOUR + MINUTE * 30),
        (Want::Release, HostState { quiet: Some(ms(0)), ..HostState::default() }, ms(0)),
        // Its holder may die, and have sent a request when the lease ended.
        (lease, HostState { delay: HOUR, ..HostState::default() }, MINUTE + HOUR),
    ];
    for (n, (want, state, used)) in (1..).zip(states) {
        let name = format!("h{n}.example");
        let ask = LeaseAsk { holder: HolderId(n), number: 0, want, state };
        store.exchange(&name, ask).await.unwrap();
        let keys: Vec<String> = redis.ask(&["KEYS", &format!("abide:*:host:{name}")]);
        let life = ms(redis.ask::<u64>(&["PTTL", &keys[0]]));
        assert!(life > used && life <= used + MINUTE, "{name}: {life:?}");
    }
    assert_eq!(status(&store, 1, held(HOUR)).await, LEASED);
    // Nothing is kept of a host that nothing is known of.
    probe(&store, "nothing.example").await.unwrap();
    let origin: Origin = "https://a.example".parse().unwrap();
    store.save(&origin, &sample_record(&origin, WallMillis::from_millis(0), "")).await.unwrap();
    let keys: Vec<String> = redis.ask(&["KEYS", "*"]);
    assert_eq!(keys.len(), 256 + 5 + 1, "{keys:?}");
    for key in keys {
        assert!(redis.ask::<i64>(&["PTTL", &key]) > 0, "{key} never expires");
    }
}

/// Flushed, killed with and without a file, made a replica and a primary again: only a process that has the
/// lease by its own clock gets it, until one ttl has passed.
#[tokio::test]
async fn after_a_loss_only_the_holder_gets_the_lease() {
    for loss in ["flush", "kill", "kill with a file", "kill with a snapshot", "clock", "replica"] {
        let args = if loss.ends_with("file") { ["--appendonly", "yes"] } else { ["--appendonly", "no"] };
        let (Some(mut redis), Some(other)) = (Redis::start_new(&args), Redis::start_new(&[])) else { return };
        redis.age();
        let store = connect(&redis.url()).await;
        assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
        match loss {
            "flush" => redis.ask::<()>(&["FLUSHALL"]),
            "clock" => {
                let name = redis.info("replication", "master_replid");
                redis.put("abide:{b249}:born", format!("{} {name}", 1_u64 << 52));
            }
            "replica" => {
                for (replica, primary) in [(&other, &redis), (&redis, &other)] {
                    follow(replica, primary);
                    replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
                }
            }
            _ => {
                if loss.ends_with("snapshot") {
                    redis.ask::<()>(&["SAVE"]);
                }
                redis.kill();
                redis.start_again();
            }
        }
        let first = loop {
            // The first command may find the old connection dead.
            if let Ok(reply) = store.exchange("a.example", asking(1, lease(MINUTE))).await {
                break reply.0;
            }
            tokio::time::sleep(ms(50)).await;
        };
        assert!(is_busy(first, MINUTE), "{loss}: its name alone is not enough: {first:?}");
        assert!(is_busy(status(&store, 2, lease(MINUTE)).await, MINUTE), "{loss}");
        assert!(matches!(status(&store, 1, held(HOUR)).await, LeaseStatus::Leased { .. }), "{loss}");
        assert!(is_busy(status(&store, 2, held(HOUR)).await, HOUR), "{loss}: one holder");
        assert!(matches!(status(&store, 1, lease(HOUR)).await, LeaseStatus::Leased { .. }), "{loss}");
    }
}

#[tokio::test]
async fn without_permission_for_info_lost_data_is_noticed_all_the_same() {
    let Some(redis) = Redis::start() else { return };
    redis.ask::<()>(&["ACL", "SETUSER", "crawler", "on", ">s3cret", "~*", "+@all", "-info"]);
    let url = redis.url().replace("//", "//crawler:s3cret@");
    let (nameless, named) = (connect(&url).await, connect(&redis.url()).await);
    assert_eq!(status(&nameless, 1, lease(HOUR)).await, LEASED);
    assert!(is_busy(status(&named, 2, lease(HOUR)).await, HOUR));
    assert_eq!(status(&nameless, 1, Want::Release).await, LeaseStatus::Released);
    redis.ask::<()>(&["FLUSHALL"]);
    assert!(is_busy(status(&nameless, 1, lease(MINUTE)).await, MINUTE));
}
