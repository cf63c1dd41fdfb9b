//! `abide explain`: which line decides, and which would have.

use abide_tests::{Reply, Server};
use serde_json::{Value, json};

use crate::{has, keys, online};

const ROBOTS: &str = "\
User-agent: OtherBot
Disallow: /

User-agent: examplebot # us
Disallow: /a
Allow: /a/b # but this
Crawl-delay: 2
Disallow: /c
";

#[tokio::test]
async fn the_deciding_line_is_marked() {
    let server = Server::start(|_| Reply::new(200, ROBOTS)).await;
    let ran = online(&server, "explain h.example/a/b/c").await;
    assert_eq!(ran.status, 0);
    let (_, shown) = ran.out.split_once('\n').unwrap();
    let port = server.address().port();
    let expected = format!(
        "
note: this is why /a/b/c is allowed
 --> http://h.example:{port}/robots.txt:6:1
  |
4 | User-agent: examplebot # us
  | ---------------------- this group applies
5 | Disallow: /a
  | ------------ also matches, but is overridden
6 | Allow: /a/b # but this
  | ^^^^^^^^^^^ this rule decides

robots.txt: fresh, status 200, "
    );
    let (excerpt, facts) = shown.split_at(expected.len().min(shown.len()));
    assert_eq!(excerpt, expected);
    let (first, rest) = facts.split_once('\n').unwrap();
    assert!(first.contains(" s old, cached until 2") && first.ends_with('Z'), "{first}");
    assert_eq!(rest, "Crawl-delay: 2 s asked for, 2 s kept between two requests\n");
    assert_eq!(server.asked(), ["h.example/robots.txt"], "the page itself is not asked for");
}

#[tokio::test]
async fn the_marks_are_there_as_json() {
    let server = Server::start(|_| Reply::new(200, ROBOTS)).await;
    let ran = online(&server, "explain --json h.example/c").await;
    assert_eq!(ran.status, 1);
    let line = ran.line();
    assert_eq!((&line["outcome"], &line["rule"]["line"]), (&json!("denied"), &json!(8)));
    assert_eq!(
        line["marks"],
        json!([
            {"line": 4, "text": "User-agent: examplebot # us", "why": "this group applies"},
            {"line": 8, "text": "Disallow: /c", "why": "this rule decides"},
        ])
    );
}

#[tokio::test]
async fn a_user_agent_line_that_only_begins_like_ours_is_not_marked() {
    let robots = "User-agent: examplebot-news\nUser-agent: ExampleBot/2\nDisallow: /c\n";
    let server = Server::start(move |_| Reply::new(200, robots)).await;
    let ran = online(&server, "explain --json h.example/c").await;
    let line = ran.line();
    let marked: Vec<&Value> = line["marks"].as_array().unwrap().iter().map(|mark| &mark["line"]).collect();
    assert_eq!(marked, [&json!(2), &json!(3)]);
}

#[tokio::test]
async fn without_a_robots_txt_there_is_only_the_reason() {
    let server = Server::start(|_| Reply::new(500, ROBOTS)).await;
    let ran = online(&server, "explain h.example/c").await;
    assert_eq!((ran.status, ran.out.lines().count()), (1, 2), "{}", ran.out);
    let facts = ran.out.lines().last().unwrap();
    assert!(facts.starts_with("robots.txt: unreachable, status 500, 1 attempt failed since 2"), "{facts}");
    assert!(facts.contains("Z, next attempt at 2"), "{facts}");
}

#[tokio::test]
async fn all_that_is_known_of_a_robots_txt_is_printed() {
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("moved.example", "/robots.txt") => Reply::redirect(301, &format!("{}/elsewhere.txt", seen.site())),
        ("html.example", _) => Reply::html("<title>Welcome</title><p>text"),
        ("long.example", _) => {
            Reply::new(200, format!("User-agent: *\nDisallow /a\n{}", "Disallow: /b\n".repeat(50_000)))
        }
        _ => Reply::new(200, "User-agent: *\nDissallow: /a\nCrawl-delay: 0.25\n"),
    })
    .await;
    for (host, texts) in [
        (
            "moved.example",
            &[
                "redirected to http://moved.example:",
                "/elsewhere.txt",
                "1 remark (abide lint)",
                "Crawl-delay: 0.25 s asked for, 0.5 s kept",
            ][..],
        ),
        ("html.example", &["HTML without one rule"]),
        ("long.example", &["cut at the parsing limit", " remarks (abide lint)"]),
    ] {
        let args = format!("explain --delay 0.5 {host}/x");
        online(&server, &args).await.shows(texts);
        let line = online(&server, args + " --json").await.line();
        assert_eq!(keys(&line), format!("{} {FACTS}", crate::check::LINE));
        let found = (&line["truncated"], &line["not_text"], &line["attempts"], &line["delay_s"]);
        let expected =
            (&json!(host == "long.example"), &json!(host == "html.example"), &json!(0), &json!(0.5));
        assert_eq!(found, expected, "{line}");
        assert!(
            crate::unix_seconds(&line["fresh_until"]) > crate::unix_seconds(&line["fetched_at"]),
            "{line}"
        );
    }
}

const FACTS: &str = "marks fetched_at fresh_until failing_since attempts truncated not_text remarks delay_s";

#[tokio::test]
async fn hosts_are_asked_at_a_time_and_reported_in_order() {
    let server = Server::start(|seen| match seen.host() {
        "slow.example" => Reply::new(200, ROBOTS).after(std::time::Duration::from_secs(1)),
        _ => Reply::new(200, ROBOTS),
    })
    .await;
    let hosts = ["slow.example", "b.example", "slow.example", "c.example"];
    let urls = hosts.map(|host| format!("{host}/a")).join(" ");
    let ran = online(&server, format!("explain --json {urls}")).await;
    let host = |line: &Value| {
        line["url"].as_str().unwrap().parse::<url::Url>().unwrap().host_str().unwrap().to_owned()
    };
    assert_eq!(ran.lines().iter().map(host).collect::<Vec<_>>(), hosts);
    let log = server.log();
    let of = |host: &str| log.iter().find(|seen| seen.host() == host).unwrap();
    assert!(of("c.example").at < of("slow.example").answered, "no URL waits for the slow one");
    assert_eq!(log.len(), 3, "one robots.txt a host");
}

#[test]
fn a_refusal_has_every_key_and_no_marks() {
    for call in ["check", "explain"] {
        let ran = crate::abide(format!("{call} --json http://127.0.0.1:9/x"));
        let line = ran.ends_with(1).line();
        has(&line, json!({"outcome": "refused", "source": "none", "sitemaps": [], "why": line["error"]}));
        assert!(line["error"].as_str().unwrap().contains("not a public address"), "{line}");
        for key in "allowed rule group crawl_delay robots_url retry_at not_before fetched_at".split(' ') {
            assert_eq!(line[key], json!(null), "{key}: {line}");
        }
        if call == "check" {
            assert_eq!(keys(&line), crate::check::LINE);
        } else {
            assert_eq!(
                (keys(&line), &line["marks"]),
                (format!("{} {FACTS}", crate::check::LINE), &json!([]))
            );
        }
    }
}
