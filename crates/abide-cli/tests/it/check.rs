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
        let args = format!("check --user-agent 'ExampleBot/7 (+x)' a.example/ --json --agent {agent}");
        let line = online(&server, &args).await.line();
        assert_eq!((&line["allowed"], &line["group"]), (&json!(group != "*"), &json!([group])));
    }
    for seen in server.log() {
        assert_eq!(seen.header("user-agent"), Some("ExampleBot/7 (+x)"));
    }
}
