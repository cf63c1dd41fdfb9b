//! Requests that are paced together.

use abide_gate::Origin;
use abide_gate::pacing::{DeferReason, PacingKey};
use http::StatusCode;
use tokio::time::{Instant, sleep};

use crate::pacing::Pacer;
use crate::parts::support::pacing::{
    Log, deferral, group, host, joined, ms, observed, one_second, page, retry_after, s, url,
};

#[tokio::test(start_paused = true)]
async fn hosts_of_a_group_share_its_delay_and_others_do_not() {
    let shops = PacingKey::custom(|url| url.host_str()?.ends_with(".shop").then(|| "shops".to_owned()));
    let ((pacer, events), log) = (observed(one_second().with_key(shops)), Log::default());
    let tasks = ["a.shop", "b.shop", "c.shop", "d.example"].map(|name| {
        let (pacer, log) = (pacer.clone(), log.clone());
        tokio::spawn(async move { log.send(0, &pacer, name, ms(0)).await })
    });
    joined(tasks).await;
    let starts = ["a.shop", "b.shop", "c.shop", "d.example"].map(|name| log.starts(name)[0]);
    assert_eq!(starts, [s(0), s(1), s(2), s(0)]);
    deferral(pacer.take_within("a.shop", s(0)).await);
    assert_eq!(events.of("deferred"), ["deferred shops"]);
    assert_eq!(pacer.report_of("b.shop"), pacer.report_of("c.shop"));
    assert_eq!((&*pacer.report_of("b.shop").key, pacer.stats().hosts), ("shops", 2));
}

#[tokio::test(start_paused = true)]
async fn what_one_host_of_a_group_asks_for_counts_for_all() {
    let pacer = Pacer::new(one_second().with_key(group("all")));
    let permit = pacer.take("a.example").await;
    permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &retry_after("120"));
    let deferral = deferral(pacer.try_take("b.example").await);
    assert!(matches!(deferral.reason, DeferReason::Backoff { status: Some(429), .. }), "{deferral:?}");
    assert!(pacer.slot("c.example").wait >= s(120));
    assert!(pacer.next_ready(&[host("d.example")]).unwrap().1.wait >= s(120));
}

#[tokio::test(start_paused = true)]
async fn the_crawl_delay_in_a_group_is_that_of_the_origin_that_is_asked() {
    let pacer = Pacer::new(one_second().with_key(group("all")));
    let waited = async |name: &str, crawl_delay| {
        let permit = pacer.acquire(&page(name), crawl_delay, s(60)).await.unwrap();
        permit.waited()
    };
    assert_eq!(waited("slow.example", s(10)).await, s(0));
    assert_eq!(waited("quick.example", s(0)).await, s(1));
    assert_eq!(waited("slow.example", s(10)).await, s(10));
    // It may grow while a request waits.
    let (began, waiting) = (Instant::now(), pacer.spawn_take("slow.example", s(20)));
    sleep(ms(1)).await;
    pacer.change_crawl_delay(&Origin::of(&page("slow.example")).unwrap(), s(3));
    assert_eq!(waiting.await.unwrap().1 - began, s(3));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_panics_refuses_its_url_alone() {
    let key = PacingKey::custom(|url| if url.path() == "/bad" { panic!("mistake") } else { None });
    let pacer = Pacer::new(one_second().with_key(key));
    for _ in 0..2 {
        let refusal = pacer.get(&url("http://a.example/bad")).await.unwrap_err();
        assert!(format!("{:?}", refusal.kind).contains("pacing key"), "{refusal:?}");
        assert!(pacer.next_slot(&url("http://a.example/bad"), s(0)).is_err());
    }
    pacer.take("a.example").await.finish();
}
