//! Records as bytes: what was written is read, and nothing else.

use std::time::Duration;

use super::*;

/// Every result, for failures the first and the last and all that hold a value; with all fields at their
/// largest, at their smallest, and absent.
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
            (Some(small.clone()), least, Outage::default()),
            (None, least, outage),
        ] {
            records.push(RobotsRecord {
                asked_at: time,
                fresh_until: time,
                next_try: time,
                attempt: LastAttempt::boxed(last, outage),
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
    let fresh_for = |time| RobotsRecord { fresh_until: WallMillis::from_millis(1).plus(time), ..sample() };
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
