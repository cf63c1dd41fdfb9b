//! `--delay`, as a server sees it; certificates; and the names that `--resolve` fixes.

use std::time::Duration;

use abide_tests::{Authority, Quota, Reply, Server};
use serde_json::{Value, json};

use crate::{abide, blocking, file, online};

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
async fn resolve_is_for_the_names_it_names() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let port = server.address().port();
    let ran = blocking(move || {
        let urls = format!("http://a.example:{port}/ http://other.invalid:{port}/");
        abide(format!("check --json --resolve A.Example:{port}:127.0.0.1 --allow-net 127.0.0.0/8 {urls}"))
    })
    .await;
    let lines = ran.lines();
    assert_eq!(lines[0]["outcome"], json!("allowed"), "{}", ran.out);
    assert_eq!((&lines[1]["outcome"], &lines[1]["source"]), (&json!("denied"), &json!("unreachable")));
    assert_eq!(server.asked(), ["a.example/robots.txt"]);
}

#[tokio::test]
async fn allow_net_opens_the_network_it_names() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    for (net, outcome) in [("127.0.0.1", "allowed"), ("127.0.0.0/30", "allowed"), ("127.0.0.2/32", "refused")]
    {
        let args = format!("check --json --allow-net {net} http://{}/", server.address());
        let ran = blocking(move || abide(args)).await;
        assert_eq!(ran.line()["outcome"], json!(outcome), "{net}");
    }
}

#[tokio::test]
async fn cacert_is_trusted_and_nothing_else() {
    let authority = Authority::new();
    let answer = |_: &abide_tests::Seen| Reply::html("<p>secret");
    let server = Server::start_tls(authority.acceptor("a.example"), answer).await;
    let (own, other) = (file(authority.pem()), file(Authority::new().pem()));
    let url = "https://a.example:PORT/x";
    let ran = online(&server, format!("fetch --json {url} --cacert {own}")).await;
    assert_eq!((ran.status, &ran.line()["outcome"]), (0, &json!("fetched")), "{}", ran.out);
    let ran = online(&server, format!("fetch --json {url} --cacert {other}")).await;
    assert_eq!((ran.status, &ran.line()["outcome"]), (1, &json!("denied")), "{}", ran.out);
    assert_eq!(server.asked(), ["a.example/robots.txt", "a.example/x"]);
}

#[tokio::test]
async fn plain_http_works_without_certificate_authorities() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let args = format!("check --json --allow-net 127.0.0.1 http://{}/", server.address());
    let output = blocking(move || {
        let mut command = crate::command(args);
        command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent").output().unwrap()
    })
    .await;
    let ran = crate::Ran::from(output);
    assert_eq!((ran.status, &ran.line()["outcome"]), (0, &json!("allowed")), "{}", ran.err);
    assert!(ran.err.contains("no certificate authorities"), "{}", ran.err);
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
