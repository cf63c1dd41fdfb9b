//! The stored form of a record: a version, a checksum over everything, and the fields in order.
//!
//! ```text
//! "abideR" version:u16 crc32:u32 | origin last asked_at fresh_until next_try failing copy
//! ```
//! Numbers are little-endian, byte strings have their length before them. Reading never panics, and whatever is wrong (the
//! version, the checksum, a value that cannot be, bytes left over) makes the record *absent*: it is fetched again.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::string_slice
    )
)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use url::Url;

use crate::robots_cache::chain::CONTENT_TYPE_LEN_MAX;
use crate::robots_cache::fetch::VALIDATOR_LEN_MAX;
use crate::robots_cache::policy::{BODY_LIMIT_MAX, LIFETIME_MAX};
use crate::robots_cache::record::{LastResult, Outage};
use crate::robots_cache::{GoodCopy, Record, RedirectRefusal, Unavailable, Validators};
use crate::{Failure, Origin, TlsProblem, WallMillis};

const MAGIC: &[u8; 6] = b"abideR";
const VERSION: u16 = 1;
/// Magic and version.
const START_LEN: usize = 8;
/// No URL in a record is longer: a Location is at most 8 KiB, and each of its bytes at most three when encoded.
const URL_LEN_MAX: usize = 32 * 1024;

impl Record {
    /// The record as bytes, for durable stores.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Writer(Vec::new());
        fields.bytes(self.origin.as_str().as_bytes());
        fields.last(self.last);
        for time in [self.asked_at, self.fresh_until, self.next_try] {
            fields.u64(time.as_millis());
        }
        fields.failing(&self.failing);
        fields.copy(self.copy.as_deref());
        let start = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        let checksum = crc32(&[&start, &fields.0]).to_le_bytes();
        [&start[..], &checksum, &fields.0].concat()
    }

    /// The record in `bytes`, or `None` if it is not exactly one that [`encode`](Self::encode) of this version made.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (start, rest) = bytes.split_at_checked(START_LEN)?;
        let (checksum, fields) = rest.split_at_checked(4)?;
        if start.strip_prefix(MAGIC)? != VERSION.to_le_bytes() {
            return None;
        }
        if crc32(&[start, fields]).to_le_bytes() != checksum {
            return None;
        }
        let mut reader = Reader(fields);
        let record = reader.record()?;
        (reader.0.is_empty() && record.can_be()).then_some(record)
    }

    /// Whether its values agree with each other, as those of every record that we made do.
    fn can_be(&self) -> bool {
        let has_what_it_serves = self.last != LastResult::Rules || self.copy.is_some();
        has_what_it_serves && self.fresh_until.since(self.asked_at) <= LIFETIME_MAX
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Every byte string of a record is far below 4 GiB; one that were not would fail its check when read.
    fn bytes(&mut self, value: &[u8]) {
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(value);
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn time(&mut self, value: Option<WallMillis>) {
        self.option(value, |out, time| out.u64(time.as_millis()));
    }

    fn last(&mut self, last: LastResult) {
        match last {
            LastResult::Rules => self.u8(0),
            LastResult::Unavailable(Unavailable::Status(status)) => {
                self.u8(1);
                self.u16(status);
            }
            LastResult::Unavailable(Unavailable::TooManyRedirects) => self.u8(2),
            LastResult::Unavailable(Unavailable::LongOutage) => self.u8(3),
            LastResult::Unreachable(cause) => {
                self.u8(4);
                self.cause(cause);
            }
        }
    }

    fn cause(&mut self, cause: Failure) {
        match cause {
            Failure::Status(status) => {
                self.u8(0);
                self.u16(status);
            }
            Failure::Dns => self.u8(1),
            Failure::Connect => self.u8(2),
            Failure::Tls(TlsProblem::Other) => self.u8(3),
            Failure::Reset => self.u8(4),
            Failure::Protocol => self.u8(5),
            Failure::HeadTooLarge => self.u8(6),
            Failure::Body => self.u8(7),
            Failure::StillCoded => self.u8(8),
            Failure::Html => self.u8(9),
            Failure::AddressRefused(IpAddr::V4(address)) => {
                self.u8(10);
                self.u32(address.to_bits());
            }
            Failure::AddressRefused(IpAddr::V6(address)) => {
                self.u8(11);
                self.0.extend_from_slice(&address.octets());
            }
            Failure::RedirectRefused(why) => {
                self.u8(12);
                self.u8(REFUSALS.iter().position(|&other| other == why).unwrap_or(0) as u8);
            }
            Failure::Timeout => self.u8(13),
            Failure::Other => self.u8(14),
            Failure::Tls(problem) => {
                self.u8(15);
                self.u8(PROBLEMS.iter().position(|known| *known == problem).map_or(u8::MAX, |at| at as u8));
            }
            Failure::Refused => self.u8(16),
            Failure::NoRoute => self.u8(17),
            Failure::EnhanceYourCalm => self.u8(18),
        }
    }

    fn failing(&mut self, failing: &Outage) {
        self.time(failing.since);
        self.u32(failing.attempts);
        self.u32(failing.counted);
        self.time(failing.last_counted);
    }

    fn copy(&mut self, copy: Option<&GoodCopy>) {
        self.option(copy, |out, copy| {
            out.u8(u8::from(copy.truncated));
            out.u16(copy.status);
            out.bytes(copy.final_url.as_str().as_bytes());
            for value in [copy.validators.etag(), copy.validators.last_modified(), copy.content_type()] {
                out.option(value, Self::bytes);
            }
            out.option(copy.lifetime, |out, lifetime| out.u64(lifetime.as_secs()));
            out.u64(copy.fetched_at.as_millis());
            out.u64(copy.validated_at.as_millis());
            out.bytes(&copy.body);
        });
    }
}

/// The refusals by their number in a record. New ones go to the end.
const REFUSALS: [RedirectRefusal; 9] = [
    RedirectRefusal::Status,
    RedirectRefusal::Missing,
    RedirectRefusal::Empty,
    RedirectRefusal::Several,
    RedirectRefusal::TooLong,
    RedirectRefusal::NotText,
    RedirectRefusal::NotUrl,
    RedirectRefusal::Scheme,
    RedirectRefusal::Downgrade,
];

/// The problems of TLS by their number in a record; `Other` has a number among the failures. New ones go to the end.
const PROBLEMS: [TlsProblem; 4] =
    [TlsProblem::Expired, TlsProblem::Untrusted, TlsProblem::AnotherName, TlsProblem::NotTls];

/// What is left to read. Every read checks that there is enough of it.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<WallMillis> {
        self.u64().map(WallMillis::from_millis)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn bytes(&mut self, len_max: usize) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok().filter(|&len| len <= len_max)?;
        self.take(len)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(URL_LEN_MAX)?).ok()
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.bool()? {
            true => read(self).map(Some),
            false => Some(None),
        }
    }

    fn status(&mut self) -> Option<u16> {
        self.u16().filter(|status| (100..=999).contains(status))
    }

    fn record(&mut self) -> Option<Record> {
        Some(Record {
            origin: self.origin()?,
            last: self.last()?,
            asked_at: self.time()?,
            fresh_until: self.time()?,
            next_try: self.time()?,
            failing: self.failing()?,
            copy: self.option(Self::copy)?.map(Arc::new),
        })
    }

    /// Only the text that an origin has: anything else is not ours.
    fn origin(&mut self) -> Option<Origin> {
        let text = self.text()?;
        text.parse().ok().filter(|origin: &Origin| origin.as_str() == text)
    }

    fn last(&mut self) -> Option<LastResult> {
        Some(match self.u8()? {
            0 => LastResult::Rules,
            1 => LastResult::Unavailable(Unavailable::Status(self.status()?)),
            2 => LastResult::Unavailable(Unavailable::TooManyRedirects),
            4 => LastResult::Unreachable(self.cause()?),
            // 3, a long outage, is what a record means, never what it says.
            _ => return None,
        })
    }

    fn cause(&mut self) -> Option<Failure> {
        Some(match self.u8()? {
            0 => Failure::Status(self.status()?),
            1 => Failure::Dns,
            2 => Failure::Connect,
            3 => Failure::Tls(TlsProblem::Other),
            4 => Failure::Reset,
            5 => Failure::Protocol,
            6 => Failure::HeadTooLarge,
            7 => Failure::Body,
            8 => Failure::StillCoded,
            9 => Failure::Html,
            10 => Failure::AddressRefused(Ipv4Addr::from_bits(self.u32()?).into()),
            11 => Failure::AddressRefused(Ipv6Addr::from(self.array::<16>()?).into()),
            12 => Failure::RedirectRefused(*REFUSALS.get(usize::from(self.u8()?))?),
            13 => Failure::Timeout,
            14 => Failure::Other,
            15 => Failure::Tls(*PROBLEMS.get(usize::from(self.u8()?))?),
            16 => Failure::Refused,
            17 => Failure::NoRoute,
            18 => Failure::EnhanceYourCalm,
            _ => return None,
        })
    }

    fn failing(&mut self) -> Option<Outage> {
        let since = self.option(Self::time)?;
        let (attempts, counted) = (self.u32()?, self.u32()?);
        let last_counted = self.option(Self::time)?;
        Some(Outage { since, attempts, counted, last_counted })
    }

    fn copy(&mut self) -> Option<GoodCopy> {
        let truncated = self.bool()?;
        let status = self.status().filter(|status| (200..=299).contains(status))?;
        let final_url = self.url()?;
        let etag = self.option(|reader| reader.bytes(VALIDATOR_LEN_MAX))?;
        let last_modified = self.option(|reader| reader.bytes(VALIDATOR_LEN_MAX))?;
        let validators = Validators::new(etag, last_modified);
        if (validators.etag(), validators.last_modified()) != (etag, last_modified) {
            return None;
        }
        let content_type =
            self.option(|reader| reader.bytes(CONTENT_TYPE_LEN_MAX))?.map(Bytes::copy_from_slice);
        let lifetime = self.option(Self::u64)?.map(Duration::from_secs);
        let (fetched_at, validated_at) = (self.time()?, self.time()?);
        let body = Bytes::copy_from_slice(self.bytes(BODY_LIMIT_MAX)?);
        if lifetime.is_some_and(|lifetime| lifetime > LIFETIME_MAX) {
            return None;
        }
        Some(GoodCopy {
            body,
            truncated,
            status,
            final_url,
            validators,
            content_type,
            lifetime,
            fetched_at,
            validated_at,
        })
    }

    /// An http or https URL that says nothing about a user, as we write it.
    fn url(&mut self) -> Option<Url> {
        let text = self.text()?;
        let url = Url::parse(text).ok().filter(|url| url.as_str() == text)?;
        let is_plain = url.username().is_empty() && url.password().is_none() && url.has_host();
        (is_plain && matches!(url.scheme(), "http" | "https")).then_some(url)
    }
}

/// CRC-32 (IEEE 802.3) of the parts, one after the other. It finds every flipped bit and every burst of up to 32.
fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in parts.iter().copied().flatten() {
        // The low byte; the table has an entry for each.
        let entry = CRC_TABLE.get(usize::from(crc as u8 ^ byte)).copied().unwrap_or_default();
        crc = entry ^ (crc >> 8);
    }
    !crc
}

const CRC_TABLE: [u32; 256] = crc_table();

#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "evaluated by the compiler, so it cannot panic in a program"
)]
const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn causes() -> impl Strategy<Value = Failure> {
        prop_oneof![
            (100_u16..=999).prop_map(Failure::Status),
            any::<u32>().prop_map(|bits| Failure::AddressRefused(Ipv4Addr::from_bits(bits).into())),
            any::<u128>().prop_map(|bits| Failure::AddressRefused(Ipv6Addr::from_bits(bits).into())),
            (0..REFUSALS.len()).prop_map(|n| Failure::RedirectRefused(REFUSALS[n])),
            (0..PROBLEMS.len()).prop_map(|n| Failure::Tls(PROBLEMS[n])),
            proptest::sample::select(vec![
                Failure::Dns,
                Failure::Refused,
                Failure::NoRoute,
                Failure::Connect,
                Failure::EnhanceYourCalm,
                Failure::Tls(TlsProblem::Other),
                Failure::Reset,
                Failure::Protocol,
                Failure::HeadTooLarge,
                Failure::Body,
                Failure::StillCoded,
                Failure::Html,
                Failure::Timeout,
                Failure::Other,
            ]),
        ]
    }

    fn copies() -> impl Strategy<Value = GoodCopy> {
        let bytes = |max| proptest::collection::vec(any::<u8>(), 0..max);
        let value = || proptest::option::of("[!-~]{1,40}");
        (bytes(300), any::<bool>(), 200_u16..300, value(), value(), value(), any::<[u64; 2]>(), any::<bool>())
            .prop_map(|(body, truncated, status, etag, date, kind, [fetched, validated], stated)| GoodCopy {
                body: body.into(),
                truncated,
                status,
                final_url: "https://b.example/robots.txt?x".parse().unwrap(),
                validators: Validators::new(
                    etag.as_deref().map(str::as_bytes),
                    date.as_deref().map(str::as_bytes),
                ),
                content_type: kind.map(Bytes::from),
                lifetime: stated.then_some(Duration::from_secs(600)),
                fetched_at: WallMillis::from_millis(fetched),
                validated_at: WallMillis::from_millis(validated),
            })
    }

    fn records() -> impl Strategy<Value = Record> {
        let last = prop_oneof![
            Just(LastResult::Rules),
            (400_u16..500).prop_map(|status| LastResult::Unavailable(Unavailable::Status(status))),
            Just(LastResult::Unavailable(Unavailable::TooManyRedirects)),
            causes().prop_map(LastResult::Unreachable),
        ];
        let failing = (any::<Option<u64>>(), any::<u32>(), any::<u32>(), any::<Option<u64>>()).prop_map(
            |(since, attempts, counted, last)| Outage {
                since: since.map(WallMillis::from_millis),
                attempts,
                counted,
                last_counted: last.map(WallMillis::from_millis),
            },
        );
        (last, any::<u64>(), 0_u64..=86_400_000, any::<u64>(), failing, proptest::option::of(copies()))
            .prop_filter_map("rules need a copy", |(last, asked, fresh, next, failing, copy)| {
                let record = Record {
                    origin: "http://[::1]:8080".parse().unwrap(),
                    last,
                    asked_at: WallMillis::from_millis(asked),
                    fresh_until: WallMillis::from_millis(asked.saturating_add(fresh)),
                    next_try: WallMillis::from_millis(next),
                    failing,
                    copy: copy.map(Arc::new),
                };
                record.can_be().then_some(record)
            })
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(record in records()) {
            prop_assert_eq!(Record::decode(&record.encode()), Some(record));
        }

        #[test]
        fn a_flipped_bit_makes_it_absent(record in records(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let mut bytes = record.encode();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(Record::decode(&bytes), None);
        }

        #[test]
        fn a_cut_or_longer_record_is_absent(record in records(), at in any::<prop::sample::Index>()) {
            let mut bytes = record.encode();
            prop_assert_eq!(Record::decode(&bytes[..at.index(bytes.len())]), None);
            bytes.push(0);
            prop_assert_eq!(Record::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(Record::decode(&bytes), None);
        }

        /// Behind a right checksum, so that the fields themselves meet any bytes.
        #[test]
        fn any_fields_are_read_without_panic(
            record in records(),
            at in any::<prop::sample::Index>(),
            with in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut bytes = record.encode();
            let at = 12 + at.index(bytes.len() - 12);
            let end = (at + with.len()).min(bytes.len());
            bytes.splice(at..end, with);
            let checksum = crc32(&[&bytes[..8], &bytes[12..]]);
            bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
            if let Some(record) = Record::decode(&bytes) {
                prop_assert!(record.can_be());
                prop_assert_eq!(Record::decode(&record.encode()), Some(record));
            }
        }
    }

    #[test]
    fn the_checksum_is_the_common_one() {
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xcbf4_3926);
    }

    /// The bytes with the one for the other, behind a checksum that is right.
    fn forged(record: &Record, from: &[u8], to: &[u8]) -> Vec<u8> {
        let mut bytes = record.encode();
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes.splice(at..at + from.len(), to.iter().copied());
        let checksum = crc32(&[&bytes[..8], &bytes[12..]]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn what_we_would_have_written_otherwise_is_absent() {
        let origin = "https://a.example".parse().unwrap();
        let record = Record::sample(&origin, WallMillis::from_millis(1), "User-agent: *\n".into());
        assert_eq!(Record::decode(&forged(&record, b"robots.txt", b"robots.txt")), Some(record.clone()));
        for (from, to) in [
            (&b"/robots.txt"[..], &b"/robots{txt"[..]),
            (b"/robots.txt", b"/rob/../txt"),
            (b"\"etag\"", b"\"et\ng\""),
        ] {
            assert_eq!(Record::decode(&forged(&record, from, to)), None, "{}", to.escape_ascii());
        }
    }

    #[test]
    fn another_version_is_absent() {
        let record = Record {
            origin: "http://a.example".parse().unwrap(),
            last: LastResult::Unreachable(Failure::Dns),
            asked_at: WallMillis::from_millis(1),
            fresh_until: WallMillis::from_millis(1),
            next_try: WallMillis::from_millis(1),
            failing: Outage::default(),
            copy: None,
        };
        let mut bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        bytes[6] = 2;
        let checksum = crc32(&[&bytes[..8], &bytes[12..]]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Record::decode(&bytes), None);
    }
    fn sample() -> Record {
        Record::sample(
            &"https://a.example".parse().unwrap(),
            WallMillis::from_millis(1),
            "User-agent: *\n".into(),
        )
    }

    #[test]
    fn every_cause_of_a_failure_is_kept() {
        let others = [
            Failure::Status(503),
            Failure::Dns,
            Failure::Refused,
            Failure::NoRoute,
            Failure::Connect,
            Failure::EnhanceYourCalm,
            Failure::Tls(TlsProblem::Other),
            Failure::Tls(TlsProblem::Expired),
            Failure::Tls(TlsProblem::Untrusted),
            Failure::Tls(TlsProblem::AnotherName),
            Failure::Tls(TlsProblem::NotTls),
            Failure::Reset,
            Failure::Protocol,
            Failure::HeadTooLarge,
            Failure::Body,
            Failure::StillCoded,
            Failure::Html,
            Failure::AddressRefused([10, 0, 0, 1].into()),
            Failure::AddressRefused([1, 2, 3, 4, 5, 6, 7, 8].into()),
            Failure::Timeout,
            Failure::Other,
        ];
        for cause in others.into_iter().chain(REFUSALS.map(Failure::RedirectRefused)) {
            let record = Record { last: LastResult::Unreachable(cause), ..sample() };
            assert_eq!(Record::decode(&record.encode()), Some(record), "{cause:?}");
        }
    }

    #[test]
    fn what_we_would_never_have_known_is_absent() {
        let with = |change: fn(&mut GoodCopy)| {
            let mut record = sample();
            change(Arc::make_mut(record.copy.as_mut().unwrap()));
            record
        };
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(
            LIFETIME_MAX, day,
            "RFC 9309 §2.4: \"SHOULD NOT use the cached version for more than 24 hours\""
        );
        for (what, record, is_kept) in [
            ("as it is", sample(), true),
            ("rules without a copy", Record { copy: None, ..sample() }, false),
            (
                "fresh for a day",
                Record { fresh_until: WallMillis::from_millis(1).plus(day), ..sample() },
                true,
            ),
            (
                "fresh for longer",
                Record { fresh_until: WallMillis::from_millis(2).plus(day), ..sample() },
                false,
            ),
            ("a lifetime of a day", with(|copy| copy.lifetime = Some(LIFETIME_MAX)), true),
            ("a longer one", with(|copy| copy.lifetime = Some(LIFETIME_MAX + Duration::from_secs(1))), false),
            ("http", with(|copy| copy.final_url = "http://a.example/x".parse().unwrap()), true),
            ("a user", with(|copy| copy.final_url = "http://u@a.example/x".parse().unwrap()), false),
            ("a password", with(|copy| copy.final_url = "http://:p@a.example/x".parse().unwrap()), false),
            ("ftp", with(|copy| copy.final_url = "ftp://a.example/x".parse().unwrap()), false),
            ("no host", with(|copy| copy.final_url = "data:,x".parse().unwrap()), false),
        ] {
            let decoded = Record::decode(&record.encode());
            assert_eq!(decoded, is_kept.then_some(record), "{what}");
        }
    }
}
