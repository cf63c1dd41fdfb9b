//! Whether a document declares ISO-2022-JP in its first bytes: the prescan of the HTML standard (§13.2.3.2), for this one encoding.
//!
//! In all other encodings that a document may declare of itself ASCII is ASCII, and metas are read without decoding.

use encoding_rs::{Encoding, ISO_2022_JP};

/// Bytes of a document within which a declaration of its encoding must stand.
pub(super) const PRESCAN_BYTES: usize = 1024;

/// Whether the first meta that declares an encoding declares this one; without such a meta in all of the bytes, the XML declaration.
pub(super) fn declares_iso_2022_jp(first: &[u8], is_all: bool) -> bool {
    let mut bytes = first;
    while let Some(at) = bytes.iter().position(|byte| *byte == b'<') {
        bytes = bytes.get(at..).unwrap_or_default();
        let end = if bytes.starts_with(b"<!--") {
            // The two hyphens of the opening may be those of the end: `<!-->`.
            bytes.windows(3).skip(2).position(|three| three == b"-->").map(|at| at.saturating_add(5))
        } else {
            bytes.iter().position(|byte| *byte == b'>').map(|at| at.saturating_add(1))
        };
        let Some((tag, rest)) = end.and_then(|end| bytes.split_at_checked(end)) else { break };
        if let Some(encoding) = declared(tag) {
            return encoding == ISO_2022_JP;
        }
        bytes = rest;
    }
    let declaration = first.strip_prefix(b"<?xml").and_then(|rest| rest.split(|byte| *byte == b'>').next());
    is_all && declaration.and_then(xml_label).and_then(Encoding::for_label) == Some(ISO_2022_JP)
}

/// The name of the encoding in an XML declaration, if it has one; empty where it is not within quotes.
pub(super) fn xml_label(declaration: &[u8]) -> Option<&[u8]> {
    let at = declaration.windows(8).position(|word| word == b"encoding")?;
    let value = declaration.get(at.saturating_add(8)..).unwrap_or_default().trim_ascii_start();
    let value = value.strip_prefix(b"=").unwrap_or_default().trim_ascii_start();
    Some(value.split(|byte| matches!(byte, b'"' | b'\'')).nth(1).unwrap_or_default())
}

/// The encoding that a tag declares, if it is a meta: `charset=…`, as an attribute or within `content`.
fn declared(tag: &[u8]) -> Option<&'static Encoding> {
    let (name, attributes) = tag.split_at_checked(6)?;
    let is_meta = name.get(..5)?.eq_ignore_ascii_case(b"<meta");
    if !is_meta || !matches!(name.last()?, b'/' | b'\t' | b'\n' | b'\x0c' | b'\r' | b' ') {
        return None;
    }
    let has = |name: &[u8]| attributes.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name));
    // In the content of another meta it is a word of a description.
    if has(b"content") && !has(b"http-equiv") {
        return None;
    }
    let at = attributes.windows(7).position(|word| word.eq_ignore_ascii_case(b"charset"))?;
    let value =
        attributes.get(at.saturating_add(7)..)?.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';' | b'>' | b'/');
    let end = value.iter().position(ends).unwrap_or(value.len());
    Encoding::for_label(value.get(..end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_declaration_counts() {
        for (head, expected) in [
            ("<meta charset=iso-2022-jp>", true),
            ("<META/CHARSET = 'ISO-2022-JP' >", true),
            ("<meta http-equiv=Content-Type content='text/html; charset=iso-2022-jp'>", true),
            ("<!doctype html><title>a</title><meta name=a><meta charset=csiso2022jp>", true),
            ("<meta content='charset=utf-8 matters'><meta charset=iso-2022-jp>", true),
            ("<meta charset=utf-8><meta charset=iso-2022-jp>", false),
            ("<!-- <meta charset=iso-2022-jp> -->", false),
            ("<!--><meta charset=iso-2022-jp>", true),
            ("<metal charset=iso-2022-jp>", false),
            ("<meta charset=iso-2022-jp", false),
            ("<meta charset>", false),
            ("<meta", false),
            ("<?xml version='1.0' encoding = 'ISO-2022-JP'?><title>a</title>", true),
            ("<?xml encoding='iso-2022-jp'?><meta charset=utf-8>", false),
            ("<?xml encoding='utf-8'?><meta charset=iso-2022-jp>", true),
            ("<?xml ?><a encoding='iso-2022-jp'>", false),
            ("", false),
        ] {
            assert_eq!(declares_iso_2022_jp(head.as_bytes(), true), expected, "{head}");
        }
    }
}
