//! `abide demo`: a small web on loopback, and a crawl of it.
//!
//! The first command of the README: it needs no network, and shows what `abide crawl` does by running it.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;

use crate::args::{Cli, Command};
use crate::status::Status;
use crate::{crawl, style};

pub(crate) fn run(report: Option<&Path>) -> anyhow::Result<Status> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let resolve = format!("*:80:{}", listener.local_addr()?);
    std::thread::spawn(move || serve(&listener));
    let report = report.map(|path| format!("--report={}", path.display()));
    let options = ["-v", "--agent", "AbideDemo", "--user-agent", "AbideDemo/1.0 (+https://example.com/bot)"];
    let network = ["--noproxy", "*", "--allow-net", "127.0.0.1", "--resolve", &resolve];
    let mut words = vec!["abide", "crawl"];
    words.extend(options.into_iter().chain(network).chain(report.as_deref()));
    words.extend(SITES);
    style::say(&[
        (style::NAME, "Four sites, in this program: "),
        (style::PLAIN, "watch each be asked for its robots.txt first, and then for one page at a time."),
    ])?;
    style::say::<&str>(&[])?;
    let Command::Crawl(args) = Cli::try_parse_from(words)?.command else { return Ok(Status::Failed) };
    let status = crawl::run(*args)?;
    style::say::<&str>(&[])?;
    style::say(&[
        (style::NAME, "Your own: "),
        (style::PLAIN, "abide crawl -v --max-pages 20 https://example.org/"),
    ])?;
    // What the sites refuse belongs to the demonstration.
    Ok(if status == Status::Failed { Status::Done } else { status })
}

const SITES: [&str; 4] =
    ["http://bakery.example/", "http://journal.example/", "http://market.example/", "http://broken.example/"];

fn serve(listener: &TcpListener) {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    for stream in listener.incoming().flatten() {
        let seen = Arc::clone(&seen);
        std::thread::spawn(move || {
            // A client that has gone is no concern of a demonstration.
            let _ = answer(stream, &seen);
        });
    }
}

/// One request a connection.
fn answer(mut stream: TcpStream, seen: &Mutex<HashSet<String>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or("/").to_owned();
    let mut host = String::new();
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("host")) {
            host = value.trim().to_owned();
        }
    }
    let is_first = seen.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{host}{path}"));
    let (head, body) = page(&host, &path, is_first);
    write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

const HTML: &str = "200 OK\r\ncontent-type: text/html";
const TEXT: &str = "200 OK\r\ncontent-type: text/plain";

/// The four sites: what they allow, what they disallow, and what goes wrong.
fn page(host: &str, path: &str, is_first: bool) -> (&'static str, &'static str) {
    match (host, path) {
        ("bakery.example", "/robots.txt") => {
            (TEXT, "User-agent: *\nDisallow: /private/\nAllow: /private/menu.html\nCrawl-delay: 0.5\n")
        }
        ("bakery.example", "/") => (
            HTML,
            "<a href=/bread>bread</a> <a href=/private/recipes>recipes</a> <a href=/private/menu.html>menu</a> \
             <a href=/old>old</a> <a href=/gone>gone</a> <a href=/inside>inside</a>",
        ),
        ("bakery.example", "/old") => ("301 Moved Permanently\r\nlocation: /bread", ""),
        // An address that only the site itself should reach.
        ("bakery.example", "/inside") => ("302 Found\r\nlocation: http://127.0.0.2/admin", ""),
        ("bakery.example", "/bread" | "/private/menu.html") => (HTML, "<h1>Bread</h1>"),
        ("journal.example", "/robots.txt") => {
            (TEXT, "User-agent: AbideDemo\nDisallow: /drafts/\n\nUser-agent: *\nDisallow: /\n")
        }
        ("journal.example", "/") => (HTML, "<a href=/1>1</a> <a href=/2>2</a> <a href=/drafts/3>3</a>"),
        ("journal.example", "/1") => (HTML, "<meta name=robots content=noindex><h1>Not for an index</h1>"),
        ("journal.example", "/2") => (
            "200 OK\r\ncontent-type: text/html\r\nx-robots-tag: noarchive\r\ncontent-usage: train-ai=n",
            "<h1>Not for training</h1>",
        ),
        ("market.example", "/robots.txt") => (TEXT, "User-agent: *\nAllow: /\n"),
        ("market.example", "/") => (HTML, "<a href=/stalls>stalls</a> <a href=/prices>prices</a>"),
        // It asks for a pause, and is asked again when that has passed.
        ("market.example", "/stalls") if is_first => ("503 Service Unavailable\r\nretry-after: 3", ""),
        ("market.example", "/stalls" | "/prices") => (HTML, "<h1>The market</h1>"),
        // No robots.txt, so no page.
        ("broken.example", _) => ("500 Internal Server Error", ""),
        _ => ("404 Not Found", ""),
    }
}
