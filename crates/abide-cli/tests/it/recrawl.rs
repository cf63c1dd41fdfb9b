//! `abide crawl` of a site that an earlier crawl with the same store has seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use abide_tests::{Reply, Seen, Server};
use serde_json::{Value, json};

use crate::crawl::{page_lines, pages, summary};
use crate::{abide, directory, has, online, store};

/// A page with a validator: a `304` for those who have it.
fn page(seen: &Seen, etag: &str, body: impl Into<Vec<u8>>) -> Reply {
    let fields = [("etag", etag), ("content-type", "text/html")];
    match seen.header("if-none-match") {
        Some(known) if known == etag => Reply::with_headers(304, &fields[..1], ""),
        _ => Reply::with_headers(200, &fields, body),
    }
}

#[tokio::test]
async fn an_unchanged_site_is_recrawled_without_its_pages() {
    const PAGES: usize = 1000;
    let server = Server::without_rules(|seen| {
        let links = (1..PAGES).map(|number| format!("<a href=/{number}>{number}</a>"));
        let body = if seen.path == "/" { links.collect() } else { "text ".repeat(1200) };
        page(seen, &format!("\"{}\"", seen.path), body)
    })
    .await;
    let (_directory, store) = store();
    let args = format!("crawl --json --max-pages 2000 --store {store} a.example/");
    has(&summary(online(&server, &args).await.ends_with(0)), json!({"ok": PAGES, "unchanged": 0}));
    let whole: usize = server.log().iter().map(|seen| seen.sent).sum();
    let before = server.log().len();
    let again = online(&server, format!("{args} --changed")).await;
    has(&summary(again.ends_with(0)), json!({"ok": 0, "unchanged": PAGES, "fetched": PAGES, "bytes": 0}));
    assert_eq!(page_lines(&again).len(), 0, "nothing has changed");
    let log = server.log();
    assert_eq!(log.len() - before, PAGES, "robots.txt is in the store");
    let sent: usize = log[before..].iter().map(|seen| seen.sent).sum();
    assert!(sent * 50 <= whole, "{sent} of {whole} bytes");
}

/// A page that links on, one that leads to another, one that goes away, a sitemap, and one without a
/// validator; later others.
async fn site() -> (Server, Arc<AtomicBool>) {
    let is_later = Arc::new(AtomicBool::new(false));
    let later = Arc::clone(&is_later);
    let server = Server::start(move |seen| match (seen.path.as_str(), later.load(Relaxed)) {
        ("/robots.txt", _) => Reply::new(200, "Sitemap: /map.xml"),
        ("/map.xml", _) => page(seen, "\"map\"", "<urlset><loc>/mapped</loc></urlset>"),
        ("/", _) => page(seen, "\"1\"", "<a href=/edited>1</a><a href=/moved>2</a><a href=/gone>3</a><a href=/plain>4</a><a rel=nofollow href=/no>5</a>"),
        ("/edited", false) => page(seen, "\"1\"", "one"),
        ("/edited", true) => page(seen, "\"2\"", "<a href=/new>two</a>"),
        ("/moved", _) => Reply::redirect(301, "/plain"),
        ("/gone", true) => Reply::new(410, "gone"),
        ("/nofollow", _) => page(seen, "\"1\"", "<meta name=robots content=nofollow><a href=/no>1</a>"),
        _ => Reply::html("end"),
    })
    .await;
    (server, is_later)
}

#[tokio::test]
async fn only_what_has_changed_is_listed() {
    let (server, is_later) = site().await;
    let (directory, store) = store();
    let args = format!("crawl --json --sitemaps --store {store} a.example/ a.example/nofollow");
    let first = online(&server, &args).await;
    assert!(page_lines(first.ends_with(0)).iter().all(|line| line["changed"].is_null()), "{}", first.out);
    let before = pages(&server);
    is_later.store(true, Relaxed);
    let csv = directory.place("changed.csv");
    let ran = online(&server, format!("{args} --changed --csv {csv}")).await;
    let listed: Vec<(String, Value)> = page_lines(ran.ends_with(0))
        .into_iter()
        .map(|line| {
            (line["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned(), line["changed"].clone())
        })
        .collect();
    assert_eq!(
        listed,
        [("edited".into(), json!(true)), ("gone".into(), json!(true)), ("new".into(), json!(null))]
    );
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 4, "the columns, and these");
    has(&summary(&ran), json!({"unchanged": 2, "sitemaps": 1, "client_errors": 1, "redirected": 1}));
    let mut all = [before.clone(), before, vec!["a.example/new".to_owned()]].concat();
    all.sort();
    assert_eq!(pages(&server), all, "the links of the last version are followed, and no others");
}

#[tokio::test]
async fn pages_that_are_saved_are_fetched_whole() {
    let (server, _) = site().await;
    let (directory, store) = store();
    for save in ["one", "two"] {
        let save = directory.place(save);
        online(&server, format!("crawl --store {store} --save {save} a.example/edited")).await.ends_with(0);
        assert_eq!(std::fs::read_to_string(save + "/000001.html").unwrap(), "one");
    }
}

#[tokio::test]
async fn a_version_whose_permissions_are_lost_is_fetched_whole() {
    let (server, _) = site().await;
    let place = directory();
    let (one, two) = (place.place("one.redb"), place.place("two.redb"));
    online(&server, format!("crawl --store redb:{one} a.example/")).await.ends_with(0);
    std::fs::rename(one + ".pages", two.clone() + ".pages").unwrap();
    let ran = online(&server, format!("crawl --json --store redb:{two} a.example/")).await;
    has(&summary(ran.ends_with(0)), json!({"ok": 4, "unchanged": 0}));
}

#[test]
fn what_has_changed_is_known_with_a_store_alone() {
    abide("crawl --changed http://a.example/").is_wrong_usage(&["--changed needs --store redb:PATH"]);
}
