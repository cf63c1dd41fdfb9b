//! The head scanner: bytes of a document in, its metas out, as soon as the head has ended.
//!
//! What users feed. It chooses the scan of HTML or of XML by the content type, and bounds how much of either is kept.

use std::fmt;
use std::ops::ControlFlow;

use super::html::HtmlScan;
use super::xml::XmlScan;
use crate::content_type::{ContentType, Syntax};
use crate::head::{FoundInHead, Head, HeadEnd};
use crate::options::ReadOptions;

/// Finds the metas of an HTML head while its bytes stream past, and knows exactly where the head ends.
///
/// One scanner serves one response. Feed it the body, content-decoded, in pieces of any size until it says
/// [`ControlFlow::Break`]; what it finds does not depend on the pieces. It never panics and may be dropped at any time.
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
/// math, or an unclosed `<noscript>` (once svg or math was seen inside a template of the head, text no longer ends the head);
/// and, in the reading without scripting, what is left unfinished inside a noscript and would swallow its end.
pub struct HeadScanner {
    /// In a box, so that moving the scanner costs little.
    html: Box<HtmlScan>,
    /// For a document that should be XML. Stricter: one that is not well-formed is unknown in any case, and what it forbids in the eyes of
    /// HTML readers counts too.
    xml: Option<Box<XmlScan>>,
    head_limit: usize,
    bytes: usize,
    end: Option<HeadEnd>,
}

impl HeadScanner {
    /// A scanner for a response with this Content-Type; of several lines, all of them with commas between them. The MIME type is
    /// extracted as the Fetch standard does. `text/html` is read as HTML and `application/xhtml+xml` as XML; HTML is also what has no
    /// MIME type, or one that means "unknown" (`*/*`, `unknown/unknown`, `application/unknown`). Any other is
    /// [`HeadEnd::NotHtml`] at once.
    #[must_use]
    pub fn new(options: &ReadOptions, content_type: Option<&str>) -> Self {
        Self::of(options, &ContentType::read(content_type.map(str::as_bytes)))
    }

    /// The same for a response whose page is to be scanned; `None` if it has none.
    #[must_use]
    pub fn of_page(options: &ReadOptions, content_type: Option<&[u8]>) -> Option<Self> {
        let content_type = ContentType::read(content_type);
        content_type.syntax.map(|_| Self::of(options, &content_type))
    }

    fn of(options: &ReadOptions, content_type: &ContentType<'_>) -> Self {
        let charset = content_type.charset();
        let is_xml = content_type.syntax == Some(Syntax::Xml);
        Self {
            html: Box::new(HtmlScan::new(options, charset.as_deref(), content_type)),
            xml: is_xml.then(|| Box::new(XmlScan::new(charset.as_deref(), options))),
            head_limit: options.head_limit(),
            bytes: 0,
            end: if content_type.syntax.is_some() { None } else { Some(HeadEnd::NotHtml) },
        }
    }

    /// Takes the next bytes of the body. `Break`: nothing that follows can matter, so finish.
    pub fn feed(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let room = self.head_limit.saturating_sub(self.bytes);
        for piece in bytes.get(..room).unwrap_or(bytes).chunks(PIECE_BYTES) {
            if self.end.is_some() {
                return ControlFlow::Break(());
            }
            self.bytes = self.bytes.saturating_add(piece.len());
            self.write(piece, false);
        }
        // Exactly as many bytes as the limit may be the whole document: only one more is too many.
        if self.end.is_none() && bytes.len() > room {
            self.end = Some(HeadEnd::ByteLimit);
        }
        if self.end.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// The body has ended, or enough was seen.
    #[must_use]
    pub fn finish(mut self) -> Head {
        if self.end.is_none() {
            self.write(b"", true);
        }
        self.into_head(HeadEnd::Eof)
    }

    /// The body broke off, or the caller stops reading: the head is what was found so far.
    #[must_use]
    pub fn interrupt(self) -> Head {
        self.into_head(HeadEnd::Interrupted)
    }

    /// Takes the next bytes, which may be the `last`.
    fn write(&mut self, bytes: &[u8], last: bool) {
        let Some(xml) = &mut self.xml else {
            self.end = self.html.write(bytes, last);
            return;
        };
        let end = xml.write(bytes, last);
        // XML that ended its head well needs no second reading; anything else is read as HTML to the end, for what it may forbid.
        let is_read = end == Some(HeadEnd::Ended) || self.html.write(bytes, last).is_some() || last;
        self.end = end.filter(|_| is_read);
    }

    fn into_head(self, otherwise: HeadEnd) -> Head {
        let of_xml = self.xml.as_ref().and_then(|xml| xml.end);
        let scanned = self.end.or(of_xml).unwrap_or(otherwise);
        let end = match scanned {
            // The other ends leave the head unknown as they are.
            HeadEnd::Ended | HeadEnd::Eof if self.html.is_unclear => HeadEnd::Unclear,
            end => end,
        };
        let found = match self.xml {
            Some(xml) if scanned == HeadEnd::Ended => xml.found,
            Some(xml) => united(xml.found, self.html.into_found()),
            None => self.html.into_found(),
        };
        Head::new(found, end, self.bytes)
    }
}

/// What was found in either way of reading the document.
fn united(mut xml: FoundInHead, html: FoundInHead) -> FoundInHead {
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

/// What comes at once is looked at, and where it must be, decoded, in pieces of this size: a token is cut by the frames of a client alone.
const PIECE_BYTES: usize = 16 * 1024;
