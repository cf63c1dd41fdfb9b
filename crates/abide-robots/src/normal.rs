//! The normal form that targets and patterns are compared in, RFC 9309 §2.2.2 and 2.2.3.
//!
//! * Percent-encoded unreserved characters are decoded; the digits of other escapes are upper-case.
//! * Bytes that a path cannot hold (controls, space, beyond ASCII, `"<>[\]^{|}` and the backtick) are
//!   encoded.
//! * `*` and `$` are encoded where they stand for themselves, so that in a pattern `*` is always "any bytes"
//!   and `$` always "the end" (§2.2.3).
//! * In the query `:`, `/`, `?` and `@` delimit nothing: their escapes are decoded there (§2.2.2, second row
//!   of the table; the RFC encodes both, we decode both, which compares the same). `%2F` stays what it is in
//!   a path. Neither does `'`, and URL parsers write `%27` for it there, so a `url::Url` and a text agree.
//! * A `%` that starts no escape is kept, and a second hexadecimal digit behind it is encoded, so that it
//!   does not become one. So a normal form is its own normal form.
//!
//! The normal form is ASCII, whatever went in.

use alloc::vec::Vec;

use crate::slice;

/// What a byte asks for: the bits of [`CLASS`].
pub(crate) const REWRITE: u8 = 1;
pub(crate) const STAR: u8 = 2;
pub(crate) const QUERY: u8 = 4;
pub(crate) const HASH: u8 = 8;

/// One look per byte says whether a text is its own normal form already, as nearly all are.
#[allow(clippy::indexing_slicing, reason = "the compiler evaluates it")]
static CLASS: [u8; 256] = {
    let mut class = [REWRITE; 256];
    let plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!&'()+,;=:@/";
    let mut at = 0;
    while at < plain.len() {
        class[plain[at] as usize] = 0;
        at += 1;
    }
    class[b'*' as usize] = STAR;
    class[b'?' as usize] = QUERY;
    class[b'#' as usize] = REWRITE | HASH;
    class
};

#[inline]
pub(crate) fn classes(text: &[u8]) -> u8 {
    let (words, tail) = text.as_chunks::<8>();
    let of_words = words.iter().fold(0, |seen, [a, b, c, d, e, f, g, h]| {
        seen | class(a) | class(b) | class(c) | class(d) | class(e) | class(f) | class(g) | class(h)
    });
    tail.iter().fold(of_words, |seen, byte| seen | class(byte))
}

#[inline]
#[allow(clippy::indexing_slicing, reason = "a byte is below 256")]
fn class(byte: &u8) -> u8 {
    CLASS[usize::from(*byte)]
}

/// The classes that occur in a pattern, whose final `$` is its own normal form.
#[inline]
pub(crate) fn classes_of_pattern(text: &[u8]) -> u8 {
    classes(text.strip_suffix(b"$").unwrap_or(text))
}

/// Which of the two sides of a comparison is being written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// `*` and a final `$` are special.
    Pattern,
    /// Nothing is.
    Target,
}

pub(crate) fn push_normal(text: &[u8], side: Side, out: &mut Vec<u8>) {
    let mut in_query = false;
    // How long `out` will be with the second byte behind the last `%` that starts no escape.
    let mut second = 0;
    let mut text = text;
    while let [byte, rest @ ..] = text {
        text = rest;
        let is_second =
            out.len().saturating_add(1) == second && out.last().is_some_and(u8::is_ascii_hexdigit);
        match *byte {
            b'%' => match escape(rest) {
                Some(value) => {
                    text = slice::from(rest, 2);
                    if is_second && value.is_ascii_hexdigit() {
                        push_percent(value, out);
                    } else {
                        push_escaped(value, in_query, out);
                    }
                }
                None => {
                    out.push(b'%');
                    second = out.len().saturating_add(2);
                }
            },
            // The first one was an escape.
            digit if is_second && digit.is_ascii_hexdigit() => push_percent(digit, out),
            b'*' if side == Side::Pattern => out.push(b'*'),
            b'$' if side == Side::Pattern && rest.is_empty() => out.push(b'$'),
            b'?' => {
                in_query = true;
                out.push(b'?');
            }
            _ if class(byte) == 0 => out.push(*byte),
            _ => push_percent(*byte, out),
        }
    }
}

/// Appends the form that Google's parser compares: escapes are upper-cased and bytes beyond ASCII encoded in
/// patterns; targets are taken as they are. What is literally `*`, `$` or NUL gets a byte of its own. So no
/// pattern holds a byte beyond ASCII, and those of a target are equal to none in it.
pub(crate) fn push_google(text: &[u8], side: Side, out: &mut Vec<u8>) {
    const LITERAL: u8 = 0x80;
    const NOT_IN_PATTERNS: u8 = 0xff;
    let mut text = text;
    while let [byte, rest @ ..] = text {
        text = rest;
        match (*byte, rest) {
            (b'*', _) if side == Side::Target => out.push(b'*' | LITERAL),
            (b'$', _) if side == Side::Target || !rest.is_empty() => out.push(b'$' | LITERAL),
            (b'%', [high, low, behind @ ..]) if side == Side::Pattern && escape(rest).is_some() => {
                out.extend([b'%', high.to_ascii_uppercase(), low.to_ascii_uppercase()]);
                text = behind;
            }
            (0, _) => out.push(LITERAL),
            (0x80.., _) if side == Side::Pattern => push_percent(*byte, out),
            (0x80.., _) => out.push(NOT_IN_PATTERNS),
            _ => out.push(*byte),
        }
    }
}

/// Whether a target is its own form in [`push_google`].
pub(crate) fn is_googles_form(target: &[u8]) -> bool {
    !target.iter().any(|byte| matches!(byte, 0 | b'*' | b'$' | 0x80..))
}

/// Rewrites the escapes of a normal form that mean something else when they lie in the query.
///
/// A pattern may reach the query through a `*` without a `?` of its own: `/*url=http%3A%2F%2F`. Its bytes
/// after the first `*` then match either in the path, as they stand, or in the query, in the form that this
/// function makes. `None` when both forms are the same.
pub(crate) fn query_form(normal: &[u8]) -> Option<Vec<u8>> {
    let star = normal.iter().position(|&byte| byte == b'*')?;
    let (head, mut rest) = normal.split_at_checked(star)?;
    if head.contains(&b'?') {
        return None;
    }
    let mut out = head.to_vec();
    while let [byte, behind @ ..] = rest {
        match escape(behind) {
            Some(value) if *byte == b'%' && delimits_nothing_in_query(value) => {
                out.push(value);
                rest = slice::from(behind, 2);
            }
            _ => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    (out.len() < normal.len()).then_some(out)
}

/// The bytes of a normal form as RFC 9309 §2.2.2 counts them: in the query its delimiters count as their
/// encodings.
///
/// A pattern that reaches the query through a `*` counts as it is written, as the same bytes may lie in the
/// path: of `/*u=http://` and `/*u=http%3A%2F%2F`, which cover the same queries, the second has more bytes.
pub(crate) fn bytes(normal: &[u8]) -> usize {
    match normal.iter().position(|&byte| byte == b'?') {
        None => normal.len(),
        Some(query) => {
            let in_query = slice::behind(normal, query).iter();
            let encoded = in_query.filter(|&&byte| delimits_nothing_in_query(byte)).count();
            normal.len().saturating_add(encoded.saturating_mul(2))
        }
    }
}

fn push_escaped(value: u8, in_query: bool, out: &mut Vec<u8>) {
    let unreserved = value.is_ascii_alphanumeric() || matches!(value, b'-' | b'.' | b'_' | b'~');
    if unreserved || (in_query && delimits_nothing_in_query(value)) {
        out.push(value);
    } else {
        push_percent(value, out);
    }
}

fn delimits_nothing_in_query(byte: u8) -> bool {
    // `[` and `]` belong here too, but a path cannot hold them either, so they are encoded everywhere.
    matches!(byte, b':' | b'/' | b'?' | b'@' | b'\'')
}

/// The value of the two hexadecimal digits that `text` starts with.
pub(crate) fn escape(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    match text {
        [high, low, ..] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    }
}

pub(crate) fn push_percent(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| HEX.get(usize::from(value)).copied().unwrap_or_default();
    out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
}
