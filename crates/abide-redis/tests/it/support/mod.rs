//! What the tests share.

mod cluster;
pub(crate) mod judge;
mod proxy;
mod redis;
mod sentinel;
pub(crate) mod workers;

use std::time::{Duration, Instant};

pub(crate) use cluster::Cluster;
pub(crate) use proxy::Proxy;
pub(crate) use redis::{PATIENCE, Redis};
pub(crate) use sentinel::{Sentinel, Watched};

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Longer than anything takes on a machine that does other things as well.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Waits for what servers do on their own. What it is is said if it does not come.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(ms(20));
    }
}

/// The same of what is asked without blocking the thread.
pub(crate) async fn wait_for(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(ms(20)).await;
    }
}

/// A store that has time to connect on a machine that does other things as well.
pub(crate) async fn connect(url: &str) -> abide_redis::Store {
    abide_redis::Store::builder(url).command_timeout(PATIENCE).connect().await.unwrap()
}
