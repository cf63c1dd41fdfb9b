//! Signs that a file was spoilt on its way to the server: lines that were joined, and UTF-16 without its
//! mark.
//!
//! Nothing of such a file is read as its author meant it, and no other remark says why. For remarks only: a
//! guess changes no verdict.

use core::ops::Range;

use crate::line::{self, RecordKind};
use crate::profile::Profile;
use crate::slice;

/// Where a second record begins on a line, or a line end is written out as the two characters `\n`. The value
/// of the first begins at `value_at`.
pub(crate) fn second_record(line: &[u8], value_at: usize) -> Option<Range<usize>> {
    written_line_end(line).or_else(|| key_in_value(line::without_comment(line), value_at))
}

/// `\n` or `\r` with a record, another one or nothing behind it. Comments are looked at too: one may hide the
/// whole file.
fn written_line_end(line: &[u8]) -> Option<Range<usize>> {
    let mut backslashes = memchr::memchr_iter(b'\\', line);
    let at = backslashes.find(|&at| {
        let [b'\\', b'n' | b'r', rest @ ..] = slice::from(line, at) else { return false };
        let is_end = rest.iter().all(u8::is_ascii_whitespace);
        is_end || matches!(rest, [b'\\' | b'#', ..]) || known_key(rest).is_some()
    })?;
    Some(at..at.saturating_add(2))
}

fn key_in_value(content: &[u8], value_at: usize) -> Option<Range<usize>> {
    let is_space = |at: usize| content.get(at).is_some_and(|byte| line::is_space(*byte));
    let is_word = |at: &usize| !is_space(*at) && (*at == value_at || is_space(at.wrapping_sub(1)));
    let mut words = (value_at..content.len()).filter(is_word);
    words.find_map(|at| Some(at..at.saturating_add(known_key(slice::from(content, at))?)))
}

/// The bytes before the colon, if they are a key that is read, perhaps with space around it.
fn known_key(text: &[u8]) -> Option<usize> {
    /// Of the longest key and some space: what bounds a look bounds all looks on a line.
    const KEY_MAX: usize = 24;
    let colon = memchr::memchr(b':', slice::before(text, KEY_MAX))?;
    let (kind, _) = line::kind_of(line::name(slice::before(text, colon), Profile::Rfc9309), Profile::Rfc9309);
    (kind != RecordKind::Other).then_some(colon)
}

/// Whether the text is UTF-16, by its NULs: of ASCII, such as keys, they are one half of the bytes, and
/// hardly one stands in the other half.
pub(crate) fn is_utf16(text: &[u8]) -> bool {
    let pairs = text.as_chunks::<2>().0;
    let has_mark = matches!(text, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    let first = pairs.iter().filter(|[first, _]| *first == 0).count();
    let second = pairs.iter().filter(|[_, second]| *second == 0).count();
    !has_mark && first.max(second) > pairs.len() / 4 && first.min(second) < first.max(second) / 4
}
