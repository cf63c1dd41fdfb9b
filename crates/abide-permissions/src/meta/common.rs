//! A tokenizer for common heads, in front of lol_html.
//!
//! Most heads are made of a doctype, comments, `meta`, `link`, `title`, `style` and `script`, written as every template writes them: in lower
//! case, with or without quotes. This file reads those about five times as fast as lol_html does, and drives the same [`Machine`]. lol_html
//! remains the authority: at anything else, and at everything whose reading takes more than a few lines of the standard, the tokenizer gives
//! up, and lol_html goes on at the first byte of that token. Between two tokens of a head both are in the state in which a document begins: in
//! the data state, with nothing open that changes how text is read. Giving up costs time and never a meta, so when in doubt, give up.
//!
//! Two things are never decided here: where a document ends within its head, and what the content of a `noscript` holds.

use std::borrow::Cow;
use std::sync::LazyLock;

#[cfg(not(target_arch = "x86_64"))]
use memchr::arch::all::memchr::One;
#[cfg(target_arch = "x86_64")]
use memchr::arch::x86_64::sse2::memchr::One;
use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter};

use super::machine::{Machine, Take};
use super::rewriter::decoded;
use crate::head::Meta;

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

    /// Takes the next bytes. After [`HeadProgress::Unusual`] it takes no more. Where the head ends, the token that ends it and what follows
    /// are shown to `is_wanted`, and if that says so, they are for lol_html.
    pub(super) fn write(&mut self, bytes: &[u8], is_wanted: impl FnOnce(&[u8]) -> bool) -> HeadProgress {
        let mut held = std::mem::take(&mut self.held);
        // Every token ends with `>`. Without this a long token that comes byte by byte would be read again for each.
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
    #[inline(never)]
    fn read(&mut self, bytes: &mut &[u8]) -> HeadProgress {
        loop {
            // As between nearly all tags: to look for any other blank takes a twentieth more.
            if let [b'\n', rest @ ..] = *bytes {
                *bytes = rest;
            }
            if !matches!(bytes, [b'<', ..]) {
                *bytes = bytes.trim_ascii_start();
            }
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

/// A token that has not ended after so many bytes, a long script for example, is for lol_html, which needs not hold it.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Reads one token, an element of raw text being one as a whole, and returns what follows it. The machine has seen nothing of a token that is
/// not read, but for the start tag of raw text, which it may see twice.
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

#[inline(never)]
fn read_end_tag<'a>(tag: Tag<'a>, machine: &mut Machine) -> Result<&'a [u8], Unread> {
    let (name, mut tag) = tag.name()?;
    let rest = tag.end()?;
    machine.end_tag(name);
    Ok(rest)
}

/// A comment or a doctype.
#[inline(never)]
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
        // §13.2.5.43 and .44: so do `<!-->` and `<!--->`. §13.2.5.53 to .67: the first `>` ends a doctype, even between quotes.
        if !is_comment || text.ends_with(b"--") {
            return Ok(skip(rest, 1));
        }
    }
    Err(Unread::More)
}

/// A start tag, and the raw text behind it. Calls, and what rare branches made the compiler keep in memory, were a third of the scan.
fn read_element<'a>(tag: Tag<'a>, machine: &mut Machine) -> Result<&'a [u8], Unread> {
    let (element, tag) = tag.element()?;
    let (mut name, mut content, mut kind, mut other) = (None, None, None, false);
    let rest = tag.attributes(|attribute, value| {
        let place = if attribute == b"content" {
            &mut content
        } else if attribute == b"name" {
            &mut name
        } else if attribute == b"type" {
            &mut kind
        } else {
            // No crawler's name has a colon.
            other |= (attribute == b"property" || attribute == b"http-equiv") && !value.contains(&b':');
            return;
        };
        // §13.2.5.33: of attributes with one name, the first counts.
        place.get_or_insert(value);
    })?;
    if element == b"meta" {
        match name {
            None | Some(b"") if other => read_meta_of_other_name(tag, machine)?,
            // Most metas have no name, so their content does not matter.
            None | Some(b"") => _ = machine.start_tag(b"meta"),
            Some(name) => read_meta(name, content.unwrap_or_default(), machine)?,
        }
        Ok(rest)
    } else if element == b"link" {
        // A link to a licence (RSL), of which a site has one, is for lol_html.
        if kind.is_some_and(may_be_license) {
            return Err(Unread::Unusual);
        }
        machine.start_tag(b"link");
        Ok(rest)
    } else {
        read_other(element, rest, machine)
    }
}

#[inline(never)]
fn read_meta(name: &[u8], content: &[u8], machine: &mut Machine) -> Result<(), Unread> {
    let (name, content) = (text_of(name)?, text_of(content)?);
    if machine.start_tag(b"meta") == Take::Meta {
        machine.found.metas.push(Meta::new(name, content));
    }
    Ok(())
}

/// A meta that another attribute names: `http-equiv`, or a `property` without a colon.
#[inline(never)]
fn read_meta_of_other_name(tag: Tag<'_>, machine: &mut Machine) -> Result<(), Unread> {
    let mut attributes = Vec::new();
    tag.attributes(|name, value| {
        if [&b"property"[..], b"http-equiv", b"content"].contains(&name) {
            attributes.push((name, text_of(value)));
        }
    })?;
    if attributes.iter().any(|(_, value)| value.is_err()) {
        return Err(Unread::Unusual);
    }
    if machine.start_tag(b"meta") == Take::Meta {
        machine.found.add_meta(|wanted| {
            let (_, value) = attributes.iter().find(|(name, _)| *name == wanted.as_bytes())?;
            value.as_ref().ok().map(|value| value.clone().into_owned())
        });
    }
    Ok(())
}

/// An element that is neither a meta nor a link, of which its attributes do not matter.
#[inline(never)]
fn read_other<'a>(element: &[u8], rest: &'a [u8], machine: &mut Machine) -> Result<&'a [u8], Unread> {
    // Its content is a document of its own.
    if element == b"template" {
        return Err(Unread::Unusual);
    }
    machine.start_tag(element);
    let is_raw = matches!(element, b"title" | b"style" | b"script" | b"noscript" | b"noframes");
    if is_raw && !machine.is_behind_head() { read_raw_text(rest, element, machine) } else { Ok(rest) }
}

fn may_be_license(kind: &[u8]) -> bool {
    kind.contains(&b'&') || kind.windows(3).any(|part| part.eq_ignore_ascii_case(b"rsl"))
}

/// Reads the raw text of an element and its end tag, and returns what follows (§13.2.5.11 to .17).
#[inline(never)]
fn read_raw_text<'a>(text: &'a [u8], element: &[u8], machine: &mut Machine) -> Result<&'a [u8], Unread> {
    // §13.2.5.18 to .31: from there on, a script may hold its own end tag.
    let is_usual = |script: &[u8]| element != b"script" || COMMENT.find(script).is_none();
    // A script may hold many a `<`, and few of these.
    for at in END_TAG.find_iter(text) {
        let (before, tag) = text.split_at(at);
        let Some((written, after)) = skip(tag, 2).split_at_checked(element.len()) else { break };
        let mut after = Tag(after);
        if written.eq_ignore_ascii_case(element) && (after.is_at(END) || after.0.is_empty()) {
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

/// What is left of a tag, and what follows it.
#[derive(Clone, Copy)]
struct Tag<'a>(&'a [u8]);

/// The name and the value of an attribute, as written, and what follows it.
type Attribute<'a> = (&'a [u8], &'a [u8], &'a [u8]);

impl<'a> Tag<'a> {
    fn is_at(&self, set: u8) -> bool {
        self.0.first().is_some_and(|byte| is_in(set, *byte))
    }

    /// Why the next byte is not taken.
    fn stop(&self) -> Unread {
        if self.0.is_empty() { Unread::More } else { Unread::Unusual }
    }

    /// Takes all that is in this set, which lower-case letters are in.
    fn take(&mut self, set: u8) -> &'a [u8] {
        let mut end = self.0.first_chunk().map_or(0, letters);
        while self.0.get(end).is_some_and(|byte| is_in(set, *byte)) {
            end = end.wrapping_add(1);
        }
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    /// The name of an element, which nearly always is one of two, and what is left.
    #[inline(always)]
    fn element(self) -> Result<(&'a [u8], Self), Unread> {
        for common in [b"meta", b"link"] {
            if let Some(rest @ [b' ', ..]) = self.0.strip_prefix(common) {
                return Ok((common, Self(rest)));
            }
        }
        self.name()
    }

    /// The name of an element, if it is in lower case, as on most pages, and what is left.
    #[inline(never)]
    fn name(mut self) -> Result<(&'a [u8], Self), Unread> {
        let name = self.take(NAME);
        let is_name = name.first().is_some_and(u8::is_ascii_lowercase) && self.is_at(END);
        if is_name { Ok((name, self)) } else { Err(self.stop()) }
    }

    /// Reads the attributes, if their names are in lower case, each with its value as written, and returns what follows the tag.
    #[inline(always)]
    fn attributes(mut self, mut visit: impl FnMut(&'a [u8], &'a [u8])) -> Result<&'a [u8], Unread> {
        loop {
            match self.0 {
                [b'>', rest @ ..] => return Ok(rest),
                [b' ', rest @ ..] => self.0 = rest,
                _ => {}
            }
            let (name, value, rest) = match self.common_attribute() {
                Some(read) => read,
                None => self.attribute()?,
            };
            visit(name, value);
            self.0 = rest;
        }
    }

    /// An attribute as nearly all are written, `rel="icon"`, and what follows it: that one length is checked takes an eighth off the scan.
    // Calls would add a fifth to it. memchr would be one; its vectors alone are none. So would the start tag of the machine.
    #[allow(clippy::useless_conversion, reason = "some targets have one for certain")]
    #[inline(always)]
    fn common_attribute(&self) -> Option<Attribute<'a>> {
        let [begin @ .., _, _] = self.0.first_chunk::<10>()?;
        let (name, rest) = self.0.split_at_checked(letters(begin)).filter(|(name, _)| !name.is_empty())?;
        let quoted = rest.strip_prefix(b"=\"")?;
        let (value, rest) = quoted.split_at_checked(Option::<One>::from(One::new(b'"'))?.find(quoted)?)?;
        Some((name, value, skip(rest, 1)))
    }

    /// Any attribute, or blanks, and what follows.
    #[inline(always)]
    fn attribute(mut self) -> Result<Attribute<'a>, Unread> {
        let name = self.take(NAME);
        let value = match self.0 {
            _ if self.is_at(END) => {
                self.skip_blanks();
                b""
            }
            _ if name.is_empty() => return Err(self.stop()),
            [b'=', quote @ (b'"' | b'\''), quoted @ ..] => {
                let quoted = memchr(*quote, quoted).and_then(|at| quoted.split_at_checked(at));
                let Some((value, [_, rest @ ..])) = quoted else { return Err(Unread::More) };
                self.0 = rest;
                value
            }
            [b'=', value @ ..] => {
                self.0 = value;
                let value = self.take(UNQUOTED);
                if value.is_empty() || !self.is_at(END) {
                    return Err(self.stop());
                }
                value
            }
            _ => return Err(self.stop()),
        };
        Ok((name, value, self.0))
    }

    /// What follows the `>` that is next.
    fn end(&mut self) -> Result<&'a [u8], Unread> {
        self.skip_blanks();
        self.0.strip_prefix(b">").ok_or_else(|| self.stop())
    }

    fn skip_blanks(&mut self) {
        // §13.2.5.40: a slash that does not end the tag is a blank.
        while let [b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'/', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }
}

/// How many of the first bytes are lower-case letters, or else such as names and values may hold as well.
fn letters(block: &[u8; 8]) -> usize {
    let block = u64::from_le_bytes(*block);
    // These two bits are set in the letters.
    let others = !(block & (block << 1)) & u64::from_le_bytes([1 << 6; 8]);
    others.trailing_zeros() as usize >> 3
}

fn is_in(set: u8, byte: u8) -> bool {
    SETS.get(usize::from(byte)).is_some_and(|sets| sets & set != 0)
}

/// What names are made of here, and values without quotes.
const NAME: u8 = 1;
const UNQUOTED: u8 = 2;
/// What may follow a name.
const END: u8 = 4;

#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "it is made by the compiler")]
const SETS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < table.len() {
        let byte = at as u8;
        table[at] = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b':' | b'.' | b'@' => NAME | UNQUOTED,
            b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'>' => END,
            b'/' => END | UNQUOTED,
            b'"' | b'\'' | b'<' | b'=' | b'`' | 0 => 0,
            _ => UNQUOTED,
        };
        at += 1;
    }
    table
};

/// An attribute's value as the DOM has it.
fn text_of(value: &[u8]) -> Result<Cow<'_, str>, Unread> {
    let text = str::from_utf8(value).map_err(|_| Unread::Unusual)?;
    // lol_html drops a byte order mark at the start of a value.
    if text.starts_with('\u{feff}') {
        return Err(Unread::Unusual);
    }
    Ok(decoded(Cow::Borrowed(text)))
}

fn skip(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(count..).unwrap_or_default()
}
