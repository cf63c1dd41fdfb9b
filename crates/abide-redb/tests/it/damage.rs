//! Damaged files: an error at opening, or an absent record; never a panic, never a wrong record.

use std::fs;

use abide_redb::{Error, Store};

use crate::support::{Disk, Ledger, Step, is_long, open, steps};

/// A small database, closed in order, and what is in it.
async fn small() -> (Vec<u8>, Ledger) {
    let (disk, mut ledger) = (Disk::default(), Ledger::default());
    let store = open(&disk).unwrap();
    for step in steps(3, 1, 24, 4).into_iter().chain([Step::Flush]) {
        ledger.step(&store, step).await;
    }
    store.close().await.unwrap();
    let bytes = disk.bytes();
    ledger.check(&open(&Disk::holding(bytes.clone())).unwrap(), "whole").await;
    (bytes, ledger)
}

/// Every byte of the header, and of the rest every so-manieth; of what was never written, one a page.
fn places(bytes: &[u8], every: usize) -> impl Iterator<Item = usize> {
    let is_used = |at: usize| bytes[at / 64 * 64..].iter().take(64).any(|byte| *byte != 0);
    (0..bytes.len()).filter(move |&at| at < 320 || at % 4096 == 1 || is_used(at) && at % every == every / 2)
}

async fn is_harmless(bytes: Vec<u8>, ledger: &Ledger, what: &str) -> bool {
    match open(&Disk::holding(bytes)) {
        Ok(store) => {
            ledger.forgiving().check(&store, what).await;
            store.flush().await.unwrap_or_else(|error| assert!(error.is_corrupt(), "{what}: {error}"));
            true
        }
        Err(error) => {
            assert!(matches!(error, Error::Corrupt { .. }), "{what}: {error}");
            false
        }
    }
}

#[tokio::test]
async fn a_flipped_byte_is_an_error_or_an_absent_record() {
    let (bytes, ledger) = small().await;
    let (mut opened, mut refused) = (0, 0);
    for at in places(&bytes, if is_long() { 1 } else { 151 }) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8) | 0x80 >> (at % 3);
        match is_harmless(bad, &ledger, &format!("byte {at}")).await {
            true => opened += 1,
            false => refused += 1,
        }
    }
    println!("{} bytes: {opened} opened, {refused} refused", bytes.len());
    assert!(opened > 0 && refused > 0);
}

#[tokio::test]
async fn a_file_that_ends_too_early_is_an_error() {
    let (bytes, ledger) = small().await;
    let mut opened = Vec::new();
    for len in (0..bytes.len()).filter(|len| len % 4096 == 0 || len % 4096 == 4095 || *len < 400) {
        if is_harmless(bytes[..len].to_vec(), &ledger, &format!("cut at {len}")).await {
            opened.push(len);
        }
    }
    assert!(opened.len() < 10 && opened[0] == 0, "an empty file is a new one: {opened:?}");
}

#[tokio::test]
async fn a_damaged_file_is_rebuilt_only_when_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    fs::write(&path, "not a database, but letters").unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains("abide.redb"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "not a database, but letters");

    let store = Store::builder().rebuild_if_corrupt(true).open(&path).unwrap();
    assert_eq!(store.usage().await.unwrap().robots, 0);
    drop(store);
    let mut names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[1].to_str().unwrap().contains("abide.redb.corrupt-"), "{names:?}");
    assert_eq!(fs::read_to_string(&names[1]).unwrap(), "not a database, but letters");
    Store::open(&path).unwrap();
}

#[test]
fn another_redb_database_is_not_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.redb");
    const TABLE: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("robots");
    let other = redb::Database::create(&path).unwrap();
    let write = other.begin_write().unwrap();
    write.open_table(TABLE).unwrap().insert(1, 2).unwrap();
    write.commit().unwrap();
    drop(other);
    let error = Store::open(&path).unwrap_err();
    assert!(error.to_string().ends_with("found: a redb database that is not abide's"), "{error}");
    assert!(Store::open(directory.path()).is_err(), "nor is a directory");
}
