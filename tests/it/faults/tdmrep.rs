//! Faults of `/.well-known/tdmrep.json`: none of them keeps a page from being fetched, and none reads as
//! permission.

use abide::Preference::{self, Allow, Disallow, Unknown, Unset};
use abide::{ResponseExt, Usage};
use abide_tests::{Reply, Seen, Server};

use super::{DEADLINE, builder};

const FILE: &str = r#"[{"location": "/", "tdm-reservation": 1, "tdm-policy": "https://a.example/p"}]"#;
const FREE: &str = r#"[{"location": "/", "tdm-reservation": 0}]"#;

/// What the server does for tdmrep.json, what is known of mining then, and whether that is all there is to
/// know.
type Fault = (&'static str, fn(&Seen) -> Reply, Preference, bool);

const FAULTS: [Fault; 19] = [
    ("a reservation", |_| Reply::new(200, FILE), Disallow, true),
    ("none reserved", |_| Reply::new(200, FREE), Allow, true),
    ("404", |_| Reply::new(404, FILE), Unset, true),
    ("410", |_| Reply::new(410, FILE), Unset, true),
    ("401", |_| Reply::new(401, FREE), Unknown, false),
    ("403", |_| Reply::new(403, FREE), Unknown, false),
    ("500", |_| Reply::new(500, FREE), Unknown, false),
    ("an error page with 200", |_| Reply::html("<h1>not found</h1>"), Unknown, false),
    ("an empty body", |_| Reply::new(200, ""), Unknown, false),
    ("broken JSON", |_| Reply::new(200, "[{\"location\": \"/\", }]"), Unknown, false),
    ("JSON of another kind", |_| Reply::new(200, "1"), Unknown, false),
    (
        "a coding that it is not in",
        |_| Reply::with_headers(200, &[("content-encoding", "gzip")], FREE),
        Unknown,
        false,
    ),
    ("longer than is read", |_| Reply::new(200, format!("[{}{FREE}", " ".repeat(600_000))), Unknown, false),
    (
        "a redirect",
        |seen| match seen.path.as_str() {
            "/moved.json" => Reply::new(200, FILE),
            _ => Reply::redirect(301, "/moved.json"),
        },
        Disallow,
        true,
    ),
    ("a challenge with 404", |_| challenge(404, FREE), Unknown, false),
    ("a challenge with 405", |_| challenge(405, ""), Unknown, false),
    ("a challenge with 200", |_| challenge(200, FREE), Unknown, false),
    ("a circle of redirects", |_| Reply::redirect(302, "/.well-known/tdmrep.json"), Unknown, false),
    ("a private address", |_| Reply::redirect(302, "http://10.0.0.1/tdmrep.json"), Unknown, false),
];

/// A gatekeeper answers in the site's place.
fn challenge(status: u16, body: &str) -> Reply {
    Reply::with_headers(status, &[("x-amzn-waf-action", "captcha")], body)
}

#[tokio::test]
async fn each_fault_of_tdmrep_json_leaves_nothing_permitted() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/page" => Reply::html("<title>page</title>"),
        _ => {
            let number = seen.host().strip_prefix('t').and_then(|host| host.strip_suffix(".example"));
            let number: usize = number.unwrap().parse().unwrap();
            FAULTS[number].1(seen)
        }
    })
    .await;
    let inner = reqwest::Client::builder().pool_max_idle_per_host(0);
    let client = builder(&server, DEADLINE).fetch_tdmrep().build_client(inner).unwrap();
    for (number, (name, _, expected, is_complete)) in FAULTS.into_iter().enumerate() {
        let url = format!("http://t{number}.example/page");
        for _ in 0..2 {
            let page = client.get(&url).send().await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let preferences = page.preferences();
            assert_eq!(preferences.answer(&Usage::Tdm).preference(), expected, "{name}");
            assert_eq!(preferences.is_complete(), is_complete, "{name}");
            assert_eq!(preferences.training().preference(), expected, "{name}");
        }
        // A circle comes by its own URL again, once at most.
        let asked = server.count(&format!("t{number}.example/.well-known/tdmrep.json"));
        assert!((1..=2).contains(&asked), "{name}: {asked}");
    }
}
