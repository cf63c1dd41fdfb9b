//! The floors under our dependencies, held against Cargo.lock: what is below has a known fault.

/// Name, the least version that is good, why.
const FLOORS: [(&str, [u64; 3], &str); 10] = [
    ("h2", [0, 4, 18], "RUSTSEC-2026-0258, header counts, GOAWAY leaks"),
    ("rustls", [0, 23, 18], "RUSTSEC-2024-0336, RUSTSEC-2024-0399"),
    ("rustls-webpki", [0, 103, 13], "name constraints, revocation"),
    ("redb", [4, 4, 0], "transactions rolled back or corrupted after two crashes"),
    ("bytes", [1, 11, 1], "integer overflow in reserve"),
    ("tokio", [1, 44, 2], "RUSTSEC-2025-0023"),
    ("crossbeam-channel", [0, 5, 15], "RUSTSEC-2025-0024"),
    ("idna", [1, 0, 0], "RUSTSEC-2024-0421"),
    ("time", [0, 3, 47], "RUSTSEC-2026-0009"),
    ("tracing-subscriber", [0, 3, 20], "RUSTSEC-2025-0055"),
];

/// Unmaintained, or a second TLS.
const NEVER: [&str; 5] = ["serde_cbor", "bincode", "lmdb", "openssl", "native-tls"];

/// Name and version of every package in Cargo.lock.
fn locked() -> Vec<(String, [u64; 3])> {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")).expect("it is there");
    let value = |line: &str, key: &str| {
        Some(line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned())
    };
    let lines: Vec<&str> = text.lines().collect();
    let pairs =
        lines.windows(2).filter_map(|pair| Some((value(pair[0], "name")?, value(pair[1], "version")?)));
    pairs.map(|(name, version)| (name, numbers(&version))).collect()
}

/// `0.103.16+build` and `1.2.3-rc.1`: the three numbers.
fn numbers(version: &str) -> [u64; 3] {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let mut parts = version[..end].split('.').map(|part| part.parse().expect("a number"));
    [(); 3].map(|()| parts.next().expect("three numbers"))
}

#[test]
fn no_dependency_is_below_its_floor() {
    let locked = locked();
    assert!(locked.len() > 100, "Cargo.lock was read");
    for (name, floor, why) in FLOORS {
        for (_, version) in locked.iter().filter(|(locked, _)| locked == name) {
            assert!(*version >= floor, "{name} {version:?} is below {floor:?}: {why}");
        }
    }
    for must in ["h2", "rustls", "tokio", "bytes", "idna"] {
        assert!(locked.iter().any(|(name, _)| name == must), "{must} has gone: drop its floor");
    }
}

#[test]
fn what_is_banned_is_not_there() {
    let locked = locked();
    for name in NEVER {
        assert!(locked.iter().all(|(locked, _)| locked != name), "{name}");
    }
}
