//! The suites of stores reject wrong stores, by the expectation that fails, and accept right ones.

use std::collections::HashMap;
use std::future::{Future, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::pacing::{
    Backoff, BackoffCause, HostEntry, HostState, HostStore, LeaseAsk, LeaseStatus, Want,
};
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::testing::MemoryStore;
use abide_gate::testing::{hosts, robots_cache};
use abide_gate::{HolderId, Origin, WallMillis};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::StoreFuture;
use crate::support::{START, clock};

/// What the suite says of a wrong store.
async fn rejection<S: Future<Output = ()> + Send + 'static>(name: &str, suite: S) -> String {
    let Err(failed) = tokio::spawn(suite).await else { panic!("{name}: expected the suite to reject it") };
    *failed.into_panic().downcast::<String>().unwrap()
}

/// A store in memory with a mistake, which has a name in [`wrong_robots_stores_are_rejected`].
#[derive(Debug)]
struct Faulty {
    fault: &'static str,
    records: MemoryStore,
    saves: AtomicU64,
}

impl Faulty {
    fn new(fault: &'static str) -> Self {
        Self { fault, records: MemoryStore::new(), saves: AtomicU64::new(0) }
    }

    fn key(&self, origin: &Origin, fault: &str) -> Origin {
        if self.fault == fault { "https://one.example".parse().unwrap() } else { origin.clone() }
    }
}

impl RobotsStore for Faulty {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(async move { self.records.load(&self.key(origin, "mixes origins up")).await })
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let old = self.load(origin).await?;
            let old_at = old.as_ref().map_or(WallMillis::from_millis(0), RobotsRecord::asked_at);
            match self.fault {
                "forgets" => return Ok(()),
                "keeps the first" if old.is_some() => return Ok(()),
                "keeps the newest" if old_at > record.asked_at() => return Ok(()),
                // Of two saves it shows the first one.
                "is stale"
                    if old.is_some() && self.saves.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) =>
                {
                    return Ok(());
                }
                "loses when dropped" if old.is_some() => {
                    self.records.sweep(WallMillis::from_millis(u64::MAX)).await?;
                    yield_now().await;
                }
                _ => {}
            }
            self.records.save(&self.key(origin, "mixes origins up"), record).await
        })
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            match self.fault {
                "sweeps nothing" => Ok(1),
                "sweeps too much" => self.records.sweep(WallMillis::from_millis(u64::MAX)).await.map(|_| 1),
                "counts nothing" => self.records.sweep(older_than).await.map(|_| 0),
                _ => self.records.sweep(older_than).await,
            }
        })
    }
}

#[tokio::test]
async fn wrong_robots_stores_are_rejected() {
    for (fault, call, expectation) in [
        ("forgets", "load(https://a.example:443)", "it was saved"),
        ("is stale", "load(https://a.example:443)", "the last writer wins"),
        ("keeps the first", "load(https://a.example:443)", "the last writer wins"),
        ("keeps the newest", "load(https://a.example:443)", "also if its clock was set back"),
        ("mixes origins up", "load(http://a.example:80)", "each origin has a record of its own"),
        ("loses when dropped", "load(https://a.example:443)", "a save that was dropped is done or not"),
        ("sweeps nothing", "load(http://old.example:80)", "it was swept"),
        ("sweeps too much", "load(http://edge.example:80)", "the time itself is not older"),
        ("counts nothing", "sweep(", "expected 1 (one record was last asked for before), found 0"),
    ] {
        let text = rejection(fault, robots_cache::conformance(move || ready(Faulty::new(fault)))).await;
        assert!(text.starts_with(call) && text.contains(expectation), "{fault}: {text}");
        assert!(text.contains(": expected ") && text.contains(", found "), "{fault}: {text}");
    }
}

#[tokio::test]
async fn a_store_that_loses_everything_does_not_survive_reopening() {
    let suite = robots_cache::survives_reopening(|| ready(MemoryStore::new()));
    let text = rejection("memory", suite).await;
    assert!(text.contains("(it was saved before the store was closed), found none"), "{text}");
}

/// What the clock of a store says, and how far it has been set back since the latest time that it has said.
#[derive(Clone, Copy)]
struct Time {
    now: Duration,
    behind: Duration,
}

type Reply = (LeaseStatus, HostState);

/// The whole of a store but the lock and the map.
type Exchange = Box<dyn Fn(&mut HostEntry, LeaseAsk, Time) -> Reply + Send + Sync>;

/// A store whose clock stands still unless the test moves it.
struct Hosts {
    exchange: Exchange,
    is_lost_when_dropped: bool,
    hosts: Mutex<HashMap<Arc<str>, HostEntry>>,
    clock: Mutex<Time>,
}

impl Hosts {
    fn new(exchange: Exchange) -> Self {
        let clock = Time { now: Duration::from_secs(1_000_000), behind: Duration::ZERO };
        Self { exchange, is_lost_when_dropped: false, hosts: Mutex::default(), clock: clock.into() }
    }

    fn pass(self: &Arc<Self>) -> impl Fn(Duration) -> std::future::Ready<()> + Send + Sync + 'static {
        let store = Arc::clone(self);
        move |time| {
            store.clock.lock().unwrap().now += time;
            ready(())
        }
    }

    fn set_back(self: &Arc<Self>) -> impl FnOnce(Duration) + Send + 'static {
        let store = Arc::clone(self);
        move |time| {
            let mut clock = store.clock.lock().unwrap();
            (clock.now, clock.behind) = (clock.now - time, time);
        }
    }
}

impl std::fmt::Debug for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hosts")
    }
}

impl HostStore for Hosts {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, Reply> {
        Box::pin(async move {
            let mut entry = self.hosts.lock().unwrap().remove(host).unwrap_or_default();
            if self.is_lost_when_dropped {
                yield_now().await;
            }
            let clock = *self.clock.lock().unwrap();
            let reply = (self.exchange)(&mut entry, ask, clock);
            self.hosts.lock().unwrap().insert(host.into(), entry);
            Ok(reply)
        })
    }
}

fn right(entry: &mut HostEntry, ask: LeaseAsk, time: Time) -> Reply {
    entry.exchange(&ask, time.now, Duration::ZERO)
}

/// A store that understands calls wrongly.
fn asked(change: impl Fn(&mut LeaseAsk) + Send + Sync + 'static) -> Exchange {
    Box::new(move |entry, mut ask, time| {
        change(&mut ask);
        right(entry, ask, time)
    })
}

/// The same for the times of a lease.
fn leasing(change: impl Fn(&mut Duration, &mut Duration) + Send + Sync + 'static) -> Exchange {
    asked(move |ask| {
        if let Want::Lease { ttl, again_in, .. } = &mut ask.want {
            change(ttl, again_in);
        }
    })
}

/// A store that replies wrongly.
fn replied(change: impl Fn(LeaseAsk, &mut Reply, Time) + Send + Sync + 'static) -> Exchange {
    Box::new(move |entry, ask, time| {
        let mut reply = right(entry, ask, time);
        change(ask, &mut reply, time);
        reply
    })
}

fn with_state(change: impl Fn(LeaseAsk, &mut HostState) + Send + Sync + 'static) -> Exchange {
    replied(move |ask, reply, _| change(ask, &mut reply.1))
}

fn with_backoff(change: impl Fn(LeaseAsk, &mut Backoff) + Send + Sync + 'static) -> Exchange {
    with_state(move |ask, state| {
        if let Some(backoff) = &mut state.backoff {
            change(ask, backoff);
        }
    })
}

/// A store whose clock stands at zero.
fn timeless() -> Exchange {
    Box::new(|entry, ask, time| right(entry, ask, Time { now: Duration::ZERO, ..time }))
}

fn wrong() -> Vec<(&'static str, Exchange, &'static str)> {
    let leased = LeaseStatus::Leased { is_wanted: false };
    vec![
        (
            "leases to all",
            replied(move |_, reply, _| {
                if let LeaseStatus::Busy { .. } = reply.0 {
                    reply.0 = leased;
                }
            }),
            "another process has the lease",
        ),
        ("ignores the holder", asked(|ask| ask.holder = HolderId(1)), "another process has the lease"),
        (
            "leases for longer",
            leasing(|ttl, _| *ttl *= 2),
            "Busy { wait: up to 10s and 1 ms, is_next: true }",
        ),
        (
            "never renews for longer",
            leasing(|ttl, _| *ttl = (*ttl).min(Duration::from_millis(50))),
            "the lease was renewed for longer",
        ),
        ("leases for ever", timeless(), "the lease, and quiet since the end of the other's lease"),
        (
            "counts no delay from the end of a lease",
            with_state(|ask, state| state.quiet = ask.state.quiet),
            "the lease, and quiet since the end of the other's lease",
        ),
        (
            "lets all give up a lease",
            Box::new(|entry, ask, time| {
                let reply = right(entry, ask, time);
                if ask.want == Want::Release {
                    *entry = HostEntry::default();
                    entry.merge(&reply.1, time.now);
                }
                reply
            }),
            "only the holder gives up its lease",
        ),
        (
            "gives up nothing",
            Box::new(|entry, ask, time| match ask.want {
                Want::Release => (LeaseStatus::Released, entry.state(time.now)),
                Want::Lease { .. } => right(entry, ask, time),
            }),
            "the holder has given it up",
        ),
        (
            "hears a late release",
            asked(|ask| {
                if ask.want == Want::Release {
                    ask.number = u64::MAX;
                }
            }),
            "a release of before the last renewal came late",
        ),
        (
            "hears a late request",
            Box::new(|entry, ask, time| {
                let reply = right(entry, ask, time);
                let text = entry.encode();
                let mut words: Vec<_> = text.split(' ').collect();
                // The end of the lease, and the number of the call that gave it up.
                if let [.., "0", number, _, _] = words.as_mut_slice() {
                    *number = "0";
                    *entry = HostEntry::decode(&words.join(" ")).unwrap();
                }
                reply
            }),
            "call 8 was later and gave up the lease",
        ),
        (
            "replies nothing of a release",
            replied(move |ask, reply, _| {
                if ask.want == Want::Release {
                    reply.0 = leased;
                }
            }),
            "expected Released",
        ),
        (
            "keeps no queue",
            Box::new(|entry, ask, time| {
                let mut changed = entry.clone();
                let reply = right(&mut changed, ask, time);
                if !matches!(reply.0, LeaseStatus::Busy { .. }) {
                    *entry = changed;
                }
                reply
            }),
            "another process waits",
        ),
        (
            "keeps places for ever",
            leasing(|_, again_in| *again_in = (*again_in).max(Duration::from_secs(10))),
            "the process that was next did not ask within its `again_in`",
        ),
        ("forgets states", asked(|ask| ask.state = HostState::default()), "a backoff of 1 min"),
        ("forgets delays", with_state(|_, state| state.delay = Duration::ZERO), "of the last holder"),
        (
            "forgets why",
            with_backoff(|_, backoff| backoff.cause = BackoffCause::Shared),
            "of the last holder",
        ),
        (
            "saves nothing without a lease",
            Box::new(|entry, ask, time| {
                let want = Want::Lease { ttl: Duration::ZERO, again_in: Duration::ZERO, is_held: false };
                let probe = LeaseAsk { want, state: HostState::default(), ..ask };
                let state = match right(&mut entry.clone(), probe, time).0 {
                    LeaseStatus::Busy { .. } => HostState::default(),
                    _ => ask.state,
                };
                right(entry, LeaseAsk { state, ..ask }, time)
            }),
            "what a process without the lease has reported",
        ),
        (
            "lets the last request win",
            with_state(|ask, state| state.quiet = ask.state.quiet.or(state.quiet)),
            "the time since the latest request, and the longest delay",
        ),
        (
            "lets the last backoff win",
            with_state(|ask, state| state.backoff = ask.state.backoff.or(state.backoff)),
            "a backoff of 60s, because it is only extended",
        ),
        (
            "cuts nothing",
            with_backoff(|ask, backoff| {
                backoff.left = ask.state.backoff.map_or(backoff.left, |given| given.left.max(backoff.left));
            }),
            "a backoff of 24 h, because one beyond 27 h is cut to 24 h",
        ),
        (
            "cuts too much",
            with_backoff(|_, backoff| backoff.left = backoff.left.min(Duration::from_secs(24 * 3_600))),
            "a backoff of 26 h",
        ),
        (
            "lets the last throttle count win",
            with_backoff(|ask, backoff| {
                backoff.throttles = ask.state.backoff.map_or(backoff.throttles, |given| given.throttles);
            }),
            "the throttle count 2, because the higher one wins",
        ),
        (
            "counts what the operator does",
            asked(|ask| {
                if let Some(backoff) = &mut ask.state.backoff {
                    backoff.throttles = backoff.throttles.max(1);
                }
            }),
            "nothing outlives its end",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn wrong_host_stores_are_rejected() {
    for (name, exchange, expectation) in wrong() {
        let store = Arc::new(Hosts::new(exchange));
        rejects(name, hosts::conformance(store.clone(), store.pass()), expectation).await;
    }
    let store = Arc::new(Hosts { is_lost_when_dropped: true, ..Hosts::new(Box::new(right)) });
    let expectation = "the backoff of 1 min from before the dropped call";
    rejects("loses when dropped", hosts::conformance(store.clone(), store.pass()), expectation).await;
}

async fn rejects(name: &str, suite: impl Future<Output = ()> + Send + 'static, expectation: &str) {
    let text = rejection(name, suite).await;
    assert!(text.starts_with("exchange(") && text.contains(expectation), "{name}: {text}");
    assert!(text.contains(": expected ") && text.contains(", found ("), "{name}: {text}");
}

#[tokio::test(start_paused = true)]
async fn wrong_host_stores_are_rejected_when_counts_are_forgiven() {
    let forgetful =
        with_state(|_, state| state.backoff = state.backoff.filter(|backoff| backoff.over.is_zero()));
    for (name, exchange, expectation) in [
        ("forgives at once", forgetful, "the throttle count 3 after 29 quiet minutes"),
        ("never forgives", timeless(), "is forgiven"),
    ] {
        let store = Arc::new(Hosts::new(exchange));
        rejects(name, hosts::throttle_counts_are_forgiven(store.clone(), store.pass()), expectation).await;
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_host_stores_are_rejected_when_the_clock_is_set_back() {
    let wrong: [(&str, Exchange, &str); 3] = [
        (
            "leases for longer",
            replied(|_, reply, time| {
                if let LeaseStatus::Busy { wait, .. } = &mut reply.0 {
                    *wait += time.behind;
                }
            }),
            "the lease is not longer",
        ),
        (
            "backs off for longer",
            replied(|_, reply, time| {
                if let Some(backoff) = &mut reply.1.backoff {
                    backoff.left += time.behind;
                }
            }),
            "a backoff of 1 min, although the clock was set back",
        ),
        (
            "knows of a request in the future",
            replied(|_, reply, time| {
                reply.1.quiet = reply.1.quiet.map(|quiet| quiet.saturating_sub(time.behind));
            }),
            "a request 50 ms ago, and a backoff of 1 min, although",
        ),
    ];
    for (name, exchange, expectation) in wrong {
        let store = Arc::new(Hosts::new(exchange));
        let suite = hosts::survives_a_clock_set_back(store.clone(), store.pass(), store.set_back());
        rejects(name, suite, expectation).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_store_that_loses_everything_does_not_survive_reload() {
    let suite = hosts::backoffs_survive_reload(Arc::new(MemoryStore::new()), |_| {
        ready(Arc::new(MemoryStore::new()) as Arc<_>)
    });
    rejects("memory", suite, "the backoff of 1 h from before the restart").await;
}

#[tokio::test(start_paused = true)]
async fn a_host_store_with_a_clock_of_its_own_passes_every_suite() {
    let store = Arc::new(Hosts::new(Box::new(right)));
    hosts::conformance(store.clone(), store.pass()).await;
    hosts::throttle_counts_are_forgiven(store.clone(), store.pass()).await;
    hosts::survives_a_clock_set_back(store.clone(), store.pass(), store.set_back()).await;
}

/// What the plain function does at each call, but for one change.
async fn compare(change: impl Fn(&mut HostEntry, &mut LeaseAsk, Duration) + Send + 'static) {
    let mut entries = HashMap::<Arc<str>, HostEntry>::new();
    hosts::exchanges_equal_the_plain_function(hosts::Beginning::default(), move |host, mut ask, now| {
        let entry = entries.entry(host).or_default();
        change(entry, &mut ask, now);
        ready(entry.exchange(&ask, now, Duration::ZERO))
    })
    .await;
}

#[tokio::test]
async fn entries_may_be_removed_when_not_in_use_and_not_before() {
    compare(|_, _, _| {}).await;
    compare(|entry, _, now| {
        if !entry.is_in_use(now) {
            *entry = HostEntry::default();
        }
    })
    .await;
    let early = compare(|entry, _, now| {
        if !entry.is_in_use(now + Duration::from_secs(60)) {
            *entry = HostEntry::default();
        }
    });
    let text = rejection("removes early", early).await;
    assert!(text.starts_with("exchange(") && text.contains(": expected one of "), "{text}");
    let text = rejection("hears late calls", compare(|_, ask, _| ask.number = u64::MAX)).await;
    assert!(text.starts_with("exchange(") && text.contains(": expected one of "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_wall_clock_does_not_matter_to_the_memory_host_store() {
    let clock = clock();
    let store = Arc::new(MemoryStore::new().with_clock(clock.clone()));
    hosts::survives_a_clock_set_back(store, sleep, |by| clock.jump_to(START.minus(by))).await;
}
