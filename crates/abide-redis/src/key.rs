//! The names of keys. What belongs to one host, or to one origin, has it as its hash tag, so that a cluster keeps it on one node:
//!
//! ```text
//! abide:{example.org}:slot                       hash: start, end, hold, cause, gap
//! abide:{example.org}:flight                     sorted set: lease -> end of its life
//! abide:{https://example.org:443}:robots         a record of robots.txt
//! abide:{https://example.org:443}:lease          who is fetching it
//! abide:{https://example.org/a}:permissions      a record of permissions
//! abide:epoch:<run id of the server>             since when its data is whole
//! ```

use std::fmt::Write;
use std::sync::Arc;

use crate::Error;

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

    pub(crate) fn epoch(&self, run_id: &str) -> String {
        format!("{}:epoch:{run_id}", self.prefix)
    }

    /// A pattern that all keys of robots.txt records match.
    pub(crate) fn every_robots(&self) -> String {
        format!("{}:{{*}}:robots", self.prefix)
    }

    /// A tag ends at the first `}`, and an empty one is none.
    fn tagged(&self, of: &str, what: &str) -> String {
        let mut key = String::with_capacity(self.prefix.len() + of.len() + what.len() + 4);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-16/XMODEM modulo 16384 of the hash tag, as the Redis Cluster specification has it ("Hash tags", "Keys hash tags").
    fn slot(key: &str) -> u16 {
        let tag = key.find('{').and_then(|open| {
            let rest = &key[open + 1..];
            rest.find('}').filter(|&end| end > 0).map(|end| &rest[..end])
        });
        let crc = tag.unwrap_or(key).bytes().fold(0_u16, |crc, byte| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
                0 => crc << 1,
                _ => (crc << 1) ^ 0x1021,
            })
        });
        crc % 16_384
    }

    #[test]
    fn the_slot_function_is_the_one_of_the_specification() {
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("{user1000}.following"), slot("{user1000}.followers"));
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
