//! Permissions between visits, and between lives.

use std::time::{Duration, SystemTime};

use abide_permissions::{
    Head, HeadEnd, Meta, PermissionRecord, PermissionStore, Preferences, ReadOptions, Update, Visit,
};
use abide_redb::Store;
use abide_robots::{Rules, Target};

use crate::support::{Disk, open, permission, url};

/// A record with something in every field.
fn rich(url: &str) -> PermissionRecord {
    let rules = Rules::parse(
        b"User-agent: *\nContent-Usage: train-ai=n\nContent-Signal: search=yes\n",
        &["TestBot".parse().unwrap()],
    );
    let preferences = Preferences::default().with_robots(&rules, &Target::new("/"));
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
    let received = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123);
    let mut record =
        PermissionRecord::new(url, &Visit::new(200, &fields, head, received).with_preferences(&preferences));
    record.union_rendered([Meta::new("robots", "noai")]);
    record
}

async fn load(store: &Store, url: &str) -> Option<PermissionRecord> {
    PermissionStore::load(store, url).await.unwrap()
}

#[tokio::test]
async fn what_was_saved_is_loaded_before_and_after_it_is_written_and_in_the_next_life() {
    let long = format!("https://a.example/{}", "x".repeat(100_000));
    let urls = ["https://a.example/", "https://a.example/?a=\u{e9}&b=%00", "", &long];
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    for url in urls {
        assert_eq!(load(&store, url).await, None);
        PermissionStore::save(&store, &rich(url)).await.unwrap();
        assert_eq!(load(&store, url).await, Some(rich(url)));
    }
    store.flush().await.unwrap();
    for url in urls {
        assert_eq!(load(&store, url).await, Some(rich(url)));
    }
    store.close().await.unwrap();
    let store = open(&disk).unwrap();
    for url in urls {
        assert_eq!(load(&store, url).await, Some(rich(url)));
    }
}

#[tokio::test]
async fn the_last_writer_wins_and_what_was_removed_is_gone() {
    let store = open(&Disk::default()).unwrap();
    for flushes in [false, true] {
        PermissionStore::save(&store, &permission(1, 1)).await.unwrap();
        if flushes {
            store.flush().await.unwrap();
        }
        PermissionStore::save(&store, &permission(1, 2)).await.unwrap();
        assert_eq!(load(&store, &url(1)).await, Some(permission(1, 2)));
        if flushes {
            store.flush().await.unwrap();
        }
        PermissionStore::remove(&store, &url(1)).await.unwrap();
        assert_eq!(load(&store, &url(1)).await, None, "also while it waits");
        store.flush().await.unwrap();
        assert_eq!(load(&store, &url(1)).await, None);
    }
}

#[tokio::test]
async fn a_record_received_later_stays_unless_it_is_removed() {
    for flushes in [[false, false], [true, false], [false, true], [true, true]] {
        let store = open(&Disk::default()).unwrap();
        let [after_first, after_second] = flushes;
        PermissionStore::save(&store, &permission(1, 2)).await.unwrap();
        if after_first {
            store.flush().await.unwrap();
        }
        PermissionStore::save(&store, &permission(1, 1)).await.unwrap();
        assert_eq!(load(&store, &url(1)).await, Some(permission(1, 2)), "{flushes:?}");
        if after_second {
            store.flush().await.unwrap();
        }
        assert_eq!(load(&store, &url(1)).await, Some(permission(1, 2)), "{flushes:?}");
        PermissionStore::remove(&store, &url(1)).await.unwrap();
        PermissionStore::save(&store, &permission(1, 1)).await.unwrap();
        assert_eq!(load(&store, &url(1)).await, Some(permission(1, 1)), "{flushes:?}");
        store.flush().await.unwrap();
        assert_eq!(load(&store, &url(1)).await, Some(permission(1, 1)), "{flushes:?}");
    }
}

#[tokio::test]
async fn a_record_of_a_clock_far_ahead_is_replaced() {
    let year = 365 * 86_400_000;
    for flushes in [[false, false], [true, false], [false, true], [true, true]] {
        let store = open(&Disk::default()).unwrap();
        for (version, flush) in [year, 1].into_iter().zip(flushes) {
            PermissionStore::save(&store, &permission(1, version)).await.unwrap();
            if flush {
                store.flush().await.unwrap();
            }
            assert_eq!(load(&store, &url(1)).await, Some(permission(1, version)), "{flushes:?}");
        }
    }
}

#[tokio::test]
async fn a_304_in_the_next_life_has_the_last_known_rules() {
    let (disk, options) = (Disk::default(), ReadOptions::new("TestBot".parse().unwrap()));
    let store = open(&disk).unwrap();
    PermissionStore::save(&store, &rich("https://a.example/")).await.unwrap();
    drop(store);
    let store = open(&disk).unwrap();
    let mut record = load(&store, "https://a.example/").await.unwrap();
    let visit =
        Visit::new(304, &[("ETag", b"\"1\"")], Head::not_scanned(HeadEnd::NotScanned), SystemTime::now());
    assert_eq!(record.update(&visit), Update::Revalidated);
    assert_eq!(record.rules(&options), rich("https://a.example/").rules(&options));
    assert!(record.rules(&options).noindex());
}
