//! The stored forms: a version, a checksum, and the fields in order. Whatever is wrong with a row, it is
//! *absent*.
//!
//! ```text
//! robots        origin ─▶ age:u64  version:u8 fields crc32:u32   (abide_gate::robots_cache::RobotsRecord::encode)
//! permissions   URL    ─▶ age:u64  version:u8 crc32:u32 | JSON
//! backoffs      host   ─▶ version:u8 crc32:u32 | abide_gate::pacing::HostEntry::encode  (checksum over the host, too)
//! state         "abide"─▶ version:u8 crc32:u32 | robots_bytes permissions_bytes
//! ```
//! Numbers are little-endian. The age is the time by which old records are found, in milliseconds.

use abide_gate::pacing::HostEntry;
use abide_gate::robots_cache::RobotsRecord;
use abide_gate::{Origin, WallMillis};
use abide_permissions::PermissionRecord;

/// The format of everything here. Another one is absent; another one of [`FileState`] is an error at opening.
pub(crate) const VERSION: u8 = 1;

/// A record of robots.txt, with its age before it.
pub(crate) fn robots(record: &RobotsRecord) -> (u64, Vec<u8>) {
    let age = record.asked_at().as_millis();
    (age, [&age.to_le_bytes()[..], &record.encode()].concat())
}

/// The record of this origin, and of no other.
pub(crate) fn read_robots(origin: &Origin, row: &[u8]) -> Option<RobotsRecord> {
    let (_, record) = row.split_at_checked(8)?;
    RobotsRecord::decode(record).filter(|record| record.origin() == origin)
}

/// A record of permissions, with its age before it. `None`: it cannot be written, which no record of ours is.
pub(crate) fn permission(record: &PermissionRecord) -> Option<(u64, Vec<u8>)> {
    let age = WallMillis::from(record.received_at()).as_millis();
    let json = serde_json::to_vec(record).ok()?;
    Some((age, [&age.to_le_bytes()[..], &sealed(b"", &json)].concat()))
}

/// The record of this URL, and of no other.
pub(crate) fn read_permission(url: &str, row: &[u8]) -> Option<PermissionRecord> {
    let (_, sealed) = row.split_at_checked(8)?;
    let record: PermissionRecord = serde_json::from_slice(unsealed(b"", sealed)?).ok()?;
    (record.url() == url).then_some(record)
}

/// The age that a record was filed under.
pub(crate) fn age(row: &[u8]) -> u64 {
    row.first_chunk().copied().map(u64::from_le_bytes).unwrap_or_default()
}

/// What is kept of a host, in times of the wall clock.
pub(crate) fn host(host: &str, entry: &HostEntry) -> Vec<u8> {
    sealed(host.as_bytes(), entry.encode().as_bytes())
}

/// What was kept of this host, and of no other.
pub(crate) fn read_host(host: &str, row: &[u8]) -> Option<HostEntry> {
    HostEntry::decode(str::from_utf8(unsealed(host.as_bytes(), row)?).ok()?)
}

/// What is known of the file as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Keys and values of each kind.
    pub(crate) robots_bytes: u64,
    pub(crate) permissions_bytes: u64,
}

impl FileState {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let fields = [self.robots_bytes.to_le_bytes(), self.permissions_bytes.to_le_bytes()];
        sealed(b"state", fields.as_flattened())
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut fields = RowFields(unsealed(b"state", row)?);
        let (robots_bytes, permissions_bytes) = (fields.u64()?, fields.u64()?);
        fields.0.is_empty().then_some(Self { robots_bytes, permissions_bytes })
    }

    /// The format that the row claims, if its checksum holds.
    pub(crate) fn version(row: &[u8]) -> Option<u8> {
        Some(opened(b"state", row)?.0)
    }
}

/// The version, the checksum over everything and the key it is filed under, and the fields.
fn sealed(key: &[u8], fields: &[u8]) -> Vec<u8> {
    let checksum = checksum_of(VERSION, key, fields).to_le_bytes();
    [&[VERSION][..], &checksum, fields].concat()
}

/// The fields, if they are exactly what was sealed under this key.
fn unsealed<'a>(key: &[u8], row: &'a [u8]) -> Option<&'a [u8]> {
    opened(key, row).filter(|(version, _)| *version == VERSION).map(|(_, fields)| fields)
}

/// The version and the fields of whatever version.
fn opened<'a>(key: &[u8], row: &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&version, rest) = row.split_first()?;
    let (checksum, fields) = rest.split_first_chunk()?;
    (checksum_of(version, key, fields) == u32::from_le_bytes(*checksum)).then_some((version, fields))
}

fn checksum_of(version: u8, key: &[u8], fields: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[version]);
    // The length too, or a byte could move from the end of the key to the start of the fields.
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(fields);
    hasher.finalize()
}

struct RowFields<'a>(&'a [u8]);

impl RowFields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use abide_gate::pacing::{Backoff, BackoffCause, HostState};
    use abide_permissions::{Fetched, Head};

    use super::*;

    fn backed_off() -> HostEntry {
        let cause = BackoffCause::Answer { status: 429, retry_after: None };
        let backoff = Backoff { left: Duration::from_secs(60), over: Duration::ZERO, throttles: 1, cause };
        let mut entry = HostEntry::default();
        entry.merge(&HostState { backoff: Some(backoff), ..HostState::default() }, Duration::from_secs(1));
        entry
    }

    #[test]
    fn a_host_survives_and_only_under_its_own_name() {
        let row = host("a.example", &backed_off());
        let (entry, now) = (read_host("a.example", &row).unwrap(), Duration::from_secs(2));
        assert_eq!(entry.state(now), backed_off().state(now));
        assert_eq!(read_host("b.example", &row), None);
    }

    #[test]
    fn every_flipped_bit_cut_and_added_byte_of_a_row_makes_it_absent() {
        let backoff = host("a.example", &backed_off());
        let state = FileState { robots_bytes: 5, permissions_bytes: u64::MAX };
        assert_eq!(FileState::decode(&state.encode()), Some(state));
        let fetched = Fetched::new(200, &[("robots-tag", b"*;noindex")], Head::default(), SystemTime::now());
        let (_, permission) = permission(&PermissionRecord::new("https://a.example/", &fetched)).unwrap();
        assert!(read_permission("https://a.example/", &permission).is_some());
        assert!(read_permission("https://a.example/b", &permission).is_none());
        type IsRead = fn(&[u8]) -> bool;
        let cases: [(Vec<u8>, usize, IsRead); 4] = [
            (backoff, 0, |row| read_host("a.example", row).is_some()),
            (state.encode(), 0, |row| FileState::decode(row).is_some()),
            // A flipped byte is no newer version.
            (state.encode(), 0, |row| FileState::version(row).is_some()),
            // The age before it is no part of the record.
            (permission, 8, |row| read_permission("https://a.example/", row).is_some()),
        ];
        for (row, from, is_read) in cases {
            assert!(is_read(&row));
            for at in from * 8..row.len() * 8 {
                let mut bad = row.clone();
                bad[at / 8] ^= 1 << (at % 8);
                assert!(!is_read(&bad), "bit {at}");
            }
            for len in 0..row.len() {
                assert!(!is_read(&row[..len]), "cut at {len}");
            }
            assert!(!is_read(&[&row[..], &[0]].concat()));
        }
    }
}
