//! From the octets of a body to the text that is read: the limit, byte order marks, UTF-16.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::slice;

/// What is read of a body, and what was done to it.
pub(crate) struct Text<'a> {
    pub(crate) octets: Cow<'a, [u8]>,
    /// The limit of RFC 9309 §2.5 cut the file.
    pub(crate) cut: bool,
    pub(crate) utf16: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn of(body: &'a [u8], limit: usize) -> Self {
        if let [0xff, 0xfe, rest @ ..] = body {
            return Self::of_utf16(rest, limit, u16::from_le_bytes);
        }
        if let [0xfe, 0xff, rest @ ..] = body {
            return Self::of_utf16(rest, limit, u16::from_be_bytes);
        }
        let (octets, cut) = within(body, limit);
        Self { octets: Cow::Borrowed(without_mark(octets)), cut, utf16: false }
    }

    /// RFC 9309 §2.2.2: "Implementors MAY bridge encoding mismatches".
    fn of_utf16(body: &[u8], limit: usize, unit: fn([u8; 2]) -> u16) -> Self {
        let (pairs, _) = slice::before(body, limit).as_chunks::<2>();
        let text: String = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)))
            .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        let mut octets = text.into_bytes();
        let cut = body.len() > limit;
        if cut {
            octets.truncate(end_of_last_line(&octets));
        }
        Self { octets: Cow::Owned(octets), cut, utf16: true }
    }
}

/// RFC 9309 §2.5: what the limit lets through, without the line that it cuts. Half of a rule may be another rule.
fn within(body: &[u8], limit: usize) -> (&[u8], bool) {
    let Some((head, [next, ..])) = body.split_at_checked(limit) else { return (body, false) };
    let line_ended = matches!(next, b'\r' | b'\n');
    (if line_ended { head } else { slice::before(head, end_of_last_line(head)) }, true)
}

fn end_of_last_line(octets: &[u8]) -> usize {
    memchr::memrchr2(b'\r', b'\n', octets).map_or(0, |at| at.saturating_add(1))
}

/// Lenient: the mark is skipped also where a careless editor has kept a part of it.
fn without_mark(octets: &[u8]) -> &[u8] {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let length = octets.iter().zip(MARK).take_while(|(octet, mark)| octet == mark).count();
    slice::from(octets, length)
}

impl Text<'_> {
    pub(crate) fn into_octets(self) -> Vec<u8> {
        self.octets.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_cut_by_the_limit_is_dropped() {
        assert_eq!(within(b"ab\ncd\nef", 8), (&b"ab\ncd\nef"[..], false));
        assert_eq!(within(b"ab\ncd\nef", 7), (&b"ab\ncd\n"[..], true));
        assert_eq!(within(b"ab\ncd\nef", 5), (&b"ab\ncd"[..], true));
        assert_eq!(within(b"ab\ncd\nef", 4), (&b"ab\n"[..], true));
        assert_eq!(within(b"abcdef", 4), (&b""[..], true));
    }

    #[test]
    fn marks_are_skipped_whole_or_in_part() {
        for body in [&b"\xef\xbb\xbfa"[..], b"\xef\xbba", b"\xefa", b"a"] {
            assert_eq!(*Text::of(body, 99).octets, *b"a");
        }
        assert_eq!(*Text::of(b"\xbba", 99).octets, *b"\xbba");
    }

    #[test]
    fn utf16_with_a_mark_is_decoded() {
        assert_eq!(*Text::of(b"\xff\xfea\0\xe9\0\n\0", 99).octets, *"aé\n".as_bytes());
        assert_eq!(*Text::of(b"\xfe\xff\0a\0\xe9\0\n\0", 99).octets, *"aé\n".as_bytes());
    }

    #[test]
    fn the_line_of_utf16_cut_by_the_limit_is_dropped() {
        let body = b"\xff\xfea\0\n\0b\0c\0";
        for (limit, octets, cut) in
            [(9, "a\nbc", false), (8, "a\nbc", false), (7, "a\n", true), (6, "a\n", true), (2, "", true)]
        {
            let text = Text::of(body, limit);
            assert_eq!((&*text.octets, text.cut), (octets.as_bytes(), cut), "{limit}");
        }
    }
}
