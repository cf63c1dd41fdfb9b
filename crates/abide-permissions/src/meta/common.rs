//! A tokenizer for common heads, in front of lol_html.
//!
//! Most heads are made of a doctype, comments, `meta`, `link`, `title`, `style` and `script`, written as every template writes them.
//! This file reads those about ten times faster than lol_html does, and drives the same [`Machine`]. lol_html remains the authority:
//! at anything else, and at everything whose reading takes more than a few lines of the standard, the tokenizer gives up, and lol_html goes
//! on at the first byte of that token. Between two tokens of a head both are in the state in which a document begins: in the data state, with
//! nothing open that changes how text is read. Giving up costs time and never a meta, so when in doubt, give up.
//!
//! Two things are never decided here: where a document ends within its head, and what the content of a `noscript` holds.

use std::borrow::Cow;

use memchr::memmem::find;
use memchr::{memchr, memchr_iter};

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
        self.held = if rest.len() == held.len() { held } else { rest.to_vec() };
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
            let (name, rest) = Name::read(tag)?;
            let rest = end_of_end_tag(rest)?;
            machine.end_tag(name.as_bytes());
            Ok(rest)
        }
        [b'<', tag @ ..] => read_element(tag, machine),
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
    const DOCTYPE: &[u8] = b"<!doctype";
    if let Some(comment) = token.strip_prefix(b"<!--") {
        return match comment {
            [] | [b'-'] => Err(Stop::More),
            // HTML standard §13.2.5.43 and .44: `<!-->` and `<!--->` are comments.
            [b'>', ..] | [b'-', b'>', ..] => Err(Stop::Unusual),
            _ => {
                let end = find(comment, b"-->").ok_or(Stop::More)?;
                let (text, rest) = comment.split_at(end);
                // §13.2.5.52: `--!>` ends a comment too.
                if find(text, b"--!>").is_some() { Err(Stop::Unusual) } else { Ok(skip(rest, 3)) }
            }
        };
    }
    let Some(begin) = token.get(..DOCTYPE.len()) else { return Err(Stop::More) };
    if !begin.eq_ignore_ascii_case(DOCTYPE) {
        return Err(Stop::Unusual);
    }
    // §13.2.5.53 to .67: the first `>` ends it, even between quotes.
    let end = memchr(b'>', token).ok_or(Stop::More)?;
    Ok(skip(token, end.saturating_add(1)))
}

fn read_element<'a>(tag: &'a [u8], machine: &mut Machine) -> Result<&'a [u8], Stop> {
    let (name, attributes) = Name::read(tag)?;
    let (mut meta_name, mut content) = (None, None);
    let rest = match name.as_bytes() {
        b"meta" => read_attributes(attributes, |name, value| {
            // §13.2.5.33: of attributes with one name, the first counts.
            if name.eq_ignore_ascii_case(b"name") {
                meta_name.get_or_insert(value);
            } else if name.eq_ignore_ascii_case(b"content") {
                content.get_or_insert(value);
            }
        })?,
        // A link to a licence (RSL), of which a site has one, is for lol_html.
        b"link" => {
            let mut is_license = false;
            let rest = read_attributes(attributes, |name, value| {
                let may_be =
                    || memchr(b'&', value).is_some() || find(&value.to_ascii_lowercase(), b"rsl").is_some();
                is_license |= name.eq_ignore_ascii_case(b"type") && may_be();
            })?;
            if is_license {
                return Err(Stop::Unusual);
            }
            rest
        }
        // Its content is a document of its own.
        b"template" => return Err(Stop::Unusual),
        _ => read_attributes(attributes, |_, _| {})?,
    };
    // Most metas have no name: nobody looks at what they say.
    let meta = match meta_name {
        None | Some(b"") => None,
        Some(name) => Some((text_of(name)?, text_of(content.unwrap_or_default())?)),
    };
    if machine.start_tag(name.as_bytes()) == Take::Meta
        && let Some((name, content)) = meta
    {
        machine.meta(name.into_owned(), content.into_owned());
    }
    let is_raw = matches!(name.as_bytes(), b"title" | b"style" | b"script" | b"noscript" | b"noframes");
    if is_raw && !machine.is_done() { read_raw_text(rest, &name, machine) } else { Ok(rest) }
}

/// Reads attributes up to the end of the tag, and returns what follows it.
fn read_attributes<'a>(
    mut rest: &'a [u8],
    mut found: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<&'a [u8], Stop> {
    loop {
        rest = rest.trim_ascii_start();
        match rest {
            [] | [b'/'] => return Err(Stop::More),
            [b'>', rest @ ..] | [b'/', b'>', rest @ ..] => return Ok(rest),
            _ => {}
        }
        let end = rest.iter().position(|byte| !is_name_byte(*byte)).ok_or(Stop::More)?;
        let (name, after) = rest.split_at(end);
        let is_ended = after.first().is_some_and(|byte| is_attribute_end(*byte) || *byte == b'=');
        if name.is_empty() || !is_ended {
            return Err(Stop::Unusual);
        }
        rest = after.trim_ascii_start();
        let Some(assigned) = rest.strip_prefix(b"=") else {
            // `name` at the end of the bytes may still get a value.
            if rest.is_empty() {
                return Err(Stop::More);
            }
            found(name, b"");
            continue;
        };
        let (value, after) = read_value(assigned.trim_ascii_start())?;
        found(name, value);
        rest = after;
    }
}

/// Reads the value of an attribute, and returns what follows it.
fn read_value(bytes: &[u8]) -> Result<(&[u8], &[u8]), Stop> {
    match bytes {
        [] => Err(Stop::More),
        [quote @ (b'"' | b'\''), quoted @ ..] => {
            let end = memchr(*quote, quoted).ok_or(Stop::More)?;
            let (value, after) = quoted.split_at(end);
            let after = skip(after, 1);
            match after.first() {
                None => Err(Stop::More),
                Some(byte) if is_attribute_end(*byte) => Ok((value, after)),
                Some(_) => Err(Stop::Unusual),
            }
        }
        _ => {
            let is_end = |byte: &u8| *byte == b'>' || byte.is_ascii_whitespace();
            let end = bytes.iter().position(is_end).ok_or(Stop::More)?;
            let (value, after) = bytes.split_at(end);
            let is_odd = |byte: &u8| matches!(byte, b'"' | b'\'' | b'<' | b'=' | b'`' | 0);
            if value.is_empty() || value.iter().any(is_odd) { Err(Stop::Unusual) } else { Ok((value, after)) }
        }
    }
}

/// Reads the raw text of an element and its end tag, and returns what follows (§13.2.5.11 to .17).
fn read_raw_text<'a>(text: &'a [u8], element: &Name, machine: &mut Machine) -> Result<&'a [u8], Stop> {
    let name = element.as_bytes();
    for at in memchr_iter(b'<', text) {
        let (before, tag) = text.split_at(at);
        // §13.2.5.18 to .31: from here on, a script may hold its own end tag.
        if name == b"script" && b"<!--".iter().zip(tag).all(|(a, b)| a == b) {
            return Err(if tag.len() < 4 { Stop::More } else { Stop::Unusual });
        }
        let Some(after_slash) = tag.strip_prefix(b"</") else {
            continue;
        };
        let Some((written, after)) = after_slash.split_at_checked(name.len()) else { return Err(Stop::More) };
        let Some(byte) = after.first() else { return Err(Stop::More) };
        if written.eq_ignore_ascii_case(name) && is_attribute_end(*byte) {
            let rest = end_of_end_tag(after)?;
            machine.raw_text(before);
            machine.end_tag(name);
            return Ok(rest);
        }
    }
    Err(Stop::More)
}

/// What follows the `>` of an end tag without attributes.
fn end_of_end_tag(rest: &[u8]) -> Result<&[u8], Stop> {
    match rest.trim_ascii_start() {
        [] => Err(Stop::More),
        [b'>', rest @ ..] => Ok(rest),
        _ => Err(Stop::Unusual),
    }
}

/// The name of an element, in lower case.
#[derive(Clone, Copy, Debug)]
struct Name {
    bytes: [u8; Self::LENGTH_MAX],
    length: usize,
}

impl Name {
    /// Names of HTML have at most ten letters.
    const LENGTH_MAX: usize = 16;

    /// Reads a name that begins with a letter, and returns what follows it.
    fn read(tag: &[u8]) -> Result<(Self, &[u8]), Stop> {
        if !tag.first().ok_or(Stop::More)?.is_ascii_alphabetic() {
            return Err(Stop::Unusual);
        }
        let mut name = Self { bytes: [0; Self::LENGTH_MAX], length: 0 };
        for (slot, byte) in
            name.bytes.iter_mut().zip(tag.iter().take_while(|byte| byte.is_ascii_alphanumeric()))
        {
            *slot = byte.to_ascii_lowercase();
            name.length = name.length.saturating_add(1);
        }
        let rest = tag.get(name.length..).filter(|rest| !rest.is_empty()).ok_or(Stop::More)?;
        if rest.first().is_some_and(|byte| is_attribute_end(*byte)) {
            Ok((name, rest))
        } else {
            Err(Stop::Unusual)
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// What may follow a name or a quoted value.
fn is_attribute_end(byte: u8) -> bool {
    matches!(byte, b'>' | b'/') || byte.is_ascii_whitespace()
}

/// What the names of attributes are made of. A table, because each byte of a name is looked at.
fn is_name_byte(byte: u8) -> bool {
    NAME_BYTES.get(usize::from(byte)).is_some_and(|is_one| *is_one)
}

#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "it is made by the compiler")]
const NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.' | b'@');
        byte += 1;
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
