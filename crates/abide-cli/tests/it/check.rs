//! `abide check`: asks for robots.txt, never for the URLs.

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::{keys, online};

pub(crate) const LINE: &str = "\
    url outcome allowed rule group crawl_delay sitemaps source robots_url final_url robots_status age_s \
    retry_at why not_before error";

#[tokio::test]
async fn only_robots_txt_is_asked_for() {
    let server = Server::start(|_| Reply::new(200, "User-agent: *\nDisallow: /x\nCrawl-delay: 1.5")).await;
    let ran = online(&server, "check --json a.example/x a.example/y b.example/").await;
    assert_eq!(ran.status, 1, "{}", ran.err);
    let mut asked = server.asked();
    asked.sort();
    assert_eq!(asked, ["a.example/robots.txt", "b.example/robots.txt"]);
    let lines = ran.lines();
    assert_eq!(keys(&lines[0]), LINE);
    let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["denied", "allowed", "allowed"]);
    assert_eq!(lines[0]["allowed"], json!(false));
    assert_eq!(lines[0]["rule"], json!({"kind": "disallow", "pattern": "/x", "line": 2}));
    assert_eq!(lines[0]["group"], json!(["*"]));
    assert_eq!(lines[0]["crawl_delay"], json!(1.5));
    assert_eq!(lines[0]["source"], json!("fresh"));
    assert_eq!(lines[0]["robots_status"], json!(200));
    let robots = format!("http://a.example:{}/robots.txt", server.address().port());
    assert_eq!((&lines[0]["robots_url"], &lines[0]["final_url"]), (&json!(robots), &json!(robots)));
}

#[tokio::test]
async fn people_get_one_line_each() {
    let server = Server::start(|_| Reply::new(200, "User-agent: *\nDisallow: /x")).await;
    let ran = online(&server, "check a.example/x a.example/y").await;
    let lines: Vec<_> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("deny   http://a.example:"), "{}", lines[0]);
    assert!(lines[0].contains("by \"Disallow: /x\" on line 2"), "{}", lines[0]);
    assert!(lines[1].starts_with("allow  http://a.example:"), "{}", lines[1]);
    assert!(!ran.out.contains('\x1b'));
}

#[tokio::test]
async fn every_outcome_of_robots_txt_has_its_source() {
    let server = Server::start(|seen| match seen.host() {
        "gone.example" => Reply::new(404, ""),
        "down.example" => Reply::new(500, ""),
        _ => Reply::new(200, ""),
    })
    .await;
    for (host, status, outcome, source, robots_status) in [
        ("gone.example", 0, "allowed", "unavailable", json!(404)),
        ("down.example", 1, "denied", "unreachable", json!(500)),
        ("plain.example", 0, "allowed", "fresh", json!(200)),
    ] {
        let ran = online(&server, &["check", "--json", &format!("{host}/")]).await;
        let line = ran.line();
        assert_eq!(ran.status, status, "{host}");
        let found = (&line["outcome"], &line["source"], &line["robots_status"]);
        assert_eq!(found, (&json!(outcome), &json!(source), &robots_status), "{line}");
    }
}

#[tokio::test]
async fn the_chain_of_agents_and_the_user_agent_are_used() {
    let server = Server::start(|_| {
        Reply::new(200, "User-agent: ExampleBot-News\nAllow: /\nUser-agent: *\nDisallow: /")
    })
    .await;
    for (agent, group) in [("ExampleBot", "*"), ("ExampleBot,ExampleBot-News", "examplebot-news")] {
        let args = ["check", "--user-agent", "ExampleBot/7 (+x)", "a.example/", "--json", "--agent", agent];
        let line = online(&server, &args).await.line();
        assert_eq!((&line["allowed"], &line["group"]), (&json!(group != "*"), &json!([group])));
    }
    for seen in server.log() {
        assert_eq!(seen.header("user-agent"), Some("ExampleBot/7 (+x)"));
    }
}

#[tokio::test]
async fn a_deferral_says_when_to_come_back() {
    let server = Server::start(|seen| match seen.host() {
        "down.example" => Reply::new(500, ""),
        _ => Reply::retry_after(429, 3600),
    })
    .await;
    let line = online(&server, "check --json down.example/").await.line();
    assert_eq!((&line["outcome"], &line["not_before"]), (&json!("denied"), &line["retry_at"]), "{line}");
    // The first robots.txt brings the backoff; another port has another robots.txt, on the same host.
    let other = Server::start(|_| Reply::new(200, "")).await;
    let port = other.address().port();
    let second = format!("http://held.example:{port}/");
    let ran = online(&server, format!("check --json held.example/ {second}")).await;
    let lines = ran.lines();
    assert_eq!((ran.status, lines.len()), (1, 2), "{}", ran.out);
    assert_eq!(lines[1]["outcome"], json!("deferred"), "{}", lines[1]);
    assert_eq!(keys(&lines[1]), LINE);
    let (seconds, now) = (crate::unix_seconds(&lines[1]["not_before"]), crate::now());
    assert!((now + 3500..=now + 4000).contains(&seconds), "{}", lines[1]);
    assert_eq!(other.log().len(), 0);
}
