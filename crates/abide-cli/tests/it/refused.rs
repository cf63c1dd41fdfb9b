//! A site that refuses: the challenge or the block page of a firewall, and a host that answers 403 to
//! everything.

use abide_tests::{Authority, Reply, Seen, Server};
use serde_json::json;

use crate::crawl::{only_host, page_lines, summary};
use crate::{abide, directory, file, has, online, store};

const CHALLENGE: &str = "<!DOCTYPE html><html><head><title>Just a moment...</title><meta name=robots content='all'></head><body>\
    <a href=/other>x</a><script>window._cf_chl_opt={}</script></body></html>";

/// Of Cloudflare, with this status.
fn challenge(status: u16) -> Reply {
    let fields = [("server", "cloudflare"), ("cf-mitigated", "challenge"), ("content-type", "text/html")];
    Reply::with_headers(status, &fields, CHALLENGE)
}

fn block() -> Reply {
    let page = "<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head><body>\
        <h1 data-translate=\"block_headline\">Sorry, you have been blocked</h1></body></html>";
    Reply::with_headers(403, &[("server", "cloudflare"), ("content-type", "text/html; charset=UTF-8")], page)
}

/// Pages by their name, below rules that allow all.
async fn site() -> Server {
    Server::with_rules("User-agent: *\nDisallow: /secret\n", |seen| match seen.path.as_str() {
        "/200" => challenge(200),
        "/503" => challenge(503),
        "/block" => block(),
        "/start" => Reply::html("<a href=/200>1</a><a href=/fine>2</a><a href=/block>3</a>"),
        _ => Reply::html("<title>Just a moment...</title><pre>&lt;script&gt;window._cf_chl_opt</pre>")
            .with("server", "cloudflare")
            .with("cf-ray", "8-SJC"),
    })
    .await
}

#[tokio::test]
async fn a_challenge_is_no_page() {
    let server = site().await;
    for (path, kind, evidence) in [
        ("200", "challenge", "cf-mitigated: challenge"),
        ("503", "challenge", "cf-mitigated: challenge"),
        ("block", "block", "title=Attention Required! | Cloudflare"),
    ] {
        let ran = online(&server, format!("fetch --json a{path}.example/{path}")).await;
        let (line, refusal) = (ran.line(), json!({"by": "Cloudflare", "kind": kind, "evidence": evidence}));
        has(
            &line,
            json!({"outcome": "refused", "refusal": refusal, "noindex": null, "preferences_known": false}),
        );
        let said = format!("refused by Cloudflare ({kind})");
        assert_eq!((line["answers"]["index"].as_str(), ran.status), (Some("unknown"), 1), "{line}");
        assert!(line["unknown_because"].to_string().contains(&said), "{line}");
        online(&server, format!("fetch b{path}.example/{path}")).await.ends_with(1).shows(&[&said]);
    }
    let folder = directory();
    let kept = folder.place("page.html");
    online(&server, format!("fetch -o {kept} e.example/200")).await.ends_with(1);
    assert!(!std::path::Path::new(&kept).exists(), "a challenge is not written for the page");
    let fine = online(&server, "fetch --json c.example/fine").await;
    has(&fine.line(), json!({"outcome": "fetched", "refusal": null, "noindex": false}));
    let trusted = online(&server, "fetch --json --trust-status d.example/200").await;
    has(&trusted.line(), json!({"outcome": "fetched", "refusal": null, "noindex": false}));
    assert_eq!((fine.status, trusted.status), (0, 0));
}

#[tokio::test]
async fn a_crawl_follows_no_link_of_a_challenge_and_saves_none() {
    let server = site().await;
    let folder = directory();
    let saved = folder.place("saved");
    let ran = online(&server, format!("crawl --json --ignore-nofollow --save {saved} a.example/start")).await;
    assert_eq!(server.count("a.example/other"), 0);
    let refused = page_lines(&ran).into_iter().filter(|page| !page["refusal"].is_null());
    assert_eq!(refused.count(), 2, "{}", ran.out);
    has(&summary(&ran), json!({"fetched": 2, "refused": 2, "ok": 2}));
    assert_eq!(ran.status, 1);
    let index = std::fs::read_to_string(format!("{saved}/index.jsonl")).unwrap();
    let marked =
        index.lines().filter(|line| line.contains("\"file\":null") && line.contains("\"by\":\"Cloudflare\""));
    assert_eq!(marked.count(), 2, "{index}");
    let ran = online(&server, "crawl b.example/200").await;
    ran.ends_with(1).shows(&["refused: 1 because refused by Cloudflare (challenge)"]);
}

#[tokio::test]
async fn a_challenge_in_place_of_robots_txt_is_named() {
    for status in [200, 403] {
        let server = Server::start(move |_: &Seen| challenge(status)).await;
        for call in ["check", "explain"] {
            let ran = online(&server, format!("{call} a.example/x")).await;
            ran.ends_with(1).shows(&["refused by Cloudflare (challenge)"]);
            let ran = online(&server, format!("{call} --json a.example/x")).await;
            let refusal =
                json!({"by": "Cloudflare", "kind": "challenge", "evidence": "cf-mitigated: challenge"});
            has(
                &ran.line(),
                json!({"outcome": "denied", "allowed": false, "source": "unreachable", "refusal": refusal}),
            );
        }
        let trusted = online(&server, "check --json --trust-status a.example/x").await;
        has(&trusted.ends_with(0).line(), json!({"allowed": true, "refusal": null}));
        assert!(server.log().iter().all(|seen| seen.path == "/robots.txt"));
    }
}

#[tokio::test]
async fn a_host_that_refuses_all_is_asked_25_times_and_left() {
    let server = Server::without_rules(|_| Reply::new(403, "no")).await;
    let urls: String = (0..300).map(|page| format!("a.example/{page} ")).collect();
    let ran = online(&server, format!("crawl --max-pages 1000 {urls}")).await;
    assert_eq!(server.log().iter().filter(|seen| seen.path != "/robots.txt").count(), 25);
    ran.ends_with(1).shows(&["refuses this crawler: 25 × 403 in a row; held until 20", "Z; 275 URLs left"]);
    let server = Server::without_rules(|_| challenge(403)).await;
    let ran = online(&server, format!("crawl --json --max-pages 1000 {urls}")).await;
    assert_eq!(server.log().len(), 6, "robots.txt, and five that are recognised");
    let host = only_host(&ran);
    has(&host, json!({"left": 295, "refused": 5, "deferred": 0}));
    has(&host["refusing"], json!({"by": "Cloudflare", "status": 403, "responses": 5}));
    for (call, requests) in [("fetch", 25), ("fetch --refusals 3", 3)] {
        let server = Server::without_rules(|_| Reply::new(403, "no")).await;
        let ran = online(&server, format!("{call} {urls}")).await;
        assert_eq!(server.log().iter().filter(|seen| seen.path != "/robots.txt").count(), requests);
        ran.ends_with(1).shows(&["refuses this crawler"]);
    }
}

#[tokio::test]
async fn a_crawl_of_some_403_among_good_pages_goes_on() {
    let server = Server::without_rules(|seen| match seen.path.trim_start_matches('/').parse::<u32>() {
        Ok(page) if page % 6 != 0 => Reply::new(403, "no"),
        _ => Reply::html("page"),
    })
    .await;
    let urls: String = (0..200).map(|page| format!("a.example/{page} ")).collect();
    let ran = online(&server, format!("crawl --json --max-pages 1000 {urls}")).await;
    has(&only_host(&ran), json!({"refusing": null, "client_errors": 166, "ok": 34}));
    assert_eq!(ran.status, 0);
}

#[tokio::test]
async fn a_hold_outlives_the_call_in_a_store() {
    let server = Server::without_rules(|_| challenge(200)).await;
    let (_directory, store) = store();
    let urls: String = (0..9).map(|page| format!("a.example/{page} ")).collect();
    online(&server, format!("fetch --store {store} {urls}")).await.ends_with(1);
    let sent = server.log().len();
    let ran = online(&server, format!("fetch --json --store {store} a.example/new")).await;
    assert_eq!(server.log().len(), sent, "{}", ran.out);
    has(&ran.line(), json!({"outcome": "deferred", "status": null}));
    ran.ends_with(1).shows(&["a.example refuses this crawler: 5 × 200 in a row, Cloudflare"]);
}

#[tokio::test]
async fn a_signed_request_is_compared_with_an_unsigned_one() {
    let authority = Authority::new();
    let folder = directory();
    let key = folder.place("bot.pem");
    abide(format!("identity new {key}")).ends_with(0);
    let cacert = file(authority.pem());
    let answer = |seen: &Seen| match (seen.path.as_str(), seen.header("signature")) {
        ("/robots.txt", _) => Reply::new(404, ""),
        (_, Some(_)) => Reply::html("page"),
        (_, None) => challenge(403),
    };
    let server = Server::start_tls(authority.acceptor("a.site.example"), answer).await;
    let signing = format!("--key {key} --signature-agent https://bot.example --cacert {cacert}");
    let ran = online(
        &server,
        format!("identity check {signing} --agent ExampleBot --delay 0 https://a.site.example:PORT/x"),
    )
    .await;
    ran.ends_with(0).shows(&[
        "unsigned",
        "refused by Cloudflare (challenge)",
        "signed",
        "lets the signed request in",
    ]);
    assert_eq!(server.count("a.site.example/x"), 2);
    let json = online(
        &server,
        format!("identity check --json {signing} --agent ExampleBot --delay 0 https://a.site.example:PORT/x"),
    )
    .await;
    let lines = json.ends_with(0).lines();
    has(&lines[0], json!({"signed": false, "outcome": "refused"}));
    has(&lines[1], json!({"signed": true, "outcome": "fetched", "status": 200}));
    abide("identity check https://a.example/").is_wrong_usage(&["--key"]);
}
