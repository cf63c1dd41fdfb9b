//! May this URL be asked for? Yes or no, and everything that explains it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::Rule;
use url::Url;

use crate::access::{Access, Explanation, RobotsEntry, Source};
use crate::error::Denied;
use crate::{Failure, WallMillis};

/// Whether a URL may be fetched, and why. Small and cheap to clone: it shares what it was made from.
///
/// Shown, it is one sentence.
#[derive(Debug, Clone)]
pub struct Verdict {
    ground: Ground,
}

#[derive(Debug, Clone)]
enum Ground {
    /// By what is known of the origin's robots.txt.
    Robots(Explanation),
    /// RFC 9309 §2.2.2: "The /robots.txt URI is implicitly allowed."
    RobotsTxt,
    /// Its owner said so; what robots.txt says is not asked.
    Override { why: Arc<str>, crawl_delay: Option<Duration> },
}

impl Verdict {
    pub(crate) fn robots(explanation: Explanation) -> Self {
        Self { ground: Ground::Robots(explanation) }
    }

    pub(crate) fn robots_txt() -> Self {
        Self { ground: Ground::RobotsTxt }
    }

    pub(crate) fn overridden(why: Arc<str>, crawl_delay: Option<Duration>) -> Self {
        Self { ground: Ground::Override { why, crawl_delay } }
    }

    /// Whether the URL may be fetched.
    pub fn is_allowed(&self) -> bool {
        self.explanation().is_none_or(Explanation::is_allowed)
    }

    /// The rule that decided; `None` if none covers the URL, or there is no robots.txt to judge by.
    pub fn rule(&self) -> Option<Rule<'_>> {
        self.rules()?.rule()
    }

    /// The verdict of the rules alone: group, token, line. `None` if there is no robots.txt to judge by.
    pub fn rules(&self) -> Option<&abide_robots::Verdict> {
        self.explanation()?.verdict()
    }

    /// What is known of the origin's robots.txt: where it came from, its age, when it is asked again.
    pub fn entry(&self) -> Option<&Arc<RobotsEntry>> {
        self.explanation().map(Explanation::entry)
    }

    /// Where the answer came from. `None` for `/robots.txt` itself and for overrides.
    pub fn source(&self) -> Option<Source> {
        self.entry().map(|answer| answer.source())
    }

    /// The Crawl-delay that the site asks for.
    pub fn crawl_delay(&self) -> Option<Duration> {
        match &self.ground {
            Ground::Robots(explanation) => explanation.crawl_delay(),
            Ground::RobotsTxt => None,
            Ground::Override { crawl_delay, .. } => *crawl_delay,
        }
    }

    /// What it was made from is due to be asked for again.
    pub(crate) fn has_lapsed(&self, now: WallMillis) -> bool {
        self.entry().is_some_and(|answer| answer.fresh_until() <= now)
    }

    /// Whether it is about `/robots.txt` itself.
    pub(crate) fn is_robots_txt(&self) -> bool {
        matches!(self.ground, Ground::RobotsTxt)
    }

    /// The reason for which robots.txt was passed over, if it was.
    pub fn override_reason(&self) -> Option<&str> {
        match &self.ground {
            Ground::Override { why, .. } => Some(why),
            _ => None,
        }
    }

    /// The refusal that follows for `url`, unless it is allowed.
    pub fn refusal(&self, url: &Url) -> Option<Denied> {
        if self.is_allowed() {
            return None;
        }
        let url = crate::without_userinfo(url);
        let answer = self.entry()?;
        Some(match answer.access() {
            Access::Unreachable(cause) => unreachable(url, answer, *cause),
            Access::Rules(_) | Access::Unavailable(_) => {
                Denied::Disallowed { url, verdict: self.clone(), hop: 0 }
            }
        })
    }

    fn explanation(&self) -> Option<&Explanation> {
        match &self.ground {
            Ground::Robots(explanation) => Some(explanation),
            Ground::RobotsTxt | Ground::Override { .. } => None,
        }
    }
}

fn unreachable(url: Url, answer: &RobotsEntry, cause: Failure) -> Denied {
    Denied::Unreachable {
        url,
        since: answer.failing_since().unwrap_or(answer.asked_at()).to_system_time(),
        cause,
        retry_at: answer.retry_at().to_system_time(),
        hop: 0,
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ground {
            Ground::Robots(explanation) => explanation.fmt(f),
            Ground::RobotsTxt => f.write_str("allowed, as robots.txt itself always is"),
            Ground::Override { why, .. } => write!(f, "allowed against robots.txt: {why}"),
        }
    }
}
