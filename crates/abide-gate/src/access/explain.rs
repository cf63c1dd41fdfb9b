use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::{Target, Verdict};
use httpdate::fmt_http_date;

use crate::WallMillis;
use crate::access::{Access, RobotsEntry, Source};
use crate::text::Escaped;

/// Why one URL may be fetched or not: the whole of it, kept without another request. Cheap to clone.
///
/// Shown, it is one sentence; what servers sent is escaped and cut at 200 characters.
#[derive(Clone)]
pub struct Explanation {
    answer: Arc<RobotsEntry>,
    verdict: Option<Verdict>,
    is_allowed: bool,
    hop: Option<usize>,
    crawl_delay_used: Option<Duration>,
}

impl Explanation {
    pub(super) fn new(answer: Arc<RobotsEntry>, target: &Target<'_>) -> Self {
        let verdict = match answer.access() {
            Access::Rules(rules) => Some(rules.verdict(target)),
            Access::Unavailable(_) | Access::Unreachable(_) => None,
        };
        let is_allowed =
            verdict.as_ref().map_or_else(|| answer.is_allowed(target), |verdict| verdict.is_allowed());
        Self { answer, verdict, is_allowed, hop: None, crawl_delay_used: None }
    }

    /// Says which hop of the page's redirect chain it is about, the first being 0.
    #[must_use]
    pub fn at_hop(mut self, hop: usize) -> Self {
        self.hop = Some(hop);
        self
    }

    /// Says which delay between two requests was used in the end.
    #[must_use]
    pub fn with_crawl_delay_used(mut self, delay: Duration) -> Self {
        self.crawl_delay_used = Some(delay);
        self
    }

    /// Whether the URL may be fetched.
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// The verdict of the rules: rule, line, group, token. `None` if there was no robots.txt to judge by.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The answer it follows from: origin, source, times, the text itself.
    pub fn entry(&self) -> &Arc<RobotsEntry> {
        &self.answer
    }

    /// Which hop of the page's redirect chain it is about.
    pub fn hop(&self) -> Option<usize> {
        self.hop
    }

    /// The `Crawl-delay` as written.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.answer.crawl_delay()
    }

    /// The delay that was used in the end.
    pub fn crawl_delay_used(&self) -> Option<Duration> {
        self.crawl_delay_used
    }

    /// By the rules: which rule, of which group, on which line. "of" and the file follow.
    fn write_verdict(&self, f: &mut fmt::Formatter<'_>, verdict: &Verdict) -> fmt::Result {
        match verdict.rule() {
            Some(rule) => {
                let pattern = Escaped(rule.pattern().as_bytes());
                write!(f, " by \"{}: {pattern}\" on line {}", rule.kind(), rule.line())?;
                match verdict.token() {
                    Some(token) => write!(f, " (group {})", Escaped(token.as_bytes())),
                    None => f.write_str(" (group *)"),
                }
            }
            None => match verdict.reason() {
                abide_robots::Reason::NoGroup => f.write_str(", as the crawler belongs to no group"),
                abide_robots::Reason::RobotsTxt => {
                    f.write_str(", as robots.txt itself is exempt from the rules")
                }
                _ => f.write_str(", as it matches no rule"),
            },
        }
    }

    fn write_source(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = &self.answer;
        let url = answer.origin().robots_url();
        let url = Escaped(url.as_str().as_bytes());
        match answer.source() {
            Source::Fresh => write!(f, " of {url}, fetched {}", date(answer.fetched_at()))?,
            Source::Revalidated => {
                let confirmed = answer.copy().map(super::GoodCopy::validated_at);
                write!(f, " of {url}, fetched {}, confirmed {}", date(answer.fetched_at()), date(confirmed))?;
            }
            Source::LastGood => {
                write!(f, " of the last good copy of {url}, fetched {}", date(answer.fetched_at()))?;
                self.write_failure(f)?;
            }
            Source::Unavailable(why) => write!(f, ", as {url} is unavailable: {why}")?,
            Source::LongOutage => {
                write!(f, ", as {url} counts as unavailable")?;
                self.write_failure(f)?;
            }
            Source::Unreachable(cause) if self.is_allowed => {
                write!(f, ", as robots.txt itself always is, though {url} is unreachable: {cause}")?;
            }
            Source::Unreachable(cause) => {
                let (since, again) = (date(answer.failing_since()), date(Some(answer.retry_at())));
                write!(
                    f,
                    " for now, as {url} is unreachable since {since}: {cause}; asked again from {again} on"
                )?;
            }
        }
        if answer.is_truncated() {
            f.write_str(", cut at the size limit")?;
        }
        if answer.is_not_text() {
            f.write_str(", which is an HTML page without rules")?;
        }
        Ok(())
    }

    fn write_failure(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = &self.answer;
        match (answer.failing_since(), answer.failure()) {
            (Some(since), Some(cause)) => write!(f, ", unreachable since {}: {cause}", date(Some(since))),
            (Some(since), None) => write!(f, ", unreachable since {}", date(Some(since))),
            (None, Some(cause)) => write!(f, ", as {cause}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_allowed { "allowed" } else { "disallowed" })?;
        if let Some(verdict) = &self.verdict {
            self.write_verdict(f, verdict)?;
        }
        self.write_source(f)?;
        match self.hop {
            Some(hop @ 1..) => write!(f, " (redirect {hop} of the page)"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Explanation({self})")
    }
}

/// The last time that an HTTP date can show.
const SHOWN_MAX: WallMillis = WallMillis::from_millis(253_402_300_799_000);

/// A time for people, as in HTTP fields.
fn date(time: Option<WallMillis>) -> String {
    match time {
        Some(time) => fmt_http_date(time.min(SHOWN_MAX).to_system_time()),
        None => "just now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_late_to_be_shown() {
        assert_eq!(date(Some(WallMillis::from_millis(u64::MAX))), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(date(Some(WallMillis::from_millis(0))), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
