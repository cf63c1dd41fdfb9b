//! What the gate reports while it works: permits, backoffs, answers of robots.txt, stores that fail.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use abide::pacing::BackoffCause;
use abide::robots_cache::RobotsEntry;
use abide::{Event, Failure};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::style;

/// Sees every event. A store that fails is reported at once; the rest is kept when a crawl wants it for its report.
#[derive(Debug)]
pub(crate) struct GateObserver {
    started: Instant,
    keeps: bool,
    is_store_reported: AtomicBool,
    log: Mutex<Log>,
}

/// What was seen since the beginning, by host.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) hosts: HashMap<String, HostEvents>,
}

/// What was seen of one host. Times are since the beginning.
#[derive(Debug, Default)]
pub(crate) struct HostEvents {
    /// Every request that got its permit, robots.txt included, in order.
    pub(crate) permits: Vec<Duration>,
    pub(crate) waited: Duration,
    pub(crate) longest_wait: Duration,
    pub(crate) backoffs: Vec<Backoff>,
    /// Answers of its robots.txt, in order.
    pub(crate) answers: Vec<Answered>,
    /// Of an origin whose robots.txt was asked for.
    pub(crate) root: Option<Url>,
}

/// A time in which nothing may be asked of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Backoff {
    pub(crate) from: Duration,
    pub(crate) until: Duration,
    pub(crate) why: String,
}

/// The end of a robots.txt request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) at: Duration,
    pub(crate) status: Option<u16>,
}

impl GateObserver {
    /// Only reports stores that fail.
    pub(crate) fn stores() -> Self {
        Self::new(false)
    }

    /// Keeps what a report is made of, too.
    pub(crate) fn all() -> Self {
        Self::new(true)
    }

    fn new(keeps: bool) -> Self {
        Self {
            started: Instant::now(),
            keeps,
            is_store_reported: AtomicBool::new(false),
            log: Mutex::default(),
        }
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// What was seen, which is forgotten here.
    pub(crate) fn take(&self) -> Log {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The store is closed from here on, and what fails later is not reported.
    pub(crate) fn is_over(&self) {
        self.is_store_reported.store(true, Ordering::Relaxed);
    }

    fn store_failed(&self, error: &str) {
        if !self.is_store_reported.swap(true, Ordering::Relaxed) {
            style::complain(format_args!("{error}; going on with what is in memory"));
        }
    }

    /// Changes what is known of one host.
    fn note(&self, host: &str, change: impl FnOnce(&mut HostEvents, Duration)) {
        if !self.keeps {
            return;
        }
        let now = self.started.elapsed();
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        match log.hosts.get_mut(host) {
            Some(seen) => change(seen, now),
            None => change(log.hosts.entry(host.to_owned()).or_default(), now),
        }
    }
}

impl GateObserver {
    /// For the builder.
    pub(crate) fn for_builder(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let this = Arc::clone(self);
        Arc::new(move |event| this.observe(event))
    }

    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Granted { scope, waited } => self.note(scope, |seen, now| {
                seen.permits.push(now);
                seen.waited += *waited;
                seen.longest_wait = seen.longest_wait.max(*waited);
            }),
            Event::BackedOff { scope, lasts, cause } => self.note(scope, |seen, now| {
                seen.back_off(Backoff { from: now, until: now + *lasts, why: why(cause) });
            }),
            Event::BreakerOpened { scope, lasts, failure } => self.note(scope, |seen, now| {
                seen.back_off(Backoff { from: now, until: now + *lasts, why: failure.to_string() });
            }),
            Event::StoreDown { reason } => self.store_failed(reason),
            Event::RobotsAnswered { entry: answer } => {
                let (host, status) = (answer.origin().host(), status(answer));
                self.note(host.as_str(), |seen, at| {
                    seen.answers.push(Answered { at, status });
                    seen.root = seen.root.take().or_else(|| answer.origin().robots_url().join("/").ok());
                });
            }
            Event::RobotsStoreFailed { error, .. } => self.store_failed(&error.to_string()),
            _ => {}
        }
    }
}

impl HostEvents {
    /// One that extends the backoff in force is the same backoff.
    fn back_off(&mut self, backoff: Backoff) {
        let last = self.backoffs.last_mut().filter(|last| backoff.from < last.until);
        if let Some(last) = last {
            last.until = last.until.max(backoff.until);
        } else if self.backoffs.len() < BACKOFFS_MAX {
            self.backoffs.push(backoff);
        }
    }
}

/// What the last attempt was answered with, also if the last good copy stands in for it.
fn status(answer: &RobotsEntry) -> Option<u16> {
    match answer.failure() {
        Some(Failure::Status(status)) => Some(status),
        Some(_) => None,
        None => answer.status(),
    }
}

fn why(cause: &BackoffCause) -> String {
    match cause {
        BackoffCause::Answer { status, retry_after: Some(asked) } => {
            format!("{status}, Retry-After {} s", asked.as_secs())
        }
        BackoffCause::Answer { status, retry_after: None } => status.to_string(),
        BackoffCause::EnhanceYourCalm => "ENHANCE_YOUR_CALM".to_owned(),
        BackoffCause::Operator => "the operator".to_owned(),
        BackoffCause::Shared => "another process".to_owned(),
        _ => "backed off".to_owned(),
    }
}

/// Of one host, for the report: more is not readable.
const BACKOFFS_MAX: usize = 1000;
