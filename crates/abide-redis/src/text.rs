//! What is stored, as text.

use redis::{FromRedisValue, ParsingError, Value};

/// What is no UTF-8 is none of ours: it is read as something that nobody has written, like the rest that is not understood, and is no
/// failure of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl FromRedisValue for Text {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let octets = Vec::<u8>::from_redis_value(value)?;
        Ok(Self(
            String::from_utf8(octets)
                .unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned()),
        ))
    }
}
