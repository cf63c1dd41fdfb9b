//! The frontier beside a durable store, so that a crawl that was interrupted or killed goes on.
//!
//! One file per set of start URLs, `STORE.HASH.frontier`: JSON Lines, only ever appended to. What is queued stands there before the
//! page that named it is marked as done, and a page is marked once it is saved; so a kill at any moment loses no URL, and at worst
//! a page is fetched twice. A last line that was cut off is dropped. It is removed when nothing is left.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::crawl::frontier::{Frontier, Kind, known_as};
use crate::crawl::page::Record;
use crate::crawl::report::{Event, Report, Totals};
use crate::json::StatedPreference;
use crate::sanitize::public_url;
use crate::status::Usage;

/// One line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Entry {
    /// The first: whose frontier it is.
    Crawl { version: u8, urls: Vec<String> },
    /// A further host is ours, since a start page has moved there.
    Host { url: String },
    /// A URL is queued.
    Add {
        url: String,
        depth: u32,
        #[serde(default, skip_serializing_if = "is_page")]
        kind: Kind,
    },
    /// Requests went out.
    Sent {
        #[serde(default, skip_serializing_if = "is_page")]
        kind: Kind,
        events: Vec<Event>,
    },
    /// Nothing more is to be done for a URL.
    Done(Box<Record>),
    /// A run has ended, and this is what was counted for one host.
    Ran { lasted: Duration, host: Totals },
}

fn is_page(kind: &Kind) -> bool {
    *kind == Kind::Page
}

/// The open journal of one crawl.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    out: BufWriter<File>,
}

/// What an earlier run has left.
#[derive(Debug, Default)]
pub(crate) struct Past {
    entries: Vec<Entry>,
    done: HashSet<String>,
}

/// A journal that has been looked at, and not yet changed.
#[derive(Debug)]
pub(crate) struct Opening {
    path: PathBuf,
    names: Vec<String>,
    past: Option<Past>,
}

impl Opening {
    /// The journal of these start URLs beside `store`, and what stands in it. With `restart` that does not count.
    pub(crate) fn of(store: &Path, urls: &[Url], restart: bool) -> anyhow::Result<Self> {
        let mut names: Vec<String> = urls.iter().map(|url| public_url(url).into()).collect();
        names.sort();
        names.dedup();
        let path = path(store, &names);
        let past = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(_) if restart => None,
            Ok(mut file) => read(&path, &mut file, &names)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Usage(format!("{}: {error}", path.display())).into()),
        };
        Ok(Self { path, names, past })
    }

    /// The URLs of an earlier run, if there was one.
    pub(crate) fn known(&self) -> Option<HashSet<String>> {
        let entries = &self.past.as_ref().filter(|past| past.is_some())?.entries;
        let url = |entry: &Entry| match entry {
            Entry::Add { url, .. } => Some(url.clone()),
            _ => None,
        };
        Some(entries.iter().filter_map(url).collect())
    }

    /// Goes on with what there is, or starts again.
    pub(crate) fn begin(self) -> anyhow::Result<(Journal, Past)> {
        let Self { path, names, past } = self;
        let wrong = |error: io::Error| Usage(format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(past.is_none());
        let mut file = options.open(&path).map_err(wrong)?;
        file.seek(SeekFrom::End(0)).map_err(wrong)?;
        let mut journal = Journal { out: BufWriter::new(file), path };
        if past.is_none() {
            journal.write(&Entry::Crawl { version: VERSION, urls: names })?;
            journal.flush()?;
        }
        Ok((journal, past.unwrap_or_default()))
    }
}

impl Journal {
    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn host(&mut self, url: &Url) -> anyhow::Result<()> {
        self.write(&Entry::Host { url: public_url(url).into() })
    }

    pub(crate) fn add(&mut self, url: &Url, depth: u32, kind: Kind) -> anyhow::Result<()> {
        self.write(&Entry::Add { url: known_as(url).into(), depth, kind })
    }

    pub(crate) fn sent(&mut self, kind: Kind, events: Vec<Event>) -> anyhow::Result<()> {
        if events.is_empty() { Ok(()) } else { self.write(&Entry::Sent { kind, events }) }
    }

    pub(crate) fn done(&mut self, mut record: Record) -> anyhow::Result<()> {
        // A site may state more than fits a line.
        StatedPreference::cut(&mut record.page.preferences, STATED_MAX, STATED_LEN_MAX);
        record.permissions.retain(|stated| stated.len() <= STATED_LEN_MAX);
        record.permissions.truncate(STATED_MAX);
        self.write(&Entry::Done(Box::new(record)))
    }

    /// Hands what was written to the operating system: a kill loses nothing from then on.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.out.flush().map_err(|error| anyhow::anyhow!("{}: {error}", self.path.display()))
    }

    /// At the end of a run: removed if nothing is left, else brought to the disk with what the report has counted.
    pub(crate) fn end(mut self, is_finished: bool, report: &Report) -> anyhow::Result<()> {
        if !is_finished {
            for host in report.totals() {
                self.write(&Entry::Ran { lasted: report.lasted, host })?;
            }
        }
        self.flush()?;
        let wrong = |error: io::Error| anyhow::anyhow!("{}: {error}", self.path.display());
        if is_finished {
            return fs::remove_file(&self.path).map_err(wrong);
        }
        self.out.get_ref().sync_all().map_err(wrong)
    }

    fn write(&mut self, entry: &Entry) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.out, entry)?;
        self.out.write_all(b"\n").map_err(|error| anyhow::anyhow!("{}: {error}", self.path.display()))
    }
}

impl Past {
    /// Queues what is left, in the order in which it was found, and counts what was done. `urls` are the start URLs as they were given
    /// now: user information is in no journal. Returns how many URLs are done.
    pub(crate) fn restore(self, frontier: &mut Frontier, report: &mut Report, urls: &[Url]) -> usize {
        for entry in self.entries {
            match entry {
                Entry::Host { url } => {
                    if let Ok(url) = url.parse() {
                        frontier.widen(&url);
                    }
                }
                Entry::Add { url, .. } if self.done.contains(&url) => {
                    url.parse().into_iter().for_each(|url| frontier.know(url));
                }
                Entry::Add { url, depth, kind } => {
                    let given = urls.iter().find(|given| depth == 0 && known_as(given).as_str() == url);
                    if let Some(url) = given.cloned().or_else(|| url.parse().ok()) {
                        frontier.add(&url, depth, kind);
                    }
                }
                Entry::Sent { kind, events } => report.was_sent(kind, events),
                Entry::Done(record) => report.note(&record),
                Entry::Ran { lasted, host } => report.had_counted(lasted, host),
                Entry::Crawl { .. } => {}
            }
        }
        self.done.len()
    }

    /// Whether there was an earlier run.
    pub(crate) fn is_some(&self) -> bool {
        !self.entries.is_empty()
    }
}

/// Beside the store, and another one for other start URLs: crawls of several sites may share one store.
fn path(store: &Path, names: &[String]) -> PathBuf {
    // FNV-1a, since the name must be the same tomorrow and under another compiler.
    let bytes = names.iter().flat_map(|name| name.bytes().chain([b'\n']));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut path = store.as_os_str().to_owned();
    path.push(format!(".{hash:016x}.frontier"));
    path.into()
}

/// Reads what is there and leaves the file ready to be appended to. `None`: nothing is there.
fn read(path: &Path, file: &mut File, names: &[String]) -> Result<Option<Past>, Usage> {
    let wrong = |error: io::Error| Usage(format!("{}: {error}", path.display()));
    let mut past = Past::default();
    let mut lines = BufReader::new(&mut *file);
    let (mut line, mut whole, mut number) = (Vec::new(), 0_u64, 0_usize);
    loop {
        line.clear();
        lines.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line).map_err(wrong)?;
        if !line.ends_with(b"\n") && (line.len() as u64) < LINE_LEN_MAX {
            break;
        }
        (whole, number) = (whole.saturating_add(line.len() as u64), number.saturating_add(1));
        match (number, serde_json::from_slice(&line)) {
            (1, Ok(Entry::Crawl { version: VERSION, urls })) if urls == names => {}
            (2.., Ok(entry)) if !matches!(entry, Entry::Crawl { .. }) => {
                if let Entry::Done(record) = &entry {
                    past.done.insert(record.page.url.clone());
                }
                past.entries.push(entry);
            }
            _ => {
                let found =
                    "expected the frontier of this crawl, found that of another or of another version";
                let path = path.display();
                return Err(Usage(format!("{path}:{number}: {found}; --restart starts again")));
            }
        }
    }
    // What a kill has cut off.
    file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(wrong)?;
    Ok((number > 0).then_some(past))
}

/// Of the format.
const VERSION: u8 = 3;
/// Servers take no URLs of this length.
const LINE_LEN_MAX: u64 = 1024 * 1024;

/// What is kept of what one page states.
const STATED_MAX: usize = 64;
/// Nor is any name of this length.
const STATED_LEN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::crawl::frontier::Next;
    use crate::crawl::page::Page;
    use crate::observer::GateObserver;
    use crate::outcome::Outcome;

    fn urls(texts: &[&str]) -> Vec<Url> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn opened(store: &Path, urls: &[Url], restart: bool) -> anyhow::Result<(Journal, Past)> {
        Opening::of(store, urls, restart)?.begin()
    }

    fn report() -> Report {
        Report::new(&GateObserver::all(), true)
    }

    /// A page of so many bytes.
    fn record(url: &Url, bytes: u64) -> Record {
        let page = Page {
            url: known_as(url).into(),
            status: Some(200),
            outcome: Outcome::Fetched,
            bytes: Some(bytes),
            ..Page::default()
        };
        Record { page, cause: None, permissions: vec!["noindex".to_owned()] }
    }

    fn left(past: Past, urls: &[Url]) -> Vec<(String, u32, Kind)> {
        let mut frontier = Frontier::new(urls, None);
        past.restore(&mut frontier, &mut report(), urls);
        frontier.left().map(|task| (task.url.to_string(), task.depth, task.kind)).collect()
    }

    /// A journal in which the start page and one link are done, and two URLs are left.
    fn begun(store: &Path, urls: &[Url]) -> PathBuf {
        let (mut journal, past) = opened(store, urls, false).unwrap();
        assert!(!past.is_some());
        let mut frontier = Frontier::new(urls, None);
        for (text, depth, kind) in [
            ("http://u:pw@a/", 0, Kind::Page),
            ("http://a/1#x", 1, Kind::Page),
            ("http://a/map", 0, Kind::Sitemap),
            ("http://a/2", 1, Kind::Page),
        ] {
            let url = text.parse().unwrap();
            assert!(frontier.add(&url, depth, kind));
            journal.add(&url, depth, kind).unwrap();
        }
        for _ in 0..2 {
            let Next::Task(task) = frontier.next(Instant::now()) else { panic!("there is more") };
            journal.done(record(&task.url, 7)).unwrap();
            frontier.ended(&task);
        }
        let path = journal.path().to_owned();
        journal.end(false, &report()).unwrap();
        path
    }

    #[test]
    fn what_is_left_is_queued_again_in_its_order() {
        let directory = tempfile::tempdir().unwrap();
        let (store, urls) = (directory.path().join("s.redb"), urls(&["http://u:pw@a/"]));
        let path = begun(&store, &urls);
        assert!(!fs::read_to_string(&path).unwrap().contains("pw"), "no credentials are kept");
        let (journal, past) = opened(&store, &urls, false).unwrap();
        assert_eq!(
            left(past, &urls),
            [("http://a/map".to_owned(), 0, Kind::Sitemap), ("http://a/2".to_owned(), 1, Kind::Page)]
        );
        journal.end(true, &report()).unwrap();
        assert!(!path.exists(), "nothing is left");
    }

    #[test]
    fn a_cut_at_any_byte_loses_no_url_of_the_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let (store, urls) = (directory.path().join("s.redb"), urls(&["http://a/"]));
        let path = begun(&store, &urls);
        let whole = fs::read(&path).unwrap();
        for len in 0..=whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let lines = whole[..len].iter().filter(|&&byte| byte == b'\n').count();
            let (mut journal, past) = opened(&store, &urls, false).unwrap();
            assert_eq!(past.is_some(), lines > 1, "at {len}");
            journal.add(&"http://a/new".parse().unwrap(), 1, Kind::Page).unwrap();
            drop(journal);
            let (_, past) = opened(&store, &urls, false).unwrap();
            let found = past.entries.len();
            assert_eq!(found, lines.saturating_sub(1) + 1, "at {len}");
        }
    }

    #[test]
    fn a_line_that_is_none_is_named_and_a_restart_forgets_it() {
        let directory = tempfile::tempdir().unwrap();
        let (store, urls) = (directory.path().join("s.redb"), urls(&["http://a/"]));
        let path = begun(&store, &urls);
        let text = fs::read_to_string(&path).unwrap();
        for (line, bad) in [
            (1, text.replacen("\"version\":3", "\"version\":9", 1)),
            (1, format!("nonsense\n{text}")),
            (2, text.replacen("{\"add\"", "{\"sub\"", 1)),
            (1, "x".repeat(2 * LINE_LEN_MAX as usize)),
        ] {
            fs::write(&path, bad).unwrap();
            let error = opened(&store, &urls, false).unwrap_err().to_string();
            assert!(error.contains(&format!(".frontier:{line}: expected")), "{error}");
        }
        let (_, past) = opened(&store, &urls, true).unwrap();
        assert!(!past.is_some());
    }

    #[test]
    fn what_was_counted_is_counted_again() {
        let directory = tempfile::tempdir().unwrap();
        let (store, urls) = (directory.path().join("s.redb"), urls(&["http://a/"]));
        let (mut journal, _) = opened(&store, &urls, false).unwrap();
        let (mut first, url) = (report(), "http://a/1".parse().unwrap());
        let event = |millis| {
            let at = Duration::from_millis(millis);
            Event { at, end: None, status: Some(200), url: "http://a/1".to_owned(), is_robots: false }
        };
        first.was_sent(Kind::Page, vec![event(100)]);
        journal.sent(Kind::Page, vec![event(100)]).unwrap();
        first.note(&record(&url, 7));
        journal.done(record(&url, 7)).unwrap();
        journal.end(false, &first).unwrap();
        // A second run, which was killed.
        let (mut journal, _) = opened(&store, &urls, false).unwrap();
        journal.sent(Kind::Page, vec![event(300)]).unwrap();
        journal.done(record(&"http://a/2".parse().unwrap(), 8)).unwrap();
        journal.flush().unwrap();
        drop(journal);
        let (_, past) = opened(&store, &urls, false).unwrap();
        let mut third = report();
        past.restore(&mut Frontier::new(&urls, None), &mut third, &urls);
        let host = third.hosts().next().unwrap();
        assert_eq!((host.requests, host.fetched, host.ok, host.bytes), (2, 2, 2, 15));
        assert_eq!((host.permissions["noindex"], host.events.len()), (2, 2));
        assert_eq!(third.pages().len(), 2);
    }

    #[test]
    fn a_page_that_states_too_much_is_cut_and_its_crawl_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let (store, urls) = (directory.path().join("s.redb"), urls(&["http://a/"]));
        let (mut journal, _) = opened(&store, &urls, false).unwrap();
        let mut stated = record(&urls[0], 7);
        let usages = (0..50_000).map(|n| StatedPreference::new(&format!("usage-{n}"), "allow"));
        stated.page.preferences = usages.collect();
        stated
            .page
            .preferences
            .push(StatedPreference::new(&"x".repeat(2 * LINE_LEN_MAX as usize), "disallow"));
        stated.page.preferences.push(StatedPreference::new("train-ai", "disallow"));
        stated.permissions.extend((0..50_000).map(|n| format!("no usage-{n} of a long name")));
        journal.done(stated).unwrap();
        journal.end(false, &report()).unwrap();
        let (_, past) = opened(&store, &urls, false).unwrap();
        let found = past.entries.iter().find_map(|entry| match entry {
            Entry::Done(record) => Some(&record.page.preferences),
            _ => None,
        });
        let found = found.unwrap();
        assert_eq!((found.len(), &found[0]), (STATED_MAX, &StatedPreference::new("train-ai", "disallow")));
    }

    #[test]
    fn a_look_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (store, urls) = (directory.path().join("s.redb"), urls(&["http://a/"]));
        assert!(Opening::of(&store, &urls, true).unwrap().known().is_none());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "no empty one is left behind");
        let path = begun(&store, &urls);
        let before = fs::read(&path).unwrap();
        assert!(Opening::of(&store, &urls, false).unwrap().known().unwrap().contains("http://a/1"));
        assert!(Opening::of(&store, &urls, true).unwrap().known().is_none());
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn other_start_urls_have_another_file() {
        let store = Path::new("/s");
        let name =
            |texts: &[&str]| path(store, &texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_ne!(name(&["http://a/"]), name(&["http://b/"]));
        assert_eq!(name(&[]), Path::new("/s.cbf29ce484222325.frontier"));
    }
}
