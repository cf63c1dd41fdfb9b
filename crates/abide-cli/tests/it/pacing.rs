//! `--delay`, as a server sees it; certificates; and the names that `--resolve` fixes.

use std::time::Duration;

use abide_tests::{Authority, Quota, Reply, Server};
use serde_json::json;

use crate::{abide, blocking, file, online};

#[tokio::test]
async fn a_host_is_left_alone_between_two_requests() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let urls: Vec<String> = (0..3).map(|number| format!("http://a.example:PORT/{number}")).collect();
    let mut args = vec!["fetch", "--json", "--delay", "400ms"];
    args.extend(urls.iter().map(String::as_str));
    let begun = std::time::Instant::now();
    let ran = online(server.address(), &args).await;
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
    // A wait is what is left of the delay by the time a URL asks for its turn: less on a busy machine.
    assert!(waited > 0 && waited <= elapsed, "reported as well: {waited} ms");
    assert!(ran.err.contains("less considerate"), "{}", ran.err);
}

#[tokio::test]
async fn resolve_is_for_the_names_it_names() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let port = server.address().port();
    let ran = blocking(move || {
        let (resolve, url) = (format!("A.Example:{port}:127.0.0.1"), format!("http://a.example:{port}/"));
        let other = format!("http://other.invalid:{port}/");
        abide(&["check", "--json", "--resolve", &resolve, "--allow-net", "127.0.0.0/8", &url, &other])
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
    let url = format!("http://127.0.0.1:{}/", server.address().port());
    for (net, outcome) in [("127.0.0.1", "allowed"), ("127.0.0.0/30", "allowed"), ("127.0.0.2/32", "refused")]
    {
        let url = url.clone();
        let ran = blocking(move || abide(&["check", "--json", "--allow-net", net, &url])).await;
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
    let args = ["fetch", "--json", url, "--cacert", own.path().to_str().unwrap()];
    let ran = online(server.address(), &args).await;
    assert_eq!((ran.status, &ran.line()["outcome"]), (0, &json!("fetched")), "{}", ran.out);
    let args = ["fetch", "--json", url, "--cacert", other.path().to_str().unwrap()];
    let ran = online(server.address(), &args).await;
    assert_eq!((ran.status, &ran.line()["outcome"]), (1, &json!("denied")), "{}", ran.out);
    assert_eq!(server.asked(), ["a.example/robots.txt", "a.example/x"]);
}

#[tokio::test]
async fn plain_http_works_without_certificate_authorities() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let url = format!("http://127.0.0.1:{}/", server.address().port());
    let output = blocking(move || {
        let mut command = crate::command(&["check", "--json", "--allow-net", "127.0.0.1", &url]);
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
    let urls: Vec<String> = (0..6).map(|number| format!("http://a.example:PORT/{number}")).collect();
    let mut args = vec!["fetch", "--json", "--delay", "500ms", "--max-wait", "2s"];
    args.extend(urls.iter().map(String::as_str));
    args.push("http://b.example:PORT/");
    let ran = online(server.address(), &args).await;
    assert_eq!((ran.status, ran.lines().len()), (0, 7), "{}", ran.out);
    let place = |what: &str| server.asked().iter().position(|asked| asked == what);
    assert!(place("b.example/") < place("a.example/5"), "nor does one host wait for another");
}

#[tokio::test]
async fn a_name_with_a_private_address_is_refused_with_the_flag() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let port = server.address().port();
    for call in ["check", "fetch", "crawl", "explain"] {
        let ran = blocking(move || {
            let url = format!("http://a.example:{port}/");
            let other = format!("http://b.example:{port}/");
            abide(&[call, "--resolve", &format!("*:{port}:127.0.0.1"), &url, &other])
        })
        .await;
        let tip = "127.0.0.1 is not a public address (--allow-net 127.0.0.1 permits it)";
        assert!(ran.status == 1 && ran.out.contains(tip), "{call}: {}", ran.out);
    }
    assert_eq!(server.log().len(), 0);
}

#[tokio::test]
async fn a_crawl_never_exceeds_a_quota() {
    let quota = Quota::new(10, Duration::from_secs(2));
    let (counter, server) = (quota.clone(), Server::start(move |seen| quota.answer(seen)).await);
    let ran =
        online(server.address(), &["crawl", "--json", "--max-pages", "20", "http://a.example:PORT/"]).await;
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(counter.refused(), 0);
    assert_eq!(server.log().len(), 21, "robots.txt and twenty pages");
}
