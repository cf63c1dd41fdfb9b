//! `--store`, and crawls that go on where they stopped.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use abide_tests::{Reply, Server};
use serde_json::{Value, json};

use crate::crawl::pages;
use crate::{Ran, abide, file, online};

/// Twelve pages in a chain of two links each; robots.txt with a rule.
async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret\n"),
        "/held" => Reply::with_headers(429, &[("retry-after", "3600")], ""),
        path => {
            let number: u32 = path[1..].parse().unwrap_or(0);
            let links = (2 * number + 1..=2 * number + 2).filter(|number| *number < 12);
            let links: Vec<String> = links.map(|number| format!("<a href=/{number}>n</a>")).collect();
            Reply::html(format!("<a href=/>home</a><a href=/secret>s</a>{}", links.concat()))
        }
    })
    .await
}

fn all() -> Vec<String> {
    let mut all: Vec<String> = (1..12).map(|number| format!("a.example/{number}")).collect();
    all.push("a.example/".to_owned());
    all.sort();
    all
}

fn journals(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|name| name == "frontier")).collect()
}

#[tokio::test]
async fn robots_txt_and_backoffs_outlive_the_call() {
    let server = site().await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    for _ in 0..2 {
        let ran = online(server.address(), &["check", "--store", &store, "http://a.example:PORT/"]).await;
        assert_eq!((ran.status, ran.err.lines().count()), (0, 1), "{}", ran.err);
    }
    assert_eq!(server.asked(), ["a.example/robots.txt"], "the second call had it at hand");
    let fetch = |path: &'static str| {
        let (server, store) = (server.address(), store.clone());
        async move {
            let url = format!("http://a.example:PORT{path}");
            online(server, &["fetch", "--json", "--store", &store, &url]).await.line()
        }
    };
    assert_eq!(fetch("/held").await["status"], json!(429));
    let line = fetch("/1").await;
    assert_eq!(line["outcome"], json!("deferred"), "the backoff is known to the next call: {line}");
    let explain = ["explain", "--json", "--store", &store, "http://a.example:PORT/secret"];
    assert_eq!(online(server.address(), &explain).await.line()["marks"][1]["line"], json!(2));
    assert_eq!(server.count("a.example/robots.txt"), 1);
}

#[tokio::test]
async fn a_crawl_goes_on_where_it_stopped() {
    let server = site().await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    let save = directory.path().join("pages").display().to_string();
    let call =
        ["crawl", "--json", "--max-pages", "5", "--store", &store, "--save", &save, "http://a.example:PORT/"];
    let first = online(server.address(), &call).await;
    assert_eq!(pages(&server).len(), 5, "{}", first.err);
    assert!(first.err.contains("the same call goes on with it"), "{}", first.err);
    assert_eq!(journals(directory.path()).len(), 1);
    let second = online(server.address(), &call).await;
    assert!(second.err.contains("going on: 6 URLs are done, "), "five pages and a refusal: {}", second.err);
    online(server.address(), &call).await;
    assert_eq!(pages(&server), all(), "each page once, over three calls");
    assert_eq!(server.count("a.example/robots.txt"), 1);
    assert_eq!(journals(directory.path()).len(), 0, "nothing is left, and nothing is kept");
    let index = std::fs::read_to_string(Path::new(&save).join("index.jsonl")).unwrap();
    let mut files: Vec<String> = index
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["file"].as_str().map(str::to_owned))
        .collect();
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 12, "one index over all calls");
}

#[tokio::test]
async fn a_start_url_with_credentials_is_fetched_once() {
    let server = site().await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    for max_pages in ["5", "100"] {
        let start = "http://user:secret@a.example:PORT/#top";
        let ran =
            online(server.address(), &["crawl", "--store", &store, "--max-pages", max_pages, start]).await;
        assert_eq!(ran.status, 0, "{}", ran.err);
    }
    assert_eq!(pages(&server), all(), "neither after a resume, nor by a link without them");
}

#[tokio::test]
async fn restart_starts_again_and_other_sites_have_their_own_queue() {
    let server = site().await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    let call = ["crawl", "--max-pages", "2", "--store", &store, "http://a.example:PORT/"];
    online(server.address(), &call).await;
    let other = ["crawl", "--max-pages", "2", "--store", &store, "http://b.example:PORT/"];
    let ran = online(server.address(), &other).await;
    assert!(!ran.err.contains("going on"), "{}", ran.err);
    assert_eq!(journals(directory.path()).len(), 2);
    let ran = online(server.address(), &[&call[..], &["--restart"]].concat()).await;
    assert!(!ran.err.contains("going on"), "{}", ran.err);
    assert_eq!(server.count("a.example/"), 2);
}

/// A crawl of `/` at one page after the other, which has fetched some pages and is still at it.
async fn begun(server: &Server, store: &str) -> std::process::Child {
    let port = server.address().port();
    let (resolve, url) = (format!("*:{port}:127.0.0.1"), format!("http://a.example:{port}/"));
    let net = ["--allow-net", "127.0.0.1", "--resolve", &resolve];
    let args = [
        &["crawl", "--json", "--agent", "ExampleBot", "--delay", "100ms", "--store", store],
        &net[..],
        &[&url],
    ];
    let mut command = crate::command(&args.concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while pages(server).len() < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child
}

#[tokio::test]
#[cfg(unix)]
async fn killed_or_interrupted_it_loses_no_page() {
    for signal in ["-INT", "-TERM", "-KILL"] {
        let server = site().await;
        let directory = tempfile::tempdir().unwrap();
        let store = format!("redb:{}", directory.path().join("s.redb").display());
        let child = begun(&server, &store).await;
        let kill =
            std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let output = crate::blocking(move || child.wait_with_output().unwrap()).await;
        if signal != "-KILL" {
            let ran = Ran::from(output);
            let expected = if signal == "-INT" { 130 } else { 143 };
            assert_eq!(ran.status, expected, "{}", ran.err);
            assert!(ran.err.contains("interrupted; the same call goes on"), "{}", ran.err);
        }
        let before = pages(&server).len();
        assert!(before < 12, "it was still at it");
        let ran = online(server.address(), &["crawl", "--store", &store, "http://a.example:PORT/"]).await;
        assert!(ran.err.contains("going on"), "{signal}: {}", ran.err);
        let mut asked = pages(&server);
        assert!(asked.len() <= 13, "at most the page in the air is fetched twice: {asked:?}");
        asked.dedup();
        assert_eq!(asked, all(), "{signal}");
    }
}

#[cfg(not(feature = "redis"))]
const REDIS: &[(&str, &str)] = &[];
#[cfg(feature = "redis")]
const REDIS: &[(&str, &str)] = &[
    ("redis://user:secret@127.0.0.1:9/", "127.0.0.1:9"),
    ("redis://", "--store"),
    ("rediss://127.0.0.1:9/", "--store"),
    ("redis+other://user:secret@127.0.0.1/", "--store"),
    ("Redis://user:secret@127.0.0.1:9/", "--store"),
    ("http://user:secret@127.0.0.1/", "--store"),
    ("unix:///nonexistent/redis.sock?pass=secret", "--store"),
    ("user:secret@127.0.0.1", "--store"),
];

#[tokio::test]
async fn stores_that_cannot_be_had_are_wrong_usage() {
    let broken = file("this is no database of abide, though it is long enough to be looked at".repeat(100));
    let directory = tempfile::tempdir().unwrap();
    let locked = directory.path().join("locked.redb");
    let store = format!("redb:{}", locked.display());
    let holder = abide_redb::Store::open(&locked).unwrap();
    for (store, named) in [
        (format!("redb:{}", broken.path().display()), "expected a database of abide"),
        ("redb:/nonexistent/s.redb".to_owned(), "/nonexistent/s.redb"),
        (store, "is open already"),
    ]
    .into_iter()
    .chain(REDIS.iter().map(|(store, named)| ((*store).to_owned(), *named)))
    {
        for call in ["check", "fetch", "crawl", "explain"] {
            let (store, named) = (store.clone(), named.to_owned());
            let ran = crate::blocking(move || abide(&[call, "--store", &store, "http://c.example/"])).await;
            assert_eq!((ran.status, ran.out.as_str(), ran.err.lines().count()), (2, "", 1), "{}", ran.err);
            assert!(ran.err.contains(&named) && !ran.err.contains("secret"), "{named}: {}", ran.err);
        }
    }
    drop(holder);
}

#[tokio::test]
async fn a_torn_or_foreign_journal_is_dealt_with() {
    let server = site().await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    let call = ["crawl", "--max-pages", "4", "--store", &store, "http://a.example:PORT/"];
    online(server.address(), &call).await;
    let journal = journals(directory.path()).remove(0);
    let mut text = std::fs::read_to_string(&journal).unwrap();
    text.push_str("{\"done\":{\"url\":\"http://a.exa");
    std::fs::write(&journal, &text).unwrap();
    let ran = online(server.address(), &call).await;
    assert!(ran.err.contains("going on: "), "the torn line is dropped: {}", ran.err);
    std::fs::write(&journal, "nonsense\n").unwrap();
    let ran = online(server.address(), &call).await;
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains(".frontier:1: expected") && ran.err.contains("--restart"), "{}", ran.err);
}

#[test]
#[cfg(not(feature = "redis"))]
fn a_store_that_was_left_out_is_named() {
    let ran = abide(&["check", "--store", "redis://127.0.0.1/", "http://a.example/"]);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("built without redis; install it with --features redis"), "{}", ran.err);
}

/// A Redis of its own, which ends with the test.
#[cfg(feature = "redis")]
struct Redis {
    child: std::process::Child,
    port: u16,
}

#[cfg(feature = "redis")]
impl Redis {
    /// `None` where there is no `redis-server`, which is said.
    fn start() -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = std::process::Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()])
            .stdout(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("skipped: there is no redis-server here");
            return None;
        };
        let redis = Self { child, port };
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(redis)
    }
}

#[cfg(feature = "redis")]
impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[cfg(all(unix, feature = "redis"))]
async fn calls_share_a_redis_and_a_crawl_starts_again() {
    let Some(redis) = Redis::start() else { return };
    let server = site().await;
    let store = format!("redis://127.0.0.1:{}/", redis.port);
    let child = begun(&server, &store).await;
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let ran = Ran::from(crate::blocking(move || child.wait_with_output().unwrap()).await);
    assert!(ran.err.contains("the next call starts again"), "{}", ran.err);
    let before = pages(&server).len();
    let again = online(server.address(), &["crawl", "--store", &store, "http://a.example:PORT/"]).await;
    assert!(!again.err.contains("going on"), "{}", again.err);
    assert_eq!(pages(&server).len(), before + 12, "all of it again");
    assert_eq!(server.count("a.example/robots.txt"), 1, "and robots.txt was at hand");
    let url = ["http://a.example:PORT/held", "http://a.example:PORT/1"];
    for (url, outcome) in url.iter().zip(["fetched", "deferred"]) {
        let line = online(server.address(), &["fetch", "--json", "--store", &store, url]).await.line();
        assert_eq!(line["outcome"], json!(outcome), "the backoff counts for the next call, too: {line}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_keeps_the_queue_and_what_is_saved() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/" => Reply::html("<a href=/1>1</a><a href=/2>2</a>"),
        _ => Reply::html("end"),
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    let (mine, other) = (directory.path().join("mine"), directory.path().join("other"));
    let (mine, other) = (mine.display().to_string(), other.display().to_string());
    let call = |save: &str, more: &[&str]| -> Vec<String> {
        let base = ["crawl", "--max-pages", "1", "--store", &store, "--save", save];
        let url = ["http://a.example:PORT/"];
        base.iter().chain(more).chain(&url).map(|arg| (*arg).to_owned()).collect()
    };
    let run = async |args: Vec<String>| {
        online(server.address(), &args.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    let ran = run(call("/dev/null/x", &[])).await;
    assert_eq!((ran.status, journals(directory.path()).len()), (2, 0), "nothing is left behind: {}", ran.err);
    assert_eq!(run(call(&mine, &[])).await.status, 0);
    let journal = std::fs::read(&journals(directory.path())[0]).unwrap();
    std::fs::create_dir(&other).unwrap();
    let index = Path::new(&other).join("index.jsonl");
    std::fs::write(&index, "{\"url\":\"http://elsewhere.example/\",\"file\":\"000001.html\"}\n").unwrap();
    for (save, more) in [(&mine, &["--restart"][..]), (&other, &[])] {
        let ran = run(call(save, more)).await;
        assert_eq!(ran.status, 2, "{}", ran.err);
        let expected =
            format!("abide: {save}: there is a saved crawl in it already; choose another directory\n");
        assert_eq!(
            ran.err.replace("abide: a delay below 1 s is less considerate than most sites expect\n", ""),
            expected
        );
        assert_eq!(std::fs::read(&journals(directory.path())[0]).unwrap(), journal);
    }
    assert_eq!(std::fs::read_to_string(&index).unwrap().lines().count(), 1);
    assert_eq!(run(call(&mine, &[])).await.status, 0, "its own is gone on with");
    assert_eq!(std::fs::read_to_string(Path::new(&mine).join("index.jsonl")).unwrap().lines().count(), 2);
}

/// The machine's clock, so many days ago.
#[derive(Debug)]
struct DaysAgo(AtomicU64);

impl abide::Clock for DaysAgo {
    fn now(&self) -> std::time::Instant {
        abide::SystemClock.now()
    }

    fn wall(&self) -> abide::WallMillis {
        let days = self.0.load(Ordering::SeqCst);
        abide::SystemClock.wall().minus(Duration::from_secs(days * 24 * 60 * 60))
    }
}

#[tokio::test]
async fn a_copy_in_a_store_unasked_for_27_h_is_fetched_before_any_page() {
    let times = AtomicU64::new(0);
    let server = Server::start(move |seen| match seen.path.as_str() {
        "/robots.txt" => match times.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(200, "User-agent: *\nDisallow: /closed\n"),
            1 => Reply::new(503, ""),
            _ => Reply::new(200, "User-agent: *\nDisallow: /\n"),
        },
        _ => Reply::html("page"),
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.redb");
    let store = abide_redb::Store::open(&path).unwrap();
    let clock = Arc::new(DaysAgo(AtomicU64::new(40)));
    let abide = abide::Abide::builder("ExampleBot")
        .resolver(server.names())
        .allow_net(server.address().ip().into())
        .robots_store(Arc::new(store.clone()))
        .clock(clock.clone())
        .build()
        .unwrap();
    let origin = format!("http://a.example:{}", server.address().port()).parse().unwrap();
    abide.rules(&origin).await.unwrap();
    clock.0.store(39, Ordering::SeqCst);
    let answer = abide.rules(&origin).await.unwrap();
    assert_eq!(answer.source(), abide::robots_cache::Source::LastGood);
    store.close().await.unwrap();
    drop(abide);

    let stored = format!("redb:{}", path.display());
    let ran =
        online(server.address(), &["fetch", "--json", "--store", &stored, "http://a.example:PORT/open"])
            .await;
    assert_eq!(ran.line()["outcome"], json!("denied"), "{}", ran.err);
    assert_eq!(server.asked(), ["a.example/robots.txt"; 3], "no page by a copy of 40 days ago");
}
