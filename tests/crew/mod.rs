//! Processes that crawl a website together, and what the website sees of it while a store fails. Written once
//! for all stores that processes share: the tests of each crate include it, and name their store in
//! `crate::store`:
//!
//! * `Server`: a server of a test's own, with `url`, `port`, `pause`, `resume`, `kill` and `start_again`;
//! * `start()`: one that seems to have been in use for long, or `None` where it is not installed;
//! * `IS_DURABLE`: whether one that was killed has what it had;
//! * `url_at(address)`: a URL of the server that is reached there;
//! * `open(url, patience)`: the store, which waits for so long.

#![allow(dead_code, reason = "each crate has tests of its own, which use more or less of this")]

pub(crate) mod faults;
mod processes;
mod proxy;
pub(crate) mod website;
pub(crate) mod workers;

use std::time::{Duration, Instant};

pub(crate) use proxy::Proxy;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// For one command. The machine may be busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than anything takes on a machine that does other things as well.
const LONG: Duration = Duration::from_secs(120);

/// Waits for what servers do on their own. Panics with `what` if it does not come.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(ms(20));
    }
}

/// The same without blocking the thread.
pub(crate) async fn wait_for(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(ms(20)).await;
    }
}
