//! A tokenizer for common heads, in front of lol_html.
//!
//! Most heads are made of a doctype, comments, `meta`, `link`, `title`, `style` and `script`, written as every template writes them: in lower
//! case, with or without quotes. This file reads those about four times as fast as lol_html does, and drives the same [`Machine`]. lol_html
//! remains the authority: at anything else, and at everything whose reading takes more than a few lines of the standard, the tokenizer gives
//! up, and lol_html goes on at the first byte of that token. Between two tokens of a head both are in the state in which a document begins: in
//! the data state, with nothing open that changes how text is read. Giving up costs time and never a meta, so when in doubt, give up.
//!
//! Two things are never decided here: where a document ends within its head, and what the content of a `noscript` holds.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memmem};

use super::machine::{Machine, Take};
use super::rewriter::decoded;
use crate::options::MetaScope;

/// Reads the bytes of a head as they come, in pieces of any size.
pub(super) struct CommonHead {
    machine: Machine,
    /// The bytes of a token that has not ended.
    held: Vec<u8>,
}

/// What has become of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// They belong to the head.
    Head,
    /// The head has ended.
    Ended,
    /// lol_html must go on: [`CommonHead::into_parts`].
    Unusual,
}

/// Why a token is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// It has not ended.
    More,
    /// It is for lol_html.
    Unusual,
}

impl CommonHead {
    /// At the start of a document in UTF-8, scripting on.
    pub(super) fn new() -> Self {
        Self { machine: Machine::scripted(MetaScope::Head), held: Vec::new() }
    }

    /// Takes the next bytes. After [`Progress::Unusual`] it takes no more.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Progress {
        let mut held = std::mem::take(&mut self.held);
        // Every token ends with `>`. Without this a long token that comes byte by byte would be read again for each.
        let is_within_token = !held.is_empty() && memchr(b'>', bytes).is_none();
        let mut rest = if held.is_empty() {
            bytes
        } else {
            held.extend_from_slice(bytes);
            held.as_slice()
        };
        let progress = if is_within_token { Progress::Head } else { self.read(&mut rest) };
        let is_long = progress == Progress::Head && rest.len() > TOKEN_BYTES_MAX;
        self.held = match progress {
            Progress::Ended => Vec::new(),
            _ if rest.len() == held.len() => held,
            _ => rest.to_vec(),
        };
        if is_long { Progress::Unusual } else { progress }
    }

    /// The machine as it stands, and the bytes from the first token on that it has not seen.
    pub(super) fn into_parts(self) -> (Machine, Vec<u8>) {
        (self.machine, self.held)
    }

    /// What has been found so far.
    pub(super) fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Reads tokens, and leaves what could not be read.
    fn read(&mut self, bytes: &mut &[u8]) -> Progress {
        loop {
            if self.machine.is_done() {
                return Progress::Ended;
            }
            *bytes = bytes.trim_ascii_start();
            match read_token(bytes, &mut self.machine) {
                Ok(rest) => *bytes = rest,
                Err(Stop::More) => return Progress::Head,
                Err(Stop::Unusual) => return Progress::Unusual,
            }
        }
    }
}

/// A token that has not ended after so many bytes, a long script for example, is for lol_html, which needs not hold it.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Reads one token, an element of raw text being one as a whole, and returns what follows it. The machine has seen nothing of a token that is
/// not read, but for the start tag of raw text, which it may see twice.
fn read_token<'a>(token: &'a [u8], machine: &mut Machine) -> Result<&'a [u8], Stop> {
    match token {
        [] | [b'<'] => Err(Stop::More),
        [b'<', b'!', ..] => skip_declaration(token),
        [b'<', b'/', tag @ ..] => {
            let mut tag = Tag(tag);
            let name = tag.name()?;
            let rest = tag.end()?;
            machine.end_tag(name);
            Ok(rest)
        }
        [b'<', tag @ ..] => read_element(Tag(tag), machine),
        // References to blanks are blank, and NUL is nothing in some places.
        [b'&' | 0, ..] => Err(Stop::Unusual),
        // It ends the head, so there is no need to know where the text ends.
        [_, rest @ ..] => {
            machine.text();
            Ok(rest)
        }
    }
}

/// A comment or a doctype.
fn skip_declaration(token: &[u8]) -> Result<&[u8], Stop> {
    let begins_like = |begin: &[u8]| token.iter().zip(begin).all(|(a, b)| a.eq_ignore_ascii_case(b));
    let is_comment = begins_like(b"<!--");
    if !is_comment && !begins_like(b"<!doctype") {
        return Err(Stop::Unusual);
    }
    for at in memchr_iter(b'>', token) {
        let (text, rest) = token.split_at(at);
        // §13.2.5.52: `--!>` ends a comment too.
        if is_comment && text.ends_with(b"--!") {
            return Err(Stop::Unusual);
        }
        // §13.2.5.43 and .44: so do `<!-->` and `<!--->`. §13.2.5.53 to .67: the first `>` ends a doctype, even between quotes.
        if !is_comment || text.ends_with(b"--") {
            return Ok(skip(rest, 1));
        }
    }
    Err(Stop::More)
}

fn read_element<'a>(mut tag: Tag<'a>, machine: &mut Machine) -> Result<&'a [u8], Stop> {
    let element = tag.name()?;
    let (mut name, mut content) = (None, None);
    while let Some((attribute, value)) = tag.attribute()? {
        match (element, attribute) {
            // §13.2.5.33: of attributes with one name, the first counts.
            (b"meta", b"name") => _ = name.get_or_insert(value),
            (b"meta", b"content") => _ = content.get_or_insert(value),
            // A link to a licence (RSL), of which a site has one, is for lol_html.
            (b"link", b"type") if may_be_license(value) => return Err(Stop::Unusual),
            _ => {}
        }
    }
    let Tag(rest) = tag;
    // Most metas have no name, so their content does not matter.
    let meta = match name {
        None | Some(b"") => None,
        Some(name) => Some((text_of(name)?, text_of(content.unwrap_or_default())?)),
    };
    // Its content is a document of its own.
    if element == b"template" {
        return Err(Stop::Unusual);
    }
    if machine.start_tag(element) == Take::Meta
        && let Some((name, content)) = meta
    {
        machine.meta(name.into_owned(), content.into_owned());
    }
    let is_raw = matches!(element, b"title" | b"style" | b"script" | b"noscript" | b"noframes");
    if is_raw && !machine.is_done() { read_raw_text(rest, element, machine) } else { Ok(rest) }
}

/// Whether the type of a link may be that of a licence.
fn may_be_license(kind: &[u8]) -> bool {
    kind.contains(&b'&') || kind.windows(3).any(|part| part.eq_ignore_ascii_case(b"rsl"))
}

/// Reads the raw text of an element and its end tag, and returns what follows (§13.2.5.11 to .17).
fn read_raw_text<'a>(text: &'a [u8], element: &[u8], machine: &mut Machine) -> Result<&'a [u8], Stop> {
    for at in memmem::find_iter(text, b"</") {
        let (before, tag) = text.split_at(at);
        let Some((written, after)) = skip(tag, 2).split_at_checked(element.len()) else {
            return Err(Stop::More);
        };
        let mut after = Tag(after);
        if written.eq_ignore_ascii_case(element) && (after.is_at(END) || after.0.is_empty()) {
            // §13.2.5.18 to .31: from there on, a script may hold its own end tag.
            if element == b"script" && memmem::find(before, b"<!--").is_some() {
                return Err(Stop::Unusual);
            }
            let rest = after.end()?;
            machine.raw_text(before);
            machine.end_tag(element);
            return Ok(rest);
        }
    }
    Err(Stop::More)
}

/// What is left of a tag, and what follows it.
struct Tag<'a>(&'a [u8]);

/// The name and the value of an attribute, as written.
type Attribute<'a> = (&'a [u8], &'a [u8]);

impl<'a> Tag<'a> {
    fn is_at(&self, set: u8) -> bool {
        self.0.first().is_some_and(|byte| is_in(set, *byte))
    }

    /// Why the next byte is not taken.
    fn stop(&self) -> Stop {
        if self.0.is_empty() { Stop::More } else { Stop::Unusual }
    }

    /// Takes all that is in this set.
    fn take(&mut self, set: u8) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count(self.0, set));
        self.0 = rest;
        taken
    }

    /// The name of an element, if it is in lower case, as on most pages.
    fn name(&mut self) -> Result<&'a [u8], Stop> {
        let name = self.take(NAME);
        let is_name = name.first().is_some_and(u8::is_ascii_lowercase) && self.is_at(END);
        if is_name { Ok(name) } else { Err(self.stop()) }
    }

    /// The next attribute, if its name is in lower case; behind the last one, takes the `>` too.
    fn attribute(&mut self) -> Result<Option<Attribute<'a>>, Stop> {
        self.skip_blanks();
        if let [b'>', rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(None);
        }
        let name = self.take(NAME);
        if name.is_empty() {
            return Err(self.stop());
        }
        let value = match self.0 {
            [b'=', quote @ (b'"' | b'\''), quoted @ ..] => {
                let (value, rest) = quoted.split_at(find(*quote, quoted).ok_or(Stop::More)?);
                self.0 = skip(rest, 1);
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
            _ if self.is_at(END) => b"",
            _ => return Err(self.stop()),
        };
        Ok(Some((name, value)))
    }

    /// What follows the `>` that is next.
    fn end(&mut self) -> Result<&'a [u8], Stop> {
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

/// How many of the first bytes are in this set, which lower-case letters are in.
fn count(bytes: &[u8], set: u8) -> usize {
    let letters = bytes.first_chunk().map_or(0, |block| {
        let block = u64::from_le_bytes(*block);
        // These two bits are set in the letters, and otherwise only in bytes that a name and a value may hold as well.
        let others = !(block & (block << 1)) & (ONES << 6);
        others.trailing_zeros() as usize >> 3
    });
    let rest = skip(bytes, letters);
    letters.wrapping_add(rest.iter().position(|byte| !is_in(set, *byte)).unwrap_or(rest.len()))
}

/// Where the byte is: for values, which are short, at half of what memchr takes.
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let (blocks, rest) = bytes.as_chunks::<8>();
    for (number, block) in blocks.iter().enumerate() {
        let differ = u64::from_le_bytes(*block) ^ u64::from_le_bytes([byte; 8]);
        // The lowest bit is that of the first byte which does not differ.
        let equal = differ.wrapping_sub(ONES) & !differ & (ONES << 7);
        if equal != 0 {
            return Some((number << 3).wrapping_add(equal.trailing_zeros() as usize >> 3));
        }
    }
    let at = rest.iter().position(|other| *other == byte)?;
    Some((blocks.len() << 3).wrapping_add(at))
}

const ONES: u64 = u64::from_le_bytes([1; 8]);

fn is_in(set: u8, byte: u8) -> bool {
    SETS.get(usize::from(byte)).is_some_and(|sets| sets & set != 0)
}

/// What names are made of here, and values without quotes.
const NAME: u8 = 1;
const UNQUOTED: u8 = 2;
/// What may follow a name.
const END: u8 = 4;

/// The sets that each byte is in.
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
fn text_of(value: &[u8]) -> Result<Cow<'_, str>, Stop> {
    let text = str::from_utf8(value).map_err(|_| Stop::Unusual)?;
    // lol_html drops a byte order mark at the start of a value.
    if text.starts_with('\u{feff}') {
        return Err(Stop::Unusual);
    }
    Ok(decoded(Cow::Borrowed(text)))
}

fn skip(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(count..).unwrap_or_default()
}
