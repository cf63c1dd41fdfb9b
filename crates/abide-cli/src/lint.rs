//! `abide lint`: what the author of a robots.txt should know.

use abide_robots::{Remark, Robots};
use annotate_snippets::Level;
use serde::Serialize;

use crate::args::LintArgs;
use crate::excerpt::{self, Excerpt, Mark};
use crate::input::{self, read_file};
use crate::shown::{shown, without_user};
use crate::style::PLAIN;
use crate::{Status, online, style};

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

pub(crate) fn run(args: LintArgs) -> anyhow::Result<Status> {
    // One that cannot be read is wrong usage, and nothing is answered then.
    let bodies: Vec<Vec<u8>> = args.files.iter().map(|path| read_file(path)).collect::<Result<_, _>>()?;
    let mut status = Status::Done;
    for (path, body) in args.files.iter().zip(&bodies) {
        let robots = Robots::parse(body);
        let remarks = robots.remarks();
        status = status.and(Status::of(remarks.is_empty()));
        let name = input::name(path);
        if args.output.json {
            for remark in &remarks {
                online::print_json(&line(&name, remark))?;
            }
        } else {
            print(&name, &robots, &remarks)?;
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
