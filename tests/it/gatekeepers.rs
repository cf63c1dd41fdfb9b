//! What stands before a site answers in its place: for pages, over sockets.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use abide::{
    Denied, DeniedKind, MemoryPermissionStore, Options, PermissionStore, RefusalKind, RequestBuilderExt,
    ResponseExt, Scan,
};
use abide_permissions::Question;
use abide_tests::{Reply, Server, Step};

use crate::{Built, builder};

const BLOCK: &str = "<html><head><title>Attention Required! | Cloudflare</title></head><body><h1>Sorry, you have been blocked</h1>";
const ANUBIS: &str = "<!doctype html><html lang=\"en\"><head><title>Making sure you&#39;re not a bot!</title><meta name=robots content=all>\
    <script id=\"anubis_version\" type=\"application/json\">\"v1.21.3\"</script></head><body id=\"top\"><main>";

fn html(status: u16, body: &str) -> Reply {
    Reply::with_headers(status, &[("content-type", "text/html")], body)
}

/// The body comes later than the head, and in pieces.
fn late(status: u16, body: &str) -> Reply {
    let head =
        format!("HTTP/1.1 {status} x\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n", body.len());
    let (one, two) = body.split_at(20);
    let steps = [one, two].map(|piece| [Step::Sleep(Duration::from_millis(50)), Step::send(piece)]);
    Reply::raw([vec![Step::send(head)], steps.concat()].concat())
}

async fn site() -> Server {
    Server::without_rules(|seen| match seen.path.as_str() {
        "/vercel" => html(429, "").with("x-vercel-mitigated", "challenge"),
        "/aws" => html(202, "").with("x-amzn-waf-action", "challenge").with("x-robots-tag", "all"),
        "/block" => late(403, BLOCK),
        "/anubis" => html(200, ANUBIS),
        "/moved" => Reply::redirect(302, "/behind").with("cf-mitigated", "challenge"),
        "/plain" => html(403, "<h1>403 Forbidden</h1>").with("server", "cloudflare"),
        _ => html(200, "<title>Sorry, you have been blocked</title><pre>&lt;script id=\"anubis_version\"")
            .with("cf-ray", "8"),
    })
    .await
}

#[tokio::test]
async fn a_gatekeepers_answer_is_no_page_of_any_status() {
    let server = site().await;
    let client = builder(&server).client();
    for scan in [Scan::Eager, Scan::Lazy, Scan::Headers] {
        for (path, status, by, kind) in [
            ("vercel", 429, "Vercel", RefusalKind::Challenge),
            ("aws", 202, "AWS WAF", RefusalKind::Challenge),
            ("block", 403, "Cloudflare", RefusalKind::Block),
            ("anubis", 200, "Anubis", RefusalKind::Challenge),
        ] {
            let url = format!("http://{path}{}.example/{path}", scan as u8);
            let page = client.get(&url).abide(Options::new().with_scan(scan)).send().await.unwrap();
            let info = page.fetch_info().unwrap();
            let refusal = info.refusal().unwrap_or_else(|| panic!("{path} {scan:?}"));
            assert_eq!((page.status().as_u16(), refusal.by(), refusal.kind()), (status, by, kind));
            let permissions = page.permissions();
            for question in Question::ALL {
                let answer = permissions.answer(question);
                let why = format!("refused by {by} ({})", kind.as_str());
                assert_eq!((answer.as_str(), answer.unknown_because()), ("unknown", &[why][..]), "{path}");
            }
            assert!(!permissions.may_index() && !permissions.may_follow());
            assert!(info.preferences().training().as_str() == "unknown", "{path}");
            let body = page.bytes().await.unwrap();
            assert!(path != "block" || body == BLOCK, "what was looked at is replayed");
        }
        for path in ["plain", "fine"] {
            let url = format!("http://{path}{}.example/{path}", scan as u8);
            let page = client.get(&url).abide(Options::new().with_scan(scan)).send().await.unwrap();
            assert_eq!(page.fetch_info().unwrap().refusal(), None, "{path} {scan:?}");
        }
    }
    let trusting = builder(&server).danger_trust_status().client();
    let page = trusting.get("http://a.example/anubis").send().await.unwrap();
    assert!(page.fetch_info().unwrap().refusal().is_none() && page.permissions().may_index());
}

#[tokio::test]
async fn where_a_gatekeeper_redirects_is_not_followed() {
    let server = site().await;
    let page = builder(&server).client().get("http://a.example/moved").send().await.unwrap();
    let refusal = page.fetch_info().unwrap().refusal().map(|refusal| refusal.by());
    assert_eq!((page.status().as_u16(), refusal), (302, Some("Cloudflare")));
    assert_eq!(server.count("a.example/behind"), 0);
}

#[tokio::test]
async fn no_record_is_kept_of_a_challenge_nor_replaced_by_one() {
    let server = Server::without_rules(|seen| match (seen.path.as_str(), seen.header("x-round")) {
        ("/new", _) | (_, Some("2")) => html(200, ANUBIS),
        _ => html(200, "<meta name=robots content=noindex>").with("etag", "\"1\""),
    })
    .await;
    let store = Arc::new(MemoryPermissionStore::new(NonZeroUsize::new(9).unwrap()));
    let client = builder(&server).permission_store(store.clone()).client();
    for round in ["1", "2"] {
        client.get("http://a.example/x").header("x-round", round).send().await.unwrap();
    }
    client.get("http://b.example/new").send().await.unwrap();
    assert!(store.load("http://b.example/new").await.unwrap().is_none());
    let kept = store.load("http://a.example/x").await.unwrap().unwrap();
    let options = abide::ReadOptions::new("ExampleBot".parse().unwrap());
    assert!(kept.permissions(&options).rules().noindex());
}

#[tokio::test]
async fn challenges_that_only_their_bodies_show_hold_a_host_until_it_lets_us_in() {
    let server = site().await;
    let client = builder(&server).client();
    let ask = async |path: &str| client.get(format!("http://a.example/{path}")).send().await;
    for _ in 0..4 {
        ask("anubis").await.unwrap();
    }
    // Ends the row.
    ask("fine").await.unwrap();
    for _ in 0..5 {
        ask("anubis").await.unwrap();
    }
    let error = ask("fine").await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    let DeniedKind::Refusing { by, responses, status, .. } = denied.kind() else { panic!("{denied}") };
    assert_eq!((by.map(|by| by.by()), *responses, *status), (Some("Anubis"), 5, 200));
    assert!(denied.retry_at().is_some() && denied.is_temporary());
    assert_eq!(server.log().iter().filter(|seen| seen.path != "/robots.txt").count(), 10);
}
