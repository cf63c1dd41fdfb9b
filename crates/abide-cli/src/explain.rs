//! `abide explain`: the robots.txt with the line that decides, and why.
//!
//! For the authors of sites and crawlers who ask why a URL is denied: the verdict of `match` or `check`, with
//! the lines that led to it.

use std::path::Path;

use abide::pacing::{DELAY_MAX, FILE_DELAY_MAX};
use abide::robots_cache::{RobotsEntry, Source};
use abide::{Abide, Verdict, WallMillis};
use abide_robots::{ProductToken, Record, RecordKind, Robots, RobotsVerdict, Rules, Target};
use annotate_snippets::Level;
use serde::Serialize;
use url::Url;

use crate::args::{ExplainArgs, Online};
use crate::check::{self, Checked};
use crate::excerpt::{self, Mark};
use crate::input::{self, absolute_urls, name, robots_and_urls, tokens};
use crate::json::{Match, rfc3339, rfc3339_from, source_name};
use crate::sanitize::{count, cut, public, span};
use crate::status::{Status, UsageError};
use crate::{findings, online, style};

/// One line of `--json`: that of `check`, or of `match` for a file, and the lines that had a part in it.
#[derive(Debug, Serialize)]
struct ExplainLine<T> {
    #[serde(flatten)]
    verdict: T,
    marks: Vec<Marked>,
    #[serde(flatten)]
    facts: Option<Facts>,
}

#[derive(Debug, Serialize)]
struct Marked {
    line: u32,
    text: String,
    why: String,
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Status> {
    if let Some(path) = &args.robots {
        return offline(args, path);
    }
    let urls = absolute_urls(&args.urls)?;
    let online = args.online.with_rules_of(&args.rules_of);
    online::run(&online, async |abide, _| {
        let show = |checked: &Checked<'_>| {
            if args.online.output.json {
                print_json(&abide, args, checked)
            } else {
                print(&abide, args, checked)
            }
        };
        check::each(&online, &urls, &abide, show).await
    })
}

fn offline(args: &ExplainArgs, path: &Path) -> anyhow::Result<Status> {
    let (body, texts) = robots_and_urls(path, &args.urls)?;
    let named = &args.rules_of.tokens;
    let agents = if named.is_empty() { &args.online.tokens() } else { named };
    let (robots, rules) = (Robots::parse(&body), Rules::parse(&body, &tokens(agents).map_err(UsageError)?));
    input::each(&texts, args.online.output.json, |text, url| {
        let target = url.target();
        let verdict = rules.verdict(&target);
        let status = Status::of(verdict.is_allowed());
        if !style::shows(status) {
            return Ok(status);
        }
        if args.online.output.json {
            let marks = marked(&robots, &verdict, &target);
            let verdict = Match::new(Some(public(text).into()), &verdict);
            style::print_json(&ExplainLine { verdict, marks, facts: None })?;
        } else {
            let mark = style::mark(verdict.is_allowed());
            style::say_verdict(mark, &public(text), &verdict.to_string())?;
            excerpt(&robots, &name(path), &verdict, &target)?;
        }
        Ok(status)
    })
}

fn marked(robots: &Robots, verdict: &RobotsVerdict, target: &Target<'_>) -> Vec<Marked> {
    let lines: Vec<&[u8]> = robots.lines().collect();
    let text = |number| {
        let line = excerpt::line(&lines, number).unwrap_or_default();
        String::from_utf8_lossy(&line).into_owned()
    };
    let marks = marks(robots, verdict, target).into_iter();
    marks.map(|mark| Marked { line: mark.line, text: text(mark.line), why: mark.label }).collect()
}

fn print_json(abide: &Abide, args: &ExplainArgs, checked: &Checked<'_>) -> anyhow::Result<()> {
    let verdict = checked.result.as_ref().ok();
    let found = verdict.and_then(robots);
    let marks = found.map(|(robots, rules)| marked(&robots, rules, &Target::of(&checked.url)));
    let entry = verdict.and_then(Verdict::entry);
    style::print_json(&ExplainLine {
        verdict: checked.line(abide),
        marks: marks.unwrap_or_default(),
        facts: Some(entry.map(|entry| Facts::of(entry, &args.online)).unwrap_or_default()),
    })
}

fn print(abide: &Abide, args: &ExplainArgs, checked: &Checked<'_>) -> anyhow::Result<()> {
    checked.explain(abide)?;
    let Ok(verdict) = &checked.result else { return Ok(()) };
    if let Some((robots, rules)) = robots(verdict) {
        let path = verdict.entry().and_then(|entry| entry.final_url());
        let path = path.as_ref().map(Url::as_str).unwrap_or_default();
        excerpt(&robots, path, rules, &Target::of(&checked.url))?;
    }
    let now = abide.gate().wall();
    let lines = verdict.entry().map(|entry| facts(entry, &args.online, now));
    Ok(lines.into_iter().flatten().try_for_each(|line| style::say(&[(style::DIM, &line)]))?)
}

/// Where a robots.txt came from, how old it is, until when it counts: the keys of `--json` behind those of
/// `check`.
#[derive(Debug, Default, Serialize)]
struct Facts {
    fetched_at: Option<String>,
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
    fn of(answer: &RobotsEntry, online: &Online) -> Self {
        let delay = online::delay_of(online, &answer.origin().robots_url());
        Self {
            fetched_at: answer.fetched_at().map(rfc3339),
            fresh_until: Some(rfc3339_from(answer.fresh_until())),
            failing_since: answer.failing_since().map(rfc3339),
            attempts: answer.attempts(),
            truncated: answer.is_truncated(),
            not_text: answer.is_not_text(),
            remarks: answer
                .copy()
                .map_or(0, |copy| findings::of(&Robots::parse(copy.body()), copy.is_truncated()).len()),
            delay_s: Some(answer.crawl_delay().unwrap_or_default().max(delay).as_secs_f64()),
        }
    }
}

/// These facts for people.
fn facts(answer: &RobotsEntry, online: &Online, now: WallMillis) -> Vec<String> {
    let facts = Facts::of(answer, online);
    let mut parts = vec![source_name(Some(answer.source())).replace('_', " ")];
    parts.extend(answer.status().map(|status| format!("status {status}")));
    parts.extend(answer.age(now).map(|age| format!("{} old", span(age.as_secs()))));
    let attempts = count(answer.attempts() as usize, "attempt");
    parts.extend(facts.failing_since.map(|since| format!("{attempts} failed since {since}")));
    parts.push(match answer.source() {
        Source::Unreachable(_) | Source::LastGood => {
            format!("next attempt at {}", rfc3339_from(answer.retry_at()))
        }
        _ => format!("cached until {}", rfc3339_from(answer.fresh_until())),
    });
    let elsewhere = answer.final_url().filter(|url| *url != answer.origin().robots_url());
    parts.extend(elsewhere.map(|url| format!("redirected to {url}")));
    parts.extend(facts.truncated.then(|| "cut at the parsing limit".to_owned()));
    parts.extend(facts.not_text.then(|| "HTML without one rule".to_owned()));
    parts.extend((facts.remarks > 0).then(|| format!("{} (abide lint)", count(facts.remarks, "remark"))));
    let mut lines = vec![format!("robots.txt: {}", parts.join(", "))];
    if let (Some(asked), Some(kept)) =
        (answer.crawl_delay().filter(|asked| *asked <= DELAY_MAX), facts.delay_s)
    {
        // It must be fresh when a page is requested, and is for a day at most.
        let (between, files) = match asked > FILE_DELAY_MAX {
            true => ("pages", "; robots.txt is requested at our own delay"),
            false => ("requests", ""),
        };
        let asked = asked.as_secs_f64();
        lines.push(format!("Crawl-delay: {asked} s asked for, {kept} s kept between two {between}{files}"));
    }
    lines
}

/// The line that decides, among those that had a part in it.
fn excerpt(robots: &Robots, path: &str, verdict: &RobotsVerdict, target: &Target<'_>) -> anyhow::Result<()> {
    let marks = marks(robots, verdict, target);
    if marks.is_empty() {
        return Ok(());
    }
    let (path, target) = (cut(path), cut(target.as_str()));
    let snippet = excerpt::snippet(&robots.lines().collect::<Vec<_>>(), &path, &marks);
    let word = if verdict.is_allowed() { "allowed" } else { "disallowed" };
    let title = Level::NOTE.primary_title(format!("this is why {target} is {word}"));
    style::say::<&str>(&[])?;
    Ok(excerpt::print(&[title.element(snippet)])?)
}

/// The text that the URL was checked against, if there is one, and what its rules say.
fn robots(verdict: &Verdict) -> Option<(Robots, &RobotsVerdict)> {
    Some((Robots::parse(verdict.entry()?.copy()?.body()), verdict.rules()?))
}

/// The rule that decides, the group it stands in, and the rules that would have decided without it.
fn marks(robots: &Robots, verdict: &RobotsVerdict, target: &Target<'_>) -> Vec<Mark> {
    let token = verdict.token().and_then(|token| ProductToken::lenient(token).ok());
    let applies = |record: &Record<'_>| record.addresses(token.as_ref());
    let deciding = verdict.rule().map(|rule| rule.line());
    let mut marks = Vec::new();
    for group in robots.groups().filter(|group| group.iter().any(applies)) {
        for record in group {
            let is_deciding = Some(record.line()) == deciding;
            let used = record.value().get(..VALUE_MAX).unwrap_or(record.value());
            let label = match record.kind() {
                RecordKind::UserAgent if applies(&record) => "this group applies",
                RecordKind::Allow | RecordKind::Disallow if is_deciding => "this rule decides",
                RecordKind::Allow if used.len() < record.value().len() => continue,
                RecordKind::Allow | RecordKind::Disallow if target.covered_by(used).is_some() => {
                    "also matches, but is overridden"
                }
                _ => continue,
            };
            // The deciding rule is shown wherever it stands.
            if marks.len() < MARKS_MAX || is_deciding {
                marks.push(mark(&record, robots, label, is_deciding));
            }
        }
    }
    marks
}

fn mark(record: &Record<'_>, robots: &Robots, label: &str, is_primary: bool) -> Mark {
    let line = robots.line(record.line()).unwrap_or_default();
    // The comment behind a rule is no part of it.
    let written = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii_end();
    let start = line.len() - line.trim_ascii_start().len();
    let columns = start + 1..written.len().max(start) + 1;
    Mark { line: record.line(), columns, label: label.to_owned(), is_primary }
}

/// More marks than this hide what they shall show.
const MARKS_MAX: usize = 20;
/// A longer Allow is dropped, and of a longer Disallow the beginning counts.
const VALUE_MAX: usize = 16 * 1024;
