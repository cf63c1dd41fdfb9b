//! Processes: this test binary again, as a crawler that asks a server on loopback for pages as fast as it
//! may.

use std::io::Read;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use abide_gate::pacing::{OnStoreOutage, PacePolicy};
use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse};
use abide_gate::testing::hosts;
use abide_gate::{BoxFuture, Clock, Failure, Gate, SystemClock, WallMillis};
use abide_tests::{Names, signal};
use serde::{Deserialize, Serialize};

use super::{PATIENCE, ms};

/// What the workers of one run have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Crew {
    pub(crate) store: String,
    pub(crate) server: SocketAddr,
    /// So many, counted from the first one on.
    pub(crate) hosts: u32,
    pub(crate) first_host: u32,
    /// Each worker has hosts of its own.
    pub(crate) is_apart: bool,
    /// robots.txt is fetched before the pages, and kept in the store.
    pub(crate) reads_robots: bool,
    pub(crate) delay: Duration,
    pub(crate) workers: u32,
    /// To hosts that none holds while the store is away: at as many times the delay as there are workers.
    pub(crate) goes_on: bool,
    pub(crate) lease: Duration,
    /// For how long a worker waits for the store. Long, so that a machine which is busy with other things is
    /// not taken for a store that is away.
    pub(crate) patience: Duration,
    /// By how many seconds the wall clock of each worker is behind that of the one before.
    pub(crate) skew: u64,
}

/// How a worker is given its role.
const ROLE: &str = "ABIDE_TEST_WORKER";

impl Crew {
    pub(crate) fn new(store: String, server: SocketAddr) -> Self {
        Self {
            store,
            server,
            hosts: 4,
            first_host: 0,
            is_apart: false,
            reads_robots: false,
            delay: ms(100),
            workers: 2,
            goes_on: false,
            lease: ms(8_000),
            patience: PATIENCE,
            skew: 0,
        }
    }

    pub(crate) fn start(&self) -> Vec<Worker> {
        let start = |number| {
            let mut worker = Command::new(std::env::current_exe().unwrap());
            worker.args(["--exact", "crew::workers::worker", "--nocapture"]);
            worker.env(ROLE, serde_json::to_string(&(number, self)).unwrap());
            Worker(worker.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
        };
        (0..self.workers).map(start).collect()
    }

    fn gate(&self, number: u32) -> Gate {
        let policy = PacePolicy::default().danger_min_delay(self.delay);
        let policy =
            policy.with_lease(self.lease).with_max_wait(ms(10_000)).with_store_timeout(self.patience);
        let goes_on = OnStoreOutage::Continue { workers: self.workers };
        let policy = if self.goes_on { policy.with_store_outage(goes_on) } else { policy };
        let store = crate::store::open(&self.store, self.patience);
        let clock = Behind(ms(self.skew * u64::from(number) * 1_000));
        let settings =
            Gate::builder().pace(policy).clock(Arc::new(clock)).host_store(Arc::new(store.clone()));
        if !self.reads_robots {
            return hosts::gate(settings);
        }
        let names = Arc::new(Names(self.server));
        let client = reqwest::Client::builder().tls_certs_only([]).dns_resolver(names).build().unwrap();
        let token = "ExampleBot".parse().unwrap();
        settings.robots_store(Arc::new(store)).build(vec![token], Arc::new(Robots(client)))
    }
}

/// Gets robots.txt from the website.
#[derive(Debug)]
struct Robots(reqwest::Client);

impl Fetch for Robots {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        Box::pin(async move {
            let (started, failed) = (Instant::now(), |_| FetchError::new(Failure::Other, "no response"));
            let reply = self.0.get(request.url().clone()).send().await.map_err(failed)?;
            let (status, headers) = (reply.status(), reply.headers().clone());
            Ok(RobotsResponse::whole(status, headers, reply.bytes().await.map_err(failed)?, started))
        })
    }
}

/// A wall clock that is behind.
#[derive(Debug)]
struct Behind(Duration);

impl Clock for Behind {
    fn now(&self) -> std::time::Instant {
        SystemClock.now()
    }

    fn wall(&self) -> WallMillis {
        SystemClock.wall().minus(self.0)
    }
}

/// For longer runs by hand.
pub(crate) fn run_time(short: Duration) -> Duration {
    long_run().unwrap_or(short)
}

/// How long a long run is, if `ABIDE_RUN_SECONDS` asks for one.
pub(crate) fn long_run() -> Option<Duration> {
    let seconds = std::env::var("ABIDE_RUN_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    seconds.map(Duration::from_secs)
}

pub(crate) fn host_name(host: u32) -> String {
    format!("h{host}.example")
}

/// A running worker. It is killed when it is dropped.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn pause(&self) {
        signal(&self.0, "STOP");
    }

    pub(crate) fn resume(&self) {
        signal(&self.0, "CONT");
    }
}

/// They come to their end in good order: their input is over. Without keeping the website from its work.
pub(crate) async fn stop(workers: Vec<Worker>) {
    let stopping = tokio::task::spawn_blocking(|| {
        for mut worker in workers {
            drop(worker.0.stdin.take());
            assert!(worker.0.wait().unwrap().success(), "a worker has failed");
        }
    });
    stopping.await.unwrap();
}

impl Drop for Worker {
    /// As `kill -9`: leases are out, connections open.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test: what the other processes run. One task a host, until it is stopped.
#[test]
fn worker() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (number, crew): (u32, Crew) = serde_json::from_str(&role).unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stop.send_replace(true);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (gate, mut tasks) = (crew.gate(number), tokio::task::JoinSet::new());
        let first = crew.first_host + if crew.is_apart { number * crew.hosts } else { 0 };
        for host in (first..first + crew.hosts).map(host_name) {
            let (crawling, mut stopped) = (crawl(gate.clone(), number, host, crew.clone()), stopped.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = crawling => {}
                    _ = stopped.changed() => {}
                }
            });
        }
        tasks.join_all().await;
    });
}

/// Page after page, each named by when the process last looked at its lease, in microseconds since 1970: the
/// permit counts from then.
async fn crawl(gate: Gate, number: u32, host: String, crew: Crew) {
    let client = reqwest::Client::builder().tls_certs_only([]).resolve(&host, crew.server).build().unwrap();
    let site = format!("http://{host}/").parse().unwrap();
    loop {
        let permit = match crew.reads_robots {
            true => gate.admit(&site, gate.max_wait()).await.map(|(_, permit)| permit),
            false => hosts::acquire(&gate, &site, Duration::ZERO, gate.max_wait()).await,
        };
        let Ok(permit) = permit else {
            tokio::time::sleep(ms(20)).await;
            continue;
        };
        // In this order: if the process is stopped in between, the look is said to be earlier, and never
        // later than it was.
        let now = micros(SystemTime::now());
        let looked = now - permit.elapsed().as_micros();
        let page = client.get(format!("{site}w{number}/{looked}")).send().await.unwrap();
        page.bytes().await.unwrap();
    }
}

/// Since 1970.
pub(crate) fn micros(at: SystemTime) -> u128 {
    at.duration_since(UNIX_EPOCH).unwrap().as_micros()
}
