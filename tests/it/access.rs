//! Whether robots.txt could be had: RFC 9309 §2.3, over real sockets.

use std::io::Write;
use std::time::Duration;

use abide::robots_cache::RobotsPolicy;
use abide::{DeniedKind, Failure};
use abide_tests::{Reply, Server, Step, StoppedClock};

use crate::{builder, client, refused, status};

/// A site whose robots.txt is answered with `robots`, and everything else with a page.
async fn site(robots: Reply) -> Server {
    Server::start(move |seen| match seen.path.as_str() {
        "/robots.txt" => robots.clone(),
        _ => Reply::html("page"),
    })
    .await
}

fn raw(text: &str) -> Reply {
    Reply::raw(vec![Step::Send(text.as_bytes().to_vec())])
}

#[tokio::test]
async fn a_4xx_allows_all_and_the_body_is_not_read() {
    for code in [400, 401, 403, 404, 410, 418, 451, 499] {
        let server = site(Reply::new(code, "User-agent: *\nDisallow: /")).await;
        assert_eq!(status(&client(&server), "http://a.example/x").await, 200, "{code}");
    }
}

#[tokio::test]
async fn a_5xx_disallows_all_whatever_the_body_says() {
    for code in [500, 502, 503, 599, 600, 999] {
        let server = site(Reply::new(code, "User-agent: *\nAllow: /")).await;
        let denied = refused(&client(&server), "http://a.example/x").await;
        assert!(denied.is_unreachable(), "{code}: {denied:?}");
        assert_eq!(server.count("a.example/x"), 0, "{code}");
    }
}

#[tokio::test]
async fn what_breaks_on_the_wire_disallows_all() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";
    let allow = "User-agent: *\nAllow: /\n";
    let cases = [
        ("closed at once", Reply::raw(vec![])),
        ("reset at once", Reply::raw(vec![Step::Reset])),
        ("cut in the status line", raw("HTTP/1.1 2")),
        ("cut in the head", raw(head)),
        ("shorter than stated", raw(&format!("{head}content-length: 500\r\n\r\n{allow}"))),
        ("chunks cut", raw(&format!("{head}transfer-encoding: chunked\r\n\r\n17\r\n{allow}\r\n"))),
        (
            "a bad chunk size",
            raw(&format!("{head}transfer-encoding: chunked\r\n\r\n17\r\n{allow}\r\nzz\r\n")),
        ),
        (
            "a huge chunk",
            raw(&format!("{head}transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{allow}")),
        ),
        (
            "reset in the body",
            Reply::raw(vec![
                Step::Send(format!("{head}content-length: 500\r\n\r\n{allow}").into_bytes()),
                Step::Sleep(Duration::from_millis(20)),
                Step::Reset,
            ]),
        ),
        ("HTTP/0.9", raw(allow)),
        (
            "a length beside chunks",
            raw(&format!("{head}content-length: 23\r\ntransfer-encoding: chunked\r\n\r\n{allow}")),
        ),
        ("two lengths", raw(&format!("{head}content-length: 23\r\ncontent-length: 25\r\n\r\n{allow}"))),
        ("a negative length", raw(&format!("{head}content-length: -1\r\n\r\n{allow}"))),
        ("a huge length", raw(&format!("{head}content-length: 9223372036854775808\r\n\r\n{allow}"))),
        ("no HTTP", raw("SSH-2.0-OpenSSH_9.2\r\n")),
        ("a two-digit status", raw("HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n")),
        ("unknown coding", Reply::with_headers(200, &[("content-encoding", "x-unknown")], allow)),
        ("named gzip but plain", Reply::with_headers(200, &[("content-encoding", "gzip")], allow)),
        (
            "gzip cut",
            Reply::with_headers(200, &[("content-encoding", "gzip")], &gzip(allow.as_bytes())[..20]),
        ),
        (
            "gzip corrupt",
            Reply::with_headers(200, &[("content-encoding", "gzip")], corrupt(gzip(allow.as_bytes()))),
        ),
        (
            "gzip twice",
            Reply::with_headers(
                200,
                &[("content-encoding", "gzip"), ("content-encoding", "gzip")],
                gzip(&gzip(allow.as_bytes())),
            ),
        ),
        (
            "gzip fifty times",
            Reply::with_headers(
                200,
                &[("content-encoding", "gzip"); 50],
                (0..50).fold(allow.as_bytes().to_vec(), |body, _| gzip(&body)),
            ),
        ),
        (
            "deflate without its name's wrapping",
            Reply::with_headers(200, &[("content-encoding", "deflate")], allow),
        ),
        ("gzip bytes without the name", Reply::new(200, [0x1f, 0x8b, 8, 0, 0])),
        ("a part", Reply::new(206, allow)),
    ];
    for (what, robots) in cases {
        let server = site(robots).await;
        let denied = refused(&client(&server), "http://a.example/x").await;
        assert!(denied.is_unreachable(), "{what}: {denied:?}");
        assert_eq!(server.count("a.example/x"), 0, "{what}");
    }
}

#[tokio::test]
async fn a_closed_port_disallows_all() {
    let server = site(Reply::new(200, "")).await;
    let client = client(&server);
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let denied = refused(&client, &format!("http://a.example:{unused}/x")).await;
    assert!(denied.is_unreachable(), "{denied:?}");
}

#[tokio::test]
async fn a_body_longer_than_stated_counts_as_stated() {
    let body = "User-agent: *\nDisallow: /x\n";
    let robots =
        raw(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}Allow: /x/y\n", body.len()));
    let server = site(robots).await;
    let client = client(&server);
    assert!(refused(&client, "http://a.example/x/y").await.is_disallowed());
    assert_eq!(status(&client, "http://a.example/z").await, 200);
}

#[tokio::test]
async fn an_endless_body_is_cut_at_the_limit() {
    let mut body = b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\nDisallow: /x\n".to_vec();
    body.extend(b"# filler\n".repeat(1000));
    let steps = vec![Step::Send(body), Step::Repeat(b"# filler\n".repeat(1000), 12_000)];
    let server = site(Reply::raw(steps)).await;
    let client = client(&server);
    assert!(refused(&client, "http://a.example/x").await.is_disallowed());
    assert_eq!(status(&client, "http://a.example/y").await, 200);
}

#[tokio::test]
async fn a_drip_ends_at_the_deadline() {
    let mut steps = vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec())];
    for _ in 0..60 {
        steps.push(Step::Sleep(Duration::from_secs(1)));
        steps.push(Step::Send(b"#".to_vec()));
    }
    let clock = StoppedClock::stop();
    let server = site(Reply::raw(steps)).await;
    let client = client(&server);
    let denied = clock.pass_until(refused(&client, "http://a.example/x")).await;
    assert!(matches!(denied.kind(), DeniedKind::Unreachable { cause: Failure::Timeout, .. }), "{denied:?}");
}

#[tokio::test]
async fn informational_answers_for_ever_end_at_the_deadline() {
    let early = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".to_vec();
    let server = site(Reply::raw(vec![Step::Repeat(early, 10_000_000)])).await;
    let policy = RobotsPolicy::default().with_deadline(Duration::from_millis(300));
    let client = builder(&server).robots(policy).build_client(reqwest::Client::builder()).unwrap();
    assert!(refused(&client, "http://a.example/x").await.is_unreachable());
}

#[tokio::test]
async fn a_gzip_bomb_is_cut_at_the_limit() {
    // 64 MiB of comments behind a rule, in less than 1 MiB.
    let mut text = b"User-agent: *\nDisallow: /x\n".to_vec();
    text.extend(b"#aaaaaaaaaaaaaa\n".repeat(4 * 1024 * 1024));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text).unwrap();
    let body = encoder.finish().unwrap();
    drop(text);
    assert!(body.len() < 1024 * 1024);
    let server = site(Reply::with_headers(200, &[("content-encoding", "gzip")], body)).await;
    let client = client(&server);
    assert!(refused(&client, "http://a.example/x").await.is_disallowed());
    assert_eq!(status(&client, "http://a.example/y").await, 200);
}

#[tokio::test]
async fn redirects_of_robots_txt_count_for_the_first_origin_only() {
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("a.example", "/robots.txt") => Reply::redirect(301, "http://b.example/robots.txt"),
        ("b.example", "/robots.txt") => Reply::redirect(302, "/rules"),
        ("b.example", "/rules") => Reply::redirect(307, "//c.example/x?y=1"),
        ("c.example", "/x?y=1") => Reply::new(200, "User-agent: *\nDisallow: /x"),
        ("c.example", "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /z"),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    assert!(refused(&client, "http://a.example/x").await.is_disallowed());
    assert_eq!(status(&client, "http://a.example/z").await, 200);
    assert_eq!(status(&client, "http://c.example/x").await, 200, "c.example has rules of its own");
    assert!(refused(&client, "http://c.example/z").await.is_disallowed());
}

#[tokio::test]
async fn five_redirects_are_followed_and_six_are_unavailable() {
    let hops = |last: usize| {
        Server::start(move |seen| {
            let number: usize = match seen.path.as_str() {
                "/robots.txt" => 0,
                path => path.trim_start_matches("/hop").parse().unwrap_or(usize::MAX),
            };
            match number {
                usize::MAX => Reply::html("page"),
                _ if number == last => Reply::new(200, "User-agent: *\nDisallow: /"),
                _ => Reply::redirect(301, &format!("/hop{}", number + 1)),
            }
        })
    };
    let five = hops(5).await;
    assert!(refused(&client(&five), "http://a.example/x").await.is_disallowed());
    let six = hops(6).await;
    assert_eq!(status(&client(&six), "http://a.example/x").await, 200);
    assert_eq!(six.log().iter().filter(|seen| seen.path != "/x").count(), 6, "the seventh is not asked for");
}

#[tokio::test]
async fn a_redirect_to_a_refused_address_sends_no_packet() {
    let silent = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let port = silent.local_addr().unwrap().port();
    for target in [
        "127.0.0.2",
        "2130706434",
        "0x7f000002",
        "0177.0.0.2",
        "127.2",
        "[::ffff:127.0.0.2]",
        "[::1]",
        "0.0.0.0",
    ] {
        let location = format!("http://{target}:{port}/robots.txt");
        let server = site(Reply::redirect(302, &location)).await;
        let denied = refused(&client(&server), "http://a.example/x").await;
        assert!(
            matches!(denied.kind(), DeniedKind::Unreachable { cause: Failure::AddressRefused(_), .. }),
            "{target}: {denied:?}"
        );
    }
    assert!(silent.accept().is_err(), "the listener stayed silent");
}

#[tokio::test]
async fn robots_txt_carries_no_cookie() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => {
            Reply::with_headers(302, &[("location", "/rules"), ("set-cookie", "robots=1; Path=/")], "")
        }
        "/rules" => Reply::new(200, "User-agent: *\nAllow: /"),
        _ => Reply::with_headers(
            200,
            &[("set-cookie", "page=1; Path=/"), ("content-type", "text/html")],
            "page",
        ),
    })
    .await;
    let inner = reqwest::Client::builder().cookie_store(true);
    let client = builder(&server).build_client(inner).unwrap();
    // The page sets a cookie, and another port of the host is another origin, whose robots.txt is asked with the jar filled.
    assert_eq!(status(&client, "http://a.example/x").await, 200);
    assert_eq!(status(&client, &format!("http://a.example:{}/x", server.address().port())).await, 200);
    let robots: Vec<_> = server.log().into_iter().filter(|seen| seen.path != "/x").collect();
    assert_eq!(robots.len(), 4);
    assert_eq!(robots[0].header("cookie"), None, "no jar can have anything yet");
    for seen in robots {
        assert_eq!(seen.header("cookie").unwrap_or_default(), "", "{}", seen.what());
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A bit of the checksum behind the data is flipped.
fn corrupt(mut bytes: Vec<u8>) -> Vec<u8> {
    let place = bytes.len() - 6;
    bytes[place] ^= 1;
    bytes
}
