//! `abide crawl`: what is counted, what is printed for each page, and how the call ends.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_tests::{Authority, Reply, Server};
use serde_json::{Value, json};

use crate::crawl::{only_host, page_lines, summary};
use crate::io::proxy_that;
use crate::{Ran, abide, blocking, has, online, store};

/// A page of every class. `/later` answers 503 once and `/never` always 429.
async fn classes() -> Server {
    let asked = AtomicUsize::new(0);
    Server::with_rules("User-agent: *\nDisallow: /secret\n", move |seen| match seen.path.as_str() {
        "/" => Reply::html(
            ["/ok", "/moved", "/gone", "/broken", "/later", "/secret"]
                .map(|path| format!("<a href={path}>x</a>"))
                .concat(),
        ),
        "/moved" => Reply::redirect(301, "/target"),
        "/gone" => Reply::new(404, "no"),
        "/broken" => Reply::new(500, "no"),
        "/later" if asked.fetch_add(1, Ordering::SeqCst) == 0 => Reply::retry_after(503, 1),
        "/never" => Reply::retry_after(429, 1),
        _ => Reply::html("<meta name=robots content=noindex>end"),
    })
    .await
}

fn page(ran: &Ran, path: &str) -> Value {
    let is_it = |line: &Value| line["url"].as_str().is_some_and(|url| url.ends_with(path));
    page_lines(ran).into_iter().find(is_it).unwrap_or_else(|| panic!("{path}: {}{}", ran.out, ran.err))
}

#[tokio::test]
async fn a_page_answered_with_429_or_503_is_asked_for_again() {
    let server = classes().await;
    let ran = online(&server, "crawl --json a.example/later b.example/never").await;
    has(&page(&ran, "/later"), json!({"status": 200}));
    has(&page(&ran, "/never"), json!({"status": 429}));
    assert_eq!((server.count("a.example/later"), server.count("b.example/never")), (2, 4), "bounded");
    let times: Vec<_> =
        server.log().iter().filter(|seen| seen.path == "/later").map(|seen| seen.at).collect();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "not before Retry-After has passed");
    assert_eq!((&summary(&ran)["client_errors"], ran.status), (&json!(1), 0));
    assert_eq!(["a", "b"].map(|host| ran.host(host)["requeued"].clone()), [1, 3].map(|count| json!(count)));
}

#[tokio::test]
async fn what_keeps_a_robots_txt_away_is_named() {
    let authority = Authority::new();
    let answer = |_: &abide_tests::Seen| Reply::new(404, "");
    // Answers whatever it is sent in the clear.
    let (plain, _) = proxy_that(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        String::new()
    });
    let expired = Server::start_tls(authority.expired("a.example"), answer).await;
    let own = Server::start_tls(Authority::self_signed("a.example"), answer).await;
    // `--cacert` is trusted, and nothing else.
    let stranger = Server::start_tls(Authority::new().acceptor("a.example"), answer).await;
    let other = Server::start_tls(authority.acceptor("b.example"), answer).await;
    // Bound and not listening, so that no other test gets the port.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let pem = crate::file(authority.pem());
    for (address, url, said) in [
        (plain, "https://a.example:PORT/", "it does not speak TLS on this port"),
        (expired.address(), "https://a.example:PORT/", "its certificate has expired"),
        (own.address(), "https://a.example:PORT/", "its certificate is self-signed"),
        (
            stranger.address(),
            "https://a.example:PORT/",
            "its certificate is self-signed or of an unknown authority",
        ),
        (other.address(), "https://a.example:PORT/", "its certificate is for another name"),
        (closed.local_addr().unwrap(), "a.example/", "the connection was refused"),
    ] {
        for call in ["crawl", "check", "fetch", "explain"] {
            online(address, format!("{call} --cacert {pem} {url}")).await.ends_with(1).shows(&[said]);
        }
    }
    let ran = blocking(|| abide("crawl --agent ExampleBot http://site.invalid/")).await;
    ran.ends_with(1).shows(&["its name could not be resolved"]);
}

#[tokio::test]
async fn after_a_resume_the_whole_crawl_is_reported() {
    let server = classes().await;
    let (directory, store) = store();
    let report = directory.place("r.html");
    let args = format!("crawl --json --max-pages 3 --report {report} --store {store} a.example/");
    let mut lines = Vec::new();
    let (mut last, mut host) = (json!(null), json!(null));
    for _ in 0..2 {
        let ran = online(&server, &args).await;
        lines.extend(page_lines(&ran));
        (last, host) = (summary(&ran), only_host(&ran));
    }
    let ran = online(&classes().await, "crawl --json a.example/").await;
    let (whole, whole_host) = (summary(&ran), only_host(&ran));
    for key in ["permissions", "denied_by"] {
        assert_ne!(host[key], json!(null));
        assert_eq!(host[key], whole_host[key], "{key}");
    }
    for key in "urls fetched ok redirected client_errors server_errors denied noindex bytes".split(' ') {
        assert_eq!(last[key], whole[key], "{key}: {last}");
    }
    assert_eq!(last["requests"].as_u64().unwrap(), server.log().len() as u64, "{last}");
    assert_eq!(lines.len(), 8, "each page is printed by the run that fetched it");
    let page = std::fs::read_to_string(&report).unwrap();
    for path in ["/ok", "/moved", "/gone", "/broken", "/secret"] {
        assert!(page.contains(path), "{path}");
    }
    for chip in ["4 ok", "1 redirected", "1 client error", "1 server error", "1 denied"] {
        assert!(page.contains(&format!(">{chip}</li>")), "{chip}");
    }
}

#[tokio::test]
#[cfg(unix)]
async fn a_signal_is_the_exit_status() {
    for call in ["crawl", "fetch", "check"] {
        for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
            let server = Server::start(|_| Reply::new(404, "").after(Duration::from_secs(600))).await;
            let (args, is_time) = (format!("{call} a.example/"), || !server.log().is_empty());
            Ran::from(crate::ended_by(signal, &server, args, is_time).await).ends_with(status);
        }
    }
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

#[tokio::test]
#[cfg(unix)]
async fn what_an_interrupted_crawl_needs_to_go_on_is_said() {
    let server = Server::start(|_| Reply::new(404, "").after(Duration::from_secs(600))).await;
    let is_time = || !server.log().is_empty();
    let ran = Ran::from(crate::ended_by("-INT", &server, "crawl a.example/", is_time).await);
    ran.ends_with(130)
        .reports(&["nothing is kept of it: with --store redb:crawl.redb the same call goes on"]);
}

#[tokio::test]
async fn lines_fit_eighty_columns() {
    let server = classes().await;
    let ran = online(&server, "crawl -v a.example/ b.example/").await;
    let is_plain = |line: &&str| !line.contains("http://");
    let widest = ran.out.lines().filter(is_plain).max_by_key(|line| line.chars().count()).unwrap();
    assert!((60..=80).contains(&widest.chars().count()), "{widest}");
    assert!(
        ran.out.contains("/secret\n        disallowed by \"Disallow: /secret\" on line 2\n"),
        "{}",
        ran.out
    );
}

#[tokio::test]
async fn when_to_ask_again_is_said_as_people_read_it() {
    let server = Server::without_rules(|_| Reply::retry_after(503, 200)).await;
    let ran = online(&server, "fetch a.example/ a.example/x").await;
    // Up to a tenth later than asked for.
    ran.shows(&["deferred", "its host answered 503; again in 3 min "]);
}
