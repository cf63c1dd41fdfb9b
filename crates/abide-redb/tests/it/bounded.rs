//! The bounds of the store: records, bytes, and what is counted of them.

use std::sync::Arc;

use abide_gate::robots_cache::RobotsStore;
use abide_permissions::PermissionStore;
use abide_redb::Store;
use fastrand::Rng;

use crate::support::{
    Disk, HOUR, START, Still, load, load_permission, nth, save, save_large, save_permission, url,
};

/// A clock behind all records.
fn clock() -> Arc<Still> {
    Still::at(START.plus(HOUR * 24))
}

fn bounded(disk: &Disk, records: u64) -> Store {
    let builder = Store::builder().max_records(records).clock(clock());
    builder.write_behind(HOUR).open_backend(disk.clone()).unwrap()
}

#[tokio::test]
async fn the_oldest_records_make_room_under_load() {
    let (disk, mut sizes) = (Disk::default(), Vec::new());
    let store = bounded(&disk, 300);
    for round in 0..20 {
        for n in 0..150 {
            let n = round * 150 + n;
            save(&store, n, n).await.unwrap();
            save_permission(&store, n, n).await;
        }
        store.flush().await.unwrap();
        let usage = store.usage().await.unwrap();
        assert!(usage.robots <= 300 && usage.permissions <= 300, "round {round}: {usage:?}");
        sizes.push(disk.bytes().len());
    }
    assert!(sizes[19] <= sizes[5] * 3 / 2, "the file keeps its size: {sizes:?}");
    for (n, is_there) in [(0, false), (2_699, false), (2_700, true), (2_999, true)] {
        assert_eq!(load(&store, n).await.is_some(), is_there, "{n}");
        assert_eq!(load_permission(&store, n).await.is_some(), is_there, "{n}");
    }
}

#[tokio::test]
async fn large_records_are_bounded_by_their_bytes() {
    let disk = Disk::default();
    let builder = Store::builder().max_bytes(1 << 20).clock(clock()).write_behind(HOUR);
    let store = builder.open_backend(disk.clone()).unwrap();
    for n in 0..200 {
        save_large(&store, n, 50_000).await.unwrap();
        store.flush().await.unwrap();
        assert!(store.usage().await.unwrap().bytes <= 1 << 20);
    }
    for (n, is_there) in [(199, true), (180, true), (178, false)] {
        assert_eq!(load(&store, n).await.is_some(), is_there, "{n}");
    }
    assert!(disk.bytes().len() < 6 << 20, "{}", disk.bytes().len());
}

/// What a clock that was ahead has dated is not kept before what comes after.
#[tokio::test]
async fn a_full_store_takes_in_new_records_after_its_clock_was_set_back() {
    let (disk, ahead) = (Disk::default(), 2 * 24 * 3_600_000);
    let store = bounded(&disk, 3);
    for n in 0..3 {
        save(&store, n, ahead + n).await.unwrap();
    }
    store.flush().await.unwrap();
    for n in 10..16 {
        save(&store, n, n).await.unwrap();
        store.flush().await.unwrap();
    }
    for (n, is_there) in [(0, false), (12, false), (13, true), (15, true)] {
        assert_eq!(load(&store, n).await.is_some(), is_there, "{n}");
    }
}

#[tokio::test]
async fn a_smaller_bound_counts_from_the_next_opening() {
    let disk = Disk::default();
    let store = bounded(&disk, 6_000);
    for n in 0..6_000 {
        save(&store, n, n).await.unwrap();
    }
    store.close().await.unwrap();
    let store = bounded(&disk, 100);
    // Some thousand go in each commit, so that no caller waits for all of them.
    for _ in 0..3 {
        save(&store, 9_000, 9_000).await.unwrap();
        store.flush().await.unwrap();
    }
    assert_eq!(store.usage().await.unwrap().robots, 100);
}

#[tokio::test]
async fn what_is_counted_is_what_is_there() {
    let disk = Disk::default();
    let store = bounded(&disk, 40);
    let mut rng = Rng::with_seed(5);
    for version in 0..2_000 {
        let n = rng.u64(..60);
        match rng.u64(..3) {
            0 => PermissionStore::remove(&store, &url(n)).await.unwrap(),
            1 => save_permission(&store, n, version).await,
            _ => save(&store, n, version).await.unwrap(),
        }
        if rng.u64(..20) == 0 {
            store.flush().await.unwrap();
        }
    }
    RobotsStore::sweep(&store, nth(1_900)).await.unwrap();
    let usage = store.usage().await.unwrap();
    store.close().await.unwrap();
    assert!((1..40).contains(&usage.robots) && (1..=40).contains(&usage.permissions), "{usage:?}");
    assert_eq!(counted(&disk), (usage.robots, usage.permissions, usage.bytes));
}

/// The same, counted row by row, and each row is found by its age.
fn counted(disk: &Disk) -> (u64, u64, u64) {
    use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata};
    type Rows = redb::TableDefinition<'static, &'static str, &'static [u8]>;
    type Ages = redb::TableDefinition<'static, (u64, &'static str), ()>;
    let database = redb::Database::builder().create_with_backend(disk.clone()).unwrap();
    let read = database.begin_read().unwrap();
    let (mut counts, mut bytes) = (Vec::new(), 0);
    for name in [["robots", "robots-by-age"], ["permissions", "permissions-by-age"]] {
        let rows = read.open_table(Rows::new(name[0])).unwrap();
        let ages = read.open_table(Ages::new(name[1])).unwrap();
        for row in rows.iter().unwrap() {
            let (key, value) = row.unwrap();
            bytes += (key.value().len() + value.value().len()) as u64;
            let age = u64::from_le_bytes(value.value()[..8].try_into().unwrap());
            assert!(ages.get((age, key.value())).unwrap().is_some());
        }
        assert_eq!(rows.len().unwrap(), ages.len().unwrap());
        counts.push(rows.len().unwrap());
    }
    (counts[0], counts[1], bytes)
}
