//! `abide lint`: what the author of a robots.txt should know.
//!
//! `findings` finds; this reads files and URLs, and prints what was found.

use std::path::Path;

use abide::{Abide, Verdict};
use abide_robots::Robots;
use serde::Serialize;
use url::Url;

use crate::args::{Format, LintArgs};
use crate::check::{self, Checked};
use crate::excerpt::{self, Mark};
use crate::findings::{self, CODES, Finding, Severity};
use crate::input::{self, Given, absolute_url, read_file};
use crate::sanitize::{count, public_url, quoted, sanitized};
use crate::status::{Status, UsageError, wrong_usage};
use crate::style::PLAIN;
use crate::{nearest, online, outcome, style};

#[derive(Debug, Serialize)]
struct LintLine<'a> {
    file: &'a str,
    #[serde(flatten)]
    finding: &'a Finding,
}

pub(crate) fn run(args: &LintArgs) -> anyhow::Result<Status> {
    let is_json = args.online.output.json || args.format == Format::Json;
    if let Some(name) = &args.explain {
        return explain(name, is_json);
    }
    // One that cannot be read is wrong usage, and nothing is answered then.
    let mut found = Vec::new();
    let is_web = |scheme: &str| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    let is_url = |text: &&String| text.split_once("://").is_some_and(|(scheme, _)| is_web(scheme));
    for text in args.files.iter().filter(|text| !is_url(text)) {
        found.push((input::name(Path::new(text)), read_file(Path::new(text))?, false));
    }
    let urls =
        args.files.iter().filter(is_url).map(|text| site_of(text).map(Ok)).collect::<Result<Vec<_>, _>>()?;
    let mut status = Status::Done;
    if !urls.is_empty() {
        status = online::run(&args.online, async |abide, _| fetch(args, &urls, &abide, &mut found).await)?;
    }
    for (name, body, is_cut) in &found {
        let robots = Robots::parse(body);
        let findings = findings::of(&robots, *is_cut);
        // A note is no fault.
        status = status.and(Status::of(findings.iter().all(|found| found.severity == Severity::Note)));
        if is_json {
            findings.iter().try_for_each(|finding| style::print_json(&LintLine { file: name, finding }))?;
        } else {
            print(name, &robots, &findings)?;
        }
    }
    Ok(status)
}

/// Any page of the site, which robots.txt itself is not: it is allowed without being read.
fn site_of(text: &str) -> Result<(String, Url), UsageError> {
    let mut url = absolute_url(text).map_err(UsageError)?;
    url.set_path("/");
    url.set_query(None);
    Ok((url.to_string(), url))
}

/// The robots.txt of each site, and whether it was cut when it was fetched; one that can't be fetched is reported, and the others are read.
async fn fetch(
    args: &LintArgs,
    urls: &[Given<Url>],
    abide: &Abide,
    found: &mut Vec<(String, Vec<u8>, bool)>,
) -> anyhow::Result<Status> {
    let mut status = Status::Done;
    let read = |Checked { url, result, .. }: &Checked<'_>| {
        let entry = result.as_ref().ok().and_then(Verdict::entry);
        match entry.and_then(|entry| Some((entry, entry.copy()?))) {
            Some((entry, copy)) => {
                let name = entry.origin().robots_url().into();
                found.push((name, copy.body().to_vec(), copy.is_truncated()));
            }
            None => {
                status = Status::Failed;
                let why = result.as_ref().map_or_else(outcome::why, Verdict::to_string);
                style::to_stderr(format_args!("{}: no robots.txt to read: {why}", public_url(url)));
            }
        }
        Ok(())
    };
    // Whether the site may be crawled is not asked.
    check::each(&args.online, urls, abide, read).await?;
    Ok(status)
}

fn explain(name: &str, is_json: bool) -> anyhow::Result<Status> {
    let Some(code) = findings::code(name) else {
        let tip = nearest::tip(name, CODES.iter().map(|code| code.name));
        return wrong_usage(format!("--explain: unknown code {}{tip}", quoted(name)));
    };
    if is_json {
        return style::print_json(code).map(|()| Status::Done);
    }
    style::say(&[(style::NAME, code.name), (PLAIN, ": "), (PLAIN, code.severity.as_str())])?;
    Ok(style::say(&[(PLAIN, code.text)]).map(|()| Status::Done)?)
}

fn print(name: &str, robots: &Robots, findings: &[Finding]) -> anyhow::Result<()> {
    let path = sanitized(name);
    let lines: Vec<&[u8]> = robots.lines().collect();
    for found in findings.iter().take(SHOWN_MAX) {
        let label = found.help.as_deref().map(sanitized).unwrap_or_default();
        let mark =
            Mark { line: found.line, columns: found.column..found.column_end, label, is_primary: true };
        let title = found.severity.level().primary_title(sanitized(&found.message)).id(found.code);
        excerpt::print(&[title.element(excerpt::snippet(&lines, &path, &[mark]))])?;
    }
    let of = |severity| findings.iter().filter(|found| found.severity == severity).count();
    let counts: Vec<String> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .filter(|severity| of(*severity) > 0)
        .map(|severity| count(of(severity), severity.as_str()))
        .collect();
    let (colour, counts) = if counts.is_empty() {
        (style::GOOD, "no remarks".to_owned())
    } else {
        (style::WAIT, counts.join(", "))
    };
    let cut =
        if findings.len() > SHOWN_MAX { format!(", of which {SHOWN_MAX} are shown") } else { String::new() };
    let more = if findings.is_empty() { "" } else { " (--explain CODE says more)" };
    Ok(style::say(&[(PLAIN, name), (PLAIN, ": "), (colour, &counts), (PLAIN, &cut), (PLAIN, more)])?)
}

/// A file may have a remark on each of 250,000 lines; no one reads more than this. `--json` has them all.
const SHOWN_MAX: usize = 200;
