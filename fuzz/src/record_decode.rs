//! Any bytes are decoded to a record or to none; what is encoded is decoded to the same; a flipped bit is noticed or changes nothing.

use abide_gate::access::Record;
use abide_gate::testing::access::sample_record;
use abide_gate::{Origin, WallMillis};

const ORIGINS: [&str; 4] =
    ["https://a.example", "http://[::1]:8080", "http://b\u{fc}cher.example", "http://x_y.example:65535"];

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    if let Some(record) = Record::decode(bytes) {
        assert_eq!(Record::decode(&record.encode()).as_ref(), Some(&record), "it decodes to what it was");
    }
    let Some((choice, rest)) = bytes.split_first_chunk::<9>() else { return };
    let origin: Origin = ORIGINS[usize::from(choice[0]) % ORIGINS.len()].parse().expect("an origin");
    let at = WallMillis(u64::from_le_bytes(choice[1..].try_into().expect("eight bytes")));
    let record = sample_record(&origin, at, rest.to_vec());
    let mut encoded = record.encode();
    assert_eq!(Record::decode(&encoded).as_ref(), Some(&record), "what is encoded is decoded");
    assert!(encoded.len() <= rest.len() + 1024, "its size is bounded by its text");

    let bit = usize::from(choice[1]) * 256 + usize::from(choice[2]);
    let place = bit / 8 % encoded.len();
    encoded[place] ^= 1 << (bit % 8);
    let flipped = Record::decode(&encoded);
    assert!(flipped.is_none_or(|flipped| flipped == record), "a flipped bit is absent or equal");
    encoded[place] ^= 1 << (bit % 8);
    let cut = usize::from(choice[3]) % encoded.len();
    assert_eq!(Record::decode(&encoded[..cut]), None, "a part is no record");
}
