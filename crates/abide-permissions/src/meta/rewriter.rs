//! lol_html, made to drive a [`Machine`].
//!
//! lol_html tokenises exactly, but builds no tree, and some end tags produce no event at all. It is therefore
//! asked for start tags, and for the ends of raw text, only. All else reaches the output sink, in its place
//! between the start tags, and is read there. So it also costs least: lol_html skips unselected elements at
//! high speed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use lol_html::html_content::EndTag;
use lol_html::send::{Element, ElementContentHandlers, EndTagHandler, HtmlRewriter, Settings};
use lol_html::{AsciiCompatibleEncoding, HandlerResult, MemorySettings, OutputSink, Selector};

use super::between::Between;
use super::machine::{Machine, Take};

/// A rewriter and the machine that it drives. It is gone once it has stopped: lol_html panics when it is used
/// after an error, and is never fed again here.
pub(super) struct Driver {
    /// It is `Send` only, and some clients (reqwest) want bodies, and so scanners, that are `Sync`. Used
    /// through `get_mut`, so nothing locks.
    rewriter: Mutex<Option<HtmlRewriter<'static, SharedState>>>,
    shared: SharedState,
}

/// Why a driver takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nothing more is wanted.
    Done,
    /// The memory limit was met.
    Memory,
    /// The machine asks to start again after this many bytes, with the same state: raw text to lol_html is
    /// markup to it.
    Markup(usize),
}

impl Driver {
    pub(super) fn new(machine: Machine, encoding: AsciiCompatibleEncoding, memory_limit: usize) -> Self {
        let state = DriverState { machine, between: Between::default(), markup_at: None };
        let shared = SharedState(Arc::new(Cell { mode: AtomicU8::new(IDLE), state: Mutex::new(state) }));
        let memory = MemorySettings::new().with_max_allowed_memory_usage(memory_limit);
        let settings = Settings::new_send()
            .append_element_content_handler((Cow::Borrowed(&*EVERY_ELEMENT), shared.element_handlers()))
            .with_encoding(encoding)
            .with_memory_settings(memory)
            .with_strict(false);
        let rewriter = HtmlRewriter::new(settings, shared.clone());
        Self { rewriter: Some(rewriter).into(), shared }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        bytes.chunks(SLICE_BYTES).try_for_each(|slice| self.write_slice(slice))
    }

    /// Takes at most [`SLICE_BYTES`].
    pub(super) fn write_slice(&mut self, slice: &[u8]) -> Result<(), Stop> {
        let Some(rewriter) = self.rewriter() else { return Err(Stop::Done) };
        let written = rewriter.write(slice);
        self.check(written)
    }

    /// The document ends here.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        let Some(rewriter) = self.rewriter().take() else { return Err(Stop::Done) };
        let ended = rewriter.end();
        self.check(ended)?;
        // What is pending between tags (`<`, `&#33`) is text at most, and nothing follows that it could keep
        // from the head.
        self.machine(Machine::end_noscript);
        Ok(())
    }

    fn rewriter(&mut self) -> &mut Option<HtmlRewriter<'static, SharedState>> {
        self.rewriter.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives access to the machine.
    pub(super) fn machine<T>(&self, act: impl FnOnce(&mut Machine) -> T) -> T {
        act(&mut self.shared.lock().machine)
    }

    /// Gives the machine back.
    pub(super) fn into_machine(self) -> Machine {
        let empty = Machine::scripted(false);
        self.machine(|machine| std::mem::replace(machine, empty))
    }

    fn check(&mut self, result: Result<(), lol_html::errors::RewritingError>) -> Result<(), Stop> {
        let markup_at = self.shared.lock().markup_at;
        let stop = match (result, markup_at) {
            (_, Some(at)) => Stop::Markup(at),
            (Ok(()), None) => return Ok(()),
            (Err(_), None) => Stop::Memory,
        };
        *self.rewriter() = None;
        Err(stop)
    }
}

/// lol_html appends the whole of a chunk to what it has buffered, so small slices keep its memory small.
pub(super) const SLICE_BYTES: usize = 4 * 1024;

/// Selectors are compiled once.
#[allow(clippy::expect_used, reason = "the text is a constant, and every test of the scanner parses it")]
static EVERY_ELEMENT: LazyLock<Selector> = LazyLock::new(|| "*".parse().expect("`*` is a selector"));

/// What the handlers and the sink share.
#[derive(Clone)]
struct SharedState(Arc<Cell>);

struct Cell {
    /// What the sink does with output. Most of it needs no look at the state.
    mode: AtomicU8,
    /// The lock is never contended: lol_html calls one handler at a time, on the thread that feeds it.
    state: Mutex<DriverState>,
}

/// Between start tags, with nothing pending: blank output means nothing.
const IDLE: u8 = 0;
/// Within a comment, a reference, an end tag: every byte counts.
const PENDING: u8 = 1;
/// Within raw text that means nothing.
const RAW: u8 = 2;
/// At a noscript: its own start tag is what comes next.
const NOSCRIPT_TAG: u8 = 3;
/// Within the raw text of a noscript.
const NOSCRIPT: u8 = 4;

struct DriverState {
    machine: Machine,
    between: Between,
    markup_at: Option<usize>,
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, DriverState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mode(&self) -> u8 {
        self.0.mode.load(Ordering::Relaxed)
    }

    fn set_mode(&self, mode: u8) {
        self.0.mode.store(mode, Ordering::Relaxed);
    }

    fn element_handlers(&self) -> ElementContentHandlers<'static> {
        let shared = self.clone();
        ElementContentHandlers::default()
            .element(move |element: &mut Element<'_, '_>| shared.element(element))
    }

    /// A start tag.
    fn element(&self, element: &mut Element<'_, '_>) -> HandlerResult {
        let mut state = self.lock();
        let DriverState { machine, between, .. } = &mut *state;
        between.end(machine);
        let name = element.tag_name();
        // Within svg and math these names are those of other elements.
        let is_html = element.namespace_uri() == HTML;
        let is_foreign_template = !is_html && name == "template" && machine.is_behind_head();
        let take = if is_foreign_template { Take::Pass } else { machine.start_tag(name.as_bytes()) };
        let attribute = |name| element.get_attribute(name).map(|value| decoded(value.into()));
        match take {
            Take::Pass => {}
            Take::Meta => state.machine.found.add_meta(attribute),
            Take::Stray => state.machine.found.add_meta_of_body(attribute),
            Take::Link => state.machine.found.add_link(attribute),
            Take::Markup => {
                state.markup_at = Some(element.source_location().bytes().end);
                return Err(STOPPED.into());
            }
        }
        let mode = match name.as_str() {
            "noscript" if state.machine.wants_raw_text() => NOSCRIPT_TAG,
            "title" | "textarea" | "style" | "script" | "noscript" | "noframes" | "noembed" | "iframe"
            | "xmp" | "plaintext" => RAW,
            _ => IDLE,
        };
        if mode != IDLE && is_html {
            self.await_end_tag(element, mode);
        } else {
            self.set_mode(IDLE);
        }
        Ok(())
    }

    /// Raw text ends with the end tag of its own element and with nothing else, which lol_html finds.
    fn await_end_tag(&self, element: &mut Element<'_, '_>, mode: u8) {
        let Some(handlers) = element.end_tag_handlers() else { return self.set_mode(IDLE) };
        let shared = self.clone();
        let handler: EndTagHandler<'static> = Box::new(move |_: &mut EndTag<'_>| {
            shared.set_mode(IDLE);
            Ok(())
        });
        handlers.push(handler);
        self.set_mode(mode);
    }

    /// Output: what lies between start tags, and the start tags themselves, each by itself.
    fn output(&self, chunk: &[u8]) {
        match self.mode() {
            RAW => {}
            IDLE if is_start_tag(chunk) || chunk.iter().all(u8::is_ascii_whitespace) => {}
            NOSCRIPT_TAG => self.set_mode(NOSCRIPT),
            NOSCRIPT => self.lock().machine.raw_text(chunk),
            _ => {
                let mut state = self.lock();
                let DriverState { machine, between, .. } = &mut *state;
                between.feed(chunk, machine);
                self.set_mode(if between.is_idle() { IDLE } else { PENDING });
            }
        }
    }
}

/// Nothing else begins like this: between start tags there is no other `<` before a letter.
fn is_start_tag(chunk: &[u8]) -> bool {
    matches!(chunk, [b'<', letter, ..] if letter.is_ascii_alphabetic())
}

const HTML: &str = "http://www.w3.org/1999/xhtml";

/// An attribute's value as the DOM has it: line ends normalised, NUL replaced, character references decoded.
pub(super) fn decoded(mut value: Cow<'_, str>) -> Cow<'_, str> {
    if memchr::memchr3(b'\r', b'\0', b'&', value.as_bytes()).is_none() {
        return value;
    }
    if value.contains('\r') {
        value = value.replace("\r\n", "\n").replace('\r', "\n").into();
    }
    if value.contains('\0') {
        value = value.replace('\0', "\u{fffd}").into();
    }
    if value.contains('&') { htmlize::unescape_attribute(value) } else { value }
}

impl OutputSink for SharedState {
    fn handle_chunk(&mut self, chunk: &[u8]) {
        self.output(chunk);
    }
}

/// The way to stop lol_html from within a handler.
const STOPPED: &str = "the scan starts again here";
