//! Sentences of the contract that concern several calls. `docs/dev/command-contract.md` has all sentences and their tests.

use std::time::Duration;

use abide_tests::{Reply, Server};
use futures_util::future::join_all;
use serde_json::json;

use crate::{Ran, abide, abide_with, directory, has, online};

async fn site() -> Server {
    Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("busy.example", "/robots.txt") => Reply::retry_after(429, 3600),
        (_, "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /secret\n"),
        (_, "/long") => Reply::html(format!("<head><script>{}</script>", "x".repeat(600 * 1024))),
        _ => Reply::html("<p>end"),
    })
    .await
}

#[tokio::test]
async fn every_call_prints_one_json_object_per_line() {
    let server = site().await;
    let robots = crate::file("User-agent: *\nDissallow: /a\nDisallow /b\n");
    let objects = |ran: &Ran| ran.lines().iter().filter(|line| line.is_object()).count();
    for (args, lines) in [
        (format!("match --agent a --robots {robots} /a /b"), 2),
        (format!("directives --agent a --robots {robots} /a /b"), 2),
        (format!("tags --agent a {robots}"), 1),
        (format!("lint {robots} {robots}"), 4),
    ] {
        let ran = abide(args + " --json");
        assert_eq!(objects(&ran), lines, "{}", ran.out);
        assert!(ran.out.ends_with("}\n") && !ran.out.contains("\n\n"), "{}", ran.out);
    }
    for (call, lines) in [("check", 3), ("fetch", 3), ("explain", 3), ("crawl --max-hold 0", 3 + 3 + 1)] {
        let args = format!("{call} --json a.example/x b.example/x busy.example/");
        let ran = online(&server, args).await;
        assert_eq!(objects(&ran), lines, "{call}: {} {}", ran.out, ran.err);
    }
}

#[tokio::test]
async fn the_exit_status_says_how_it_went() {
    let server = site().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // A crawl that does what the site allows has not failed. A host whose robots.txt answers 429 allows everything, later.
    for (call, denied, deferred) in
        [("check", 1, 0), ("fetch", 1, 1), ("explain", 1, 0), ("crawl --max-hold 0", 0, 1)]
    {
        for (urls, status) in [
            ("a.example/x", 0),
            ("a.example/secret", denied),
            ("http://10.0.0.1/", 1),
            ("busy.example/ a.example/x", deferred),
        ] {
            let ran = online(&server, format!("{call} {urls}")).await;
            assert_eq!(ran.status, status, "{call} {urls}: {}", ran.out);
        }
        // Nothing listens there.
        assert_eq!(online(free, format!("{call} a.example/")).await.status, 1, "{call}");
    }
}

#[test]
fn a_bad_line_of_any_batch_is_answered_in_its_place() {
    let good = json!({"robots": "", "agent": "a", "url": "/"});
    for call in ["match", "directives", "tags"] {
        let ran =
            abide_with(&[call, "--batch"], format!("{good}\nnonsense\n{good}\n{{\"agent\": 1}}\n{good}\n"));
        let is_error: Vec<bool> = ran.lines().iter().map(|line| crate::keys(line) == "error").collect();
        assert_eq!((ran.status, is_error), (1, vec![false, true, false, true, false]), "{call}");
        let places: Vec<_> = ran.err.lines().map(|line| &line[..25]).collect();
        assert_eq!(places, ["abide: standard input:2: ", "abide: standard input:4: "], "{call}");
    }
}

#[test]
fn heads_beyond_a_limit_are_named() {
    let attributes: String = (0..50_000).map(|number| format!("a{number}=1 ")).collect();
    for (html, head) in [
        (format!("<meta name=robots content=noindex><script>{}", "x".repeat(600 * 1024)), "byte_limit"),
        (format!("<meta name=robots content=noindex><meta {attributes}>"), "memory_limit"),
    ] {
        let line = abide_with("tags --batch", json!({"agent": "a", "html": html}).to_string()).line();
        has(&line, json!({"head": head, "truncated": true}));
        has(&line["rules"], json!({"noindex": true}));
    }
}

#[tokio::test]
async fn noindex_is_null_where_it_is_not_known() {
    let server = site().await;
    let lines = online(&server, "fetch --json a.example/long a.example/secret a.example/x").await.lines();
    let found: Vec<_> =
        lines.iter().map(|line| (line["outcome"].as_str().unwrap(), &line["noindex"])).collect();
    assert_eq!(found, [("fetched", &json!(null)), ("denied", &json!(null)), ("fetched", &json!(false))]);
    assert_eq!(lines[0]["permissions"]["head"], json!("byte_limit"));
}

#[tokio::test]
async fn every_call_that_goes_online_takes_the_common_options() {
    let server = site().await;
    let directory = directory();
    let authority = crate::file(abide_tests::Authority::new().pem());
    for call in ["check", "fetch", "crawl", "explain"] {
        for store in ["memory".to_owned(), format!("redb:{}", directory.place(call))] {
            let ran = online(
                &server,
                format!(
                    "{call} --agent ExampleBot-News --user-agent ExampleBot-News/1 --delay 0.01 --max-wait 10s --timeout 5s \
                     --allow-net 10.0.0.0/8 --allow-net ::1 --resolve other.example:443:[::1] --store {store} \
                     --cacert {authority} --concurrency 3 --json --color never a.example/x"
                ),
            )
            .await;
            let lines = if call == "crawl" { 3 } else { 1 };
            assert_eq!((ran.status, ran.lines().len()), (0, lines), "{call}: {} {}", ran.out, ran.err);
        }
    }
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
