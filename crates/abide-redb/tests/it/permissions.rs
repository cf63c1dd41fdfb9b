//! Permissions between visits, and between lives.

use std::time::SystemTime;

use abide_permissions::testing::sample_record;
use abide_permissions::{Fetched, Head, HeadEnd, PermissionStore, ReadOptions};
use abide_redb::Store;

use crate::support::{Disk, load_permission, open, permission, save_permission, url};

async fn flush_if(store: &Store, flushes: bool) {
    if flushes {
        store.flush().await.unwrap();
    }
}

#[tokio::test]
async fn the_last_writer_wins_and_what_was_removed_is_gone() {
    let store = open(&Disk::default()).unwrap();
    for flushes in [false, true] {
        save_permission(&store, 1, 1).await;
        flush_if(&store, flushes).await;
        save_permission(&store, 1, 2).await;
        assert_eq!(load_permission(&store, 1).await, Some(permission(1, 2)));
        flush_if(&store, flushes).await;
        PermissionStore::remove(&store, &url(1)).await.unwrap();
        assert_eq!(load_permission(&store, 1).await, None, "also while it waits");
        store.flush().await.unwrap();
        assert_eq!(load_permission(&store, 1).await, None);
    }
}

#[tokio::test]
async fn a_record_received_later_stays_unless_it_is_removed() {
    for flushes in [[false, false], [true, false], [false, true], [true, true]] {
        let store = open(&Disk::default()).unwrap();
        let [after_first, after_second] = flushes;
        save_permission(&store, 1, 2).await;
        flush_if(&store, after_first).await;
        save_permission(&store, 1, 1).await;
        assert_eq!(load_permission(&store, 1).await, Some(permission(1, 2)), "{flushes:?}");
        flush_if(&store, after_second).await;
        assert_eq!(load_permission(&store, 1).await, Some(permission(1, 2)), "{flushes:?}");
        PermissionStore::remove(&store, &url(1)).await.unwrap();
        save_permission(&store, 1, 1).await;
        assert_eq!(load_permission(&store, 1).await, Some(permission(1, 1)), "{flushes:?}");
        store.flush().await.unwrap();
        assert_eq!(load_permission(&store, 1).await, Some(permission(1, 1)), "{flushes:?}");
    }
}

#[tokio::test]
async fn a_record_of_a_clock_far_ahead_is_replaced() {
    let year = 365 * 86_400_000;
    for flushes in [[false, false], [true, false], [false, true], [true, true]] {
        let store = open(&Disk::default()).unwrap();
        for (version, flush) in [year, 1].into_iter().zip(flushes) {
            save_permission(&store, 1, version).await;
            flush_if(&store, flush).await;
            assert_eq!(load_permission(&store, 1).await, Some(permission(1, version)), "{flushes:?}");
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
    let mut record = PermissionStore::load(&store, "https://a.example/").await.unwrap().unwrap();
    let visit =
        Fetched::new(304, &[("ETag", b"\"1\"")], Head::not_scanned(HeadEnd::NotScanned), SystemTime::now());
    assert!(record.update(&visit));
    assert_eq!(record.rules(&options), sample_record("https://a.example/", 1).rules(&options));
    assert!(record.rules(&options).noindex());
}
