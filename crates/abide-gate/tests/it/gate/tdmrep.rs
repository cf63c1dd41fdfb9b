//! `/.well-known/tdmrep.json`: asked for once, before the first page, and only on request.

use std::sync::Arc;
use std::time::Duration;

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{DAY, START, built, clock, one_second, url};
use abide_gate::{Denied, DeniedKind, Failure, Gate, GateBuilder, ManualClock, Verdict};
use tokio::task::JoinSet;

const FILE: &str = r#"[{"location": "/", "tdm-reservation": 1}]"#;

/// A gate whose sites have `robots` and answer for tdmrep.json as `play` says, by the number of earlier requests.
fn gate(
    settings: impl FnOnce(GateBuilder) -> GateBuilder,
    robots: &'static str,
    play: impl Fn(usize) -> Scripted + Send + Sync + 'static,
) -> (Gate, ScriptedFetch, Arc<ManualClock>) {
    let fetch = ScriptedFetch::new(move |request, times| match request.url().path() {
        "/robots.txt" => Scripted::text(robots),
        "/.well-known/tdmrep.json" => play(times),
        _ => Scripted::status(500),
    });
    let clock = clock();
    let builder = Gate::builder().pace(one_second().danger_min_delay(Duration::ZERO)).clock(clock.clone());
    (built(settings(builder), &fetch), fetch, clock)
}

async fn check(gate: &Gate, page: &str) -> Result<Verdict, Denied> {
    gate.check(&url(page), &mut Duration::from_secs(9)).await
}

fn asked(fetch: &ScriptedFetch) -> usize {
    fetch.urls().iter().filter(|url| url.ends_with("tdmrep.json")).count()
}

/// The file, and whether it is unknown.
type Tdmrep<'v> = (Option<&'v [u8]>, bool);

const FOUND: Tdmrep<'_> = (Some(FILE.as_bytes()), false);
const ABSENT: Tdmrep<'_> = (None, false);
const UNKNOWN: Tdmrep<'_> = (None, true);

fn tdmrep(verdict: &Verdict) -> Tdmrep<'_> {
    (verdict.tdmrep(), verdict.is_tdmrep_unknown())
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_callers_ask_each_origin_for_it_once() {
    let (gate, fetch, _) =
        gate(GateBuilder::fetch_tdmrep, "", |_| Scripted::text(FILE).head_after(Duration::from_millis(50)));
    let mut callers = JoinSet::new();
    for caller in 0..10_000 {
        let gate = gate.clone();
        callers.spawn(async move {
            let page = format!("https://{}.example/{caller}", ["a", "b"][caller % 2]);
            assert_eq!(tdmrep(&check(&gate, &page).await.unwrap()), FOUND);
        });
    }
    callers.join_all().await;
    assert_eq!((asked(&fetch), fetch.count()), (2, 4), "{:?}", fetch.urls());
    // And no caller after them.
    gate.check(&url("https://a.example/y"), &mut Duration::ZERO.clone()).await.unwrap();
    assert!(gate.check_cached(&url("https://b.example/y")).is_some());
    assert_eq!(asked(&fetch), 2);
}

#[tokio::test(start_paused = true)]
async fn robots_txt_speaks_of_it_like_of_any_file() {
    for (robots, expected) in
        [("User-agent: *\nDisallow: /.well-known/", UNKNOWN), ("User-agent: *\nDisallow: /x", ABSENT)]
    {
        let (gate, fetch, _) = gate(GateBuilder::fetch_tdmrep, robots, |_| Scripted::text(FILE));
        let verdict = check(&gate, "https://a.example/x").await.unwrap();
        assert_eq!((tdmrep(&verdict), asked(&fetch)), (expected, 0), "{robots}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_leaves_the_last_good_copy_in_force() {
    for (name, fault, expected) in [
        ("404", Scripted::status(404), ABSENT),
        ("410", Scripted::status(410), ABSENT),
        ("401", Scripted::status(401), FOUND),
        ("403", Scripted::status(403), FOUND),
        ("500", Scripted::status(500), FOUND),
        ("503", Scripted::status(503), FOUND),
        ("no name", Scripted::error(Failure::Dns), FOUND),
        ("no connection", Scripted::error(Failure::Connect), FOUND),
        ("a body that breaks off", Scripted::text("[{").breaks(), FOUND),
        ("a body that stalls", Scripted::text("[{").stalls(), FOUND),
        ("a circle of redirects", Scripted::redirect("/.well-known/tdmrep.json"), UNKNOWN),
    ] {
        let (gate, fetch, clock) = gate(GateBuilder::fetch_tdmrep, "", move |times| match times {
            0 => Scripted::text(FILE),
            _ => fault.clone(),
        });
        check(&gate, "https://a.example/x").await.unwrap();
        clock.jump_to(START.plus(DAY + Duration::from_secs(60)));
        let verdict = check(&gate, "https://a.example/x").await.unwrap();
        assert_eq!(tdmrep(&verdict), expected, "{name}");
        assert!(asked(&fetch) >= 2, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_it_is_required_and_unknown_pages_are_refused() {
    let (gate, _, _) = gate(GateBuilder::require_tdmrep, "", |_| Scripted::status(500));
    let denied = check(&gate, "https://a.example/x").await.unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::TdmrepUnknown), "{denied}");
    assert!(denied.is_temporary() && denied.retry_at().is_some());
    assert!(gate.check_cached(&url("https://a.example/x")).is_none());
}

#[tokio::test(start_paused = true)]
async fn it_is_not_sent_within_the_crawl_delay() {
    let (gate, fetch, _) =
        gate(GateBuilder::fetch_tdmrep, "User-agent: *\nCrawl-delay: 60", |_| Scripted::text(FILE));
    let denied = check(&gate, "https://a.example/x").await.unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::Deferred { .. }), "{denied}");
    assert_eq!(asked(&fetch), 0);
}

#[tokio::test(start_paused = true)]
async fn its_redirects_obey_the_rules_of_where_they_lead() {
    let rules = "User-agent: *\nDisallow: /closed/";
    for (to, expected) in [
        ("/open/tdmrep.json", FOUND),
        ("/closed/tdmrep.json", UNKNOWN),
        ("https://b.example/open/tdmrep.json", FOUND),
        ("https://b.example/closed/tdmrep.json", UNKNOWN),
        ("https://down.example/open/tdmrep.json", UNKNOWN),
    ] {
        let fetch =
            ScriptedFetch::new(move |request, _| match (request.url().host_str(), request.url().path()) {
                (Some("down.example"), _) => Scripted::status(500),
                (_, "/robots.txt") => Scripted::text(rules),
                (_, "/.well-known/tdmrep.json") => Scripted::redirect(to),
                _ => Scripted::text(FILE),
            });
        let builder = Gate::builder().pace(one_second().danger_min_delay(Duration::ZERO));
        let gate = built(builder.fetch_tdmrep(), &fetch);
        let verdict = check(&gate, "https://a.example/x").await.unwrap();
        assert_eq!(tdmrep(&verdict), expected, "{to}");
        let was_sent =
            fetch.urls().iter().any(|url| url.contains("/closed/") || url.contains("down.example/open"));
        assert!(!was_sent, "{:?}", fetch.urls());
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_revalidated_with_its_validators() {
    let (gate, fetch, clock) = gate(GateBuilder::fetch_tdmrep, "", |times| match times {
        0 => Scripted::text(FILE).header("etag", b"\"1\""),
        _ => Scripted::status(304),
    });
    check(&gate, "https://a.example/x").await.unwrap();
    clock.jump_to(START.plus(DAY + Duration::from_secs(60)));
    let verdict = check(&gate, "https://a.example/x").await.unwrap();
    assert_eq!(tdmrep(&verdict), FOUND);
    let last = fetch.asked().into_iter().rfind(|asked| asked.url.ends_with("tdmrep.json")).unwrap();
    assert_eq!(last.headers.get("if-none-match").unwrap(), "\"1\"");
    assert_eq!(asked(&fetch), 2);
}

#[tokio::test(start_paused = true)]
async fn an_override_knows_nothing_of_it() {
    let robots = "User-agent: *\nDisallow: /x";
    for (settings, expected) in
        [(GateBuilder::fetch_tdmrep as fn(GateBuilder) -> GateBuilder, UNKNOWN), (|gate| gate, ABSENT)]
    {
        let (gate, _, _) = gate(settings, robots, |_| Scripted::text(FILE));
        let verdict = check(&gate, "https://a.example/x").await.unwrap();
        assert_eq!(tdmrep(&gate.override_denial(verdict, &"our own site".into())), expected);
    }
}
