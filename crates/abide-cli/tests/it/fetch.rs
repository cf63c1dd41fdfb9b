//! `abide fetch`: what it waits for, and how it is ended.

use std::time::Duration;

use abide_tests::{Reply, Server, Step};
use futures_util::future::join_all;
use serde_json::json;

use crate::{Ran, online};

#[tokio::test]
async fn a_permit_beyond_max_wait_is_deferred() {
    let server = Server::start(|_| Reply::new(200, "User-agent: *\nCrawl-delay: 40")).await;
    let ran = online(&server, "fetch --json a.example/1 a.example/2 --max-wait 2s").await;
    let (mut times, now) = (Vec::new(), crate::now());
    for line in ran.lines() {
        assert_eq!(line["outcome"], json!("deferred"), "{line}");
        assert_eq!(line["verdict"]["crawl_delay"], json!(40.0));
        times.push(crate::unix_seconds(&line["not_before"]));
    }
    times.sort_unstable();
    assert!((now + 2..=now + 45).contains(&times[0]), "one delay after robots.txt: {times:?}");
    assert!((39..=41).contains(&(times[1] - times[0])), "each has a time of its own: {times:?}");
    assert_eq!(ran.status, 1);
    assert_eq!(server.asked(), ["a.example/robots.txt"]);
}

#[tokio::test]
async fn the_waits_of_failed_calls_are_reported() {
    let server = Server::with_rules("User-agent: *\nDisallow: /secret\n", |seen| match seen.path.as_str() {
        "/silent" => Reply::html("").after(Duration::from_secs(600)),
        "/reset" => Reply::raw(vec![Step::Reset]),
        path if path.starts_with("/to?") => Reply::redirect(302, &path["/to?".len()..]),
        _ => Reply::html("<p>text</p>"),
    })
    .await;
    let cases = [
        ("to?/secret", "denied", "5m"),
        ("to?http://127.0.0.2:PORT/", "refused", "5m"),
        ("reset", "error", "5m"),
        ("silent", "error", "1s"),
    ];
    join_all(cases.map(async |(path, outcome, timeout)| {
        let begun = std::time::Instant::now();
        let args = format!("fetch --json a.example/{path} --delay 1s --page-timeout {timeout}");
        let line = online(&server, args).await.line();
        assert_eq!(line["outcome"], json!(outcome), "{line}");
        let (waited, elapsed) = (line["waited_ms"].as_u64().unwrap(), begun.elapsed().as_millis());
        assert!(waited > 0 && u128::from(waited) < elapsed, "{waited} ms of {elapsed}: {line}");
        let is_late = line["why"].as_str().unwrap().contains("--page-timeout");
        assert_eq!(is_late, path == "silent", "{line}");
    }))
    .await;
}

#[tokio::test]
#[cfg(unix)]
async fn ctrl_c_ends_it_after_what_was_answered() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/slow" => Reply::html("").after(Duration::from_secs(600)),
        _ => Reply::html("<p>x"),
    })
    .await;
    let is_time = || server.count("a.example/slow") > 0;
    let args = "fetch --json a.example/ a.example/slow";
    let ran = Ran::from(crate::ended_by("-INT", &server, args, is_time).await);
    assert_eq!((ran.status, &ran.line()["outcome"]), (130, &json!("fetched")), "{}", ran.err);
    assert!(ran.err.ends_with("abide: interrupted\n"), "{}", ran.err);
}
