//! Permissions between visits, and between lives.

use std::time::SystemTime;

use abide_permissions::testing::sample_record;
use abide_permissions::{Fetched, Head, HeadEnd, PermissionRecord, PermissionStore, ReadOptions};
use abide_redb::Store;

use crate::support::{Disk, open, permission, url};

async fn load(store: &Store, url: &str) -> Option<PermissionRecord> {
    PermissionStore::load(store, url).await.unwrap()
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
    PermissionStore::save(&store, &sample_record("https://a.example/", 1)).await.unwrap();
    drop(store);
    let store = open(&disk).unwrap();
    let mut record = load(&store, "https://a.example/").await.unwrap();
    let visit =
        Fetched::new(304, &[("ETag", b"\"1\"")], Head::not_scanned(HeadEnd::NotScanned), SystemTime::now());
    assert!(record.update(&visit));
    assert_eq!(record.rules(&options), sample_record("https://a.example/", 1).rules(&options));
    assert!(record.rules(&options).noindex());
}
