//! A million hosts over 24 virtual hours: what stays in memory, and how evenly robots.txt is asked for again
//! (G12).
//!
//! Takes minutes, and so runs by hand:
//!
//! ```sh
//! cargo test --release -p abide-gate --test it soak -- --ignored --nocapture
//! ```
//!
//! `ABIDE_HOSTS` is how many. With `ABIDE_KEEP=all` the process keeps each record and each answer with its
//! rules in its own memory, which is then measured and not bounded. Without `--ignored` a small one runs,
//! whose memory has no bound: other tests share it.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::robots_cache::{
    Fetch, FetchError, RobotsPolicy, RobotsRecord, RobotsRequest, RobotsResponse, RobotsStore,
};
use abide_gate::testing::MemoryStore;
use abide_gate::{BoxFuture, Gate, GateBuilder, ManualClock, Origin, WallMillis};
use http::{HeaderMap, StatusCode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::StoreFuture;

/// Each host is used once in each of them, at a time of its own.
const ROUND: u64 = 4 * 60 * 60;
const ROUNDS: u64 = 6;

/// Records as a durable store keeps them: bytes.
#[derive(Debug, Default)]
struct Bytes(Mutex<HashMap<Origin, Box<[u8]>>>);

impl RobotsStore for Bytes {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        let bytes = self.0.lock().unwrap().get(origin).cloned();
        Box::pin(ready(Ok(bytes.and_then(|bytes| RobotsRecord::decode(&bytes)))))
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        self.0.lock().unwrap().insert(origin.clone(), record.encode().into());
        Box::pin(ready(Ok(())))
    }

    fn sweep(&self, _: WallMillis) -> StoreFuture<'_, u64> {
        Box::pin(ready(Ok(0)))
    }
}

/// Counts by the second what it is asked for. A robots.txt has 300 bytes; a quarter of them are distinct.
#[derive(Debug)]
struct Web {
    began: Instant,
    by_second: Mutex<Vec<u32>>,
}

impl Fetch for Web {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        self.by_second.lock().unwrap()[self.began.elapsed().as_secs() as usize] += 1;
        let digits = request.url().host_str().unwrap().bytes().filter(u8::is_ascii_digit);
        let n: u64 = digits.fold(0, |n, digit| n * 10 + u64::from(digit - b'0'));
        let rules: String = (0..12).map(|rule| format!("Disallow: /private/{}/{rule}\n", n / 4)).collect();
        let text = format!("User-agent: *\n{rules}");
        Box::pin(ready(Ok(RobotsResponse::whole(
            StatusCode::OK,
            HeaderMap::new(),
            text,
            Instant::now().into_std(),
        ))))
    }
}

/// Resident memory of this process, in bytes; nothing where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

async fn fetch_page(gate: Gate, n: u64) -> u64 {
    let url = format!("https://h{n}.example/page").parse().unwrap();
    match gate.admit(&url, Duration::from_secs(30)).await {
        Ok((verdict, permit)) if verdict.is_allowed() => {
            permit.finish_with(StatusCode::OK, &HeaderMap::new());
            1
        }
        _ => 0,
    }
}

/// Returns by how many bytes the process has grown.
async fn soak(hosts: u64, store: Arc<dyn RobotsStore>, policy: RobotsPolicy) -> u64 {
    let began = Instant::now();
    let web = Arc::new(Web { began, by_second: Mutex::new(vec![0; (ROUND * ROUNDS + 3_600) as usize]) });
    let clock = Arc::new(ManualClock::starting_at(WallMillis::from_millis(1_800_000_000_000)));
    let before = resident();
    let gate = GateBuilder::new()
        .clock(clock)
        .robots(policy)
        .robots_store(store)
        .seed(7)
        .build(vec!["ExampleBot".parse().unwrap()], web.clone());
    let (mut fetches, mut pages) = (JoinSet::new(), 0);
    // The second of its round in which a host is used: the hosts in order, many a second.
    let first_of = |second: u64| (second * hosts).div_ceil(ROUND);
    for second in 0..ROUND * ROUNDS {
        sleep_until(began + Duration::from_secs(second)).await;
        let of_round = second % ROUND;
        for n in first_of(of_round)..first_of(of_round + 1) {
            fetches.spawn(fetch_page(gate.clone(), n));
        }
        while let Some(done) = fetches.try_join_next() {
            pages += done.unwrap();
        }
    }
    while let Some(done) = fetches.join_next().await {
        pages += done.unwrap();
    }
    let grown = resident().saturating_sub(before);
    let by_second = web.by_second.lock().unwrap().clone();
    let (first, again) = by_second.split_at(ROUND as usize + 60);
    let sum = |seconds: &[u32]| seconds.iter().map(|count| u64::from(*count)).sum::<u64>();
    let refreshes: Vec<u32> = again.iter().copied().skip_while(|count| *count == 0).collect();
    let lasted = refreshes.iter().rposition(|count| *count > 0).map_or(1, |last| last + 1);
    let mean = sum(again) as f64 / lasted as f64;
    // As many seconds as ten refreshes take at an even pace, so that three times as many are no rng.
    let window = (10.0 / mean).ceil() as usize;
    let most = again.chunks(window).map(sum).max().unwrap_or(0);
    println!(
        "{hosts} hosts, {pages} pages, {} MB more resident ({} bytes a host), {} robots.txt and {} refreshes over {lasted} s, \
         {mean:.3} a second, {most} at most in {window} s",
        grown / 1_000_000,
        grown / hosts,
        sum(first),
        sum(again),
    );
    assert_eq!(pages, hosts * ROUNDS, "every page was fetched");
    assert_eq!(sum(first), hosts, "every robots.txt was asked for once");
    // Used 20 hours after its fetch: asked for again from some point on in the last fifth of 24 hours, which
    // is past for one in six.
    let due = hosts as f64 / 6.0;
    assert!((sum(again) as f64 - due).abs() < due / 4.0, "{} again, where {due} are due", sum(again));
    let even = mean * window as f64;
    assert!(most as f64 <= 3.0 * even, "{most} in {window} s, where {even} is the mean");
    // A refresh that the last fetches began may wait for its slot.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((gate.stats().in_flight, gate.stats().robots_in_flight), (0, 0));
    grown
}

#[tokio::test(start_paused = true)]
async fn two_thousand_hosts_for_a_day() {
    soak(2_000, Arc::new(Bytes::default()), RobotsPolicy::default()).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes: by hand"]
async fn a_million_hosts_for_a_day() {
    let hosts = std::env::var("ABIDE_HOSTS").ok().and_then(|hosts| hosts.parse().ok());
    let hosts = hosts.unwrap_or(1_000_000);
    let policy = RobotsPolicy::default();
    if std::env::var("ABIDE_KEEP").is_ok_and(|keep| keep == "all") {
        let store = MemoryStore::new().with_capacity(1 << 34);
        soak(hosts, Arc::new(store), policy.with_memory_max(1 << 34)).await;
    } else {
        let grown = soak(hosts, Arc::new(Bytes::default()), policy).await;
        // Half of it is what glibc's allocator keeps between blocks in use.
        assert!(grown <= 2 << 30, "{grown} bytes");
    }
}
