//! What the suites cannot see: what lies in the server, what a loss does, and that the script says what `HostEntry` says.

use std::time::Duration;

use abide_gate::pacing::{
    Backoff, BackoffCause, HostEntry, HostState, HostStore, LeaseAsk, LeaseStatus, Want,
};
use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{HolderId, Origin, WallMillis};
use abide_redis::Store;

use crate::conformance::used;
use crate::support::{LEASED, Redis, asking, connect, ms, probe};

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
    let store = redis.aged().connect().await.unwrap();
    assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
    let before: String = redis.ask(&["GET", HOST]);
    let scripts = used(&redis, "evalsha");
    for holder in 2..6 {
        assert!(is_busy(status(&store, holder, lease(HOUR)).await, HOUR));
        let after: String = redis.ask(&["GET", HOST]);
        let differ = before.split(' ').zip(after.split(' ')).map(|(a, b)| a != b).collect::<Vec<_>>();
        let (waiting, written) = (8, 10);
        assert!((0..11).all(|n| differ[n] == [waiting, written].contains(&n)), "{before}\n{after}");
    }
    assert_eq!(used(&redis, "evalsha"), scripts + 4, "each is one script");
}

/// Another program may write anything into a key: its host waits for a while, and the store is not taken for away.
#[tokio::test]
async fn what_is_not_ours_lets_nothing_out_early() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    let absurd: [&[u8]; 7] = [
        b"",
        b"nan nan nan 0 none 0 0 0 0 0 0",
        b"1 1 1 1 none 0 0 0 0 0",
        b"-1 0 0 0 none 0 0 0 0 0 0",
        b"\xff\xfe",
        b"0 0 0 0 \xff 0 0 0 0 0 0",
        b"+1 0 0 0 none 0 0 0 0 0 0",
    ];
    for value in absurd {
        let what = value.escape_ascii().to_string();
        redis.ask::<()>(&[b"SET", HOST.as_bytes(), value]);
        assert!(is_busy(status(&store, 1, lease(MINUTE)).await, MINUTE), "{what}");
        let reply = exchange(&store, 1, held(MINUTE)).await;
        assert!(is_busy(reply.0, MINUTE) && reply.1.quiet < Some(MINUTE), "{what}: {reply:?}");
    }
    redis.ask::<()>(&["DEL", HOST]);
    redis.ask::<()>(&["HSET", HOST, "a", "b"]);
    assert!(is_busy(status(&store, 1, lease(MINUTE)).await, MINUTE), "another type");
    // Numbers that are out of all bounds.
    let most = "99999999999999999999";
    redis.ask::<()>(&["SET", HOST, &format!("{most} {most} {most} 999 none 2 {most} 9 3:{most} 1 1")]);
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
    let states = [
        (HostState { quiet: Some(ms(0)), delay: HOUR * 24, backoff: None }, HOUR * 24),
        (HostState { quiet: None, delay: ms(0), backoff: Some(backoff) }, HOUR + MINUTE * 30),
        (HostState { quiet: Some(ms(0)), ..HostState::default() }, ms(0)),
    ];
    for (n, (state, owed)) in (1..).zip(states) {
        let name = format!("h{n}.example");
        let ask = LeaseAsk { holder: HolderId(n), want: Want::Release, state };
        store.exchange(&name, ask).await.unwrap();
        let keys: Vec<String> = redis.ask(&["KEYS", &format!("abide:*:host:{name}")]);
        let life = ms(redis.ask::<u64>(&["PTTL", &keys[0]]));
        assert!(life > owed && life <= owed + MINUTE, "{name}: {life:?}");
    }
    assert_eq!(status(&store, 1, held(HOUR)).await, LEASED);
    // Nothing is kept of a host that nothing is known of.
    probe(&store, "nothing.example").await.unwrap();
    let origin: Origin = "https://a.example".parse().unwrap();
    store.save(&origin, &sample_record(&origin, WallMillis::from_millis(0), "")).await.unwrap();
    store.lease(&origin, HolderId(1), WallMillis::from_millis(0), HOUR).await.unwrap();
    let keys: Vec<String> = redis.ask(&["KEYS", "*"]);
    assert_eq!(keys.len(), 256 + 4 + 2, "{keys:?}");
    for key in keys {
        assert!(redis.ask::<i64>(&["PTTL", &key]) > 0, "{key} never expires");
    }
}

/// Flushed, killed with and without a file, made a replica and a primary again: only a process that has the lease by its own clock
/// gets it, until one ttl has passed.
#[tokio::test]
async fn after_a_loss_only_the_holder_gets_the_lease() {
    for loss in ["flush", "kill", "kill with a file", "kill with a snapshot", "clock", "replica"] {
        let args = if loss.ends_with("file") { ["--appendonly", "yes"] } else { ["--appendonly", "no"] };
        let (Some(mut redis), Some(other)) = (Redis::start_with(&args), Redis::start()) else { return };
        let store = redis.aged().connect().await.unwrap();
        assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
        match loss {
            "flush" => redis.ask::<()>(&["FLUSHALL"]),
            "clock" => {
                let name = redis.info("replication", "master_replid");
                redis.ask::<()>(&["SET", "abide:{b249}:born", &format!("{} {name}", 1_u64 << 52)]);
            }
            "replica" => {
                for (replica, primary) in [(&other, &redis), (&redis, &other)] {
                    replica.follow(primary);
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
async fn after_the_grace_a_whole_delay_is_owed() {
    let Some(redis) = Redis::start() else { return };
    let began = std::time::Instant::now();
    let store = connect(&redis.url()).await;
    let reply = loop {
        let reply = exchange(&store, 1, lease(ms(500))).await;
        if reply.0 == LEASED {
            break reply;
        }
        assert!(is_busy(reply.0, ms(500)));
        tokio::time::sleep(ms(20)).await;
    };
    let quiet = reply.1.quiet.expect("a process that is not known may have sent until then");
    assert!(quiet + ms(400) < began.elapsed(), "not from the beginning of the grace: {quiet:?}");
}

#[tokio::test]
async fn without_permission_for_info_lost_data_is_noticed_all_the_same() {
    let Some(redis) = Redis::start() else { return };
    redis.ask::<()>(&["ACL", "SETUSER", "crawler", "on", ">s3cret", "~*", "+@all", "-info"]);
    let url = redis.url().replace("//", "//crawler:s3cret@");
    let (nameless, named) = (connect(&url).await, redis.aged().connect().await.unwrap());
    assert_eq!(status(&nameless, 1, lease(HOUR)).await, LEASED);
    assert!(is_busy(status(&named, 2, lease(HOUR)).await, HOUR));
    assert_eq!(status(&nameless, 1, Want::Release).await, LeaseStatus::Released);
    redis.ask::<()>(&["FLUSHALL"]);
    assert!(is_busy(status(&nameless, 1, lease(MINUTE)).await, MINUTE));
}

/// By the clock of the test in place of the server's.
struct Scripted {
    redis: Redis,
    script: String,
}

impl Scripted {
    fn start() -> Option<Self> {
        let parts = [include_str!("../../src/lua/marker.lua"), include_str!("../../src/lua/exchange.lua")];
        let script = parts.concat().replace("redis.call('TIME')", "{ARGV[12], ARGV[13]}");
        Some(Self { redis: Redis::start()?, script })
    }

    /// Since when nothing was lost.
    fn born(&self, at: Duration) {
        let name = self.redis.info("replication", "master_replid");
        self.redis.ask::<()>(&["SET", "born", &format!("{} {name}", at.as_micros())]);
    }

    fn exchange(&self, host: &str, number: u64, ask: &LeaseAsk, now: Duration) -> (LeaseStatus, HostState) {
        let (want, ttl, again_in) = match ask.want {
            Want::Lease { ttl, again_in, is_held } => (if is_held { "held" } else { "lease" }, ttl, again_in),
            Want::Release => ("release", ms(0), ms(0)),
        };
        let micros = |span: Duration| span.as_micros().to_string();
        let HostState { quiet, delay, backoff } = ask.state;
        let none = Backoff { left: ms(0), over: ms(0), throttles: 0, cause: BackoffCause::Operator };
        let left = backoff.map_or("-1".to_owned(), |backoff| micros(backoff.left));
        let backoff = backoff.unwrap_or(none);
        let quiet = quiet.map_or("-1".to_owned(), micros);
        let mut words = ["EVAL", &self.script, "2", host, "born"].map(str::to_owned).to_vec();
        words.extend([
            ask.holder.to_string(),
            number.to_string(),
            want.to_owned(),
            micros(ttl),
            micros(again_in),
        ]);
        words.extend([quiet, micros(delay), left, micros(backoff.over), backoff.throttles.to_string()]);
        words.extend(["operator".to_owned(), now.as_secs().to_string(), now.subsec_micros().to_string()]);
        let reply: (String, u64, i64, u64, i64, u64, u8, String) = self.redis.ask(&words);
        let (verdict, wait, quiet, delay, left, over, throttles, _) = reply;
        let span = Duration::from_micros;
        let lease = match verdict.as_str() {
            "leased" | "wanted" => LeaseStatus::Leased { is_wanted: verdict == "wanted" },
            "busy" | "next" => LeaseStatus::Busy { wait: span(wait), is_next: verdict == "next" },
            _ => LeaseStatus::Released,
        };
        let (quiet, left) = (u64::try_from(quiet).ok().map(span), u64::try_from(left).ok().map(span));
        let backoff = left.map(|left| Backoff { left, over: span(over), throttles, ..none });
        (lease, HostState { quiet, delay: span(delay), backoff })
    }

    fn now(&self) -> Duration {
        let (seconds, micros): (u64, u64) = self.redis.ask(&["TIME"]);
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    }
}

/// Thousands of random exchanges of four processes, answered alike to the microsecond.
#[test]
fn the_script_equals_the_plain_function() {
    let Some(scripted) = Scripted::start() else { return };
    let mut now = scripted.now();
    let mut seed = 1_u64;
    let mut dice = move |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most
    };
    for run in 0..60 {
        let (mut entry, host) = (HostEntry::default(), format!("h{run}"));
        // In half of the runs it begins within the grace of a loss.
        let ttl = ms(8_000);
        let born = if run % 2 == 0 { now } else { now - HOUR * 48 };
        scripted.born(born);
        for number in 1..60 {
            now += Duration::from_micros(dice(3_000_000));
            let backoff = Backoff {
                left: Duration::from_micros(dice(2) * dice(40_000_000)),
                over: Duration::from_micros(dice(2_000_000_000)),
                throttles: u8::try_from(dice(4) + 1).unwrap(),
                cause: BackoffCause::Operator,
            };
            // Either it lasts, or it is over.
            let backoff =
                Backoff { over: if backoff.left.is_zero() { backoff.over } else { ms(0) }, ..backoff };
            let state = HostState {
                quiet: (dice(3) == 0).then(|| Duration::from_micros(dice(30_000_000))),
                delay: ms(dice(3_000)),
                backoff: (dice(6) == 0).then_some(backoff),
            };
            let is_held = dice(8) == 0;
            let want = match dice(4) {
                0 => Want::Release,
                _ => Want::Lease { ttl, again_in: ms(dice(6_000)), is_held },
            };
            let ask = LeaseAsk { holder: HolderId(u128::from(dice(4)) + 1), want, state };
            let expected = entry.exchange(&ask, now, born + ttl);
            let found = scripted.exchange(&host, number, &ask, now);
            assert_eq!(found, expected, "run {run}, {number}: {ask:?}");
            if !entry.is_owed(now - MINUTE) {
                entry = HostEntry::default();
            }
        }
    }
}

#[test]
fn a_clock_that_is_set_back_delays_no_host_for_long() {
    let Some(scripted) = Scripted::start() else { return };
    let now = scripted.now();
    scripted.born(now - HOUR * 48);
    let backoff = Backoff { left: MINUTE, over: ms(0), throttles: 1, cause: BackoffCause::Operator };
    let state = HostState { quiet: Some(ms(1_000)), delay: ms(5_000), backoff: Some(backoff) };
    scripted.exchange("h", 1, &LeaseAsk { state, ..asking(1, lease(ms(8_000))) }, now);
    scripted.exchange("h", 2, &asking(2, lease(ms(8_000))), now);
    let then = scripted.exchange("h", 3, &asking(3, lease(ms(8_000))), now - HOUR);
    assert_eq!(then.0, LeaseStatus::Busy { wait: ms(8_000), is_next: false });
    assert_eq!((then.1.quiet, then.1.backoff.unwrap().left), (Some(ms(1_000)), MINUTE));
}

/// It was sent on a connection that was given up, and comes after the lease has been taken again.
#[test]
fn a_release_that_comes_late_gives_up_nothing() {
    let Some(scripted) = Scripted::start() else { return };
    let now = scripted.now();
    scripted.born(now - HOUR * 48);
    scripted.exchange("h", 7, &asking(1, lease(MINUTE)), now);
    scripted.exchange("h", 6, &asking(1, Want::Release), now);
    assert!(is_busy(scripted.exchange("h", 1, &asking(2, lease(MINUTE)), now).0, MINUTE));
    scripted.exchange("h", 8, &asking(1, Want::Release), now);
    assert_eq!(scripted.exchange("h", 2, &asking(2, lease(MINUTE)), now).0, LEASED);
}

/// The process that fetches has a clock a little ahead.
#[tokio::test]
async fn clocks_that_differ_a_little_keep_one_fetch_per_robots_txt() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    let (origin, now): (Origin, _) =
        ("https://a.example".parse().unwrap(), WallMillis::from_millis(1_000_000_000_000));
    let keys = || redis.ask::<Vec<String>>(&["KEYS", "abide:*:fetching:*"]);
    for _ in 0..2 {
        assert_eq!(store.lease(&origin, HolderId(1), now.plus(ms(5)), MINUTE).await.unwrap(), None);
    }
    let follow = Some(now.plus(ms(60_005)));
    assert_eq!(store.lease(&origin, HolderId(2), now, MINUTE).await.unwrap(), follow);
    let hour_before = now.minus(HOUR);
    let lease = store.lease(&origin, HolderId(2), hour_before, MINUTE).await.unwrap();
    assert_eq!(lease, None, "a clock that was set back delays no process for long");
    // What is no text of ours is taken over, and is no outage.
    redis.ask::<()>(&[b"SET".as_slice(), keys()[0].as_bytes(), b"\xff\xfe"]);
    assert_eq!(store.lease(&origin, HolderId(1), now, MINUTE).await.unwrap(), None);
}
