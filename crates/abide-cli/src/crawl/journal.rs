//! The journal beside a durable store, so that a crawl that was interrupted or killed goes on.
//!
//! One file per set of start URLs, `STORE.HASH.frontier`: JSON Lines, only ever appended to. What is queued
//! stands there before the page that named it is marked as done, and a page is marked once it is saved; so a
//! kill at any moment loses no URL, and at worst a page is fetched twice. A last line that was cut off is
//! dropped. It is removed when nothing is left.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use crate::crawl::facts::Fact;
use crate::crawl::frontier::{Added, Candidate, Frontier, UrlKind, known_as, requested};
use crate::crawl::referrers::Referrer;
use crate::crawl::report::Report;
use crate::sanitize::public_url;
use crate::status::UsageError;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum JournalEntry {
    /// The first: whose frontier it is.
    Crawl {
        version: u8,
        urls: Vec<String>,
    },
    /// Where a start page redirects to, which is one as well.
    Start(Url),
    Add {
        url: Url,
        depth: u32,
        kind: UrlKind,
        #[serde(default)]
        hops: u8,
    },
    /// What names the URLs that are added from here on; `None`: nothing, they were given.
    From(Option<Url>),
    Seen(Fact),
}

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    out: BufWriter<File>,
    /// What names the URLs that were added last. `None`: this run has added none.
    from: Option<Option<Referrer>>,
}

/// What earlier runs have left in the journal of a crawl. To look at it changes nothing.
#[derive(Debug)]
pub(crate) struct Past {
    path: PathBuf,
    /// The start URLs.
    names: Vec<String>,
    entries: Vec<JournalEntry>,
    /// Bytes up to the end of the last line that is whole.
    whole: u64,
}

impl Past {
    /// What stands in the journal of these start URLs beside `store`. With `restart` that does not count.
    pub(crate) fn of(store: &Path, urls: &[Url], restart: bool) -> Result<Self, UsageError> {
        let mut names: Vec<String> = urls.iter().map(|url| public_url(url).into()).collect();
        // The same sites in another order are the same crawl.
        names.sort();
        names.dedup();
        let mut past = Self { path: path(store, &names), names, entries: Vec::new(), whole: 0 };
        // Also for writing, so that a file that cannot be written is refused before the first request.
        match OpenOptions::new().read(true).write(true).open(&past.path) {
            Ok(file) if !restart => past.read(file)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(&past.path, &error)),
            _ => {}
        }
        Ok(past)
    }

    fn read(&mut self, file: File) -> Result<(), UsageError> {
        let mut lines = BufReader::new(file);
        let (mut line, mut number) = (Vec::new(), 0_usize);
        loop {
            line.clear();
            let read = lines.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line);
            read.map_err(|error| wrong(&self.path, &error))?;
            if !line.ends_with(b"\n") && (line.len() as u64) < LINE_LEN_MAX {
                // What a kill has cut off.
                return Ok(());
            }
            (self.whole, number) = (self.whole.saturating_add(line.len() as u64), number.saturating_add(1));
            match (number, serde_json::from_slice(&line)) {
                (1, Ok(JournalEntry::Crawl { version: VERSION, urls })) if urls == self.names => {}
                (2.., Ok(entry)) if !matches!(entry, JournalEntry::Crawl { .. }) => self.entries.push(entry),
                _ => {
                    let found =
                        "expected the frontier of this crawl, found that of another or of another version";
                    let path = self.path.display();
                    return Err(UsageError(format!("{path}:{number}: {found}; --restart starts again")));
                }
            }
        }
    }

    /// The URLs of an earlier run, if there was one, and whether each is done.
    pub(crate) fn known(&self) -> Option<HashMap<String, bool>> {
        let mut known = HashMap::new();
        for entry in &self.entries {
            match entry {
                JournalEntry::Add { url, .. } => _ = known.entry(known_as(url).into()).or_default(),
                JournalEntry::Seen(Fact::Done(record)) => {
                    if let Ok(url) = record.page.url.parse() {
                        known.insert(known_as(&url).into(), true);
                    }
                }
                _ => {}
            }
        }
        (!self.entries.is_empty()).then_some(known)
    }

    /// The journal, to go on with what there is, or to start again.
    pub(crate) fn open(&self) -> anyhow::Result<Journal> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(&self.path);
        let file = file.and_then(|mut file| {
            // Behind the last whole line, or the next entry would continue one that a kill has cut off.
            file.set_len(self.whole)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        });
        let out = BufWriter::new(file.map_err(|error| wrong(&self.path, &error))?);
        let mut journal = Journal { out, path: self.path.clone(), from: None };
        if self.whole == 0 {
            journal.write(&JournalEntry::Crawl { version: VERSION, urls: self.names.clone() })?;
            journal.flush()?;
        }
        Ok(journal)
    }

    /// Queues what is left, in the order in which it was found, and counts what happened. `urls` are the
    /// start URLs as they were given now: user information is in no journal. Returns how many URLs are done,
    /// and whether others are too deep for this call.
    pub(crate) fn restore(self, frontier: &mut Frontier, report: &mut Report, urls: &[Url]) -> (usize, bool) {
        let (known, mut leaves_more) = (self.known().unwrap_or_default(), false);
        // Of two that differ in their user information, the first counts.
        let given: HashMap<Url, &Url> = urls.iter().rev().map(|url| (known_as(url), url)).collect();
        let mut from = None;
        for entry in self.entries {
            match entry {
                JournalEntry::Start(url) => frontier.lead(&url),
                JournalEntry::Add { url, .. } if known.get(known_as(&url).as_str()) == Some(&true) => {
                    frontier.know(known_as(&url));
                }
                JournalEntry::From(url) => from = url.map(|url| frontier.referrer(&url)),
                JournalEntry::Add { url, depth, kind, hops } => {
                    let given = given.get(&known_as(&url)).copied().filter(|_| depth == 0);
                    // Each was new once, in this order.
                    let url = given.unwrap_or(&url);
                    let added = frontier.add(Candidate { url, kind, depth, hops, not_before: None, from });
                    leaves_more |= added != Added::New;
                }
                JournalEntry::Seen(fact) => report.count(fact),
                JournalEntry::Crawl { .. } => {}
            }
        }
        (known.values().filter(|is_done| **is_done).count(), leaves_more)
    }
}

impl Journal {
    pub(crate) fn start(&mut self, url: &Url) -> anyhow::Result<()> {
        self.write(&JournalEntry::Start(requested(url)))
    }

    /// A URL is queued. `from`: what names it, written once for all that follow, because it may be long.
    pub(crate) fn add(&mut self, candidate: Candidate<'_>, from: Option<&Url>) -> anyhow::Result<()> {
        let Candidate { url, kind, depth, hops, .. } = candidate;
        if self.from != Some(candidate.from) {
            self.from = Some(candidate.from);
            self.write(&JournalEntry::From(from.map(requested)))?;
        }
        self.write(&JournalEntry::Add { url: requested(url), depth, kind, hops })
    }

    pub(crate) fn seen(&mut self, fact: &Fact) -> anyhow::Result<()> {
        self.write(&JournalEntry::Seen(fact.clone()))
    }

    /// Hands what was written to the operating system: a kill loses nothing from then on.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.out.flush().map_err(|error| anyhow::anyhow!("{}: {error}", self.path.display()))
    }

    /// At the end of a run: removed if nothing is left, else brought to the disk. Returns its path.
    pub(crate) fn end(mut self, is_finished: bool) -> anyhow::Result<String> {
        self.flush()?;
        let ended = if is_finished { fs::remove_file(&self.path) } else { self.out.get_ref().sync_all() };
        let path = self.path.display().to_string();
        ended.map_err(|error| anyhow::anyhow!("{path}: {error}")).map(|()| path)
    }

    fn write(&mut self, entry: &JournalEntry) -> anyhow::Result<()> {
        let written = serde_json::to_writer(&mut self.out, entry).map_err(io::Error::from);
        written
            .and_then(|()| self.out.write_all(b"\n"))
            .map_err(|error| anyhow::anyhow!("{}: {error}", self.path.display()))
    }
}

fn wrong(path: &Path, error: &io::Error) -> UsageError {
    UsageError(format!("{}: {error}", path.display()))
}

/// Beside the store, and another one for other start URLs: crawls of several sites may share one store.
fn path(store: &Path, names: &[String]) -> PathBuf {
    // FNV-1a, because the name must be the same tomorrow and under another compiler.
    let bytes = names.iter().flat_map(|name| name.bytes().chain([b'\n']));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut path = store.as_os_str().to_owned();
    path.push(format!(".{hash:016x}.frontier"));
    path.into()
}

const VERSION: u8 = 5;
/// The first line names every start URL, and a list of them may have a gibibyte.
const LINE_LEN_MAX: u64 = 4 * 1024 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_at_any_byte_loses_no_url_of_the_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let (store, url) = (directory.path().join("s.redb"), "http://a/".parse().unwrap());
        let past = || Past::of(&store, std::slice::from_ref(&url), false).unwrap();
        let mut journal = past().open().unwrap();
        let queued = Candidate::new(&url, UrlKind::Page, 0);
        journal.add(queued, None).unwrap();
        journal.seen(&Fact::Back(url.clone())).unwrap();
        let path = journal.end(false).unwrap();
        let whole = fs::read(&path).unwrap();
        for len in 0..=whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let lines = whole[..len].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(past().known().is_some(), lines > 1, "at {len}");
            past().open().unwrap().add(queued, None).unwrap();
            // What names it, and itself.
            assert_eq!(past().entries.len(), lines.saturating_sub(1) + 2, "at {len}");
        }
    }
}
