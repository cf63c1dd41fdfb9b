//! `abide explain`: which line decides, and which would have.

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::online;

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
    let ran = online(server.address(), &["explain", "http://h.example:PORT/a/b/c"]).await;
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
  | ------------ this one matches as well, and yields
6 | Allow: /a/b # but this
  | ^^^^^^^^^^^ this rule decides

Crawl-delay: 2 s
"
    );
    assert_eq!(shown, expected);
    assert_eq!(server.asked(), ["h.example/robots.txt"], "the page itself is not asked for");
}

#[tokio::test]
async fn the_marks_are_there_as_json() {
    let server = Server::start(|_| Reply::new(200, ROBOTS)).await;
    let ran = online(server.address(), &["explain", "--json", "http://h.example:PORT/c"]).await;
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
async fn without_a_robots_txt_there_is_only_the_reason() {
    let server = Server::start(|_| Reply::new(500, ROBOTS)).await;
    let ran = online(server.address(), &["explain", "http://h.example:PORT/c"]).await;
    assert_eq!((ran.status, ran.out.lines().count()), (1, 1), "{}", ran.out);
    assert!(ran.out.contains("unreachable"), "{}", ran.out);
}
