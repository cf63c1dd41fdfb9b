//! `abide fetch`: every outcome, every field.

use std::time::Duration;

use abide_tests::{Reply, Server, Step};
use serde_json::{Value, json};

use crate::offline::{RULES, TAGS};
use crate::{abide, blocking, keys, online};

pub(crate) const LINE: [&str; 13] = [
    "url",
    "outcome",
    "status",
    "final_url",
    "hops",
    "verdict",
    "permissions",
    "preferences",
    "noindex",
    "waited_ms",
    "bytes",
    "why",
    "not_before",
];

/// `/robots.txt` forbids `/secret`, `/to?x` redirects to x.
async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => match seen.host() {
            "down.example" => Reply::new(500, ""),
            "busy.example" => Reply::with_headers(429, &[("retry-after", "3600")], ""),
            "slow.example" => Reply::new(200, "").after(Duration::from_secs(60)),
            "delay.example" => Reply::new(200, "User-agent: *\nCrawl-delay: 40"),
            _ => Reply::new(200, "User-agent: *\nDisallow: /secret\n"),
        },
        "/noindex" => Reply::html("<head><meta name=robots content=noindex></head><p>text</p>"),
        "/header" => Reply::with_headers(
            200,
            &[("content-type", "application/pdf"), ("robots-tag", "ExampleBot;nosnippet")],
            "%PDF",
        ),
        "/image" => Reply::with_headers(200, &[("content-type", "image/png")], "png"),
        "/missing" => Reply::new(404, "none"),
        "/busy" => Reply::with_headers(429, &[("retry-after", "3600")], ""),
        "/cut" => {
            Reply::raw(vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort".to_vec())])
        }
        path if path.starts_with("/to?") => Reply::redirect(302, &path["/to?".len()..]),
        path if path.starts_with("/count?") => {
            let number: u32 = path["/count?".len()..].parse().unwrap_or(0);
            Reply::redirect(302, &format!("/count?{}", number + 1))
        }
        _ => Reply::html("<title>page</title><p>text</p>"),
    })
    .await
}

/// The one line of a fetch, with its fields checked, and the exit status.
async fn fetch(server: &Server, args: &[&str]) -> (Value, i32) {
    let ran = online(server.address(), &[&["fetch", "--json"], args].concat()).await;
    let line = ran.line();
    assert_eq!(keys(&line), LINE);
    for hop in line["hops"].as_array().unwrap() {
        assert_eq!(keys(hop), ["url", "status", "allowed"]);
    }
    (line, ran.status)
}

/// Paths, statuses and permissions of the hops.
fn hops(line: &Value) -> Vec<(String, Value, bool)> {
    let hop = |hop: &Value| {
        let url: url::Url = hop["url"].as_str().unwrap().parse().unwrap();
        let path = url[url::Position::BeforePath..].to_owned();
        (path, hop["status"].clone(), hop["allowed"].as_bool().unwrap())
    };
    line["hops"].as_array().unwrap().iter().map(hop).collect()
}

#[tokio::test]
async fn a_page_that_may_be_had_is_fetched() {
    let server = site().await;
    let url = format!("http://a.example:{}/page", server.address().port());
    let (line, status) = fetch(&server, &["http://a.example:PORT/page"]).await;
    assert_eq!(status, 0);
    assert_eq!((&line["url"], &line["final_url"]), (&json!(url), &json!(url)));
    assert_eq!((&line["outcome"], &line["status"]), (&json!("fetched"), &json!(200)));
    assert_eq!(line["hops"], json!([{"url": url, "status": 200, "allowed": true}]));
    assert_eq!(keys(&line["permissions"]), TAGS);
    assert_eq!(keys(&line["permissions"]["rules"]), RULES);
    assert_eq!(keys(&line["verdict"])[..5], crate::offline::MATCH);
    assert_eq!(line["verdict"]["allowed"], json!(true));
    assert_eq!((&line["noindex"], &line["bytes"]), (&json!(false), &json!(30)));
    assert!(line["waited_ms"].is_u64());
    assert!(line["why"].as_str().unwrap().starts_with("allowed"), "{line}");
    assert_eq!(line["not_before"], json!(null));
}

#[tokio::test]
async fn tdmrep_json_is_fetched_where_it_is_asked_for() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/.well-known/tdmrep.json" => Reply::new(200, r#"[{"location": "/", "tdm-reservation": 1}]"#),
        _ => Reply::html("page"),
    })
    .await;
    let url = "http://a.example:PORT/x";
    let without = online(server.address(), &["fetch", "--json", url]).await.line();
    assert_eq!((&without["preferences"], server.count("a.example/.well-known/tdmrep.json")), (&json!([]), 0));
    let with = online(server.address(), &["fetch", "--json", "--tdmrep", url]).await.line();
    let stated = &with["preferences"][0];
    assert_eq!(stated["preference"], json!("disallow"), "{with}");
    assert!(stated["source"].as_str().unwrap().contains("tdmrep.json"), "{with}");
    let text = online(server.address(), &["fetch", "--tdmrep", url]).await.out;
    assert!(text.contains("tdmrep.json"), "{text}");
}

#[tokio::test]
async fn permissions_come_from_the_head_and_the_header() {
    let server = site().await;
    let (line, _) = fetch(&server, &["http://a.example:PORT/noindex"]).await;
    assert_eq!(line["noindex"], json!(true));
    assert_eq!(line["permissions"]["metas"], json!([{"name": "robots", "content": "noindex"}]));
    assert_eq!(line["permissions"]["head"], json!("ended"));
    let (line, _) = fetch(&server, &["http://a.example:PORT/header"]).await;
    assert_eq!(line["permissions"]["rules"]["nosnippet"], json!(true));
    assert_eq!((&line["noindex"], &line["permissions"]["head"]), (&json!(false), &json!("none")));
}

#[tokio::test]
async fn an_error_status_is_fetched_all_the_same() {
    let server = site().await;
    let (line, status) = fetch(&server, &["http://a.example:PORT/missing"]).await;
    assert_eq!((status, &line["outcome"], &line["status"]), (0, &json!("fetched"), &json!(404)));
}

#[tokio::test]
async fn what_is_disallowed_is_denied_and_never_asked_for() {
    let server = site().await;
    let (line, status) = fetch(&server, &["http://a.example:PORT/secret/x"]).await;
    assert_eq!((status, &line["outcome"]), (1, &json!("denied")));
    assert_eq!(hops(&line), [("/secret/x".to_owned(), json!(null), false)]);
    assert_eq!(line["verdict"]["rule"], json!({"kind": "disallow", "pattern": "/secret", "line": 2}));
    for name in ["status", "permissions", "noindex", "bytes"] {
        assert_eq!(line[name], json!(null), "{name}");
    }
    assert!(line["why"].as_str().unwrap().contains("line 2"), "{line}");
    assert_eq!(server.asked(), ["a.example/robots.txt"]);
}

#[tokio::test]
async fn a_redirect_into_a_disallowed_path_is_denied_with_its_hops() {
    let server = site().await;
    let (line, status) = fetch(&server, &["http://a.example:PORT/to?/to?/secret/x"]).await;
    assert_eq!((status, &line["outcome"]), (1, &json!("denied")));
    assert_eq!(
        hops(&line),
        [
            ("/to?/to?/secret/x".to_owned(), json!(302), true),
            ("/to?/secret/x".to_owned(), json!(302), true),
            ("/secret/x".to_owned(), json!(null), false),
        ]
    );
    assert!(!server.asked().contains(&"a.example/secret/x".to_owned()));
}

#[tokio::test]
async fn a_redirect_is_followed_and_every_hop_is_reported() {
    let server = site().await;
    let (line, _) = fetch(&server, &["http://a.example:PORT/to?/page"]).await;
    assert_eq!(line["outcome"], json!("fetched"));
    assert_eq!(
        hops(&line),
        [("/to?/page".to_owned(), json!(302), true), ("/page".to_owned(), json!(200), true)]
    );
    assert!(line["final_url"].as_str().unwrap().ends_with("/page"));
}

#[tokio::test]
async fn a_redirect_loop_is_refused_after_ten_hops() {
    let server = site().await;
    let (line, status) = fetch(&server, &["http://a.example:PORT/count?0"]).await;
    assert_eq!((status, &line["outcome"]), (1, &json!("refused")));
    let hops = hops(&line);
    assert_eq!(hops.len(), 11);
    assert!(hops.iter().all(|(_, status, allowed)| *status == json!(302) && *allowed), "{hops:?}");
}

#[tokio::test]
async fn disallowed_by_a_server_error_is_denied() {
    let server = site().await;
    let (line, status) = fetch(&server, &["http://down.example:PORT/page"]).await;
    assert_eq!((status, &line["outcome"]), (1, &json!("denied")));
    assert_eq!(line["verdict"]["source"], json!("unreachable"));
    assert!(line["verdict"]["retry_at"].as_str().unwrap().ends_with('Z'), "{line}");
    assert!(
        crate::unix_seconds(&line["not_before"]) > crate::now(),
        "robots.txt is asked again then: {line}"
    );
    assert_eq!(server.asked(), ["down.example/robots.txt"]);
}

#[tokio::test]
async fn a_backed_off_host_is_deferred() {
    let server = site().await;
    let (line, status) = fetch(&server, &["http://busy.example:PORT/page"]).await;
    assert_eq!((status, &line["outcome"]), (1, &json!("deferred")), "{line}");
    assert_eq!(server.asked(), ["busy.example/robots.txt"]);
    let (seconds, now) = (crate::unix_seconds(&line["not_before"]), crate::now());
    assert!((now + 3500..=now + 4000).contains(&seconds), "an hour, and up to a tenth: {line}");

    let urls = ["http://a.example:PORT/busy", "http://a.example:PORT/page", "--concurrency", "1"];
    let ran = online(server.address(), &[&["fetch", "--json"], &urls[..]].concat()).await;
    let lines = ran.lines();
    assert_eq!((&lines[0]["outcome"], &lines[0]["status"]), (&json!("fetched"), &json!(429)));
    assert_eq!(lines[1]["outcome"], json!("deferred"));
    assert_eq!(hops(&lines[1]), [("/page".to_owned(), json!(null), true)], "it may be asked for, later");
    assert!(!server.asked().contains(&"a.example/page".to_owned()));
}

#[tokio::test]
async fn a_permit_beyond_max_wait_is_deferred() {
    let server = site().await;
    let urls = ["http://delay.example:PORT/1", "http://delay.example:PORT/2", "--max-wait", "2s"];
    let ran = online(server.address(), &[&["fetch", "--json"], &urls[..]].concat()).await;
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
    assert_eq!(server.asked(), ["delay.example/robots.txt"]);
}

#[tokio::test]
async fn a_robots_txt_beyond_its_deadline_is_unreachable() {
    let server = site().await;
    let (line, status) = fetch(&server, &["http://slow.example:PORT/page", "--timeout", "300ms"]).await;
    assert_eq!((status, &line["outcome"]), (1, &json!("denied")), "{line}");
    assert_eq!(line["verdict"]["source"], json!("unreachable"));
    assert_eq!(server.count("slow.example/page"), 0);
}

#[tokio::test]
async fn private_addresses_are_refused_also_behind_redirects() {
    let server = site().await;
    let port = server.address().port();
    let url = format!("http://127.0.0.1:{port}/page");
    let ran = blocking(move || abide(&["fetch", "--json", &url])).await;
    let line = ran.line();
    assert_eq!((ran.status, &line["outcome"]), (1, &json!("refused")), "{line}");
    assert!(line["why"].as_str().unwrap().contains("127.0.0.1"), "{line}");
    assert_eq!(server.asked().len(), 0);

    let (line, _) = fetch(&server, &["http://a.example:PORT/to?http://127.0.0.2:PORT/page"]).await;
    assert_eq!(line["outcome"], json!("refused"), "{line}");
    assert_eq!(hops(&line)[1], ("/page".to_owned(), json!(null), false));
}

#[tokio::test]
async fn a_server_that_is_not_there_makes_robots_txt_unreachable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ran = online(free, &["fetch", "--json", "http://a.example:PORT/page"]).await;
    let line = ran.line();
    assert_eq!((ran.status, &line["outcome"]), (1, &json!("denied")), "{line}");
    assert_eq!(line["verdict"]["source"], json!("unreachable"));
}

#[tokio::test]
async fn a_broken_page_is_an_error() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/to" => Reply::redirect(302, "/reset"),
        _ => Reply::raw(vec![Step::Reset]),
    })
    .await;
    let (line, status) = fetch(&server, &["http://a.example:PORT/reset"]).await;
    assert_eq!((status, &line["outcome"]), (1, &json!("error")), "{line}");
    assert_eq!(hops(&line), [("/reset".to_owned(), json!(null), true)]);
    assert_eq!(line["verdict"]["source"], json!("unavailable"));
    assert!(!line["why"].as_str().unwrap().is_empty());
    let (line, _) = fetch(&server, &["http://a.example:PORT/to"]).await;
    assert_eq!(hops(&line), [("/to".to_owned(), json!(302), true), ("/reset".to_owned(), json!(null), true)]);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_with_what_came() {
    let server = site().await;
    let (line, status) = fetch(&server, &["http://a.example:PORT/cut"]).await;
    assert_eq!((status, &line["outcome"], &line["status"]), (1, &json!("error"), &json!(200)), "{line}");
    assert_eq!(line["bytes"], json!(5));
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_urls() {
    let server = site().await;
    let hosts = ["slow.example", "a.example", "b.example", "c.example"];
    let urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}:PORT/page")).collect();
    let mut args = vec!["fetch", "--json", "--timeout", "500ms"];
    args.extend(urls.iter().map(String::as_str));
    let lines = online(server.address(), &args).await.lines();
    for (line, host) in lines.iter().zip(hosts) {
        assert!(line["url"].as_str().unwrap().contains(host), "{line}");
    }
    assert_eq!(lines.len(), 4);
}

#[tokio::test]
async fn user_information_is_never_printed() {
    let server = site().await;
    for path in ["page", "secret/x", "cut"] {
        let url = format!("http://user:MARKER@a.example:PORT/{path}");
        let ran = online(server.address(), &["fetch", "--json", &url]).await;
        let mut line = ran.line();
        line["url"] = json!(null);
        assert!(!line.to_string().contains("MARKER"), "{line}");
    }
}

#[tokio::test]
async fn the_text_has_outcome_reason_and_permissions() {
    let server = site().await;
    let args = ["fetch", "http://a.example:PORT/to?/noindex", "http://a.example:PORT/secret"];
    let ran = online(server.address(), &args).await;
    for text in
        ["200  http://a.example:", "→ http://a.example:", "not to be indexed", "denied  http://", "line 2"]
    {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    assert!(!ran.out.contains('\x1b'));
}

#[tokio::test]
async fn the_waits_of_failed_calls_are_reported() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret\n"),
        "/silent" => Reply::html("").after(Duration::from_secs(600)),
        "/reset" => Reply::raw(vec![Step::Reset]),
        path if path.starts_with("/to?") => Reply::redirect(302, &path["/to?".len()..]),
        _ => Reply::html("<p>text</p>"),
    })
    .await;
    for (path, outcome) in [
        ("to?/secret", "denied"),
        ("to?http://127.0.0.2:PORT/", "refused"),
        ("reset", "error"),
        ("silent", "error"),
    ] {
        let url = format!("http://a.example:PORT/{path}");
        let begun = std::time::Instant::now();
        let (line, _) = fetch(&server, &[&url, "--delay", "1s", "--page-timeout", "5s"]).await;
        assert_eq!(line["outcome"], json!(outcome), "{line}");
        let (waited, elapsed) = (line["waited_ms"].as_u64().unwrap(), begun.elapsed().as_millis());
        assert!(waited > 0 && u128::from(waited) < elapsed, "{waited} ms of {elapsed}: {line}");
        let is_late = line["why"].as_str().unwrap().contains("--page-timeout");
        assert_eq!(is_late, path == "silent", "{line}");
    }
}

#[tokio::test]
async fn a_deferral_says_what_was_waited_before() {
    let server = site().await;
    let url = "http://a.example:PORT/to?http://busy.example:PORT/page";
    let (line, _) = fetch(&server, &[url, "--delay", "1s"]).await;
    assert_eq!(line["outcome"], json!("deferred"), "{line}");
    assert!(line["waited_ms"].as_u64().unwrap() > 0, "{line}");
}

#[tokio::test]
async fn a_page_that_always_has_more_ends_at_its_limit() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        _ => Reply::raw(vec![
            Step::Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<body>".to_vec()),
            Step::Repeat(vec![b'x'; 64 * 1024], usize::MAX),
        ]),
    })
    .await;
    let (line, status) = fetch(&server, &["http://a.example:PORT/flood", "--page-timeout", "3s"]).await;
    assert_eq!((status, &line["outcome"], &line["status"]), (1, &json!("error"), &json!(200)), "{line}");
    assert_eq!(line["why"], json!("the page had not ended after 3 s (--page-timeout)"));
    assert!(line["bytes"].as_u64().unwrap() > 64 * 1024, "{line}");
}

#[tokio::test]
async fn a_limit_may_be_beyond_any_clock() {
    let server = site().await;
    for time in ["9999999999h", "4000000000000000h"] {
        let args =
            ["http://a.example:PORT/page", "--page-timeout", time, "--timeout", time, "--max-wait", time];
        assert_eq!(fetch(&server, &args).await.0["outcome"], json!("fetched"), "{time}");
    }
}

#[tokio::test]
#[cfg(unix)]
async fn ctrl_c_ends_it_after_what_was_answered() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/slow" => Reply::html("").after(Duration::from_secs(600)),
        _ => Reply::html("<p>x"),
    })
    .await;
    let args = ["fetch", "--json", "http://a.example:PORT/", "http://a.example:PORT/slow"];
    let ran = crate::ended_by("-INT", &server, &args, || server.count("a.example/slow") > 0).await;
    assert_eq!((ran.status, &ran.line()["outcome"]), (130, &json!("fetched")), "{}", ran.err);
    assert!(ran.err.ends_with("abide: interrupted\n"), "{}", ran.err);
}
