//! `--csv FILE`: a row per URL, for spreadsheets.
//!
//! Its columns are keys of `--json`, so that both say the same. A row is written as its page comes, and is
//! there after an interruption.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use csv::{Writer, WriterBuilder};

use crate::crawl::page::Page;
use crate::status::UsageError;

pub(crate) struct Csv {
    path: PathBuf,
    rows: Writer<std::fs::File>,
}

/// The keys of `--json`; `linked_from` has a space between its URLs.
const COLUMNS: [&str; 12] = [
    "url",
    "kind",
    "status",
    "outcome",
    "noindex",
    "ms",
    "bytes",
    "final_url",
    "why",
    "changed",
    "time",
    "linked_from",
];

impl Csv {
    /// A new file, unless the crawl goes on: then rows are added to it.
    pub(crate) fn to(path: &Path, goes_on: bool) -> anyhow::Result<Self> {
        let wrong = |error: std::io::Error| UsageError(format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(goes_on).truncate(!goes_on);
        let file = options.open(path).map_err(wrong)?;
        let is_begun = file.metadata().map_err(wrong)?.len() > 0;
        let mut csv = Self { path: path.to_owned(), rows: WriterBuilder::new().from_writer(file) };
        if !is_begun {
            csv.row(COLUMNS.map(str::to_owned))?;
        }
        Ok(csv)
    }

    pub(crate) fn page(&mut self, page: &Page) -> anyhow::Result<()> {
        let text = |value: Option<String>| value.unwrap_or_default();
        self.row([
            page.url.clone(),
            page.kind.as_str().to_owned(),
            text(page.status.map(|status| status.to_string())),
            page.outcome.as_str().to_owned(),
            text(page.noindex.map(|noindex| noindex.to_string())),
            text(page.ms.map(|ms| ms.to_string())),
            text(page.bytes.map(|bytes| bytes.to_string())),
            text(page.final_url.clone()),
            page.why.clone(),
            text(page.changed.map(|changed| changed.to_string())),
            page.time.clone(),
            // A URL has no space.
            page.linked_from.join(" "),
        ])
    }

    /// Each is there at once: an interruption loses none.
    fn row<const N: usize>(&mut self, row: [String; N]) -> anyhow::Result<()> {
        let row = row.map(|text| safe(&text));
        let written = self.rows.write_record(row).map_err(std::io::Error::from);
        written
            .and_then(|()| self.rows.flush())
            .map_err(|error| anyhow::anyhow!("{}: {error}", self.path.display()))
    }
}

/// A site may have written it: a spreadsheet must not take it for a formula, nor a terminal for a command.
fn safe(text: &str) -> String {
    let text = crate::sanitize::sanitized(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}
