//! `watch`: what has changed between two calls, and what cron sees of it.

use std::sync::{Arc, Mutex};

use abide_tests::{Reply, Server};

use crate::{directory, online};

#[tokio::test]
async fn what_has_changed_in_a_robots_txt_is_said_once() {
    let rules = Arc::new(Mutex::new(Reply::new(200, "User-agent: *\nDisallow: /a\nDisallow: /b\n")));
    let served = Arc::clone(&rules);
    let server = Server::start(move |_| served.lock().unwrap().clone()).await;
    let kept = directory();
    let watch = async |options: &str| {
        online(&server, format!("watch --dir '{}' {options} a.example/", kept.path().display())).await
    };

    watch("").await.ends_with(0).shows(&["robots.txt: seen for the first time\n"]);
    assert_eq!(watch("").await.ends_with(0).out, "", "cron sends no mail");
    watch("-v").await.ends_with(0).shows(&["unchanged"]);

    *rules.lock().unwrap() =
        Reply::new(200, "User-agent: *\nDisallow: /a\n\nUser-agent: GPTBot\nDisallow: /\n");
    let changed = watch("").await;
    changed.ends_with(1).shows(&["changed\n", "  -    3  Disallow: /b\n", "  +    4  User-agent: GPTBot\n"]);
    changed.shows(&["GPTBot: not allowed at all, before partly allowed\n"]);
    assert_eq!(watch("").await.ends_with(0).out, "", "it is said once");

    *rules.lock().unwrap() = Reply::new(404, "");
    let gone = watch("--json").await;
    let line = gone.ends_with(1).line();
    assert_eq!(
        (&line["changed"], &line["removed"][0]["text"]),
        (&true.into(), &"User-agent: *".into()),
        "{line}"
    );
    assert_eq!(
        line["access"][0],
        serde_json::json!({"agent": "Googlebot", "before": "partial", "now": "full"})
    );

    // What cannot be fetched has not changed, and is not forgotten.
    *rules.lock().unwrap() = Reply::new(500, "");
    watch("").await.ends_with(1).reports(&["robots.txt cannot be read"]);
    *rules.lock().unwrap() = Reply::new(404, "");
    assert_eq!(watch("").await.ends_with(0).out, "");
}
