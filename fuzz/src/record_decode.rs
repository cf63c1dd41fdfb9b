//! Any bytes, as they are and behind a right checksum, are a record or none: what is decoded is encoded to
//! the same bytes again; what is encoded is decoded to the same; a flipped bit is noticed or changes nothing;
//! a part is no record.

use abide_gate::robots_cache::RobotsRecord;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Origin, WallMillis};

const ORIGINS: [&str; 4] =
    ["https://a.example", "http://[::1]:8080", "http://b\u{fc}cher.example", "http://x_y.example:65535"];

/// The version, which a record begins with. Its last four bytes are the checksum of all before them.
const VERSION: u8 = 3;

/// What the first lines of this file say.
pub fn run(bytes: &[u8]) {
    decoded(bytes);
    decoded(&sealed(bytes.get(1..bytes.len().saturating_sub(4)).unwrap_or(bytes)));
    let Some((choice, text)) = bytes.split_first_chunk::<9>() else { return };
    let origin: Origin = ORIGINS[usize::from(choice[0]) % ORIGINS.len()].parse().expect("an origin");
    let at = WallMillis::from_millis(u64::from_le_bytes(choice[1..].try_into().expect("eight bytes")));
    let record = sample_record(&origin, at, text.to_vec());
    let encoded = record.encode();
    assert_eq!(RobotsRecord::decode(&encoded).as_ref(), Some(&record), "what is encoded is decoded");
    assert!(encoded.len() <= text.len() + 1024, "its size is bounded by its text");
    damaged(&record, encoded, *choice);
}

/// What is a record is the only form of that record.
fn decoded(bytes: &[u8]) {
    let Some(record) = RobotsRecord::decode(bytes) else { return };
    assert_eq!(record.encode(), bytes, "one record has one form");
    let mut choice = [0; 9];
    choice.iter_mut().zip(bytes.iter().rev()).for_each(|(choice, byte)| *choice = *byte);
    damaged(&record, bytes.to_vec(), choice);
}

fn damaged(record: &RobotsRecord, mut encoded: Vec<u8>, choice: [u8; 9]) {
    let bit = usize::from(choice[1]) * 256 + usize::from(choice[2]);
    let place = bit / 8 % encoded.len();
    encoded[place] ^= 1 << (bit % 8);
    let flipped = RobotsRecord::decode(&encoded);
    assert!(flipped.is_none_or(|flipped| flipped == *record), "a flipped bit is absent or equal");
    encoded[place] ^= 1 << (bit % 8);
    let cut = usize::from(choice[3]) % encoded.len();
    assert_eq!(RobotsRecord::decode(&encoded[..cut]), None, "a part is no record");
}

/// The fields of a record, whatever they are, behind a checksum that is right.
fn sealed(fields: &[u8]) -> Vec<u8> {
    let bytes = [&[VERSION], fields].concat();
    let checksum = crc32(&bytes).to_le_bytes();
    [&bytes[..], &checksum].concat()
}

/// By the letter, without the table of the code.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}
