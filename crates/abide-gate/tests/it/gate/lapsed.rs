//! Verdicts that expire or change during a wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::MemoryStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Clock, Event, Gate};
use tokio::time::{Instant, sleep};

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{DAY, SECOND, built, clock, gate, one_second, origin, page, url};

#[tokio::test(start_paused = true)]
async fn a_crawl_delay_that_grows_during_a_wait_is_kept() {
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nCrawl-delay: 10"));
    let (clock, store) = (clock(), Arc::new(MemoryStore::new()));
    let builder = Gate::builder().pace(one_second()).clock(clock.clone()).robots_store(store.clone());
    let gate = built(builder.seed(7), &fetch);
    let due = gate.entry(&origin()).await.unwrap().retry_at();
    sleep(due.since(clock.wall()) - 5 * SECOND).await;
    drop(gate.admit(&page(), Duration::ZERO).await.unwrap());
    let (ended, other) = (Instant::now(), gate.clone());
    let waiting =
        tokio::spawn(async move { other.admit(&page(), 60 * SECOND).await.map(|_| Instant::now()) });
    sleep(6 * SECOND).await;
    // Another process has fetched: the new rules come from the store, and the queue is not notified of them.
    let slower = sample_record(&origin(), clock.wall(), "User-agent: *\nCrawl-delay: 20");
    store.save(&origin(), &slower).await.unwrap();
    gate.entry(&origin()).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(gate.entry(&origin()).await.unwrap().crawl_delay(), Some(20 * SECOND));
    assert!(!waiting.is_finished());
    let went = waiting.await.unwrap().unwrap();
    assert_eq!((went - ended).as_secs(), 20);
    assert_eq!(fetch.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_reported_once_though_its_verdict_has_lapsed() {
    let granted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&granted);
    let observer = move |event: &Event<'_>| {
        counter.fetch_add(matches!(event, Event::Granted { .. }).into(), Ordering::SeqCst);
    };
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nCrawl-delay: 10"));
    let builder = Gate::builder().pace(one_second()).clock(clock()).observer(Arc::new(observer));
    let gate = built(builder, &fetch);
    gate.entry(&origin()).await.unwrap();
    let old = gate.check_cached(&page()).unwrap();
    sleep(DAY).await;
    // Another caller has asked meanwhile.
    gate.entry(&origin()).await.unwrap();
    sleep(20 * SECOND).await;
    let before = granted.load(Ordering::SeqCst);
    let mut now = old.clone();
    let _permit = gate.acquire(&page(), &mut now, &mut SECOND.clone()).await.unwrap();
    assert_eq!(granted.load(Ordering::SeqCst) - before, 1);
    assert!(now.entry().unwrap().asked_at() > old.entry().unwrap().asked_at());
}

#[tokio::test(start_paused = true)]
async fn rules_outlast_the_crawl_delay_that_a_page_waits_for() {
    let asks = |delay, cached: &str| {
        let text = Scripted::text(format!("User-agent: *\nCrawl-delay: {delay}"));
        (delay, 1, text.header("cache-control", cached.as_bytes()))
    };
    let limited =
        Scripted::status(404).header("x-ratelimit-remaining", b"1").header("x-ratelimit-reset", b"400");
    for (delay, own, answer) in [
        asks(600, "no-cache"),
        asks(7_200, "max-age=3600"),
        asks(43_200, "max-age=3600"),
        (360, 360, Scripted::text("").header("cache-control", b"no-cache")),
        (360, 360, Scripted::status(404).header("cache-control", b"no-store")),
        (400, 1, limited.header("cache-control", b"no-cache")),
    ] {
        // What waits for tdmrep.json besides fits into a day where the delay is eight hours at most.
        for files in 1..=if delay > 28_800 { 1 } else { 2 } {
            let fetch = ScriptedFetch::always(answer.clone());
            let builder = Gate::builder().pace(one_second().with_delay(own * SECOND)).clock(clock());
            let gate = built(if files == 2 { builder.fetch_tdmrep() } else { builder }, &fetch);
            for pages in 1..4 {
                let permit = gate.admit(&page(), 4 * delay * SECOND).await;
                assert!(permit.is_ok(), "{delay} s, {files}, {answer:?}, page {pages}: {permit:?}");
                assert!(fetch.count() <= files * pages, "{delay} s, {files}, {answer:?}: {pages} pages");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_of_robots_txt_that_the_crawl_delay_defers_goes_on_later() {
    let fetch = ScriptedFetch::new(|request, _| match request.url().scheme() {
        "http" => Scripted::status(301).header("location", b"https://a.example/robots.txt"),
        _ => Scripted::text("User-agent: *\nCrawl-delay: 60"),
    });
    let gate = gate(&fetch);
    let check = || async { gate.check(&url("http://a.example/x"), &mut { 30 * SECOND }).await };
    check().await.unwrap();
    sleep(DAY).await;
    // The second hop is the same host's, and has to wait for a minute.
    let deferred = check().await.unwrap_err();
    assert_eq!(deferred.retry_at(), Some(gate.wall().plus(60 * SECOND).to_system_time()));
    sleep(60 * SECOND).await;
    assert!(check().await.unwrap().is_allowed());
    assert_eq!(fetch.count(), 4, "each hop once a day");
    // Too long ago, it begins again.
    sleep(DAY).await;
    check().await.unwrap_err();
    sleep(2 * 3_600 * SECOND).await;
    check().await.unwrap_err();
    assert_eq!(fetch.asked().last().unwrap().url, "http://a.example/robots.txt");
}

/// Pages of a host whose delay is about as long as robots.txt may be used, by a caller that comes back when
/// it is told to.
async fn pages_of_a_week(delay: Duration, has_tdmrep: bool, is_shared: bool) {
    let text = format!("User-agent: *\nCrawl-delay: {}", delay.as_secs());
    let fetch = ScriptedFetch::always(Scripted::text(text).head_after(SECOND).body(" "));
    let clock = clock();
    let builder = Gate::builder().pace(one_second()).clock(clock.clone());
    let builder = if has_tdmrep { builder.fetch_tdmrep() } else { builder };
    let builder = if is_shared { builder.host_store(Arc::new(MemoryStore::new())) } else { builder };
    let gate = built(builder, &fetch);
    let (began, what) = (Instant::now(), format!("{delay:?}, tdmrep {has_tdmrep}, shared {is_shared}"));
    let (mut pages, mut ended) = (0_u32, None::<Instant>);
    while began.elapsed() < 7 * DAY {
        match gate.admit(&page(), 30 * SECOND).await {
            Ok((verdict, permit)) => {
                assert!(
                    ended.is_none_or(|ended| ended.elapsed() >= delay),
                    "{what}: {:?}",
                    ended.unwrap().elapsed()
                );
                let age = gate.wall().since(verdict.entry().unwrap().fetched_at().unwrap());
                assert!(age <= DAY, "{what}: rules of {age:?} ago");
                sleep(SECOND).await;
                drop(permit);
                (pages, ended) = (pages + 1, Some(Instant::now()));
            }
            Err(denied) => {
                let at = denied.retry_at().unwrap().duration_since(gate.wall().to_system_time());
                sleep(at.unwrap_or_default()).await;
            }
        }
    }
    let most = u32::try_from(7 * DAY.as_secs() / delay.as_secs()).unwrap();
    assert!(pages + 1 >= most && pages >= 6, "{what}: {pages} pages in a week");
    assert!(fetch.count() <= 2 * (pages as usize + 1), "{what}: {} files for {pages} pages", fetch.count());
}

#[tokio::test(start_paused = true)]
async fn pages_come_at_delays_as_long_as_rules_are_fresh() {
    for delay in [28_801, 43_200, 50_000, 86_399, 86_400] {
        for (has_tdmrep, is_shared) in [(false, false), (true, false), (false, true), (true, true)] {
            pages_of_a_week(delay * SECOND, has_tdmrep, is_shared).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn files_of_a_site_with_a_long_delay_keep_our_own() {
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nCrawl-delay: 86400"));
    let gate = built(
        Gate::builder().pace(one_second().with_delay(5 * SECOND)).clock(clock()).fetch_tdmrep(),
        &fetch,
    );
    let began = Instant::now();
    gate.admit(&page(), 30 * SECOND).await.unwrap_err();
    assert_eq!((fetch.count(), began.elapsed()), (2, 5 * SECOND), "robots.txt, 5 s, tdmrep.json");
    sleep(DAY).await;
    let (_, permit) = gate.admit(&page(), 30 * SECOND).await.unwrap();
    assert_eq!((fetch.count(), permit.waited()), (4, 5 * SECOND), "behind the file before it");
    drop(permit);
    let slot = gate.next_slot(&page()).unwrap();
    assert_eq!(slot.wait, DAY, "a page keeps the site's");
}
