//! `abide audit`: was a crawl polite? Judged by its WARC files alone, also those of other crawlers.
//!
//! ```text
//!  Files: records by date ─▶ BlockCheck: digests ─▶ Judge ─┬▶ robots: allowed by what was known then?
//!                                                          ├▶ pace: delays, 429, 503, Retry-After
//!                                                          ├▶ decisions: do the bytes bear them out?
//!                                                          └▶ stated: restrictions on what was kept
//! ```

mod agents;
mod block;
mod files;
mod finding;
mod judge;
mod pace;
mod record;
mod robots;
mod sites;
mod stated;
mod time;

use crate::args::AuditArgs;
use crate::input;
use crate::sanitize::{count, cut};
use crate::status::{Status, UsageError};
use crate::style::{self, PLAIN};
use block::BlockCheck;
use files::{Files, Unreadable};
use finding::{Finding, Level};
use judge::Judge;
use record::Record;

pub(crate) fn run(args: &AuditArgs) -> anyhow::Result<Status> {
    let agent = input::chain(&args.agent);
    let agent = if agent.is_empty() { None } else { Some(input::tokens(&agent).map_err(UsageError)?) };
    let mut judge = Judge::new(agent, args.delay);
    let mut files = Files::of(&args.files)?;
    let mut is_unreadable = false;
    let mut unreadable = |files: &Files, Unreadable { file, error }: Unreadable| {
        is_unreadable = true;
        style::to_stderr(format_args!("{}: {error}; it cannot be read on", files.name(file)));
    };
    style::collect_output();
    while let Some(next) = files.next()? {
        let (mut open, head) = match next {
            Ok(next) => next,
            Err(error) => {
                unreadable(&files, error);
                continue;
            }
        };
        let mut check = BlockCheck::of(&head);
        if let Err(error) = open.reader.block(|piece| check.push(piece)) {
            unreadable(&files, Unreadable { file: open.file, error });
            continue;
        }
        let (file, block) = (open.file, check.end());
        if let Err(next) = files.put_back(open) {
            // The checksum of a gzip member is behind the record: what is damaged is not judged.
            let is_damaged = next.error.offset == head.offset;
            unreadable(&files, next);
            if is_damaged {
                continue;
            }
        }
        let record = Record { file, name: files.name(file), head: &head, block: &block };
        for finding in judge.record(&record) {
            show(&finding, args)?;
        }
    }
    for finding in judge.end() {
        show(&finding, args)?;
    }
    // What was found comes before its sum, also where both go to one file.
    style::flush()?;
    summarise(&judge);
    let found = Status::of(judge.tally.findings == 0);
    Ok(if is_unreadable { Status::Usage } else { found })
}

fn show(finding: &Finding, args: &AuditArgs) -> anyhow::Result<()> {
    if args.output.json {
        return style::print_json(finding);
    }
    if finding.level == Level::Note && args.output.quiet > 0 {
        return Ok(());
    }
    let (mark, style) = match finding.level {
        Level::Finding => (finding.kind.as_str(), style::BAD),
        Level::Note => ("note", style::WAIT),
    };
    let place = format!("{}:{}: ", finding.place.file, finding.place.offset);
    let url = finding.place.url.as_deref().map(|url| format!(": {}", cut(url))).unwrap_or_default();
    let why = format!("{url}: {}", finding.why);
    Ok(style::say(&[(PLAIN, place.as_str()), (style, mark), (PLAIN, why.as_str())])?)
}

fn summarise(judge: &Judge) {
    let number = |number: u64, what| count(usize::try_from(number).unwrap_or(usize::MAX), what);
    let tally = &judge.tally;
    style::note(format_args!(
        "{}: {} to {}; {}, {}",
        number(tally.records, "record"),
        number(tally.requests, "request"),
        count(judge.hosts(), "host"),
        number(tally.findings, "finding"),
        number(tally.notes, "note")
    ));
}
