//! A whole gate on a disk that fails at every operation in turn: nothing that must not go out goes out (G9).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::PacePolicy;
use abide_gate::{Denied, Gate, ManualClock};
use abide_redb::{Error, Store};
use http::{HeaderMap, StatusCode};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{Disk, Fault, START, retry_after};

const SECOND: Duration = Duration::from_secs(1);
/// Of `good.example`.
const CRAWL_DELAY: Duration = Duration::from_secs(2);

/// What the servers saw: when each request began and ended.
type Log = BTreeMap<String, Vec<(String, Instant, Instant)>>;

/// A machine: a disk, a clock, and the web.
struct World {
    disk: Disk,
    clock: Arc<ManualClock>,
    fetch: ScriptedFetch,
    log: Log,
    /// Until when `busy.example` has asked to be left alone.
    left_alone_until: Option<Instant>,
}

impl World {
    fn new() -> Self {
        let good = Scripted::text("User-agent: *\nDisallow: /private\nCrawl-delay: 2");
        let fetch = ScriptedFetch::by_url([
            ("http://good.example/robots.txt", vec![good]),
            ("http://busy.example/robots.txt", vec![Scripted::text("User-agent: *\nAllow: /")]),
            ("http://down.example/robots.txt", vec![Scripted::status(500)]),
        ]);
        let clock = Arc::new(ManualClock::starting_at(START));
        Self { disk: Disk::default(), clock, fetch, log: Log::new(), left_alone_until: None }
    }

    /// A crawler as it starts: with the store, if it can be opened.
    fn start(&self) -> (Gate, Option<Store>) {
        let gate = Gate::builder().clock(self.clock.clone());
        let (tokens, fetch) = (vec!["TestBot".parse().unwrap()], Arc::new(self.fetch.clone()));
        let store = Store::builder().write_behind(Duration::ZERO).clock(self.clock.clone());
        match store.open_backend(self.disk.clone()) {
            Ok(store) => {
                tokio::spawn(keep_in_step(store.clone()));
                let gate = gate.robots_store(Arc::new(store.clone())).host_store(Arc::new(store.clone()));
                (gate.build(tokens, fetch), Some(store))
            }
            Err(_) => (gate.build(tokens, fetch), None),
        }
    }

    /// One page, if it may be had within half a minute.
    async fn fetch(&mut self, gate: &Gate, host: &str, path: &str) -> Result<(), Denied> {
        let url = format!("http://{host}{path}").parse().unwrap();
        let (_, permit) = gate.admit(&url, 30 * SECOND).await?;
        let began = Instant::now();
        let may_go = self.left_alone_until.is_none_or(|until| host != "busy.example" || began >= until);
        assert!(may_go, "it is backed off");
        sleep(SECOND / 5).await;
        if path == "/much" {
            self.left_alone_until = Some(Instant::now() + 600 * SECOND);
            permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &retry_after("600"));
        } else {
            permit.finish_with(StatusCode::OK, &HeaderMap::new());
        }
        self.log.entry(host.to_owned()).or_default().push((path.to_owned(), began, Instant::now()));
        Ok(())
    }

    /// A fetch, and the name of its refusal.
    async fn expect(&mut self, gate: &Gate, host: &str, path: &str, refusal: Option<&str>) {
        let outcome = self.fetch(gate, host, path).await;
        assert_eq!(outcome.as_ref().err().map(Denied::name), refusal, "{host}{path}: {outcome:?}");
    }

    /// What every life does.
    async fn live(&mut self, gate: &Gate) {
        self.expect(gate, "good.example", "/a", None).await;
        self.expect(gate, "good.example", "/private/b", Some("disallowed")).await;
        self.expect(gate, "good.example", "/c", None).await;
        self.expect(gate, "down.example", "/", Some("unreachable")).await;
        let _ = self.fetch(gate, "busy.example", "/much").await;
        self.expect(gate, "busy.example", "/again", Some("deferred")).await;
        // The backoff is reported to the store in a task, which tries again after a second.
        sleep(5 * SECOND).await;
    }

    /// From the servers' side: every delay is kept, robots.txt counts, and nothing else went out.
    fn check(mut self, what: &str) {
        for asked in self.fetch.asked() {
            let host = asked.url.split('/').nth(2).unwrap().to_owned();
            self.log.entry(host).or_default().push(("/robots.txt".to_owned(), asked.at, asked.at));
        }
        for (host, requests) in &mut self.log {
            requests.sort_by_key(|(_, began, _)| *began);
            let delay = if host == "good.example" { CRAWL_DELAY } else { PacePolicy::DELAY };
            for pair in requests.windows(2) {
                // Before the first robots.txt has been read no Crawl-delay is known.
                let delay = if pair[1].0 == "/robots.txt" { PacePolicy::DELAY } else { delay };
                assert!(pair[1].1 >= pair[0].2 + delay, "{what}: {host}: {pair:?}");
            }
            let paths: Vec<_> = requests.iter().map(|(path, ..)| &**path).collect();
            assert!(paths.iter().all(|path| !path.starts_with("/private")), "{what}: {host}: {paths:?}");
            let is_allowed = host != "down.example" || paths.iter().all(|path| *path == "/robots.txt");
            assert!(is_allowed, "{what}: {paths:?}");
        }
    }
}

/// The clock of the test would run on while the disk writes: by no more than this, since it stands while a
/// thread is blocked.
async fn keep_in_step(store: Store) {
    let runtime = Handle::current();
    loop {
        let (runtime, written) = (runtime.clone(), store.clone());
        let flushed = spawn_blocking(move || runtime.block_on(written.flush())).await;
        if matches!(flushed, Ok(Err(Error::Closed { .. }))) {
            return;
        }
        sleep(SECOND / 10).await;
    }
}

async fn end(gate: Gate, store: Option<Store>) {
    drop(gate);
    if let Some(store) = store {
        let _ = store.close().await;
    }
}

/// Two lives on one disk, which fails in the first, and how many operations that took.
async fn two_lives(fault: Fault) -> u64 {
    let mut world = World::new();
    world.disk.fail(fault);
    let (gate, store) = world.start();
    world.live(&gate).await;
    let operations = world.disk.operations();
    world.disk.fail(Fault::None);
    let asked = world.fetch.count();
    // The backoff is reported again when the disk works again. A disk that was gone for good only has what
    // was reported before.
    let was_open = store.is_some();
    let is_kept = was_open && !matches!(fault, Fault::From(_));
    end(gate, store).await;
    if !is_kept {
        world.left_alone_until = None;
    }
    let (gate, store) = world.start();
    // A database whose making was interrupted has to be made again: a file is made beside its place for that
    // reason.
    assert!(store.is_some() || !was_open, "{fault:?}: a disk that works again can be opened");
    if is_kept {
        world.expect(&gate, "busy.example", "/", Some("deferred")).await;
        world.expect(&gate, "good.example", "/d", None).await;
        assert_eq!(world.fetch.count(), asked, "{fault:?}: robots.txt is known");
    }
    world.live(&gate).await;
    end(gate, store).await;
    world.check(&format!("{fault:?}"));
    operations
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_operation_lets_no_request_escape() {
    let total = two_lives(Fault::None).await;
    assert!(total > 50, "{total}");
    for k in 0..total {
        two_lives(Fault::Once(k)).await;
        two_lives(Fault::From(k)).await;
    }
}
