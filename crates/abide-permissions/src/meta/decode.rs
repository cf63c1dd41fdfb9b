//! From the bytes of a document to bytes in which `<` is `<`.
//!
//! Most encodings are ASCII-compatible as far as tags go and pass through. UTF-16 and ISO-2022-JP do not, and are decoded.

use std::borrow::Cow;

use encoding_rs::{Decoder, Encoding, ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

use super::prescan::{PRESCAN_BYTES, declares_iso_2022_jp};

/// Decodes a document as its bytes arrive.
pub(super) struct Decode {
    stage: DecodeStage,
    /// The charset of the Content-Type, if it has one that we know.
    declared: Option<&'static Encoding>,
    /// The encoding of the bytes that come out.
    output: &'static Encoding,
}

enum DecodeStage {
    /// The first bytes may be a byte order mark.
    Mark(Vec<u8>),
    /// Bytes pass through.
    Through,
    /// Bytes pass through until an escape sequence makes it worth to look for a declaration of ISO-2022-JP in the first
    /// bytes of the document. Until then, what follows the escape sequence is held back.
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
        Self { stage: DecodeStage::Mark(Vec::new()), declared, output: UTF_8 }
    }

    /// The encoding of what comes out. Settled once anything has come out.
    pub(super) const fn output(&self) -> &'static Encoding {
        self.output
    }

    /// Takes bytes, which may be the `last`, and gives those that can be read now.
    pub(super) fn decode<'a>(&mut self, bytes: &'a [u8], last: bool) -> Cow<'a, [u8]> {
        match &mut self.stage {
            DecodeStage::Mark(held) => {
                if held.is_empty() && !begins_like_mark(bytes) && !bytes.is_empty() {
                    self.stage = self.after_mark(None);
                    return self.decode(bytes, last);
                }
                held.extend_from_slice(bytes);
                if held.len() < 3 && begins_like_mark(held) && !last {
                    return Cow::Borrowed(b"");
                }
                let held = std::mem::take(held);
                let mark = Encoding::for_bom(&held);
                self.stage = self.after_mark(mark.map(|(encoding, _)| encoding));
                let rest = held.get(mark.map_or(0, |(_, length)| length)..).unwrap_or_default();
                Cow::Owned(self.decode(rest, last).into_owned())
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
                if declares_iso_2022_jp(first, is_all) {
                    let mut decoder = Box::new(ISO_2022_JP.new_decoder_without_bom_handling());
                    output.append(&mut decode(&mut decoder, held, last));
                    self.stage = DecodeStage::Decoded(decoder);
                } else if is_all {
                    output.append(held);
                    self.stage = DecodeStage::Through;
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
            // Stricter: a browser shows nothing of such a document; a restriction that can be seen in it counts.
            Some(encoding) if encoding == REPLACEMENT => DecodeStage::Through,
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
