//! Which documents are read for metas, and how: by their Content-Type, as browsers take it.
//!
//! Browsers extract a MIME type from all Content-Type lines (Fetch, "extract a MIME type"), and look at the document itself where there is
//! none, or one that says that it is unknown (MIME Sniffing §7). Servers send both kinds of mistakes, and a page that a browser shows
//! as HTML has metas that count.

use std::borrow::Cow;

use crate::quoted::{split, unquoted};

/// How a document is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Html,
    /// Of no MIME type, or one that means "unknown": read as HTML, which it is unless its beginning says that it is XML.
    Unknown,
    Xml,
}

impl Syntax {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentType<'a> {
    /// `None`: the document is not HTML.
    pub(crate) syntax: Option<Syntax>,
    /// It says HTML as well as XML, and read in the other way the document may have other metas.
    pub(crate) is_unclear: bool,
    /// As it is written, quotes and all.
    charset: Option<&'a [u8]>,
}

impl<'a> ContentType<'a> {
    /// Reads the value of the field; of several lines, all of them with commas between them.
    pub(crate) fn read(value: Option<&'a [u8]>) -> Self {
        // As most pages have it, and most of what is none.
        match value {
            Some(b"text/html; charset=utf-8" | b"text/html; charset=UTF-8") => {
                let charset = value.map(|value| value.split_at(b"text/html; charset=".len()).1);
                return Self { syntax: Some(Syntax::Html), is_unclear: false, charset };
            }
            Some(b"text/plain" | b"application/json" | b"application/pdf" | b"image/jpeg" | b"image/png") => {
                return Self { syntax: None, is_unclear: false, charset: None };
            }
            _ => {}
        }
        let mut said = 0;
        let mut last: Option<(&[u8], Option<Syntax>)> = None;
        let (mut charset, mut charset_of_page) = (None, None);
        for value in split(value.unwrap_or_default(), b',', false).map(<[u8]>::trim_ascii) {
            let Some(mime) = Mime::parse(value) else {
                // An empty value says nothing, and does not contradict the others either.
                if !value.is_empty() {
                    said |= Syntax::Unknown.bit();
                }
                continue;
            };
            if mime.essence == b"*/*" {
                continue;
            }
            let kind = mime.kind();
            said |= kind.map_or(0, Syntax::bit);
            // Fetch, "extract a MIME type": the last one counts, and the charset of one before it that is the same.
            let is_same = last.is_some_and(|(essence, _)| essence.eq_ignore_ascii_case(mime.essence));
            charset = mime.charset.or(charset.filter(|_| is_same));
            last = Some((mime.essence, kind));
            if kind.is_some() {
                charset_of_page = charset;
            }
        }
        let says = |syntax: &Syntax| said & syntax.bit() != 0;
        // Stricter: Fetch takes the last value. A client that takes another one sees a page, and its metas.
        let any = || [Syntax::Html, Syntax::Xml, Syntax::Unknown].into_iter().find(says);
        let syntax = last.map_or(Some(Syntax::Unknown), |(_, kind)| kind).or_else(any);
        // One reading finds what the other misses. A page that is taken for something else has no metas.
        let is_unclear = says(&Syntax::Xml) && (says(&Syntax::Html) || says(&Syntax::Unknown));
        Self { syntax, is_unclear, charset: charset_of_page }
    }

    /// The name of the encoding.
    pub(crate) fn charset(&self) -> Option<Cow<'a, [u8]>> {
        self.charset.map(unquoted)
    }
}

/// A MIME type, as far as it matters here (MIME Sniffing §4.4).
struct Mime<'a> {
    essence: &'a [u8],
    charset: Option<&'a [u8]>,
}

impl<'a> Mime<'a> {
    fn parse(value: &'a [u8]) -> Option<Self> {
        // Nearly all values end here, so nothing is split before something else comes.
        let end = value.iter().position(|byte| *byte != b'/' && !is_token_byte(*byte));
        let (essence, parameters) = value.split_at_checked(end.unwrap_or(value.len()))?;
        let slash = essence.iter().position(|byte| *byte == b'/').filter(|slash| *slash > 0)?;
        let subtype = essence.get(slash.saturating_add(1)..)?;
        let is_type = matches!(parameters.trim_ascii_start(), [] | [b';', ..]);
        if subtype.is_empty() || subtype.contains(&b'/') || !is_type {
            return None;
        }
        let charset = split(parameters, b';', false).find_map(|parameter| {
            let at = parameter.iter().position(|byte| *byte == b'=')?;
            let (name, value) = parameter.split_at_checked(at)?;
            let value = value.split_first()?.1.trim_ascii_end();
            (name.trim_ascii().eq_ignore_ascii_case(b"charset") && !value.is_empty()).then_some(value)
        });
        Some(Self { essence, charset })
    }

    /// How a document of this type is read; `None`: it is not HTML.
    fn kind(&self) -> Option<Syntax> {
        let is = |name: &str| self.essence.eq_ignore_ascii_case(name.as_bytes());
        if is("text/html") {
            Some(Syntax::Html)
        } else if is("application/xhtml+xml") {
            Some(Syntax::Xml)
        } else if is("unknown/unknown") || is("application/unknown") {
            Some(Syntax::Unknown)
        } else {
            None
        }
    }
}

/// RFC 9110 §5.6.2.
fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read_as_it_says() {
        let table = include_str!("../tests/vectors/mime_types.tsv");
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let columns: Vec<&str> = row.split('\t').collect();
            let read = ContentType::read(Some(columns[0].as_bytes()));
            let syntax = read.syntax.map_or("-".to_owned(), |syntax| format!("{syntax:?}"));
            assert_eq!(syntax + if read.is_unclear { "?" } else { "" }, columns[1], "{row}");
            let charset = read.charset().unwrap_or(Cow::Borrowed(b"-"));
            assert_eq!(String::from_utf8_lossy(&charset), columns[2], "{row}");
        }
        assert_eq!(ContentType::read(None).syntax, Some(Syntax::Unknown));
    }
}
