//! A tokenizer for common heads, in front of lol_html.
//!
//! Most heads are made of a doctype, comments, `meta`, `link`, `title`, `style` and `script`, written as
//! every template writes them: in lower case, with or without quotes. This file reads those about five times
//! as fast as lol_html does, and drives the same [`Machine`]. lol_html remains the authority: at anything
//! else, and at everything whose reading takes more than a few lines of the standard, the tokenizer gives up,
//! and lol_html goes on at the first byte of that token. Between two tokens of a head both are in the state
//! in which a document begins: in the data state, with nothing open that changes how text is read. Giving up
//! costs time and never a meta, so when in doubt, give up.
//!
//! Two things are never decided here: where a document ends within its head, and what the content of a
//! `noscript` holds.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter};

use super::machine::{Machine, Take};
use super::rewriter::decoded;

/// Reads the bytes of a head as they come, in pieces of any size.
pub(super) struct CommonHead {
    machine: Machine,
    /// The bytes of a token that has not ended.
    held: Vec<u8>,
}

/// What has become of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadProgress {
    /// They belong to the head.
    Head,
    /// The head has ended.
    Ended,
    /// lol_html must go on: [`CommonHead::into_parts`].
    Unusual,
}

/// Why a token is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    /// It has not ended.
    More,
    /// It is for lol_html.
    Unusual,
}

impl CommonHead {
    /// At the start of a document in UTF-8, scripting on.
    pub(super) fn new(body_metas: bool) -> Self {
        Self { machine: Machine::scripted(body_metas), held: Vec::new() }
    }

    /// Takes the next bytes. After [`HeadProgress::Unusual`] it takes no more. Where the head ends, the token
    /// that ends it and what follows are shown to `is_wanted`, and if that says so, they are for lol_html.
    pub(super) fn write(&mut self, bytes: &[u8], is_wanted: impl FnOnce(&[u8]) -> bool) -> HeadProgress {
        let mut held = std::mem::take(&mut self.held);
        // Every token ends with `>`. Without this a long token that comes byte by byte would be read again
        // for each.
        let is_within_token = !held.is_empty() && memchr(b'>', bytes).is_none();
        let mut rest = if held.is_empty() {
            bytes
        } else {
            held.extend_from_slice(bytes);
            held.as_slice()
        };
        let mut progress = if is_within_token { HeadProgress::Head } else { self.read(&mut rest) };
        if progress == HeadProgress::Ended && is_wanted(rest) {
            progress = HeadProgress::Unusual;
        }
        let is_long = progress == HeadProgress::Head && rest.len() > TOKEN_BYTES_MAX;
        self.held = match progress {
            HeadProgress::Ended => Vec::new(),
            _ if rest.len() == held.len() => held,
            _ => rest.to_vec(),
        };
        if is_long { HeadProgress::Unusual } else { progress }
    }

    /// The machine as it stands, and the bytes from the first token on that it has not seen.
    pub(super) fn into_parts(self) -> (Machine, Vec<u8>) {
        (self.machine, self.held)
    }

    /// Whether there are bytes that the machine has not seen.
    pub(super) fn is_within_token(&self) -> bool {
        !self.held.is_empty()
    }

    /// What has been found so far.
    pub(super) fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Reads tokens, and leaves what could not be read.
    fn read(&mut self, bytes: &mut &[u8]) -> HeadProgress {
        loop {
            *bytes = bytes.trim_ascii_start();
            match read_token(bytes, &mut self.machine) {
                // lol_html has to see what ended the head: behind some tags text is read otherwise.
                Ok(_) if self.machine.is_behind_head() => return HeadProgress::Ended,
                Ok(rest) => *bytes = rest,
                Err(Unread::More) => return HeadProgress::Head,
                Err(Unread::Unusual) => return HeadProgress::Unusual,
            }
        }
    }
}

/// A token that has not ended after so many bytes, a long script for example, is for lol_html, which needs
/// not hold it.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Reads one token, an element of raw text being one as a whole, and returns what follows it. The machine has
/// seen nothing of a token that is not read, but for the start tag of raw text, which it may see twice.
fn read_token<'a>(token: &'a [u8], machine: &mut Machine) -> Result<&'a [u8], Unread> {
    match token {
        [b'<', b'a'..=b'z', ..] => read_element(Tag(skip(token, 1)), machine),
        [] | [b'<'] => Err(Unread::More),
        [b'<', b'!', ..] => skip_declaration(token),
        [b'<', b'/', tag @ ..] => read_end_tag(Tag(tag), machine),
        // Capital letters, or no tag.
        [b'<', ..] => Err(Unread::Unusual),
        // References to blanks are blank, and NUL is nothing in some places.
        [b'&' | 0, ..] => Err(Unread::Unusual),
        // It ends the head, so there is no need to know where the text ends.
        [_, rest @ ..] => {
            machine.text();
            Ok(rest)
        }
    }
}

fn read_end_tag<'a>(mut tag: Tag<'a>, machine: &mut Machine) -> Result<&'a [u8], Unread> {
    let name = tag.name()?;
    let rest = tag.end()?;
    machine.end_tag(name);
    Ok(rest)
}

/// A comment or a doctype.
fn skip_declaration(token: &[u8]) -> Result<&[u8], Unread> {
    let begins_like = |begin: &[u8]| token.iter().zip(begin).all(|(a, b)| a.eq_ignore_ascii_case(b));
    let is_comment = begins_like(b"<!--");
    if !is_comment && !begins_like(b"<!doctype") {
        return Err(Unread::Unusual);
    }
    for at in memchr_iter(b'>', token) {
        let (text, rest) = token.split_at(at);
        // §13.2.5.52: `--!>` ends a comment too.
        if is_comment && text.ends_with(b"--!") {
            return Err(Unread::Unusual);
        }
        // §13.2.5.43 and .44: so do `<!-->` and `<!--->`. §13.2.5.53 to .67: the first `>` ends a doctype,
        // even between quotes.
        if !is_comment || text.ends_with(b"--") {
            return Ok(skip(rest, 1));
        }
    }
    Err(Unread::More)
}

/// A start tag, and the raw text behind it.
fn read_element<'a>(mut tag: Tag<'a>, machine: &mut Machine) -> Result<&'a [u8], Unread> {
    let element = tag.name()?;
    let (attributes, rest) = tag.attributes()?;
    match element {
        b"meta" => read_meta(&attributes, machine)?,
        // A link to a licence (RSL), of which a site has one, is for lol_html.
        b"link" if attributes.kind.is_some_and(may_be_license) => return Err(Unread::Unusual),
        // Its content is a document of its own.
        b"template" => return Err(Unread::Unusual),
        _ => _ = machine.start_tag(element),
    }
    let is_raw = matches!(element, b"title" | b"style" | b"script" | b"noscript" | b"noframes");
    if is_raw && !machine.is_behind_head() { read_raw_text(rest, element, machine) } else { Ok(rest) }
}

fn read_meta(attributes: &Attributes<'_>, machine: &mut Machine) -> Result<(), Unread> {
    if !attributes.are_text() {
        return Err(Unread::Unusual);
    }
    if machine.start_tag(b"meta") == Take::Meta {
        machine.found.add_meta(|name| attributes.text(name));
    }
    Ok(())
}

fn may_be_license(kind: &[u8]) -> bool {
    kind.contains(&b'&') || kind.windows(3).any(|part| part.eq_ignore_ascii_case(b"rsl"))
}

/// Reads the raw text of an element and its end tag, and returns what follows (§13.2.5.11 to .17).
fn read_raw_text<'a>(text: &'a [u8], element: &[u8], machine: &mut Machine) -> Result<&'a [u8], Unread> {
    // §13.2.5.18 to .31: from there on, a script may hold its own end tag.
    let is_usual = |script: &[u8]| element != b"script" || COMMENT.find(script).is_none();
    // A script may hold many a `<`, and few of these.
    for at in END_TAG.find_iter(text) {
        let (before, tag) = text.split_at(at);
        let Some((written, after)) = skip(tag, 2).split_at_checked(element.len()) else { break };
        let after = Tag(after);
        if written.eq_ignore_ascii_case(element) && (after.is_at(ends_name) || after.0.is_empty()) {
            if !is_usual(before) {
                return Err(Unread::Unusual);
            }
            let rest = after.end()?;
            machine.raw_text(before);
            machine.end_tag(element);
            return Ok(rest);
        }
    }
    Err(if is_usual(text) { Unread::More } else { Unread::Unusual })
}

static END_TAG: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("</"));
static COMMENT: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("<!--"));

/// The values of the attributes that matter, as written.
#[derive(Default)]
struct Attributes<'a> {
    name: Option<&'a [u8]>,
    content: Option<&'a [u8]>,
    property: Option<&'a [u8]>,
    http_equiv: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl<'a> Attributes<'a> {
    fn put(&mut self, name: &[u8], value: &'a [u8]) {
        let place = match name {
            b"name" => &mut self.name,
            b"content" => &mut self.content,
            b"property" => &mut self.property,
            b"http-equiv" => &mut self.http_equiv,
            b"type" => &mut self.kind,
            _ => return,
        };
        // §13.2.5.33: of attributes with one name, the first counts.
        place.get_or_insert(value);
    }

    /// Whether those of a meta are text to lol_html as they are here: it drops a byte order mark at the start
    /// of a value.
    fn are_text(&self) -> bool {
        let is_text = |value: &[u8]| str::from_utf8(value).is_ok_and(|text| !text.starts_with('\u{feff}'));
        [self.name, self.content, self.property, self.http_equiv].into_iter().flatten().all(is_text)
    }

    /// The value of an attribute of a meta, as the DOM has it.
    fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let value = match name {
            "name" => self.name,
            "content" => self.content,
            "property" => self.property,
            _ => self.http_equiv,
        };
        Some(decoded(String::from_utf8_lossy(value?)))
    }
}

/// What is left of a tag, and what follows it.
#[derive(Clone, Copy)]
struct Tag<'a>(&'a [u8]);

impl<'a> Tag<'a> {
    fn is_at(&self, is_wanted: impl Fn(u8) -> bool) -> bool {
        self.0.first().is_some_and(|byte| is_wanted(*byte))
    }

    /// Why the next byte is not taken.
    fn stop(&self) -> Unread {
        if self.0.is_empty() { Unread::More } else { Unread::Unusual }
    }

    fn take(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !is_wanted(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    /// The name of an element, if it is in lower case, as on most pages.
    fn name(&mut self) -> Result<&'a [u8], Unread> {
        let name = self.take(is_of_name);
        let is_name = name.first().is_some_and(u8::is_ascii_lowercase) && self.is_at(ends_name);
        if is_name { Ok(name) } else { Err(self.stop()) }
    }

    /// The attributes, if their names are in lower case, and what follows the tag.
    fn attributes(mut self) -> Result<(Attributes<'a>, &'a [u8]), Unread> {
        let mut attributes = Attributes::default();
        loop {
            self.skip_blanks();
            if let [b'>', rest @ ..] = self.0 {
                return Ok((attributes, rest));
            }
            let name = self.take(is_of_name);
            if name.is_empty() {
                return Err(self.stop());
            }
            attributes.put(name, self.value()?);
        }
    }

    /// The value of the attribute whose name has been taken.
    fn value(&mut self) -> Result<&'a [u8], Unread> {
        match self.0 {
            [b'=', quote @ (b'"' | b'\''), quoted @ ..] => {
                let (value, rest) =
                    memchr(*quote, quoted).map(|at| quoted.split_at(at)).ok_or(Unread::More)?;
                self.0 = skip(rest, 1);
                Ok(value)
            }
            [b'=', value @ ..] => {
                self.0 = value;
                let value = self.take(|byte| !ends_unquoted(byte));
                if !value.is_empty() && self.is_at(|byte| is_blank(byte) || byte == b'>') {
                    Ok(value)
                } else {
                    Err(self.stop())
                }
            }
            _ if self.is_at(ends_name) => Ok(b""),
            _ => Err(self.stop()),
        }
    }

    /// What follows the `>` that is next.
    fn end(mut self) -> Result<&'a [u8], Unread> {
        self.skip_blanks();
        self.0.strip_prefix(b">").ok_or_else(|| self.stop())
    }

    /// §13.2.5.40: a slash that does not end the tag is a blank.
    fn skip_blanks(&mut self) {
        self.take(|byte| is_blank(byte) || byte == b'/');
    }
}

fn is_of_name(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b':' | b'.' | b'@')
}

fn ends_name(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'/' | b'>')
}

/// What a value without quotes can't hold, or not without an error of the standard.
fn ends_unquoted(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'>' | b'"' | b'\'' | b'<' | b'=' | b'`' | 0)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

fn skip(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(count..).unwrap_or_default()
}
