//! `--delay`, as a server sees it, and how many requests there are at a time.

use std::time::Duration;

use abide_tests::{Quota, Reply, Server};
use futures_util::future::join_all;
use serde_json::Value;

use crate::online;

#[tokio::test]
async fn a_host_is_left_alone_between_two_requests() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let begun = std::time::Instant::now();
    let ran = online(&server, "fetch --json --delay 400ms a.example/0 a.example/1 a.example/2").await;
    let elapsed = begun.elapsed().as_millis() as u64;
    assert_eq!(ran.status, 0, "{}", ran.out);
    let log = server.log();
    assert_eq!(log.len(), 4, "robots.txt and three pages");
    for pair in log.windows(2) {
        // Sleeping lasts at least as long as asked for; the answer was sent a little before it was received.
        let gap = pair[1].at.saturating_duration_since(pair[0].at);
        assert!(gap >= Duration::from_millis(400), "{gap:?} before {}", pair[1].what());
    }
    let waited: u64 = ran.lines().iter().map(|line| line["waited_ms"].as_u64().unwrap()).sum();
    // A wait is what is left of the delay when a URL asks for its permit: less on a busy machine.
    assert!(waited > 0 && waited <= elapsed, "reported as well: {waited} ms");
    assert!(ran.err.contains("less considerate"), "{}", ran.err);
}

#[tokio::test]
async fn the_urls_of_one_host_do_not_defer_each_other() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let urls: String = (0..6).map(|number| format!("a.example/{number} ")).collect();
    let ran =
        online(&server, format!("fetch --json --delay 300ms --max-wait 1200ms {urls} b.example/")).await;
    assert_eq!((ran.status, ran.lines().len()), (0, 7), "{}", ran.out);
    let place = |what: &str| server.asked().iter().position(|asked| asked == what);
    assert!(place("b.example/") < place("a.example/5"), "nor does one host wait for another");
}

#[tokio::test]
async fn a_crawl_never_exceeds_a_quota() {
    let quota = Quota::new(10, Duration::from_secs(2));
    let (counter, server) = (quota.clone(), Server::start(move |seen| quota.answer(seen)).await);
    let ran = online(&server, "crawl --json --max-pages 14 a.example/").await;
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(counter.refused(), 0);
    assert_eq!(server.log().len(), 15, "robots.txt and fourteen pages");
}

#[tokio::test]
async fn hosts_are_asked_at_a_time_and_reported_in_order() {
    let server = Server::start(|seen| match seen.host() {
        "slow.example" => Reply::new(200, "User-agent: *\nDisallow: /a\n").after(Duration::from_secs(1)),
        _ => Reply::new(200, "User-agent: *\nDisallow: /a\n"),
    })
    .await;
    let hosts = ["slow.example", "b.example", "slow.example", "c.example"];
    let urls = hosts.map(|host| format!("{host}/a")).join(" ");
    let ran = online(&server, format!("explain --json {urls}")).await;
    let host = |line: &Value| {
        line["url"].as_str().unwrap().parse::<url::Url>().unwrap().host_str().unwrap().to_owned()
    };
    assert_eq!(ran.lines().iter().map(host).collect::<Vec<_>>(), hosts);
    let log = server.log();
    let of = |host: &str| log.iter().find(|seen| seen.host() == host).unwrap();
    assert!(of("c.example").at < of("slow.example").answered, "no URL waits for the slow one");
    assert_eq!(log.len(), 3, "one robots.txt a host");
}

#[tokio::test]
async fn concurrency_limits_requests_over_all_hosts() {
    let run = async |call: &str, most: usize, millis: u64| {
        let server = Server::start(move |_| Reply::html("<p>x").after(Duration::from_millis(millis))).await;
        let hosts = "a.example/x b.example/x c.example/x d.example/x";
        online(&server, format!("{call} --concurrency {most} {hosts}")).await;
        let log = server.log();
        let under_way = |at| log.iter().filter(|seen| seen.at <= at && at < seen.answered).count();
        let at_a_time = log.iter().map(|seen| under_way(seen.at)).max().unwrap();
        assert!(at_a_time <= most && (most == 1 || at_a_time > 1), "{call}, {most}: {at_a_time}");
    };
    let calls = ["check", "fetch", "crawl", "explain"];
    join_all(calls.iter().flat_map(|call| [run(call, 1, 100), run(call, 4, 1000)])).await;
}
