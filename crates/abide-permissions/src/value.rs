//! A bare value of a structured field (RFC 9651 §3.3).
//!
//! It is a type of this crate, so that a new version of sfv is no new version of ours.

use sfv::BareItem;

/// A bare value of a structured field. A parameter without a value is `Boolean(true)`.
///
/// ```
/// use abide_permissions::SfValue;
///
/// assert_eq!(SfValue::Boolean(false).as_bool(), Some(false));
/// assert_eq!(SfValue::Integer(5).as_bool(), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum SfValue {
    /// `?1`, or no value; `?0`.
    Boolean(bool),
    /// An Integer.
    Integer(i64),
    /// A Decimal.
    Decimal(f64),
    /// A String.
    String(String),
    /// A Token.
    Token(String),
    /// A Date, in Unix seconds.
    Date(i64),
    /// A Byte Sequence.
    Bytes(Vec<u8>),
    /// A Display String.
    Display(String),
}

impl SfValue {
    /// The value of a Boolean.
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Boolean(value) = self { Some(*value) } else { None }
    }

    /// The value of an Integer.
    pub const fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(value) = self { Some(*value) } else { None }
    }

    /// The text of a Token, String or Display String.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(value) | Self::Token(value) | Self::Display(value) = self {
            Some(value)
        } else {
            None
        }
    }

    pub(crate) fn of(value: BareItem) -> Self {
        match value {
            BareItem::Boolean(value) => Self::Boolean(value),
            BareItem::Integer(value) => Self::Integer(value.into()),
            BareItem::Decimal(value) => Self::Decimal(value.into()),
            BareItem::String(value) => Self::String(value.into()),
            BareItem::Token(value) => Self::Token(value.into()),
            BareItem::Date(value) => Self::Date(value.unix_seconds().into()),
            BareItem::ByteSequence(value) => Self::Bytes(value),
            BareItem::DisplayString(value) => Self::Display(value),
        }
    }
}
