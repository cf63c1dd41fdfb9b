//! What a call is given: URLs, files, product tokens.
//!
//! Shared by the calls, so that a file, `-` and a product token mean the same in each, and are refused in the
//! same words.

use std::io::Read;
use std::path::Path;

use abide_robots::{ProductToken, Target};
use url::Url;

use crate::args::Urls;
use crate::sanitize::quoted;
use crate::status::{Status, UsageError, wrong_usage};
use crate::style;

/// The parts of chains, one behind the other.
pub(crate) fn chain(agents: &[String]) -> Vec<String> {
    agents.iter().flat_map(|agent| agent.split(',')).map(str::to_owned).collect()
}

/// The chain of product tokens. Offline, tokens such as MJ12bot are understood, too.
pub(crate) fn tokens(agents: &[String]) -> Result<Vec<ProductToken>, String> {
    if agents.is_empty() {
        return Err("expected at least one product token, found none".to_owned());
    }
    let wrong = |agent, error| format!("agent {}: {error}", quoted(agent));
    agents.iter().map(|agent| ProductToken::lenient(agent).map_err(|error| wrong(agent, error))).collect()
}

/// An absolute http(s) URL, or a path and query.
#[derive(Debug)]
pub(crate) enum UrlOrPath {
    Url(Url),
    Path(String),
}

/// A URL and the text that it was read from, or what is wrong with a line of a list.
pub(crate) type Given<U> = Result<(String, U), String>;

impl UrlOrPath {
    pub(crate) fn target(&self) -> Target<'_> {
        match self {
            Self::Url(url) => Target::of(url),
            Self::Path(path) => Target::new(path),
        }
    }
}

/// The URLs of a call: arguments, `-` for standard input, and the lists of `--files-from`. An argument that
/// is wrong is wrong usage, and so are lists without one good line, which is reported before anything is
/// asked.
fn urls<U>(given: &Urls, parse: fn(&str) -> Result<U, String>) -> anyhow::Result<Vec<Given<U>>> {
    if given.urls.is_empty() && given.files_from.is_empty() {
        return wrong_usage("expected <URL>, - for standard input, or --files-from FILE");
    }
    let mut urls = Vec::new();
    for text in &given.urls {
        if text == "-" {
            urls.extend(listed(Path::new("-"), parse)?);
        } else {
            urls.push(Ok((text.clone(), parse(text).map_err(UsageError)?)));
        }
    }
    for path in &given.files_from {
        urls.extend(listed(path, parse)?);
    }
    if urls.iter().any(Result::is_ok) {
        return Ok(urls);
    }
    let first = urls.into_iter().find_map(Result::err);
    wrong_usage(first.unwrap_or_else(|| "expected a URL, found none in the lists given".to_owned()))
}

/// One URL a line; empty lines, and those that begin with `#`, are left out.
fn listed<U>(path: &Path, parse: fn(&str) -> Result<U, String>) -> anyhow::Result<Vec<Given<U>>> {
    let bytes = read_up_to(path, LIST_MAX)?;
    let lines = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).split(|byte| *byte == b'\n');
    let read = |line: &[u8]| {
        // Read as anything else, it would be another URL.
        let text = std::str::from_utf8(line).map_err(|_| "expected UTF-8".to_owned())?;
        if text.contains('\t') {
            // Where a URL is parsed, tabs are dropped: two columns of a table would become one URL.
            return Err("expected a URL alone, found a tab behind it".to_owned());
        }
        Ok((text.to_owned(), parse(text)?))
    };
    let wrong = |number: u64, error: String| format!("{}:{number}: {error}", name(path));
    let lines = lines.map(<[u8]>::trim_ascii).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with(b"#"));
    Ok(lines.map(|(line, number)| read(line).map_err(|error| wrong(number, error))).collect())
}

/// Answers for one URL after the other.
pub(crate) fn each<U>(
    urls: &[Given<U>],
    is_json: bool,
    mut answer: impl FnMut(&str, &U) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    let one = |given: &Given<U>| match given {
        Ok((text, url)) => answer(text, url),
        Err(error) => bad_line(error, is_json),
    };
    urls.iter().map(one).try_fold(Status::Done, |status, one| Ok(status.and(one?)))
}

/// Reports a bad line of a list, in its place as in a batch.
pub(crate) fn bad_line(error: &str, is_json: bool) -> anyhow::Result<Status> {
    if is_json {
        style::print_json(&serde_json::json!({ "error": error }))?;
    } else {
        style::to_stderr(format_args!("{error}"));
    }
    Ok(Status::Failed)
}

pub(crate) fn robots_and_urls(
    robots: &Path,
    given: &Urls,
) -> anyhow::Result<(Vec<u8>, Vec<Given<UrlOrPath>>)> {
    let is_listed = given.files_from.iter().any(|path| path == Path::new("-"));
    one_stdin(robots, is_listed || given.urls.iter().any(|url| url == "-"))?;
    let urls = urls(given, parse_url)?;
    Ok((read_file(robots)?, urls))
}

pub(crate) fn one_stdin(robots: &Path, reads_urls: bool) -> Result<(), UsageError> {
    if robots == Path::new("-") && reads_urls {
        return Err(UsageError("standard input can hold the robots.txt or the URLs, not both".to_owned()));
    }
    Ok(())
}

pub(crate) fn parse_url(text: &str) -> Result<UrlOrPath, String> {
    // `//host/x` is a URL without its scheme, and no path.
    if text.starts_with('/') && !text.starts_with("//") {
        return Ok(UrlOrPath::Path(text.to_owned()));
    }
    let wrong = |what: &str| Err(format!("url {}: {what}", quoted(text)));
    let with_scheme = || format!("expected an absolute URL, such as {}", meant(text));
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(url::ParseError::RelativeUrlWithoutBase) if text.is_empty() => {
            return wrong("expected a URL, found nothing");
        }
        Err(url::ParseError::RelativeUrlWithoutBase) => return wrong(&with_scheme()),
        Err(error) => return wrong(&error.to_string()),
    };
    if !url.has_host() && text.contains('@') && url.scheme() != "mailto" {
        // What reads as a scheme is the name of a user.
        return wrong(&with_scheme());
    }
    match url.scheme() {
        "http" | "https" => Ok(UrlOrPath::Url(url)),
        // What reads as a scheme is a name, and its port stands behind it.
        _ if url.path().starts_with(|letter: char| letter.is_ascii_digit()) => wrong(&with_scheme()),
        scheme => wrong(&format!("expected http or https, found the scheme {}", quoted(scheme))),
    }
}

/// What browsers make of an address that is typed, if it looks like one.
fn meant(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let rest = text.rsplit_once('@').map_or(text, |(_, host)| host).trim_start_matches('/');
    let url = format!("https://{rest}");
    let is_good = rest.len() <= SHOWN_MAX && Url::parse(&url).is_ok();
    format!("{:?}", if is_good { &url } else { "https://example.org/" })
}

pub(crate) fn absolute_urls(given: &Urls) -> anyhow::Result<Vec<Given<Url>>> {
    urls(given, absolute_url)
}

/// A path alone has no robots.txt.
pub(crate) fn absolute_url(text: &str) -> Result<Url, String> {
    match parse_url(text)? {
        UrlOrPath::Url(url) => Ok(url),
        UrlOrPath::Path(path) => {
            Err(format!("url {}: expected an absolute http or https URL", quoted(&path)))
        }
    }
}

/// Far more than is looked at of a robots.txt or of the head of a page.
const FILE_MAX: u64 = 16 * 1024 * 1024;

/// Some ten million URLs.
const LIST_MAX: u64 = 1024 * 1024 * 1024;

/// A file up to [`FILE_MAX`]; `-` is standard input.
pub(crate) fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_up_to(path, FILE_MAX)
}

fn read_up_to(path: &Path, max: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(max).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| UsageError(format!("{}: {error}", name(path))).into())
}

/// A file to read; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, UsageError> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let file =
        std::fs::File::open(path).map_err(|error| UsageError(format!("{}: {error}", path.display())))?;
    Ok(Box::new(file))
}

/// Refuses a file that cannot be written to. Nothing is changed: the call may yet be refused.
pub(crate) fn can_write(path: &Path) -> Result<(), UsageError> {
    let try_it = || {
        let is_new = !path.try_exists()?;
        if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            // A pipe would end for its reader if it was closed again.
            return Ok(());
        }
        std::fs::OpenOptions::new().append(true).create(true).open(path)?;
        if is_new { std::fs::remove_file(path) } else { Ok(()) }
    };
    try_it().map_err(|error: std::io::Error| UsageError(format!("{}: {error}", path.display())))
}

pub(crate) fn name(input: &Path) -> String {
    if input == Path::new("-") { "standard input".to_owned() } else { input.display().to_string() }
}
