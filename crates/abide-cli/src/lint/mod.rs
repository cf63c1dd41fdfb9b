//! `abide lint`: what the author of a robots.txt should know.
//!
//! `findings` finds; this prints what was found: for people, as JSON lines, or for what runs it in CI.

mod annotations;
mod sarif;

use abide_robots::Robots;
use serde::Serialize;

use crate::args::{Format, LintArgs};
use crate::excerpt::{self, Mark};
use crate::findings::{self, CODES, Finding, Severity};
use crate::sanitize::{count, quoted, sanitized};
use crate::status::{Status, wrong_usage};
use crate::style::PLAIN;
use crate::{nearest, robots_texts, style};

#[derive(Debug, Serialize)]
struct LintLine<'a> {
    file: &'a str,
    #[serde(flatten)]
    finding: &'a Finding,
}

pub(crate) fn run(args: &LintArgs) -> anyhow::Result<Status> {
    let format = if args.online.output.json { Format::Json } else { args.format };
    if let Some(name) = &args.explain {
        return explain(name, format == Format::Json);
    }
    let (mut status, texts) = robots_texts::read(&args.online, &args.files)?;
    let mut linted = Vec::new();
    for text in texts {
        match text.body {
            Ok(body) => linted.push(Linted::new(text.name, &body, text.is_cut)),
            Err(why) => {
                status = Status::Failed;
                style::to_stderr(format_args!("{}: no robots.txt to read: {why}", text.name));
            }
        }
    }
    let fails = |finding: &Finding| finding.severity <= args.fail_on;
    let has_failed = |linted: &Linted| Status::of(!linted.findings.iter().any(fails));
    let all = linted.iter().map(has_failed).fold(status, Status::and);
    linted.retain(|linted| style::shows(has_failed(linted)));
    match format {
        Format::Text => linted.iter().try_for_each(print)?,
        Format::Json => linted.iter().try_for_each(print_lines)?,
        Format::Github => linted.iter().try_for_each(annotations::print)?,
        Format::Sarif => style::print_json(&sarif::log(&linted))?,
    }
    Ok(all)
}

/// A robots.txt, and what there is to say of it.
pub(crate) struct Linted {
    pub(crate) name: String,
    pub(crate) robots: Robots,
    pub(crate) findings: Vec<Finding>,
}

impl Linted {
    fn new(name: String, body: &[u8], is_cut: bool) -> Self {
        let robots = Robots::parse(body);
        let findings = findings::of(&robots, is_cut);
        Self { name, robots, findings }
    }

    /// The first character of a finding, and the one behind its last, counted from 1: other programs count
    /// characters, and `--json` bytes.
    pub(crate) fn characters(&self, finding: &Finding) -> (usize, usize) {
        let line = self.robots.line(finding.line).unwrap_or_default();
        let at = |column: usize| {
            let before = line.get(..column.saturating_sub(1)).unwrap_or(line);
            String::from_utf8_lossy(before).chars().count() + 1
        };
        (at(finding.column), at(finding.column_end))
    }
}

fn print_lines(Linted { name, findings, .. }: &Linted) -> anyhow::Result<()> {
    findings.iter().try_for_each(|finding| style::print_json(&LintLine { file: name, finding }))
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

fn print(Linted { name, robots, findings }: &Linted) -> anyhow::Result<()> {
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
    Ok(style::say(&[(PLAIN, name.as_str()), (PLAIN, ": "), (colour, &counts), (PLAIN, &cut), (PLAIN, more)])?)
}

/// A file may have a remark on each of 250,000 lines; no one reads more than this. `--json` has them all.
const SHOWN_MAX: usize = 200;
