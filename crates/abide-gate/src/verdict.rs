//! May this URL be asked for? Yes or no, and everything that explains it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::Rule;
use url::Url;

use crate::WallMillis;
use crate::access::{Access, Explanation, RobotsEntry, Source};
use crate::error::{Denied, DeniedKind};

/// Whether a URL may be fetched, and why. Small and cheap to clone: it shares what it was made from.
///
/// Shown, it is one sentence.
#[derive(Debug, Clone)]
pub struct Verdict {
    ground: Ground,
    override_reason: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
enum Ground {
    /// By what is known of the origin's robots.txt.
    Robots(Explanation),
    /// RFC 9309 §2.2.2: "The /robots.txt URI is implicitly allowed."
    RobotsTxt,
}

impl Verdict {
    pub(crate) fn robots(explanation: Explanation) -> Self {
        Self { ground: Ground::Robots(explanation), override_reason: None }
    }

    pub(crate) fn robots_txt() -> Self {
        Self { ground: Ground::RobotsTxt, override_reason: None }
    }

    pub(crate) fn overridden(self, why: Arc<str>) -> Self {
        Self { override_reason: Some(why), ..self }
    }

    /// Whether the URL may be fetched: robots.txt allows it, or its denial was overridden.
    pub fn is_allowed(&self) -> bool {
        self.override_reason.is_some() || self.explanation().is_none_or(Explanation::is_allowed)
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

    /// Where the answer came from. `None` for `/robots.txt` itself.
    pub fn source(&self) -> Option<Source> {
        self.entry().map(|answer| answer.source())
    }

    /// The Crawl-delay that the site asks for.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.explanation()?.crawl_delay()
    }

    /// What it was made from is due to be asked for again.
    pub(crate) fn has_lapsed(&self, now: WallMillis) -> bool {
        self.entry().is_some_and(|answer| answer.fresh_until() <= now)
    }

    /// Whether it is about `/robots.txt` itself.
    pub(crate) fn is_robots_txt(&self) -> bool {
        matches!(self.ground, Ground::RobotsTxt)
    }

    /// Why the request goes out although robots.txt denies it; `None` if robots.txt allows it.
    pub fn override_reason(&self) -> Option<&str> {
        self.override_reason.as_deref()
    }

    /// The refusal that follows for `url` at `now`, unless it is allowed.
    pub fn refusal(&self, url: &Url, now: WallMillis) -> Option<Denied> {
        if self.is_allowed() {
            return None;
        }
        let answer = self.entry()?;
        let Access::Unreachable(cause) = *answer.access() else {
            return Some(Denied::new(DeniedKind::Disallowed { verdict: self.clone() }, url, now));
        };
        let since = answer.failing_since().unwrap_or(answer.asked_at()).to_system_time();
        let kind = DeniedKind::Unreachable { since, cause };
        Some(Denied::new(kind, url, now).with_retry_at(Some(answer.retry_at())))
    }

    fn explanation(&self) -> Option<&Explanation> {
        match &self.ground {
            Ground::Robots(explanation) => Some(explanation),
            Ground::RobotsTxt => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.override_reason {
            write!(f, "fetched against robots.txt ({why}): ")?;
        }
        match &self.ground {
            Ground::Robots(explanation) => explanation.fmt(f),
            Ground::RobotsTxt => f.write_str("allowed, as robots.txt itself always is"),
        }
    }
}
