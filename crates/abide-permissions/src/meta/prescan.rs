//! Which encoding a document declares of itself, in its first bytes: the prescan of the HTML standard
//! (§13.2.3.2).
//!
//! It is asked for one encoding only, ISO-2022-JP. In all others that a document may declare of itself ASCII
//! is ASCII, and metas are read without decoding.

use encoding_rs::Encoding;

/// Bytes of a document within which a declaration of its encoding must stand.
pub(super) const PRESCAN_BYTES: usize = 1024;

/// The encoding of the first meta that declares one; without such a meta in all of the bytes, that of the XML
/// declaration.
pub(super) fn declared_encoding(first: &[u8], is_all: bool) -> Option<&'static Encoding> {
    if let Ok(encoding) = by_meta(Prescan(first)) {
        return Some(encoding);
    }
    let declaration = first.strip_prefix(b"<?xml").and_then(|rest| rest.split(|byte| *byte == b'>').next());
    declaration.filter(|_| is_all).and_then(xml_label).and_then(Encoding::for_label)
}

/// The name of the encoding in an XML declaration, if it has one; empty where it is not within quotes.
pub(super) fn xml_label(declaration: &[u8]) -> Option<&[u8]> {
    let at = declaration.windows(8).position(|word| word == b"encoding")?;
    let value = declaration.get(at.saturating_add(8)..).unwrap_or_default().trim_ascii_start();
    let value = value.strip_prefix(b"=").unwrap_or_default().trim_ascii_start();
    Some(value.split(|byte| matches!(byte, b'"' | b'\'')).nth(1).unwrap_or_default())
}

fn by_meta(mut bytes: Prescan<'_>) -> Result<&'static Encoding, OutOfBytes> {
    loop {
        bytes.skip_until(|byte| byte == b'<')?;
        match bytes.0 {
            [b'<', b'!', b'-', b'-', ..] => bytes.skip_comment()?,
            [b'<', m, e, t, a, b'/' | b'\t' | b'\n' | b'\x0c' | b'\r' | b' ', ..]
                if [*m, *e, *t, *a].eq_ignore_ascii_case(b"meta") =>
            {
                bytes.skip(5);
                if let Some(encoding) = bytes.encoding_of_meta()? {
                    return Ok(encoding);
                }
            }
            [b'<', b'/', letter, ..] | [b'<', letter, ..] if letter.is_ascii_alphabetic() => {
                bytes.skip_until(|byte| is_blank(byte) || byte == b'>')?;
                while bytes.attribute()?.is_some() {}
            }
            [b'<', b'!' | b'/' | b'?', ..] => {
                bytes.skip_until(|byte| byte == b'>')?;
            }
            _ => bytes.skip(1),
        }
    }
}

/// What is left of the first bytes.
struct Prescan<'a>(&'a [u8]);

/// Its name and its value, as written.
type Attribute<'a> = (&'a [u8], &'a [u8]);

/// The document goes on where nothing is looked at.
struct OutOfBytes;

impl<'a> Prescan<'a> {
    fn skip(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    /// Skips to the next such byte, and returns what is before it.
    fn skip_until(&mut self, ends: impl Fn(u8) -> bool) -> Result<&'a [u8], OutOfBytes> {
        let end = self.0.iter().position(|byte| ends(*byte)).ok_or(OutOfBytes)?;
        let (before, rest) = self.0.split_at(end);
        self.0 = rest;
        Ok(before)
    }

    fn skip_blanks(&mut self) -> Result<u8, OutOfBytes> {
        self.skip_until(|byte| !is_blank(byte))?;
        self.0.first().copied().ok_or(OutOfBytes)
    }

    fn skip_comment(&mut self) -> Result<(), OutOfBytes> {
        // The two hyphens of the opening may be those of the end: `<!-->`.
        let end = self.0.windows(3).skip(2).position(|three| three == b"-->").ok_or(OutOfBytes)?;
        self.skip(end.saturating_add(5));
        Ok(())
    }

    /// The next attribute of a tag; `None` where there is no other.
    fn attribute(&mut self) -> Result<Option<Attribute<'a>>, OutOfBytes> {
        self.skip_until(|byte| !is_blank(byte) && byte != b'/')?;
        if self.0.starts_with(b">") {
            return Ok(None);
        }
        let start = self.0;
        // The first byte of a name may be an equals sign.
        self.skip(1);
        self.skip_until(|byte| is_blank(byte) || matches!(byte, b'=' | b'/' | b'>'))?;
        let name = start.get(..start.len().saturating_sub(self.0.len())).unwrap_or_default();
        if self.skip_blanks()? != b'=' {
            return Ok(Some((name, b"")));
        }
        self.skip(1);
        let quote = self.skip_blanks()?;
        if !matches!(quote, b'"' | b'\'') {
            return Ok(Some((name, self.skip_until(|byte| is_blank(byte) || byte == b'>')?)));
        }
        self.skip(1);
        let value = self.skip_until(|byte| byte == quote)?;
        self.skip(1);
        Ok(Some((name, value)))
    }

    /// The encoding that a meta declares with its attributes, which follow.
    fn encoding_of_meta(&mut self) -> Result<Option<&'static Encoding>, OutOfBytes> {
        let (mut charset, mut content, mut is_pragma) = (None, None, None);
        while let Some((name, value)) = self.attribute()? {
            // Of attributes with one name, the first counts.
            if name.eq_ignore_ascii_case(b"charset") {
                charset.get_or_insert(value);
            } else if name.eq_ignore_ascii_case(b"content") {
                content.get_or_insert(value);
            } else if name.eq_ignore_ascii_case(b"http-equiv") {
                is_pragma.get_or_insert(value.eq_ignore_ascii_case(b"content-type"));
            }
        }
        // In the content of another meta it is a word of a description.
        let content = content.filter(|_| is_pragma == Some(true));
        Ok(charset.or_else(|| content.and_then(label_within)).and_then(Encoding::for_label))
    }
}

/// The label in `text/html; charset=…` (HTML §2.4.4).
fn label_within(content: &[u8]) -> Option<&[u8]> {
    let mut rest = content;
    loop {
        let at = rest.windows(7).position(|word| word.eq_ignore_ascii_case(b"charset"))?;
        rest = rest.get(at.saturating_add(7)..)?.trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            let value = value.trim_ascii_start();
            return match value {
                [quote @ (b'"' | b'\''), quoted @ ..] => {
                    quoted.get(..quoted.iter().position(|byte| byte == quote)?)
                }
                _ => value.split(|byte| is_blank(*byte) || *byte == b';').next(),
            };
        }
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

#[cfg(test)]
mod tests {
    use encoding_rs::ISO_2022_JP;

    use super::*;

    #[test]
    fn the_first_declaration_counts() {
        for (head, expected) in [
            ("<meta charset=iso-2022-jp>", true),
            ("<META/CHARSET = 'ISO-2022-JP' >", true),
            ("<meta http-equiv=Content-Type content='text/html; charset=iso-2022-jp'>", true),
            ("<meta content='text/html;charset= \"iso-2022-jp\"' http-equiv='content-type'>", true),
            ("<meta http-equiv=content-type content='charset; charset = iso-2022-jp;x'>", true),
            ("<meta http-equiv=content-type content='charset=\"iso-2022-jp'>", false),
            ("<meta http-equiv=refresh content='charset=utf-8'><meta charset=iso-2022-jp>", true),
            ("<!doctype html><title>a</title><meta name=a><meta charset=csiso2022jp>", true),
            ("<meta content='charset=utf-8 matters'><meta charset=iso-2022-jp>", true),
            ("<meta charset=utf-8><meta charset=iso-2022-jp>", false),
            ("<meta charset=utf-8 charset=iso-2022-jp>", false),
            ("<meta charset=nonsense><meta charset=iso-2022-jp>", true),
            // What is within a value is none of the tag.
            ("<meta name=a content='a > b' charset=iso-2022-jp>", true),
            ("<link title='<meta charset=utf-8>'><meta charset=iso-2022-jp>", true),
            ("<a title=\"x>y\" a='<meta charset=utf-8>'><meta charset=iso-2022-jp>", true),
            ("</a title='<meta charset=utf-8>'><meta charset=iso-2022-jp>", true),
            ("<meta data-charset=utf-8><meta charset=iso-2022-jp>", true),
            ("<meta name=charset content=x charset-y=z><meta charset=iso-2022-jp>", true),
            ("<meta ==charset=utf-8><meta charset=iso-2022-jp>", true),
            ("<meta title charset=iso-2022-jp>", true),
            ("<!x '><meta charset=iso-2022-jp>", true),
            ("</ '><meta charset=iso-2022-jp>", true),
            ("<?php '><meta charset=iso-2022-jp>", true),
            ("a < b <3 <meta charset=iso-2022-jp>", true),
            ("<!-- <meta charset=iso-2022-jp> -->", false),
            ("<!--><meta charset=iso-2022-jp>", true),
            ("<metal charset=iso-2022-jp>", false),
            ("<meta charset=iso-2022-jp", false),
            ("<meta charset='iso-2022-jp>", false),
            ("<meta charset>", false),
            ("<meta", false),
            ("<?xml version='1.0' encoding = 'ISO-2022-JP'?><title>a</title>", true),
            ("<?xml encoding='iso-2022-jp'?><meta charset=utf-8>", false),
            ("<?xml encoding='utf-8'?><meta charset=iso-2022-jp>", true),
            ("<?xml ?><a encoding='iso-2022-jp'>", false),
            ("", false),
        ] {
            let found = declared_encoding(head.as_bytes(), true);
            assert_eq!(found == Some(ISO_2022_JP), expected, "{head}");
        }
    }
}
