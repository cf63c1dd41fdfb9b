//! Processes: this test binary again, as a crawler that asks a server on loopback for pages as fast as it may.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide::pacing::PacePolicy;
use abide::robots_cache::RobotsPolicy;
use abide::{Abide, Denied, DeniedKind};
use abide_gate::testing::hosts;
use abide_gate::{Clock, Gate, SystemClock, WallMillis};
use abide_redis::Store;
use reqwest_middleware::ClientWithMiddleware;
use serde::{Deserialize, Serialize};

use super::ms;
use super::redis::{PATIENCE, signal};

/// What the workers of one run have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Crew {
    pub(crate) store: String,
    pub(crate) server: SocketAddr,
    pub(crate) hosts: u32,
    /// Each worker has hosts of its own.
    pub(crate) is_apart: bool,
    pub(crate) delay: Duration,
    pub(crate) workers: u32,
    pub(crate) is_fail_closed: bool,
    pub(crate) lease: Duration,
    /// For how long a worker waits for the store. Long, so that a machine which is busy with other things is not taken for a store that
    /// is away.
    pub(crate) patience: Duration,
    /// By how many seconds the wall clock of each worker is ahead of that of the one before.
    pub(crate) skew: i64,
    /// The hosts are counted from here on.
    pub(crate) first_host: u32,
    /// Each page is named by when its worker last looked at its lease, in microseconds since 1970.
    pub(crate) shows_looks: bool,
}

/// How a worker learns what it is.
const ROLE: &str = "ABIDE_TEST_WORKER";

impl Crew {
    pub(crate) fn new(store: String, server: SocketAddr) -> Self {
        Self {
            store,
            server,
            hosts: 4,
            is_apart: false,
            delay: ms(100),
            workers: 2,
            is_fail_closed: false,
            lease: ms(8_000),
            patience: PATIENCE,
            skew: 0,
            first_host: 0,
            shows_looks: false,
        }
    }

    pub(crate) fn start(&self) -> Vec<Worker> {
        let role = |number| serde_json::to_string(&(number, self)).unwrap();
        (0..self.workers).map(|number| start("support::workers::worker", role(number))).collect()
    }

    fn policy(&self) -> PacePolicy {
        let policy = PacePolicy::default().danger_min_delay(self.delay).with_expected_workers(self.workers);
        let policy =
            policy.with_lease(self.lease).with_max_wait(ms(10_000)).with_store_timeout(self.patience);
        if self.is_fail_closed { policy.with_fail_closed() } else { policy }
    }

    fn client(&self, number: u32, store: Option<&Arc<Store>>) -> ClientWithMiddleware {
        let mut builder = Abide::builder("ExampleBot")
            .pace(self.policy())
            .robots(RobotsPolicy::default().with_store_timeout(self.patience))
            .max_wait(ms(10_000))
            .clock(Arc::new(Skewed(self.skew * i64::from(number))))
            .allow_net("127.0.0.1/32".parse().unwrap());
        if let Some(store) = store {
            builder = builder.robots_store(store.clone()).host_store(store.clone());
        }
        for host in self.hosts_of(number) {
            builder = builder.resolve(&host_name(host), self.server);
        }
        builder.build_client(reqwest::Client::builder().tls_certs_only([])).unwrap()
    }

    fn hosts_of(&self, number: u32) -> std::ops::Range<u32> {
        let first = self.first_host + if self.is_apart { number * self.hosts } else { 0 };
        first..first + self.hosts
    }
}

/// A wall clock that is so many seconds ahead.
#[derive(Debug)]
struct Skewed(i64);

impl Clock for Skewed {
    fn now(&self) -> std::time::Instant {
        SystemClock.now()
    }

    fn wall(&self) -> WallMillis {
        let by = ms(self.0.unsigned_abs() * 1_000);
        if self.0 < 0 { SystemClock.wall().minus(by) } else { SystemClock.wall().plus(by) }
    }
}

/// In place of the store's URL: each process is on its own.
pub(crate) const NO_STORE: &str = "none";

/// For longer runs by hand.
pub(crate) fn run_time(short: Duration) -> Duration {
    let seconds = std::env::var("REDIS_RUN_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    seconds.map_or(short, Duration::from_secs)
}

/// Without keeping the website from its work.
pub(crate) async fn stop(workers: Vec<Worker>) {
    tokio::task::spawn_blocking(|| workers.into_iter().for_each(Worker::stop)).await.unwrap();
}

pub(crate) fn host_name(host: u32) -> String {
    format!("h{host}.example")
}

/// A running worker. It is killed when it is dropped.
pub(crate) struct Worker {
    child: Child,
}

/// Another process of this binary, which runs one test in this role.
pub(crate) fn start(test: &str, role: String) -> Worker {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    Worker { child }
}

/// The role of a process that was [started](start).
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

impl Worker {
    /// As `kill -9`: leases are out, connections open.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pause(&self) {
        signal(&self.child, "STOP");
    }

    pub(crate) fn resume(&self) {
        signal(&self.child, "CONT");
    }

    /// Waits until it says this.
    pub(crate) fn says(&mut self, line: &str) {
        let output = BufReader::new(self.child.stdout.as_mut().unwrap());
        assert!(output.lines().any(|said| said.unwrap().contains(line)), "it has ended without {line:?}");
    }

    /// It comes to its end in good order: its input is over.
    pub(crate) fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success(), "a worker has failed");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: what the other processes run.
#[test]
fn worker() {
    let Some(role) = role() else { return };
    let (number, crew) = serde_json::from_str(&role).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stop.send_replace(true);
    });
    runtime.block_on(work(number, crew, stopped));
}

/// One task a host, page after page, until it is stopped.
async fn work(number: u32, crew: Crew, stopped: tokio::sync::watch::Receiver<bool>) {
    let builder = Store::builder(&crew.store).command_timeout(crew.patience);
    let store = (crew.store != NO_STORE).then(|| Arc::new(builder.open().unwrap()));
    if crew.shows_looks {
        return look(number, crew, store.unwrap(), stopped).await;
    }
    let client = crew.client(number, store.as_ref());
    let mut tasks = tokio::task::JoinSet::new();
    for host in crew.hosts_of(number) {
        let (client, mut stopped) = (client.clone(), stopped.clone());
        tasks.spawn(async move {
            let mut page = 0;
            while !*stopped.borrow() {
                let url = format!("http://{}/w{number}/{page}", host_name(host));
                tokio::select! {
                    came = fetch(&client, &url) => page += u32::from(came),
                    _ = stopped.changed() => {}
                }
            }
        });
    }
    tasks.join_all().await;
}

/// The same with a client of one's own, so that each page is named by the last look at the lease: the permit counts from it.
async fn look(number: u32, crew: Crew, store: Arc<Store>, stopped: tokio::sync::watch::Receiver<bool>) {
    let gate = hosts::gate(Gate::builder().pace(crew.policy()).host_store(store));
    let mut tasks = tokio::task::JoinSet::new();
    for host in crew.hosts_of(number).map(host_name) {
        let client = reqwest::Client::builder().tls_certs_only([]).resolve(&host, crew.server);
        let (client, gate, mut stopped) = (client.build().unwrap(), gate.clone(), stopped.clone());
        let site = format!("http://{host}/").parse().unwrap();
        let fetch = async move || {
            let Ok(permit) = hosts::acquire(&gate, &site, Duration::ZERO, gate.max_wait()).await else {
                return tokio::time::sleep(ms(20)).await;
            };
            // In this order: if the process is stopped in between, the look is said to be earlier, and never later than it was.
            let now = micros(SystemTime::now());
            let looked = now - permit.elapsed().as_micros();
            let page = client.get(format!("{site}w{number}/{looked}")).send().await.unwrap();
            page.bytes().await.unwrap();
        };
        tasks.spawn(async move {
            while !*stopped.borrow() {
                tokio::select! {
                    () = fetch() => {}
                    _ = stopped.changed() => {}
                }
            }
        });
    }
    tasks.join_all().await;
}

/// Since 1970.
pub(crate) fn micros(at: SystemTime) -> u128 {
    at.duration_since(UNIX_EPOCH).unwrap().as_micros()
}

/// Whether the page came. A refusal is waited out for a moment; anything else is a mistake.
async fn fetch(client: &ClientWithMiddleware, url: &str) -> bool {
    match client.get(url).send().await {
        Ok(page) => {
            page.bytes().await.unwrap();
            true
        }
        Err(error) => match Denied::find(&error).as_ref().map(Denied::kind) {
            Some(DeniedKind::Deferred { .. } | DeniedKind::Store { .. } | DeniedKind::Interrupted) => {
                tokio::time::sleep(ms(20)).await;
                false
            }
            other => panic!("{url}: {other:?}, {error:?}"),
        },
    }
}
