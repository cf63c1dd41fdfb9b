//! The names of keys. What belongs to one host, or to one origin, has it as its hash tag, so that a cluster keeps it on one node:
//!
//! ```text
//! abide:{example.org}:slot                       hash: start, end, hold, cause, gap, strikes
//! abide:{example.org}:flight                     sorted set: lease -> end of its life
//! abide:{https://example.org:443}:robots         a record of robots.txt
//! abide:{https://example.org:443}:lease          who is fetching it
//! abide:{https://example.org/a}:permissions      a record of permissions
//! abide:epoch                                    since when the server's data is whole
//! abide:{<number>}:epoch                         the same in a cluster, with a number that lies in a slot of the node
//! ```

use std::fmt::Write;
use std::sync::Arc;

use crate::Error;
use crate::cluster::SLOTS;

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: Arc<str>,
}

/// What is kept of one scope of turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnKeys {
    pub(crate) slot: String,
    pub(crate) flight: String,
}

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

    pub(crate) fn turn(&self, scope: &str) -> TurnKeys {
        TurnKeys { slot: self.tagged(scope, "slot"), flight: self.tagged(scope, "flight") }
    }

    pub(crate) fn robots(&self, origin: &str) -> String {
        self.tagged(origin, "robots")
    }

    pub(crate) fn lease(&self, origin: &str) -> String {
        self.tagged(origin, "lease")
    }

    #[cfg(feature = "permissions")]
    pub(crate) fn permissions(&self, url: &str) -> String {
        self.tagged(url, "permissions")
    }

    /// Of a server, or of a node that has this slot.
    pub(crate) fn epoch(&self, of: Option<u16>) -> String {
        match of {
            None => format!("{}:epoch", self.prefix),
            Some(slot) => self.numbered(number_in(slot)),
        }
    }

    /// Of an epoch in a cluster.
    pub(crate) fn numbered(&self, number: u32) -> String {
        format!("{}:{{{number}}}:epoch", self.prefix)
    }

    /// A pattern that all keys of robots.txt records match.
    pub(crate) fn every_robots(&self) -> String {
        format!("{}:{{*}}:robots", self.prefix)
    }

    /// A tag ends at the first `}`, and an empty one is none.
    fn tagged(&self, of: &str, what: &str) -> String {
        let mut key = String::with_capacity(self.prefix.len().saturating_add(of.len()).saturating_add(32));
        key.push_str(&self.prefix);
        key.push_str(":{");
        for c in of.chars() {
            match c {
                '{' | '}' | '%' => {
                    // Writing to a string does not fail.
                    let _ = write!(key, "%{:02X}", u32::from(c));
                }
                c => key.push(c),
            }
        }
        key.push_str("}:");
        key.push_str(what);
        key
    }
}

/// The slot of a key: CRC-16/XMODEM modulo 16384 of its hash tag, as the Redis Cluster specification has it ("Key distribution
/// model", "Hash tags").
pub(crate) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % SLOTS
}

/// The least number whose text lies in this slot. Every slot has one (the test looks at all); it takes a millisecond to find.
fn number_in(slot_wanted: u16) -> u32 {
    (0..NUMBERS_MAX).find(|number| slot(&number.to_string()) == slot_wanted).unwrap_or(0)
}

/// Below this there is a number for each slot.
const NUMBERS_MAX: u32 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_function_is_the_one_of_the_specification() {
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("{user1000}.following"), slot("{user1000}.followers"));
    }

    #[test]
    fn every_slot_has_a_number() {
        let numbers: std::collections::HashSet<_> = (0..NUMBERS_MAX).map(|n| slot(&n.to_string())).collect();
        assert_eq!(numbers.len(), usize::from(SLOTS));
        let keys = Keys::new("abide").unwrap();
        for wanted in [0, 1, 5_460, 16_383] {
            assert_eq!(slot(&keys.epoch(Some(wanted))), wanted);
        }
    }

    #[test]
    fn all_keys_of_one_command_share_a_slot() {
        let keys = Keys::new("abide").unwrap();
        let scopes = ["example.org", "[::1]", "}", "{", "a}b", "{}", "%7D", "custom/{x}", "domain/a.example"];
        let mut slots = std::collections::HashSet::new();
        for scope in scopes {
            let turn = keys.turn(scope);
            assert_eq!(slot(&turn.slot), slot(&turn.flight), "{scope}");
            assert_eq!(slot(&keys.robots(scope)), slot(&keys.lease(scope)), "{scope}");
            slots.insert(slot(&turn.slot));
        }
        assert!(slots.len() > 6, "and different hosts are spread: {slots:?}");
    }

    #[test]
    fn different_names_have_different_keys() {
        let keys = Keys::new("abide").unwrap();
        let names = ["a", "a}:slot", "{a}", "%7Ba%7D", "", "}", "%7D", "%257D"];
        let all: std::collections::HashSet<_> = names.iter().map(|name| keys.turn(name).slot).collect();
        assert_eq!(all.len(), names.len());
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
