//! Processes that share hosts and records: the one that has the lease of a host fetches its robots.txt for
//! all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_gate::pacing::{HostState, HostStore, LeaseAsk, Want};
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::testing::MemoryStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Clock, Gate, HolderId, Host, ManualClock, Origin, StoreError, WallMillis};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::StoreFuture;
use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{DAY, SECOND, built, clock, one_second, origin, page};

const RULES: &str = "User-agent: *\nDisallow: /closed\n";

/// A process of its own, whose clock agrees with the others'.
fn process(fetch: &ScriptedFetch, clock: &Arc<ManualClock>, store: &Arc<MemoryStore>) -> Gate {
    with_robots(fetch, clock, store, store.clone())
}

fn with_robots(
    fetch: &ScriptedFetch,
    clock: &Arc<ManualClock>,
    hosts: &Arc<MemoryStore>,
    robots: Arc<dyn RobotsStore>,
) -> Gate {
    let settings = Gate::builder().pace(one_second()).clock(clock.clone()).max_wait(60 * SECOND);
    built(settings.host_store(hosts.clone()).robots_store(robots), fetch)
}

/// A store of the hosts of one web, by its clock.
fn store(clock: &Arc<ManualClock>) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new().with_clock(clock.clone()))
}

#[tokio::test(start_paused = true)]
async fn processes_that_share_hosts_fetch_a_robots_txt_once() {
    let clock = clock();
    let store = store(&clock);
    let fetch = ScriptedFetch::always(Scripted::text(RULES).head_after(3 * SECOND));
    let gates: Vec<Gate> = (0..4).map(|_| process(&fetch, &clock, &store)).collect();
    let mut asking: JoinSet<_> = gates
        .iter()
        .cloned()
        .map(|gate| async move { gate.entry(&origin()).await.unwrap().copy().is_some() })
        .collect();
    while let Some(has_rules) = asking.join_next().await {
        assert!(has_rules.unwrap());
    }
    assert_eq!(fetch.count(), 1);
    // So is a refresh that is due in all of them.
    sleep(DAY).await;
    for gate in &gates {
        gate.entry(&origin()).await.unwrap();
    }
    assert_eq!(fetch.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_keeps_a_robots_txt_for_less_than_20_s() {
    let clock = clock();
    let (store, fetch) = (store(&clock), ScriptedFetch::always(Scripted::text(RULES)));
    let want = Want::Lease { ttl: 10 * SECOND, again_in: 5 * SECOND, is_held: false };
    let dead = LeaseAsk { holder: HolderId(42), number: 0, want, state: HostState::default() };
    store.exchange(Host::of(&page()).unwrap().as_str(), dead).await.unwrap();
    let (gate, began) = (process(&fetch, &clock, &store), Instant::now());
    gate.entry(&origin()).await.unwrap();
    assert!((10..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(fetch.count(), 1);
}

/// It was expired by hand in one process while another one was fetching it.
#[tokio::test(start_paused = true)]
async fn an_origin_invalidated_during_a_fetch_elsewhere_is_fetched_once() {
    let clock = clock();
    let store = store(&clock);
    let fetch = ScriptedFetch::always(Scripted::text(RULES).head_after(2 * SECOND));
    let [first, second] = [0, 1].map(|_| process(&fetch, &clock, &store));
    first.entry(&origin()).await.unwrap();
    sleep(DAY).await;
    let site = origin();
    let (one, other) = tokio::join!(first.entry(&site), async {
        sleep(SECOND).await;
        second.invalidate(&site).await;
        second.entry(&site).await
    });
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(fetch.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn after_all_clocks_were_set_back_one_process_fetches_for_all() {
    let clocks = [0; 3].map(|_| clock());
    let store = store(&clocks[0]);
    let fetch = ScriptedFetch::always(Scripted::text(RULES).head_after(2 * SECOND));
    let gates = clocks.each_ref().map(|clock| process(&fetch, clock, &store));
    for gate in &gates {
        gate.entry(&origin()).await.unwrap();
    }
    for clock in &clocks {
        clock.jump_to(clock.wall().minus(3_600 * SECOND));
    }
    let ([first, second, third], site) = (&gates, origin());
    let _ = tokio::join!(first.entry(&site), second.entry(&site), third.entry(&site));
    assert_eq!(fetch.count(), 2, "one for what was from the future then");
}

/// Records in memory, of which the second look is special.
#[derive(Debug)]
struct SecondLook {
    records: Arc<MemoryStore>,
    looks: AtomicUsize,
    then: Then,
}

#[derive(Clone, Debug)]
enum Then {
    Finds(RobotsRecord),
    Fails,
    Takes(Duration),
}

impl RobotsStore for SecondLook {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(async move {
            if self.looks.fetch_add(1, Ordering::SeqCst) == 1 {
                match &self.then {
                    Then::Finds(record) => self.records.save(origin, record).await?,
                    Then::Fails => return Err(StoreError::new("the test says so")),
                    Then::Takes(time) => sleep(*time).await,
                }
            }
            self.records.load(origin).await
        })
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        self.records.save(origin, record)
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        self.records.sweep(older_than)
    }
}

/// A process whose request for robots.txt has to wait, so that it looks at the store again; and what is
/// fetched.
fn waits(then: Then) -> (Gate, ScriptedFetch, Arc<ManualClock>) {
    let (clock, fetch) = (clock(), ScriptedFetch::always(Scripted::text(RULES)));
    let hosts = store(&clock);
    let robots = SecondLook { records: Arc::default(), looks: AtomicUsize::new(0), then };
    let gate = with_robots(&fetch, &clock, &hosts, Arc::new(robots));
    gate.back_off(Host::of(&page()).unwrap(), clock.wall().plus(10 * SECOND));
    (gate, fetch, clock)
}

#[tokio::test(start_paused = true)]
async fn what_was_stored_during_the_wait_is_used_unless_it_is_old() {
    for (age, requests) in [(Duration::ZERO, 0), (2 * DAY, 1)] {
        let record = sample_record(&origin(), clock().wall().minus(age), RULES);
        let (gate, fetch, _) = waits(Then::Finds(record));
        let entry = gate.entry(&origin()).await.unwrap();
        assert!(entry.copy().is_some());
        assert_eq!(fetch.count(), requests, "{age:?}");
        // The permit was given back: a page needs no other delay.
        let began = Instant::now();
        drop(gate.admit(&page(), 60 * SECOND).await.unwrap());
        assert_eq!(began.elapsed() < SECOND, requests == 0, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_after_the_wait_costs_a_request() {
    let (gate, fetch, _) = waits(Then::Fails);
    assert!(gate.entry(&origin()).await.unwrap().copy().is_some());
    assert_eq!((fetch.count(), gate.stats().robots_store_faults), (1, 1));
}

/// Whatever has changed while the store was looked at, the permit is from after that.
#[tokio::test(start_paused = true)]
async fn a_slow_store_sends_no_request_into_a_backoff() {
    let (gate, fetch, clock) = waits(Then::Takes(SECOND));
    let (began, site) = (Instant::now(), origin());
    let (entry, ()) = tokio::join!(gate.entry(&site), async {
        sleep(Duration::from_millis(10_500)).await;
        gate.back_off(Host::of(&page()).unwrap(), clock.wall().plus(20 * SECOND));
    });
    assert!(entry.unwrap().copy().is_some());
    assert_eq!((fetch.asked()[0].at - began).as_secs(), 30);
}
