//! Character references in text that stand for whitespace: `&#32;`, `&#x9`, `&Tab;`, `&NewLine;`.
//!
//! Whitespace between elements leaves the head open, and text ends it. lol_html hands over text undecoded, so
//! a reference has to be read here to know which it is.

/// A reference that has begun. A handful of bytes decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// `&`
    Ampersand,
    /// `&#`
    Hash,
    /// `&#x`
    HexHash,
    /// `&#` and digits, with their value.
    Number { radix: u8, value: u32 },
    /// `&` and this many letters of a name.
    Name(&'static [u8], usize),
}

/// What a byte of text turns out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceStep {
    Whitespace,
    Pending(Reference),
    Text,
}

impl ReferenceStep {
    /// Outside a reference.
    pub(super) const fn of(byte: u8) -> Self {
        match byte {
            b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' => Self::Whitespace,
            b'&' => Self::Pending(Reference::Ampersand),
            _ => Self::Text,
        }
    }
}

impl Reference {
    /// Takes the next byte.
    pub(super) fn step(self, byte: u8) -> ReferenceStep {
        match self {
            Self::Ampersand => match byte {
                b'#' => ReferenceStep::Pending(Self::Hash),
                b'T' => ReferenceStep::Pending(Self::Name(b"Tab;", 1)),
                b'N' => ReferenceStep::Pending(Self::Name(b"NewLine;", 1)),
                _ => ReferenceStep::Text,
            },
            Self::Hash => match byte {
                b'x' | b'X' => ReferenceStep::Pending(Self::HexHash),
                b'0'..=b'9' => Self::digit(10, 0, byte),
                _ => ReferenceStep::Text,
            },
            Self::HexHash if byte.is_ascii_hexdigit() => Self::digit(16, 0, byte),
            Self::HexHash => ReferenceStep::Text,
            Self::Number { radix, value } => self.step_number(radix, value, byte),
            Self::Name(name, length) => match name.get(length) {
                Some(expected) if *expected != byte => ReferenceStep::Text,
                Some(b';') | None => ReferenceStep::Whitespace,
                Some(_) => ReferenceStep::Pending(Self::Name(name, length.saturating_add(1))),
            },
        }
    }

    /// Whether it is whitespace when the text ends here. A number needs no semicolon, these names do.
    pub(super) const fn ends_as_whitespace(self) -> bool {
        matches!(self, Self::Number { value, .. } if is_whitespace(value))
    }

    fn step_number(self, radix: u8, value: u32, byte: u8) -> ReferenceStep {
        if char::from(byte).is_digit(u32::from(radix)) {
            return Self::digit(radix, value, byte);
        }
        match byte {
            _ if !self.ends_as_whitespace() => ReferenceStep::Text,
            b';' => ReferenceStep::Whitespace,
            byte => ReferenceStep::of(byte),
        }
    }

    /// A value beyond the small ones is no whitespace, so saturation loses nothing.
    fn digit(radix: u8, value: u32, byte: u8) -> ReferenceStep {
        let digit = char::from(byte).to_digit(u32::from(radix)).unwrap_or(0);
        let value = value.saturating_mul(u32::from(radix)).saturating_add(digit);
        ReferenceStep::Pending(Self::Number { radix, value })
    }
}

const fn is_whitespace(value: u32) -> bool {
    matches!(value, 9 | 10 | 12 | 13 | 32)
}
