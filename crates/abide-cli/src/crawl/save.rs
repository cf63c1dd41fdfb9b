//! `--save DIR`: numbered files, and an index that says what they are.
//!
//! Names are ours and not the site's: no URL can leave the directory, be too long, or hide another.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use http::header::SET_COOKIE;
use serde::{Deserialize, Serialize};

use crate::crawl::frontier::{UrlKind, known_as};
use crate::crawl::sitemap;
use crate::fetch::{FetchAnswer, FetchLine};
use crate::outcome::Outcome;
use crate::sanitize::write_json;
use crate::status::UsageError;

pub(crate) struct Save {
    directory: PathBuf,
    index: BufWriter<File>,
    count: u64,
}

/// One line of `index.jsonl`: that of `abide fetch --json`, the file, and the header fields.
#[derive(Debug, Serialize)]
struct SavedPage<'a> {
    file: Option<String>,
    content_type: Option<&'a str>,
    /// Bytes in the file: fewer than `bytes` if the page is larger than what is kept.
    saved: usize,
    #[serde(flatten)]
    line: &'a FetchLine,
    /// Those of the response, in order, each a pair; none that sets a cookie.
    headers: Vec<(&'a str, String)>,
}

impl Save {
    /// A directory that is there, or is made. An index that is there is not written over; a crawl that goes
    /// on appends to its own: `known` are its URLs, and whether each is done.
    pub(crate) fn to(directory: &Path, known: Option<&HashMap<String, bool>>) -> anyhow::Result<Self> {
        let index = directory.join("index.jsonl");
        let wrong = |error: io::Error| UsageError(format!("{}: {error}", index.display()));
        let taken = || {
            let directory = directory.display();
            UsageError(format!("{directory}: there is a saved crawl in it already; choose another directory"))
        };
        fs::create_dir_all(directory)
            .map_err(|error| UsageError(format!("{}: {error}", directory.display())))?;
        let (file, count) = match (known, index.try_exists().map_err(wrong)?) {
            (_, false) => (File::create_new(&index).map_err(wrong)?, 0),
            (Some(known), true) => reopen(&index, known).map_err(wrong)?.ok_or_else(taken)?,
            (None, true) => return Err(taken().into()),
        };
        Ok(Self { directory: directory.to_owned(), index: BufWriter::new(file), count })
    }

    pub(crate) fn page(&mut self, answer: &FetchAnswer, body: &Body) -> anyhow::Result<()> {
        let content_type = answer.content_type.as_deref();
        let is_fetched = answer.line.outcome == Outcome::Fetched;
        let file = is_fetched.then(|| self.keep(extension(content_type), &body.bytes)).transpose()?;
        let saved = file.as_ref().map_or(0, |_| body.bytes.len());
        let fields = answer.fields.iter().filter(|(name, _)| *name != SET_COOKIE);
        let headers = fields.map(|(name, value)| (name.as_str(), text(value))).collect();
        let entry = SavedPage { file, content_type, saved, line: &answer.line, headers };
        let mut write = || {
            write_json(&mut self.index, &entry)?;
            self.index.write_all(b"\n")?;
            // After an interruption the index has all that is there.
            self.index.flush()
        };
        let place = self.directory.join("index.jsonl");
        write().map_err(|error: io::Error| anyhow::anyhow!("{}: {error}", place.display()))
    }

    /// A file under the next numbered name that is free: files of others stay, and what a crawl has written
    /// that was killed before its index said so.
    fn keep(&mut self, extension: &str, bytes: &[u8]) -> anyhow::Result<String> {
        loop {
            self.count += 1;
            let name = format!("{:06}.{extension}", self.count);
            let path = self.directory.join(&name);
            match File::create_new(&path).and_then(|mut file| file.write_all(bytes)) {
                Ok(()) => return Ok(name),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(anyhow::anyhow!("{}: {error}", path.display())),
            }
        }
    }
}

/// The beginning of a body, all of it for nearly every page.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    max: usize,
}

impl Body {
    pub(crate) fn of(kind: UrlKind) -> Self {
        let max = match kind {
            _ if kind.is_sitemap() => SITEMAP_MAX,
            _ if kind.is_checked() => 0,
            _ => BODY_MAX,
        };
        Self { bytes: Vec::new(), max }
    }

    /// What is beyond the limit need not be read.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> ControlFlow<()> {
        let left = self.max - self.bytes.len();
        self.bytes.extend_from_slice(chunk.get(..left).unwrap_or(chunk));
        if self.bytes.len() == BODY_MAX && self.max == BODY_MAX && sitemap::is_sitemap(None, &self.bytes) {
            // A page that was given, and is a sitemap.
            self.max = SITEMAP_MAX;
            self.bytes.extend_from_slice(chunk.get(left..).unwrap_or_default());
        }
        if self.bytes.len() < self.max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// What counts of an entry that is there.
#[derive(Debug, Deserialize)]
struct Saved {
    url: Option<String>,
    file: Option<String>,
}

/// An index to append to, and the largest number of a file in it. A last line that was cut off, or whose page
/// is not done, as a kill leaves it, is dropped: that page is fetched again. `None`: it is that of another
/// crawl, and stays as it is.
fn reopen(index: &Path, known: &HashMap<String, bool>) -> io::Result<Option<(File, u64)>> {
    let mut file = OpenOptions::new().read(true).write(true).open(index)?;
    let mut lines = BufReader::new(&mut file);
    let (mut line, mut read, mut whole, mut count) = (Vec::new(), 0, 0, 0);
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            break;
        }
        read += line.len() as u64;
        let Ok(saved) = serde_json::from_slice::<Saved>(&line) else { return Ok(None) };
        let url = saved.url.and_then(|url| url.parse().ok()).map(|url| known_as(&url));
        let Some(is_done) = url.and_then(|url| known.get(url.as_str())) else { return Ok(None) };
        whole = if *is_done { read } else { whole };
        let number = saved.file.and_then(|name| name.split('.').next().and_then(|stem| stem.parse().ok()));
        count = count.max(number.unwrap_or(0));
    }
    file.set_len(whole)?;
    file.seek(SeekFrom::End(0))?;
    Ok(Some((file, count)))
}

/// Bytes that are no UTF-8 become replacement characters.
fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// For those who open the file by hand.
fn extension(content_type: Option<&str>) -> &'static str {
    let essence = content_type.unwrap_or_default().split([';', ',']).next().unwrap_or_default().trim();
    match essence.to_ascii_lowercase().as_str() {
        "text/html" | "application/xhtml+xml" => "html",
        "text/plain" => "txt",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/xml" | "text/xml" => "xml",
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/svg+xml" => "svg",
        "image/webp" => "webp",
        "text/css" => "css",
        "text/javascript" | "application/javascript" => "js",
        _ => "bin",
    }
}

/// Kept of a body: what links are read from, and what is saved. `--concurrency` of them may be in memory.
pub(crate) const BODY_MAX: usize = 16 * 1024 * 1024;
/// The bound of the sitemap protocol, unpacked. As many of them may be in memory.
pub(crate) const SITEMAP_MAX: usize = 50 * 1024 * 1024;
