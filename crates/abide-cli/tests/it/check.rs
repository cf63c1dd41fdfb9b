//! `abide check`: asks for robots.txt, never for the URLs.

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::online;

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
    let (seconds, now) = (crate::unix_seconds(&lines[1]["not_before"]), crate::now());
    assert!((now + 3500..=now + 4000).contains(&seconds), "{}", lines[1]);
    assert_eq!(other.log().len(), 0);
}
