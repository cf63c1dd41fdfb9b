//! Whether robots.txt allows a URL, and everything that explains it.
//!
//! An operator must be able to say why a page was fetched or not, so a verdict keeps the rule, its line, and the state of robots.txt that
//! it was made from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::{Record, Target};
use httpdate::fmt_http_date;
use url::Url;

use crate::WallMillis;
use crate::denied::{Denied, DeniedKind};
use crate::robots_cache::{GoodCopy, RobotsEntry, Source};
use crate::text::Escaped;

/// Whether a URL may be fetched, and why. Cheap to clone.
///
/// `Display` is one sentence, in which text of servers is escaped and cut at 200 characters.
///
/// ```
/// # use abide_gate::Verdict;
/// fn log(verdict: &Verdict) {
///     match verdict.rule() {
///         Some(rule) => println!("line {} decides: {verdict}", rule.line()),
///         None => println!("no rule covers it: {verdict}"),
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Verdict {
    /// `None` for `/robots.txt` itself: "The /robots.txt URI is implicitly allowed" (RFC 9309 §2.2.2).
    ground: Option<Ground>,
    override_reason: Option<Arc<str>>,
    tdmrep: KeptTdmrep,
}

/// What is known of the site's `/.well-known/tdmrep.json`.
#[derive(Clone)]
enum KeptTdmrep {
    NotAsked,
    /// robots.txt denies the file itself, or the page, which is fetched all the same.
    Denied,
    Entry(Arc<RobotsEntry>),
}

/// What is known of the origin's robots.txt, and what that says.
#[derive(Clone)]
struct Ground {
    entry: Arc<RobotsEntry>,
    rules: Option<abide_robots::RobotsVerdict>,
    is_allowed: bool,
}

impl Verdict {
    pub(crate) fn robots(entry: Arc<RobotsEntry>, target: &Target<'_>) -> Self {
        let rules = entry.rules().map(|rules| rules.verdict(target));
        let is_allowed =
            rules.as_ref().map_or_else(|| entry.is_allowed(target), |verdict| verdict.is_allowed());
        let ground = Some(Ground { entry, rules, is_allowed });
        Self { ground, override_reason: None, tdmrep: KeptTdmrep::NotAsked }
    }

    pub(crate) fn robots_txt() -> Self {
        Self { ground: None, override_reason: None, tdmrep: KeptTdmrep::NotAsked }
    }

    /// The same with the entry of tdmrep.json; `None`: it was not fetched, because robots.txt denies it or the page.
    pub(crate) fn with_tdmrep(self, entry: Option<Arc<RobotsEntry>>) -> Self {
        Self { tdmrep: entry.map_or(KeptTdmrep::Denied, KeptTdmrep::Entry), ..self }
    }

    /// The same; if tdmrep.json was not looked up, because the page was not going to be fetched, it is unknown.
    pub(crate) fn with_unknown_tdmrep(self) -> Self {
        if matches!(self.tdmrep, KeptTdmrep::NotAsked) { self.with_tdmrep(None) } else { self }
    }

    /// The site's `/.well-known/tdmrep.json` as it was known when this was decided, or the last good copy of it. Its JSON is unread.
    ///
    /// `None`: it was not asked for, which is the default; or the site has none, having answered with 404 or 410; or
    /// [it is unknown](Self::is_tdmrep_unknown).
    pub fn tdmrep(&self) -> Option<&[u8]> {
        let KeptTdmrep::Entry(entry) = &self.tdmrep else { return None };
        // An HTML page or an empty body is not JSON, whatever its status.
        let is_file = |copy: &&GoodCopy| {
            !copy.is_truncated() && !entry.is_not_text() && !copy.body().trim_ascii().is_empty()
        };
        entry.copy().filter(is_file).map(GoodCopy::body)
    }

    /// Whether tdmrep.json was requested and is unknown: it could not be fetched and there is no copy, or it is empty, an HTML page, or
    /// cut.
    pub fn is_tdmrep_unknown(&self) -> bool {
        match &self.tdmrep {
            KeptTdmrep::NotAsked => false,
            KeptTdmrep::Denied => true,
            KeptTdmrep::Entry(entry) => {
                let is_absent =
                    entry.copy().is_none() && matches!(entry.source(), Source::Unavailable(404 | 410));
                self.tdmrep().is_none() && !is_absent
            }
        }
    }

    pub(crate) fn overridden(self, why: Arc<str>) -> Self {
        Self { override_reason: Some(why), ..self }
    }

    /// Whether the URL may be fetched: robots.txt allows it, or its denial was overridden.
    pub fn is_allowed(&self) -> bool {
        self.override_reason.is_some() || self.ground.as_ref().is_none_or(|ground| ground.is_allowed)
    }

    /// The rule that decided; `None` if no rule matches the URL, or there is no robots.txt.
    pub fn rule(&self) -> Option<Record<'_>> {
        self.rules()?.rule()
    }

    /// The verdict of the rules alone: group, token, line. `None` if there is no robots.txt.
    pub fn rules(&self) -> Option<&abide_robots::RobotsVerdict> {
        self.ground.as_ref()?.rules.as_ref()
    }

    /// The origin's robots.txt: where it came from, its age, when it is fetched again.
    pub fn entry(&self) -> Option<&Arc<RobotsEntry>> {
        self.ground.as_ref().map(|ground| &ground.entry)
    }

    /// Where the rules came from. `None` for `/robots.txt` itself.
    pub fn source(&self) -> Option<Source> {
        self.entry().map(|answer| answer.source())
    }

    /// The Crawl-delay that the site asks for.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.entry()?.crawl_delay()
    }

    /// Whether the entry that it was made from has expired.
    pub(crate) fn has_lapsed(&self, now: WallMillis) -> bool {
        self.entry().is_some_and(|answer| answer.fresh_until() <= now)
    }

    pub(crate) fn is_robots_txt(&self) -> bool {
        self.ground.is_none()
    }

    /// Why the request is sent although robots.txt denies it; `None` if robots.txt allows it.
    pub fn override_reason(&self) -> Option<&str> {
        self.override_reason.as_deref()
    }

    /// The refusal of `url` at `now`; `None` if it is allowed.
    pub fn refusal(&self, url: &Url, now: WallMillis) -> Option<Denied> {
        if self.is_allowed() {
            return None;
        }
        let answer = self.entry()?;
        let Some(cause) = answer.unreachable() else {
            return Some(Denied::new(DeniedKind::Disallowed { verdict: self.clone() }, url, now));
        };
        let since = answer.failing_since().unwrap_or(answer.asked_at()).to_system_time();
        let kind = DeniedKind::Unreachable { since, cause };
        Some(Denied::new(kind, url, now).with_retry_at(Some(answer.retry_at())))
    }
}

impl Ground {
    /// Writes which rule decided, of which group, on which line.
    fn write_verdict(
        &self,
        f: &mut fmt::Formatter<'_>,
        verdict: &abide_robots::RobotsVerdict,
    ) -> fmt::Result {
        match verdict.rule() {
            Some(rule) => {
                let pattern = Escaped(rule.value());
                write!(f, " by \"{}: {pattern}\" on line {}", rule.kind().name(), rule.line())?;
                match verdict.token() {
                    Some(token) => write!(f, " (group {})", Escaped(token.as_bytes())),
                    None => f.write_str(" (group *)"),
                }
            }
            None if verdict.is_robots_txt() => {
                f.write_str(", because robots.txt itself is exempt from the rules")
            }
            None if !verdict.rules().has_group() => f.write_str(", because no group is for the crawler"),
            None => f.write_str(", because it matches no rule"),
        }
    }

    fn write_source(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = &self.entry;
        let url = answer.origin().robots_url();
        let url = Escaped(url.as_str().as_bytes());
        match answer.source() {
            Source::Fresh => write!(f, " of {url}, fetched {}", date(answer.fetched_at()))?,
            Source::Revalidated => {
                let confirmed = answer.copy().map(GoodCopy::validated_at);
                write!(f, " of {url}, fetched {}, confirmed {}", date(answer.fetched_at()), date(confirmed))?;
            }
            Source::LastGood => {
                write!(f, " of the last good copy of {url}, fetched {}", date(answer.fetched_at()))?;
                self.write_failure(f)?;
            }
            Source::Unavailable(status) => {
                write!(f, ", because {url} is unavailable: it returned status {status}")?;
            }
            Source::TooManyRedirects => write!(f, ", because {url} is unavailable: it redirects too often")?,
            Source::LongOutage => {
                write!(f, ", because {url} counts as unavailable")?;
                self.write_failure(f)?;
            }
            Source::Unreachable(cause) if self.is_allowed => {
                write!(f, ", because robots.txt itself always is, though {url} is unreachable: {cause}")?;
            }
            Source::Unreachable(cause) => {
                let (since, again) = (date(answer.failing_since()), date(Some(answer.retry_at())));
                write!(
                    f,
                    " for now, because {url} is unreachable since {since}: {cause}; next attempt at {again}"
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
        let answer = &self.entry;
        match (answer.failing_since(), answer.failure()) {
            (Some(since), Some(cause)) => write!(f, ", unreachable since {}: {cause}", date(Some(since))),
            (Some(since), None) => write!(f, ", unreachable since {}", date(Some(since))),
            (None, Some(cause)) => write!(f, ", because {cause}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.override_reason {
            write!(f, "fetched against robots.txt ({why}): ")?;
        }
        match &self.ground {
            Some(ground) => ground.fmt(f),
            None => f.write_str("allowed, because robots.txt itself always is"),
        }
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verdict({self})")
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_allowed { "allowed" } else { "disallowed" })?;
        if let Some(rules) = &self.rules {
            self.write_verdict(f, rules)?;
        }
        self.write_source(f)
    }
}

/// A time for people, as in HTTP fields.
pub(crate) fn date(time: Option<WallMillis>) -> String {
    // The last second that an HTTP date can show.
    const LAST: WallMillis = WallMillis::from_millis(253_402_300_799_000);
    time.map_or("just now".to_owned(), |time| fmt_http_date(time.min(LAST).to_system_time()))
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
