//! A scan of HTML: the document as a browser with scripting reads it, and its noscript elements as one
//! without scripting does.
//!
//! A crawler does not know which of the two its site had in mind, so the metas of both hold. Common heads are
//! read by `common`, all others by lol_html (`rewriter`); text in a foreign encoding passes `decode` first.

use std::sync::LazyLock;

use encoding_rs::UTF_8;
use lol_html::AsciiCompatibleEncoding;
use memchr::memmem::Finder;

use super::common::{CommonHead, HeadProgress};
use super::decode::Decode;
use super::machine::{Machine, Noscript};
use super::rewriter::{Driver, SLICE_BYTES, Stop};
use super::scanner::{ContentType, Syntax};
use crate::head::{FoundInHead, HeadEnd};
use crate::options::ReadOptions;

pub(super) struct HtmlScan {
    decode: Decode,
    tokenizer: Tokenizer,
    /// What noscript elements hold.
    unscripted: FoundInHead,
    noscript_cut: bool,
    noscript_scans: usize,
    body_metas: bool,
    beyond: Beyond,
    memory_limit: usize,
    /// A document of unknown type is XML if it begins so; so much of that has been seen.
    declaration: Option<usize>,
    /// Read in another way the document may have other metas.
    pub(super) is_unclear: bool,
    /// Whether a part of the head is in an encoding that is not known.
    pub(super) is_undecoded: bool,
    end: Option<HeadEnd>,
}

/// What is read behind the end of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    /// What has come together with that end, if it may hold a meta.
    AtHand,
    /// What has come together with that end: it may hold a meta.
    AllAtHand,
    /// Everything.
    Document,
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
            unscripted: FoundInHead::default(),
            noscript_cut: false,
            noscript_scans: 0,
            body_metas,
            beyond: Beyond::of(options),
            memory_limit: options.memory_limit,
            declaration: (content_type.syntax == Some(Syntax::Unknown)).then_some(0),
            is_unclear: content_type.is_unclear,
            is_undecoded: false,
            end: None,
        }
    }

    /// Takes the next bytes, which may be the `last`, and shows those that have come with them. Returns how
    /// the scan has ended, once it has.
    pub(super) fn write(&mut self, bytes: &[u8], ahead: &[u8], last: bool) -> Option<HeadEnd> {
        if self.end.is_some() {
            return self.end;
        }
        let (decoded, unknown_from) = self.decode.decode(bytes, last);
        // MIME Sniffing §7.1: then it is XML.
        self.is_unclear |= has_declaration(&mut self.declaration, &decoded);
        let mut read = self.read(&decoded, unknown_from, ahead);
        if last && read.is_ok() {
            read = self.read_to_end();
        }
        self.scan_noscripts();
        let is_over = self.beyond.is_over(ahead);
        self.end = match read {
            Ok(()) if is_over && self.has_ended() => Some(HeadEnd::Ended),
            Ok(()) => None,
            // Behind the head only strays are looked for, as far as the limits reach.
            Err(Stop::Memory) if !self.has_ended() => Some(HeadEnd::MemoryLimit),
            Err(_) => Some(HeadEnd::Ended),
        };
        self.end
    }

    /// Whether no more metas can count.
    pub(super) fn has_ended(&mut self) -> bool {
        self.machine(|machine| machine.has_ended())
    }

    fn read(&mut self, bytes: &[u8], unknown_from: Option<usize>, ahead: &[u8]) -> Result<(), Stop> {
        let Some((known, unknown)) = unknown_from.and_then(|at| bytes.split_at_checked(at)) else {
            return self.read_known(bytes, [b"", ahead]);
        };
        self.read_known(known, [unknown, ahead])?;
        self.is_undecoded |= !self.has_ended();
        self.read_known(unknown, [b"", ahead])
    }

    fn read_known(&mut self, bytes: &[u8], ahead: [&[u8]; 2]) -> Result<(), Stop> {
        let is_common = self.decode.output() == UTF_8;
        let mut beyond = self.beyond;
        match &mut self.tokenizer {
            Tokenizer::Common(head) if is_common => {
                let can_search = self.decode.passes_through();
                let progress = head.write(bytes, |rest| beyond.goes_on(rest, ahead, can_search));
                self.beyond = beyond;
                match progress {
                    HeadProgress::Head => Ok(()),
                    HeadProgress::Ended => Err(Stop::Done),
                    HeadProgress::Unusual => self.give_up_common(ahead),
                }
            }
            // Its first bytes say in which encoding the document is.
            Tokenizer::Common(_) if bytes.is_empty() => Ok(()),
            Tokenizer::Common(_) => self.give_up_common(ahead).and_then(|()| self.read_known(bytes, ahead)),
            Tokenizer::LolHtml(_) => self.drive(bytes, ahead),
        }
    }

    /// lol_html reads these bytes. Where the head ends, it reads on to the end of a slice.
    fn drive(&mut self, bytes: &[u8], ahead: [&[u8]; 2]) -> Result<(), Stop> {
        let can_search = self.decode.passes_through();
        let mut rest = bytes;
        while !rest.is_empty() {
            let Tokenizer::LolHtml(driver) = &mut self.tokenizer else { return Ok(()) };
            let (slice, behind) = rest.split_at(rest.len().min(SLICE_BYTES));
            driver.write_slice(slice)?;
            if self.beyond == Beyond::AtHand && driver.machine(|machine| machine.has_ended()) {
                // A tag may have begun.
                let from = memchr::memrchr(b'<', slice).unwrap_or(slice.len());
                if !self.beyond.goes_on(rest.get(from..).unwrap_or_default(), ahead, can_search) {
                    return Err(Stop::Done);
                }
            }
            rest = behind;
        }
        Ok(())
    }

    fn read_to_end(&mut self) -> Result<(), Stop> {
        self.give_up_common([b""; 2])?;
        match &mut self.tokenizer {
            Tokenizer::Common(_) => Ok(()),
            Tokenizer::LolHtml(driver) => driver.end(),
        }
    }

    /// From here on lol_html reads the document.
    fn give_up_common(&mut self, ahead: [&[u8]; 2]) -> Result<(), Stop> {
        let Tokenizer::Common(head) = &mut self.tokenizer else { return Ok(()) };
        let (machine, bytes) = std::mem::replace(head, CommonHead::new(self.body_metas)).into_parts();
        let driver = Driver::new(machine, encoding(&self.decode), self.memory_limit);
        self.tokenizer = Tokenizer::LolHtml(Box::new(driver));
        self.drive(&bytes, ahead)
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

    /// Scans the content of a noscript. A noscript within it is markup as well, but raw text to lol_html,
    /// which therefore starts again behind its tag. Each round is shorter by that tag, so this ends.
    fn scan_noscript(&mut self, noscript: &Noscript) {
        if !may_hold_a_meta(&noscript.content) {
            return;
        }
        let mut machine = Machine::unscripted(noscript, self.body_metas);
        let mut content = noscript.content.as_slice();
        loop {
            if self.noscript_scans >= NOSCRIPT_SCANS_MAX {
                break self.noscript_cut |= !noscript.is_behind_head;
            }
            self.noscript_scans = self.noscript_scans.saturating_add(1);
            let mut driver = Driver::new(machine, encoding(&self.decode), self.memory_limit);
            let stop = driver.write(content).and_then(|()| driver.end()).err();
            machine = driver.into_machine();
            match stop {
                Some(Stop::Markup(at)) => content = content.get(at..).unwrap_or_default(),
                Some(Stop::Memory) => break self.noscript_cut |= !machine.has_ended(),
                Some(Stop::Done) | None => break,
            }
        }
        self.unscripted.metas.append(&mut machine.found.metas);
        self.unscripted.add_strays_of(&mut machine.found);
    }

    pub(super) fn into_found(mut self) -> FoundInHead {
        if matches!(&self.tokenizer, Tokenizer::Common(head) if head.is_within_token()) {
            // How that ends is of no interest: this scan has ended already.
            let _ = self.give_up_common([b""; 2]);
        }
        // At a limit, or where the body broke off, a noscript may still be open; what it holds so far counts.
        self.machine(Machine::end_noscript);
        self.scan_noscripts();
        let mut found = self.machine(|machine| std::mem::take(&mut machine.found));
        found.noscript_metas = std::mem::take(&mut self.unscripted.metas);
        found.noscript_cut |= self.noscript_cut;
        found.add_strays_of(&mut self.unscripted);
        found
    }
}

fn encoding(decode: &Decode) -> AsciiCompatibleEncoding {
    AsciiCompatibleEncoding::new(decode.output()).unwrap_or_else(AsciiCompatibleEncoding::utf_8)
}

/// Whether the document begins with `<?xml`, blanks aside: so much of it was `seen` before these bytes;
/// `None` when it does not.
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

impl Beyond {
    pub(super) const fn of(options: &ReadOptions) -> Self {
        if options.has_body_metas() || options.has_whole_document() { Self::Document } else { Self::AtHand }
    }

    /// Whether a head that has ended needs no more, where this has come with it and was not read yet.
    pub(super) fn is_over(self, ahead: &[u8]) -> bool {
        self != Self::Document && ahead.is_empty()
    }

    /// Whether the scan goes on behind the end of the head, where this is what follows and this what has come
    /// with it.
    pub(super) fn goes_on(&mut self, rest: &[u8], ahead: [&[u8]; 2], can_search: bool) -> bool {
        let open = memchr::memrchr(b'<', rest).and_then(|at| rest.get(at..)).unwrap_or_default();
        let begins = |begin: &[u8]| !begin.is_empty() && begin.eq_ignore_ascii_case(open);
        let is_cut = META.get(..open.len()).is_some_and(begins);
        let may_hold = || is_cut || may_hold_a_meta(rest) || ahead.into_iter().any(may_hold_a_meta);
        if *self == Self::AtHand && (!can_search || may_hold()) {
            *self = Self::AllAtHand;
        }
        *self != Self::AtHand
    }
}

/// Whether there is a tag that begins like that of a meta. Most noscript elements hold an image, and most
/// pages no meta behind their head, so this looks at most bytes: at several gigabytes a second.
fn may_hold_a_meta(bytes: &[u8]) -> bool {
    static BEGINS: LazyLock<[Finder<'_>; 2]> = LazyLock::new(|| [Finder::new("<m"), Finder::new("<M")]);
    let is_meta = |at| {
        bytes
            .get(at..)
            .and_then(|tag| tag.get(..META.len()))
            .is_some_and(|tag| tag.eq_ignore_ascii_case(META))
    };
    BEGINS.iter().any(|begin| begin.find_iter(bytes).any(is_meta))
}

const META: &[u8] = b"<meta";

/// Scans of noscript elements in one document. A page has a handful; each costs a microsecond or two.
const NOSCRIPT_SCANS_MAX: usize = 256;
