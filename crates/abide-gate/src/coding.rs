//! Content codings (RFC 9110 §8.4), taken off to the last byte.
//!
//! gzip allows several members one behind the other, and zstd several frames. Decoders in HTTP clients
//! silently drop what follows the first gzip member; in a robots.txt that may be what disallows. Here all are
//! decoded, for every client, and bytes that are no member are an error.
//!
//! What browsers read is read where nothing can hide in it: words that name no coding, deflate without its
//! wrapper, padding behind gzip.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
#[cfg(feature = "brotli")]
use compression_codecs::BrotliDecoder;
#[cfg(feature = "zstd")]
use compression_codecs::ZstdDecoder;
use compression_codecs::core::util::{PartialBuffer, WriteBuffer};
use compression_codecs::{DecodeV2, DeflateDecoder, GzipDecoder, ZlibDecoder};
use http::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;

use crate::Failure;

/// A content coding that is taken off (RFC 1952, 1950, 7932 and 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Coding {
    Gzip,
    /// The zlib format, or bare DEFLATE.
    Deflate,
    #[cfg(feature = "brotli")]
    Brotli,
    #[cfg(feature = "zstd")]
    Zstd,
}

/// What a request of abide's own asks for, if its response is decoded here.
pub(crate) const ACCEPTED_CODINGS: HeaderValue =
    HeaderValue::from_static(match (cfg!(feature = "brotli"), cfg!(feature = "zstd")) {
        (true, true) => "gzip, deflate, br, zstd",
        (true, false) => "gzip, deflate, br",
        (false, true) => "gzip, deflate, zstd",
        (false, false) => "gzip, deflate",
    });

impl Coding {
    /// The coding of a body with these fields, `None` if there is none.
    ///
    /// # Errors
    /// [`Failure::StillCoded`]: more than one coding is named, or another one.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        let mut named =
            headers.get_all(CONTENT_ENCODING).iter().flat_map(|value| named_codings(value.as_bytes()));
        let Some(name) = named.next() else { return Ok(None) };
        let coding = match &*name.to_ascii_lowercase() {
            b"gzip" | b"x-gzip" => Self::Gzip,
            b"deflate" => Self::Deflate,
            #[cfg(feature = "brotli")]
            b"br" => Self::Brotli,
            #[cfg(feature = "zstd")]
            b"zstd" => Self::Zstd,
            _ => return Err(Failure::StillCoded),
        };
        if named.next().is_none() { Ok(Some(coding)) } else { Err(Failure::StillCoded) }
    }

    /// What decodes a stream that begins with this byte.
    fn decoder(self, first: u8) -> Box<dyn DecodeV2 + Send + Sync> {
        match self {
            Self::Gzip => Box::new(GzipDecoder::new()),
            // Lenient: RFC 9110 §8.4.1.2 notes that some send DEFLATE without the zlib format around it. RFC
            // 1950 §2.2 begins with the method, 8, and a window of at most 7. In RFC 1951 that would be a
            // stored block with a bit set that all encoders leave clear.
            Self::Deflate if first & 0x0f != 8 || first >> 4 > 7 => Box::new(DeflateDecoder::new()),
            Self::Deflate => Box::new(ZlibDecoder::new()),
            #[cfg(feature = "brotli")]
            Self::Brotli => Box::new(BrotliDecoder::new()),
            #[cfg(feature = "zstd")]
            // Lenient: windows of up to 128 MiB, though RFC 9659 stops at 8 MiB. Only as much of one is
            // touched as is decoded.
            Self::Zstd => Box::new(ZstdDecoder::new()),
        }
    }
}

/// The codings that a value of `Content-Encoding` names, in order, without the words that name none.
///
/// ```
/// let named: Vec<_> = abide_gate::named_codings(b"utf-8, gzip,, identity").collect();
/// assert_eq!(named, [b"gzip"]);
/// ```
pub fn named_codings(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|word| !names_no_coding(word))
}

/// Whether the word stands for nothing that was done to the body. Lenient: RFC 9110 §8.4 has only `identity`,
/// and elements may be empty (§5.6.1). Servers also write a charset here, a media type, what MIME calls data
/// that is not encoded (RFC 2045 §6.2), and the framing of uploads to S3.
fn names_no_coding(word: &[u8]) -> bool {
    let word = word.to_ascii_lowercase();
    match word.as_slice() {
        b"" | b"identity" | b"none" | b"7bit" | b"8bit" | b"binary" | b"aws-chunked" | b"us-ascii" => true,
        // No coding's name is two tokens (§8.4.1).
        word if word.contains(&b'/') => true,
        word => [&b"utf-"[..], b"iso-8859-", b"windows-125"].iter().any(|charset| word.starts_with(charset)),
    }
}

/// What takes the coding off a body with these fields: `gzip`, `deflate`, or by the features of
/// their names `br` and `zstd`.
/// `None`: there is none, an unknown one, or several.
///
/// Trailers pass. The body's error says that the stream is cut short or corrupt, or that bytes behind it
/// belong to no member; an error of the body itself is passed on as it is. A body that is empty before
/// decoding is empty, as in answers to HEAD.
pub fn decoder<B>(headers: &HeaderMap) -> Option<impl FnOnce(B) -> BoxBody<Bytes, BoxError> + use<B>>
where
    B: Body<Data = Bytes> + Unpin + Send + Sync + 'static,
    B::Error: Into<BoxError>,
{
    let coding = Coding::of(headers).ok()??;
    Some(move |body: B| {
        let body = body.map_err(Into::into);
        BoxBody::new(DecodedBody::new(body, coding, |why| why.into()))
    })
}

/// Decoded bytes are handed on in pieces of at most this length.
const PIECE_LEN: usize = 8 * 1024;
/// By no more does an honest coding make a text longer: some bytes for a block, of which there are few in so
/// many bytes.
const OVERHEAD_MAX: u64 = 64 * 1024;

/// A body with its coding taken off.
pub(crate) struct DecodedBody<B: Body> {
    body: B,
    /// Makes an error of a stream that is not a whole one of its coding, or more than that.
    undecodable: fn(&'static str) -> B::Error,
    coding: Coding,
    /// `None` until the first byte has come.
    decoder: Option<Box<dyn DecodeV2 + Send + Sync>>,
    /// Of the decoded bytes of the present gzip member, with their number.
    checksum: crc32fast::Hasher,
    member_len: u32,
    /// The length of the body was stated: if all of it came, nothing was lost on the way.
    has_length: bool,
    /// What has come and is not decoded yet.
    input: Bytes,
    stage: CodingStage,
    /// The decoder filled all the room that it was given, and may hold more.
    holds_more: bool,
    is_strict: bool,
    read: u64,
    decoded: u64,
    trailers: Option<HeaderMap>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodingStage {
    /// Nothing has come yet.
    Untouched,
    Within,
    /// A member has ended: this was all, or another one follows.
    Between,
    /// The body has ended, or failed.
    Done,
}

impl<B: Body> DecodedBody<B> {
    pub(crate) fn new(body: B, coding: Coding, undecodable: fn(&'static str) -> B::Error) -> Self {
        Self {
            has_length: body.size_hint().exact().is_some(),
            body,
            undecodable,
            coding,
            decoder: None,
            checksum: crc32fast::Hasher::new(),
            member_len: 0,
            input: Bytes::new(),
            stage: CodingStage::Untouched,
            holds_more: false,
            is_strict: false,
            read: 0,
            decoded: 0,
            trailers: None,
        }
    }

    /// The coded body must not be empty, nor longer than the decoded one by more than 64 KiB: such a stream
    /// says nothing, for ever.
    pub(crate) fn strict(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// Decodes the next piece of what has come; empty if more must come first.
    fn piece(&mut self) -> Result<Bytes, &'static str> {
        let mut room = [0; PIECE_LEN];
        loop {
            if self.input.is_empty() && !self.holds_more {
                return Ok(Bytes::new());
            }
            if self.stage == CodingStage::Between && !self.begins_another()? {
                return Ok(Bytes::new());
            }
            let decoder = match &mut self.decoder {
                Some(decoder) => decoder,
                none => none.insert(self.coding.decoder(self.input.first().copied().unwrap_or_default())),
            };
            let mut input = PartialBuffer::new(self.input.as_ref());
            let mut output = WriteBuffer::new_initialized(&mut room);
            let has_ended = match decoder.decode(&mut input, &mut output) {
                Ok(has_ended) => has_ended,
                // Without input only what the decoder holds was asked for.
                Err(_) if self.input.is_empty() => false,
                Err(_) => return Err(CORRUPT),
            };
            let (taken, is_full) = (input.written_len(), output.has_no_spare_space());
            let piece = Bytes::copy_from_slice(output.written());
            if taken == 0 && piece.is_empty() && !has_ended && !self.input.is_empty() {
                return Err(CORRUPT);
            }
            self.input.advance(taken);
            self.read = self.read.saturating_add(taken as u64);
            self.decoded = self.decoded.saturating_add(piece.len() as u64);
            if self.coding == Coding::Gzip {
                self.checksum.update(&piece);
                // RFC 1952 §2.3.1: modulo 2^32.
                self.member_len = self.member_len.wrapping_add(piece.len() as u32);
            }
            self.holds_more = is_full && !has_ended;
            self.stage = if has_ended { CodingStage::Between } else { CodingStage::Within };
            self.is_bounded()?;
            if !piece.is_empty() {
                return Ok(piece);
            }
        }
    }

    fn is_bounded(&self) -> Result<(), &'static str> {
        if self.is_strict && self.read > self.decoded.saturating_add(OVERHEAD_MAX) {
            return Err("the coded body is much longer than what it stands for");
        }
        Ok(())
    }

    /// Whether another stream begins behind the one that has ended, as in gzip and zstd it may.
    fn begins_another(&mut self) -> Result<bool, &'static str> {
        if self.coding == Coding::Gzip {
            // Lenient: browsers pass over what follows the last member. Zeros and line ends are padding that
            // nothing can hide in; only this byte begins a member.
            let padding = self.input.iter().take_while(|&&b| b == 0 || b.is_ascii_whitespace()).count();
            self.input.advance(padding);
            self.read = self.read.saturating_add(padding as u64);
            self.is_bounded()?;
            if self.input.is_empty() {
                return Ok(false);
            }
        }
        let is_stream = match self.coding {
            Coding::Gzip => self.input.first() == Some(&0x1f),
            #[cfg(feature = "zstd")]
            Coding::Zstd => true,
            Coding::Deflate => false,
            #[cfg(feature = "brotli")]
            Coding::Brotli => false,
        };
        let decoder =
            self.decoder.as_mut().filter(|_| is_stream).ok_or("bytes are left over behind the stream")?;
        decoder.reinit().map_err(|_| CORRUPT)?;
        (self.checksum, self.member_len) = (crc32fast::Hasher::new(), 0);
        Ok(true)
    }

    /// Whether nothing but the trailer of a gzip member is missing: its last block has ended, as DEFLATE
    /// marks it, and all of the body came.
    ///
    /// Lenient: some devices leave the checksum and the length out, and browsers read such a page. Like bare
    /// DEFLATE, it is whole without them.
    fn lacks_only_its_trailer(&mut self) -> bool {
        if self.coding != Coding::Gzip || !self.has_length || self.body.size_hint().lower() > 0 {
            return false;
        }
        let checksum = self.checksum.clone().finalize().to_le_bytes();
        let trailer = [checksum, self.member_len.to_le_bytes()].concat();
        let (mut input, mut room) = (PartialBuffer::new(trailer.as_slice()), [0; 1]);
        let Some(decoder) = &mut self.decoder else { return false };
        // Before the last block ends, these would be bytes of a block, and no member would end with them.
        let ended = decoder.decode(&mut input, &mut WriteBuffer::new_initialized(&mut room));
        ended.is_ok_and(|ended| ended) && input.unwritten().is_empty()
    }

    fn fail<T>(&mut self, error: B::Error) -> Poll<Option<Result<T, B::Error>>> {
        self.stage = CodingStage::Done;
        self.trailers = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for DecodedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let mut has_polled = false;
        while this.stage != CodingStage::Done {
            match this.piece() {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Err(why) => return this.fail((this.undecodable)(why)),
            }
            if std::mem::replace(&mut has_polled, true) {
                // Frames from which nothing follows could come for ever: others want to run as well.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        this.input = data;
                        continue;
                    }
                    Err(frame) => this.trailers = frame.into_trailers().ok(),
                },
                Some(Err(error)) => return this.fail(error),
                None => {}
            }
            // The coded body has ended: the stream must have, too.
            let why = match std::mem::replace(&mut this.stage, CodingStage::Done) {
                CodingStage::Untouched if this.is_strict => "a coding is named, and the body is empty",
                CodingStage::Within if this.lacks_only_its_trailer() => break,
                CodingStage::Within => SHORT,
                // What is missing may be another member.
                CodingStage::Between if this.body.size_hint().lower() > 0 => SHORT,
                CodingStage::Untouched | CodingStage::Between | CodingStage::Done => break,
            };
            return this.fail((this.undecodable)(why));
        }
        Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.stage == CodingStage::Done && self.trailers.is_none()
    }
}

const SHORT: &str = "the coded stream is cut short";
const CORRUPT: &str = "the coded stream is corrupt";

type BoxError = Box<dyn Error + Send + Sync>;

#[cfg(test)]
#[cfg(feature = "zstd")]
#[path = "../tests/parts/coding.rs"]
mod tests;
