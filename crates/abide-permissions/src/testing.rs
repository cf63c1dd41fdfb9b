//! For tests: the suite that every [`PermissionStore`] passes, and what a scan keeps to itself.
//!
//! Shipped with the crate (feature `testing`), because those who write a store of their own have to check it
//! against the same promises.

#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use abide_robots::{Rules, Target};

use crate::{
    Fetched, Head, HeadEnd, Meta, PermissionError, PermissionRecord, PermissionStore, Preferences,
    ReadOptions, header,
};

/// What a scan found where no standard puts a robots meta: behind the head, or named by another attribute
/// than `name`.
pub fn strays(head: &Head) -> impl Iterator<Item = &Meta> {
    head.strays().iter().map(|stray| &stray.meta)
}

/// In which grammar a single line of `Robots-Tag` or `X-Robots-Tag` is read: `sf`, `sf-salvage`, `draft-00`
/// or `legacy`.
pub fn reading_of(line: &[u8], options: &ReadOptions) -> &'static str {
    header::reading_of(line, options)
}

/// Checks a [`PermissionStore`] against all that its trait promises. `make` returns a fresh, empty store,
/// once for each fact.
///
/// Time is an argument of this trait, so nothing sleeps. `docs/stores.md` shows how to run it.
///
/// # Panics
/// At the first fact that does not hold, with the call, what was expected of it, and what was found.
pub async fn conformance<S, F>(make: impl Fn() -> F)
where
    S: PermissionStore,
    F: Future<Output = S>,
{
    every_url_has_a_record_of_its_own(&make().await).await;
    the_record_received_last_stays(&make().await).await;
    a_dropped_save_is_done_or_not(&make().await).await;
    of_concurrent_writers_the_record_received_last_stays(&make().await).await;
}

/// For durable stores: what was saved is there after the store was closed and opened again at the same place.
///
/// # Panics
/// As [`conformance`] does.
pub async fn survives_reopening<S, F>(open: impl Fn() -> F)
where
    S: PermissionStore,
    F: Future<Output = S>,
{
    let store = open().await;
    for url in URLS {
        save(&store, &sample_record(url, 1)).await;
    }
    remove(&store, URLS[0]).await;
    drop(store);
    let store = open().await;
    loads(&store, URLS[0], &[None], "it was removed before the store was closed").await;
    for url in &URLS[1..] {
        loads(&store, url, &[Some(&sample_record(url, 1))], "it was saved before the store was closed").await;
    }
}

/// A record with something in every field, received `received` seconds after 1970.
pub fn sample_record(url: &str, received: u64) -> PermissionRecord {
    let robots = Rules::parse(
        b"User-agent: *\nContent-Usage: train-ai=n\nContent-Signal: search=yes\n",
        &["TestBot".parse().expect("a product token")],
    );
    let preferences = Preferences::default().with_robots(&robots, &Target::new("/"));
    let fields: [(&str, &[u8]); 6] = [
        ("ETag", b"\"1\""),
        ("Robots-Tag", b"*;noindex, TestBot;max-snippet=5"),
        ("Robots-Tag", b"broken \xff\xfe bytes \"\\"),
        ("X-Robots-Tag", b"unavailable_after: 2027-02-01"),
        ("Cache-Control", b"max-age=60"),
        ("tdm-reservation", b"1"),
    ];
    let metas = [Meta::new("robots", "nofollow"), Meta::new("testbot", "a \u{1F916} \u{0} \"quoted\"")];
    let head = Head::from_metas(metas, HeadEnd::ByteLimit);
    let received = SystemTime::UNIX_EPOCH + Duration::from_secs(received);
    let fetched = Fetched::new(200, &fields, head, received).with_preferences(&preferences);
    let mut record = PermissionRecord::new(url, &fetched);
    record.union_rendered([Meta::new("robots", "noai")]);
    record
}

const A: &str = "https://a.example/";
const URLS: [&str; 6] = [
    A,
    "https://a.example/?a=\u{e9}&b=%00",
    "https://a.example/?q={}%7D",
    "https://A.example/",
    "https://\u{fc}.example/",
    "",
];

async fn every_url_has_a_record_of_its_own(store: &impl PermissionStore) {
    let long = format!("https://a.example/{}", "x".repeat(100_000));
    let urls = [&URLS[..], &[&long]].concat();
    for url in &urls {
        loads(store, url, &[None], "nothing was saved").await;
        save(store, &sample_record(url, 0)).await;
    }
    for url in &urls {
        loads(
            store,
            url,
            &[Some(&sample_record(url, 0))],
            "it was saved, and is not dropped for being stale",
        )
        .await;
    }
    remove(store, A).await;
    remove(store, A).await;
    loads(store, A, &[None], "it was removed").await;
    loads(store, URLS[1], &[Some(&sample_record(URLS[1], 0))], "only another URL's was removed").await;
}

async fn the_record_received_last_stays(store: &impl PermissionStore) {
    let [early, late, far_ahead] = [1, 2, 365 * 86_400].map(|received| sample_record(A, received));
    let mut changed = late.clone();
    changed.union_rendered([Meta::new("robots", "noarchive")]);
    for (saved, expected, why) in [
        (&early, &early, "it was saved"),
        (&late, &late, "it was received later"),
        (&early, &late, "one that was received earlier does not replace it"),
        (&changed, &changed, "of two that were received at the same time the last writer wins"),
        (&far_ahead, &far_ahead, "it was received later"),
        (&early, &early, "one that a clock dated far ahead is replaced"),
    ] {
        save(store, saved).await;
        loads(store, A, &[Some(expected)], why).await;
    }
    remove(store, A).await;
    save(store, &early).await;
    loads(store, A, &[Some(&early)], "the later one was removed, as after a clock was set back").await;
}

async fn of_concurrent_writers_the_record_received_last_stays(store: &impl PermissionStore) {
    let records: Vec<PermissionRecord> = (0..50).map(|n| sample_record(A, n * 7 % 50)).collect();
    let mut writers: Vec<_> = records.iter().map(|record| store.save(record)).collect();
    poll_fn(|context| {
        writers.retain_mut(|writer| match writer.as_mut().poll(context) {
            Poll::Ready(saved) => {
                replied("save", saved);
                false
            }
            Poll::Pending => true,
        });
        if writers.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    loads(store, A, &[Some(&sample_record(A, 49))], "it was received last").await;
}

async fn a_dropped_save_is_done_or_not(store: &impl PermissionStore) {
    let [old, new] = [1, 2].map(|received| sample_record(A, received));
    save(store, &old).await;
    let mut dropped = store.save(&new);
    poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context).is_ready())).await;
    drop(dropped);
    loads(store, A, &[Some(&old), Some(&new)], "a save that was dropped is done or not").await;
}

async fn loads(store: &impl PermissionStore, url: &str, expected: &[Option<&PermissionRecord>], why: &str) {
    let call = format!("load({:?})", short(url));
    let found = replied(&call, store.load(url).await);
    let each: Vec<String> = expected.iter().map(|record| shown(*record)).collect();
    let (expected_text, mut found_text) = (each.join(" or "), shown(found.as_ref()));
    if expected_text == found_text {
        found_text = format!("another value in {found:?}");
    }
    assert!(
        expected.contains(&found.as_ref()),
        "{call}: expected {expected_text} ({why}), found {found_text}"
    );
}

async fn save(store: &impl PermissionStore, record: &PermissionRecord) {
    replied(&format!("save({:?})", short(record.url())), store.save(record).await);
}

async fn remove(store: &impl PermissionStore, url: &str) {
    replied(&format!("remove({:?})", short(url)), store.remove(url).await);
}

#[track_caller]
fn replied<T>(call: &str, result: Result<T, PermissionError>) -> T {
    result.unwrap_or_else(|error| panic!("{call}: expected success, found the error: {error}"))
}

fn shown(record: Option<&PermissionRecord>) -> String {
    let received = |record: &PermissionRecord| {
        record.received_at().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    };
    record.map_or("none".to_owned(), |record| {
        format!("the record of {:?} received {:?} after 1970", short(record.url()), received(record))
    })
}

fn short(url: &str) -> String {
    url.chars().take(60).collect()
}
