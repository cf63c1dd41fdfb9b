//! Stores that keep what they are given as durable ones do, and that fail, hang, lie and rot where the plan
//! says so.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, Once};
use std::time::Duration;

use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus};
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::testing::MemoryStore;
use abide_gate::{BoxFuture, Origin, StoreError, WallMillis};
use tokio::time::sleep;

use super::checker::{Checker, Who};
use super::plan::{CDN, ORIGINS, Rng};

type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// How a store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error,
    /// It does it, and says that it did not.
    Lie,
    Hang,
    Slow,
    Rot,
    Panic,
}

const PANIC: &str = "the script says: panic";

/// The script's own panics are part of the story; a fuzzer's hook would take them for findings.
pub(crate) fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.to_string().contains(PANIC) {
                loud(panic);
            }
        }));
    });
}

/// How a store with this seed fails now, if it does.
fn fault(seed: Option<u64>, checker: &Checker) -> Option<Fault> {
    if checker.faults_ended() {
        return None;
    }
    // By the time and not by what happened before, so that a run that is shrunk meets the same faults.
    let mut rng = Rng::of(&[seed?, checker.now().as_millis() as u64]);
    const FAULTS: [Fault; 6] = [Fault::Error, Fault::Lie, Fault::Hang, Fault::Slow, Fault::Rot, Fault::Panic];
    rng.one_in(8).then(|| rng.of_these(&FAULTS))
}

/// `done` is what happens unless it fails before.
async fn through<T>(
    fault: Option<Fault>,
    slow: Duration,
    done: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let said = || StoreError::new("the simulation says so");
    match fault {
        Some(Fault::Error) => Err(said()),
        Some(Fault::Lie) => done.await.and(Err(said())),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Panic) => panic!("{}", PANIC),
        Some(Fault::Slow) => {
            sleep(slow).await;
            done.await
        }
        Some(Fault::Rot) | None => done.await,
    }
}

/// The records of all processes, as bytes.
#[derive(Debug, Default)]
pub(crate) struct SharedStore {
    records: Mutex<HashMap<Origin, Vec<u8>>>,
}

/// The shared store as one process uses it.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) who: Who,
    pub(crate) shared_store: Arc<SharedStore>,
    pub(crate) checker: Arc<Checker>,
    /// A seed, if anything fails at all.
    pub(crate) faults: Option<u64>,
}

impl Reader {
    fn fault(&self) -> Option<Fault> {
        fault(self.faults, &self.checker)
    }

    async fn through<T>(&self, done: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        through(self.fault(), Duration::from_millis(1_500), done).await
    }

    async fn read(&self, origin: &Origin) -> Result<Option<RobotsRecord>, StoreError> {
        let mut bytes = self.shared_store.records.lock().unwrap().get(origin).cloned();
        if let (Some(bytes), Some(Fault::Rot)) = (&mut bytes, self.fault()) {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
        }
        let record = bytes.and_then(|bytes| RobotsRecord::decode(&bytes));
        if let Some(record) = &record {
            self.checker.loads(self.who, number(origin), record.asked_at());
        }
        Ok(record)
    }

    async fn write(&self, record: &RobotsRecord) -> Result<(), StoreError> {
        self.shared_store.records.lock().unwrap().insert(record.origin().clone(), record.encode());
        Ok(())
    }
}

pub(crate) fn number(origin: &Origin) -> usize {
    static NAMES: LazyLock<Vec<Origin>> =
        LazyLock::new(|| ORIGINS.iter().map(|(text, _)| text.parse().unwrap()).collect());
    NAMES.iter().position(|name| name == origin).expect("only known sites are asked and stored")
}

impl RobotsStore for Reader {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        self.checker.fetches_robots(self.who, number(origin));
        Box::pin(self.through(self.read(origin)))
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.checker.saves(self.who, number(origin), record.asked_at());
            self.through(self.write(record)).await
        })
    }

    fn sweep(&self, _: WallMillis) -> StoreFuture<'_, u64> {
        Box::pin(async { Ok(0) })
    }
}

/// The store of hosts that all processes share, as one of them uses it.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(crate) who: Who,
    pub(crate) inner: Arc<MemoryStore>,
    pub(crate) checker: Arc<Checker>,
    /// A seed, if anything fails at all.
    pub(crate) faults: Option<u64>,
}

fn host_number(scope: &str) -> usize {
    let digit = scope.strip_prefix('h').and_then(|rest| rest.chars().next()?.to_digit(10));
    digit.map_or(CDN, |digit| digit as usize)
}

impl HostStore for Hosts {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        let fault = fault(self.faults, &self.checker);
        let is_well = matches!(fault, None | Some(Fault::Rot));
        if !is_well {
            self.checker.store_fails(self.who, host_number(host));
        }
        Box::pin(async move {
            let reply = through(fault, Duration::from_millis(700), self.inner.exchange(host, ask)).await;
            if is_well {
                self.checker.store_answers(self.who);
            }
            reply
        })
    }
}
