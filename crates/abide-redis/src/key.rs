//! The names of keys. What is stored of a host, of an origin or of a page lies in one of 256 buckets, whose
//! number is the hash tag: so a cluster keeps each bucket on one node, together with the marker that says
//! since when nothing was lost there.
//!
//! ```text
//! abide:{b17}:host:example.org                      last request, delay, backoff, lease
//! abide:{b17}:born                                  since when, and by which server, nothing of the bucket was lost
//! abide:{b201}:robots:https://example.org:443       a record of robots.txt
//! abide:{b66}:permissions:https://example.org/a     a record of permissions
//! ```

use std::sync::Arc;

use crate::Error;

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: Arc<str>,
}

// What a key is for.
pub(crate) const HOST: &str = "host";
pub(crate) const ROBOTS: &str = "robots";
#[cfg(feature = "permissions")]
pub(crate) const PERMISSIONS: &str = "permissions";

/// Enough to be spread over a hundred nodes, few enough to be looked at with each connection.
const BUCKETS: u64 = 256;

const PREFIX_LEN_MAX: usize = 64;

impl Keys {
    /// Braces would be taken for a hash tag, and `*?[` for a pattern.
    pub(crate) fn new(prefix: &str) -> Result<Self, Error> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
        match (1..=PREFIX_LEN_MAX).contains(&prefix.len()) && prefix.bytes().all(is_plain) {
            true => Ok(Self { prefix: prefix.into() }),
            false => Err(Error::prefix()),
        }
    }

    pub(crate) fn of(&self, kind: &str, name: &str) -> String {
        format!("{}:{{b{}}}:{kind}:{name}", self.prefix, bucket(name))
    }

    pub(crate) fn marker(&self, name: &str) -> String {
        self.marker_of(bucket(name))
    }

    pub(crate) fn markers(&self) -> Vec<String> {
        (0..BUCKETS).map(|bucket| self.marker_of(bucket)).collect()
    }

    fn marker_of(&self, bucket: u64) -> String {
        format!("{}:{{b{bucket}}}:born", self.prefix)
    }

    /// A pattern that all keys of this kind match.
    pub(crate) fn every(&self, kind: &str) -> String {
        format!("{}:{{b*}}:{kind}:*", self.prefix)
    }
}

/// FNV-1a: processes of all versions agree on it.
fn bucket(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The low byte of FNV-1a depends on low bits alone, so the high half is folded in.
    (hash ^ (hash >> 32)) % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_name_lie_in_one_bucket() {
        let keys = Keys::new("abide").unwrap();
        for name in ["example.org", "[::1]", "}", "{a}", "domain/{\u{e4} }:*"] {
            let marker = keys.marker(name);
            let tag = marker.strip_suffix("born").unwrap();
            assert!([HOST, ROBOTS].iter().all(|kind| keys.of(kind, name).starts_with(tag)));
            assert!(keys.markers().contains(&marker));
        }
    }

    #[test]
    fn the_bucket_of_a_host_never_changes() {
        let buckets = ["example.org", "example.com", "a", ""].map(bucket);
        assert_eq!(buckets, [50, 165, 192, 193]);
    }

    #[test]
    fn prefixes_without_meaning_to_redis_are_taken() {
        for good in ["abide", "a", "team-7:crawl_2.x"] {
            assert!(Keys::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a{b", "a*", "a b", "[x]", "\u{e4}", &"x".repeat(65)] {
            assert!(Keys::new(bad).is_err(), "{bad}");
        }
    }
}
