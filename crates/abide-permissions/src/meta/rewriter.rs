//! lol_html, made to drive a [`Machine`].
//!
//! lol_html tokenises exactly, but builds no tree, so some end tags produce no event at all. They reach the output sink
//! nevertheless, in their place among the other tokens: what arrives there and is not the token that a handler has just
//! seen, is end tags.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use lol_html::html_content::{TextChunk, TextType};
use lol_html::send::{DocumentContentHandlers, Element, ElementContentHandlers, HtmlRewriter, Settings};
use lol_html::{AsciiCompatibleEncoding, HandlerResult, MemorySettings, OutputSink, Selector};

use super::end_tag::for_each_end_tag;
use super::machine::{Machine, Take};
use crate::options::MetaScope;

/// A rewriter and the machine that it drives. It is gone once it has stopped: lol_html panics when it is used after an
/// error, and is never fed again here.
pub(super) struct Driver {
    rewriter: Option<HtmlRewriter<'static, Sink>>,
    shared: Shared,
}

/// Why a driver takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The machine is done.
    Done,
    /// The memory limit was met.
    Memory,
    /// The machine asks to begin anew after this many bytes, with the same state: raw text to lol_html is markup to it.
    Markup(usize),
}

impl Driver {
    pub(super) fn new(machine: Machine, encoding: AsciiCompatibleEncoding, memory_limit: usize) -> Self {
        let is_utf8 = encoding == AsciiCompatibleEncoding::utf_8();
        let shared =
            Shared(Arc::new(Mutex::new(State { machine, token_bytes: 0, is_utf8, markup_at: None })));
        let memory = MemorySettings::new().with_max_allowed_memory_usage(memory_limit);
        let settings = Settings::new_send()
            .append_element_content_handler((Cow::Borrowed(&*EVERY_ELEMENT), shared.element_handlers()))
            .append_document_content_handler(shared.document_handlers())
            .with_encoding(encoding)
            .with_memory_settings(memory)
            .with_strict(false);
        let rewriter = Some(HtmlRewriter::new(settings, Sink(shared.clone())));
        Self { rewriter, shared }
    }

    /// Takes bytes, at most a few KiB at once: lol_html buffers a whole chunk when it buffers anything.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let Some(rewriter) = &mut self.rewriter else { return Err(Stop::Done) };
        let written = rewriter.write(bytes);
        self.judge(written)
    }

    /// Tells that the document ends here.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        let Some(rewriter) = self.rewriter.take() else { return Err(Stop::Done) };
        let ended = rewriter.end();
        self.judge(ended)?;
        self.machine(Machine::end);
        self.judge(Ok(()))
    }

    /// Gives access to the machine.
    pub(super) fn machine<T>(&self, act: impl FnOnce(&mut Machine) -> T) -> T {
        act(&mut self.shared.lock().machine)
    }

    /// Gives the machine back.
    pub(super) fn into_machine(self) -> Machine {
        let empty = Machine::scripted(MetaScope::Head);
        self.machine(|machine| std::mem::replace(machine, empty))
    }

    fn judge(&mut self, result: Result<(), lol_html::errors::RewritingError>) -> Result<(), Stop> {
        let (is_done, markup_at) = {
            let state = self.shared.lock();
            (state.machine.is_done(), state.markup_at)
        };
        let stop = match (result, markup_at) {
            (_, _) if is_done => Stop::Done,
            (_, Some(at)) => Stop::Markup(at),
            (Ok(()), None) => return Ok(()),
            (Err(_), None) => Stop::Memory,
        };
        self.rewriter = None;
        Err(stop)
    }
}

/// Selectors are compiled once.
#[allow(clippy::expect_used, reason = "the text is a constant, and every test of the scanner parses it")]
static EVERY_ELEMENT: LazyLock<Selector> = LazyLock::new(|| "*".parse().expect("`*` is a selector"));

/// What the handlers and the sink share.
struct State {
    machine: Machine,
    /// Bytes of the token that a handler has just seen and that will reach the sink next.
    token_bytes: usize,
    is_utf8: bool,
    markup_at: Option<usize>,
}

/// The lock is never contended: lol_html calls one handler at a time, on the thread that feeds it.
#[derive(Clone)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn element_handlers(&self) -> ElementContentHandlers<'static> {
        let shared = self.clone();
        ElementContentHandlers::default()
            .element(move |element: &mut Element<'_, '_>| shared.lock().element(element))
    }

    fn document_handlers(&self) -> DocumentContentHandlers<'static> {
        let [doctype, comments, text] = [self.clone(), self.clone(), self.clone()];
        DocumentContentHandlers::default()
            .doctype(move |token: &mut lol_html::html_content::Doctype<'_>| {
                doctype.lock().ignore(token.source_location().bytes().len())
            })
            .comments(move |token: &mut lol_html::html_content::Comment<'_>| {
                comments.lock().ignore(token.source_location().bytes().len())
            })
            .text(move |token: &mut TextChunk<'_>| text.lock().text(token))
    }
}

impl State {
    fn element(&mut self, element: &Element<'_, '_>) -> HandlerResult {
        let range = element.source_location().bytes();
        self.token_bytes = range.len();
        match self.machine.start_tag(&element.tag_name()) {
            Take::Pass => {}
            Take::Meta => {
                let attribute = |name| element.get_attribute(name).map(decoded).unwrap_or_default();
                self.machine.meta(attribute("name"), attribute("content"));
            }
            Take::Markup => {
                self.markup_at = Some(range.end);
                return Err(Box::new(Stopped));
            }
        }
        self.go_on()
    }

    fn text(&mut self, token: &mut TextChunk<'_>) -> HandlerResult {
        let text = token.as_str();
        match token.text_type() {
            TextType::Data => self.machine.text(text),
            TextType::RawText => self.machine.raw_text(text),
            _ => {}
        }
        if token.last_in_text_node() {
            self.machine.end_text();
        }
        // The text is encoded again on its way to the sink, and may then be of another length.
        if self.is_utf8 || text.is_ascii() {
            self.token_bytes = text.len();
        } else {
            self.token_bytes = 0;
            token.remove();
        }
        self.go_on()
    }

    fn ignore(&mut self, token_bytes: usize) -> HandlerResult {
        self.token_bytes = token_bytes;
        self.go_on()
    }

    fn go_on(&self) -> HandlerResult {
        if self.machine.is_done() { Err(Box::new(Stopped)) } else { Ok(()) }
    }

    /// Output: the rest of a token, then end tags.
    fn output(&mut self, chunk: &[u8]) {
        let of_token = self.token_bytes.min(chunk.len());
        self.token_bytes = self.token_bytes.saturating_sub(of_token);
        if let Some(end_tags) = chunk.get(of_token..)
            && !end_tags.is_empty()
        {
            for_each_end_tag(end_tags, |name| self.machine.end_tag(name));
        }
    }
}

/// An attribute's value as the DOM has it: line ends normalised, NUL replaced, character references decoded.
fn decoded(value: String) -> String {
    let value = if value.contains('\r') { value.replace("\r\n", "\n").replace('\r', "\n") } else { value };
    let value = if value.contains('\0') { value.replace('\0', "\u{fffd}") } else { value };
    if value.contains('&') { htmlize::unescape_attribute(value).into_owned() } else { value }
}

struct Sink(Shared);

impl OutputSink for Sink {
    fn handle_chunk(&mut self, chunk: &[u8]) {
        if !chunk.is_empty() {
            self.0.lock().output(chunk);
        }
    }
}

/// The way to stop lol_html from within a handler.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the scan has seen enough")
    }
}

impl std::error::Error for Stopped {}
