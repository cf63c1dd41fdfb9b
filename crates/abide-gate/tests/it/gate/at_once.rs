//! Verdicts and permits that are at hand without waiting.

use std::time::Duration;

use abide_gate::{Gate, Origin};
use futures_util::FutureExt;
use tokio::time::sleep;

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{SECOND, built, one_second, url};

fn gate() -> Gate {
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /private/\n"));
    built(Gate::builder().pace(one_second()), &fetch)
}

fn at_once(gate: &Gate, text: &str) -> Option<bool> {
    let verdict = gate.check(&url(text), &mut Duration::ZERO.clone()).now_or_never()?;
    verdict.ok().map(|verdict| verdict.is_allowed())
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_at_hand_for_the_known_origin_only() {
    let gate = gate();
    assert_eq!(at_once(&gate, "https://example.org/a"), None, "nothing is known");
    gate.entry(&Origin::of(&url("https://example.org/")).unwrap()).await.unwrap();
    for (text, expected) in [
        ("https://example.org/a", Some(true)),
        ("https://example.org:443/a?b#c", Some(true)),
        ("https://EXAMPLE.org/private/", Some(false)),
        ("https://example.org/robots.txt", Some(true)),
        ("http://example.org/a", None),
        ("https://example.org:8443/a", None),
        ("https://example.org./a", None),
        ("https://www.example.org/a", None),
        ("ftp://example.org/a", None),
        ("https://10.0.0.1/a", None),
    ] {
        assert_eq!(at_once(&gate, text), expected, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_origins_are_known_at_once_and_none_is_taken_for_another() {
    let gate = gate();
    let pages: Vec<String> = (0..3000).map(|number| format!("https://h{number}.example/private/")).collect();
    for page in &pages {
        gate.entry(&Origin::of(&url(page)).unwrap()).await.unwrap();
    }
    for page in pages.iter().chain(pages.iter().rev()) {
        let verdict = gate.check_cached(&url(page)).expect("it is known");
        assert!(!verdict.is_allowed());
        assert_eq!(*verdict.entry().unwrap().origin(), Origin::of(&url(page)).unwrap(), "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_at_hand_where_nothing_is_in_flight_and_the_delay_has_passed() {
    let (gate, page) = (gate(), url("https://example.org/a"));
    assert!(gate.check_cached(&page).is_none(), "nothing is known");
    gate.entry(&Origin::of(&page).unwrap()).await.unwrap();
    let verdict = gate.check_cached(&page).expect("it is known");
    let acquire = || {
        let (mut verdict, mut left) = (verdict.clone(), Duration::ZERO);
        gate.acquire(&page, &mut verdict, &mut left).now_or_never().expect("no wait").ok()
    };
    let is_granted = || acquire().map(drop).is_some();
    assert!(!is_granted(), "the delay after robots.txt");
    sleep(SECOND).await;
    let permit = acquire().expect("the host is free");
    sleep(10 * SECOND).await;
    assert!(!is_granted(), "one is in flight");
    drop(permit);
    assert!(!is_granted(), "the delay after it");
    sleep(SECOND).await;
    assert!(is_granted());
    assert!(!is_granted(), "it has taken its place, also dropped at once");
}
