//! From the bytes of a body to the text that is read: the limit, byte order marks, UTF-16.
//!
//! The limit comes first, so that nothing behind it costs memory or time.

use alloc::borrow::Cow;
use alloc::string::String;

use crate::profile::{ParseOptions, Profile};
use crate::slice;

/// What is read of a body, and what was done to it.
pub(crate) struct Text<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The limit of RFC 9309 §2.5 cut the file.
    pub(crate) cut: bool,
    pub(crate) utf16: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn of(body: &'a [u8], options: ParseOptions) -> Self {
        match body {
            // Google's parser knows UTF-8 only.
            // UTF-32 may begin so, too. Read as UTF-16 its NULs leave no key that is known, and so no rules.
            [0xff, 0xfe, ..] if options.profile == Profile::Rfc9309 => {
                Self::of_utf16(body, options.limit, u16::from_le_bytes)
            }
            [0xfe, 0xff, ..] if options.profile == Profile::Rfc9309 => {
                Self::of_utf16(body, options.limit, u16::from_be_bytes)
            }
            _ => {
                let (bytes, cut) = within(body, options.limit);
                Self { bytes: Cow::Borrowed(without_mark(bytes)), cut, utf16: false }
            }
        }
    }

    /// RFC 9309 §2.2.2: "Implementors MAY bridge encoding mismatches". The first unit is the mark, which
    /// counts as it does in UTF-8.
    fn of_utf16(body: &[u8], limit: usize, unit: fn([u8; 2]) -> u16) -> Self {
        let mut units = body.as_chunks::<2>().0.iter().map(|pair| unit(*pair));
        let text: String = char::decode_utf16(units.by_ref().take(limit / 2).skip(1))
            .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        let mut bytes = text.into_bytes();
        let cut = body.len() > limit;
        // Half a unit is of the last line, too.
        if cut && !units.next().is_some_and(|next| matches!(u8::try_from(next), Ok(b'\r' | b'\n'))) {
            bytes.truncate(end_of_last_line(&bytes));
        }
        Self { bytes: Cow::Owned(bytes), cut, utf16: true }
    }
}

/// RFC 9309 §2.5: what the limit lets through, without the line that it cuts. Half of a rule may be another
/// rule.
fn within(body: &[u8], limit: usize) -> (&[u8], bool) {
    let Some((head, [next, ..])) = body.split_at_checked(limit) else { return (body, false) };
    let line_ended = matches!(next, b'\r' | b'\n');
    (if line_ended { head } else { slice::before(head, end_of_last_line(head)) }, true)
}

fn end_of_last_line(bytes: &[u8]) -> usize {
    memchr::memrchr2(b'\r', b'\n', bytes).map_or(0, |at| at.saturating_add(1))
}

/// Lenient: the mark is skipped also where a careless editor has kept a part of it.
fn without_mark(bytes: &[u8]) -> &[u8] {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let length = bytes.iter().zip(MARK).take_while(|(byte, mark)| byte == mark).count();
    slice::from(bytes, length)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn text(body: &[u8], limit: usize) -> Text<'_> {
        Text::of(body, ParseOptions { limit, ..ParseOptions::new() })
    }

    #[test]
    fn marks_are_skipped_whole_or_in_part() {
        for body in [&b"\xef\xbb\xbfa"[..], b"\xef\xbba", b"\xefa", b"a"] {
            assert_eq!(*text(body, 99).bytes, *b"a");
        }
        assert_eq!(*text(b"\xbba", 99).bytes, *b"\xbba");
    }

    #[test]
    fn utf16_with_a_mark_is_decoded() {
        assert_eq!(*text(b"\xff\xfea\0\xe9\0\n\0", 99).bytes, *"aé\n".as_bytes());
        assert_eq!(*text(b"\xfe\xff\0a\0\xe9\0\n\0", 99).bytes, *"aé\n".as_bytes());
    }

    #[test]
    fn the_limit_means_the_same_in_utf16() {
        let utf16: Vec<u8> = "\u{feff}a\nbc\nd".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (units, bytes, cut) in [
            (8, "a\nbc\nd", false),
            (7, "a\nbc\nd", false),
            (6, "a\nbc\n", true),
            (5, "a\nbc", true),
            (4, "a\n", true),
            (3, "a\n", true),
            (2, "a", true),
            (1, "", true),
        ] {
            let wide = text(&utf16, 2 * units);
            assert_eq!((&*wide.bytes, wide.cut), (bytes.as_bytes(), cut), "{units}");
            // The mark has two bytes more.
            let narrow = text("\u{feff}a\nbc\nd".as_bytes(), units + 2);
            assert_eq!((&*narrow.bytes, narrow.cut), (bytes.as_bytes(), cut), "{units}");
        }
        let odd = [&utf16[..], b"x"].concat();
        for (limit, bytes, cut) in [(odd.len(), "a\nbc\nd", false), (utf16.len(), "a\nbc\n", true)] {
            let read = text(&odd, limit);
            assert_eq!((&*read.bytes, read.cut), (bytes.as_bytes(), cut));
        }
    }

    #[test]
    fn utf16_is_nothing_to_google() {
        let options = ParseOptions::google();
        let text = Text::of(b"\xff\xfea\0", options);
        assert!(!text.utf16);
        assert_eq!(*text.bytes, *b"\xff\xfea\0");
    }
}
