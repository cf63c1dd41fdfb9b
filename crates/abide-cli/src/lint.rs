//! `abide lint`: what the author of a robots.txt should know.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use abide::{Abide, Verdict};
use abide_permissions::record_problem;
use abide_robots::Robots;
use annotate_snippets::Level;
use futures_util::StreamExt;
use serde::Serialize;

use crate::args::{Format, LintArgs};
use crate::excerpt::{self, Excerpt, Mark};
use crate::input::{self, absolute, read_file};
use crate::online::{self, Interruption};
use crate::shown::{public, shown, without_user};
use crate::style::PLAIN;
use crate::watch::Watch;
use crate::{Status, check, outcome, style};

/// One line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    file: &'a str,
    line: u32,
    /// Octets, the first being 1.
    column: usize,
    /// Behind the last.
    column_end: usize,
    kind: &'static str,
    message: String,
}

pub(crate) fn run(args: &LintArgs) -> anyhow::Result<Status> {
    // One that cannot be read is wrong usage, and nothing is answered then.
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    let is_url = |text: &&String| text.starts_with("http://") || text.starts_with("https://");
    for text in args.files.iter().filter(|text| !is_url(text)) {
        found.push((input::name(Path::new(text)), read_file(Path::new(text))?));
    }
    let urls: Vec<String> = args.files.iter().filter(is_url).cloned().collect();
    let mut status = Status::Done;
    if !urls.is_empty() {
        let urls: Vec<String> = urls.iter().map(|url| site_of(url)).collect::<Result<_, _>>()?;
        let watch = Arc::new(Watch::stores());
        status = online::run(&args.online, &watch, Interruption::Ends, async |abide, _| {
            fetch(args, &urls, &abide, &mut found).await
        })?;
    }
    for (name, body) in &found {
        let robots = Robots::parse(body);
        let remarks = remarks(&robots);
        status = status.and(Status::of(remarks.is_empty()));
        if args.online.output.json || args.format == Format::Json {
            for remark in &remarks {
                online::print_json(&line(name, remark))?;
            }
        } else {
            print(name, &robots, &remarks)?;
        }
    }
    Ok(status)
}

/// Any page of the site, which robots.txt itself is not: it is allowed without being read.
fn site_of(text: &str) -> anyhow::Result<String> {
    let mut url = absolute(text)?;
    url.set_path("/");
    url.set_query(None);
    Ok(url.into())
}

/// The robots.txt of each site; one that can't be fetched is told, and the others are read.
async fn fetch(
    args: &LintArgs,
    urls: &[String],
    abide: &Abide,
    found: &mut Vec<(String, Vec<u8>)>,
) -> anyhow::Result<Status> {
    let mut status = Status::Done;
    let mut answers = std::pin::pin!(check::answers(&args.online, urls, abide));
    while let Some((text, result)) = answers.next().await {
        let entry = result.as_ref().ok().and_then(Verdict::entry);
        match entry.and_then(|entry| Some((entry, entry.copy()?))) {
            Some((entry, copy)) => found.push((entry.origin().robots_url().into(), copy.body().to_vec())),
            None => {
                status = Status::Failed;
                let why = match &result {
                    Ok(verdict) => verdict.to_string(),
                    Err(denied) => outcome::why(denied),
                };
                style::complain(format_args!("{}: no robots.txt to read: {why}", public(text)));
            }
        }
    }
    Ok(status)
}

/// One thing that the author should know.
struct Found {
    line: u32,
    columns: Range<usize>,
    kind: &'static str,
    text: String,
}

/// What abide-robots remarks on, and the preferences that are dropped or salvaged.
fn remarks(robots: &Robots) -> Vec<Found> {
    let of_file = robots.remarks().into_iter().map(|remark| Found {
        line: remark.line(),
        columns: remark.columns(),
        kind: remark.kind().as_str(),
        text: remark.to_string(),
    });
    let of_values = robots.records().filter_map(|record| {
        let text = record_problem(&record)?;
        let line = robots.line(record.line()).unwrap_or_default();
        let is_value = |part: &[u8]| part == record.value();
        let at = line.windows(record.value().len().max(1)).rposition(is_value).unwrap_or(0);
        let columns = at.saturating_add(1)..at.saturating_add(record.value().len()).saturating_add(1);
        Some(Found { line: record.line(), columns, kind: "unreadable-preference", text })
    });
    let mut found: Vec<Found> = of_file.chain(of_values).collect();
    found.sort_by_key(|remark| (remark.line, remark.columns.start));
    found
}

fn line<'a>(file: &'a str, remark: &Found) -> Line<'a> {
    let columns = remark.columns.clone();
    Line {
        file,
        line: remark.line,
        column: columns.start,
        column_end: columns.end,
        kind: remark.kind,
        message: without_user(&remark.text).into(),
    }
}

fn print(name: &str, robots: &Robots, remarks: &[Found]) -> anyhow::Result<()> {
    let path = shown(name);
    let excerpt = Excerpt::of(robots.text());
    for remark in remarks.iter().take(SHOWN_MAX) {
        let mark = Mark {
            line: remark.line,
            columns: remark.columns.clone(),
            label: String::new(),
            is_primary: true,
        };
        let title = Level::WARNING.primary_title(shown(&remark.text)).id(remark.kind);
        excerpt::print(&[title.element(excerpt.one(&path, &mark))])?;
    }
    let count = match remarks.len() {
        0 => (style::GOOD, "no remarks"),
        1 => (style::WAIT, "1 remark"),
        many => (style::WAIT, &*format!("{many} remarks")),
    };
    let cut =
        if remarks.len() > SHOWN_MAX { format!(", of which {SHOWN_MAX} are shown") } else { String::new() };
    Ok(style::say(&[(PLAIN, name), (PLAIN, ": "), count, (PLAIN, &cut)])?)
}

/// A file may have a remark on each of 250,000 lines; nobody reads more than this. `--json` has them all.
const SHOWN_MAX: usize = 200;
