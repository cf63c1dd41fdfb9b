//! The head of a document that is XML: `application/xhtml+xml`, or another type of XML if its root is the
//! `html` of XHTML.
//!
//! XML has no exceptions for single elements, so `<title/>` is empty and `<![CDATA[` is text, where HTML
//! would take the metas behind them for the text of a title, or for a comment. The tree is in the markup: the
//! head is an element, and ends with its end tag.

use std::collections::VecDeque;
use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use xml::name::OwnedName;
use xml::reader::{ErrorKind, EventReader, ParserConfig, XmlEvent};

use super::decode::begins_like_mark;
use super::html::Beyond;
use super::prescan::xml_label;
use crate::head::{FoundInHead, HeadEnd};
use crate::options::ReadOptions;

/// Finds the metas of an XHTML head.
pub(super) struct XmlScan {
    stage: XmlStage,
    declared: Option<&'static Encoding>,
    reader: EventReader<Fed>,
    place: XmlPlace,
    beyond: Beyond,
    pub(super) found: FoundInHead,
    /// How it has ended, once it has.
    pub(super) end: Option<HeadEnd>,
}

enum XmlStage {
    /// The first element decides whether this is XHTML: most documents are feeds, and are not parsed.
    Root(Vec<u8>),
    /// The first bytes decide on the encoding.
    Start(Vec<u8>),
    Decoding(Box<Decoder>),
}

/// Where in the tree the reader is.
struct XmlPlace {
    /// Whether the type is also that of other documents.
    may_be_other: bool,
    body_metas: bool,
    depth: usize,
    /// At which depth the element is that is called so, while it is open.
    head: Option<usize>,
    template: Option<usize>,
    /// Whether the head has ended, and only it counts.
    has_ended: bool,
}

impl XmlScan {
    pub(super) fn new(charset: Option<&[u8]>, options: &ReadOptions, may_be_other: bool) -> Self {
        let mut config = ParserConfig::new()
            .ignore_end_of_stream(true)
            .coalesce_characters(false)
            .allow_multiple_root_elements(false)
            .override_encoding(Some(xml::Encoding::Utf8))
            .ignore_invalid_encoding_declarations(true);
        config.max_data_length = options.memory_limit;
        config.max_attribute_length = options.memory_limit;
        config.max_name_length = NAME_BYTES_MAX;
        config.max_attributes = ATTRIBUTES_MAX;
        Self {
            stage: if may_be_other { XmlStage::Root(Vec::new()) } else { XmlStage::Start(Vec::new()) },
            declared: charset.and_then(Encoding::for_label),
            reader: EventReader::new_with_config(Fed::default(), config),
            place: XmlPlace {
                may_be_other,
                body_metas: options.has_body_metas(),
                depth: 0,
                head: None,
                template: None,
                has_ended: false,
            },
            beyond: Beyond::of(options),
            found: FoundInHead::default(),
            end: None,
        }
    }

    /// Takes the next bytes, which may be the `last`, and shows those that have come with them. Returns how
    /// the scan has ended, once it has.
    pub(super) fn write(&mut self, bytes: &[u8], ahead: &[u8], last: bool) -> Option<HeadEnd> {
        if self.end.is_none() {
            let is_over = last || self.beyond.is_over(ahead);
            self.end = match self.step(bytes, ahead, last) {
                // Behind the head only strays are looked for, as far as the document can be read.
                Err(_) if self.place.has_ended => Some(HeadEnd::Ended),
                Err(end) => Some(end),
                Ok(()) if self.place.has_ended => is_over.then_some(HeadEnd::Ended),
                // A document that ends before its head does is not well-formed.
                Ok(()) => last.then_some(HeadEnd::Malformed),
            };
        }
        self.end
    }

    /// Whether the head is known, so that the document need not be read in another way.
    pub(super) fn is_read(&self) -> bool {
        self.place.has_ended || self.end.is_some_and(HeadEnd::is_complete)
    }

    fn step(&mut self, bytes: &[u8], ahead: &[u8], last: bool) -> Result<(), HeadEnd> {
        let held;
        let (decoder, bytes) = match &mut self.stage {
            XmlStage::Decoding(decoder) => (decoder, bytes),
            XmlStage::Root(first) => {
                first.extend_from_slice(bytes);
                match root(first) {
                    Root::Html => {}
                    Root::Other => return Err(HeadEnd::NotHtml),
                    // It has no elements, so no metas.
                    Root::Undecided if last => return Err(HeadEnd::Eof),
                    Root::Undecided => return Ok(()),
                }
                let first = std::mem::take(first);
                self.stage = XmlStage::Start(Vec::new());
                return self.step(&first, ahead, last);
            }
            XmlStage::Start(first) => {
                first.extend_from_slice(bytes);
                let Some((encoding, mark)) = encoding(first, self.declared, last)? else { return Ok(()) };
                held = std::mem::take(first);
                let rest = held.get(mark..).unwrap_or_default();
                self.stage = XmlStage::Decoding(Box::new(encoding.new_decoder_without_bom_handling()));
                let XmlStage::Decoding(decoder) = &mut self.stage else { return Ok(()) };
                (decoder, rest)
            }
        };
        let mut text =
            String::with_capacity(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len()));
        // What cannot be decoded is a fatal error in XML. What is before it counts.
        let (result, _) = decoder.decode_to_string_without_replacement(bytes, &mut text, last);
        let is_ascii_compatible = decoder.encoding().is_ascii_compatible();
        self.reader.source_mut().bytes.extend(text.as_bytes());
        self.read(ahead, is_ascii_compatible)?;
        if matches!(result, DecoderResult::InputEmpty) { Ok(()) } else { Err(HeadEnd::Malformed) }
    }

    fn read(&mut self, ahead: &[u8], can_search: bool) -> Result<(), HeadEnd> {
        loop {
            match self.reader.next() {
                Ok(event) => {
                    let is_doctype = matches!(event, XmlEvent::Doctype { .. });
                    self.place.take(event, &mut self.found)?;
                    if is_doctype {
                        self.add_entities();
                    }
                    let rest = &mut self.reader.source_mut().bytes;
                    if self.place.has_ended
                        && !self.beyond.goes_on(rest.make_contiguous(), [b"", ahead], can_search)
                    {
                        return Err(HeadEnd::Ended);
                    }
                }
                Err(error) => {
                    let waits = matches!(error.kind(), ErrorKind::Io(error) if error.kind() == io::ErrorKind::WouldBlock);
                    return if waits { Ok(()) } else { Err(HeadEnd::Malformed) };
                }
            }
        }
    }

    /// Makes the names of HTML's characters known, if the document has one of the public identifiers for
    /// which browsers know them (HTML §14.2).
    fn add_entities(&mut self) {
        let doctype = self.reader.doctype_ids();
        let Some(id) = doctype.as_ref().and_then(|doctype| doctype.public_id()) else { return };
        let is = |known: &&str| id.split_ascii_whitespace().eq(known.split_ascii_whitespace());
        if !PUBLIC_IDS.iter().any(is) {
            return;
        }
        let name = |reference: &'static [u8]| reference.strip_prefix(b"&")?.strip_suffix(b";");
        let text = |bytes: &'static [u8]| std::str::from_utf8(bytes).ok();
        let named = htmlize::ENTITIES
            .entries()
            .filter_map(|(reference, value)| Some((text(name(reference)?)?, text(value)?)));
        // A document that says that it stands alone has no others, and is not well-formed if it uses them.
        let _ = self.reader.add_entities(named);
    }
}

impl XmlPlace {
    fn take(&mut self, event: XmlEvent, found: &mut FoundInHead) -> Result<(), HeadEnd> {
        match event {
            // A few bytes may stand for many.
            XmlEvent::Doctype { syntax, .. } if syntax.contains("<!ENTITY") => Err(HeadEnd::MemoryLimit),
            // It may give elements attributes (XML §3.3.2), which the reader does not.
            XmlEvent::Doctype { syntax, .. } if syntax.contains("<!ATTLIST") => Err(HeadEnd::Malformed),
            XmlEvent::StartElement { name, attributes, .. } => {
                self.depth = self.depth.saturating_add(1);
                if self.depth > DEPTH_MAX {
                    return Err(HeadEnd::MemoryLimit);
                }
                let is_first = self.depth == 1;
                let attribute = |name| {
                    let mut own = attributes.iter().filter(|other| other.name.prefix.is_none());
                    own.find(|own| own.name.local_name == name).map(|own| own.value.as_str().into())
                };
                match html_name(&name) {
                    Some("html") if is_first => {}
                    // HTML that is no document of XML, as it is written by hand.
                    Some(_) if is_first && !self.may_be_other => return Err(HeadEnd::Malformed),
                    // Another kind of document.
                    _ if is_first => return Err(HeadEnd::NotHtml),
                    Some("head") if self.depth == 2 && self.head.is_none() => self.head = Some(self.depth),
                    Some("template") if self.template.is_none() => self.template = Some(self.depth),
                    Some("meta") if self.counts() => found.add_meta(attribute),
                    Some("meta") if self.template.is_none() => found.add_meta_of_body(attribute),
                    Some("link") if self.counts() => found.add_link(attribute),
                    _ => {}
                }
                Ok(())
            }
            XmlEvent::EndElement { .. } => {
                let ended = self.depth;
                self.depth = self.depth.saturating_sub(1);
                if self.template == Some(ended) {
                    self.template = None;
                }
                self.has_ended |= self.head == Some(ended) && !self.body_metas;
                if ended == 1 { Err(HeadEnd::Ended) } else { Ok(()) }
            }
            XmlEvent::EndDocument => Err(HeadEnd::Ended),
            _ => Ok(()),
        }
    }

    /// The content of a template is a document fragment of its own, not the head.
    fn counts(&self) -> bool {
        let is_in_head = self.head.is_some() && !self.has_ended;
        self.template.is_none() && (is_in_head || self.body_metas)
    }
}

/// The name of an element of HTML. Stricter: a document without namespaces is meant to be XHTML too, whatever
/// browsers make of it.
fn html_name(name: &OwnedName) -> Option<&str> {
    let is_html = name.namespace.as_deref().is_none_or(|namespace| namespace == HTML);
    is_html.then_some(&*name.local_name)
}

const HTML: &str = "http://www.w3.org/1999/xhtml";

enum Root {
    /// It is called `html`, or this cannot be told so simply.
    Html,
    Other,
    Undecided,
}

/// The root element of a document that begins with these bytes. A document need not be well-formed to be
/// something else than HTML.
fn root(first: &[u8]) -> Root {
    let within = first.get(..ROOT_BYTES_MAX).unwrap_or(first);
    let found = root_name(within);
    let before = within.len().saturating_sub(found.map_or(0, |(_, rest)| rest.len()));
    // UTF-16 and UTF-32.
    let is_ascii_compatible = memchr::memchr(0, within.get(..before).unwrap_or(within)).is_none();
    match found {
        _ if !is_ascii_compatible => Root::Html,
        Some((b"html", _)) => Root::Html,
        Some(_) => Root::Other,
        None if first.len() > ROOT_BYTES_MAX => Root::Html,
        None => Root::Undecided,
    }
}

/// The name of the first element, without its prefix, and what follows it.
fn root_name(mut bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let behind = |bytes: &[u8], end: &[u8]| Some(memchr::memmem::find(bytes, end)?.saturating_add(end.len()));
    loop {
        let tag = bytes.get(memchr::memchr(b'<', bytes)?..)?;
        let end = match tag {
            [b'<', b'?', ..] => behind(tag, b"?>"),
            [b'<', b'!', b'-', b'-', ..] => behind(tag, b"-->"),
            [b'<', b'!', b'-'] | [b'<', b'!'] => None,
            [b'<', b'!', ..] => {
                let end = behind(tag, b">")?;
                // The declarations of a doctype have a `>` each.
                if tag.get(..end)?.contains(&b'[') { behind(tag, b"]>") } else { Some(end) }
            }
            tag => {
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
                let name = tag.get(1..)?;
                let (name, rest) = name.split_at_checked(name.iter().position(is_end)?)?;
                return Some((name.rsplit(|byte| *byte == b':').next()?, rest));
            }
        };
        bytes = tag.get(end?..)?;
    }
}

/// The root of a document stands near its beginning.
const ROOT_BYTES_MAX: usize = 4 * 1024;

/// HTML §14.2.
const PUBLIC_IDS: [&str; 9] = [
    "-//W3C//DTD XHTML 1.0 Transitional//EN",
    "-//W3C//DTD XHTML 1.1//EN",
    "-//W3C//DTD XHTML 1.0 Strict//EN",
    "-//W3C//DTD XHTML 1.0 Frameset//EN",
    "-//W3C//DTD XHTML Basic 1.0//EN",
    "-//W3C//DTD XHTML 1.1 plus MathML 2.0//EN",
    "-//W3C//DTD XHTML 1.1 plus MathML 2.0 plus SVG 1.1//EN",
    "-//W3C//DTD MathML 2.0//EN",
    "-//WAPFORUM//DTD XHTML Mobile 1.0//EN",
];

/// The encoding of a document that begins with these bytes, and the length of its mark; `None` when they are
/// too few to tell. The byte order mark goes before the Content-Type, and that before the XML declaration
/// (RFC 7303 §3).
fn encoding(
    first: &[u8],
    declared: Option<&'static Encoding>,
    last: bool,
) -> Result<Option<(&'static Encoding, usize)>, HeadEnd> {
    if let Some(found) = Encoding::for_bom(first) {
        return Ok(Some(found));
    }
    if !last && begins_like_mark(first) {
        return Ok(None);
    }
    let found = |encoding| Ok(Some((encoding, 0)));
    if let Some(encoding) = declared {
        return found(encoding);
    }
    if !last && DECLARATION.starts_with(first) {
        return Ok(None);
    }
    let Some(declaration) = first.strip_prefix(DECLARATION) else { return found(UTF_8) };
    let within = declaration.get(..DECLARATION_BYTES_MAX).unwrap_or(declaration);
    let Some(end) = within.windows(2).position(|two| two == b"?>") else {
        let is_short = declaration.len() < DECLARATION_BYTES_MAX && !last;
        return if is_short { Ok(None) } else { Err(HeadEnd::Malformed) };
    };
    let declaration = declaration.get(..end).unwrap_or_default();
    let Some(label) = xml_label(declaration) else { return found(UTF_8) };
    match Encoding::for_label(label) {
        // The declaration was readable, so it is not that.
        Some(encoding) if [UTF_16LE, UTF_16BE].contains(&encoding) => Err(HeadEnd::Malformed),
        Some(encoding) => found(encoding),
        None => Err(HeadEnd::Malformed),
    }
}

const DECLARATION: &[u8] = b"<?xml";

/// Within so many bytes an XML declaration must end.
const DECLARATION_BYTES_MAX: usize = 1024;

/// Elements within each other, each of which costs memory until it ends. Heads have three or four.
const DEPTH_MAX: usize = 256;

const ATTRIBUTES_MAX: usize = 1024;

const NAME_BYTES_MAX: usize = 4 * 1024;

/// Decoded bytes that wait to be read. Without any, the reader has to come back.
#[derive(Default)]
struct Fed {
    bytes: VecDeque<u8>,
}

impl Read for Fed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { self.bytes.read(buffer) }
    }
}
