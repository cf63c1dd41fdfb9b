//! From the bytes of a document to bytes in which `<` is `<`.
//!
//! Most encodings are ASCII-compatible as far as tags go and pass through. UTF-16 and ISO-2022-JP do not, and
//! are decoded.

use std::borrow::Cow;

use encoding_rs::{Decoder, Encoding, ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

use super::prescan::{PRESCAN_BYTES, declared_encoding};

/// Decodes a document as its bytes arrive.
pub(super) struct Decode {
    stage: DecodeStage,
    /// The charset of the Content-Type, if it has one that we know.
    declared: Option<&'static Encoding>,
    /// The encoding of the bytes that come out.
    output: &'static Encoding,
    /// How many have come out, as far as zeros are looked for.
    looked_at: usize,
    /// Where in what came out last it turns out that the encoding is not known.
    unknown_from: Option<usize>,
}

enum DecodeStage {
    /// The first bytes may be a byte order mark.
    Mark(Vec<u8>),
    /// Bytes pass through.
    Through,
    /// Bytes pass through until an escape sequence makes it worth to look for a declaration of ISO-2022-JP in
    /// the first bytes of the document. Until then, what follows the escape sequence is held back.
    Watch { first: Vec<u8>, held: Vec<u8> },
    /// Bytes are decoded to UTF-8.
    Decoded(Box<Decoder>),
}

const ESCAPE: u8 = 0x1b;

impl Decode {
    pub(super) fn new(charset: Option<&[u8]>) -> Self {
        // To look a label up takes as long as to read two tags, and nearly all pages declare this one.
        let named = |label: &[u8]| if label == b"utf-8" { Some(UTF_8) } else { Encoding::for_label(label) };
        let declared = charset.and_then(named);
        let stage = DecodeStage::Mark(Vec::new());
        Self { stage, declared, output: UTF_8, looked_at: 0, unknown_from: None }
    }

    /// The encoding of what comes out. Settled once anything has come out.
    pub(super) const fn output(&self) -> &'static Encoding {
        self.output
    }

    /// Whether what comes out is what went in, but for a mark.
    pub(super) const fn passes_through(&self) -> bool {
        !matches!(self.stage, DecodeStage::Decoded(_))
    }

    /// Takes bytes, which may be the `last`, and gives those that can be read now, and from where on they are
    /// in an encoding that is not known, if that turns out by them.
    pub(super) fn decode<'a>(&mut self, bytes: &'a [u8], last: bool) -> (Cow<'a, [u8]>, Option<usize>) {
        self.unknown_from = None;
        let output = self.pass(bytes, last);
        // UTF-16 without a mark, UTF-32: no text has zeros.
        let first = output.get(..PRESCAN_BYTES.saturating_sub(self.looked_at)).unwrap_or(&output);
        self.looked_at = self.looked_at.saturating_add(first.len());
        let zero = memchr::memchr(0, first);
        let unknown_from = self.unknown_from.filter(|at| *at < output.len());
        let from = zero.map_or(unknown_from, |zero| Some(unknown_from.unwrap_or(zero).min(zero)));
        (output, from)
    }

    fn pass<'a>(&mut self, bytes: &'a [u8], last: bool) -> Cow<'a, [u8]> {
        match &mut self.stage {
            DecodeStage::Mark(held) => {
                if held.is_empty() && !begins_like_mark(bytes) && !bytes.is_empty() {
                    self.stage = self.after_mark(None);
                    return self.pass(bytes, last);
                }
                held.extend_from_slice(bytes);
                if held.len() < 3 && begins_like_mark(held) && !last {
                    return Cow::Borrowed(b"");
                }
                let held = std::mem::take(held);
                let mark = Encoding::for_bom(&held);
                self.stage = self.after_mark(mark.map(|(encoding, _)| encoding));
                let rest = held.get(mark.map_or(0, |(_, length)| length)..).unwrap_or_default();
                Cow::Owned(self.pass(rest, last).into_owned())
            }
            DecodeStage::Through => Cow::Borrowed(bytes),
            DecodeStage::Watch { first, held } => {
                let room = PRESCAN_BYTES.saturating_sub(first.len());
                first.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                let escape = if held.is_empty() { memchr::memchr(ESCAPE, bytes) } else { Some(0) };
                let Some((passed, from_escape)) = escape.and_then(|at| bytes.split_at_checked(at)) else {
                    return Cow::Borrowed(bytes);
                };
                held.extend_from_slice(from_escape);
                let mut output = passed.to_vec();
                let is_all = last || first.len() >= PRESCAN_BYTES;
                match declared_encoding(first, is_all) {
                    Some(encoding) if encoding == ISO_2022_JP => {
                        let mut decoder = Box::new(ISO_2022_JP.new_decoder_without_bom_handling());
                        output.append(&mut decode(&mut decoder, held, last));
                        self.stage = DecodeStage::Decoded(decoder);
                    }
                    None if !is_all => {}
                    declared => {
                        // In these, escape sequences are what they are elsewhere: one character that means
                        // nothing.
                        if declared.is_none_or(|encoding| encoding == REPLACEMENT) {
                            self.unknown_from = Some(output.len());
                        }
                        output.append(held);
                        self.stage = DecodeStage::Through;
                    }
                }
                Cow::Owned(output)
            }
            DecodeStage::Decoded(decoder) => Cow::Owned(decode(decoder, bytes, last)),
        }
    }

    /// The byte order mark goes before the Content-Type, and that before what the document says of itself.
    fn after_mark(&mut self, mark: Option<&'static Encoding>) -> DecodeStage {
        match mark.or(self.declared) {
            None => DecodeStage::Watch { first: Vec::new(), held: Vec::new() },
            Some(encoding) if [UTF_16LE, UTF_16BE, ISO_2022_JP].contains(&encoding) => {
                DecodeStage::Decoded(Box::new(encoding.new_decoder_without_bom_handling()))
            }
            // Stricter: a browser shows nothing of such a document; a restriction that can be seen in it
            // counts.
            Some(encoding) if encoding == REPLACEMENT => {
                self.unknown_from = Some(0);
                DecodeStage::Through
            }
            Some(encoding) => {
                self.output = encoding;
                DecodeStage::Through
            }
        }
    }
}

/// Whether the bytes are, or may become, a byte order mark.
pub(super) fn begins_like_mark(bytes: &[u8]) -> bool {
    const MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe"];
    MARKS.iter().any(|mark| bytes.starts_with(mark) || mark.starts_with(bytes))
}

fn decode(decoder: &mut Decoder, bytes: &[u8], last: bool) -> Vec<u8> {
    let mut text = String::with_capacity(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len()));
    // The capacity suffices for all of it, so one call consumes everything.
    let _ = decoder.decode_to_string(bytes, &mut text, last);
    text.into_bytes()
}
