//! The stored form of a record: a version, the fields in the encoding of `postcard`, and a checksum over both.
//!
//! Stores keep records for months, on disks that flip bits and next to other versions of abide. Whatever is wrong with one (the version, the
//! checksum, a value that cannot be, bytes left over) makes it *absent*: it is fetched again. Reading never panics, and a record has one form only.
//!
//! What is stored is [`Stored`], and not [`RobotsRecord`] itself, so that the record can change in memory without another version of its stored form.

use std::borrow::Cow;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::robots_cache::interner::RobotsText;
use crate::robots_cache::policy::{BODY_LIMIT_MAX, LIFETIME_MAX};
use crate::robots_cache::record::{Exception, LastResult, Outage};
use crate::robots_cache::{GoodCopy, RobotsRecord, Validators};
use crate::{Failure, WallMillis};

/// Goes up with each change of [`Stored`] and of what it contains, [`Failure`] included.
const VERSION: u8 = 3;
/// Of the checksum, which is CRC-32 (IEEE 802.3): it finds every flipped bit and every burst of up to 32.
const CHECKSUM_LEN: usize = 4;

/// The fields of a record, in the order in which they are stored. Times are milliseconds, and a lifetime is seconds.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    origin: &'a str,
    last: LastResult,
    asked_at: WallMillis,
    fresh_until: WallMillis,
    next_try: WallMillis,
    outage: Outage,
    #[serde(borrow)]
    copy: Option<StoredCopy<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredCopy<'a> {
    truncated: bool,
    html: bool,
    status: u16,
    redirected_to: Option<&'a str>,
    etag: Option<&'a [u8]>,
    last_modified: Option<Cow<'a, [u8]>>,
    lifetime: Option<NonZeroU32>,
    fetched_at: WallMillis,
    validated_at: WallMillis,
    body: &'a [u8],
}

impl RobotsRecord {
    /// The record as bytes, for durable stores.
    pub fn encode(&self) -> Vec<u8> {
        // Writing to memory cannot fail; if it did, no version would be empty bytes, and the record absent.
        let mut bytes = postcard::to_extend(&Stored::of(self), vec![VERSION]).unwrap_or_default();
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// The record in `bytes`, or `None` if it is not exactly one that [`encode`](Self::encode) of this version made.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (sealed, checksum) = bytes.split_last_chunk::<CHECKSUM_LEN>()?;
        let (&version, fields) = sealed.split_first()?;
        if version != VERSION || crc32fast::hash(sealed).to_le_bytes() != *checksum {
            return None;
        }
        let record = postcard::from_bytes::<Stored<'_>>(fields).ok()?.into_record()?;
        // Origins and URLs that we would have written otherwise, numbers in more bytes than they need, bytes left over: not ours.
        (record.can_be() && record.encode() == bytes).then_some(record)
    }

    /// Whether its values agree with each other, as those of every record that we made do.
    fn can_be(&self) -> bool {
        let is_status = |status: u16| (100..=999).contains(&status);
        let is_result = match self.last() {
            LastResult::Rules => self.copy.is_some(),
            LastResult::Unavailable(status) | LastResult::Unreachable(Failure::Status(status)) => {
                is_status(status)
            }
            LastResult::TooManyRedirects | LastResult::Unreachable(_) => true,
        };
        let is_copy = self.copy().is_none_or(|copy| {
            (200..=299).contains(&copy.status)
                && copy.body().len() <= BODY_LIMIT_MAX
                && copy.lifetime().is_none_or(|lifetime| lifetime <= LIFETIME_MAX)
                && copy.redirected_to.as_deref().is_none_or(is_plain)
        });
        // §2.4: however the times got there, rules count for 24 hours at most.
        is_result && is_copy && self.fresh_until.since(self.asked_at) <= LIFETIME_MAX
    }
}

/// An http or https URL that says nothing about a user.
fn is_plain(url: &Url) -> bool {
    let is_anonymous = url.username().is_empty() && url.password().is_none();
    is_anonymous && url.has_host() && matches!(url.scheme(), "http" | "https")
}

impl<'a> Stored<'a> {
    fn of(record: &'a RobotsRecord) -> Self {
        Self {
            origin: record.origin.as_str(),
            last: record.last(),
            asked_at: record.asked_at,
            fresh_until: record.fresh_until,
            next_try: record.next_try,
            outage: record.outage(),
            copy: record.copy().map(StoredCopy::of),
        }
    }

    fn into_record(self) -> Option<RobotsRecord> {
        Some(RobotsRecord {
            origin: self.origin.parse().ok()?,
            asked_at: self.asked_at,
            fresh_until: self.fresh_until,
            next_try: self.next_try,
            exception: Exception::boxed(self.last, self.outage),
            copy: match self.copy {
                Some(copy) => Some(copy.into_copy()?),
                None => None,
            },
        })
    }
}

impl<'a> StoredCopy<'a> {
    fn of(copy: &'a GoodCopy) -> Self {
        Self {
            truncated: copy.truncated,
            html: copy.html,
            status: copy.status,
            redirected_to: copy.redirected_to.as_ref().map(|url| url.as_str()),
            etag: copy.validators.etag(),
            last_modified: copy.validators.last_modified(),
            lifetime: copy.lifetime,
            fetched_at: copy.fetched_at,
            validated_at: copy.validated_at,
            body: copy.body(),
        }
    }

    fn into_copy(self) -> Option<GoodCopy> {
        Some(GoodCopy {
            text: RobotsText::new(self.body),
            truncated: self.truncated,
            html: self.html,
            status: self.status,
            redirected_to: match self.redirected_to {
                Some(url) => Some(Box::new(Url::parse(url).ok()?)),
                None => None,
            },
            validators: Validators::new(self.etag, self.last_modified.as_deref()),
            lifetime: self.lifetime,
            fetched_at: self.fetched_at,
            validated_at: self.validated_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Every result, for failures the first and the last and all that hold a value; with all fields at their largest, at their smallest, and absent.
    fn records() -> Vec<RobotsRecord> {
        let addresses: [std::net::IpAddr; 2] = [[10, 0, 0, 1].into(), [1, 2, 3, 4, 5, 6, 7, 8].into()];
        let failures = addresses.map(Failure::AddressRefused).into_iter();
        let failures = failures.chain([100, 503, 999].map(Failure::Status));
        let failures = failures.chain([Failure::Dns, Failure::RedirectDowngrade, Failure::Other]);
        let results = [LastResult::Rules, LastResult::Unavailable(404), LastResult::TooManyRedirects];
        let [least, most] = [0, u64::MAX].map(WallMillis::from_millis);
        let small = GoodCopy {
            text: RobotsText::new(*b""),
            validators: Validators::default(),
            fetched_at: least,
            validated_at: least,
            ..sample().copy.unwrap()
        };
        let large = GoodCopy {
            text: RobotsText::new((0..=255).collect::<Vec<u8>>()),
            truncated: true,
            html: true,
            status: 299,
            validators: Validators::new(Some(b"W/\"~\""), Some(b"yesterday")),
            lifetime: NonZeroU32::new(86_400),
            fetched_at: most,
            validated_at: most,
            ..redirected_to("https://b.example/robots.txt?x").copy.unwrap()
        };
        let outage = Outage { since: Some(most), attempts: u32::MAX, counted: 1, last_counted: Some(least) };
        let mut records = Vec::new();
        for last in results.into_iter().chain(failures.map(LastResult::Unreachable)) {
            for (copy, time, outage) in [
                (Some(large.clone()), most, outage),
                (Some(small.clone()), least, Outage::NONE),
                (None, least, outage),
            ] {
                records.push(RobotsRecord {
                    asked_at: time,
                    fresh_until: time,
                    next_try: time,
                    exception: Exception::boxed(last, outage),
                    copy,
                    origin: "http://[::1]:8080".parse().unwrap(),
                });
            }
        }
        records.retain(RobotsRecord::can_be);
        records
    }

    #[test]
    fn what_was_encoded_is_decoded_and_nothing_that_was_changed() {
        for record in records() {
            let mut bytes = record.encode();
            assert_eq!(RobotsRecord::decode(&bytes), Some(record));
            for bit in 0..8 * bytes.len() {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(RobotsRecord::decode(&bytes), None, "bit {bit} is flipped");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for len in 0..bytes.len() {
                assert_eq!(RobotsRecord::decode(&bytes[..len]), None, "cut to {len} bytes");
            }
            bytes.push(0);
            assert_eq!(RobotsRecord::decode(&bytes), None, "one byte more");
        }
    }

    /// Version and fields, behind a checksum that is right.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let checksum = crc32fast::hash(&bytes).to_le_bytes();
        bytes.extend_from_slice(&checksum);
        bytes
    }

    /// The bytes with the one for the other.
    fn forged(record: &RobotsRecord, from: &[u8], to: &[u8]) -> Vec<u8> {
        let mut bytes = record.encode();
        bytes.truncate(bytes.len() - CHECKSUM_LEN);
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes.splice(at..at + from.len(), to.iter().copied());
        sealed(bytes)
    }

    #[test]
    fn what_we_would_have_written_otherwise_is_absent() {
        let record = redirected_to("https://b.example/robots.txt");
        let unchanged = RobotsRecord::decode(&forged(&record, b"robots.txt", b"robots.txt"));
        assert_eq!(unchanged.as_ref(), Some(&record));
        for (from, to) in [
            (&b"/robots.txt"[..], &b"/robots{txt"[..]),
            (b"/robots.txt", b"/rob/../txt"),
            (b"\"etag\"", b"\"et\ng\""),
            (b"https://a.example:443", b"https://A.example:443"),
            // The length of the body in two bytes where one would do, and a byte after the body.
            (b"\x0eUser-agent", b"\x8e\x00User-agent"),
            (b"agent: *\n", b"agent: *\n\n"),
        ] {
            assert_eq!(RobotsRecord::decode(&forged(&record, from, to)), None, "{}", to.escape_ascii());
        }
    }

    #[test]
    fn another_version_is_absent() {
        let mut bytes = sample().encode();
        assert_eq!(RobotsRecord::decode(&bytes), Some(sample()));
        bytes.truncate(bytes.len() - CHECKSUM_LEN);
        bytes[0] = VERSION - 1;
        assert_eq!(RobotsRecord::decode(&sealed(bytes)), None);
    }

    fn sample() -> RobotsRecord {
        let origin = "https://a.example".parse().unwrap();
        RobotsRecord::sample(&origin, WallMillis::from_millis(1), "User-agent: *\n".into())
    }

    fn redirected_to(url: &str) -> RobotsRecord {
        let mut record = sample();
        record.copy.as_mut().unwrap().redirected_to = Some(Box::new(url.parse().unwrap()));
        record
    }

    #[test]
    fn what_we_would_never_have_known_is_absent() {
        let with = |change: fn(&mut GoodCopy)| {
            let mut record = sample();
            change(record.copy.as_mut().unwrap());
            record
        };
        let fresh_for =
            |time| RobotsRecord { fresh_until: WallMillis::from_millis(1).plus(time), ..sample() };
        // RFC 9309 §2.4: "SHOULD NOT use the cached version for more than 24 hours".
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(LIFETIME_MAX, day);
        for (what, record, is_kept) in [
            ("as it is", sample(), true),
            ("rules without a copy", RobotsRecord { copy: None, ..sample() }, false),
            ("fresh for a day", fresh_for(day), true),
            ("fresh for longer", fresh_for(day + Duration::from_millis(1)), false),
            ("a lifetime of a day", with(|copy| copy.lifetime = NonZeroU32::new(86_400)), true),
            ("a longer one", with(|copy| copy.lifetime = NonZeroU32::new(86_401)), false),
            ("http", redirected_to("http://a.example/x"), true),
            ("a user", redirected_to("http://u@a.example/x"), false),
            ("a password", redirected_to("http://:p@a.example/x"), false),
            ("ftp", redirected_to("ftp://a.example/x"), false),
            ("a copy of a refusal", with(|copy| copy.status = 404), false),
            ("no host", redirected_to("data:,x"), false),
        ] {
            let decoded = RobotsRecord::decode(&record.encode());
            assert_eq!(decoded, is_kept.then_some(record), "{what}");
        }
    }
}
