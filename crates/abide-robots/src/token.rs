//! The name a crawler goes by, RFC 9309 §2.2.1.
//!
//! It is checked once, so that no other module meets a name that a user-agent line cannot hold.

use alloc::format;
use alloc::sync::Arc;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

use crate::error::InvalidText;

/// The product token of a crawler: one or more of `A-Z`, `a-z`, `_` and `-` (RFC 9309 §2.2.1).
///
/// Tokens are compared and hashed case-insensitively, like user-agent lines; `Display` keeps the given
/// spelling. Cheap to clone.
///
/// ```
/// use abide_robots::ProductToken;
///
/// let token = ProductToken::new("ExampleBot")?;
/// assert_eq!(token, ProductToken::new("examplebot")?);
/// assert!(ProductToken::new("ExampleBot/1.0").is_err());
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
#[derive(Clone)]
pub struct ProductToken(Arc<str>);

impl ProductToken {
    /// Checks `text` against the identifier of RFC 9309 §2.2.
    ///
    /// # Errors
    /// If `text` is empty or contains anything but ASCII letters, `_` and `-`.
    pub fn new(text: &str) -> Result<Self, InvalidText> {
        Self::checked(text, is_token_byte, "letters, \"_\" and \"-\"")
    }

    /// Like [`new`](Self::new), but digits and `.` may occur too.
    ///
    /// Lenient: crawlers such as `MJ12bot` exist, and files name them. A group is theirs if the *whole* value
    /// of its user-agent line is this token. Use it to check offline what such a crawler may do; name your
    /// own crawler with [`new`](Self::new).
    ///
    /// # Errors
    /// If `text` is empty or contains anything but ASCII letters, digits, `_`, `-` and `.`.
    pub fn lenient(text: &str) -> Result<Self, InvalidText> {
        Self::checked(text, is_lenient_byte, "letters, digits, \"_\", \"-\" and \".\"")
    }

    fn checked(text: &str, fits: impl Fn(u8) -> bool, expected: &str) -> Result<Self, InvalidText> {
        if text.is_empty() {
            return Err(InvalidText("expected a product token, found nothing".into()));
        }
        match text.char_indices().find(|(_, letter)| !letter.is_ascii() || !fits(*letter as u8)) {
            Some((at, letter)) => Err(InvalidText(format!(
                "expected a product token of {expected}, found {letter:?} at byte {at}"
            ))),
            None => Ok(Self(text.into())),
        }
    }

    /// The token as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_named_by(&self, text: &[u8]) -> bool {
        self.0.as_bytes().eq_ignore_ascii_case(text)
    }
}

impl PartialEq for ProductToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for ProductToken {}

impl Hash for ProductToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.0.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
        // As `str` does: two names in a row differ from another two that are the same when put together.
        state.write_u8(0xff);
    }
}

impl fmt::Display for ProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for ProductToken {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        Self::new(text)
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for ProductToken {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Checks the text as [`ProductToken::lenient`] does, so that every token can be read back. Check the name of
/// your own crawler with [`ProductToken::new`].
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for ProductToken {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::lenient(&text).map_err(serde_core::de::Error::custom)
    }
}

/// `identifier = 1*(%x2D / %x41-5A / %x5F / %x61-7A)`
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-'
}

pub(crate) fn is_lenient_byte(byte: u8) -> bool {
    is_token_byte(byte) || byte.is_ascii_digit() || byte == b'.'
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use core::hash::{BuildHasher, BuildHasherDefault};
    use std::collections::hash_map::DefaultHasher;

    use super::*;

    #[test]
    fn each_row_of_tokens() {
        let rows = include_str!("../tests/vectors/tokens.tsv").lines().filter(|row| !row.starts_with('#'));
        for columns in rows.map(|row| row.split('\t').collect::<alloc::vec::Vec<_>>()) {
            for (token, expected) in [ProductToken::new(columns[0]), ProductToken::lenient(columns[0])]
                .into_iter()
                .zip(&columns[1..])
            {
                assert_eq!(
                    token.map_or_else(|error| error.to_string(), |token| token.to_string()),
                    *expected
                );
            }
        }
    }

    #[test]
    fn other_letters_are_a_difference() {
        let token = |text| ProductToken::new(text).unwrap();
        assert_ne!(token("foobot"), token("foobot-news"));
        assert_ne!(token("foobot"), token("barbot"));
        let hash = |text| BuildHasherDefault::<DefaultHasher>::default().hash_one(token(text));
        assert_eq!(hash("FooBot"), hash("foobot"));
        assert_ne!(hash("foobot"), hash("barbot"));
        assert_eq!(format!("{:?}", token("FooBot")), "\"FooBot\"");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_token_is_checked_when_it_is_deserialized() {
        for text in ["\"FooBot\"", "\"MJ12bot.x\""] {
            let token: ProductToken = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&token).unwrap(), text);
        }
        assert!(serde_json::from_str::<ProductToken>("\"Foo/1\"").is_err());
        assert!(serde_json::from_str::<ProductToken>("\"\"").is_err());
    }
}
