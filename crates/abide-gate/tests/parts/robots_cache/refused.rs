//! What stands before a site answers in place of its robots.txt.

use std::sync::Arc;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::robots_cache::{RobotsPolicy, Source};
use abide_gate::{Failure, Verdict};
use abide_robots::Target;
use tokio::time::sleep;

/// By a field, by a page with an error, by a page with a 200.
fn refusals() -> [(&'static str, Scripted); 4] {
    let page = |status: u16, body: &'static str| {
        Scripted::status(status).header("content-type", b"text/html").body(body)
    };
    let block = "<title>Attention Required! | Cloudflare</title><h1>Sorry, you have been blocked</h1>";
    let anubis = "<html><head><script id=\"anubis_version\" type=\"application/json\">\"1\"</script></head>";
    [
        ("Cloudflare (challenge)", Scripted::status(403).header("cf-mitigated", b"challenge")),
        ("AWS WAF (challenge)", Scripted::text("Allow: /").header("x-amzn-waf-action", b"challenge")),
        ("Cloudflare (block)", page(403, block)),
        ("Anubis (challenge)", page(200, anubis)),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_place_of_robots_txt_is_unreachable() {
    for (by, refusal) in refusals() {
        let world = World::of(refusal);
        let answer = world.ask().await;
        assert!(disallows_all(&answer), "{by}: {answer:?}");
        let Source::Unreachable(cause @ Failure::Gatekeeper(_)) = answer.source() else {
            panic!("{by}: {answer:?}")
        };
        assert_eq!(cause.to_string(), format!("it was refused by {by}"));
        let verdict = Verdict::robots(Arc::clone(&answer), &Target::new("/open"));
        assert!(verdict.to_string().contains(&format!("refused by {by}")), "{verdict}");
        // On the schedule of an outage, and not once a day as a 403.
        let before = world.fetch.count();
        sleep(2 * MINUTE).await;
        world.ask().await;
        assert_eq!(world.fetch.count(), before + 1, "{by}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_good_copy_outlasts_a_refusal() {
    for (by, refusal) in refusals() {
        let world = World::good_then(refusal);
        let first = world.ask().await;
        sleep(first.retry_at().since(world.wall())).await;
        let answer = world.ask_and_settle().await;
        assert!(is_good(&answer) && answer.source() == Source::LastGood, "{by}: {answer:?}");
        assert!(matches!(answer.failure(), Some(Failure::Gatekeeper(_))), "{by}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_403_allows_and_so_does_any_status_that_is_trusted() {
    let plain = Scripted::status(403).header("server", b"cloudflare").header("cf-ray", b"8-SJC");
    let plain =
        plain.header("content-type", b"text/html").body("<title>403 Forbidden</title><h1>403 Forbidden</h1>");
    let answer = World::of(plain).ask().await;
    assert!(allows_all(&answer) && answer.source() == Source::Unavailable(403), "{answer:?}");
    for (by, refusal) in refusals() {
        let policy = RobotsPolicy { trusts_status: true, ..RobotsPolicy::default() };
        let answer = World::with_policy(ScriptedFetch::always(refusal), policy).ask().await;
        assert!(allows_all(&answer), "{by}: {answer:?}");
    }
}
