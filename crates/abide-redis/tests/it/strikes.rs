//! Strikes and holds that several processes share: how they are told, kept and lost.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use abide_gate::pacing::{
    Ask, Busy, Cause, Ended, LeaseAsk, LeaseId, PacePolicy, PaceStore, Pacer, Refusal, Reply, ScopeAsk,
    ScopeKey, ScopeState,
};
use abide_gate::{Clock, SystemClock, testing};
use abide_redis::Store;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use tokio::time::sleep;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::support::{Redis, WITHOUT_EVAL, ms};

async fn pacer(url: &str) -> (Pacer, Store) {
    let store = Store::connect(url).await.unwrap();
    let policy = PacePolicy::default().danger_min_gap(ms(100));
    (Pacer::builder(policy).store(Arc::new(store.clone())).build(), store)
}

/// A request that is answered with 429, and for how many seconds its host is held then.
async fn complain(pacer: &Pacer, host: &str, retry_after: Option<u32>) -> u64 {
    let permit = pacer.acquire(&page(host), Ask::new()).await.unwrap();
    let asked = retry_after.map(|seconds| (RETRY_AFTER, seconds.into()));
    let until = permit.observe(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::from_iter(asked)).unwrap();
    drop(permit);
    assert!(pacer.settled(ms(10_000)).await);
    until.since(SystemClock.wall()).as_secs()
}

fn page(host: &str) -> url::Url {
    format!("http://{host}/").parse().unwrap()
}

async fn state(store: &Store, host: &str) -> ScopeState {
    store.peek(&ScopeKey::from(host)).await.unwrap()
}

/// How the other process learns where its store is, and what it is answered.
const STORE: &str = "ABIDE_TEST_COMPLAINER";

/// Not a test: what the other process runs.
#[test]
fn complainer() {
    let Ok(url) = std::env::var(STORE) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (pacer, _) = pacer(&url).await;
        println!("\nheld {}", complain(&pacer, "a.example", Some(1)).await);
    });
}

/// What another process says for how long the host is held. It has ended then.
fn complain_elsewhere(url: &str) -> Option<u64> {
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "strikes::complainer", "--nocapture"])
        .env(STORE, url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines().map_while(Result::ok);
    let held = lines.find_map(|line| line.strip_prefix("held ")?.parse().ok());
    lines.for_each(drop);
    other.wait().unwrap();
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_429_that_one_process_hears_makes_the_next_hold_of_the_other_longer() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        redis.age("abide");
        let (pacer, store) = pacer(&redis.url()).await;
        assert_eq!(complain(&pacer, "a.example", Some(1)).await, 1);
        let url = redis.url();
        let held = tokio::task::spawn_blocking(move || complain_elsewhere(&url)).await.unwrap();
        assert!(held.is_some(), "it has waited for the hold, and been told 429 itself");
        assert_eq!(state(&store, "a.example").await.strikes, 2);
        let held = complain(&pacer, "a.example", None).await;
        assert!((239..=264).contains(&held), "the third: {held} s");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strikes_are_forgiven_half_an_hour_after_their_hold() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = Arc::new(redis.aged().connect().await.unwrap());
        let pass = async |by| rewind(&redis, by);
        testing::pacing::strikes_are_forgiven(store, pass).await;
    }
}

/// The server's clock goes on by itself: what it has written down becomes older instead.
fn rewind(redis: &Redis, by: Duration) {
    let (keys, by) = (redis.ask::<Vec<String>>(&["KEYS", "*}:*"]), by.as_micros() as u64);
    for key in &keys {
        if key.ends_with(":slot") {
            for field in ["start", "end", "hold"] {
                let at: u64 = redis.ask(&["HGET", key, field]);
                redis.ask::<()>(&["HSET", key, field, &at.saturating_sub(by).to_string()]);
            }
        } else {
            for lease in redis.ask::<Vec<String>>(&["ZRANGE", key, "0", "-1"]) {
                redis.ask::<()>(&["ZINCRBY", key, &format!("-{by}"), &lease]);
            }
        }
    }
}

/// The same is done to two hosts, to the one by scripts and to the other by `WATCH`: what is answered and known is the same, to the time that
/// the commands take. All times differ by twenty seconds at least, so that nothing ends between the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_and_watch_agree_on_whatever_is_done() {
    let Some(redis) = Redis::start() else { return };
    let stores =
        [redis.aged().connect().await.unwrap(), redis.aged().without_scripts().connect().await.unwrap()];
    let seconds = Duration::from_secs;
    let (mut chance, mut leases) = (4_u64, vec![LeaseId(0)]);
    let mut one_of = |many: &[u64]| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        many[(chance >> 33) as usize % many.len()]
    };
    let mut seen = std::collections::BTreeSet::new();
    for step in 0..2_000_u128 {
        let (gap, limit) = (seconds(one_of(&[0, 1_000, 6_000])), one_of(&[1, 2]) as u16);
        let scopes = ["one.example", "other.example"].map(|name| [ScopeAsk::new(name.into(), gap, limit)]);
        let lease = leases[one_of(&[0, 1, 2, 3]) as usize % leases.len()];
        let (what, long) = (one_of(&[0, 1, 2, 3, 4, 5, 6]), seconds(one_of(&[0, 1_000, 6_000, 20_000])));
        let (strikes, ended) = (one_of(&[0, 1, 2, 5]) as u8, one_of(&[0, 1]));
        // Of a hold that has passed; its strikes may be forgiven.
        let ago = seconds(one_of(&[0, 250, 1_730, 1_950]));
        if what == 6 {
            rewind(&redis, seconds(one_of(&[100, 1_100, 1_860, 3_300])));
            continue;
        }
        let asked = LeaseAsk { lease: LeaseId(step + 1), max_wait: long, ttl: seconds(3_000) };
        let mut outcomes = Vec::new();
        for (store, scopes) in stores.iter().zip(&scopes) {
            let outcome = match what {
                0..=2 => outcome(store.reserve(scopes, asked).await.unwrap()),
                3 if ended == 0 => {
                    store.release(scopes, lease, Ended::Response).await.unwrap();
                    ("ended", 0, 0)
                }
                3 => {
                    store.release(scopes, lease, Ended::Unsent).await.unwrap();
                    ("unsent", 0, 0)
                }
                4 => {
                    store.renew(scopes, lease, seconds(3_000)).await.unwrap();
                    ("renewed", 0, 0)
                }
                _ => {
                    let now = SystemClock.wall();
                    let until = if ago.is_zero() { now.plus(long) } else { now.minus(ago) };
                    let end = store.hold(&scopes[0].key, until, strikes, Cause::Shared).await.unwrap();
                    ("held", end.since(SystemClock.wall()).as_millis() as u64, strikes)
                }
            };
            outcomes.push((outcome, store.peek(&scopes[0].key).await.unwrap()));
        }
        if outcomes[0].0.0 == "granted" {
            leases.insert(0, asked.lease);
            leases.truncate(4);
        }
        let [(one, knows), (other, other_knows)] = outcomes[..] else {
            unreachable!("two stores were asked")
        };
        let known = |state: ScopeState| (state.in_flight, state.strikes, state.quiet.is_some());
        assert_eq!((one.0, one.2, known(knows)), (other.0, other.2, known(other_knows)), "step {step}");
        let pairs = [
            (ms(one.1), ms(other.1)),
            (knows.held, other_knows.held),
            (knows.quiet.unwrap_or_default(), other_knows.quiet.unwrap_or_default()),
        ];
        assert!(
            pairs.iter().all(|(one, other)| one.abs_diff(*other) < seconds(15)),
            "step {step}: {pairs:?}"
        );
        seen.insert((one.0, one.2));
    }
    let kinds: std::collections::BTreeSet<_> = seen.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), 8, "{seen:?}");
    assert!(seen.contains(&("granted", 5)) && seen.contains(&("granted", 0)) && seen.contains(&("hold", 2)));
}

/// What kind of an answer, its time in milliseconds, and strikes.
fn outcome(reply: Reply) -> (&'static str, u64, u8) {
    let millis = |wait: Duration| wait.as_millis() as u64;
    match reply {
        Reply::Granted { wait, strikes } => ("granted", millis(wait), strikes),
        Reply::Refused { wait, reason: Busy::Hold { strikes, .. }, .. } => ("hold", millis(wait), strikes),
        Reply::Refused { wait, reason: Busy::InFlight, .. } => ("busy", millis(wait), 0),
        Reply::Refused { wait, .. } => ("gap", millis(wait), 0),
    }
}

/// One process has heard 429, another has been refused because of it; a third begins afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_flush_or_a_restart_each_process_tells_again_of_what_it_knows() {
    for (args, loss) in [(&[][..], "flush"), (&[][..], "restart"), (WITHOUT_EVAL, "flush")] {
        let Some(mut redis) = Redis::start_with(args) else { return };
        redis.age("abide");
        let (heard, _) = pacer(&redis.url()).await;
        let (refused, _) = pacer(&redis.url()).await;
        // Of this one the strike is left.
        complain(&heard, "over.example", Some(1)).await;
        let held = complain(&heard, "held.example", Some(600)).await;
        let until = refused.acquire(&page("held.example"), Ask::new()).await;
        assert!(matches!(until, Err(Refusal::Deferred(_))), "{until:?}");
        sleep(ms(1_200)).await;
        for (pacer, is_told) in [(&heard, [true, true]), (&refused, [true, false])] {
            lose(&mut redis, loss);
            let (newcomer, store) = self::pacer(&redis.url()).await;
            // By whatever it asks next.
            while pacer.acquire(&page("b.example"), Ask::new()).await.is_err() {}
            let mut told = [ScopeState::default(); 2];
            for _ in 0..100 {
                assert!(pacer.settled(ms(10_000)).await);
                told = [state(&store, "held.example").await, state(&store, "over.example").await];
                if told[0].strikes > 0 {
                    break;
                }
                // After a restart the first command may have found the old connection dead.
                sleep(ms(100)).await;
                let _ = pacer.acquire(&page("b.example"), Ask::new()).await;
            }
            assert_eq!(told.map(|state| state.strikes == 1), is_told, "{loss}, {args:?}: {told:?}");
            assert!(told[0].held > Duration::from_secs(held - 60) && told[1].held.is_zero(), "{told:?}");
            let until = newcomer.acquire(&page("held.example"), Ask::new()).await;
            assert!(matches!(until, Err(Refusal::Deferred(_))), "{until:?}");
        }
    }
}

fn lose(redis: &mut Redis, how: &str) {
    match how {
        "flush" => redis.ask::<()>(&["FLUSHALL"]),
        _ => {
            redis.kill();
            redis.start_again();
        }
    }
}

fn ask(max_wait: Duration, ttl: Duration) -> LeaseAsk {
    LeaseAsk { lease: LeaseId::random(), max_wait, ttl }
}

const EVICTING: &[&str] = &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];

/// Its keys were evicted, and then a hold that was shorter than its gap was told.
#[tokio::test]
async fn a_hold_does_not_make_a_host_known_that_may_have_been_evicted() {
    for args in [EVICTING.to_vec(), [EVICTING, WITHOUT_EVAL].concat()] {
        let Some(redis) = Redis::start_with(&args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let scopes = [ScopeAsk::new("a.example".into(), ms(60_000), 1)];
        store.hold(&scopes[0].key, SystemClock.wall().plus(ms(50)), 1, Cause::Shared).await.unwrap();
        sleep(ms(100)).await;
        match store.reserve(&scopes, ask(ms(0), ms(60_000))).await.unwrap() {
            Reply::Refused { wait, reason, .. } => {
                assert!(reason == Busy::Gap && wait > ms(40_000), "a whole gap: {wait:?}");
            }
            granted @ Reply::Granted { .. } => panic!("{granted:?}"),
        }
    }
}

/// Another process may have a policy with shorter leases.
#[tokio::test]
async fn a_lease_of_an_hour_is_not_taken_for_one_of_the_future() {
    for args in [&[][..], WITHOUT_EVAL] {
        let Some(redis) = Redis::start_with(args) else { return };
        let store = redis.aged().connect().await.unwrap();
        let scopes = [ScopeAsk::new("a.example".into(), ms(0), 2)];
        for ttl in [3_600_000, 60_000] {
            let reply = store.reserve(&scopes, ask(ms(0), ms(ttl))).await.unwrap();
            assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
        }
        assert_eq!(state(&store, "a.example").await.in_flight, 2);
    }
}

/// Hears of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("abide_redis") && *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text.push_str(&format!("{field}={value:?} "));
        });
        self.0.lock().unwrap().push(text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(flavor = "current_thread")]
async fn a_server_that_may_evict_is_warned_of_once_at_the_start() {
    // With a second subscriber, tracing asks both whether an event is wanted, and does not remember another thread's no.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&SECOND);
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    let policies =
        [("allkeys-lru", true), ("volatile-ttl", true), ("volatile-lru", true), ("noeviction", false)];
    for (memory, policy, is_warned) in policies
        .map(|(policy, is_warned)| ("100mb", policy, is_warned))
        .into_iter()
        .chain([("0", "allkeys-lru", false)])
    {
        let args = ["--maxmemory", memory, "--maxmemory-policy", policy];
        let Some(redis) = Redis::start_with(&args) else { return };
        let store = Store::connect(&redis.url()).await.unwrap();
        // Greeted anew, which is no reason to say it again.
        redis.ask::<()>(&["FLUSHALL"]);
        let scopes = [ScopeAsk::new("a.example".into(), ms(0), 1)];
        store.reserve(&scopes, ask(ms(5_000), ms(1_000))).await.unwrap();
        let said = std::mem::take(&mut *warnings.0.lock().unwrap());
        assert_eq!(said.len(), usize::from(is_warned), "{policy}, {memory}: {said:?}");
        assert!(said.iter().all(|text| text.contains("noeviction") && text.contains(policy)), "{said:?}");
    }
}
