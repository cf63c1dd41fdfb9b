//! Reporting bodies that stay open: a task that looks for them.
//!
//! A response that is never read keeps its host busy, and a crawler that waits for its own response is not
//! even deferred: without a report it stands still and says nothing. One task a pacer, while something is in
//! flight. It wakes when the oldest response comes of age, so in a busy crawl once a minute.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use super::pacer::Pacer;
use crate::clock::{Moment, has_timers};
use crate::event::Event;

/// A response that has been open for as long is reported.
const OPEN_MAX: Duration = Duration::from_secs(60);

/// A clock that stands still shall not keep the processor busy.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Starts the task, unless it runs. The permit calls it when a request goes on the wire.
pub(crate) fn watch(pacer: &Arc<Pacer>) {
    let is_watched = &pacer.is_watched;
    if is_watched.swap(true, Ordering::AcqRel) {
        return;
    }
    match Handle::try_current() {
        // Without timers it stays on, so that this is not tried again for each request.
        Ok(runtime) if has_timers() => {
            drop(runtime.spawn(run(Watching(Arc::downgrade(pacer)), pacer.now_or_system())));
        }
        Ok(_) => {}
        // Granted outside of a runtime: the next may not be.
        Err(_) => is_watched.store(false, Ordering::Release),
    }
}

impl Pacer {
    /// Reports what has come of age since `seen`. Returns when the next does, if something is in flight that
    /// may.
    fn report_open(&self, seen: Moment, now: Moment) -> Option<Duration> {
        let (mut open, mut next) = (Vec::new(), None::<Moment>);
        self.hosts.for_each(|host| {
            if host.in_flight == 0 {
                return;
            }
            let (since, of_age) = (host.open_since(), host.open_since().plus(OPEN_MAX));
            if of_age > now {
                next = Some(next.map_or(of_age, |next| next.min(of_age)));
            } else if of_age > seen {
                open.push((Arc::clone(&host.key), now.since(since)));
            }
        });
        for (key, open) in open {
            self.observers.notify(&Event::BodyOpen { key: &key, open });
        }
        next.map(|at| at.since(now).max(PAUSE_MIN))
    }
}

async fn run(mut watching: Watching, mut seen: Moment) {
    let mut pause = OPEN_MAX;
    loop {
        sleep(pause).await;
        let Some(pacer) = watching.0.upgrade() else { return };
        // Off before it looks: a request that starts meanwhile is seen here, or begins a watch of its own.
        pacer.is_watched.store(false, Ordering::Release);
        let now = pacer.now_or_system();
        match pacer.report_open(seen, now) {
            Some(next) if !pacer.is_watched.swap(true, Ordering::AcqRel) => (seen, pause) = (now, next),
            _ => {
                // Nothing is in flight, or another watch has begun, which `watching` must not turn off.
                watching.0 = Weak::new();
                return;
            }
        }
    }
}

/// The task. If its runtime goes down, the next request begins another.
struct Watching(Weak<Pacer>);

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(pacer) = self.0.upgrade() {
            pacer.is_watched.store(false, Ordering::Release);
        }
    }
}
