//! Redirects of robots.txt: RFC 9309 §2.3.1.2.

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::robots_cache::{RobotsPolicy, Source};
use abide_gate::{Failure, Origin};
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
async fn up_to_five_redirects_are_followed_across_authorities() {
    for hops in 0..=5 {
        let world = World::new(chain(hops));
        assert!(is_good(&world.ask().await), "{hops} hops");
        assert_eq!(world.fetch.count(), hops + 1);
    }
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

#[tokio::test(start_paused = true)]
async fn redirects_that_lead_nowhere_are_unreachable() {
    let long = format!("/{}", "a".repeat(64 * 1024));
    for (location, why) in [
        (&b"file:///etc/passwd"[..], Failure::LocationInvalid),
        (b"ftp://a.example/robots.txt", Failure::LocationInvalid),
        (b"data:text/plain,User-agent:*", Failure::LocationInvalid),
        (b"javascript:1", Failure::LocationInvalid),
        (b"http://a.example:99999/", Failure::LocationInvalid),
        (b"https://a b.example/", Failure::LocationInvalid),
        (long.as_bytes(), Failure::LocationInvalid),
        (b"/\xff\xfe\x80", Failure::LocationInvalid),
        (b"", Failure::LocationMissing),
    ] {
        let fault = Scripted::status(302).header("location", location);
        let (cold, _) = assert_unreachable(fault, &format!("{why:?}")).await;
        assert_eq!(cold.source(), Source::Unreachable(why));
    }
    let (cold, _) = assert_unreachable(Scripted::status(301), "no Location").await;
    assert_eq!(cold.source(), Source::Unreachable(Failure::LocationMissing));
    let two = Scripted::redirect("/a").header("location", b"/b");
    let (cold, _) = assert_unreachable(two, "two Locations").await;
    assert_eq!(cold.source(), Source::Unreachable(Failure::LocationInvalid));
}

#[tokio::test(start_paused = true)]
async fn from_https_to_http_only_if_asked() {
    let fetch = || {
        ScriptedFetch::by_url([
            ("https://a.example/robots.txt", vec![Scripted::redirect("http://a.example/robots.txt")]),
            ("http://a.example/robots.txt", vec![Scripted::text(GOOD)]),
        ])
    };
    let strict = World::new(fetch());
    let refused = Source::Unreachable(Failure::RedirectDowngrade);
    assert_eq!(strict.ask().await.source(), refused);
    assert_eq!(strict.fetch.count(), 1);
    let policy = RobotsPolicy::default().with_downgrade(true);
    assert!(is_good(&World::with_policy(fetch(), policy).ask().await));
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_redirect_is_unread() {
    let fetch = ScriptedFetch::new(|request, _| match request.hop() {
        0 => Scripted::redirect("/r").body(vec![b'x'; 1 << 20]).endless(),
        _ => Scripted::text(GOOD),
    });
    let world = World::new(fetch);
    assert!(is_good(&world.ask().await));
    assert!(world.fetch.pulled() < 1000);
}

#[tokio::test(start_paused = true)]
async fn no_cookie_and_no_credential_is_asked_for_at_any_hop() {
    let fetch = ScriptedFetch::new(|request, _| match request.hop() {
        0 => Scripted::redirect("https://user:secret@b.example/r").header("set-cookie", b"marker=1"),
        _ => Scripted::text(GOOD),
    });
    let world = World::new(fetch);
    let answer = world.ask().await;
    for asked in world.fetch.asked() {
        assert!(!asked.url.contains("secret"));
        let mut names: Vec<_> = asked.headers.keys().map(|name| name.as_str().to_owned()).collect();
        names.sort();
        assert_eq!(names, ["accept", "accept-encoding"]);
    }
    assert!(!format!("{answer:?} {:?}", answer.record()).contains("secret"));
    assert!(!String::from_utf8_lossy(&answer.record().encode()).contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn a_refresh_is_no_redirect() {
    let page = Scripted::text(GOOD).header("refresh", b"0; url=https://b.example/robots.txt");
    let world = World::of(page);
    assert!(is_good(&world.ask().await));
    let html = Scripted::text("<html><meta http-equiv=refresh content='0; url=/r'>");
    let other = World::of(html);
    assert!(allows_all(&other.ask().await));
    assert_eq!((world.fetch.count(), other.fetch.count()), (1, 1));
}
