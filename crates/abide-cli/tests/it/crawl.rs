//! `abide crawl`: what reaches the servers, and what is reported.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use abide_tests::{Reply, Server, Step};
use serde_json::{Value, json};

use crate::{Ran, directory, has, now, online, store, unix_seconds};

/// A tree of pages, a forbidden one, and hosts that are busy.
async fn sites() -> Server {
    let is_first = AtomicBool::new(true);
    Server::start(move |seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        "/" => Reply::html("<a href=/1>1</a><a href=/2>2</a><a href=/secret/x>s</a>"),
        // As servers and what runs on them send it together.
        "/2" => Reply::with_headers(
            200,
            &[("content-type", "text/html, text/html")],
            "<a href=/deep>d</a><a href=/>home</a>",
        ),
        "/held-long" => Reply::retry_after(429, 3600),
        "/held" if is_first.swap(false, Relaxed) => Reply::retry_after(429, 2),
        _ => Reply::html("end").with("set-cookie", "session=1"),
    })
    .await
}

/// Host and path of everything that was asked for, without robots.txt, sorted.
pub(crate) fn pages(server: &Server) -> Vec<String> {
    let mut pages = server.asked();
    pages.retain(|what| !what.ends_with("/robots.txt"));
    pages.sort();
    pages
}

/// When this was asked for first.
fn at(server: &Server, what: &str) -> Instant {
    server.log().iter().find(|seen| seen.what() == what).unwrap().at
}

pub(crate) fn only_host(ran: &Ran) -> Value {
    let mut hosts: Vec<Value> = ran.lines().into_iter().filter(|line| !line["host"].is_null()).collect();
    assert_eq!(hosts.len(), 1, "{}{}", ran.out, ran.err);
    hosts.remove(0)
}

/// The pages of a crawl, in the order in which they came.
pub(crate) fn page_lines(ran: &Ran) -> Vec<Value> {
    ran.lines().into_iter().filter(|line| !line["url"].is_null()).collect()
}

/// The last line, which is of the whole crawl.
pub(crate) fn summary(ran: &Ran) -> Value {
    let last = ran.lines().pop().unwrap();
    assert!(last["interrupted"].is_boolean(), "{last}");
    last
}

#[tokio::test]
async fn a_backed_off_host_is_waited_for_or_given_up() {
    let server = sites().await;
    let call =
        |held: &str| format!("crawl --json --max-wait 0 a.example/{held} a.example/deep b.example/deep");
    let ran = online(&server, call("held")).await;
    let a = ran.host("a.example");
    has(&a, json!({"fetched": 2, "deferred": 0}));
    assert!(a["holds"].as_u64().unwrap() >= 1);
    assert!(at(&server, "a.example/deep") - at(&server, "a.example/held") >= Duration::from_secs(2));

    let server = sites().await;
    let ran = online(&server, call("held-long")).await;
    ran.ends_with(1);
    has(&ran.host("a.example"), json!({"deferred": 1}));
    has(&ran.host("b.example"), json!({"fetched": 1}));
    assert_eq!(server.count("a.example/deep"), 0);
}

#[tokio::test]
async fn saved_pages_are_whole_and_indexed() {
    let server = sites().await;
    let directory = directory();
    let read = |name: &str| std::fs::read_to_string(directory.place(name)).unwrap();
    std::fs::write(directory.place("000001.html"), "a file of another program").unwrap();
    let args = format!("crawl --save {} a.example/", directory.place(""));
    online(&server, &args).await;
    assert_eq!(read("000001.html"), "a file of another program");
    let index = read("index.jsonl");
    let entries: Vec<Value> = index.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let deep = entries.iter().find(|entry| entry["url"].as_str().unwrap().ends_with("/deep")).unwrap();
    has(deep, json!({"saved": 3, "status": 200}));
    let headers = deep["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["content-type", "text/html; charset=utf-8"])), "{deep}");
    assert!(now() - unix_seconds(&deep["time"]) < 60, "when it was fetched: {deep}");
    assert!(!index.contains("session="), "no cookie is kept: {index}");
    assert_eq!(read(deep["file"].as_str().unwrap()), "end");
    let denied = entries.iter().find(|entry| entry["outcome"] == json!("denied")).unwrap();
    assert_eq!(denied["file"], json!(null));
    // What is there is not written over.
    online(&server, &args).await.ends_with(2);
}

#[tokio::test]
async fn the_report_is_one_page_with_every_request() {
    let server = sites().await;
    let directory = directory();
    let path = directory.place("report.html");
    let ran = online(&server, format!("crawl --report {path} a.example/")).await;
    assert!(ran.out.starts_with("a.example\n"), "{}", ran.out);
    assert_eq!((ran.err.lines().count(), ran.out.contains('\x1b')), (1, false), "no bar: {}", ran.err);
    let page = std::fs::read_to_string(&path).unwrap();
    /// Marks that explain the others.
    const LEGEND: usize = 5;
    assert_eq!(page.matches("<i class='m ").count() - LEGEND, server.log().len());
    assert!(!page.contains("src=") && !page.contains("<link") && !page.contains("url("), "it stands alone");
    assert!(page.contains("<a href='http://a.example:"), "URLs lead there: {page}");
    // Columns that sort and filter; the script is part of the page.
    assert!(page.contains("<tr class=filters hidden>") && page.contains("heading.ariaSort"), "{page}");
    assert!(
        page.contains("type=search") && page.contains("<tr><td class='denied'>denied<td><a href='http"),
        "{page}"
    );
}

#[tokio::test]
async fn the_table_has_a_row_per_url_over_all_calls() {
    let server = sites().await;
    let (directory, store) = store();
    let path = directory.place("pages.csv");
    std::fs::write(&path, "an old one, longer than what is written now".repeat(100)).unwrap();
    for _ in 0..2 {
        online(&server, format!("crawl --max-pages 2 --store {store} --csv {path} a.example/"))
            .await
            .ends_with(0);
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let mut rows: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(9, ',').collect()).collect();
    assert_eq!(
        rows.remove(0).join(" "),
        "url kind status outcome noindex ms bytes final_url why,changed,time,linked_from"
    );
    let paths: Vec<&str> = rows.iter().map(|row| row[0].rsplit_once(".example").unwrap().1).collect();
    assert!(
        paths.iter().zip(["/", "/1", "/2", "/secret/x", "/deep"]).all(|(path, end)| path.ends_with(end)),
        "{paths:?}"
    );
    assert_eq!(
        (rows[1][1..5].join(" "), rows[3][1..5].join(" ")),
        ("page 200 fetched false".into(), "page  denied ".into())
    );
    assert!(rows[3][8].contains("Disallow: /secret"), "{text}");
}

#[tokio::test]
async fn a_time_out_is_drawn_as_long_as_it_took() {
    let server = Server::without_rules(|_| Reply::html("late").after(Duration::from_secs(600))).await;
    let directory = directory();
    let path = directory.place("report.html");
    let ran = online(&server, format!("crawl --page-timeout 500ms --report {path} a.example/")).await;
    ran.shows(&["1 failed"]);
    let page = std::fs::read_to_string(&path).unwrap();
    let (_, mark) = page.split_once("<i class='m lost' style='left:").unwrap();
    let (_, width) = mark.split_once("%;width:").unwrap();
    let percent: f64 = width.split_once('%').unwrap().0.parse().unwrap();
    // Of a chart that ends with it, and is a second long at least.
    assert!((45.0..=100.0).contains(&percent), "{percent}");
}

#[tokio::test]
#[cfg(unix)]
async fn a_host_that_waits_takes_no_place_from_the_others() {
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("slow.example", "/robots.txt") => Reply::new(200, "User-agent: *\nCrawl-delay: 3"),
        (_, "/robots.txt") => Reply::new(404, ""),
        (_, path) => Reply::html(format!("<a href={path}x>x</a>")),
    })
    .await;
    let is_time = || server.count("slow.example/x") > 0;
    let args = "crawl --delay 20ms --max-pages 9999 --concurrency 1 slow.example/ quick.example/";
    crate::ended_by("-INT", &server, args, is_time).await;
    assert!(server.count("quick.example/x") > 0, "while the other one waits for three seconds");
}

#[tokio::test]
#[cfg(unix)]
async fn ctrl_c_ends_it_with_its_report() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/slow" => Reply::html("").after(Duration::from_secs(600)),
        _ => Reply::html("<a href=/slow>s</a>"),
    })
    .await;
    let is_time = || server.count("a.example/slow") > 0;
    let ran = Ran::from(crate::ended_by("-INT", &server, "crawl --json a.example/", is_time).await);
    assert_eq!((ran.status, &only_host(&ran)["fetched"]), (130, &json!(1)), "{}", ran.err);
    assert_eq!(summary(&ran)["interrupted"], json!(true));
    ran.reports(&["abide: interrupted; nothing is kept of it"]);
}

#[tokio::test]
async fn the_target_of_a_redirect_waits_as_long_as_the_redirect_asks() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/to" => Reply::with_headers(303, &[("location", "/result"), ("retry-after", "2")], ""),
        _ => Reply::html("end"),
    })
    .await;
    let args = "crawl --json --max-depth 0 a.example/to a.example/other";
    has(&summary(online(&server, args).await.ends_with(0)), json!({"ok": 2, "redirected": 1}));
    assert!(at(&server, "a.example/other") < at(&server, "a.example/result"), "its host goes on meanwhile");
    assert!(at(&server, "a.example/result") - at(&server, "a.example/to") >= Duration::from_secs(2));
}

#[tokio::test]
async fn credentials_in_links_are_not_sent() {
    let server = Server::start(|seen| match (seen.path.as_str(), seen.header("host")) {
        ("/", Some(host)) => Reply::html(format!("<a href='http://u:secret@{host}/x'>x</a>")),
        _ => Reply::new(404, ""),
    })
    .await;
    online(&server, "crawl http://u:own@a.example:PORT/").await;
    let sent = |path: &str| {
        let log = server.log();
        let seen = log.iter().find(|seen| seen.path == path).unwrap();
        seen.header("authorization").map(str::to_owned)
    };
    assert!(sent("/").is_some(), "the credentials that the caller gave are sent");
    assert_eq!((sent("/x"), sent("/robots.txt")), (None, None));
    let (_directory, store) = store();
    let args = format!("crawl --max-pages 1 --store {store} a.example/1 http://u:own@a.example:PORT/2");
    for left in ["/1", "/2"] {
        online(&server, &args).await;
        assert_eq!(sent(left).is_some(), left == "/2", "also by the run that goes on");
    }
}

#[tokio::test]
async fn a_host_that_never_stops_deferring_is_given_up() {
    let server = Server::start(|_| Reply::retry_after(429, 1)).await;
    let args = "crawl --json --max-wait 0 --max-hold 10s a.example/1 a.example/2";
    let line = only_host(&online(&server, args).await);
    // Whether a page gets through between two backoffs, to a 429 of its own, is a matter of milliseconds.
    let sum: u64 = ["fetched", "deferred", "left"].iter().map(|key| line[*key].as_u64().unwrap()).sum();
    assert_eq!(sum, 2, "every URL is accounted for: {line}");
    assert!((2..40).contains(&server.log().len()), "{}", server.log().len());
}

/// Pages without an end: one that sends as fast as it can, one whose head and one whose body trickles.
async fn endless() -> Server {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n";
    Server::without_rules(|seen| match seen.path.as_str() {
        "/flood" => Reply::raw(vec![
            Step::Send(HEAD.to_vec()),
            Step::Send(b"<body>".to_vec()),
            Step::Repeat(vec![b'x'; 64 * 1024], usize::MAX),
        ]),
        "/head" | "/body" => {
            let first = if seen.path == "/body" { &b"<body><p>"[..] } else { b"<head>" };
            let mut steps = vec![Step::Send([HEAD, first].concat())];
            for _ in 0..3000 {
                steps.extend([Step::Sleep(Duration::from_millis(100)), Step::Send(b" ".to_vec())]);
            }
            Reply::raw(steps)
        }
        _ if seen.host() == "b.example" => Reply::html("<a href=/body>b</a>"),
        _ => Reply::html("<a href=/flood>f</a><a href=/head>h</a><a href=/last>l</a>"),
    })
    .await
}

#[tokio::test]
async fn a_page_that_never_ends_stalls_nothing() {
    let server = endless().await;
    let directory = directory();
    let save = directory.place("pages");
    let args = format!("crawl --json --page-timeout 8s --save {save} a.example/ b.example/");
    has(&summary(&online(&server, args).await), json!({"fetched": 4, "errors": 2}));
    assert_eq!(server.count("a.example/last"), 1);
    let index = std::fs::read_to_string(save + "/index.jsonl").unwrap();
    for name in ["head", "body"] {
        let entry = index.lines().find(|line| line.contains(&format!("/{name}\",\"outcome"))).unwrap();
        assert!(entry.contains("the page had not ended after 8 s (--page-timeout)"), "{entry}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_leaves_the_report_that_is_there() {
    let server = sites().await;
    let directory = directory();
    let (old, new) = (directory.place("old.html"), directory.place("new.html"));
    std::fs::write(&old, "precious").unwrap();
    for report in [&old, &new] {
        let args = format!("crawl --report {report} --save /dev/null/x a.example/");
        online(&server, args).await.ends_with(2);
    }
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "precious");
    assert!(!std::fs::exists(new).unwrap());
}

/// What `docs/crawl.sh` draws.
#[tokio::test]
async fn the_report_of_the_houses_has_a_mark_of_every_kind() {
    let web = abide_examples::Web::start().await;
    let directory = directory();
    let report = directory.place("report.html");
    let urls = abide_examples::houses().map(|house| format!("{house}/")).join(" ");
    let limits = "--max-pages 90 --host-max-pages station.example=3 --max-wait 2s --max-hold 2s";
    let ran = online(web.address(), format!("crawl {limits} --report {report} {urls}")).await;
    ran.shows(&["Crawl-delay 1 s", "backed off for 7 s (503, ", "denied: "]);
    assert!(!ran.out.contains(" failed"), "{}", ran.out);
    let page = std::fs::read_to_string(&report).unwrap();
    for mark in ["m robots", "m good", "m moved", "m bad", "delay", "backoff"] {
        assert!(page.contains(&format!("<i class='{mark}' style=")), "{mark}");
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_report_that_cannot_be_drawn_loses_nothing_else() {
    let server = sites().await;
    let (_directory, store) = store();
    let args = format!("crawl --max-pages 1 --report /dev/full --store {store} a.example/");
    let ran = online(&server, args).await;
    ran.ends_with(1).shows(&["1 ok"]).reports(&["the same call goes on with it"]);
    assert!(ran.err.lines().last().unwrap().starts_with("abide: /dev/full: "), "{}", ran.err);
}
