//! A scan of HTML: the document as a browser with scripting reads it, and its noscript elements as one without scripting does.
//!
//! A crawler does not know which of the two its site had in mind, so the metas of both hold. Common heads are read by `common`, all others by
//! lol_html (`rewriter`); text in a foreign encoding passes `decode` first.

use encoding_rs::UTF_8;
use lol_html::AsciiCompatibleEncoding;

use super::common::{CommonHead, HeadProgress};
use super::decode::Decode;
use super::machine::{Machine, Noscript};
use super::rewriter::{Driver, Stop};
use super::scanner::{ContentType, Syntax};
use crate::head::{FoundInHead, HeadEnd, Meta};
use crate::options::ReadOptions;

pub(super) struct HtmlScan {
    decode: Decode,
    tokenizer: Tokenizer,
    noscript_metas: Vec<Meta>,
    noscript_cut: bool,
    noscript_scans: usize,
    body_metas: bool,
    memory_limit: usize,
    /// A document of unknown type is XML if it begins so; so much of that has been seen.
    declaration: Option<usize>,
    /// Read in another way the document may have other metas.
    pub(super) is_unclear: bool,
    end: Option<HeadEnd>,
}

enum Tokenizer {
    /// Reads heads as most pages have them, as long as this is one.
    Common(CommonHead),
    /// Reads all others, and from there on this one. In a box: it is large, and most pages need none.
    LolHtml(Box<Driver>),
}

impl HtmlScan {
    pub(super) fn new(options: &ReadOptions, charset: Option<&[u8]>, content_type: &ContentType<'_>) -> Self {
        let body_metas = options.has_body_metas();
        Self {
            decode: Decode::new(charset),
            tokenizer: Tokenizer::Common(CommonHead::new(body_metas)),
            noscript_metas: Vec::new(),
            noscript_cut: false,
            noscript_scans: 0,
            body_metas,
            memory_limit: options.memory_limit,
            declaration: (content_type.syntax == Some(Syntax::Unknown)).then_some(0),
            is_unclear: content_type.is_unclear,
            end: None,
        }
    }

    /// Takes the next bytes, which may be the `last`. Returns how the scan has ended, once it has.
    pub(super) fn write(&mut self, bytes: &[u8], last: bool) -> Option<HeadEnd> {
        if self.end.is_some() {
            return self.end;
        }
        let decoded = self.decode.decode(bytes, last);
        // MIME Sniffing §7.1: then it is XML.
        self.is_unclear |= has_declaration(&mut self.declaration, &decoded);
        let mut read = self.read(&decoded);
        if last && read.is_ok() {
            read = self.read_to_end();
        }
        self.scan_noscripts();
        self.end = read.err().map(|stop| match stop {
            Stop::Memory => HeadEnd::MemoryLimit,
            Stop::Done | Stop::Markup(_) => HeadEnd::Ended,
        });
        self.end
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let is_common = self.decode.output() == UTF_8 && !self.body_metas;
        match &mut self.tokenizer {
            Tokenizer::Common(head) if is_common => match head.write(bytes) {
                HeadProgress::Head => Ok(()),
                HeadProgress::Ended => Err(Stop::Done),
                HeadProgress::Unusual => self.give_up_common(),
            },
            // Its first bytes say in which encoding the document is.
            Tokenizer::Common(_) if bytes.is_empty() => Ok(()),
            Tokenizer::Common(_) => self.give_up_common().and_then(|()| self.read(bytes)),
            Tokenizer::LolHtml(driver) => driver.write(bytes),
        }
    }

    fn read_to_end(&mut self) -> Result<(), Stop> {
        self.give_up_common()?;
        match &mut self.tokenizer {
            Tokenizer::Common(_) => Ok(()),
            Tokenizer::LolHtml(driver) => driver.end(),
        }
    }

    /// From here on lol_html reads the document.
    fn give_up_common(&mut self) -> Result<(), Stop> {
        let Tokenizer::Common(head) = &mut self.tokenizer else { return Ok(()) };
        let (machine, bytes) = std::mem::replace(head, CommonHead::new(self.body_metas)).into_parts();
        let mut driver = Box::new(Driver::new(machine, encoding(&self.decode), self.memory_limit));
        let written = driver.write(&bytes);
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
        let mut machine = Machine::unscripted(noscript, self.body_metas);
        let mut content = noscript.content.as_slice();
        loop {
            if self.noscript_scans >= NOSCRIPT_SCANS_MAX {
                break self.noscript_cut = true;
            }
            self.noscript_scans = self.noscript_scans.saturating_add(1);
            let mut driver = Driver::new(machine, encoding(&self.decode), self.memory_limit);
            let stop = driver.write(content).and_then(|()| driver.end()).err();
            machine = driver.into_machine();
            match stop {
                Some(Stop::Markup(at)) => content = content.get(at..).unwrap_or_default(),
                Some(Stop::Memory) => break self.noscript_cut = true,
                Some(Stop::Done) | None => break,
            }
        }
        self.noscript_metas.append(&mut machine.found.metas);
    }

    pub(super) fn into_found(mut self) -> FoundInHead {
        if matches!(&self.tokenizer, Tokenizer::Common(head) if head.is_within_token()) {
            // How that ends is of no interest: this scan has ended already.
            let _ = self.give_up_common();
        }
        // At a limit, or where the body broke off, a noscript may still be open; what it holds so far counts.
        self.machine(Machine::end_noscript);
        self.scan_noscripts();
        let outer = self.machine(|machine| std::mem::take(&mut machine.found));
        let noscript_cut = self.noscript_cut || outer.noscript_cut;
        FoundInHead { noscript_metas: self.noscript_metas, noscript_cut, ..outer }
    }
}

fn encoding(decode: &Decode) -> AsciiCompatibleEncoding {
    AsciiCompatibleEncoding::new(decode.output()).unwrap_or_else(AsciiCompatibleEncoding::utf_8)
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

/// Most noscript elements hold an image.
fn may_hold_a_meta(content: &[u8]) -> bool {
    content.windows(2).any(|pair| matches!(pair, [b'<', b'm' | b'M']))
}

/// Scans of noscript elements in one document. A page has a handful; each costs a microsecond or two.
const NOSCRIPT_SCANS_MAX: usize = 256;
