//! What is known of a robots.txt beside its text: where it came from, how old it is, until when it counts.

use std::time::Duration;

use abide::WallMillis;
use abide::robots_cache::{RobotsEntry, Source};
use abide_robots::Robots;
use serde::Serialize;

use crate::findings;
use crate::json::{rfc3339, source_name};
use crate::sanitize::{count, span};

/// Of `explain --json`, behind the keys of `check`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Facts {
    /// When the body was received.
    fetched_at: Option<String>,
    /// Until when the answer counts.
    fresh_until: Option<String>,
    failing_since: Option<String>,
    /// Attempts that have failed in a row.
    attempts: u32,
    /// Cut at the parsing limit (RFC 9309 §2.5).
    truncated: bool,
    /// HTML without one rule line.
    not_text: bool,
    /// How many findings `lint` has.
    remarks: usize,
    /// What lies between two requests: the larger of ours and theirs.
    delay_s: Option<f64>,
}

impl Facts {
    /// `delay`: ours.
    pub(crate) fn of(answer: &RobotsEntry, delay: Duration) -> Self {
        Self {
            fetched_at: answer.fetched_at().map(rfc3339),
            fresh_until: Some(rfc3339(answer.fresh_until())),
            failing_since: answer.failing_since().map(rfc3339),
            attempts: answer.attempts(),
            truncated: answer.is_truncated(),
            not_text: answer.is_not_text(),
            remarks: answer.copy().map_or(0, |copy| findings::of(&Robots::parse(copy.body())).len()),
            delay_s: Some(answer.crawl_delay().unwrap_or_default().max(delay).as_secs_f64()),
        }
    }
}

/// The same for people.
pub(crate) fn lines(answer: &RobotsEntry, delay: Duration, now: WallMillis) -> Vec<String> {
    let facts = Facts::of(answer, delay);
    let mut parts = vec![source_name(Some(answer.source())).replace('_', " ")];
    parts.extend(answer.status().map(|status| format!("status {status}")));
    parts.extend(answer.age(now).map(|age| format!("{} old", span(age.as_secs()))));
    if let Some(since) = &facts.failing_since {
        parts.push(format!("{} failed since {since}", count(answer.attempts() as usize, "attempt")));
    }
    parts.push(match answer.source() {
        Source::Unreachable(_) | Source::LastGood => {
            format!("next attempt at {}", rfc3339(answer.retry_at()))
        }
        _ => format!("cached until {}", rfc3339(answer.fresh_until())),
    });
    let elsewhere = answer.final_url().filter(|url| *url != answer.origin().robots_url());
    parts.extend(elsewhere.map(|url| format!("redirected to {url}")));
    let remarks = format!("{} (abide lint)", count(facts.remarks, "remark"));
    for (is, what) in [
        (facts.truncated, "cut at the parsing limit"),
        (facts.not_text, "HTML without one rule"),
        (facts.remarks > 0, remarks.as_str()),
    ] {
        parts.extend(is.then(|| what.to_owned()));
    }
    let mut lines = vec![format!("robots.txt: {}", parts.join(", "))];
    if let (Some(asked), Some(kept)) = (answer.crawl_delay(), facts.delay_s) {
        lines.push(format!(
            "Crawl-delay: {} s asked for, {kept} s kept between two requests",
            asked.as_secs_f64()
        ));
    }
    lines
}
