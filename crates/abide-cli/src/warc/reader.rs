//! Reading WARC files (ISO 28500:2017), record by record, in constant memory.
//!
//! Any writer's: gzip with a member per record or with many in one, or not compressed. A block is handed on
//! in pieces, so its length does not matter.

use std::fmt;
use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// A file that is read from its beginning.
pub(crate) struct Reader<R: BufRead> {
    stream: Stream<R>,
    /// What is decompressed and not read yet.
    ahead: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes of this stream that were decompressed so far.
    decompressed: u64,
    /// Where in the file the present gzip member begins.
    member: u64,
    /// Of the block that is under way.
    left: u64,
}

/// The head of a record.
#[derive(Debug, Default)]
pub(crate) struct RecordHead {
    /// Where in the file it begins: at its gzip member, or at its first byte.
    pub(crate) offset: u64,
    fields: Vec<(String, String)>,
    /// Length of the block in bytes.
    pub(crate) len: u64,
}

impl RecordHead {
    /// The value of a named field: the first, if there are several.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields_named(name).next()
    }

    pub(crate) fn fields_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let named = self.fields.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Whether the block is of this media type, in lower case.
    pub(crate) fn is_of(&self, media_type: &str) -> bool {
        let stated = self.field("Content-Type").unwrap_or_default().split(';').next().unwrap_or_default();
        stated.trim().eq_ignore_ascii_case(media_type)
    }

    /// `WARC-Type`, or nothing.
    pub(crate) fn kind(&self) -> &str {
        self.field("WARC-Type").unwrap_or_default()
    }

    /// WARC/1.0 writes the URI in angle brackets.
    pub(crate) fn target(&self) -> Option<&str> {
        let uri = self.field("WARC-Target-URI")?;
        Some(uri.strip_prefix('<').and_then(|uri| uri.strip_suffix('>')).unwrap_or(uri))
    }
}

/// Why a file cannot be read on.
#[derive(Debug)]
pub(crate) struct ReadError {
    /// Of the record that is broken.
    pub(crate) offset: u64,
    what: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.what)
    }
}

enum Stream<R: BufRead> {
    /// Before the first record, or between two gzip members.
    Between(Counted<R>),
    Gzip(GzDecoder<Counted<R>>),
    Plain(Counted<R>),
    /// For a moment, or after an error.
    Gone,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            stream: Stream::Between(Counted { input, count: 0 }),
            ahead: vec![0; AHEAD_LEN].into(),
            start: 0,
            end: 0,
            decompressed: 0,
            member: 0,
            left: 0,
        }
    }

    /// The head of the next record; `None` at the end of the file. What is left of the block before is passed
    /// over.
    pub(crate) fn next(&mut self) -> Result<Option<RecordHead>, ReadError> {
        self.block(|_| {})?;
        loop {
            // Two line ends close a record. Lenient: any number of them.
            while let Some(byte) = self.peek()? {
                if !matches!(byte, b'\r' | b'\n') {
                    return self.head().map(Some);
                }
                self.start += 1;
            }
            if !self.begin_member()? {
                return Ok(None);
            }
        }
    }

    /// Hands on the block of the record whose head was read last, piece by piece.
    pub(crate) fn block(&mut self, mut sink: impl FnMut(&[u8])) -> Result<(), ReadError> {
        while self.left > 0 {
            if self.peek()?.is_none() {
                return Err(self.error("the record ends before its Content-Length"));
            }
            let ready = self.ahead.get(self.start..self.end).unwrap_or_default();
            let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(ready.len());
            sink(ready.get(..len).unwrap_or_default());
            self.start += len;
            self.left -= len as u64;
        }
        Ok(())
    }

    /// Where the gzip member ends whose record was just read, and alone in it: that is whole.
    pub(crate) fn end_member(&mut self) -> Result<u64, ReadError> {
        let mut line_ends = 0;
        while let Some(byte) = self.peek()? {
            if !matches!(byte, b'\r' | b'\n') {
                return Err(self.error("expected a gzip member for each record"));
            }
            (self.start, line_ends) = (self.start + 1, line_ends + 1);
        }
        match &self.stream {
            Stream::Between(input) if line_ends == 4 => Ok(input.count),
            _ => Err(self.error("the record is not ended by two line ends")),
        }
    }

    fn head(&mut self) -> Result<RecordHead, ReadError> {
        let is_plain = matches!(self.stream, Stream::Plain(_));
        let behind = (self.end - self.start) as u64;
        let offset = if is_plain { self.decompressed - behind } else { self.member };
        self.member = offset;
        let (mut line, mut fields, mut read) = (Vec::new(), Vec::<(String, String)>::new(), 0);
        let cut = self.line(&mut line).err();
        if !line.starts_with(b"WARC/") {
            let found = String::from_utf8_lossy(line.get(..20).unwrap_or(&line)).into_owned();
            return Err(self.error(&format!("expected a record that begins with WARC/, found {found:?}")));
        }
        if let Some(cut) = cut {
            return Err(cut);
        }
        loop {
            line.clear();
            self.line(&mut line)?;
            read += line.len();
            if read > HEAD_LEN_MAX {
                return Err(self.error("the head of the record is longer than a mebibyte"));
            }
            if line.is_empty() {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            match (text.split_once(':'), fields.last_mut()) {
                // A folded line goes on with the value before.
                (_, Some((_, value))) if text.starts_with([' ', '\t']) => {
                    value.push(' ');
                    value.push_str(text.trim());
                }
                (Some((name, value)), _) => fields.push((name.trim().to_owned(), value.trim().to_owned())),
                (None, _) => return Err(self.error("expected a named field, found a line without a colon")),
            }
        }
        let mut head = RecordHead { offset, fields, len: 0 };
        let len = head.field("Content-Length").and_then(|len| len.parse().ok());
        head.len = len.ok_or_else(|| self.error("the record has no Content-Length"))?;
        self.left = head.len;
        Ok(head)
    }

    /// A line without its end.
    fn line(&mut self, line: &mut Vec<u8>) -> Result<(), ReadError> {
        loop {
            if self.peek()?.is_none() {
                return Err(self.error("the head of the record is cut off"));
            }
            let ready = self.ahead.get(self.start..self.end).unwrap_or_default();
            let end = ready.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(ready.get(..end.unwrap_or(ready.len())).unwrap_or_default());
            self.start += end.map_or(ready.len(), |end| end + 1);
            if line.len() > HEAD_LEN_MAX {
                return Err(self.error("a line of the record's head is longer than a mebibyte"));
            }
            if end.is_some() {
                line.truncate(line.trim_ascii_end().len());
                return Ok(());
            }
        }
    }

    /// The next byte; `None` at the end of the gzip member, or of the file.
    fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        if self.start == self.end {
            let read = match &mut self.stream {
                Stream::Gzip(input) => input.read(&mut self.ahead),
                Stream::Plain(input) => input.read(&mut self.ahead),
                Stream::Between(_) | Stream::Gone => Ok(0),
            };
            let read = read.map_err(|error| self.error(&why(&error)))?;
            (self.start, self.end) = (0, read);
            self.decompressed += read as u64;
            if read == 0 {
                self.stream = match std::mem::replace(&mut self.stream, Stream::Gone) {
                    Stream::Gzip(input) => Stream::Between(input.into_inner()),
                    other => other,
                };
            }
        }
        Ok(self.ahead.get(self.start..self.end).and_then(<[u8]>::first).copied())
    }

    /// Whether something follows.
    fn begin_member(&mut self) -> Result<bool, ReadError> {
        let Stream::Between(input) = &mut self.stream else { return Ok(false) };
        self.member = input.count;
        let first = input.fill_buf().map(|ready| ready.first().copied());
        let Some(first) = first.map_err(|error| self.error(&why(&error)))? else { return Ok(false) };
        self.stream = match std::mem::replace(&mut self.stream, Stream::Gone) {
            Stream::Between(input) if first == GZIP => Stream::Gzip(GzDecoder::new(input)),
            // Only the first byte of a file decides: what follows a gzip member is one.
            Stream::Between(input) if input.count == 0 => Stream::Plain(input),
            other => {
                self.stream = other;
                return Err(self.error("expected a gzip member"));
            }
        };
        Ok(true)
    }

    fn error(&self, what: &str) -> ReadError {
        ReadError { offset: self.member, what: what.to_owned() }
    }
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the gzip member is cut off".to_owned(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            format!("the gzip member is damaged: {error}")
        }
        _ => error.to_string(),
    }
}

/// Knows how much of the file was taken.
struct Counted<R> {
    input: R,
    count: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, len: usize) {
        self.count += len as u64;
        self.input.consume(len);
    }
}

/// The first byte of a gzip member (RFC 1952 §2.3.1); a record begins with `W`.
const GZIP: u8 = 0x1f;
const AHEAD_LEN: usize = 64 * 1024;
/// Honest heads have some hundred bytes, and a URI.
const HEAD_LEN_MAX: usize = 1024 * 1024;
