//! The space that is dropped around keys and values, and the characters that nobody sees.
//!
//! Pages and word processors put such characters into a pasted text, and a Disallow whose author sees nothing
//! wrong with it must not be lost for one.

use crate::line::RecordKind;
use crate::profile::Profile;
use crate::slice;

/// The space that is dropped around a key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// `WS = %x20 / %x09`
    Rfc9309,
    /// Stricter (RFC 9309 §2.2, `WS`): the white space of Unicode, and three characters without width that
    /// texts bring with them when they are pasted. Authors do not see them, and mean the key and the path
    /// that they see.
    Unseen,
    /// `isspace` of C, which Google's parser goes by.
    C,
}

impl Space {
    /// The space that a profile has by itself.
    pub(crate) fn of(profile: Profile) -> Self {
        match profile {
            Profile::Rfc9309 => Self::Rfc9309,
            Profile::Google => Self::C,
        }
    }

    pub(crate) fn around_key(profile: Profile) -> Self {
        match profile {
            Profile::Rfc9309 => Self::Unseen,
            Profile::Google => Self::C,
        }
    }

    /// Not more than the grammar has is dropped around the value of an Allow: a guess may add a restriction
    /// and never lift one.
    pub(crate) fn around_value(kind: RecordKind, profile: Profile) -> Self {
        match kind {
            RecordKind::Allow => Self::of(profile),
            _ => Self::around_key(profile),
        }
    }

    /// The bytes of the space character that the text starts with; 0: it starts with none.
    pub(crate) fn at_start(self, text: &[u8]) -> usize {
        self.length_of(text.first(), |length| text.get(..length))
    }

    fn at_end(self, text: &[u8]) -> usize {
        self.length_of(text.last(), |length| text.get(text.len().checked_sub(length)?..))
    }

    #[inline]
    fn length_of<'a>(self, edge: Option<&u8>, part: impl Fn(usize) -> Option<&'a [u8]>) -> usize {
        match edge {
            None | Some(b'!'..=b'~') => 0,
            Some(b' ' | b'\t') => 1,
            Some(_) => {
                (1..=LONGEST).find(|&length| part(length).is_some_and(|part| self.is(part))).unwrap_or(0)
            }
        }
    }

    /// Whether these bytes are one space character.
    fn is(self, bytes: &[u8]) -> bool {
        match self {
            Self::Rfc9309 => matches!(bytes, b" " | b"\t"),
            Self::C => matches!(bytes, [b'\t'..=b'\r' | b' ']),
            Self::Unseen => {
                let mut letters = core::str::from_utf8(bytes).unwrap_or_default().chars();
                letters.next().is_some_and(is_unseen) && letters.next().is_none()
            }
        }
    }
}

/// The bytes of the longest space character.
const LONGEST: usize = 3;

fn is_unseen(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{200b}' | '\u{2060}' | '\u{feff}')
}

/// Without the space around it.
#[inline]
pub(crate) fn trim(text: &[u8], space: Space) -> &[u8] {
    match text {
        // As nearly all values are written.
        [b' ', rest @ ..] if is_ascii_graphic(rest.first()) && is_ascii_graphic(rest.last()) => rest,
        _ => trim_any(text, space),
    }
}

/// Or the control DEL, which is no space: so the sign and one comparison decide.
#[inline]
fn is_ascii_graphic(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b'!'..=0x7f))
}

fn trim_any(text: &[u8], space: Space) -> &[u8] {
    let mut text = trim_start(text, space);
    while let length @ 1.. = space.at_end(text) {
        text = slice::before(text, text.len().saturating_sub(length));
    }
    text
}

pub(crate) fn trim_start(mut text: &[u8], space: Space) -> &[u8] {
    while let length @ 1.. = space.at_start(text) {
        text = slice::from(text, length);
    }
    text
}

/// Whether nobody sees the character: the categories Zs, Zl, Zp and Cf of Unicode 17, but for SP; and NEL,
/// which is white space too.
pub(crate) fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{85}' | '\u{a0}' | '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{1680}' | '\u{180e}' | '\u{2000}'..='\u{200f}'
        | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{3000}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

/// The characters of a text that nobody sees, each with its place.
pub(crate) fn invisible_in(text: &[u8]) -> impl Iterator<Item = (usize, char)> {
    let mut end = 0_usize;
    let letters = text.utf8_chunks().flat_map(move |chunk| {
        let start = end;
        end = start.saturating_add(chunk.valid().len()).saturating_add(chunk.invalid().len());
        chunk.valid().char_indices().map(move |(at, letter)| (start.saturating_add(at), letter))
    });
    letters.filter(|(_, letter)| is_invisible(*letter))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    #[test]
    fn each_unseen_character_is_dropped_and_remarked_on() {
        let unseen: String = (char::MIN..=char::MAX).filter(|letter| is_unseen(*letter)).collect();
        // 25 of White_Space, and three.
        assert_eq!(unseen.chars().count(), 28);
        for letter in unseen.chars() {
            assert!(letter.is_ascii() || is_invisible(letter), "{letter:?}");
            let text = format!("{letter}\t{letter}a{letter}b {letter}");
            assert_eq!(trim(text.as_bytes(), Space::Unseen), format!("a{letter}b").as_bytes());
            let kept = if letter == ' ' || letter == '\t' { format!("a{letter}b") } else { text.clone() };
            assert_eq!(trim(text.as_bytes(), Space::Rfc9309), kept.as_bytes());
        }
        assert_eq!(trim(unseen.as_bytes(), Space::Unseen), b"");
    }

    #[test]
    fn bytes_that_are_no_character_are_kept() {
        for text in
            [&b"\xa0"[..], b"\xc2", b"\xe2\x80", b"\x80\x8b", b"a\xa0", b"\xe3\x80\x80\x80", b"\xff /"]
        {
            let kept = trim(&[b" ", text, b"\t"].concat(), Space::Unseen).to_vec();
            assert_eq!(kept, text.strip_prefix(b"\xe3\x80\x80").unwrap_or(text));
        }
    }
}
