//! `abide lint`: what the author of a robots.txt should know.

use std::path::Path;
use std::sync::Arc;

use abide::{Abide, Verdict};
use abide_robots::{Remark, Robots};
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
        let remarks = robots.remarks();
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

fn line<'a>(file: &'a str, remark: &Remark) -> Line<'a> {
    let columns = remark.columns();
    Line {
        file,
        line: remark.line(),
        column: columns.start,
        column_end: columns.end,
        kind: remark.kind().as_str(),
        message: without_user(&remark.to_string()).into(),
    }
}

fn print(name: &str, robots: &Robots, remarks: &[Remark]) -> anyhow::Result<()> {
    let path = shown(name);
    let excerpt = Excerpt::of(robots.text());
    for remark in remarks.iter().take(SHOWN_MAX) {
        let mark =
            Mark { line: remark.line(), columns: remark.columns(), label: String::new(), is_primary: true };
        let title = Level::WARNING.primary_title(shown(&remark.to_string())).id(remark.kind().as_str());
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
