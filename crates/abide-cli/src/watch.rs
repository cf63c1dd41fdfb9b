//! What the gate tells while it works: turns, holds, answers of robots.txt, stores that fail.

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

/// Hears of everything. A store that fails is told at once; the rest is kept when a crawl wants it for its report.
#[derive(Debug)]
pub(crate) struct Watch {
    started: Instant,
    keeps: bool,
    is_store_told: AtomicBool,
    log: Mutex<Log>,
}

/// What was heard since the beginning, by host.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) hosts: HashMap<String, Heard>,
}

/// What was heard of one host. Times are since the beginning.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Every request that got its turn, robots.txt included, in order.
    pub(crate) turns: Vec<Duration>,
    pub(crate) waited: Duration,
    pub(crate) longest_wait: Duration,
    pub(crate) holds: Vec<Hold>,
    /// Answers of its robots.txt, in order.
    pub(crate) answers: Vec<Answered>,
    /// Of an origin whose robots.txt was asked for.
    pub(crate) root: Option<Url>,
}

/// A time in which nothing may be asked of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
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

impl Watch {
    /// Only tells of stores that fail.
    pub(crate) fn stores() -> Self {
        Self::new(false)
    }

    /// Keeps what a report is made of, too.
    pub(crate) fn all() -> Self {
        Self::new(true)
    }

    fn new(keeps: bool) -> Self {
        Self { started: Instant::now(), keeps, is_store_told: AtomicBool::new(false), log: Mutex::default() }
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// What was heard, which is forgotten here.
    pub(crate) fn take(&self) -> Log {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The store is closed from here on, and who comes late need not be told.
    pub(crate) fn is_over(&self) {
        self.is_store_told.store(true, Ordering::Relaxed);
    }

    fn store_failed(&self, error: &str) {
        if !self.is_store_told.swap(true, Ordering::Relaxed) {
            style::complain(format_args!("{error}; going on with what is in memory"));
        }
    }

    /// Changes what is known of one host.
    fn note(&self, host: &str, change: impl FnOnce(&mut Heard, Duration)) {
        if !self.keeps {
            return;
        }
        let now = self.started.elapsed();
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        match log.hosts.get_mut(host) {
            Some(heard) => change(heard, now),
            None => change(log.hosts.entry(host.to_owned()).or_default(), now),
        }
    }
}

impl Watch {
    /// For the builder.
    pub(crate) fn observer(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let this = Arc::clone(self);
        Arc::new(move |event| this.observe(event))
    }

    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Granted { scope, waited } => self.note(scope, |heard, now| {
                heard.turns.push(now);
                heard.waited += *waited;
                heard.longest_wait = heard.longest_wait.max(*waited);
            }),
            Event::BackedOff { scope, lasts, cause } => self.note(scope, |heard, now| {
                heard.hold(Hold { from: now, until: now + *lasts, why: why(cause) });
            }),
            Event::BreakerOpened { scope, lasts, failure } => self.note(scope, |heard, now| {
                heard.hold(Hold { from: now, until: now + *lasts, why: failure.to_string() });
            }),
            Event::StoreDown { reason } => self.store_failed(reason),
            Event::RobotsAnswered { entry: answer } => {
                let (host, status) = (answer.origin().host(), status(answer));
                self.note(host.as_str(), |heard, at| {
                    heard.answers.push(Answered { at, status });
                    heard.root = heard.root.take().or_else(|| answer.origin().robots_url().join("/").ok());
                });
            }
            Event::RobotsStoreFailed { error, .. } => self.store_failed(&error.to_string()),
            _ => {}
        }
    }
}

impl Heard {
    /// One that extends the hold in force is the same hold.
    fn hold(&mut self, hold: Hold) {
        let last = self.holds.last_mut().filter(|last| hold.from < last.until);
        if let Some(last) = last {
            last.until = last.until.max(hold.until);
        } else if self.holds.len() < HOLDS_MAX {
            self.holds.push(hold);
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
        _ => "held".to_owned(),
    }
}

/// Of one host, for the report: nobody looks at more.
const HOLDS_MAX: usize = 1000;
