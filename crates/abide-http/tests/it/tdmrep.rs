//! `/.well-known/tdmrep.json`: fetched like a page, once, before the first page, and only on request.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::PacePolicy;
use abide_gate::{Clock, Denied, DeniedKind, Failure, ManualClock, SystemClock};
use abide_http::{Crawler, CrawlerBuilder, FetchInfo};
use abide_permissions::{Preference, Usage};
use http::Response;
use http_body_util::Full;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use url::Url;

use crate::scripted::{Scripted, ScriptedFetch};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
const FILE: &str = r#"[{"location": "/", "tdm-reservation": 1}]"#;

/// What is known of mining.
type Known = (Preference, bool);
const FOUND: Known = (Preference::Disallow, true);
const ABSENT: Known = (Preference::Unset, true);
const UNKNOWN: Known = (Preference::Unknown, false);

/// A crawler whose sites have `robots`, and answer for tdmrep.json as `play` says, by the number of earlier
/// requests.
fn crawler(
    settings: impl FnOnce(CrawlerBuilder) -> CrawlerBuilder,
    robots: &'static str,
    play: impl Fn(usize) -> Scripted + Send + Sync + 'static,
) -> (Arc<Crawler>, ScriptedFetch, Arc<ManualClock>) {
    let fetch = ScriptedFetch::new(move |request, times| match request.url().path() {
        "/robots.txt" => Scripted::text(robots),
        "/.well-known/tdmrep.json" => play(times),
        _ => Scripted::status(500),
    });
    let clock = Arc::new(ManualClock::starting_at(SystemClock.wall()));
    (built(settings, &fetch, &clock), fetch, clock)
}

fn built(
    settings: impl FnOnce(CrawlerBuilder) -> CrawlerBuilder,
    fetch: &ScriptedFetch,
    clock: &Arc<ManualClock>,
) -> Arc<Crawler> {
    let builder = Crawler::builder("ExampleBot").gate(|gate| {
        gate.pace(PacePolicy::default().danger_min_delay(Duration::ZERO)).clock(Arc::clone(clock) as _)
    });
    Arc::new(settings(builder).build(Arc::new(fetch.clone())).unwrap())
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn asked(fetch: &ScriptedFetch) -> usize {
    fetch.urls().iter().filter(|url| url.ends_with("tdmrep.json")).count()
}

async fn check(crawler: &Crawler, page: &str) -> Result<(), Denied> {
    crawler.check(&url(page), &mut { 9 * SECOND }).await.map(drop)
}

/// What is known of mining for a page that was fetched before, and is in the hands of its caller.
async fn known(crawler: &Crawler, page: &str) -> Known {
    let text = Response::builder().header("content-type", "text/plain").body(Full::<bytes::Bytes>::default());
    let page = crawler.read(&url(page), text.unwrap()).await;
    let preferences = FetchInfo::of(page.extensions()).unwrap().preferences();
    (preferences.answer(&Usage::Tdm).preference(), preferences.is_complete())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_ask_each_origin_for_it_once() {
    let (crawler, fetch, _) =
        crawler(CrawlerBuilder::fetch_tdmrep, "", |_| Scripted::text(FILE).head_after(SECOND / 20));
    let mut callers = JoinSet::new();
    for caller in 0..1_000 {
        let crawler = Arc::clone(&crawler);
        callers.spawn(async move {
            check(&crawler, &format!("https://{}.example/{caller}", ["a", "b"][caller % 2])).await.unwrap();
        });
    }
    callers.join_all().await;
    assert_eq!((asked(&fetch), fetch.count()), (2, 4), "{:?}", fetch.urls());
    // And no caller after them.
    crawler.check(&url("https://a.example/y"), &mut Duration::ZERO.clone()).await.unwrap();
    assert_eq!((asked(&fetch), known(&crawler, "https://b.example/y").await), (2, FOUND));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_does_not_end_the_fetch() {
    let (crawler, fetch, _) =
        crawler(CrawlerBuilder::fetch_tdmrep, "", |_| Scripted::text(FILE).head_after(5 * SECOND));
    let left = tokio::time::timeout(SECOND, check(&crawler, "https://a.example/x")).await;
    assert!(left.is_err());
    check(&crawler, "https://a.example/x").await.unwrap();
    assert_eq!(asked(&fetch), 1);
}

#[tokio::test(start_paused = true)]
async fn robots_txt_speaks_of_it_like_of_any_file() {
    for robots in ["User-agent: *\nDisallow: /.well-known/", "User-agent: *\nDisallow: /x"] {
        let (crawler, fetch, _) = crawler(CrawlerBuilder::fetch_tdmrep, robots, |_| Scripted::text(FILE));
        check(&crawler, "https://a.example/x").await.unwrap();
        assert_eq!((known(&crawler, "https://a.example/x").await, asked(&fetch)), (UNKNOWN, 0), "{robots}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_leaves_the_last_good_copy_in_force() {
    for (name, fault, expected) in [
        ("404", Scripted::status(404), ABSENT),
        ("410", Scripted::status(410), ABSENT),
        ("401", Scripted::status(401), FOUND),
        ("403", Scripted::status(403), FOUND),
        ("400", Scripted::status(400), UNKNOWN),
        ("206", Scripted::status(206), FOUND),
        ("304 to another URL", Scripted::status(304), FOUND),
        ("500", Scripted::status(500), FOUND),
        ("503", Scripted::status(503), FOUND),
        ("no name", Scripted::error(Failure::Dns), FOUND),
        ("no connection", Scripted::error(Failure::Connect), FOUND),
        ("a body that breaks off", Scripted::text("[{").breaks(), FOUND),
        ("a body that stalls", Scripted::text("[{").stalls(), FOUND),
        ("a body that drips", Scripted::text("[").endless().chunk_after(SECOND), FOUND),
        ("a circle of redirects", Scripted::redirect("/.well-known/tdmrep.json"), UNKNOWN),
        ("a redirect without TLS", Scripted::redirect("http://a.example/.well-known/tdmrep.json"), FOUND),
    ] {
        let (crawler, fetch, clock) = crawler(CrawlerBuilder::fetch_tdmrep, "", move |times| match times {
            0 => Scripted::text(FILE),
            _ => fault.clone(),
        });
        check(&crawler, "https://a.example/x").await.unwrap();
        clock.jump_to(clock.wall().plus(DAY + 60 * SECOND));
        check(&crawler, "https://a.example/x").await.unwrap();
        assert_eq!(known(&crawler, "https://a.example/x").await, expected, "{name}");
        assert!(asked(&fetch) >= 2, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_it_is_asked_for_ever_more_rarely() {
    let (crawler, fetch, clock) = crawler(CrawlerBuilder::fetch_tdmrep, "", |_| Scripted::status(403));
    let mut times = Vec::new();
    let began = clock.wall();
    while times.len() < 9 {
        check(&crawler, "https://a.example/x").await.unwrap();
        times.resize(asked(&fetch), clock.wall().since(began).as_secs() / 60);
        clock.jump_to(clock.wall().plus(20 * SECOND));
    }
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
}

#[tokio::test(start_paused = true)]
async fn where_it_is_required_and_unknown_pages_are_refused() {
    let (crawler, ..) = crawler(CrawlerBuilder::require_tdmrep, "", |_| Scripted::status(500));
    let denied = check(&crawler, "https://a.example/x").await.unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::TdmrepUnknown), "{denied}");
    assert_eq!(denied.url().path(), "/x");
    assert!(denied.is_temporary() && denied.retry_at().is_some());
}

#[tokio::test(start_paused = true)]
async fn it_is_not_sent_within_the_crawl_delay() {
    let (crawler, fetch, _) =
        crawler(CrawlerBuilder::fetch_tdmrep, "User-agent: *\nCrawl-delay: 60", |_| Scripted::text(FILE));
    let denied = check(&crawler, "https://a.example/x").await.unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::Deferred { .. }), "{denied}");
    assert_eq!((denied.url().path(), asked(&fetch)), ("/x", 0));
    // A caller that has the time waits for it.
    let mut left = 70 * SECOND;
    crawler.check(&url("https://a.example/x"), &mut left).await.unwrap();
    assert_eq!((asked(&fetch), left.as_secs()), (1, 10));
}

#[tokio::test(start_paused = true)]
async fn behind_an_open_body_it_waits_no_longer_than_its_caller() {
    let (crawler, fetch, _) = crawler(CrawlerBuilder::fetch_tdmrep, "", |_| Scripted::text(FILE));
    let page = url("https://a.example/x");
    // By the gate alone, which does not know of the file.
    let mut verdict = crawler.gate().check(&page, &mut { 9 * SECOND }).await.unwrap();
    let open = crawler.gate().acquire(&page, &mut verdict, &mut { 9 * SECOND }).await.unwrap();
    let began = Instant::now();
    let denied = crawler.check(&page, &mut { 3 * SECOND }).await.map(drop).unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::Deferred { .. }), "{denied}");
    assert_eq!((began.elapsed().as_secs(), asked(&fetch)), (3, 0));
    // The fetch goes on for the callers after it.
    drop(open);
    check(&crawler, "https://a.example/x").await.unwrap();
    assert_eq!(asked(&fetch), 1);
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
        let clock = Arc::new(ManualClock::starting_at(SystemClock.wall()));
        let crawler = built(CrawlerBuilder::fetch_tdmrep, &fetch, &clock);
        check(&crawler, "https://a.example/x").await.unwrap();
        assert_eq!(known(&crawler, "https://a.example/x").await, expected, "{to}");
        let was_sent =
            fetch.urls().iter().any(|url| url.contains("/closed/") || url.contains("down.example/open"));
        assert!(!was_sent, "{:?}", fetch.urls());
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_revalidated_with_its_validators_for_a_week() {
    let fetch = ScriptedFetch::new(|request, _| match request.url().path() {
        "/robots.txt" => Scripted::text(""),
        _ if request.headers().contains_key("if-none-match") => Scripted::status(304),
        _ => Scripted::text(FILE).header("etag", b"\"1\""),
    });
    let clock = Arc::new(ManualClock::starting_at(SystemClock.wall()));
    let crawler = built(CrawlerBuilder::fetch_tdmrep, &fetch, &clock);
    for day in 0..9 {
        check(&crawler, "https://a.example/x").await.unwrap();
        assert_eq!((known(&crawler, "https://a.example/x").await, asked(&fetch)), (FOUND, day + 1));
        clock.jump_to(clock.wall().plus(DAY));
    }
    let asked = fetch.asked().into_iter().filter(|asked| asked.url.ends_with("tdmrep.json"));
    let conditional: Vec<_> = asked.map(|asked| asked.headers.contains_key("if-none-match")).collect();
    assert_eq!(conditional, [false, true, true, true, true, true, true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn pages_come_however_long_the_delay_of_their_site_is() {
    let (crawler, fetch, _) =
        crawler(CrawlerBuilder::fetch_tdmrep, "User-agent: *\nCrawl-delay: 86400", |_| {
            Scripted::text(FILE).header("cache-control", b"no-cache")
        });
    let (began, mut pages) = (Instant::now(), 0);
    while began.elapsed() < 12 * DAY {
        let mut left = 2 * DAY;
        let page = url("https://a.example/x");
        let mut verdict = crawler.check(&page, &mut left).await.unwrap();
        drop(crawler.gate().acquire(&page, &mut verdict, &mut left).await.unwrap());
        pages += 1;
        sleep(SECOND).await;
    }
    assert!(pages >= 7 && asked(&fetch) <= 5, "{pages} pages, {} files", asked(&fetch));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_refuses_pages_that_are_for_training() {
    let (crawler, fetch, _) = crawler(
        |settings| settings.fetch_tdmrep().purpose(Usage::TrainAi),
        "",
        |times| match times {
            0 => Scripted::failing(
                abide_gate::robots_cache::FetchError::new(Failure::Reset, "closed").with_repetition(true),
            ),
            _ => Scripted::text(FILE),
        },
    );
    let denied = check(&crawler, "https://a.example/x").await.unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::Purpose { .. }), "{denied}");
    assert_eq!(asked(&fetch), 2, "a kept connection was closed");
}
