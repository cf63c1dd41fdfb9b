//! `abide explain`: the robots.txt with the line that decides, and why.

use std::path::Path;
use std::sync::Arc;

use abide::{Abide, Verdict};
use abide_robots::{Pattern, ProductToken, Record, RecordKind, Robots, RobotsVerdict, Rules, Target};
use annotate_snippets::Level;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use url::Url;

use crate::args::ExplainArgs;
use crate::check::{self, Judged};
use crate::excerpt::{self, Excerpt, Mark};
use crate::facts::{self, Facts};
use crate::input::{absolute, absolute_urls, name, parse_urls, read_file, tokens, urls};
use crate::json::Match;
use crate::observer::GateObserver;
use crate::online::{self, Interruption};
use crate::sanitize::{cut, public};
use crate::{Status, Usage, style};

/// One line of `--json`: that of `check`, and the lines that had a part in it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    check: check::Line<'a>,
    marks: Vec<Marked>,
    #[serde(flatten)]
    facts: Facts,
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
    let texts = absolute_urls(&args.urls)?;
    let urls: Vec<Url> = texts.iter().map(|text| absolute(text)).collect::<Result<_, _>>()?;
    let observer = Arc::new(GateObserver::stores());
    online::run(&args.online, &observer, Interruption::Ends, async |abide, _| {
        let mut status = Status::Done;
        let mut answers =
            std::pin::pin!(check::answers(&args.online, &texts, &abide).zip(stream::iter(&urls)));
        while let Some(((text, result), url)) = answers.next().await {
            status = status.and(Status::of(result.as_ref().is_ok_and(Verdict::is_allowed)));
            if args.online.output.json {
                print_json(&abide, args, text, url, &result)?;
            } else {
                print(&abide, args, text, url, &result)?;
            }
        }
        Ok(status)
    })
}

/// The line of `--json` for a file: that of `match`, and the marks.
#[derive(Debug, Serialize)]
struct Offline {
    #[serde(flatten)]
    verdict: Match,
    marks: Vec<Marked>,
}

/// By a file, without a network.
fn offline(args: &ExplainArgs, path: &Path) -> anyhow::Result<Status> {
    if path == Path::new("-") && args.urls.urls.iter().any(|url| url == "-") {
        return Err(Usage("standard input can hold the robots.txt or the URLs, not both".to_owned()).into());
    }
    let texts = urls(&args.urls)?;
    let asked = parse_urls(&texts)?;
    let body = read_file(path)?;
    let (robots, rules) =
        (Robots::parse(&body), Rules::parse(&body, &tokens(&args.online.agent).map_err(Usage)?));
    let mut status = Status::Done;
    for (text, url) in texts.iter().zip(&asked) {
        let target = url.target();
        let verdict = rules.verdict(&target);
        status = status.and(Status::of(verdict.is_allowed()));
        let marks = marks(&robots, Some(&verdict), &target);
        if args.online.output.json {
            let excerpt = Excerpt::of(robots.text());
            let marks = marks.into_iter().map(|mark| marked(mark, &excerpt)).collect();
            online::print_json(&Offline { verdict: Match::new(Some(public(text).into()), &verdict), marks })?;
        } else {
            let said = format!("  {}  {verdict}", public(text));
            style::say(&[style::mark(verdict.is_allowed()), (style::PLAIN, &said)])?;
            excerpt(&robots, &name(path), &marks, verdict.is_allowed(), &target)?;
        }
    }
    Ok(status)
}

fn marked(mark: Mark, excerpt: &Excerpt<'_>) -> Marked {
    Marked {
        line: mark.line,
        text: String::from_utf8_lossy(excerpt.line(mark.line)).into_owned(),
        why: mark.label,
    }
}

fn print_json(
    abide: &Abide,
    args: &ExplainArgs,
    text: &str,
    url: &Url,
    result: &Judged,
) -> anyhow::Result<()> {
    let robots = result.as_ref().ok().and_then(robots);
    let marks = robots.as_ref().map(|robots| {
        let excerpt = Excerpt::of(robots.text());
        let rules = result.as_ref().ok().and_then(Verdict::rules);
        marks(robots, rules, &Target::of(url)).into_iter().map(|mark| marked(mark, &excerpt)).collect()
    });
    let answer = result.as_ref().ok().and_then(Verdict::entry);
    let facts = answer.map(|answer| Facts::of(answer, args.online.delay)).unwrap_or_default();
    online::print_json(&Line {
        check: check::line(abide, text, result),
        marks: marks.unwrap_or_default(),
        facts,
    })
}

fn print(abide: &Abide, args: &ExplainArgs, text: &str, url: &Url, result: &Judged) -> anyhow::Result<()> {
    check::print(abide, text, result)?;
    let Ok(verdict) = result else { return Ok(()) };
    if let Some(robots) = robots(verdict) {
        let path = verdict.entry().and_then(|answer| answer.final_url());
        let path = path.as_ref().map(Url::as_str).unwrap_or_default();
        let target = Target::of(url);
        let marks = marks(&robots, verdict.rules(), &target);
        excerpt(&robots, path, &marks, verdict.is_allowed(), &target)?;
    }
    let now = abide.gate_handle().wall();
    let lines = verdict.entry().map(|answer| facts::lines(answer, args.online.delay, now));
    lines.into_iter().flatten().try_for_each(|line| style::say(&[(style::DIM, &line)]))?;
    Ok(())
}

/// The line that decides, among those that had a part in it.
fn excerpt(
    robots: &Robots,
    path: &str,
    marks: &[Mark],
    is_allowed: bool,
    target: &Target<'_>,
) -> anyhow::Result<()> {
    if marks.is_empty() {
        return Ok(());
    }
    let (path, target) = (cut(path), cut(target.as_str()));
    let excerpt = Excerpt::of(robots.text());
    let word = if is_allowed { "allowed" } else { "disallowed" };
    let title = Level::NOTE.primary_title(format!("this is why {target} is {word}"));
    style::say::<&str>(&[])?;
    excerpt::print(&[title.element(excerpt.all(&path, marks))])?;
    Ok(())
}

/// The text that was judged by, if there is one.
fn robots(verdict: &Verdict) -> Option<Robots> {
    let copy = verdict.entry()?.copy()?;
    Some(Robots::parse(copy.body()))
}

/// The rule that decides, the group it stands in, and the rules that would have decided without it.
fn marks(robots: &Robots, rules: Option<&RobotsVerdict>, target: &Target<'_>) -> Vec<Mark> {
    let Some(rules) = rules else { return Vec::new() };
    let token = rules.token().and_then(|token| ProductToken::lenient(token).ok());
    let applies = |record: &Record<'_>| record.addresses(token.as_ref());
    let deciding = rules.rule().map(|rule| rule.line());
    let mut marks = Vec::new();
    for group in robots.groups().filter(|group| group.records().any(|record| applies(&record))) {
        for record in group.records() {
            let label = match record.kind() {
                RecordKind::UserAgent if applies(&record) => "this group applies",
                RecordKind::Allow | RecordKind::Disallow if Some(record.line()) == deciding => {
                    "this rule decides"
                }
                RecordKind::Allow | RecordKind::Disallow if is_covered(&record, target) => {
                    "also matches, but is overridden"
                }
                _ => continue,
            };
            if marks.len() < MARKS_MAX || Some(record.line()) == deciding {
                marks.push(mark(&record, robots, label, Some(record.line()) == deciding));
            }
        }
    }
    marks
}

fn is_covered(record: &Record<'_>, target: &Target<'_>) -> bool {
    !record.value().is_empty() && Pattern::new(record.value()).matches(target)
}

fn mark(record: &Record<'_>, robots: &Robots, label: &str, is_primary: bool) -> Mark {
    let line = robots.line(record.line()).unwrap_or_default();
    let written = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii_end();
    let start = line.len() - line.trim_ascii_start().len();
    let columns = start + 1..written.len().max(start) + 1;
    Mark { line: record.line(), columns, label: label.to_owned(), is_primary }
}

/// More marks than this hide what they shall show.
const MARKS_MAX: usize = 20;
