//! Where the head of a document ends, by the tree construction rules of the HTML standard (§13.2.6.4.3 to
//! .7).
//!
//! `</head>` does not end it for metas: after it, metadata elements are still put *into* the head element.
//! What ends it is text, or an element that belongs into the body.

use crate::head::FoundInHead;

/// The place in a document, and the metas found on the way to it.
pub(super) struct Machine {
    place: HeadPlace,
    /// Whether metas of the body count as those of the head; else they are strays.
    body_metas: bool,
    /// Whether the markup is read as a browser without scripting reads it, so that noscript is an element
    /// like others.
    unscripted: bool,
    /// Open `template` elements. Their content is a document fragment of its own, not the head.
    template_depth: usize,
    /// Text within svg or math inside a template can't be distinguished from other text, so it no longer
    /// ends the head.
    foreign_in_template: bool,
    noscript: Option<Noscript>,
    pub(super) found: FoundInHead,
    /// Noscript elements that wait for their own scan.
    pub(super) noscripts: Vec<Noscript>,
}

/// Insertion modes, as far as they matter to metas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadPlace {
    BeforeHead,
    InHead,
    AfterHead,
    /// In a noscript of the head, scripting off.
    InHeadNoscript,
    /// Behind the end of the head.
    Body,
}

/// What the caller does with the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// Nothing.
    Pass,
    /// It is a meta that counts: `found` takes its attributes.
    Meta,
    /// It is a meta behind the head: `found` takes its attributes.
    Stray,
    /// It is a link of the head: `found` takes its attributes.
    Link,
    /// A noscript that is markup to us: its content must be scanned as such.
    Markup,
}

/// The content of a noscript, which is text with scripting on and markup with scripting off.
pub(super) struct Noscript {
    pub(super) content: Vec<u8>,
    /// Open templates around it.
    template_depth: usize,
    /// Whether its metas are strays.
    pub(super) is_behind_head: bool,
    full: bool,
}

/// Bytes of one noscript that are looked at: it holds a tracking pixel and perhaps a redirect.
const NOSCRIPT_BYTES_MAX: usize = 64 * 1024;

impl Machine {
    /// At the start of a document, scripting on.
    pub(super) fn scripted(body_metas: bool) -> Self {
        Self::new(HeadPlace::BeforeHead, body_metas, false, 0)
    }

    /// At the start of a noscript, scripting off.
    pub(super) fn unscripted(noscript: &Noscript, body_metas: bool) -> Self {
        let place = match noscript.template_depth {
            _ if noscript.is_behind_head => HeadPlace::Body,
            0 => HeadPlace::InHeadNoscript,
            _ => HeadPlace::InHead,
        };
        Self::new(place, body_metas, true, noscript.template_depth)
    }

    fn new(place: HeadPlace, body_metas: bool, unscripted: bool, template_depth: usize) -> Self {
        Self {
            place,
            body_metas,
            unscripted,
            template_depth,
            foreign_in_template: false,
            noscript: None,
            found: FoundInHead::default(),
            noscripts: Vec::new(),
        }
    }

    /// Whether no more metas can count: what follows are strays.
    pub(super) fn has_ended(&self) -> bool {
        self.place == HeadPlace::Body && !self.body_metas
    }

    /// Whether the head has ended, whatever counts behind it.
    pub(super) fn is_behind_head(&self) -> bool {
        self.place == HeadPlace::Body
    }

    /// A start tag; its name is in lower case.
    pub(super) fn start_tag(&mut self, name: &[u8]) -> Take {
        self.end_noscript();
        if self.template_depth > 0 {
            match name {
                b"template" => self.template_depth = self.template_depth.saturating_add(1),
                b"svg" | b"math" => self.foreign_in_template = true,
                b"noscript" => return self.open_noscript(),
                _ => {}
            }
            return Take::Pass;
        }
        if self.place == HeadPlace::InHeadNoscript {
            match name {
                b"meta" => return Take::Meta,
                b"basefont" | b"bgsound" | b"link" | b"noframes" | b"style" | b"html" | b"head" => {
                    return Take::Pass;
                }
                b"noscript" => return self.open_noscript(),
                _ => self.place = HeadPlace::InHead,
            }
        }
        self.start_tag_in_head(name)
    }

    fn start_tag_in_head(&mut self, name: &[u8]) -> Take {
        match (name, self.place) {
            (b"meta", HeadPlace::Body) => return if self.body_metas { Take::Meta } else { Take::Stray },
            (b"template", HeadPlace::Body) => self.template_depth = 1,
            (b"noscript", HeadPlace::Body) => return self.open_noscript(),
            (_, HeadPlace::Body) => {}
            (b"html", _) => {}
            (b"head", HeadPlace::BeforeHead) => self.place = HeadPlace::InHead,
            (b"head", _) => {}
            (b"meta", _) => {
                self.enter_head();
                return Take::Meta;
            }
            (b"link", _) => {
                self.enter_head();
                return Take::Link;
            }
            (b"base" | b"basefont" | b"bgsound" | b"title" | b"style" | b"script" | b"noframes", _) => {
                self.enter_head();
            }
            (b"template", _) => {
                self.enter_head();
                self.template_depth = 1;
            }
            (b"noscript", HeadPlace::BeforeHead | HeadPlace::InHead) => {
                self.enter_head();
                return self.open_noscript();
            }
            (b"noscript", HeadPlace::AfterHead) => {
                self.end_head();
                return self.open_noscript();
            }
            _ => self.end_head(),
        }
        Take::Pass
    }

    /// An end tag; its name is in lower case.
    pub(super) fn end_tag(&mut self, name: &[u8]) {
        self.end_noscript();
        if self.template_depth > 0 {
            if name == b"template" {
                self.template_depth = self.template_depth.saturating_sub(1);
            }
            return;
        }
        match (name, self.place) {
            (_, HeadPlace::Body) => {}
            (b"br", _) => self.end_head(),
            (_, HeadPlace::InHeadNoscript) => {}
            (b"head", HeadPlace::BeforeHead | HeadPlace::InHead) => self.place = HeadPlace::AfterHead,
            (b"body" | b"html", _) => self.end_head(),
            _ => {}
        }
    }

    /// Text that is not blank, outside raw-text elements.
    pub(super) fn text(&mut self) {
        if self.template_depth == 0 && !self.foreign_in_template {
            self.end_head();
        }
    }

    pub(super) fn wants_raw_text(&self) -> bool {
        self.noscript.is_some()
    }

    pub(super) fn raw_text(&mut self, text: &[u8]) {
        let Some(noscript) = &mut self.noscript else { return };
        let content = &mut noscript.content;
        let room = NOSCRIPT_BYTES_MAX.saturating_sub(content.len());
        let kept = text.get(..room).unwrap_or(text);
        // Doubled as a vector would, but never beyond the limit.
        if content.capacity().saturating_sub(content.len()) < kept.len() {
            content.reserve_exact(content.len().max(kept.len()).min(room));
        }
        content.extend_from_slice(kept);
        noscript.full |= text.len() > room;
    }

    fn open_noscript(&mut self) -> Take {
        if self.unscripted {
            if self.place == HeadPlace::InHead && self.template_depth == 0 {
                self.place = HeadPlace::InHeadNoscript;
            }
            return Take::Markup;
        }
        let (template_depth, is_behind_head) = (self.template_depth, self.has_ended());
        self.noscript = Some(Noscript { content: Vec::new(), template_depth, is_behind_head, full: false });
        Take::Pass
    }

    #[inline]
    pub(super) fn end_noscript(&mut self) {
        // Asked for each tag, and `take` writes.
        if self.noscript.is_some() {
            self.close_noscript();
        }
    }

    fn close_noscript(&mut self) {
        let Some(noscript) = self.noscript.take() else { return };
        // Strays are looked for within the limits, and what is beyond leaves the head known.
        self.found.noscript_cut |= noscript.full && !noscript.is_behind_head;
        if !noscript.content.is_empty() {
            self.noscripts.push(noscript);
        }
    }

    fn enter_head(&mut self) {
        if self.place == HeadPlace::BeforeHead {
            self.place = HeadPlace::InHead;
        }
    }

    fn end_head(&mut self) {
        self.place = HeadPlace::Body;
    }
}
