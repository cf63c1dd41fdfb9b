//! Processes: this test binary again, as a crawler that asks a server on loopback for pages as fast as it may.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide::pacing::PacePolicy;
use abide::{Abide, Denied};
use abide_redis::Store;
use reqwest_middleware::ClientWithMiddleware;

use super::ms;

/// What the workers of one run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    pub(crate) store: String,
    pub(crate) server: SocketAddr,
    pub(crate) hosts: u32,
    pub(crate) gap: Duration,
    pub(crate) lasts: Duration,
    pub(crate) workers: u32,
    pub(crate) is_fail_closed: bool,
}

/// How a worker learns what it is.
const ROLE: &str = "ABIDE_TEST_WORKER";

impl Crew {
    pub(crate) fn new(store: String, server: SocketAddr) -> Self {
        let (gap, lasts) = (ms(100), run_time().unwrap_or(ms(5_000)));
        Self { store, server, hosts: 4, gap, lasts, workers: 2, is_fail_closed: false }
    }

    pub(crate) fn start(&self) -> Vec<Worker> {
        (0..self.workers).map(|number| self.start_one(number)).collect()
    }

    pub(crate) fn start_one(&self, number: u32) -> Worker {
        let role = format!(
            "{number} {} {} {} {} {} {} {}",
            self.store,
            self.server,
            self.hosts,
            self.gap.as_millis(),
            self.lasts.as_millis(),
            self.workers,
            self.is_fail_closed
        );
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "support::workers::worker"])
            .env(ROLE, role)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Worker { child }
    }

    fn of(role: &str) -> (u32, Self) {
        let mut words = role.split(' ');
        let mut word = || words.next().unwrap();
        let number = word().parse().unwrap();
        let (store, server, hosts) = (word().to_owned(), word().parse().unwrap(), word().parse().unwrap());
        let (gap, lasts) = (ms(word().parse().unwrap()), ms(word().parse().unwrap()));
        let (workers, is_fail_closed) = (word().parse().unwrap(), word().parse().unwrap());
        (number, Self { store, server, hosts, gap, lasts, workers, is_fail_closed })
    }

    fn client(&self, store: Option<&Arc<Store>>) -> ClientWithMiddleware {
        let mut policy = PacePolicy::default().danger_min_gap(self.gap).expected_workers(self.workers);
        policy = policy.lease(ms(1_500)).max_wait(ms(10_000));
        if self.is_fail_closed {
            policy = policy.fail_closed();
        }
        let mut builder = Abide::builder("ExampleBot")
            .pace(policy)
            .max_wait(ms(10_000))
            .allow_net("127.0.0.1/32".parse().unwrap());
        if let Some(store) = store {
            builder = builder.access_store(store.clone()).pace_store(store.clone());
        }
        for host in 0..self.hosts {
            builder = builder.resolve(&host_name(host), self.server);
        }
        builder.build_client(reqwest::Client::builder().tls_certs_only([])).unwrap()
    }
}

/// In place of the store's URL: each process is on its own.
pub(crate) const NO_STORE: &str = "none";

/// For longer runs by hand.
pub(crate) fn run_time() -> Option<Duration> {
    std::env::var("REDIS_RUN_SECONDS").ok()?.parse().ok().map(Duration::from_secs)
}

pub(crate) fn host_name(host: u32) -> String {
    format!("h{host}.example")
}

/// A running worker. It is killed when it is dropped.
pub(crate) struct Worker {
    child: Child,
}

impl Worker {
    /// As `kill -9`: leases are out, connections open.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// It has come to its end in good order.
    pub(crate) fn join(mut self) {
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
    let Ok(role) = std::env::var(ROLE) else { return };
    let (number, crew) = Crew::of(&role);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(number, crew));
}

/// One task a host, page after page, until the time is over.
async fn work(number: u32, crew: Crew) {
    let store = (crew.store != NO_STORE).then(|| Arc::new(Store::builder(&crew.store).open().unwrap()));
    let (client, end) = (crew.client(store.as_ref()), Instant::now() + crew.lasts);
    let mut tasks = tokio::task::JoinSet::new();
    for host in 0..crew.hosts {
        let client = client.clone();
        tasks.spawn(async move {
            let mut page = 0;
            while Instant::now() < end {
                let url = format!("http://{}/w{number}/{page}", host_name(host));
                let asked = tokio::time::timeout_at(end.into(), fetch(&client, &url)).await;
                page += u32::from(asked == Ok(true));
            }
        });
    }
    tasks.join_all().await;
    if let Some(store) = store {
        store.settle(ms(2_000)).await;
    }
}

/// Whether the page came. A refusal is waited out for a moment; anything else is a mistake.
async fn fetch(client: &ClientWithMiddleware, url: &str) -> bool {
    match client.get(url).send().await {
        Ok(page) => {
            page.bytes().await.unwrap();
            true
        }
        Err(error) => match abide::Error::find(&error) {
            Some(Denied::Deferred { .. } | Denied::Store { .. } | Denied::Interrupted) => {
                tokio::time::sleep(ms(20)).await;
                false
            }
            other => panic!("{url}: {other:?}, {error:?}"),
        },
    }
}
