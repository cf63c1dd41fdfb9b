//! A stopped clock for tests with real sockets, and waiting for what happens elsewhere.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Stops tokio's clock until it is dropped with the runtime: it moves only when the test says so.
///
/// A clock that is merely paused runs ahead whenever all tasks wait for a socket. This one does not, so no
/// timeout, deadline or budget can end because the machine is busy. The server of the test must live on the
/// same runtime, which has one thread.
#[derive(Debug)]
pub struct StoppedClock {
    began: tokio::time::Instant,
    _held: std::sync::mpsc::Sender<()>,
}

/// How far the clock moves at a time, and how long the sockets have for their part each time.
const STEP: (Duration, Duration) = (Duration::from_millis(5), Duration::from_micros(100));

impl StoppedClock {
    /// Stops the clock of this runtime.
    pub fn stop() -> Self {
        let (held, dropped) = std::sync::mpsc::channel();
        // tokio does not move a paused clock by itself while a blocking task runs. A test that waits for ever
        // is let go, and fails.
        tokio::task::spawn_blocking(move || dropped.recv_timeout(PATIENCE));
        tokio::time::pause();
        Self { began: tokio::time::Instant::now(), _held: held }
    }

    /// How far it has moved since it was stopped.
    pub fn moved(&self) -> Duration {
        self.began.elapsed()
    }

    /// Moves it, and a millisecond more: tokio rounds its timers up.
    pub async fn pass(&self, time: Duration) {
        tokio::time::advance(time + Duration::from_millis(1)).await;
    }

    /// Moves it until this is done.
    pub async fn pass_until<T>(&self, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        loop {
            tokio::select! {
                biased;
                done = &mut done => return done,
                () = self.pass(STEP.0) => std::thread::sleep(STEP.1),
            }
        }
    }
}

/// Longer than anything takes on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until this is so. The clock may stand still.
///
/// # Panics
/// When it has not come after two minutes of real time.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it does not come: {what}");
        tokio::task::yield_now().await;
        std::thread::sleep(STEP.1);
    }
}
