//! A request is checked again when its permit comes, by what is known then.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{DAY, SECOND, built, gate, origin, page, url};
use abide_gate::pacing::DeferReason;
use abide_gate::robots_cache::Source;
use abide_gate::{DeniedKind, Event, Failure, Gate, Host, Verdict};
use tokio::time::{Instant, sleep};

/// One robots.txt and then, four seconds on the wire, another.
fn first_then(first: &'static str, then: &'static str) -> ScriptedFetch {
    ScriptedFetch::in_turn([Scripted::text(first), Scripted::text(then).head_after(4 * SECOND)])
}

/// The verdict by the first robots.txt, while the second is on the wire.
async fn renewing(gate: &Gate, fetch: &ScriptedFetch) -> Verdict {
    let verdict = gate.check(&page(), &mut { 30 * SECOND }).await.unwrap();
    gate.invalidate(&origin()).await;
    let again = gate.clone();
    tokio::spawn(async move { again.entry(&origin()).await.map(drop) });
    while fetch.count() < 2 {
        sleep(SECOND / 10).await;
    }
    verdict
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_becomes_disallowed_frees_its_permit() {
    let fetch = first_then("User-agent: *\nAllow: /", "User-agent: *\nDisallow: /page");
    let gate = gate(&fetch);
    let mut verdict = renewing(&gate, &fetch).await;
    let mut left = 30 * SECOND;
    let error = gate.acquire(&page(), &mut verdict, &mut left).await.unwrap_err();
    assert!(error.is_disallowed(), "{error:?}");
    assert!(left < 27 * SECOND, "{left:?}: the wait counts");
    let other = url("https://a.example/other");
    assert!(gate.admit(&other, SECOND).await.is_ok(), "the permit was given back unused");
}

#[tokio::test(start_paused = true)]
async fn an_old_verdict_is_checked_again_first() {
    let fetch = first_then("User-agent: *\nAllow: /", "User-agent: *\nDisallow: /page");
    let gate = gate(&fetch);
    let mut verdict = gate.check(&page(), &mut { 30 * SECOND }).await.unwrap();
    sleep(2 * DAY).await;
    let error = gate.acquire(&page(), &mut verdict, &mut { 30 * SECOND }).await.unwrap_err();
    assert!(error.is_disallowed(), "{error:?}");
    assert_eq!(fetch.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_override_holds_after_a_wait_too() {
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /\nCrawl-delay: 5"));
    let gate = gate(&fetch);
    let mut left = 30 * SECOND;
    let verdict = gate.check(&page(), &mut left).await.unwrap();
    assert!(!verdict.is_allowed());
    let mut verdict = gate.override_denial(verdict, &"our own site".into());
    assert!(verdict.is_allowed() && !verdict.rules().unwrap().is_allowed());
    assert!(verdict.to_string().starts_with("fetched against robots.txt (our own site): "), "{verdict}");
    let _permit = gate.acquire(&page(), &mut verdict, &mut left).await.unwrap();
    assert_eq!((verdict.override_reason(), left), (Some("our own site"), 25 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn robots_txt_is_paced_like_the_pages_of_its_host() {
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /page\nCrawl-delay: 20"));
    let gate = gate(&fetch);
    gate.admit(&url("https://a.example/other"), 60 * SECOND).await.unwrap().1.finish();
    let (verdict, permit) = gate.admit(&origin().robots_url(), 60 * SECOND).await.unwrap();
    assert_eq!(permit.waited(), 20 * SECOND);
    assert_eq!(verdict.to_string(), "allowed, because robots.txt itself always is");
    assert_eq!(fetch.count(), 1, "its own rules are not asked");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_has_the_rule_and_its_source() {
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /page\n"));
    let gate = gate(&fetch);
    assert!(gate.check_cached(&page()).is_none(), "nothing is known");
    let verdict = gate.check(&page(), &mut { 30 * SECOND }).await.unwrap();
    assert_eq!(verdict.rule().unwrap().to_string(), "Disallow: /page");
    assert_eq!(verdict.rules().unwrap().rule().unwrap().line(), 2);
    assert_eq!((verdict.source(), verdict.override_reason()), (Some(Source::Fresh), None));
    assert!(verdict.to_string().contains("Disallow: /page"), "{verdict}");
    // Also when it is soon time to ask again, and of nothing else.
    sleep(DAY - SECOND).await;
    assert!(!gate.check_cached(&page()).unwrap().is_allowed());
    assert!(gate.check_cached(&origin().robots_url()).unwrap().is_allowed());
    for url in ["https://b.example/page", "https://10.0.0.1/robots.txt", "ftp://a.example/"] {
        assert!(gate.check_cached(&url.parse().unwrap()).is_none(), "{url}");
    }
    assert_eq!(fetch.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_budget_too_small_for_robots_txt_is_deferred_at_once() {
    // The last one is backed off for less time than calls wait by default: its fetch is not begun either.
    for (budget, backoff, is_short) in [(5, 60, true), (30, 60, false), (5, 20, true)] {
        let fetch = ScriptedFetch::always(Scripted::text("User-agent: *"));
        let gate = gate(&fetch);
        gate.back_off(Host::of(&page()).unwrap(), gate.wall().plus(backoff * SECOND));
        let began = Instant::now();
        let error = gate.check(&page(), &mut { budget * SECOND }).await.unwrap_err();
        let DeniedKind::Deferred { reason } = error.kind() else { panic!("{error:?}") };
        assert_eq!(matches!(reason, DeferReason::Robots), is_short, "{reason:?}");
        assert_eq!(matches!(reason, DeferReason::Backoff { .. }), !is_short, "{reason:?}");
        assert_eq!((fetch.count(), gate.stats().robots_in_flight, began.elapsed()), (0, 0, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_keep_their_turn_when_the_crawl_delay_grows() {
    let fetch = first_then("User-agent: *", "User-agent: *\nCrawl-delay: 5");
    let gate = gate(&fetch);
    let old = renewing(&gate, &fetch).await;
    let (began, order) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let queue = |who: &'static str, mut verdict: Verdict| {
        let (gate, order) = (gate.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            let permit = gate.acquire(&page(), &mut verdict, &mut { 30 * SECOND }).await;
            order.lock().unwrap().push((who, began.elapsed().as_secs(), permit.is_ok()));
        })
    };
    let _waiting = [queue("first", old.clone()), queue("second", old)];
    let new = gate.check(&page(), &mut { 30 * SECOND }).await.unwrap();
    queue("third", new).await.unwrap();
    assert_eq!(*order.lock().unwrap(), [("first", 8, true), ("second", 13, true), ("third", 18, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_robots_txt_that_cannot_be_had_counts_against_its_host() {
    for kind in [Failure::Refused, Failure::Dns, Failure::Timeout] {
        let opened = Arc::new(Mutex::new(Vec::new()));
        let openings = Arc::clone(&opened);
        let observer = move |event: &Event<'_>| {
            if let Event::BreakerOpened { failure, .. } = event {
                openings.lock().unwrap().push(*failure);
            }
        };
        let fetch = ScriptedFetch::always(Scripted::error(kind));
        let gate = built(Gate::builder().observer(Arc::new(observer)), &fetch);
        for _ in 0..10 {
            let _ = gate.entry(&origin()).await;
            gate.invalidate(&origin()).await;
            sleep(60 * SECOND).await;
        }
        assert!(opened.lock().unwrap().contains(&kind), "{kind:?}: {opened:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_is_deferred_takes_no_place_from_pages() {
    let rules = Scripted::text("User-agent: *\nCrawl-delay: 60").header("cache-control", b"max-age=3600");
    let gate = gate(&ScriptedFetch::always(rules));
    gate.check(&page(), &mut gate.max_wait()).await.unwrap();
    let began = Instant::now();
    for minute in 1..60 {
        let page = url(&format!("https://a.example/{minute}"));
        let denied = gate.admit(&page, gate.max_wait()).await.unwrap_err();
        sleep(denied.retry_at().unwrap().duration_since(gate.wall().to_system_time()).unwrap()).await;
        drop(gate.admit(&page, gate.max_wait()).await.unwrap());
        assert_eq!(began.elapsed().as_secs() / 60, minute, "each page comes in its turn");
    }
}
