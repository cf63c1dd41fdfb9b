//! Reads the head of a body that passes: bytes in, a [`Head`] out.

use std::fmt;
use std::ops::ControlFlow;

use abide_permissions::{Head, HeadEnd, HeadScanner};

/// A scanner, and what else of a body decides whether its head can be read.
pub(crate) struct HeadReader {
    /// In a box, as most responses are not scanned.
    scanner: Box<HeadScanner>,
    /// The beginning of the body, which shows whether it is text.
    start: Vec<u8>,
    is_scanned: bool,
    /// Whether the body is all of the page, and not a part of it.
    is_whole: bool,
    /// Whether the end of the body is surely that of the document.
    has_sure_end: bool,
}

impl HeadReader {
    pub(crate) fn new(scanner: HeadScanner, is_whole: bool) -> Self {
        let (scanner, start) = (Box::new(scanner), Vec::new());
        Self { scanner, start, is_scanned: false, is_whole, has_sure_end: true }
    }

    pub(crate) fn with_sure_end(mut self, is_sure: bool) -> Self {
        self.has_sure_end = is_sure;
        self
    }

    /// Takes the next bytes of the body.
    pub(crate) fn feed(&mut self, data: &[u8]) -> ControlFlow<()> {
        let room = LOOKED_AT.saturating_sub(self.start.len());
        self.start.extend_from_slice(data.get(..room).unwrap_or(data));
        if has_magic(&self.start) {
            return ControlFlow::Break(());
        }
        self.is_scanned = self.is_scanned || self.scanner.feed(data).is_break();
        // A server chooses the size of its frames: the first byte of a coding may be that of a text, which ends a head at once.
        let is_judged = self.start.len() >= LOOKED_AT || begins_with_a_tag(&self.start);
        if self.is_scanned && is_judged { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The body has ended, or enough was seen.
    pub(crate) fn finish(self) -> Head {
        self.end(HeadScanner::finish)
    }

    /// The body broke off, or the caller stops reading.
    pub(crate) fn interrupt(self) -> Head {
        self.end(HeadScanner::interrupt)
    }

    fn end(self, end: impl FnOnce(HeadScanner) -> Head) -> Head {
        if looks_coded(&self.start) {
            return Head::not_scanned(HeadEnd::Undecoded);
        }
        let head = end(*self.scanner);
        let is_cut = head.end() == HeadEnd::Eof && !self.has_sure_end;
        if self.is_whole && !is_cut { head } else { head.of_part() }
    }
}

impl fmt::Debug for HeadReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadReader").field("scanner", &self.scanner).finish_non_exhaustive()
    }
}

/// A coding where text should begin: a client undoes one of nested ones and removes the field with it. gzip and zstd have a name; what is
/// neither UTF-8 nor UTF-16, and holds more control characters than any text, is taken for brotli or deflate.
fn looks_coded(start: &[u8]) -> bool {
    let is_many = |count: usize, parts| count.saturating_mul(parts) > start.len();
    let is_wide = || is_many(start.iter().filter(|&&byte| byte == 0).count(), 8);
    let odd = |byte: &&u8| matches!(byte, 1..=8 | 0x0e..=0x19 | 0x1c..=0x1f);
    let is_odd = || is_many(start.iter().filter(odd).count(), 32);
    // The cheapest question first: most pages are UTF-8.
    let is_binary = std::str::from_utf8(start).is_err_and(|error| error.error_len().is_some());
    has_magic(start) || start == [0x1f] || (is_binary && is_odd() && !is_wide())
}

/// gzip or zstd.
fn has_magic(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b]) || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// As nearly all pages do: then the head need not be waited for any longer. Byte order marks, blanks and the zeros of UTF-16 may stand
/// before it.
fn begins_with_a_tag(start: &[u8]) -> bool {
    let is_before =
        |byte: &&u8| matches!(byte, 0 | 0xef | 0xbb | 0xbf | 0xfe | 0xff) || byte.is_ascii_whitespace();
    start.iter().find(|byte| !is_before(byte)) == Some(&b'<')
}

/// Enough of a stream to hold what no text does.
const LOOKED_AT: usize = 256;

#[cfg(test)]
mod tests {
    use abide_permissions::ReadOptions;

    use super::*;

    fn read(body: &[u8], size: usize) -> Head {
        let options = ReadOptions::new("ExampleBot".parse().unwrap());
        let mut head = HeadReader::new(HeadScanner::new(&options, Some("text/html")), true);
        for frame in body.chunks(size) {
            if head.feed(frame).is_break() {
                break;
            }
        }
        head.finish()
    }

    const DEFLATE: &[u8] =
        b"\x78\x9c\xb3\xc9\x28\xc9\xcd\xb1\xb3\xc9\x48\x4d\x4c\x01\x92\xb9\xa9\x25\x89\x0a";
    const BROTLI: &[u8] = b"\x1b\x68\x00\xf8\x05\xe0\x6c\xe9\x8b\x12\x06\x91\x1f\xb2\x38\x0e";

    #[test]
    fn a_coding_is_noticed_in_frames_of_any_size() {
        let zstd = b"\x28\xb5\x2f\xfd\x04\x00abc";
        for body in [DEFLATE, BROTLI, b"\x1f\x8b\x08\x00\x00", zstd] {
            for size in [1, 2, 3, 1000] {
                assert_eq!(read(body, size).end(), HeadEnd::Undecoded, "{body:?} by {size}");
            }
        }
        for body in [&b"text"[..], b"(text)", b"<title>x</title><p>", b"x <p>"] {
            for size in [1, 2, 3, 1000] {
                assert_eq!(read(body, size).end(), HeadEnd::Ended, "{body:?} by {size}");
            }
        }
    }

    #[test]
    fn a_page_that_begins_with_a_tag_is_not_waited_for() {
        let options = ReadOptions::new("ExampleBot".parse().unwrap());
        for (start, progress) in [
            (&b"<body>"[..], ControlFlow::Break(())),
            (b" \xef\xbb\xbf<p>", ControlFlow::Break(())),
            (b"text", ControlFlow::Continue(())),
        ] {
            let mut head = HeadReader::new(HeadScanner::new(&options, None), true);
            assert_eq!(head.feed(start), progress, "{start:?}");
        }
    }

    #[test]
    fn streams_without_a_name_are_no_pages() {
        for (coded, start) in [
            // A page in deflate and in brotli.
            (true, &b"\x78\x9c\xb3\xc9\x28\xc9\xcd\xb1\xb3\xc9\x48\x4d\x4c\x01\x92\xb9\xa9\x25\x89\x0a"[..]),
            (true, b"\x1b\x68\x00\xf8\x05\xe0\x6c\xe9\x8b\x12\x06\x91\x1f\xb2\x38\x0e"),
            (true, b"\x1f\x8b\x08"),
            (true, b"\x1f"),
            // Windows-1251, UTF-16 without a mark, a stray control character, UTF-8 with many.
            (false, b"<title>\xcf\xf0\xe8\xe2\xe5\xf2"),
            (false, b"<\0t\0>\0\x1f\x04@\x048\x042\x045\x04"),
            (false, b"<title>\xe9\x13</title><p>................................................"),
            (false, b"\x01\x02\x03 \xc3\xa9"),
            (false, b""),
        ] {
            assert_eq!(looks_coded(start), coded, "{start:?}");
        }
    }
}
