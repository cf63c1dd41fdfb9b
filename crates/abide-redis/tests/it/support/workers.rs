//! Processes: this test binary again, as a crawler that asks a server on loopback for pages as fast as it may.

use std::io::Read;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use abide::access::AccessPolicy;
use abide::pacing::{PaceEvent, PacePolicy};
use abide::{Abide, Denied, Event};
use abide_redis::Store;
use reqwest_middleware::ClientWithMiddleware;

use super::ms;
use super::redis::PATIENCE;

/// What the workers of one run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    pub(crate) store: String,
    pub(crate) server: SocketAddr,
    pub(crate) hosts: u32,
    pub(crate) gap: Duration,
    pub(crate) workers: u32,
    pub(crate) is_fail_closed: bool,
    /// How long a turn outlives its process.
    pub(crate) lease: Duration,
    /// For how long the store is waited for. Long, so that a machine which is busy with other things is not taken for a store that
    /// is away.
    pub(crate) patience: Duration,
}

/// How a worker learns what it is.
const ROLE: &str = "ABIDE_TEST_WORKER";

impl Crew {
    pub(crate) fn new(store: String, server: SocketAddr) -> Self {
        Self {
            store,
            server,
            hosts: 4,
            gap: ms(100),
            workers: 2,
            is_fail_closed: false,
            lease: ms(10_000),
            patience: PATIENCE,
        }
    }

    pub(crate) fn start(&self) -> Vec<Worker> {
        (0..self.workers).map(|number| self.start_one(number)).collect()
    }

    pub(crate) fn start_one(&self, number: u32) -> Worker {
        let role = format!(
            "{number} {} {} {} {} {} {} {} {}",
            self.store,
            self.server,
            self.hosts,
            self.gap.as_millis(),
            self.workers,
            self.is_fail_closed,
            self.lease.as_millis(),
            self.patience.as_millis()
        );
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "support::workers::worker"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
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
        let (gap, workers, is_fail_closed) =
            (ms(word().parse().unwrap()), word().parse().unwrap(), word().parse().unwrap());
        let (lease, patience) = (ms(word().parse().unwrap()), ms(word().parse().unwrap()));
        (number, Self { store, server, hosts, gap, workers, is_fail_closed, lease, patience })
    }

    fn client(&self, store: Option<&Arc<Store>>, is_alone: Arc<AtomicBool>) -> ClientWithMiddleware {
        let mut policy = PacePolicy::default().danger_min_gap(self.gap).expected_workers(self.workers);
        policy = policy.lease(self.lease).max_wait(ms(10_000)).store_timeout(self.patience);
        if self.is_fail_closed {
            policy = policy.fail_closed();
        }
        let mut builder = Abide::builder("ExampleBot")
            .pace(policy)
            .access(AccessPolicy::default().with_store_timeout(self.patience))
            .max_wait(ms(10_000))
            .observer(Arc::new(move |event: &Event<'_>| match event {
                Event::Pacing(PaceEvent::StoreDown { .. }) => is_alone.store(true, Ordering::SeqCst),
                Event::Pacing(PaceEvent::StoreBack) => is_alone.store(false, Ordering::SeqCst),
                _ => {}
            }))
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

/// The end of a URL that is asked for while its process thinks that the store is away.
pub(crate) const ALONE: &str = "/alone";

/// In place of the store's URL: each process is on its own.
pub(crate) const NO_STORE: &str = "none";

/// For longer runs by hand.
pub(crate) fn run_time() -> Duration {
    let seconds = std::env::var("REDIS_RUN_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
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

impl Worker {
    /// As `kill -9`: leases are out, connections open.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
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
    let Ok(role) = std::env::var(ROLE) else { return };
    let (number, crew) = Crew::of(&role);
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
    let is_alone = Arc::new(AtomicBool::new(false));
    let client = crew.client(store.as_ref(), Arc::clone(&is_alone));
    let mut tasks = tokio::task::JoinSet::new();
    for host in 0..crew.hosts {
        let (client, mut stopped, is_alone) = (client.clone(), stopped.clone(), Arc::clone(&is_alone));
        tasks.spawn(async move {
            let mut page = 0;
            while !*stopped.borrow() {
                let end = if is_alone.load(Ordering::SeqCst) { ALONE } else { "" };
                let url = format!("http://{}/w{number}/{page}{end}", host_name(host));
                tokio::select! {
                    came = fetch(&client, &url) => page += u32::from(came),
                    _ = stopped.changed() => {}
                }
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
