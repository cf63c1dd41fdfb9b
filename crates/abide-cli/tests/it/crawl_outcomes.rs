//! `abide crawl`: what is counted, what is printed for each page, and how the call ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_tests::{Authority, Reply, Server};
use serde_json::{Value, json};

use crate::crawl::{only_host, page_lines, pages, summary};
use crate::{keys, online};

/// A page of every class. `/later` answers 503 once and `/never` always 429.
async fn classes() -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret\n"),
        "/" => Reply::html(
            ["/ok", "/moved", "/gone", "/broken", "/later", "/secret"]
                .map(|path| format!("<a href={path}>x</a>"))
                .concat(),
        ),
        "/moved" => Reply::redirect(301, "/target"),
        "/gone" => Reply::new(404, "no"),
        "/broken" => Reply::new(500, "no"),
        "/later" if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reply::with_headers(503, &[("retry-after", "1")], "")
        }
        "/never" => Reply::with_headers(429, &[("retry-after", "1")], ""),
        _ => Reply::html("<meta name=robots content=noindex>end"),
    })
    .await
}

#[tokio::test]
async fn outcomes_are_counted_by_class() {
    let server = classes().await;
    let ran = online(server.address(), &["crawl", "--json", "http://a.example:PORT/"]).await;
    let (host, whole) = (only_host(&ran), summary(&ran));
    for (name, value) in [
        ("fetched", 6),
        ("ok", 3),
        ("redirected", 1),
        ("client_errors", 1),
        ("server_errors", 1),
        ("denied", 1),
        ("deferred", 0),
        ("errors", 0),
        ("requeued", 1),
    ] {
        assert_eq!(host[name], json!(value), "{name}: {host}");
        assert!(whole[name] == json!(value) || name == "requeued", "{name}: {whole}");
    }
    assert_eq!((ran.status, &whole["interrupted"]), (0, &json!(false)));
    let text = online(server.address(), &["crawl", "http://a.example:PORT/"]).await.out;
    let counts = "7 URLs: 3 ok, 1 redirected, 1 client error, 1 server error, 1 denied";
    assert!(text.contains(&format!("\n  {counts}\n")) && text.ends_with(&format!("; {counts}\n")), "{text}");
}

#[tokio::test]
async fn a_page_answered_with_429_or_503_is_asked_for_again() {
    let server = classes().await;
    let args = ["crawl", "--json", "http://a.example:PORT/later", "http://a.example:PORT/never"];
    let ran = online(server.address(), &args).await;
    let lines = page_lines(&ran);
    let status = |path: &str| {
        lines.iter().find(|line| line["url"].as_str().unwrap().ends_with(path)).unwrap()["status"].clone()
    };
    assert_eq!((status("/later"), status("/never")), (json!(200), json!(429)), "{}", ran.out);
    assert_eq!((server.count("a.example/later"), server.count("a.example/never")), (2, 4), "bounded");
    let times: Vec<_> =
        server.log().iter().filter(|seen| seen.path == "/later").map(|seen| seen.at).collect();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "not before Retry-After has passed");
    assert_eq!((&only_host(&ran)["client_errors"], ran.status), (&json!(1), 0));
}

#[tokio::test]
async fn every_page_is_printed_as_it_comes() {
    let server = classes().await;
    let ran = online(server.address(), &["crawl", "--json", "http://a.example:PORT/"]).await;
    let lines = page_lines(&ran);
    assert_eq!(lines.len(), 7, "{}", ran.out);
    let find = |path: &str| -> &Value {
        lines.iter().find(|line| line["url"].as_str().unwrap().ends_with(path)).unwrap()
    };
    let ok = find("/ok");
    assert_eq!(
        keys(ok),
        ["url", "status", "outcome", "why", "ms", "bytes", "noindex", "final_url", "kind", "preferences"]
    );
    assert_eq!(
        (&ok["status"], &ok["outcome"], &ok["noindex"]),
        (&json!(200), &json!("fetched"), &json!(true))
    );
    assert!(ok["ms"].is_u64() && ok["bytes"] == json!(37), "{ok}");
    let secret = find("/secret");
    assert_eq!((&secret["outcome"], &secret["status"]), (&json!("denied"), &json!(null)));
    assert!(secret["why"].as_str().unwrap().contains("Disallow: /secret"), "{secret}");
    assert!(find("/moved")["final_url"].as_str().unwrap().ends_with("/target"));
    let order: Vec<bool> = ran.lines().iter().map(|line| !line["url"].is_null()).collect();
    assert_eq!(order, [&[true; 7][..], &[false; 2]].concat(), "pages, then the host, then the whole");

    let ran = online(server.address(), &["crawl", "-v", "http://a.example:PORT/"]).await;
    assert!(!ran.err.contains("user-agent"), "{}", ran.err);
    let text = ran.out;
    let port = server.address().port();
    for line in [
        format!("200  http://a.example:{port}/ok  "),
        format!("200  http://a.example:{port}/moved → http://a.example:{port}/target  "),
        format!("404  http://a.example:{port}/gone  "),
        format!("denied  http://a.example:{port}/secret  disallowed by "),
    ] {
        assert!(text.lines().any(|found| found.starts_with(&line)), "{line}: {text}");
    }
}

#[tokio::test]
async fn what_fails_a_crawl_is_as_asked() {
    let server = classes().await;
    for (fail_on, path, status) in [
        ("denied", "/secret", 1),
        ("4xx", "/gone", 1),
        ("5xx", "/broken", 1),
        ("4xx,5xx", "/secret", 0),
        ("denied,5xx", "/gone", 0),
        ("denied,4xx", "/broken", 0),
    ] {
        let url = format!("http://a.example:PORT{path}");
        let ran = online(server.address(), &["crawl", "--fail-on", fail_on, &url]).await;
        assert_eq!(ran.status, status, "{fail_on} {path}: {}", ran.out);
    }
    let ran = online(server.address(), &["crawl", "--fail-on", "404", "http://a.example:PORT/"]).await;
    assert!(ran.status == 2 && ran.err.contains("--fail-on"), "{}", ran.err);
}

/// A server that answers whatever it is sent with HTTP in the clear.
fn plain_http() -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    address
}

#[tokio::test]
async fn what_keeps_a_robots_txt_away_is_named() {
    let authority = Authority::new();
    let answer = |_: &abide_tests::Seen| Reply::new(404, "");
    let plain = plain_http();
    let expired = Server::start_tls(authority.expired("a.example"), answer).await;
    let own = Server::start_tls(Authority::self_signed("a.example"), answer).await;
    let other = Server::start_tls(authority.acceptor("b.example"), answer).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pem = crate::file(authority.pem());
    let pem = pem.path().to_str().unwrap();
    for (address, url, said) in [
        (plain, "https://a.example:PORT/", "it does not speak TLS on this port"),
        (expired.address(), "https://a.example:PORT/", "its certificate has expired"),
        (own.address(), "https://a.example:PORT/", "its certificate is self-signed"),
        (other.address(), "https://a.example:PORT/", "its certificate is for another name"),
        (closed, "http://a.example:PORT/", "the connection was refused"),
    ] {
        for call in ["crawl", "check", "fetch", "explain"] {
            let ran = online(address, &[call, "--cacert", pem, url]).await;
            assert!(ran.out.contains(said), "{call} {said}: {}{}", ran.out, ran.err);
            assert_eq!(ran.status, 1, "a host that cannot be asked is a failure");
        }
    }
    let resolve = ["crawl", "--agent", "ExampleBot", "http://nobody.invalid/"];
    let ran = crate::blocking(move || crate::abide(&resolve)).await;
    assert!(ran.out.contains("its name could not be resolved"), "{}{}", ran.out, ran.err);
    assert_eq!(ran.status, 1);
}

#[tokio::test]
async fn a_refused_address_is_ours_and_names_the_flag() {
    let server = classes().await;
    let port = server.address().port();
    let resolve = format!("*:{port}:127.0.0.1");
    let url = format!("http://a.example:{port}/");
    for call in ["check", "fetch", "crawl", "explain"] {
        for (is_json, url) in [(false, url.as_str()), (true, url.as_str()), (false, "http://127.0.0.1:9/")] {
            let mut args = vec![call.to_owned(), "--resolve".to_owned(), resolve.clone(), url.to_owned()];
            args.extend(is_json.then(|| "--json".to_owned()));
            let ran =
                crate::blocking(move || crate::abide(&args.iter().map(String::as_str).collect::<Vec<_>>()))
                    .await;
            assert_eq!(ran.status, 1, "{}", ran.out);
            assert!(
                ran.out.contains("127.0.0.1 is not a public address (--allow-net 127.0.0.1 "),
                "{}",
                ran.out
            );
            assert!(ran.out.contains("refused") && !ran.out.contains("deny"), "{call}: {}", ran.out);
            if is_json {
                assert_eq!(ran.lines()[0]["outcome"], json!("refused"), "{call}: {}", ran.out);
            }
        }
    }
    assert_eq!(server.log().len(), 0);
}

#[tokio::test]
async fn after_a_resume_the_whole_crawl_is_reported() {
    let server = classes().await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    let report = directory.path().join("r.html").display().to_string();
    let args = ["crawl", "--json", "--max-pages", "3", "--report", &report, "--store", &store];
    let args = [&args[..], &["http://a.example:PORT/"]].concat();
    let mut lines = Vec::new();
    let mut last = json!(null);
    for _ in 0..3 {
        let ran = online(server.address(), &args).await;
        lines.extend(page_lines(&ran));
        last = summary(&ran);
    }
    let whole = online(classes().await.address(), &["crawl", "--json", "http://a.example:PORT/"]).await;
    let whole = summary(&whole);
    for key in [
        "urls",
        "fetched",
        "ok",
        "redirected",
        "client_errors",
        "server_errors",
        "denied",
        "noindex",
        "bytes",
    ] {
        assert_eq!(last[key], whole[key], "{key}: {last}");
    }
    assert_eq!(last["requests"].as_u64().unwrap(), server.log().len() as u64, "{last}");
    assert_eq!(lines.len(), 7, "each page is printed by the run that fetched it");
    let page = std::fs::read_to_string(&report).unwrap();
    for path in ["/ok", "/moved", "/gone", "/broken", "/secret"] {
        assert!(page.contains(path), "{path}");
    }
    for chip in ["3 ok", "1 redirected", "1 client error", "1 server error", "1 denied"] {
        assert!(page.contains(&format!(">{chip}</li>")), "{chip}");
    }
}

#[tokio::test]
async fn a_depth_of_zero_with_sitemaps_is_exactly_the_sitemap() {
    let server = Server::start(|seen| {
        let site = format!("http://{}", seen.header("host").unwrap());
        match seen.path.as_str() {
            "/robots.txt" => {
                Reply::new(200, format!("Sitemap: {site}/map.xml\nUser-agent: *\nDisallow: /closed"))
            }
            "/map.xml" => Reply::new(
                200,
                format!("<urlset><url><loc>{site}/1</loc></url><url><loc>{site}/2</loc></url></urlset>"),
            ),
            _ => Reply::html("<a href=/linked>l</a>"),
        }
    })
    .await;
    let asked = ["a.example/1", "a.example/2", "a.example/map.xml"];
    for (start, extra) in [("/", Some("a.example/")), ("/closed", None), ("/map.xml", None)] {
        let before = server.asked().len();
        let url = format!("http://a.example:PORT{start}");
        online(server.address(), &["crawl", "--max-depth", "0", "--sitemaps", &url]).await;
        let mut expected: Vec<&str> = extra.into_iter().chain(asked).collect();
        expected.sort_unstable();
        let mut got: Vec<String> = server.asked().split_off(before);
        got.retain(|what| !what.ends_with("/robots.txt"));
        got.sort();
        got.dedup();
        assert_eq!(got, expected, "{start}");
    }
    assert!(!pages(&server).contains(&"a.example/linked".to_owned()));
}

#[tokio::test]
#[cfg(unix)]
async fn a_signal_is_the_exit_status() {
    for call in ["crawl", "fetch", "check"] {
        for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
            let server = Server::start(|_| Reply::new(404, "").after(Duration::from_secs(600))).await;
            let args = [call, "http://a.example:PORT/"];
            let ran = crate::ended_by(signal, &server, &args, || !server.log().is_empty()).await;
            assert_eq!(ran.status, status, "{call} {signal}");
        }
    }
}
