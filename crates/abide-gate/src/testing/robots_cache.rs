//! The suite that every [`RobotsStore`] passes.
//!
//! It is public, so that a store in another crate is held to the same promises. Every fact gets a store of
//! its own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::ProductToken;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use super::{check, poll_once, replied};
use crate::robots_cache::{Fetch, RobotsPolicy, RobotsRecord, RobotsStore};
use crate::{Gate, GateBuilder, Origin, WallMillis};

/// A gate whose requests for robots.txt are not paced, nor their addresses guarded.
pub fn unpaced(settings: GateBuilder, tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> Gate {
    let robots = settings.robots_cache(tokens.clone(), Arc::clone(&fetch), settings.robots.clone());
    Gate { robots: Arc::new(robots), ..settings.build(tokens, fetch) }
}

fn origin(text: &str) -> Origin {
    text.parse().expect("the suite's URLs are http or https")
}

/// A record as a fetch at `asked_at` would make it, for suites of stores.
pub fn sample_record(origin: &Origin, asked_at: WallMillis, body: impl Into<Bytes>) -> RobotsRecord {
    RobotsRecord::sample(origin, asked_at, body.into())
}

/// The lifetime that these `Cache-Control` fields ask for, within the policy's bounds, for fuzzing.
pub fn stated_lifetime(fields: &[&[u8]], policy: &RobotsPolicy) -> Option<Duration> {
    let mut headers = HeaderMap::new();
    for value in fields.iter().filter_map(|field| HeaderValue::from_bytes(field).ok()) {
        headers.append(http::header::CACHE_CONTROL, value);
    }
    crate::robots_cache::stated_lifetime(&headers, policy)
}

/// Checks an [`RobotsStore`] against all that its trait promises. `make` returns a fresh, empty store, once
/// for each fact.
///
/// Time is an argument of this trait, so nothing sleeps. `docs/stores.md` shows how to run it.
///
/// # Panics
/// At the first fact that does not hold, with the call, what was expected of it, and what was found.
pub async fn conformance<S, F>(make: impl Fn() -> F)
where
    S: RobotsStore,
    F: Future<Output = S>,
{
    the_last_record_saved_is_loaded(&make().await).await;
    odd_origins_have_records_of_their_own(&make().await).await;
    a_dropped_save_is_done_or_not(&make().await).await;
    sweeping_removes_only_what_is_older(&make().await).await;
    records_of_concurrent_writers_are_whole(Arc::new(make().await)).await;
}

/// For durable stores: what was saved is there after the store was closed and opened again at the same place.
///
/// # Panics
/// As [`conformance`] does.
pub async fn survives_reopening<S, F>(open: impl Fn() -> F)
where
    S: RobotsStore,
    F: Future<Output = S>,
{
    let records = ["https://a.example", "http://[::1]:8080", "http://b\u{fc}cher.example"]
        .map(|text| sample_record(&origin(text), NOW, text));
    let failed = RobotsRecord::sample_unreachable(&records[0], NOW.plus(TTL));
    let store = open().await;
    for record in records.iter().chain([&failed]) {
        save(&store, record).await;
    }
    drop(store);
    let store = open().await;
    for record in [&failed, &records[1], &records[2]] {
        loads(&store, record.origin(), &[Some(record)], "it was saved before the store was closed").await;
    }
}

const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);
const TTL: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

async fn loads(store: &impl RobotsStore, origin: &Origin, expected: &[Option<&RobotsRecord>], why: &str) {
    let call = format!("load({origin})");
    let found = replied(&call, store.load(origin).await);
    let each: Vec<String> = expected.iter().map(|record| shown(*record)).collect();
    let (expected_text, mut found_text) = (each.join(" or "), shown(found.as_ref()));
    if expected_text == found_text {
        found_text = format!("another value in {found:?}");
    }
    let holds = expected.contains(&found.as_ref());
    check(holds, &call, format_args!("{expected_text} ({why})"), format_args!("{found_text}"));
}

fn shown(record: Option<&RobotsRecord>) -> String {
    record.map_or("none".to_owned(), |record| {
        let body = record.copy().map_or(&[][..], |copy| copy.body());
        let start = body[..body.len().min(40)].escape_ascii();
        format!("a record of {} asked at {:?} with the body \"{start}\"", record.origin(), record.asked_at())
    })
}

async fn save(store: &impl RobotsStore, record: &RobotsRecord) {
    replied(&format!("save({})", record.origin()), store.save(record.origin(), record).await);
}

async fn the_last_record_saved_is_loaded(store: &impl RobotsStore) {
    let a = origin("https://a.example");
    loads(store, &a, &[None], "nothing was saved").await;
    let first = sample_record(&a, NOW, "User-agent: *\nDisallow: /old\n");
    let second = sample_record(&a, NOW.plus(TTL), "User-agent: *\nDisallow: /new\n");
    let failed = RobotsRecord::sample_unreachable(&second, NOW.plus(2 * TTL));
    for (record, why) in [
        (first.clone(), "it was saved"),
        (second, "the last writer wins"),
        (failed, "a failed attempt keeps the last good copy"),
        (first, "the last writer wins, also if its clock was set back"),
        (sample_record(&a, NOW, vec![b'x'; 512_000]), "the largest body"),
        (sample_record(&a, WallMillis::from_millis(0), ""), "the earliest time and an empty body"),
        (
            sample_record(&a, WallMillis::from_millis(u64::MAX), (0..=255).collect::<Vec<u8>>()),
            "the latest time, any byte",
        ),
    ] {
        save(store, &record).await;
        loads(store, &a, &[Some(&record)], why).await;
    }
}

async fn odd_origins_have_records_of_their_own(store: &impl RobotsStore) {
    let records = [
        "http://a.example",
        "https://a.example",
        "http://a.example:8080",
        "http://a.example.",
        "http://[::1]:8080",
        "http://[2001:db8::1]",
        "http://b\u{fc}cher.example",
        "http://127.0.0.1:9",
        "http://x_y.example:65535",
    ]
    .map(|text| sample_record(&origin(text), NOW, text));
    for record in &records {
        save(store, record).await;
    }
    for record in &records {
        loads(store, record.origin(), &[Some(record)], "each origin has a record of its own").await;
    }
}

async fn a_dropped_save_is_done_or_not(store: &impl RobotsStore) {
    let a = origin("https://a.example");
    let [old, new] = ["old", "new"].map(|body| sample_record(&a, NOW, body));
    save(store, &old).await;
    // Polled once and dropped, as the cache does with a call that takes longer than its timeout.
    poll_once(store.save(&a, &new)).await;
    poll_once(store.load(&a)).await;
    loads(store, &a, &[Some(&old), Some(&new)], "a save that was dropped is done or not").await;
}

async fn sweeping_removes_only_what_is_older(store: &impl RobotsStore) {
    let record =
        |host: &str, at| sample_record(&origin(&format!("http://{host}.example")), at, host.to_owned());
    let old = record("old", NOW.minus(2 * TTL));
    let rest = [
        (record("edge", NOW.minus(TTL)), "the time itself is not older"),
        (record("young", NOW), "it is younger"),
        (record("ahead", NOW.plus(HOUR)), "it was saved before the clock was set back"),
    ];
    for record in rest.iter().map(|(record, _)| record).chain([&old]) {
        save(store, record).await;
    }
    let call = format!("sweep({:?})", NOW.minus(TTL));
    let swept = replied(&call, store.sweep(NOW.minus(TTL)).await);
    check(swept == 1, &call, "1 (one record was last asked for before)", swept);
    loads(store, old.origin(), &[None], "it was swept").await;
    for (record, why) in &rest {
        loads(store, record.origin(), &[Some(record)], why).await;
    }
}

async fn records_of_concurrent_writers_are_whole<S: RobotsStore>(store: Arc<S>) {
    const ORIGINS: u64 = 50;
    let record = |n: u64| {
        let origin = origin(&format!("http://h{}.example", n % ORIGINS));
        sample_record(&origin, NOW.plus(Duration::from_millis(n)), format!("writer {n}"))
    };
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..1_000 {
        let (store, record) = (Arc::clone(&store), record(n));
        writers.spawn(async move { save(&*store, &record).await });
    }
    writers.join_all().await;
    for n in 0..ORIGINS {
        let origin = record(n).origin().clone();
        let last = replied("load", store.load(&origin).await);
        let by = last.map_or(n, |last| last.asked_at().since(NOW).as_millis() as u64);
        loads(&*store, &origin, &[Some(&record(by))], "the whole record of one of the writers").await;
    }
}
