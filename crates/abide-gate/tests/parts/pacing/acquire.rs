//! Permits on virtual time: who goes when, who is deferred, and what cancelling does.

use std::sync::Arc;
use std::time::Duration;

use crate::pacing::Pacer;
use abide_gate::DeniedKind;
use abide_gate::pacing::{BackoffCause, DeferReason};
use abide_gate::{Clock, ManualClock, Origin, WallMillis};
use futures_util::FutureExt;
use tokio::time::{Instant, advance, sleep};

use crate::parts::support::pacing::{Deferral, Lagging, Log, deferral, joined, ms, one_second, page, s, url};

#[tokio::test(start_paused = true)]
async fn several_in_flight_start_a_delay_apart() {
    let policy = one_second().danger_max_in_flight(3).danger_min_delay(ms(100));
    let (pacer, log) = (Pacer::new(policy), Log::default());
    joined(log.crowd(5, &pacer, s(2))).await;
    // Three start a delay apart; the others a delay after whatever was last, a start or an end: the third
    // ends at 2.2 s.
    assert_eq!(log.starts("a.example"), [ms(0), ms(100), ms(200), ms(2_300), ms(2_400)]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_tasks_are_served_in_order() {
    let (pacer, log) = (Pacer::new(one_second().with_max_wait(s(5_000))), Log::default());
    joined(log.crowd(1_000, &pacer, ms(100))).await;
    assert_eq!(log.order(), (0..1_000).collect::<Vec<_>>());
    assert_eq!(*log.starts("a.example").last().unwrap(), ms(1_100 * 999));
    log.check(s(1));
}

/// Asks again whenever a deferral says so. Returns how often it asked.
async fn requeue(pacer: Arc<Pacer>, budget: Duration, wire: Duration) -> usize {
    for calls in 1.. {
        match pacer.take_within("a.example", budget).await {
            Ok(permit) => {
                sleep(wire).await;
                permit.finish();
                return calls;
            }
            refused => sleep(deferral(refused).wait).await,
        }
    }
    unreachable!()
}

#[tokio::test(start_paused = true)]
async fn deferred_callers_that_return_in_time_ask_about_twice() {
    for (max_wait, wire, held) in
        [(s(30), ms(100), s(0)), (s(30), ms(0), s(60)), (s(5), ms(50), s(0)), (s(0), ms(0), s(60))]
    {
        let pacer = Pacer::new(one_second());
        if held > s(0) {
            pacer.back_off_for("a.example", held);
        }
        let tasks = (0..300).map(|_| tokio::spawn(requeue(pacer.clone(), max_wait, wire)));
        let calls: usize = joined(tasks).await.into_iter().sum();
        assert!(calls <= 700, "{calls} calls for 300 pages: {max_wait:?} {wire:?} {held:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deferral_reserves_nothing_and_its_place_is_forgotten() {
    let pacer = Pacer::new(one_second());
    let at_once = || pacer.take_within("a.example", ms(0));
    let open = at_once().await.unwrap();
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(deferral(at_once().await).wait);
    }
    assert_eq!(waits, [s(1), s(2), s(3), s(4)], "one behind the other");
    open.finish();
    sleep(s(1)).await;
    at_once().await.expect("the first to come goes").finish();
    sleep(s(60)).await;
    at_once().await.expect("the host is free").finish();
    assert_eq!(deferral(at_once().await).wait, s(1), "the earlier deferrals no longer count");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_asks_again_and_again_moves_no_other() {
    let pacer = Pacer::new(one_second());
    pacer.back_off_for("a.example", s(60));
    for (text, wait) in [("http://a.example/1", 60), ("http://a.example/2", 61)].repeat(100) {
        assert_eq!(deferral(pacer.acquire(&url(text), s(0), s(0)).await).wait, s(wait), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_one_host_share_one_slot() {
    let (pacer, log) = (Pacer::new(one_second()), Log::default());
    for text in ["http://example.com/", "https://example.com./", "http://EXAMPLE.com:8443/x"] {
        log.fetch_as(0, &pacer, &url(text), ms(0)).await.unwrap();
    }
    assert_eq!(log.starts("example.com"), [s(0), s(1), s(2)]);
    assert_eq!(pacer.stats().hosts, 1);
}

#[tokio::test(start_paused = true)]
async fn crawl_delays_from_zero_to_a_day_count() {
    let pacer = Pacer::new(one_second().danger_min_delay(ms(100)));
    let a = url("http://a.example/");
    let after_another = async |crawl_delay| {
        pacer.take("a.example").await.finish();
        pacer.acquire(&a, crawl_delay, pacer.policy.max_wait).await
    };
    assert_eq!(after_another(ms(500)).await.unwrap().waited(), ms(500));
    sleep(s(10)).await;
    assert_eq!(after_another(ms(0)).await.unwrap().waited(), ms(100), "0: our own");
    let refused = after_another(s(86_401)).await.unwrap_err();
    let too_long = DeniedKind::CrawlDelayTooLong { asked: s(86_401) };
    assert_eq!(format!("{:?}", refused.kind), format!("{too_long:?}"));
    // A day to the second is honoured, that is, deferred.
    assert!(deferral(after_another(s(86_400)).await).wait > s(86_399));
}

#[tokio::test(start_paused = true)]
async fn a_crawl_delay_may_change_while_twenty_wait() {
    let (pacer, log) = (Pacer::new(one_second()), Log::default());
    let tasks = log.crowd(20, &pacer, ms(0));
    sleep(ms(2_500)).await;
    assert_eq!(log.starts("a.example"), [s(0), s(1), s(2)]);
    // The site now asks for 3 s: the next start uses it.
    pacer.change_crawl_delay(&Origin::of(&page("a.example")).unwrap(), s(3));
    sleep(s(60)).await;
    assert_eq!(log.starts("a.example")[3..6], [s(5), s(8), s(11)]);
    // The last that can go within its 30 s goes at 29 s; the others were deferred at once.
    assert_eq!(*log.starts("a.example").last().unwrap(), s(29));
    let late = joined(tasks).await.into_iter().filter_map(Result::err).count();
    assert_eq!(late, 20 - log.starts("a.example").len());
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_max_wait_is_deferred_at_once() {
    let pacer = Pacer::new(one_second());
    pacer.take("a.example").await.finish();
    let began = Instant::now();
    let results = joined((0..40).map(|_| pacer.spawn_take("a.example", s(30)))).await;
    let deferred: Vec<_> = results.into_iter().filter_map(|(result, at)| Some((result.err()?, at))).collect();
    // At one a second 30 go within 30 s. The other ten are deferred at once, each to a second after the one
    // before.
    assert_eq!(deferred.len(), 10);
    for (wait, (refusal, at)) in (31..).zip(deferred) {
        assert_eq!(at, began);
        let Deferral { reason, wait: left } = deferral(Err::<(), _>(refusal));
        assert_eq!((reason, began.elapsed() + left), (DeferReason::Delay { delay: s(1) }, s(wait)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_impatient_waiter_behind_a_patient_one_is_deferred_early() {
    let pacer = Pacer::new(one_second());
    let open = pacer.take("a.example").await;
    let [patient, impatient] = [s(100), s(3)].map(|budget| pacer.spawn_take("a.example", budget));
    sleep(s(2)).await;
    let ended = Instant::now();
    drop(open);
    let (result, at) = impatient.await.unwrap();
    assert_eq!((deferral(result).wait, at), (s(2), ended), "the patient one at 3 s, so not before 4 s");
    assert!(patient.await.unwrap().0.is_ok());
}

#[tokio::test(start_paused = true)]
async fn of_several_in_flight_the_oldest_counts() {
    let pacer = Pacer::new(one_second().danger_max_in_flight(2));
    let open = || pacer.report_of("a.example").open;
    let first = pacer.take("a.example").await;
    sleep(s(10)).await;
    let second = pacer.take("a.example").await;
    sleep(s(20)).await;
    assert_eq!(open(), Some(s(30)));
    let busy = deferral(pacer.take_within("a.example", s(0)).await);
    assert!(matches!(busy.reason, DeferReason::InFlight { open, .. } if open == s(30)), "{busy:?}");
    drop(first);
    assert_eq!(open(), Some(s(20)));
    drop(second);
    assert_eq!(open(), None);
}

/// What 10 waiters at a delay of 1 s do when some of them go away at 3.5 s, given by their numbers.
async fn cancelled(who: &[usize]) -> (Vec<usize>, Vec<Duration>, Arc<Pacer>) {
    let (pacer, log) = (Pacer::new(one_second()), Log::default());
    let tasks = log.crowd(10, &pacer, ms(0));
    sleep(ms(3_500)).await;
    who.iter().for_each(|n| tasks[*n].abort());
    for (n, task) in tasks.into_iter().enumerate() {
        let outcome = task.await;
        assert_eq!(outcome.is_err_and(|error| error.is_cancelled()), who.contains(&n), "{n}");
    }
    log.check(s(1));
    (log.order(), log.starts("a.example"), pacer)
}

#[tokio::test(start_paused = true)]
async fn any_waiter_may_be_cancelled() {
    for who in [vec![4], vec![6], vec![9], vec![4, 5, 6], vec![9, 4, 7], vec![4, 5, 6, 7, 8, 9]] {
        let (order, starts, pacer) = cancelled(&who).await;
        let expected: Vec<usize> = (0..10).filter(|n| !who.contains(n)).collect();
        assert_eq!(order, expected, "cancelled {who:?}");
        // No hole and no early start: one a second.
        assert_eq!(starts, (0..expected.len() as u64).map(s).collect::<Vec<_>>(), "cancelled {who:?}");
        assert_eq!((pacer.stats().waiting, pacer.stats().in_flight), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_has_gone_is_not_counted() {
    let pacer = Pacer::new(one_second());
    pacer.take("a.example").await.finish();
    let mut waiters: Vec<_> = (0..20).map(|_| Box::pin(pacer.try_take("a.example"))).collect();
    for waiter in &mut waiters {
        assert!(waiter.as_mut().now_or_never().is_none());
    }
    assert_eq!(pacer.slot("a.example").wait, s(21));
    waiters.truncate(3);
    assert_eq!(pacer.slot("a.example").wait, s(4));
    waiters.clear();
    assert_eq!(pacer.slot("a.example").wait, s(1));
    assert_eq!(pacer.take_within("a.example", s(1)).await.unwrap().waited(), s(1));
}

#[tokio::test(start_paused = true)]
async fn a_permit_given_back_costs_no_delay() {
    let pacer = Pacer::new(one_second());
    pacer.take("a.example").await.give_back();
    assert_eq!(pacer.take("a.example").await.waited(), s(0));
    // That one was dropped unreported: it may have been sent, so the delay counts.
    let second = pacer.take("a.example").await;
    assert_eq!(second.waited(), s(1));
    sleep(s(5)).await;
    // Back to the end of the one before, which is long ago.
    second.give_back();
    assert_eq!(pacer.take("a.example").await.waited(), s(0));
    assert_eq!(pacer.report_of("a.example").requests, 2);
}

#[test]
fn a_permit_may_be_dropped_outside_a_runtime_and_wakes_the_next() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let pacer = Pacer::new(one_second().danger_min_delay(ms(1)));
    let permit = runtime.block_on(pacer.take("a.example"));
    let waiting = pacer.clone();
    let next = runtime.spawn(async move { waiting.try_take("a.example").await.map(drop) });
    while pacer.stats().waiting == 0 {
        std::thread::yield_now();
    }
    std::thread::spawn(move || drop(permit)).join().unwrap();
    runtime.block_on(next).unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_queue_head_that_is_not_polled_is_passed_over() {
    let pacer = Pacer::new(one_second());
    pacer.take("a.example").await.finish();
    let mut asleep = Box::pin(pacer.take_within("a.example", s(2)));
    assert!(asleep.as_mut().now_or_never().is_none());
    let behind = pacer.spawn_take("a.example", s(60));
    sleep(s(4)).await;
    assert_eq!(pacer.take("a.example").await.waited(), s(1), "after the one behind, which it has woken");
    assert!(behind.await.unwrap().0.is_ok());
    assert_eq!(deferral(asleep.await).wait, ms(1), "no caller is asked to come back this instant");
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_a_year_changes_no_delay() {
    const START: WallMillis = WallMillis::from_millis(1_700_000_000_000);
    const YEAR: Duration = Duration::from_secs(366 * 86_400);
    let clock = Arc::new(ManualClock::starting_at(START));
    let pacer = Pacer::builder(one_second()).clock(clock.clone()).pacer();
    for wall in [START.plus(YEAR), START.minus(YEAR)] {
        sleep(s(10)).await;
        let permit = pacer.take("a.example").await;
        clock.jump_to(wall);
        drop(permit);
        assert_eq!(pacer.take("a.example").await.waited(), s(1), "no early request, no long wait");
    }
    // A backoff from a store that was written before the clock was set back: not believed beyond a day.
    let end = pacer.back_off("b.example", START.plus(YEAR), BackoffCause::Shared);
    assert_eq!(end.since(clock.wall()), s(86_400));
}

#[tokio::test(start_paused = true)]
async fn nothing_hurries_after_a_suspend() {
    let (pacer, log) = (Pacer::new(one_second()), Log::default());
    let tasks = log.crowd(5, &pacer, ms(0));
    sleep(ms(1_500)).await;
    // The machine sleeps for an hour; then all timers fire at once.
    advance(s(3_600)).await;
    joined(tasks).await;
    log.check(s(1));
    assert!(log.order().starts_with(&[0, 1, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_budget_without_end_is_a_budget() {
    let pacer = Pacer::new(one_second().with_max_wait(Duration::MAX));
    pacer.back_off_for("a.example", s(86_400));
    let permit = pacer.take("a.example").await;
    assert!(permit.waited() > s(86_300));
    let waiting = pacer.spawn_take("a.example", Duration::MAX);
    sleep(s(400 * 86_400)).await;
    permit.finish();
    assert!(waiting.await.unwrap().0.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_lags_behind_is_waited_for() {
    let pacer = Pacer::builder(one_second()).clock(Arc::new(Lagging(Instant::now()))).pacer();
    let began = Instant::now();
    pacer.take("a.example").await.finish();
    pacer.take("a.example").await.finish();
    assert!(began.elapsed() >= s(2), "{:?}", began.elapsed());
}

#[test]
fn other_schemes_are_refused() {
    let pacer = Pacer::new(one_second());
    let ftp = url("ftp://a.example/");
    let refused = pacer.next_slot(&ftp, s(0)).unwrap_err();
    assert!(matches!(refused.kind, DeniedKind::UnsupportedUrl), "{refused:?}");
}
