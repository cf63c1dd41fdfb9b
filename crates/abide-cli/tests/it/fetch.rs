//! `abide fetch`: every outcome, every field.

use std::time::Duration;

use abide_tests::{Reply, Server, Step};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::offline::{RULES, TAGS};
use crate::{Ran, Words, has, keys, online};

pub(crate) const LINE: &str = "\
    url outcome status final_url hops verdict permissions preferences noindex waited_ms bytes why \
    not_before";

/// `/robots.txt` forbids `/secret`, `/to?x` redirects to x.
async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => match seen.host() {
            "down.example" => Reply::new(500, ""),
            "busy.example" => Reply::retry_after(429, 3600),
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
        "/busy" => Reply::retry_after(429, 3600),
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
async fn fetch(server: &Server, args: impl Words) -> (Value, i32) {
    let mut words = "fetch --json".words();
    words.extend(args.words());
    let ran = online(server, &words).await;
    let line = ran.line();
    assert_eq!(keys(&line), LINE);
    for hop in line["hops"].as_array().unwrap() {
        assert_eq!(keys(hop), "url status allowed");
    }
    (line, ran.status)
}

/// Path, status and permission of each hop, with spaces between them.
fn hops(line: &Value) -> Vec<String> {
    let hop = |hop: &Value| {
        let url: url::Url = hop["url"].as_str().unwrap().parse().unwrap();
        format!("{} {} {}", &url[url::Position::BeforePath..], hop["status"], hop["allowed"])
    };
    line["hops"].as_array().unwrap().iter().map(hop).collect()
}

#[tokio::test]
async fn a_page_that_may_be_had_is_fetched() {
    let server = site().await;
    let url = format!("http://a.example:{}/page", server.address().port());
    let (line, status) = fetch(&server, "a.example/page").await;
    assert_eq!(status, 0);
    assert_eq!((&line["url"], &line["final_url"]), (&json!(url), &json!(url)));
    assert_eq!((&line["outcome"], &line["status"]), (&json!("fetched"), &json!(200)));
    assert_eq!(line["hops"], json!([{"url": url, "status": 200, "allowed": true}]));
    assert_eq!(keys(&line["permissions"]), TAGS);
    assert_eq!(keys(&line["permissions"]["rules"]), RULES);
    assert!(keys(&line["verdict"]).starts_with(crate::offline::MATCH));
    assert_eq!(line["verdict"]["allowed"], json!(true));
    assert_eq!((&line["noindex"], &line["bytes"]), (&json!(false), &json!(30)));
    assert!(line["waited_ms"].is_u64());
    assert!(line["why"].as_str().unwrap().starts_with("allowed"), "{line}");
    assert_eq!(line["not_before"], json!(null));
}

#[tokio::test]
async fn tdmrep_json_is_fetched_where_it_is_asked_for() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/.well-known/tdmrep.json" => Reply::new(200, r#"[{"location": "/", "tdm-reservation": 1}]"#),
        _ => Reply::html("page"),
    })
    .await;
    let url = "a.example/x";
    let without = online(&server, &["fetch", "--json", url]).await.line();
    assert_eq!((&without["preferences"], server.count("a.example/.well-known/tdmrep.json")), (&json!([]), 0));
    let with = online(&server, &["fetch", "--json", "--tdmrep", url]).await.line();
    let stated = &with["preferences"][0];
    assert_eq!(stated["preference"], json!("disallow"), "{with}");
    assert!(stated["source"].as_str().unwrap().contains("tdmrep.json"), "{with}");
    let text = online(&server, &["fetch", "--tdmrep", url]).await.out;
    assert!(text.contains("tdmrep.json"), "{text}");
}

#[tokio::test]
async fn permissions_come_from_the_head_and_the_header() {
    let server = site().await;
    let (line, _) = fetch(&server, "a.example/noindex").await;
    assert_eq!(line["noindex"], json!(true));
    assert_eq!(line["permissions"]["metas"], json!([{"name": "robots", "content": "noindex"}]));
    assert_eq!(line["permissions"]["head"], json!("ended"));
    let (line, _) = fetch(&server, "a.example/header").await;
    assert_eq!(line["permissions"]["rules"]["nosnippet"], json!(true));
    assert_eq!((&line["noindex"], &line["permissions"]["head"]), (&json!(false), &json!("none")));
}

#[tokio::test]
async fn what_is_disallowed_is_denied_and_never_asked_for() {
    let server = site().await;
    let (line, status) = fetch(&server, "a.example/secret/x").await;
    assert_eq!((status, &line["outcome"]), (1, &json!("denied")));
    assert_eq!(hops(&line), ["/secret/x null false"]);
    assert_eq!(line["verdict"]["rule"], json!({"kind": "disallow", "pattern": "/secret", "line": 2}));
    for name in ["status", "permissions", "noindex", "bytes"] {
        assert_eq!(line[name], json!(null), "{name}");
    }
    assert!(line["why"].as_str().unwrap().contains("line 2"), "{line}");
    assert_eq!(server.asked(), ["a.example/robots.txt"]);
}

#[tokio::test]
async fn every_hop_is_reported() {
    let server = site().await;
    for (path, status, outcome, expected) in [
        ("missing", 0, "fetched", &["/missing 404 true"][..]),
        ("to?/page", 0, "fetched", &["/to?/page 302 true", "/page 200 true"]),
        (
            "to?/to?/secret/x",
            1,
            "denied",
            &["/to?/to?/secret/x 302 true", "/to?/secret/x 302 true", "/secret/x null false"],
        ),
    ] {
        let (line, found) = fetch(&server, format!("a.example/{path}")).await;
        assert_eq!((found, &line["outcome"]), (status, &json!(outcome)), "{line}");
        assert_eq!(hops(&line), expected);
        assert_eq!(line["hops"][expected.len() - 1]["url"], line["final_url"], "{line}");
    }
    assert!(!server.asked().contains(&"a.example/secret/x".to_owned()));
}

#[tokio::test]
async fn a_redirect_loop_is_refused_after_ten_hops() {
    let server = site().await;
    let (line, status) = fetch(&server, "a.example/count?0").await;
    assert_eq!((status, &line["outcome"]), (1, &json!("refused")));
    let hops = hops(&line);
    assert_eq!(hops.len(), 11);
    assert!(hops.iter().all(|hop| hop.ends_with(" 302 true")), "{hops:?}");
}

#[tokio::test]
async fn disallowed_by_a_server_error_is_denied() {
    let server = site().await;
    let (line, status) = fetch(&server, "down.example/page").await;
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
    let (line, status) = fetch(&server, "busy.example/page").await;
    assert_eq!((status, &line["outcome"]), (1, &json!("deferred")), "{line}");
    assert_eq!(server.asked(), ["busy.example/robots.txt"]);
    let (seconds, now) = (crate::unix_seconds(&line["not_before"]), crate::now());
    assert!((now + 3500..=now + 4000).contains(&seconds), "an hour, and up to a tenth: {line}");

    let urls = "a.example/busy a.example/page";
    let lines = online(&server, format!("fetch --json {urls} --concurrency 1")).await.lines();
    has(&lines[0], json!({"outcome": "fetched", "status": 429}));
    has(&lines[1], json!({"outcome": "deferred"}));
    assert_eq!(hops(&lines[1]), ["/page null true"], "it may be asked for, later");
    assert!(!server.asked().contains(&"a.example/page".to_owned()));
}

#[tokio::test]
async fn a_permit_beyond_max_wait_is_deferred() {
    let server = site().await;
    let ran = online(&server, "fetch --json delay.example/1 delay.example/2 --max-wait 2s").await;
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
    let (line, status) = fetch(&server, "slow.example/page --timeout 300ms").await;
    assert_eq!((status, &line["outcome"]), (1, &json!("denied")), "{line}");
    assert_eq!(line["verdict"]["source"], json!("unreachable"));
    assert_eq!(server.count("slow.example/page"), 0);
}

#[tokio::test]
async fn private_addresses_are_refused_behind_redirects() {
    let server = site().await;
    let (line, _) = fetch(&server, "a.example/to?http://127.0.0.2:PORT/page").await;
    assert_eq!(line["outcome"], json!("refused"), "{line}");
    assert_eq!(hops(&line)[1], "/page null false");
}

#[tokio::test]
async fn a_broken_page_is_an_error() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/to" => Reply::redirect(302, "/reset"),
        _ => Reply::raw(vec![Step::Reset]),
    })
    .await;
    let (line, status) = fetch(&server, "a.example/reset").await;
    assert_eq!((status, &line["outcome"]), (1, &json!("error")), "{line}");
    assert_eq!(hops(&line), ["/reset null true"]);
    assert_eq!(line["verdict"]["source"], json!("unavailable"));
    assert!(!line["why"].as_str().unwrap().is_empty());
    let (line, _) = fetch(&server, "a.example/to").await;
    assert_eq!(hops(&line), ["/to 302 true", "/reset null true"]);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_with_what_came() {
    let server = site().await;
    let (line, status) = fetch(&server, "a.example/cut").await;
    assert_eq!((status, &line["outcome"], &line["status"]), (1, &json!("error"), &json!(200)), "{line}");
    assert_eq!(line["bytes"], json!(5));
}

#[tokio::test]
async fn the_text_has_outcome_reason_and_permissions() {
    let server = site().await;
    let ran = online(&server, "fetch a.example/to?/noindex a.example/secret").await;
    ran.shows(&["200  http://a.example:", "→ http://a.example:", "not to be indexed"]);
    ran.shows(&["denied  http://", "line 2"]);
    assert!(!ran.out.contains('\x1b'));
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
        let (line, _) = fetch(&server, format!("a.example/{path} --delay 1s --page-timeout {timeout}")).await;
        assert_eq!(line["outcome"], json!(outcome), "{line}");
        let (waited, elapsed) = (line["waited_ms"].as_u64().unwrap(), begun.elapsed().as_millis());
        assert!(waited > 0 && u128::from(waited) < elapsed, "{waited} ms of {elapsed}: {line}");
        let is_late = line["why"].as_str().unwrap().contains("--page-timeout");
        assert_eq!(is_late, path == "silent", "{line}");
    }))
    .await;
}

#[tokio::test]
async fn a_deferral_says_what_was_waited_before() {
    let server = site().await;
    let (line, _) = fetch(&server, "a.example/to?http://busy.example:PORT/page --delay 1s").await;
    assert_eq!(line["outcome"], json!("deferred"), "{line}");
    assert!(line["waited_ms"].as_u64().unwrap() > 0, "{line}");
}

#[tokio::test]
async fn a_page_that_always_has_more_ends_at_its_limit() {
    let server = Server::without_rules(|_| {
        Reply::raw(vec![
            Step::Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<body>".to_vec()),
            Step::Repeat(vec![b'x'; 64 * 1024], usize::MAX),
        ])
    })
    .await;
    let (line, status) = fetch(&server, "a.example/flood --page-timeout 2s").await;
    assert_eq!((status, &line["outcome"], &line["status"]), (1, &json!("error"), &json!(200)), "{line}");
    assert_eq!(line["why"], json!("the page had not ended after 2 s (--page-timeout)"));
    assert!(line["bytes"].as_u64().unwrap() > 64 * 1024, "{line}");
}

#[tokio::test]
async fn a_limit_may_be_beyond_any_clock() {
    let server = site().await;
    for time in ["9999999999h", "4000000000000000h"] {
        let args = format!("a.example/page --page-timeout {time} --timeout {time} --max-wait {time}");
        assert_eq!(fetch(&server, args).await.0["outcome"], json!("fetched"), "{time}");
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
