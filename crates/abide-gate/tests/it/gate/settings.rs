//! What is set on the builder of a gate reaches those it is for.

use std::sync::{Arc, Mutex};

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{SECOND, built, clock, origin, page, url};
use abide_gate::pacing::{PacePolicy, PacingKey};
use abide_gate::{AddressGuard, DeniedKind, Event, Gate, Origin};

fn rules() -> ScriptedFetch {
    ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /private/\n"))
}

#[tokio::test(start_paused = true)]
async fn private_addresses_are_used_if_their_network_is_allowed() {
    let net = || "10.0.0.0/8".parse().unwrap();
    let guard = AddressGuard::default().with_allowed_net(net());
    for (builder, near, far) in [
        (Gate::builder(), false, false),
        (Gate::builder().allow_net(net()), true, false),
        (Gate::builder().addresses(guard), true, false),
        (Gate::builder().danger_allow_all_addresses(), true, true),
        (Gate::builder().allow_net(net()).addresses(AddressGuard::default()), false, false),
    ] {
        let guard = builder.address_guard().clone();
        let gate = built(builder, &rules());
        for (page, open) in [("http://10.0.0.1/", near), ("http://192.168.0.1/", far)] {
            let page = url(page);
            assert_eq!(guard.check_url(&page).is_ok(), open, "{guard:?} {page}");
            match gate.check(&page, &mut { SECOND }).await {
                Ok(verdict) => assert!(open && verdict.is_allowed(), "{guard:?} {page}"),
                Err(error) => {
                    let refused = matches!(error.kind(), DeniedKind::AddressRefused { .. });
                    assert!(refused && !open, "{guard:?} {page}: {error:?}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_is_that_of_the_pace_unless_set() {
    let waits = PacePolicy::default().with_max_wait(3 * SECOND);
    for (builder, seconds) in [
        (Gate::builder(), 30),
        (Gate::builder().pace(waits.clone()), 3),
        (Gate::builder().pace(waits).max_wait(20 * SECOND), 20),
    ] {
        assert_eq!(built(builder, &rules()).max_wait(), seconds * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_with_the_same_seed_repeats_what_was_left_to_chance() {
    let drawn = |seed| async move {
        let throttled = ScriptedFetch::always(Scripted::status(429).header("retry-after", b"60"));
        let gate = built(Gate::builder().clock(clock()).seed(seed), &throttled);
        let mut drawn = Vec::new();
        for number in 0..8 {
            let origin = Origin::of(&url(&format!("https://h{number}.example/"))).unwrap();
            let fresh_until = gate.entry(&origin).await.unwrap().fresh_until();
            let backoff = gate.next_slot(&origin.robots_url()).unwrap().wait;
            drawn.push((fresh_until, backoff));
        }
        drawn
    };
    let [one, again, other] = [drawn(1).await, drawn(1).await, drawn(2).await];
    assert_eq!(one, again);
    assert!(one.iter().zip(&other).any(|(one, other)| one.0 != other.0), "robots.txt");
    assert!(one.iter().zip(&other).any(|(one, other)| one.1 != other.1), "backoffs");
}

#[tokio::test(start_paused = true)]
async fn observers_get_the_events_of_both_halves() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&events);
    let observer = move |event: &Event<'_>| {
        recorder.lock().unwrap().push(match event {
            Event::RobotsAnswered { .. } => "asked",
            Event::RobotsChanged { .. } => "changed",
            Event::Granted { .. } => "granted",
            Event::Checked { verdict, .. } if verdict.is_allowed() => "allowed",
            Event::Checked { .. } => "disallowed",
            Event::Overridden { .. } => "overridden",
            Event::Refused { .. } => "refused",
            _ => return,
        });
    };
    // One that panics takes nothing from the next.
    let broken = |_: &Event<'_>| panic!("the observer is broken");
    let gate = built(Gate::builder().observer(Arc::new(broken)).observer(Arc::new(observer)), &rules());
    let private = url("https://a.example/private/x");
    gate.admit(&page(), 30 * SECOND).await.unwrap().1.finish();
    let refused = gate.admit(&private, 30 * SECOND).await.unwrap_err();
    gate.report_refused(&refused);
    assert_eq!(gate.stats().overrides, 0);
    let verdict = gate.check_cached(&private).unwrap();
    gate.override_denial(verdict, &"our own site".into());
    assert_eq!(
        *events.lock().unwrap(),
        ["granted", "asked", "changed", "allowed", "granted", "disallowed", "refused", "overridden"]
    );
    assert_eq!(gate.stats().overrides, 1);
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_crawl_delay_no_longer_counts() {
    let first = Scripted::text("User-agent: *\nCrawl-delay: 20");
    let fetch = ScriptedFetch::in_turn([first, Scripted::text("User-agent: *").head_after(4 * SECOND)]);
    let gate = built(Gate::builder(), &fetch);
    let (mut verdict, permit) = gate.admit(&page(), 30 * SECOND).await.unwrap();
    permit.finish();
    assert_eq!(verdict.crawl_delay(), Some(20 * SECOND));
    gate.invalidate(&origin()).await;
    let other = gate.clone();
    let renewal = tokio::spawn(async move { other.entry(&origin()).await.unwrap() });
    tokio::time::sleep(21 * SECOND).await;
    assert_eq!((fetch.count(), gate.stats().robots_in_flight), (2, 1), "robots.txt is on the wire again");
    let mut left = 30 * SECOND;
    let _permit = gate.acquire(&page(), &mut verdict, &mut left).await.unwrap();
    let waited = 30 * SECOND - left;
    assert_eq!(verdict.crawl_delay(), None);
    assert!(waited <= 5 * SECOND, "{waited:?}: until robots.txt has come, and the default delay");
    assert_eq!(renewal.await.unwrap().crawl_delay(), None);
}

#[tokio::test(start_paused = true)]
async fn a_deferral_names_the_group_or_the_host_that_it_waits_for() {
    let fetch = ScriptedFetch::new(|request, _| match request.url().host_str() {
        Some("c.example") => Scripted::redirect("https://d.example/robots.txt"),
        _ => Scripted::text(""),
    });
    let farm = PacePolicy::default()
        .with_key(PacingKey::custom(|url| (url.host_str()? != "d.example").then(|| "farm".to_owned())));
    let gate = built(Gate::builder().pace(farm), &fetch);
    let deferred = async |to| gate.check(&url(to), &mut { 30 * SECOND }).await.unwrap_err().to_string();
    let permit = gate.admit(&page(), 30 * SECOND).await.unwrap();
    let busy = deferred("https://b.example/").await;
    assert!(busy.contains("a response of farm has been open"), "{busy}");
    permit.1.give_back();
    gate.back_off("d.example", gate.wall().plus(60 * SECOND));
    let moved = deferred("https://c.example/").await;
    assert!(moved.contains("d.example is backed off"), "{moved}");
}
