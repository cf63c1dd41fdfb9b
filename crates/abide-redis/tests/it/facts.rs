//! What the suites cannot see: what lies in the server, and what becomes of a connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::access::{AccessStore, Lease, LeaseHolder};
use abide_gate::pacing::{Busy, Cause, Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk};
use abide_gate::testing::access::sample_record;
use abide_gate::{Origin, SystemClock, WallMillis};
use abide_redis::Store;
use tokio::time::{sleep, timeout};

use crate::support::{Proxy, Redis, WITHOUT_EVAL, ms, wait_until};

const HOUR: Duration = Duration::from_secs(3_600);

fn host(gap: Duration) -> [ScopeAsk; 1] {
    [ScopeAsk::new("a.example".into(), gap, 1)]
}

fn ask(max_wait: Duration) -> LeaseAsk {
    LeaseAsk { lease: LeaseId::random(), max_wait, ttl: ms(60_000) }
}

async fn granted(store: &Store, scopes: &[ScopeAsk], ask: LeaseAsk) -> Duration {
    match store.reserve(scopes, ask).await.unwrap() {
        Reply::Granted { wait, .. } => wait,
        refused @ Reply::Refused { .. } => panic!("{refused:?}"),
    }
}

async fn refused(store: &Store, scopes: &[ScopeAsk], ask: LeaseAsk) -> (Duration, Busy) {
    match store.reserve(scopes, ask).await.unwrap() {
        Reply::Refused { wait, reason, .. } => (wait, reason),
        granted @ Reply::Granted { .. } => panic!("{granted:?}"),
    }
}

/// All that lies in the server, without the lives of keys.
fn everything(redis: &Redis) -> Vec<(String, String)> {
    let mut keys: Vec<String> = redis.ask(&["KEYS", "*"]);
    keys.sort();
    let held = |key: &String| match redis.ask::<String>(&["TYPE", key]).as_str() {
        "hash" => redis.ask::<Vec<String>>(&["HGETALL", key]).join(" "),
        "zset" => redis.ask::<Vec<String>>(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).join(" "),
        _ => redis.ask::<String>(&["GET", key]),
    };
    keys.iter().map(|key| (key.clone(), held(key))).collect()
}

#[tokio::test]
async fn a_refusal_writes_nothing() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let first = ask(HOUR);
        granted(&store, &host(HOUR), first).await;
        let mut before = everything(&redis);
        let busy = refused(&store, &host(HOUR), ask(HOUR)).await.1;
        assert_eq!((busy, everything(&redis)), (Busy::InFlight, before));
        PaceStore::release(&store, &host(HOUR), first.lease, Ended::Response).await.unwrap();
        before = everything(&redis);
        let gap = refused(&store, &host(HOUR), ask(ms(1_000))).await.1;
        assert_eq!((gap, everything(&redis)), (Busy::Gap, before));
        let until = WallMillis::plus(abide_gate::Clock::wall(&SystemClock), HOUR * 3);
        store.hold(&host(HOUR)[0].key, until, 0, Cause::Operator).await.unwrap();
        before = everything(&redis);
        let hold = refused(&store, &host(HOUR), ask(HOUR)).await.1;
        assert_eq!((hold, everything(&redis)), (Busy::Hold { cause: Cause::Operator, strikes: 0 }, before));
    }
}

/// Whoever can write to the server may write anything: it makes a host wait, and lets nothing out early. Nor does it make the store
/// look as if it were away, which would cost all other hosts their shared turns.
#[tokio::test]
async fn numbers_that_we_have_not_written_let_nothing_out_early() {
    const ABSURD: [&[u8]; 12] = [
        b"nan",
        b"-nan",
        b"inf",
        b"-1",
        b"1e300",
        b"0x10",
        b"1.5",
        b"one",
        b"+1",
        b"18446744073709551615",
        b"9007199254740993",
        b"\xff\xfe1",
    ];
    let life_max = (2 * 27 + 2) * 3_600_000;
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let (scopes, gap) = (host(ms(1_000)), ms(1_000));
        let (slot, flight) = ("abide:{a.example}:slot", "abide:{a.example}:flight");
        for (field, absurd) in ["start", "end", "hold", "gap", "strikes"]
            .into_iter()
            .flat_map(|f| ABSURD.map(|absurd| (f, absurd)))
        {
            let what = format!("{field} {} {args:?}", absurd.escape_ascii());
            let _: i64 = redis.ask(&["DEL", slot, flight]);
            let _: i64 = redis.ask(&[b"HSET", slot.as_bytes(), field.as_bytes(), absurd]);
            let _: i64 = redis.ask(&[b"HSET", slot.as_bytes(), b"cause", b"\xff\xfe"]);
            let _: i64 = redis.ask(&[b"ZADD", flight.as_bytes(), b"1", b"\xff\xfe"]);
            store.peek(&scopes[0].key).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            let ask = ask(ms(5_000));
            let reply = store.reserve(&scopes, ask).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            match (field, reply) {
                // As if it had been asked this very moment.
                ("start" | "end", Reply::Granted { wait, .. }) => assert_eq!(wait, gap, "{what}"),
                ("hold", Reply::Refused { wait, reason: Busy::Hold { cause: Cause::Shared, .. }, .. }) => {
                    assert!(wait > HOUR * 23 && wait <= HOUR * 24, "{what}: {wait:?}");
                    continue;
                }
                ("gap" | "strikes", Reply::Granted { strikes: 0, .. }) => {}
                (_, reply) => panic!("{what}: {reply:?}"),
            }
            // Of another lease, which was never given: it is not believed, and does not stand in the way of ours.
            let _: i64 = redis.ask(&["ZADD", flight, "inf", "other"]);
            PaceStore::renew(&store, &scopes, ask.lease, HOUR).await.unwrap();
            PaceStore::release(&store, &scopes, ask.lease, Ended::Response).await.unwrap();
            let soon = granted(&store, &scopes, self::ask(ms(5_000))).await;
            assert!(soon <= gap * 2, "{what}: {soon:?}");
            for key in [slot, flight] {
                let life: i64 = redis.ask(&["PTTL", key]);
                assert!((1..life_max).contains(&life), "{what}: {key} {life}");
            }
        }
    }
}

/// Whoever fetches a robots.txt, and since when the data is whole: what somebody else has written there is taken over.
#[tokio::test]
async fn what_is_no_text_is_no_outage() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let origin: Origin = "https://a.example".parse().unwrap();
        let now = abide_gate::Clock::wall(&SystemClock);
        redis.ask::<()>(&[&b"SET"[..], b"abide:{https://a.example:443}:lease", b"\xff\xfe"]);
        assert_eq!(store.lease(&origin, LeaseHolder(1), now, HOUR).await.unwrap(), Lease::Leader);
        assert!(matches!(
            store.lease(&origin, LeaseHolder(2), now, HOUR).await.unwrap(),
            Lease::Follow { .. }
        ));
        AccessStore::release(&store, &origin, LeaseHolder(1)).await.unwrap();
        redis.ask::<()>(&[&b"SET"[..], b"abide:epoch", b"\xff\xfe"]);
        // That is a loss, which is met by who was greeted before, and by who is greeted then.
        let ask_all = async |store: &Store| {
            store.peek(&"a.example".into()).await.unwrap();
            granted(store, &[ScopeAsk::new("b.example".into(), ms(0), 9)], ask(ms(5_000))).await;
        };
        ask_all(&store).await;
        redis.ask::<()>(&[&b"SET"[..], b"abide:epoch", b"\xff\xfe"]);
        let again = Store::connect(&redis.url()).await.unwrap();
        for store in [&again, &store] {
            ask_all(store).await;
        }
    }
}

#[tokio::test]
async fn every_key_expires_and_none_before_its_promise() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = Store::connect(&redis.url()).await.unwrap();
        sleep(ms(200)).await;
        let (day, short) = (host(HOUR * 24), host(ms(10)));
        let first = ask(HOUR * 25);
        granted(&store, &day, first).await;
        PaceStore::release(&store, &day, first.lease, Ended::Response).await.unwrap();
        // A shorter gap does not take back what a longer one needs.
        PaceStore::release(&store, &short, LeaseId(7), Ended::Response).await.unwrap();
        let until = abide_gate::Clock::wall(&SystemClock).plus(HOUR);
        store.hold(&short[0].key, until, 1, Cause::Shared).await.unwrap();
        granted(&store, &[ScopeAsk::new("b.example".into(), ms(10), 1)], ask(HOUR)).await;
        let origin: Origin = "https://a.example".parse().unwrap();
        store.save(&origin, &sample_record(&origin, WallMillis(0), "")).await.unwrap();
        store.lease(&origin, LeaseHolder(1), WallMillis(0), HOUR).await.unwrap();
        let keys: Vec<String> = redis.ask(&["KEYS", "*"]);
        assert_eq!(keys.len(), 6, "{keys:?}");
        for key in keys {
            let life: i64 = redis.ask(&["PTTL", &key]);
            assert!(life > 0, "{key} never expires");
            if key.contains("{a.example}") {
                assert!(life > 24 * 3_600_000, "{key} is forgotten after {life} ms");
            }
        }
    }
}

#[tokio::test]
async fn a_host_that_may_have_been_evicted_waits_a_whole_gap_however_little_patience_there_is() {
    const EVICTING: &[&str] = &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    for args in [EVICTING.to_vec(), [EVICTING, WITHOUT_EVAL].concat()] {
        let Some(redis) = Redis::start_with(&args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let gap = ms(5_000);
        let hosts = ["a.example", "b.example", "c.example"].map(|name| ScopeAsk::new(name.into(), gap, 1));
        for scopes in [&hosts[..1], &hosts[1..]] {
            let began = Instant::now();
            let (wait, reason) = refused(&store, scopes, ask(ms(200))).await;
            assert!(reason == Busy::Gap && wait <= gap, "{wait:?}, {reason:?}");
            sleep(ms(300)).await;
            let later = refused(&store, scopes, ask(ms(200))).await.0;
            assert!(later + ms(250) <= wait, "the time runs: {wait:?}, {later:?}");
            let wait = granted(&store, scopes, ask(ms(10_000))).await;
            assert!(began.elapsed() + wait >= gap, "{wait:?}");
            assert!(scopes.len() == 2 || wait <= ms(4_700), "from the first question on: {wait:?}");
        }
    }
}

/// What is stored lies a year ahead, since the clock was set back. Nobody waits longer than for a gap, or a day for a hold.
#[tokio::test]
async fn a_clock_that_was_set_back_keeps_nobody_for_years() {
    const YEAR: u64 = 366 * 86_400 * 1_000_000;
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let (seconds, _): (u64, u64) = redis.ask(&["TIME"]);
        let ahead = (seconds * 1_000_000 + YEAR).to_string();
        let key = "abide:{a.example}:slot";
        redis.ask::<()>(&["HSET", key, "start", &ahead, "end", &ahead]);
        let (wait, reason) = refused(&store, &host(HOUR), ask(ms(0))).await;
        assert!(reason == Busy::Gap && wait <= HOUR && wait > HOUR - ms(60_000), "{wait:?}");
        sleep(ms(20)).await;
        assert!(refused(&store, &host(HOUR), ask(ms(0))).await.0 < wait, "the time runs");
        // Of a process that died before the clock was set back.
        redis.ask::<()>(&["ZADD", "abide:{a.example}:flight", &ahead, "dead"]);
        assert_eq!(refused(&store, &host(HOUR), ask(ms(0))).await.1, Busy::Gap);
        redis.ask::<()>(&["HSET", key, "hold", &ahead, "cause", "429 60000"]);
        let (wait, reason) = refused(&store, &host(HOUR), ask(ms(0))).await;
        assert!(
            matches!(reason, Busy::Hold { cause: Cause::Answer { status: 429, .. }, .. })
                && wait <= HOUR * 24
        );
        let held = store.peek(&host(HOUR)[0].key).await.unwrap().held;
        assert!(held <= HOUR * 24 && held > HOUR * 23, "{held:?}");
    }
}

/// The connection goes on while the clock is set back by an hour; what was granted before lies in the future then.
#[tokio::test]
async fn a_clock_that_is_set_back_under_a_connection_costs_one_gap() {
    let Some(redis) = Redis::start() else { return };
    let proxy = Proxy::start(redis.port()).await;
    let store = Store::builder(&proxy.url()).without_scripts().connect().await.unwrap();
    sleep(ms(200)).await;
    let (scopes, first) = (host(ms(1_000)), ask(ms(2_000)));
    granted(&store, &scopes, first).await;
    PaceStore::release(&store, &scopes, first.lease, Ended::Response).await.unwrap();
    proxy.set_clock_back(3_600);
    for name in ["a.example", "unknown.example"] {
        let scopes = [ScopeAsk::new(name.into(), ms(1_000), 1)];
        let wait = granted(&store, &scopes, ask(ms(5_000))).await;
        assert!(wait <= ms(2_200), "{name}: {wait:?}");
    }
}

/// The same on the other path: the script refuses an epoch of the future.
#[tokio::test]
async fn the_script_knows_an_epoch_of_the_future() {
    let Some(redis) = Redis::start() else { return };
    let (seconds, _): (u64, u64) = redis.ask(&["TIME"]);
    for (ahead, expected) in [(0, "granted"), (3_600, "stale")] {
        let born = ((seconds + ahead) * 1_000_000).to_string();
        let script = include_str!("../../src/pacing/turn.lua");
        let words = ["EVAL", script, "2", "{a}:slot", "{a}:flight", "reserve", "x", "0", "1", "5000000"];
        let words = [&words[..], &["60000000", "0", &born, "0", "0"]].concat();
        let (verdict, _, _, _): (String, u64, String, u8) = redis.ask(&words);
        assert_eq!(verdict, expected);
    }
}

#[tokio::test]
async fn on_a_new_server_every_host_waits_one_gap() {
    let Some(mut redis) = Redis::start() else { return };
    let store = Store::connect(&redis.url()).await.unwrap();
    for lost in ["nothing yet", "restart", "flush"] {
        match lost {
            "restart" => {
                redis.kill();
                redis.start_again();
            }
            "flush" => redis.ask::<()>(&["FLUSHALL"]),
            _ => {}
        }
        let mut wait = None;
        for _ in 0..20 {
            // The first command may find the old connection dead.
            if let Ok(Reply::Granted { wait: granted, .. }) =
                store.reserve(&host(ms(60_000)), ask(HOUR)).await
            {
                wait = Some(granted);
                break;
            }
            sleep(ms(100)).await;
        }
        let wait = wait.unwrap_or_else(|| panic!("after {lost} there are turns again"));
        assert!(wait > ms(30_000) && wait <= ms(60_100), "after {lost}: {wait:?}");
    }
}

/// The name leads to the replica already, which has a copy of the epoch but not of the last turn, while the connection of before is
/// still alive. Without scripts each operation may need another connection.
#[tokio::test]
async fn connections_for_watch_are_to_the_server_that_was_greeted() {
    let Some(primary) = Redis::start_with(&[WITHOUT_EVAL, &["--repl-diskless-sync-delay", "0"]].concat())
    else {
        return;
    };
    let Some(replica) = Redis::start_with(WITHOUT_EVAL) else { return };
    let proxy = Proxy::start(primary.port()).await;
    replica.ask::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    wait_until("the replica has all", || replica.info("replication", "master_link_status") == "up");
    let direct = primary.aged().connect().await.unwrap();
    let store = Store::connect(&proxy.url()).await.unwrap();
    replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    let first = ask(HOUR);
    granted(&direct, &host(ms(60_000)), first).await;
    PaceStore::release(&direct, &host(ms(60_000)), first.lease, Ended::Response).await.unwrap();
    proxy.lead_to(replica.port());
    for _ in 0..10 {
        match store.reserve(&host(ms(60_000)), ask(HOUR)).await {
            Ok(Reply::Granted { wait, .. }) => return assert!(wait > ms(30_000), "{wait:?}"),
            // It finds out that the server is another one, and greets that.
            Err(_) => sleep(ms(100)).await,
            refused => panic!("{refused:?}"),
        }
    }
    panic!("the replica is not used");
}

#[tokio::test]
async fn a_lost_lease_is_not_confirmed() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    let (scopes, first) = (host(ms(1_000)), ask(HOUR));
    granted(&store, &scopes, first).await;
    assert!(store.confirm(&scopes, first.lease, ms(0)).await.unwrap());
    assert!(!store.confirm(&scopes, LeaseId::random(), ms(0)).await.unwrap(), "of nobody");
    redis.ask::<()>(&["FLUSHALL"]);
    assert!(!store.confirm(&scopes, first.lease, ms(0)).await.unwrap(), "after a flush");
    sleep(ms(1_200)).await;
    let second = ask(HOUR);
    granted(&store, &scopes, second).await;
    assert!(store.confirm(&scopes, second.lease, ms(0)).await.unwrap());
    // Somebody whose lease was lost has had a response just now.
    PaceStore::release(&store, &scopes, first.lease, Ended::Response).await.unwrap();
    assert!(!store.confirm(&scopes, second.lease, ms(0)).await.unwrap(), "inside a gap");
}

#[tokio::test]
async fn a_store_is_settled_when_every_turn_was_given_back() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    assert!(store.settle(ms(0)).await, "nothing is out");
    let first = ask(HOUR);
    granted(&store, &host(ms(1)), first).await;
    refused(&store, &host(ms(1)), ask(HOUR)).await;
    assert!(!store.settle(ms(100)).await, "one is out");
    let later = store.clone();
    let giving_back = tokio::spawn(async move {
        sleep(ms(200)).await;
        PaceStore::release(&later, &host(ms(1)), first.lease, Ended::Response).await.unwrap();
    });
    assert!(store.settle(ms(10_000)).await);
    assert_eq!(store.peek(&host(ms(1))[0].key).await.unwrap().in_flight, 0);
    giving_back.await.unwrap();
}

/// Callers who go at any moment leave nothing behind that `settle` would wait for.
#[tokio::test]
async fn a_store_is_settled_also_when_its_callers_have_gone() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let proxy = Proxy::start(redis.port()).await;
        redis.age("abide");
        let store = Store::builder(&proxy.url()).connect().await.unwrap();
        proxy.delay(ms(40));
        for n in 0..6_u64 {
            let scopes = [ScopeAsk::new(format!("h{n}.example").as_str().into(), ms(0), 1)];
            let asked = ask(HOUR);
            let gone = timeout(ms(10 + 5 * n), store.reserve(&scopes, asked)).await;
            assert!(gone.is_err(), "nothing comes in less than 80 ms");
        }
        proxy.delay(ms(0));
        sleep(ms(700)).await;
        for n in 0..6 {
            let state = store.peek(&format!("h{n}.example").as_str().into()).await.unwrap();
            assert_eq!(state.in_flight, 0, "the grant that nobody waited for was given back");
        }
        assert!(store.settle(ms(0)).await, "nobody has anything");
    }
}

#[tokio::test]
async fn a_caller_who_is_gone_before_its_answer_is_not_waited_for() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    for _ in 0..20 {
        let asked = ask(HOUR);
        drop(timeout(Duration::from_micros(50), store.reserve(&host(ms(0)), asked)).await.map(|reply| {
            assert!(reply.is_ok());
        }));
        PaceStore::release(&store, &host(ms(0)), asked.lease, Ended::Unsent).await.unwrap();
    }
    assert!(store.settle(ms(1_000)).await);
}

/// The one who leads has a clock a little ahead.
#[tokio::test]
async fn clocks_that_differ_a_little_do_not_make_two_fetch_one_robots_txt() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    let (origin, now): (Origin, _) = ("https://a.example".parse().unwrap(), WallMillis(1_000_000_000_000));
    let minute = ms(60_000);
    assert_eq!(store.lease(&origin, LeaseHolder(1), now.plus(ms(5)), minute).await.unwrap(), Lease::Leader);
    let follow = Lease::Follow { until: now.plus(ms(60_005)) };
    assert_eq!(store.lease(&origin, LeaseHolder(2), now, minute).await.unwrap(), follow);
    let hour_before = now.minus(HOUR);
    let lease = store.lease(&origin, LeaseHolder(2), hour_before, minute).await.unwrap();
    assert_eq!(lease, Lease::Leader, "a clock that was set back keeps nobody waiting");
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_policy_is_taken_to_evict() {
    let Some(redis) = Redis::start() else { return };
    redis.ask::<()>(&["ACL", "SETUSER", "default", "-info"]);
    let store = Store::connect(&redis.url()).await.unwrap();
    sleep(ms(1_200)).await;
    let (wait, reason) = refused(&store, &host(ms(1_000)), ask(ms(200))).await;
    assert!(reason == Busy::Gap && wait > ms(900), "{wait:?}");
}

#[tokio::test]
async fn who_asks_again_and_is_refused_leaves_no_lease_behind() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let (scopes, first) = (host(HOUR), ask(ms(0)));
        granted(&store, &scopes, first).await;
        assert_eq!(refused(&store, &scopes, first).await.1, Busy::Gap);
        assert_eq!(store.peek(&scopes[0].key).await.unwrap().in_flight, 0);
    }
}

/// The answer was lost, and the same is asked again.
#[tokio::test]
async fn who_asks_again_does_not_wait_for_itself() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let first = ask(HOUR);
        granted(&store, &host(ms(1)), first).await;
        granted(&store, &host(ms(1)), first).await;
        assert_eq!(refused(&store, &host(ms(1)), ask(HOUR)).await.1, Busy::InFlight);
        assert_eq!(store.peek(&host(ms(1))[0].key).await.unwrap().in_flight, 1);
    }
}

#[tokio::test]
async fn scripts_that_are_forbidden_later_are_done_without() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    granted(&store, &host(ms(0)), ask(HOUR)).await;
    redis.ask::<()>(&["ACL", "SETUSER", "default", "-eval", "-evalsha"]);
    let other = [ScopeAsk::new("b.example".into(), ms(0), 1)];
    let told = store.reserve(&other, ask(HOUR)).await.unwrap_err().to_string();
    assert!(told.contains("NOPERM"), "{told}");
    granted(&store, &other, ask(HOUR)).await;
}

/// The leak of a well-known chat service in March 2023: a cancelled command left its answer for the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_commands_never_give_their_answers_to_others() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let origin = |n: usize| -> Origin { format!("https://h{n}.example").parse().unwrap() };
        for n in 0..50 {
            let body = format!("# {n} {}", "x".repeat(n * 997 % 9_000));
            store.save(&origin(n), &sample_record(&origin(n), WallMillis(n as u64), body)).await.unwrap();
        }
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..4_usize {
            let store = store.clone();
            tasks.spawn(async move {
                for step in 0..400_usize {
                    let n = (task * 13 + step * 7) % 50;
                    let patience = Duration::from_micros((step as u64 * 7_919 + task as u64 * 31) % 900);
                    let scopes = [ScopeAsk::new(format!("s{n}.example").as_str().into(), ms(1), 1)];
                    let (origin, lease) = (origin(n), ask(ms(10)));
                    match step % 4 {
                        0 => drop(timeout(patience, store.reserve(&scopes, lease)).await),
                        1 => drop(
                            timeout(patience, store.lease(&origin, LeaseHolder(1), WallMillis(9), HOUR))
                                .await,
                        ),
                        2 => drop(timeout(patience, store.load(&origin)).await),
                        // The echo: whatever was cancelled before, this is the answer to this question.
                        _ => {
                            let record = store.load(&origin).await.unwrap().expect("it was saved");
                            let body = record.copy().unwrap().body().to_vec();
                            assert!(body.starts_with(format!("# {n} ").as_bytes()), "not {n}");
                        }
                    }
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_fails_commands_at_once_and_is_found_again() {
    let Some(mut redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    redis.kill();
    let began = Instant::now();
    for _ in 0..200 {
        let error = store.peek(&"a.example".into()).await.unwrap_err().to_string();
        assert!(error.contains("cannot be reached"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    redis.start_again();
    sleep(ms(300)).await;
    store.peek(&"a.example".into()).await.unwrap();
}

/// Its machine has lost its power: nobody says that the connection is over, which TCP finds out after a quarter of an hour.
#[tokio::test]
async fn a_server_that_has_gone_without_a_word_is_looked_for_again() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let Some(other) = Redis::start_with(args) else { return };
        let proxy = Proxy::start(redis.port()).await;
        let store = Store::builder(&proxy.url()).command_timeout(ms(300)).connect().await.unwrap();
        granted(&store, &host(ms(0)), ask(HOUR)).await;
        proxy.silence();
        proxy.lead_to(other.port());
        let began = Instant::now();
        while store.peek(&host(ms(0))[0].key).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "it is still waited for");
        }
        assert!(other.ask::<Vec<String>>(&["KEYS", "*epoch*"]).len() == 1, "the other one was greeted");
    }
}

#[tokio::test]
async fn no_error_tells_a_password() {
    let Some(redis) = Redis::start_with(&["--requirepass", "s3cret-of-the-server"]) else { return };
    let port = redis.port();
    for url in [
        format!("redis://:s3cret-of-ours@127.0.0.1:{port}/"),
        format!("redis://somebody:s3cret-of-ours@127.0.0.1:{port}/"),
        format!("redis://127.0.0.1:{port}/"),
        "redis://somebody:s3cret-of-ours@127.0.0.1:1/".to_owned(),
    ] {
        let error = Store::connect(&url).await.unwrap_err();
        let told = format!("{error} {error:?} {:?}", Arc::new(Store::builder(&url).open().unwrap()));
        assert!(!told.contains("s3cret") && !told.contains("somebody"), "{told}");
    }
    // This server says what it was asked: "unknown command 'AUTH', with args beginning with: 's3cret'".
    let Some(redis) = Redis::start_with(&["--rename-command", "AUTH", ""]) else { return };
    let url = format!("redis://:s3cret-of-ours@127.0.0.1:{}/", redis.port());
    let error = Store::connect(&url).await.unwrap_err().to_string();
    assert!(!error.contains("s3cret") && error.starts_with("the store at 127.0.0.1:"), "{error}");
}

#[cfg(feature = "permissions")]
#[tokio::test]
async fn records_of_permissions_are_kept_by_their_url() {
    use abide_permissions::{Head, PermissionRecord, PermissionStore, Visit};

    let Some(redis) = Redis::start() else { return };
    let store = Store::connect(&redis.url()).await.unwrap();
    let fields = [("robots-tag", b"*;noindex \xff".as_slice())];
    let visit = Visit::new(200, &fields, Head::default(), std::time::SystemTime::UNIX_EPOCH);
    for url in ["https://a.example/", "https://a.example/?q={}%7D", "https://\u{fc}.example/"] {
        assert_eq!(PermissionStore::load(&store, url).await.unwrap(), None);
        let record = PermissionRecord::new(url, &visit);
        PermissionStore::save(&store, &record).await.unwrap();
        assert_eq!(PermissionStore::load(&store, url).await.unwrap(), Some(record));
        store.remove(url).await.unwrap();
        assert_eq!(PermissionStore::load(&store, url).await.unwrap(), None);
    }
}

#[cfg(feature = "permissions")]
#[tokio::test]
async fn a_record_of_permissions_that_was_received_later_stays() {
    use abide_permissions::{Head, PermissionRecord, PermissionStore, Visit};

    let Some(redis) = Redis::start() else { return };
    let store = Arc::new(Store::connect(&redis.url()).await.unwrap());
    let url = "https://a.example/";
    let at = |seconds| {
        let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        PermissionRecord::new(url, &Visit::new(200, &[], Head::default(), time))
    };
    for seconds in [2, 1, 0] {
        PermissionStore::save(&*store, &at(seconds)).await.unwrap();
        assert_eq!(PermissionStore::load(&*store, url).await.unwrap(), Some(at(2)));
    }
    let mut saving = tokio::task::JoinSet::new();
    for seconds in 0..50 {
        let (store, record) = (Arc::clone(&store), at((seconds * 7) % 50));
        saving.spawn(async move { PermissionStore::save(&*store, &record).await.unwrap() });
    }
    saving.join_all().await;
    assert_eq!(PermissionStore::load(&*store, url).await.unwrap(), Some(at(49)));
}
