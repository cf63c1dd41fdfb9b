//! What happens in a crawl, fact by fact: its journal keeps them, and its report is what they come to.
//!
//! `journal` writes a fact, and `report` counts it. A crawl that goes on replays the journal, and so has the
//! report of one never stopped.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use abide::pacing::BackoffCause;
use abide::robots_cache::RobotsEntry;
use abide::{Event, Failure, WallMillis};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::crawl::frontier::UrlKind;
use crate::crawl::page::PageRecord;
use crate::json::rfc3339_from;

/// Something that happened. Times are since the crawl began, the pauses between its runs left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fact {
    /// A request got its permit. One for a robots.txt is sent at once; those for pages are [`Fact::Sent`].
    Permit {
        host: String,
        at: Duration,
        waited: Duration,
        is_robots: bool,
    },
    /// An attempt to fetch a robots.txt ended.
    Robots {
        site: Url,
        at: Duration,
        status: Option<u16>,
    },
    Backoff {
        host: String,
        backoff: BackoffSpan,
    },
    /// A host refuses this crawler, and is held.
    Refusing {
        host: String,
        hold: Hold,
    },
    /// A request for a page or a sitemap went out.
    Sent(CrawlRequest),
    /// The address of a host is refused: of the requests to it that got their permit, all for robots.txt,
    /// none was sent in this run.
    Unsent(String),
    /// A URL was put back into the queue.
    Back(Url),
    /// Nothing more is to be done for a URL.
    Done(Box<PageRecord>),
    /// Another run goes on with the crawl.
    Resumed,
}

/// A time in which nothing is sent to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackoffSpan {
    pub(crate) from: Duration,
    pub(crate) until: Duration,
    pub(crate) why: String,
}

/// Refusals in a row, and the hold they led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    /// Who refuses, if that was recognised.
    pub(crate) by: Option<String>,
    /// The last status.
    pub(crate) status: u16,
    pub(crate) responses: u32,
    pub(crate) held_until: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CrawlRequest {
    pub(crate) kind: UrlKind,
    pub(crate) url: String,
    pub(crate) at: Duration,
    /// When the body had ended, or was dropped, or the request failed; `None` while it is under way.
    pub(crate) end: Option<Duration>,
    /// `None`: there was no response.
    pub(crate) status: Option<u16>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    started: Instant,
    /// What earlier runs took.
    before: Duration,
}

impl Stopwatch {
    pub(crate) fn going_on(before: Duration) -> Self {
        Self { started: Instant::now(), before }
    }

    pub(crate) fn at(self, time: Instant) -> Duration {
        self.before + time.saturating_duration_since(self.started)
    }
}

/// Collects what the gate reports, from when the crawl begins.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    time: OnceLock<Stopwatch>,
    facts: Mutex<Vec<Fact>>,
}

impl Watch {
    pub(crate) fn begin(&self, time: Stopwatch) {
        self.time.get_or_init(|| time);
    }

    pub(crate) fn take(&self) -> Vec<Fact> {
        std::mem::take(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        let Some(time) = self.time.get() else { return };
        if let Some(fact) = fact(event, time.at(Instant::now())) {
            self.facts.lock().unwrap_or_else(PoisonError::into_inner).push(fact);
        }
    }
}

fn fact(event: &Event<'_>, at: Duration) -> Option<Fact> {
    let backoff = |key: &str, lasts: Duration, why: String| {
        let backoff = BackoffSpan { from: at, until: at + lasts, why };
        Some(Fact::Backoff { host: key.to_owned(), backoff })
    };
    match event {
        Event::Granted { key, waited } => {
            let is_robots = OF_PAGE.try_with(|()| ()).is_err();
            Some(Fact::Permit { host: (*key).to_owned(), at, waited: *waited, is_robots })
        }
        Event::RobotsAnswered { entry } => {
            let site = entry.origin().robots_url().join("/").ok()?;
            Some(Fact::Robots { site, at, status: status(entry) })
        }
        Event::BackedOff { key, lasts, cause } => backoff(key, *lasts, why(cause)),
        Event::Refusing { key, lasts, by, responses, status } => {
            let held_until = rfc3339_from(WallMillis::from(SystemTime::now()).plus(*lasts));
            let by = by.map(|by| by.by().to_owned());
            let hold = Hold { by, status: *status, responses: *responses, held_until };
            Some(Fact::Refusing { host: (*key).to_owned(), hold })
        }
        Event::BreakerOpened { key, lasts, failure } => backoff(key, *lasts, failure.to_string()),
        _ => None,
    }
}

tokio::task_local! {
    /// Set in the tasks of pages. A request acquires its permit in its own task, and that of a robots.txt has
    /// another one.
    pub(crate) static OF_PAGE: ();
}

/// What the last attempt was answered with, also if the last good copy stands in for it.
fn status(entry: &RobotsEntry) -> Option<u16> {
    match entry.failure() {
        Some(Failure::Status(status)) => Some(status),
        Some(_) => None,
        None => entry.status(),
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
