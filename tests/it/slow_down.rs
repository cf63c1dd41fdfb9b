//! What a server says to slow us down, in a page, a redirect hop or robots.txt: its log shows that it is
//! heard.

use std::time::Duration;

use abide::pacing::DeferReason;
use abide::{DeniedKind, ResponseExt};
use abide_tests::{Reply, Seen, Server};
use http::StatusCode;

use crate::{Built, builder, client, refused, status};

type Fields = &'static [(&'static str, &'static str)];

/// How a server asks for the time: the status, the fields, and the seconds.
const ASKED: [(u16, Fields, u64); 8] = [
    (430, &[], 60),
    (529, &[("retry-after", "600")], 600),
    (403, &[("retry-after", "3600.0")], 3_600),
    (502, &[("retry-after", "\"600\"")], 600),
    (429, &[("retry-after", "1, 3600s")], 3_600),
    (200, &[("ratelimit", "limit=10, remaining=0, reset=600")], 600),
    (
        404,
        &[("x-ratelimit-remaining", "5"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "600")],
        600,
    ),
    (204, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "600")], 600),
];

/// Hosts are named `<where it is said>-<row>.example`.
fn answer(seen: &Seen) -> Reply {
    let (place, row) = seen.host().split_once('-').unwrap();
    let (status, fields, _) = ASKED[row.trim_end_matches(".example").parse::<usize>().unwrap()];
    let says = || Reply::with_headers(status, fields, "");
    match (place, seen.path.as_str()) {
        ("robots", "/robots.txt") | ("page", "/page") | ("hop", "/later") => says(),
        ("hop", "/page") => Reply::redirect(302, "/later"),
        (_, "/robots.txt") => Reply::new(404, ""),
        _ => Reply::html("page"),
    }
}

#[tokio::test]
async fn every_way_to_ask_for_time_is_heard_in_every_response() {
    let server = Server::start(answer).await;
    let (abide, inner) = builder(&server).parts();
    let client = abide.clone().wrap(inner);
    for (row, (code, _, seconds)) in ASKED.into_iter().enumerate() {
        for place in ["page", "hop", "robots"] {
            let url = format!("http://{place}-{row}.example/page");
            if place != "robots" {
                assert_eq!(status(&client, &url).await, code, "{url}");
            }
            let sent = server.log().len();
            let denied = refused(&client, &url).await;
            // Only robots.txt is requested. If it is unreachable by its status, that is the reason of the
            // refusal.
            assert_eq!(server.log().len() - sent, usize::from(place == "robots"), "{url}");
            assert!(denied.is_temporary(), "{url}: {denied}");
            let wait = abide.gate().next_slot(&url.parse().unwrap()).unwrap().wait.as_secs() + 1;
            assert!((seconds..=seconds * 11 / 10 + 2).contains(&wait), "{url}: {wait} s");
        }
    }
}

#[tokio::test]
async fn the_next_hop_alone_waits_as_its_redirect_asks() {
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("made.example", "/robots.txt") => Reply::redirect(302, "/rules.txt").with("retry-after", "1"),
        ("made.example", "/result") => Reply::redirect(303, "http://b.example/").with("retry-after", "1"),
        ("long.example", "/result") => Reply::redirect(307, "http://b.example/").with("retry-after", "600"),
        (_, "/robots.txt" | "/rules.txt") => Reply::new(404, ""),
        _ => Reply::html("page"),
    })
    .await;
    let client = builder(&server).client();
    let page = client.get("http://made.example/result").send().await.unwrap();
    assert_eq!(page.status(), StatusCode::OK);
    assert!(
        page.fetch_info().unwrap().waited() >= Duration::from_millis(1_900),
        "of robots.txt and of the page"
    );
    let log = server.log();
    let second = Duration::from_secs(1);
    let paths: Vec<String> = log.iter().map(|seen| format!("{}{}", seen.host(), seen.path)).collect();
    assert_eq!(
        paths,
        [
            "made.example/robots.txt",
            "made.example/rules.txt",
            "made.example/result",
            "b.example/robots.txt",
            "b.example/"
        ]
    );
    assert!(log[1].at - log[0].answered >= second && log[2].at - log[1].answered < second);
    assert!(log[4].at - log[2].answered >= second);
    // Longer than the call waits: that hop is deferred, and nothing else is.
    let denied = refused(&client, "http://long.example/result").await;
    let reason = DeferReason::Redirect { status: 307, retry_after: Duration::from_secs(600) };
    assert!(matches!(denied.kind(), DeniedKind::Deferred { reason: r } if *r == reason), "{denied}");
    assert_eq!((denied.url().as_str(), denied.hop()), ("http://b.example/", 1));
    assert_eq!(status(&client, "http://long.example/other").await, 200);
    assert_eq!(status(&client, "http://b.example/other").await, 200);
}

#[tokio::test]
async fn five_server_errors_of_pages_and_robots_txt_open_the_breaker() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/well" => Reply::html("page"),
        _ => Reply::new(502, ""),
    })
    .await;
    let client = client(&server);
    for path in ["1", "2", "3", "4", "well", "1", "2", "3", "4", "5"] {
        status(&client, &format!("http://a.example/{path}")).await;
    }
    let denied = refused(&client, "http://a.example/6").await;
    assert!(
        matches!(denied.kind(), DeniedKind::Deferred { reason: DeferReason::Breaker { .. } }),
        "{denied}"
    );
    assert_eq!(server.log().len(), 11);
}
