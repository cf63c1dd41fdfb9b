//! `--store`: crawls that go on where they stopped, and processes that share what a server states about its
//! limit.

use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "redis")]
use std::time::Duration;

#[cfg(feature = "redis")]
use abide_tests::{Quota, Redis};
use abide_tests::{Reply, Server};
use serde_json::Value;
#[cfg(any(feature = "redis", feature = "postgres"))]
use serde_json::json;

use crate::crawl::pages;
use crate::{Ran, abide, directory, file, online, store};

/// Twelve pages in a chain of two links each; robots.txt with a rule.
async fn site() -> Server {
    Server::with_rules("User-agent: *\nDisallow: /secret\n", |seen| match seen.path.as_str() {
        "/held" => Reply::retry_after(429, 3600),
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
async fn a_crawl_goes_on_where_it_stopped() {
    let server = site().await;
    let (directory, store) = store();
    let save = directory.place("pages");
    let call = format!("crawl --json --max-pages 5 --store {store} --save {save} a.example/");
    let first = online(&server, &call).await;
    assert_eq!(pages(&server).len(), 5, "{}", first.err);
    assert!(first.err.contains("the same call goes on with it"), "{}", first.err);
    assert_eq!(journals(directory.path()).len(), 1);
    let second = online(&server, &call).await;
    assert!(second.err.contains("going on: 6 URLs done, "), "five pages and a refusal: {}", second.err);
    online(&server, &call).await;
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
async fn a_crawl_of_a_long_list_goes_on() {
    let server = site().await;
    let (_directory, store) = store();
    // Together more than a mebibyte.
    let url =
        |number| format!("http://a.example:{}/1?{number}{}\n", server.address().port(), "x".repeat(100));
    let list = file((0..10_000).map(url).collect::<String>());
    let call = format!("crawl --max-pages 1 --store {store} --files-from {list}");
    online(&server, &call).await.ends_with(0);
    online(&server, &call).await.ends_with(0).reports(&["going on: 1 URL done, "]);
}

#[tokio::test]
#[cfg(unix)]
async fn a_reader_that_goes_away_loses_no_page() {
    let server = site().await;
    let (_directory, store) = store();
    let call = format!("crawl --json --store {store} a.example/");
    let mut child = crate::command(crate::to(&server, &call)).spawn().unwrap();
    drop(child.stdout.take());
    crate::blocking(move || child.wait().unwrap()).await;
    // The start page was the last one in the queue, and is neither shown nor done.
    online(&server, &call).await.ends_with(0).reports(&["going on: 0 URLs done, 1 queued"]);
}

#[tokio::test]
#[cfg(unix)]
async fn killed_before_its_first_page_it_keeps_its_directory() {
    let times = AtomicU64::new(0);
    let server = Server::start(move |_| match times.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::raw(vec![abide_tests::Step::Hang]),
        _ => Reply::html("end"),
    })
    .await;
    let (directory, store) = store();
    let call = format!("crawl --store {store} --save {} a.example/", directory.place("pages"));
    crate::ended_by("-KILL", &server, &call, || !server.asked().is_empty()).await;
    online(&server, &call).await.ends_with(0).reports(&["going on: 0 URLs done, 1 queued"]);
}

/// A crawl of `/` at one page after the other, ended by a signal when it has fetched some pages.
#[cfg(unix)]
async fn broken_off(signal: &str, server: &Server, store: &str) -> std::process::Output {
    let args = format!("crawl --json --delay 100ms --store {store} a.example/");
    crate::ended_by(signal, server, args, || pages(server).len() >= 4).await
}

#[tokio::test]
#[cfg(unix)]
async fn killed_or_interrupted_it_loses_no_page() {
    for signal in ["-INT", "-TERM", "-KILL"] {
        let server = site().await;
        let (_directory, store) = store();
        let output = broken_off(signal, &server, &store).await;
        if signal != "-KILL" {
            let status = if signal == "-INT" { 130 } else { 143 };
            Ran::from(output).ends_with(status).reports(&["interrupted; the same call goes on"]);
        }
        let before = pages(&server).len();
        assert!(before < 12, "it was still at it");
        let ran = online(&server, format!("crawl --store {store} a.example/")).await;
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
    let directory = directory();
    let locked = directory.place("locked.redb");
    let _holder = abide_redb::Store::open(&locked).unwrap();
    let stores = [
        (&*format!("redb:{broken}"), "expected a database of abide"),
        ("redb:/nonexistent/s.redb", "/nonexistent/s.redb"),
        (&*format!("redb:{locked}"), "is open already"),
    ];
    for (store, named) in stores.iter().chain(REDIS).chain(POSTGRES) {
        for call in ["check", "fetch", "crawl", "explain"] {
            let args = format!("{call} --store {store} http://c.example/");
            let ran = crate::blocking(move || abide(args)).await;
            ran.is_wrong_usage(&[named]);
            assert!(!ran.err.contains("secret"), "{}", ran.err);
        }
    }
}

#[tokio::test]
async fn a_torn_or_foreign_journal_is_dealt_with() {
    let server = site().await;
    let (directory, store) = store();
    let call = &format!("crawl --max-pages 4 --store {store} a.example/");
    online(&server, call).await;
    let journal = journals(directory.path()).remove(0);
    let mut text = std::fs::read_to_string(&journal).unwrap();
    text.push_str("{\"done\":{\"url\":\"http://a.exa");
    std::fs::write(&journal, &text).unwrap();
    let ran = online(&server, call).await;
    assert!(ran.err.contains("going on: "), "the torn line is dropped: {}", ran.err);
    for (line, bad) in [
        (1, "nonsense\n".to_owned()),
        (1, text.replacen("\"version\":", "\"version\":1", 1)),
        (3, text.replacen("{\"add\"", "{\"sub\"", 1)),
    ] {
        std::fs::write(&journal, bad).unwrap();
        let expected = format!(".frontier:{line}: expected");
        online(&server, call).await.ends_with(2).reports(&[&expected, "--restart"]);
    }
}

#[test]
fn a_store_that_was_left_out_is_named() {
    for (feature, is_in, url) in [
        ("redis", cfg!(feature = "redis"), "redis://127.0.0.1/"),
        ("postgres", cfg!(feature = "postgres"), "postgres://127.0.0.1/"),
    ] {
        if !is_in {
            let ran = abide(format!("check --store {url} http://a.example/"));
            let text = format!("built without {feature}; install it with --features {feature}");
            ran.is_wrong_usage(&[&text]);
        }
    }
}

#[cfg(not(feature = "postgres"))]
const POSTGRES: &[(&str, &str)] = &[];
#[cfg(feature = "postgres")]
const POSTGRES: &[(&str, &str)] = &[
    ("postgres://user:secret@127.0.0.1:9/crawl", "127.0.0.1:9"),
    ("postgresql://user:secret@127.0.0.1/crawl?secret=1", "--store"),
    ("postgres://user:secret@/", "--store"),
];

/// A page that has not changed is answered with 304 in the second crawl, and its links are followed.
#[tokio::test]
#[cfg(all(unix, feature = "postgres"))]
async fn calls_share_a_postgres_and_a_recrawl_asks_conditionally() {
    let Some(server) = abide_tests::Postgres::start(&[]) else { return };
    let (store, unchanged) = (server.url(), std::sync::Arc::new(AtomicU64::new(0)));
    let counter = std::sync::Arc::clone(&unchanged);
    let site = Server::with_rules("", move |seen| match (seen.header("if-none-match"), seen.path.as_str()) {
        (Some(_), _) => {
            counter.fetch_add(1, Ordering::Relaxed);
            Reply::new(304, "")
        }
        (None, "/held") => Reply::retry_after(429, 3600),
        (None, path) => {
            let next = path[1..].parse::<u32>().unwrap_or(0) + 1;
            let link = if next < 4 { format!("<a href=/{next}>n</a>") } else { String::new() };
            Reply::html(link).with("ETag", &format!("\"{next}\""))
        }
    })
    .await;
    for expected in [0, 4] {
        online(&site, format!("crawl --json --store {store} a.example/")).await.ends_with(0);
        assert_eq!(unchanged.load(Ordering::Relaxed), expected);
    }
    assert_eq!(pages(&site).len(), 8);
    assert_eq!(site.count("a.example/robots.txt"), 1);
    for (url, outcome) in [("a.example/held", "fetched"), ("a.example/1", "deferred")] {
        let line = online(&site, format!("fetch --json --store {store} {url}")).await.line();
        assert_eq!(line["outcome"], json!(outcome), "the backoff counts for the next call, too: {line}");
    }
}

#[tokio::test]
#[cfg(all(unix, feature = "redis"))]
async fn calls_share_a_redis_and_a_crawl_starts_again() {
    let Some(redis) = Redis::start() else { return };
    let (server, store) = (site().await, redis.url());
    Ran::from(broken_off("-INT", &server, &store).await).reports(&["the next call starts again"]);
    let before = pages(&server).len();
    let again = online(&server, format!("crawl --store {store} a.example/")).await;
    assert!(!again.err.contains("going on"), "{}", again.err);
    assert_eq!(pages(&server).len(), before + 12, "all of it again");
    assert_eq!(server.count("a.example/robots.txt"), 1, "and robots.txt was at hand");
    let url = ["a.example/held", "a.example/1"];
    for (url, outcome) in url.iter().zip(["fetched", "deferred"]) {
        let line = online(&server, format!("fetch --json --store {store} {url}")).await.line();
        assert_eq!(line["outcome"], json!(outcome), "the backoff counts for the next call, too: {line}");
    }
}

#[tokio::test]
#[cfg(all(unix, feature = "redis"))]
async fn a_call_waits_for_a_redis_that_is_slow_to_answer() {
    let Some(redis) = Redis::start() else { return };
    let server = site().await;
    redis.pause();
    let call = online(&server, format!("fetch --store {} a.example/1", redis.url()));
    let pause = tokio::time::sleep(Duration::from_millis(1_500));
    tokio::join!(call, async { (pause.await, redis.resume()) }).0.ends_with(0);
}

#[tokio::test]
#[cfg(feature = "redis")]
async fn two_processes_never_exceed_a_quota() {
    let Some(redis) = Redis::start() else { return };
    // Each alone stays within it.
    let quota = Quota::new(10, Duration::from_secs(2));
    let (counter, server) = (quota.clone(), Server::start(move |seen| quota.answer(seen)).await);
    let args = &format!("crawl --json --max-pages 8 --store {} a.example/", redis.url());
    let (one, other) = tokio::join!(online(&server, args), online(&server, args));
    for ran in [one, other] {
        crate::has(&crate::crawl::only_host(ran.ends_with(0)), json!({"fetched": 8}));
    }
    assert_eq!(counter.refused(), 0);
    assert_eq!(server.count("a.example/robots.txt"), 1, "they share that, too");
    assert_eq!(server.log().len(), 17, "each process crawls eight pages");
}

#[tokio::test]
async fn a_call_that_is_refused_keeps_the_queue_and_what_is_saved() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/" => Reply::html("<a href=/1>1</a><a href=/2>2</a>"),
        _ => Reply::retry_after(429, 3600),
    })
    .await;
    let (directory, store) = store();
    let (mine, other) = (directory.place("mine"), directory.place("other"));
    let run = async |save: &str| {
        online(&server, format!("crawl --max-pages 1 --store {store} a.example/ --save {save}")).await
    };
    run("/dev/null/x").await.ends_with(2);
    run(&format!("{mine} --header 'Host: b.example'")).await.ends_with(2);
    assert_eq!(journals(directory.path()).len(), 0, "nothing is left behind");
    run(&mine).await.ends_with(0);
    let journal = std::fs::read(&journals(directory.path())[0]).unwrap();
    std::fs::create_dir(&other).unwrap();
    let index = Path::new(&other).join("index.jsonl");
    std::fs::write(&index, "{\"url\":\"http://elsewhere.example/\",\"file\":\"000001.html\"}\n").unwrap();
    for (save, more) in [(&mine, " --restart"), (&other, "")] {
        let ran = run(&format!("{save}{more}")).await;
        let expected = format!("{save}: there is a saved crawl in it already; choose another directory\n");
        assert!(ran.ends_with(2).err.ends_with(&expected), "{}", ran.err);
        assert_eq!(std::fs::read(&journals(directory.path())[0]).unwrap(), journal);
    }
    assert_eq!(std::fs::read_to_string(&index).unwrap().lines().count(), 1);
    // A crawl continues its own, and lists each page once: also one that was saved and not yet done when the
    // crawl was killed, and one that was left.
    let journal = std::str::from_utf8(&journal).unwrap();
    for (journal, status) in
        [(&journal[..journal.rfind("{\"seen\":{\"done\"").unwrap()], 0), (journal, 0), (journal, 1)]
    {
        std::fs::write(&journals(directory.path())[0], journal).unwrap();
        run(&mine).await.ends_with(status);
        let index = std::fs::read_to_string(Path::new(&mine).join("index.jsonl")).unwrap();
        let url = |line| serde_json::from_str::<Value>(line).unwrap()["url"].to_string();
        let urls: std::collections::BTreeSet<_> = index.lines().map(url).collect();
        assert_eq!(urls.len(), index.lines().count(), "{index}");
    }
}
