//! Redirects of robots.txt: RFC 9309 §2.3.1.2.

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::Origin;
use abide_gate::robots_cache::Source;
use abide_robots::Target;
use tokio::time::sleep;

/// Redirects `hops` times over as many hosts, then rules.
fn chain(hops: usize) -> ScriptedFetch {
    ScriptedFetch::new(move |request, _| match request.hop() {
        hop if hop < hops => Scripted::redirect(&format!("https://h{hop}.example/robots.txt")),
        _ => Scripted::text(GOOD),
    })
}

#[tokio::test(start_paused = true)]
async fn rules_are_filed_under_the_first_origin_only() {
    let other: Origin = "https://b.example".parse().unwrap();
    let fetch = ScriptedFetch::by_url([
        ("https://a.example/robots.txt", vec![Scripted::redirect("https://b.example/robots.txt")]),
        ("https://b.example/robots.txt", vec![Scripted::text("User-agent: *\nDisallow: /\n")]),
    ]);
    let world = World::new(fetch);
    let answer = world.ask().await;
    assert!(!allows(&answer, "/open"));
    assert_eq!(answer.origin(), &origin());
    assert_eq!(answer.final_url().unwrap().as_str(), "https://b.example/robots.txt");
    assert!(world.cache.cached(&other).is_none());
    assert_eq!(world.store.load(&other).await.unwrap(), None);
}

/// NUTCH-2581: a page of another site that redirects must not become that site's rules.
#[tokio::test(start_paused = true)]
async fn records_of_the_others_are_untouched() {
    let other: Origin = "https://b.example".parse().unwrap();
    let fetch = ScriptedFetch::by_url([
        ("https://a.example/robots.txt", vec![Scripted::redirect("https://b.example/someone/robots.txt")]),
        ("https://b.example/someone/robots.txt", vec![Scripted::text("")]),
        ("https://b.example/robots.txt", vec![Scripted::text("User-agent: *\nDisallow: /\n")]),
    ]);
    let world = World::new(fetch);
    world.cache.get(&other).await.unwrap();
    let before = world.store.load(&other).await.unwrap();
    assert!(allows_all(&world.ask().await));
    assert_eq!(world.store.load(&other).await.unwrap(), before);
    assert!(!world.cache.cached(&other).unwrap().is_allowed(&Target::new("/")));
}

#[tokio::test(start_paused = true)]
async fn more_than_five_redirects_are_unavailable_for_an_hour() {
    for hops in [6, 20] {
        let world = World::new(chain(hops));
        let answer = world.ask().await;
        assert!(allows_all(&answer));
        assert_eq!(answer.source(), Source::TooManyRedirects);
        assert_eq!(world.fetch.count(), 6, "no seventh request");
        assert_eq!(answer.retry_at(), START.plus(HOUR));
        for hop in 0..hops {
            let passed: Origin = format!("https://h{hop}.example").parse().unwrap();
            assert_eq!(world.store.load(&passed).await.unwrap(), None, "nothing is filed for others");
        }
        sleep(HOUR).await;
        world.ask().await;
        assert_eq!(world.fetch.count(), 12);
    }
}

#[tokio::test(start_paused = true)]
async fn a_circle_ends_at_once_and_keeps_the_copy() {
    let to_itself = World::of(Scripted::redirect("/robots.txt#again"));
    assert!(allows_all(&to_itself.ask().await));
    assert_eq!(to_itself.fetch.count(), 1);

    let (a, b) = ("https://a.example/robots.txt", "https://b.example/robots.txt");
    let good = Scripted::text(GOOD);
    let fetch =
        ScriptedFetch::by_url([(a, vec![good, Scripted::redirect(b)]), (b, vec![Scripted::redirect(a)])]);
    let world = World::new(fetch);
    world.ask().await;
    sleep(DAY).await;
    let answer = world.ask().await;
    assert!(allows_all(&answer));
    assert!(answer.record().copy().is_some() && answer.failing_since().is_none());
    assert_eq!(world.fetch.count(), 3);
}
