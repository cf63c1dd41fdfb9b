//! Several files as one: their records in the order of their dates.
//!
//! A crawler may write to several files at a time, so a robots.txt may be in one and the pages in another. A
//! file is open from its first date on, so of files that follow each other one is open at a time.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::time::Time;
use crate::input;
use crate::status::UsageError;
use crate::warc::reader::{ReadError, Reader, RecordHead};

type Input = Reader<BufReader<Box<dyn std::io::Read>>>;

pub(super) struct Files {
    names: Vec<String>,
    /// Those that are not open, with their first dates, the latest first.
    waiting: Vec<(Option<Time>, usize, PathBuf)>,
    open: Vec<OpenFile>,
    /// Standard input, if it is.
    unreadable: Option<Unreadable>,
}

pub(super) struct OpenFile {
    /// Its place among the names.
    pub(super) file: usize,
    pub(super) reader: Input,
    /// Of the next record.
    head: RecordHead,
    date: Option<Time>,
}

/// A file that cannot be read on.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) file: usize,
    pub(super) error: ReadError,
}

impl Files {
    pub(super) fn of(paths: &[PathBuf]) -> Result<Self, UsageError> {
        let (mut names, mut waiting, mut open, mut unreadable) = (Vec::new(), Vec::new(), Vec::new(), None);
        for (file, path) in paths.iter().enumerate() {
            names.push(input::name(path));
            let mut reader = reader(path)?;
            if path == Path::new("-") {
                // It can be read once.
                match reader.next() {
                    Ok(Some(head)) => open.push(OpenFile { file, reader, date: date(&head), head }),
                    Ok(None) => {}
                    Err(error) => unreadable = Some(Unreadable { file, error }),
                }
                continue;
            }
            // Where it cannot be read from its beginning, that is said when it is its turn: first.
            let first = reader.next().ok().flatten().and_then(|head| date(&head));
            waiting.push((first, file, path.clone()));
        }
        waiting.sort_by_key(|file| std::cmp::Reverse((file.0, file.1)));
        Ok(Self { names, waiting, open, unreadable })
    }

    pub(super) fn name(&self, file: usize) -> &str {
        self.names.get(file).map_or("", String::as_str)
    }

    /// The next record by date, whose block is to be read before [`put_back`](Self::put_back).
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Result<(OpenFile, RecordHead), Unreadable>>> {
        if let Some(unreadable) = self.unreadable.take() {
            return Ok(Some(Err(unreadable)));
        }
        loop {
            let earliest = self.open.iter().enumerate().min_by_key(|(_, open)| (open.date, open.file));
            let earliest = earliest.map(|(place, open)| (place, open.date));
            let is_due = |first: &Option<Time>| earliest.is_none_or(|(_, date)| *first <= date);
            if let Some((_, file, path)) = self.waiting.pop_if(|(first, ..)| is_due(first)) {
                let reader = reader(&path)?;
                if let Err(unreadable) = self.advance(file, reader) {
                    return Ok(Some(Err(unreadable)));
                }
                continue;
            }
            return Ok(earliest.map(|(place, _)| {
                let mut open = self.open.swap_remove(place);
                let head = std::mem::take(&mut open.head);
                Ok((open, head))
            }));
        }
    }

    /// Goes on with a file whose record was read.
    pub(super) fn put_back(&mut self, open: OpenFile) -> Result<(), Unreadable> {
        self.advance(open.file, open.reader)
    }

    fn advance(&mut self, file: usize, mut reader: Input) -> Result<(), Unreadable> {
        if let Some(head) = reader.next().map_err(|error| Unreadable { file, error })? {
            self.open.push(OpenFile { file, reader, date: date(&head), head });
        }
        Ok(())
    }
}

fn date(head: &RecordHead) -> Option<Time> {
    Time::parse(head.field("WARC-Date")?)
}

fn reader(path: &Path) -> Result<Input, UsageError> {
    if path == Path::new("-") {
        return Ok(Reader::new(BufReader::with_capacity(READ_LEN, input::open(path)?)));
    }
    let file = File::open(path).map_err(|error| UsageError(format!("{}: {error}", path.display())))?;
    Ok(Reader::new(BufReader::with_capacity(READ_LEN, Box::new(file))))
}

const READ_LEN: usize = 256 * 1024;
