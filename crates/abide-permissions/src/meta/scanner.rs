//! The head scanner: bytes of a document in, its metas out, as soon as the head has ended; and which
//! documents are read, and how.
//!
//! What users feed. It chooses the scan of HTML or of XML by the content type, and bounds how much of either
//! is kept.
//!
//! Browsers extract a MIME type from all Content-Type lines (Fetch, "extract a MIME type"), and look at the
//! document itself where there is none, or one that says that it is unknown (MIME Sniffing §7). Servers send
//! both kinds of mistakes, and a page that a browser shows as HTML has metas that count.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use super::html::HtmlScan;
use super::xml::XmlScan;
use crate::head::{FoundInHead, Head, HeadEnd};
use crate::options::ReadOptions;
use crate::quoted::{split, unquoted};

/// Finds the metas of an HTML head while its bytes stream past, and knows exactly where the head ends.
///
/// One scanner serves one response. Feed it the body, content-decoded, in pieces of any size until it says
/// [`ControlFlow::Break`]; what it finds in the head does not depend on the pieces. It never panics and may
/// be dropped at any time.
///
/// A robots meta behind the head is looked for in the piece in which the head ends, and in what follows as
/// [`ReadOptions::with_whole_document`] says.
///
/// ```
/// use std::ops::ControlFlow;
/// use abide_permissions::{HeadEnd, HeadScanner, ReadOptions};
///
/// let options = ReadOptions::new("ExampleBot".parse()?);
/// let mut scanner = HeadScanner::new(&options, Some("text/html"));
/// assert_eq!(scanner.feed(b"<html><head><meta name=robots cont"), ControlFlow::Continue(()));
/// assert_eq!(scanner.feed(b"ent=noindex></head><p>Text"), ControlFlow::Break(()));
///
/// let head = scanner.finish();
/// assert_eq!(head.metas()[0].content(), "noindex");
/// assert_eq!(head.end(), HeadEnd::Ended);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Known deviations from a browser, all in contrived documents: templates that contain `<col>`, svg or
/// math, or an unclosed `<noscript>` (once svg or math was seen inside a template of the head, text no longer
/// ends the head); in the reading without scripting, what is left unfinished inside a noscript and would
/// swallow its end; and a zero in a tag right behind the text that ends a head, which leaves it unknown in
/// some pieces.
pub struct HeadScanner {
    /// In a box, so that moving the scanner costs little.
    html: Box<HtmlScan>,
    /// For a document that should be XML. Stricter: one that is not well-formed is unknown in any case, and
    /// what it forbids in the eyes of HTML readers counts too.
    xml: Option<Box<XmlScan>>,
    head_limit: usize,
    bytes: usize,
    end: Option<HeadEnd>,
}

impl HeadScanner {
    /// A scanner for a response with this Content-Type; of several lines, all of them with commas between
    /// them. The MIME type is extracted as the Fetch standard does. `text/html` is read as HTML and
    /// `application/xhtml+xml` as XML; HTML is also what has no MIME type, or one that means "unknown"
    /// (`*/*`, `unknown/unknown`, `application/unknown`). Any other type of XML (`text/xml`, `application/
    /// xml`, `…+xml`) is read as XML if the root of the document is XHTML's `html`, else it is
    /// [`HeadEnd::NotHtml`], like any other type.
    pub fn new(options: &ReadOptions, content_type: Option<&str>) -> Self {
        Self::of(options, &ContentType::read(content_type.map(str::as_bytes)))
    }

    /// The same for a response whose page is to be scanned; `None` if it has none.
    pub fn of_page(options: &ReadOptions, content_type: Option<&[u8]>) -> Option<Self> {
        let content_type = ContentType::read(content_type);
        content_type.syntax.map(|_| Self::of(options, &content_type))
    }

    fn of(options: &ReadOptions, content_type: &ContentType<'_>) -> Self {
        let charset = content_type.charset();
        let is_xml = matches!(content_type.syntax, Some(Syntax::Xml | Syntax::OtherXml));
        let may_be_other = content_type.syntax == Some(Syntax::OtherXml);
        Self {
            html: Box::new(HtmlScan::new(options, charset.as_deref(), content_type)),
            xml: is_xml.then(|| Box::new(XmlScan::new(charset.as_deref(), options, may_be_other))),
            head_limit: options.head_limit(),
            bytes: 0,
            end: if content_type.syntax.is_some() { None } else { Some(HeadEnd::NotHtml) },
        }
    }

    /// Takes the next bytes of the body. `Break`: nothing that follows can matter, so finish.
    pub fn feed(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let room = self.head_limit.saturating_sub(self.bytes);
        let mut rest = bytes.get(..room).unwrap_or(bytes);
        while !rest.is_empty() && self.end.is_none() {
            let (piece, ahead) = rest.split_at(rest.len().min(PIECE_BYTES));
            self.bytes = self.bytes.saturating_add(piece.len());
            self.write(piece, ahead, false);
            rest = ahead;
        }
        // Exactly as many bytes as the limit may be the whole document: only one more is too many.
        if self.end.is_none() && bytes.len() > room {
            self.end = Some(self.end_or(HeadEnd::ByteLimit));
        }
        if self.end.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// The body has ended, or enough was seen.
    pub fn finish(mut self) -> Head {
        if self.end.is_none() {
            self.write(b"", b"", true);
        }
        self.into_head(HeadEnd::Eof)
    }

    /// The body broke off, or the caller stops reading: the head is what was found so far.
    pub fn interrupt(self) -> Head {
        self.into_head(HeadEnd::Interrupted)
    }

    /// Takes the next bytes, which may be the `last`, and shows those that have come with them.
    fn write(&mut self, bytes: &[u8], ahead: &[u8], last: bool) {
        let Some(xml) = &mut self.xml else {
            self.end = self.html.write(bytes, ahead, last);
            return;
        };
        let end = xml.write(bytes, ahead, last);
        // XML that ended its head well needs no second reading; anything else is read as HTML to the end, for
        // what it may forbid.
        let is_read = xml.is_read() || self.html.write(bytes, ahead, last).is_some() || last;
        self.end = end.filter(|_| is_read);
    }

    /// How a scan ends that is stopped for this reason: one that has passed the end of the head knows the
    /// head.
    fn end_or(&mut self, reason: HeadEnd) -> HeadEnd {
        match &self.xml {
            Some(xml) if xml.is_read() => HeadEnd::Ended,
            Some(xml) => xml.end.unwrap_or(reason),
            None if self.html.has_ended() => HeadEnd::Ended,
            None => reason,
        }
    }

    fn into_head(mut self, otherwise: HeadEnd) -> Head {
        let scanned = self.end.unwrap_or_else(|| self.end_or(otherwise));
        let is_undecoded = self.html.is_undecoded && !self.xml.as_ref().is_some_and(|xml| xml.is_read());
        let end = match scanned {
            // The other ends leave the head unknown as they are.
            HeadEnd::Ended | HeadEnd::Eof if self.html.is_unclear => HeadEnd::Unclear,
            HeadEnd::Ended | HeadEnd::Eof if is_undecoded => HeadEnd::UnknownCharset,
            end => end,
        };
        let found = match self.xml {
            Some(xml) if xml.is_read() => xml.found,
            Some(xml) => united(xml.found, self.html.into_found()),
            None => self.html.into_found(),
        };
        Head::new(found, end, self.bytes)
    }
}

/// What was found in either way of reading the document.
fn united(mut xml: FoundInHead, mut html: FoundInHead) -> FoundInHead {
    xml.add_strays_of(&mut html);
    xml.metas.extend(html.metas.into_iter().filter(|meta| !xml.metas.contains(meta)).collect::<Vec<_>>());
    let links = html.license_links.into_iter().filter(|url| !xml.license_links.contains(url));
    xml.license_links.extend(links.collect::<Vec<_>>());
    FoundInHead { noscript_metas: html.noscript_metas, ..xml }
}

impl fmt::Debug for HeadScanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadScanner")
            .field("bytes", &self.bytes)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// What comes at once is looked at, and where it must be, decoded, in pieces of this size: a token is cut by
/// the frames of a client alone.
const PIECE_BYTES: usize = 16 * 1024;

/// How a document is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Html,
    /// Of no MIME type, or one that means "unknown": read as HTML, which it is unless its beginning says that
    /// it is XML.
    Unknown,
    Xml,
    /// Of another type of XML: read as XHTML if its root is.
    OtherXml,
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
            // Fetch, "extract a MIME type": the last one counts, and the charset of one before it that is the
            // same.
            let is_same = last.is_some_and(|(essence, _)| essence.eq_ignore_ascii_case(mime.essence));
            charset = mime.charset.or(charset.filter(|_| is_same));
            // It may be another document, and does not supersede a page.
            let page = kind.filter(|kind| *kind != Syntax::OtherXml);
            last = Some((mime.essence, page));
            if page.is_some() || said == Syntax::OtherXml.bit() {
                charset_of_page = charset;
            }
        }
        let says = |syntax: &Syntax| said & syntax.bit() != 0;
        // Stricter: Fetch takes the last value. A client that takes another one sees a page, and its metas.
        let kinds = [Syntax::Html, Syntax::Xml, Syntax::Unknown, Syntax::OtherXml];
        let any = || kinds.into_iter().find(says);
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
        } else if is("text/xml") || is("application/xml") || self.has_xml_suffix() {
            Some(Syntax::OtherXml)
        } else {
            None
        }
    }

    /// MIME Sniffing §4.6, "XML MIME type".
    fn has_xml_suffix(&self) -> bool {
        self.essence
            .len()
            .checked_sub(4)
            .and_then(|at| self.essence.get(at..))
            .is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+xml"))
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
        let table = include_str!("../../tests/vectors/mime_types.tsv");
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
