//! The head scanner: bytes of a document in, its metas out, as soon as the head has ended.

use std::fmt;
use std::ops::ControlFlow;

use encoding_rs::{Encoding, UTF_8};
use lol_html::AsciiCompatibleEncoding;

use super::common::{CommonHead, Progress};
use super::decode::Decode;
use super::machine::{Machine, Noscript};
use super::rewriter::{Driver, Stop};
use super::xml::XmlScan;
use crate::content_type::{ContentType, Syntax, is_page_at_a_glance};
use crate::head::{Found, Head, HeadEnd, Meta};
use crate::options::{MetaScope, ReadOptions};

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
    options: ReadOptions,
    reader: Reader,
    /// Read in another way the document may have other metas.
    is_unclear: bool,
    bytes: usize,
    end: Option<HeadEnd>,
}

/// How the document is read.
enum Reader {
    Html(HtmlReader),
    Xml(Box<XmlReader>),
}

struct HtmlReader {
    decode: Decode,
    /// In a box: most of it is lol_html, which is not needed for what is no HTML, and large.
    scan: Option<Box<Scan>>,
    /// A document of unknown type is XML if it begins so; so much of that has been seen.
    declaration: Option<usize>,
    end: Option<HeadEnd>,
}

struct XmlReader {
    scan: XmlScan,
    end: Option<HeadEnd>,
    /// Stricter: a document that is not well-formed is unknown in any case, and what it forbids in the eyes of HTML readers counts too.
    html: HtmlReader,
}

impl HeadScanner {
    /// A scanner for a response with this Content-Type; of several lines, all of them with commas between them. The MIME type is
    /// extracted as the Fetch standard does. `text/html` is read as HTML and `application/xhtml+xml` as XML; HTML is also what has no
    /// MIME type, or one that means "unknown" (`*/*`, `unknown/unknown`, `application/unknown`). Any other is
    /// [`HeadEnd::NotHtml`] at once.
    #[must_use]
    pub fn new(options: &ReadOptions, content_type: Option<&str>) -> Self {
        let content_type = ContentType::read(content_type.map(str::as_bytes));
        let reader = Reader::new(options, &content_type);
        let end = if content_type.syntax.is_some() { None } else { Some(HeadEnd::NotHtml) };
        let is_unclear = content_type.is_unclear;
        Self { options: options.clone(), reader, is_unclear, bytes: 0, end }
    }

    /// Whether a response with this Content-Type is scanned at all: no scanner need be made for another.
    #[must_use]
    pub fn scans(content_type: Option<&[u8]>) -> bool {
        let is_page = content_type.and_then(is_page_at_a_glance);
        is_page.unwrap_or_else(|| ContentType::read(content_type).syntax.is_some())
    }

    /// Takes the next bytes of the body. `Break`: nothing that follows can matter, so finish.
    pub fn feed(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let room = self.options.head_limit().saturating_sub(self.bytes);
        for slice in bytes.get(..room).unwrap_or(bytes).chunks(PIECE_BYTES) {
            if self.end.is_some() {
                return ControlFlow::Break(());
            }
            self.bytes = self.bytes.saturating_add(slice.len());
            self.end = self.reader.write(&self.options, slice, false, &mut self.is_unclear);
        }
        if self.end.is_none() && bytes.len() > room {
            self.end = Some(HeadEnd::ByteLimit);
        }
        if self.end.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// The body has ended, or enough was seen.
    #[must_use]
    pub fn finish(mut self) -> Head {
        if self.end.is_none() {
            self.end = self.reader.write(&self.options, b"", true, &mut self.is_unclear);
        }
        self.into_head(HeadEnd::Eof)
    }

    /// The body broke off, or the caller stops reading: the head is what was found so far.
    #[must_use]
    pub fn interrupt(self) -> Head {
        self.into_head(HeadEnd::Interrupted)
    }

    fn into_head(self, otherwise: HeadEnd) -> Head {
        let scanned = self.end.or(self.reader.end()).unwrap_or(otherwise);
        let end = match scanned {
            HeadEnd::Ended | HeadEnd::Eof if self.is_unclear => HeadEnd::Unclear,
            end => end,
        };
        let found = self.reader.into_found(scanned);
        Head::new(found, end, self.bytes)
    }
}

impl Reader {
    fn new(options: &ReadOptions, content_type: &ContentType<'_>) -> Self {
        let charset = content_type.charset();
        let html = HtmlReader {
            decode: Decode::new(charset.as_deref()),
            scan: None,
            declaration: (content_type.syntax == Some(Syntax::Unknown)).then_some(0),
            end: None,
        };
        if content_type.syntax != Some(Syntax::Xml) {
            return Self::Html(html);
        }
        let scan = XmlScan::new(charset.as_deref(), options.meta_scope, options.memory_limit());
        Self::Xml(Box::new(XmlReader { scan, end: None, html }))
    }

    /// Takes the next bytes, which may be the `last`. Returns how the scan has ended, once it has.
    fn write(
        &mut self,
        options: &ReadOptions,
        bytes: &[u8],
        last: bool,
        is_unclear: &mut bool,
    ) -> Option<HeadEnd> {
        match self {
            Self::Html(html) => html.write(options, bytes, last, is_unclear),
            Self::Xml(xml) => xml.write(options, bytes, last),
        }
    }

    /// How the document was found to end, while it was still looked at in another way.
    fn end(&self) -> Option<HeadEnd> {
        match self {
            Self::Html(_) => None,
            Self::Xml(xml) => xml.end,
        }
    }

    /// What was found by a scan that has ended so.
    fn into_found(self, end: HeadEnd) -> Found {
        match self {
            Self::Html(html) => html.into_found(),
            Self::Xml(xml) => {
                let XmlReader { scan, html, .. } = *xml;
                let mut found = scan.found;
                if end != HeadEnd::Ended {
                    let html = html.into_found();
                    let new = html.metas.into_iter().filter(|meta| !found.metas.contains(meta));
                    let new: Vec<_> = new.collect();
                    found.metas.extend(new);
                    found.noscript_metas = html.noscript_metas;
                    let new = html.license_links.into_iter().filter(|url| !found.license_links.contains(url));
                    let new: Vec<_> = new.collect();
                    found.license_links.extend(new);
                }
                found
            }
        }
    }
}

impl XmlReader {
    fn write(&mut self, options: &ReadOptions, bytes: &[u8], last: bool) -> Option<HeadEnd> {
        if self.end.is_none() {
            self.end = if last { Some(self.scan.end()) } else { self.scan.write(bytes).err() };
        }
        if self.end == Some(HeadEnd::Ended) {
            return self.end;
        }
        let html = self.html.write(options, bytes, last, &mut false);
        self.end.filter(|_| html.is_some() || last)
    }
}

impl HtmlReader {
    fn write(
        &mut self,
        options: &ReadOptions,
        bytes: &[u8],
        last: bool,
        is_unclear: &mut bool,
    ) -> Option<HeadEnd> {
        if self.end.is_some() {
            return self.end;
        }
        let decoded = if last { self.decode.finish() } else { self.decode.feed(bytes) };
        // MIME Sniffing §7.1: then it is XML.
        *is_unclear |= has_declaration(&mut self.declaration, &decoded);
        let scan = self.scan.get_or_insert_with(|| Box::new(Scan::new(options, self.decode.output())));
        let written = scan.write(&decoded).and_then(|()| if last { scan.end() } else { Ok(()) });
        self.end = written.err();
        self.end
    }

    fn into_found(self) -> Found {
        self.scan.map(|scan| scan.into_found()).unwrap_or_default()
    }
}

/// Whether the document begins with `<?xml`, blanks aside: so much of it was `seen` before these bytes; `None` when it does not.
fn has_declaration(seen: &mut Option<usize>, bytes: &[u8]) -> bool {
    const DECLARATION: &[u8] = b"<?xml";
    for byte in bytes {
        let Some(count) = *seen else { return false };
        if count == 0 && byte.is_ascii_whitespace() {
            continue;
        }
        *seen = (DECLARATION.get(count) == Some(byte)).then(|| count.saturating_add(1));
        if *seen == Some(DECLARATION.len()) {
            *seen = None;
            return true;
        }
    }
    false
}

impl fmt::Debug for HeadScanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadScanner")
            .field("bytes", &self.bytes)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// A scan whose encoding is settled: the document as a browser with scripting reads it, and its noscript elements as one
/// without scripting does.
struct Scan {
    tokenizer: Tokenizer,
    noscript_metas: Vec<Meta>,
    noscript_cut: bool,
    noscript_scans: usize,
    encoding: AsciiCompatibleEncoding,
    scope: MetaScope,
    memory_limit: usize,
}

enum Tokenizer {
    /// Reads heads as most pages have them, as long as this is one.
    Common(CommonHead),
    /// Reads all others, and from there on this one. In a box: it is large, and most pages need none.
    LolHtml(Box<Driver>),
}

impl Scan {
    fn new(options: &ReadOptions, encoding: &'static Encoding) -> Self {
        let (scope, memory_limit) = (options.meta_scope, options.memory_limit());
        let is_common = encoding == UTF_8 && scope == MetaScope::Head;
        let encoding = AsciiCompatibleEncoding::new(encoding).unwrap_or_else(AsciiCompatibleEncoding::utf_8);
        let tokenizer = if is_common {
            Tokenizer::Common(CommonHead::new())
        } else {
            Tokenizer::LolHtml(Box::new(Driver::new(Machine::scripted(scope), encoding, memory_limit)))
        };
        Self {
            tokenizer,
            noscript_metas: Vec::new(),
            noscript_cut: false,
            noscript_scans: 0,
            encoding,
            scope,
            memory_limit,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), HeadEnd> {
        let written = match &mut self.tokenizer {
            Tokenizer::Common(head) => match head.write(bytes) {
                Progress::Head => Ok(()),
                Progress::Ended => Err(Stop::Done),
                Progress::Unusual => self.give_up_common(),
            },
            Tokenizer::LolHtml(driver) => write_slices(driver, bytes),
        };
        self.scan_noscripts();
        written.map_err(end_of)
    }

    fn end(&mut self) -> Result<(), HeadEnd> {
        let mut ended = self.give_up_common();
        if let (Ok(()), Tokenizer::LolHtml(driver)) = (ended, &mut self.tokenizer) {
            ended = driver.end();
        }
        self.scan_noscripts();
        ended.map_err(end_of)
    }

    /// From here on lol_html reads the document.
    fn give_up_common(&mut self) -> Result<(), Stop> {
        let Tokenizer::Common(head) = &mut self.tokenizer else { return Ok(()) };
        let (machine, bytes) = std::mem::replace(head, CommonHead::new()).into_parts();
        let mut driver = Box::new(Driver::new(machine, self.encoding, self.memory_limit));
        let written = write_slices(&mut driver, &bytes);
        self.tokenizer = Tokenizer::LolHtml(driver);
        written
    }

    fn machine<T>(&mut self, act: impl FnOnce(&mut Machine) -> T) -> T {
        match &mut self.tokenizer {
            Tokenizer::Common(head) => act(head.machine()),
            Tokenizer::LolHtml(driver) => driver.machine(act),
        }
    }

    fn scan_noscripts(&mut self) {
        for noscript in self.machine(|machine| std::mem::take(&mut machine.noscripts)) {
            self.scan_noscript(&noscript);
        }
    }

    /// Scans the content of a noscript. A noscript within it is markup as well, but raw text to lol_html, which therefore
    /// starts again behind its tag. Each round is shorter by that tag, so this ends.
    fn scan_noscript(&mut self, noscript: &Noscript) {
        if !may_hold_a_meta(&noscript.content) {
            return;
        }
        let mut machine = Machine::unscripted(noscript, self.scope);
        let mut content = noscript.content.as_slice();
        loop {
            if self.noscript_scans >= NOSCRIPT_SCANS_MAX {
                break self.noscript_cut = true;
            }
            self.noscript_scans = self.noscript_scans.saturating_add(1);
            let mut driver = Driver::new(machine, self.encoding, self.memory_limit);
            let stop = write_slices(&mut driver, content).and_then(|()| driver.end()).err();
            machine = driver.into_machine();
            match stop {
                Some(Stop::Markup(at)) => content = content.get(at..).unwrap_or_default(),
                Some(Stop::Memory) => break self.noscript_cut = true,
                Some(Stop::Done) | None => break,
            }
        }
        self.noscript_metas.append(&mut machine.found.metas);
    }

    fn into_found(mut self) -> Found {
        if self.machine(|machine| !machine.is_done()) {
            // How that ends is of no interest: this scan has ended already.
            let _ = self.give_up_common();
        }
        // At a limit, or where the body broke off, a noscript may still be open; what it holds so far counts.
        self.machine(Machine::end_noscript);
        self.scan_noscripts();
        let outer = self.machine(|machine| std::mem::take(&mut machine.found));
        let noscript_cut = self.noscript_cut || outer.noscript_cut;
        Found { noscript_metas: self.noscript_metas, noscript_cut, ..outer }
    }
}

fn write_slices(driver: &mut Driver, bytes: &[u8]) -> Result<(), Stop> {
    bytes.chunks(SLICE_BYTES).try_for_each(|slice| driver.write(slice))
}

const fn end_of(stop: Stop) -> HeadEnd {
    match stop {
        Stop::Memory => HeadEnd::MemoryLimit,
        Stop::Done | Stop::Markup(_) => HeadEnd::Ended,
    }
}

/// Most noscript elements hold an image.
fn may_hold_a_meta(content: &[u8]) -> bool {
    content.windows(2).any(|pair| matches!(pair, [b'<', b'm' | b'M']))
}

/// Scans of noscript elements in one document. A page has a handful; each costs a microsecond or two.
const NOSCRIPT_SCANS_MAX: usize = 256;

/// What comes at once is looked at, and where it must be, decoded, in pieces of this size: a token is cut by the frames of a client alone.
const PIECE_BYTES: usize = 16 * 1024;

/// lol_html appends the whole of a chunk to what it has buffered, so small slices keep its memory small.
const SLICE_BYTES: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scanner_can_be_sent_to_another_thread() {
        fn assert_send<T: Send + 'static>() {}
        assert_send::<HeadScanner>();
    }
}
