//! Values of header fields in which quoted strings may stand (RFC 9110 §5.6.4).
//!
//! Structured fields are parsed by sfv. `Link`, `Content-Type` and `WWW-Authenticate` are older, and sites
//! take liberties with them.

use std::borrow::Cow;

/// The parts of a value between separators that are not within quotes, nor within `<` and `>` if these are
/// `brackets`.
pub(crate) fn split(value: &[u8], separator: u8, brackets: bool) -> impl Iterator<Item = &[u8]> {
    // Most values have no strings.
    let is_plain = !brackets && !value.contains(&b'"');
    let (mut in_string, mut in_brackets, mut escaped) = (false, false, false);
    value.split(move |byte| {
        if is_plain {
            return *byte == separator;
        }
        let is_escaped = std::mem::take(&mut escaped);
        match byte {
            b'\\' if in_string => escaped = !is_escaped,
            b'"' if !in_brackets && !is_escaped => in_string = !in_string,
            b'<' | b'>' if brackets && !in_string => in_brackets = *byte == b'<',
            byte => return *byte == separator && !in_string && !in_brackets,
        }
        false
    })
}

/// The value of a parameter, without quotes of either kind. Lenient: single ones are no syntax, and people
/// write them.
pub(crate) fn unquoted(value: &[u8]) -> Cow<'_, [u8]> {
    match value.trim_ascii() {
        [b'"', rest @ ..] => {
            let (mut inner, mut rest) = (Vec::new(), rest.iter());
            while let Some(byte) = rest.next().filter(|byte| **byte != b'"') {
                inner.extend(if *byte == b'\\' { rest.next() } else { Some(byte) });
            }
            Cow::Owned(inner)
        }
        [b'\'', inner @ .., b'\''] => Cow::Borrowed(inner),
        value => Cow::Borrowed(value),
    }
}
