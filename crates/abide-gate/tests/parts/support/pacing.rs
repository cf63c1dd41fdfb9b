//! A server's log on virtual time, and a judge who knows nothing of the pacer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pacing::{Ask, Pacer, Refusal};
use abide_gate::pacing::{DeferReason, PacePolicy, Permit};
use abide_gate::{Clock, Host, WallMillis};
use tokio::time::{Instant, sleep};
use url::Url;

pub(crate) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The default, at a delay of one second whatever the default is: the times in these tests are counted by it.
pub(crate) fn one_second() -> PacePolicy {
    PacePolicy::default().danger_min_delay(s(1))
}

impl Pacer {
    /// With the machine's clocks, alone.
    pub(crate) fn new(policy: PacePolicy) -> Self {
        Self::builder(policy).build()
    }
}

pub(crate) fn url(text: &str) -> Url {
    text.parse().unwrap()
}

pub(crate) fn host(name: &str) -> Host {
    Host::of(&url(&format!("http://{name}/"))).unwrap()
}

/// A refusal that is a deferral.
#[derive(Debug)]
pub(crate) struct Deferral(pub(crate) Refusal);

pub(crate) fn deferral<T>(result: Result<T, Refusal>) -> Deferral {
    match result {
        Err(refusal @ Refusal::Deferred { .. }) => Deferral(refusal),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("granted"),
    }
}

impl Deferral {
    fn parts(&self) -> (&str, Duration, &DeferReason) {
        let Refusal::Deferred { scope, wait, reason, .. } = &self.0 else { panic!("{self}") };
        (scope, *wait, reason)
    }

    pub(crate) fn scope(&self) -> &str {
        self.parts().0
    }

    pub(crate) fn wait(&self) -> Duration {
        self.parts().1
    }

    pub(crate) fn reason(&self) -> &DeferReason {
        self.parts().2
    }
}

impl std::fmt::Display for Deferral {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Lags behind tokio's clock: it goes at half its speed.
#[derive(Debug)]
pub(crate) struct Lagging(pub(crate) Instant);

impl Clock for Lagging {
    fn now(&self) -> std::time::Instant {
        (self.0 + self.0.elapsed() / 2).into_std()
    }

    fn wall(&self) -> WallMillis {
        WallMillis::from_millis(0)
    }
}

/// What a server saw: who, which host, from when to when.
#[derive(Clone)]
pub(crate) struct Log {
    began: Instant,
    entries: Arc<Mutex<Vec<Entry>>>,
}

/// Who, which host, start, end.
type Entry = (usize, String, Duration, Duration);

impl Default for Log {
    fn default() -> Self {
        Self { began: Instant::now(), entries: Arc::default() }
    }
}

impl Log {
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A request that takes `wire`, and is written down.
    pub(crate) async fn fetch(
        &self,
        pacer: &Pacer,
        url: &Url,
        ask: Ask,
        wire: Duration,
    ) -> Result<(), Refusal> {
        self.fetch_as(0, pacer, url, ask, wire).await
    }

    pub(crate) async fn fetch_as(
        &self,
        who: usize,
        pacer: &Pacer,
        url: &Url,
        ask: Ask,
        wire: Duration,
    ) -> Result<(), Refusal> {
        let permit = pacer.acquire(url, ask).await?;
        self.serve(who, url, wire, permit).await;
        Ok(())
    }

    pub(crate) async fn serve(&self, who: usize, url: &Url, wire: Duration, permit: Permit) {
        let start = self.now();
        // Written down at the start, so that a cancelled request is seen as well; its end is unknown then.
        let place = self.note(who, url, start);
        let _guard = Closing { log: self.clone(), place };
        if !wire.is_zero() {
            sleep(wire).await;
        }
        drop(_guard);
        drop(permit);
    }

    fn note(&self, who: usize, url: &Url, start: Duration) -> usize {
        let mut entries = self.entries.lock().unwrap();
        let host = url.host_str().unwrap().trim_end_matches('.').to_owned();
        entries.push((who, host, start, start));
        entries.len() - 1
    }

    pub(crate) fn starts(&self, host: &str) -> Vec<Duration> {
        let entries = self.entries.lock().unwrap();
        entries.iter().filter(|entry| entry.1 == host).map(|entry| entry.2).collect()
    }

    pub(crate) fn order(&self) -> Vec<usize> {
        self.entries.lock().unwrap().iter().map(|entry| entry.0).collect()
    }

    /// Never two in flight, never inside the delay, on any host.
    pub(crate) fn judge(&self, delay: Duration) {
        let mut entries = self.entries.lock().unwrap().clone();
        entries.sort_by(|a, b| (&a.1, a.2).cmp(&(&b.1, b.2)));
        for pair in entries.windows(2) {
            let [(_, host, _, end), (_, next, start, _)] = pair else { unreachable!() };
            assert!(host != next || *start >= *end + delay, "{host}: {start:?} after an end at {end:?}");
        }
    }
}

/// Writes the end down, also when the request is cancelled.
struct Closing {
    log: Log,
    place: usize,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let now = self.log.now();
        self.log.entries.lock().unwrap()[self.place].3 = now;
    }
}
