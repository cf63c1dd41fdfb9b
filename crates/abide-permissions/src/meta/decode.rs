//! From the bytes of a document to bytes in which `<` is `<`.
//!
//! Most encodings are ASCII-compatible as far as tags go and pass through. UTF-16 and ISO-2022-JP do not, and are decoded.

use std::borrow::Cow;

use encoding_rs::{Decoder, Encoding, ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

use super::prescan::{PRESCAN_BYTES, declares_iso_2022_jp};

/// Decodes a document as its bytes arrive.
pub(super) struct Decode {
    stage: Stage,
    /// The charset of the Content-Type, if it has one that we know.
    declared: Option<&'static Encoding>,
    /// The encoding of the bytes that come out.
    output: &'static Encoding,
}

enum Stage {
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
        let declared = charset.and_then(Encoding::for_label);
        Self { stage: Stage::Mark(Vec::new()), declared, output: UTF_8 }
    }

    /// The encoding of what comes out. Settled once anything has come out.
    pub(super) const fn output(&self) -> &'static Encoding {
        self.output
    }

    /// Takes bytes, and gives those that can be read now.
    pub(super) fn feed<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.step(bytes, false)
    }

    /// Gives what was held back.
    pub(super) fn finish(&mut self) -> Cow<'static, [u8]> {
        self.step(b"", true)
    }

    fn step<'a>(&mut self, bytes: &'a [u8], last: bool) -> Cow<'a, [u8]> {
        match &mut self.stage {
            Stage::Mark(held) => {
                if held.is_empty() && !begins_like_mark(bytes) && !bytes.is_empty() {
                    self.stage = self.after_mark(None);
                    return self.step(bytes, last);
                }
                held.extend_from_slice(bytes);
                if held.len() < 3 && begins_like_mark(held) && !last {
                    return Cow::Borrowed(b"");
                }
                let held = std::mem::take(held);
                let mark = Encoding::for_bom(&held);
                self.stage = self.after_mark(mark.map(|(encoding, _)| encoding));
                let rest = held.get(mark.map_or(0, |(_, length)| length)..).unwrap_or_default();
                Cow::Owned(self.step(rest, last).into_owned())
            }
            Stage::Through => Cow::Borrowed(bytes),
            Stage::Watch { first, held } => {
                let room = PRESCAN_BYTES.saturating_sub(first.len());
                first.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                let escape = if held.is_empty() { memchr::memchr(ESCAPE, bytes) } else { Some(0) };
                let Some((passed, from_escape)) = escape.and_then(|at| bytes.split_at_checked(at)) else {
                    return Cow::Borrowed(bytes);
                };
                held.extend_from_slice(from_escape);
                let mut output = passed.to_vec();
                if declares_iso_2022_jp(first) {
                    let mut decoder = Box::new(ISO_2022_JP.new_decoder_without_bom_handling());
                    output.append(&mut decode(&mut decoder, held, last));
                    self.stage = Stage::Decoded(decoder);
                } else if last || first.len() >= PRESCAN_BYTES {
                    output.append(held);
                    self.stage = Stage::Through;
                }
                Cow::Owned(output)
            }
            Stage::Decoded(decoder) => Cow::Owned(decode(decoder, bytes, last)),
        }
    }

    /// The byte order mark goes before the Content-Type, and that before what the document says of itself.
    fn after_mark(&mut self, mark: Option<&'static Encoding>) -> Stage {
        match mark.or(self.declared) {
            None => Stage::Watch { first: Vec::new(), held: Vec::new() },
            Some(encoding) if [UTF_16LE, UTF_16BE, ISO_2022_JP].contains(&encoding) => {
                Stage::Decoded(Box::new(encoding.new_decoder_without_bom_handling()))
            }
            // Stricter: a browser shows nothing of such a document; a restriction that can be seen in it counts.
            Some(encoding) if encoding == REPLACEMENT => Stage::Through,
            Some(encoding) => {
                self.output = encoding;
                Stage::Through
            }
        }
    }
}

/// Whether the bytes are, or may become, a byte order mark.
fn begins_like_mark(bytes: &[u8]) -> bool {
    const MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe"];
    MARKS.iter().any(|mark| bytes.starts_with(mark) || mark.starts_with(bytes))
}

fn decode(decoder: &mut Decoder, bytes: &[u8], last: bool) -> Vec<u8> {
    let mut text = String::with_capacity(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len()));
    // The capacity suffices for all of it, so one call consumes everything.
    let _ = decoder.decode_to_string(bytes, &mut text, last);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out, fed in pieces of this size, and in which encoding.
    fn run(charset: Option<&str>, bytes: &[u8], size: usize) -> (Vec<u8>, &'static str) {
        let mut decode = Decode::new(charset.map(str::as_bytes));
        let mut output = Vec::new();
        for piece in bytes.chunks(size) {
            output.extend_from_slice(&decode.feed(piece));
        }
        output.extend_from_slice(&decode.finish());
        (output, decode.output().name())
    }

    fn utf_16(text: &str, bytes_of: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes_of).collect()
    }

    #[test]
    fn each_encoding_is_treated_by_its_kind_however_it_is_split() {
        let text = "<p>\u{65e5}\u{1f600}";
        let jp = b"<meta charset=iso-2022-jp>\x1b$BF|K\\\x1b(B<p>";
        let jp_text = "<meta charset=iso-2022-jp>\u{65e5}\u{672c}<p>".as_bytes();
        let late = b"\x1b$BF|K\\\x1b(B<meta charset='ISO-2022-JP'><p>";
        let late_text = "\u{65e5}\u{672c}<meta charset='ISO-2022-JP'><p>".as_bytes();
        for (charset, bytes, output, encoding) in [
            (None, b"<p>".to_vec(), b"<p>".to_vec(), "UTF-8"),
            (None, b"".to_vec(), b"".to_vec(), "UTF-8"),
            (None, b"\xef".to_vec(), b"\xef".to_vec(), "UTF-8"),
            (None, b"\xff<p".to_vec(), b"\xff<p".to_vec(), "UTF-8"),
            (None, b"\xef\xbb\xbf<p>".to_vec(), b"<p>".to_vec(), "UTF-8"),
            (Some("latin1"), b"\xef\xbb\xbf<p>".to_vec(), b"<p>".to_vec(), "UTF-8"),
            (Some("latin1"), b"<p>\xe9".to_vec(), b"<p>\xe9".to_vec(), "windows-1252"),
            (Some("nonsense"), b"<p>".to_vec(), b"<p>".to_vec(), "UTF-8"),
            (Some("iso-2022-kr"), b"<p>".to_vec(), b"<p>".to_vec(), "UTF-8"),
            (Some("utf-16"), utf_16(text, u16::to_le_bytes), text.into(), "UTF-8"),
            (Some("utf-16be"), utf_16(text, u16::to_be_bytes), text.into(), "UTF-8"),
            (None, utf_16(&format!("\u{feff}{text}"), u16::to_le_bytes), text.into(), "UTF-8"),
            (Some("utf-8"), utf_16(&format!("\u{feff}{text}"), u16::to_be_bytes), text.into(), "UTF-8"),
            (Some("iso-2022-jp"), jp.to_vec(), jp_text.to_vec(), "UTF-8"),
            (None, jp.to_vec(), jp_text.to_vec(), "UTF-8"),
            (None, late.to_vec(), late_text.to_vec(), "UTF-8"),
            (None, b"a\x1b$Bb<p>".to_vec(), b"a\x1b$Bb<p>".to_vec(), "UTF-8"),
            (Some("utf-8"), jp.to_vec(), jp.to_vec(), "UTF-8"),
        ] {
            for size in [1, 2, 3, 1000] {
                let expected = (output.clone(), encoding);
                assert_eq!(run(charset, &bytes, size), expected, "{} by {size}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn nothing_is_held_back_without_an_escape_sequence() {
        let mut decode = Decode::new(None);
        assert_eq!(&*decode.feed(b"<title>"), b"<title>");
        assert_eq!(&*decode.feed(b"a\x1b$Bb"), b"a");
        let filler = [b' '; PRESCAN_BYTES];
        assert_eq!(decode.feed(&filler).len(), PRESCAN_BYTES + 4, "no declaration in reach");
    }
}
