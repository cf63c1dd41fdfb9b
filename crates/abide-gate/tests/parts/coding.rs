//! Codings taken off to the last byte, however the stream is cut.

use compression_codecs::brotli::params::EncoderParams;
use compression_codecs::core::Level;
use compression_codecs::{BrotliEncoder, DeflateEncoder, EncodeV2, GzipEncoder, ZlibEncoder, ZstdEncoder};
use futures_util::stream;
use http::HeaderValue;
use http_body_util::{BodyExt, StreamBody};

use super::*;

const CODINGS: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

fn encoded(coding: Coding, text: &[u8]) -> Vec<u8> {
    encoded_by(
        text,
        match coding {
            Coding::Gzip => Box::new(GzipEncoder::new(Level::Fastest.into())),
            Coding::Deflate => Box::new(ZlibEncoder::new(Level::Fastest.into())),
            Coding::Brotli => Box::new(BrotliEncoder::new(EncoderParams::default().quality(Level::Fastest))),
            Coding::Zstd => Box::new(ZstdEncoder::new(1)),
        },
    )
}

fn encoded_by(text: &[u8], mut encoder: Box<dyn EncodeV2>) -> Vec<u8> {
    // Room for what does not become shorter.
    let mut room = vec![0; text.len() + 4096];
    let (mut input, mut output) = (PartialBuffer::new(text), WriteBuffer::new_initialized(&mut room));
    if !text.is_empty() {
        encoder.encode(&mut input, &mut output).unwrap();
    }
    assert!(input.unwritten().is_empty() && encoder.finish(&mut output).unwrap());
    output.written().to_vec()
}

type Decoded = DecodedBody<StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, &'static str>>>>>;

/// A body in frames of a size, with these trailers behind it.
fn body(coding: Coding, bytes: &[u8], size: usize, trailers: Option<HeaderMap>) -> Decoded {
    let frames = bytes.chunks(size).map(|chunk| Frame::data(Bytes::copy_from_slice(chunk)));
    let frames: Vec<_> = frames.chain(trailers.map(Frame::trailers)).map(Ok).collect();
    DecodedBody::new(StreamBody::new(stream::iter(frames)), coding, |why| why)
}

async fn decoded(coding: Coding, bytes: &[u8], size: usize) -> Result<Vec<u8>, &'static str> {
    let whole = body(coding, bytes, size, None).strict().collect().await?;
    Ok(whole.to_bytes().to_vec())
}

fn text(len: usize) -> Vec<u8> {
    // Neither all alike nor all different.
    (0..len).map(|n| b"Disallow: /\n"[(n * n / 7) % 12]).collect()
}

#[tokio::test]
async fn what_was_coded_comes_back_however_it_is_cut() {
    for coding in CODINGS {
        for len in [0, 1, PIECE_LEN - 1, PIECE_LEN, PIECE_LEN + 1, 2 * PIECE_LEN, 100_000] {
            let (text, coded) = (text(len), encoded(coding, &text(len)));
            for size in [1, 7, 1000, usize::MAX] {
                assert_eq!(
                    decoded(coding, &coded, size).await.as_ref(),
                    Ok(&text),
                    "{coding:?} {len} {size}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_is_an_error() {
    for coding in CODINGS {
        let coded = encoded(coding, b"User-agent: *\nAllow: /\n");
        for len in 0..coded.len() {
            let cut = decoded(coding, &coded[..len], 5).await;
            assert!(cut.is_err(), "{coding:?}, {len} of {}: {cut:?}", coded.len());
        }
    }
}

#[tokio::test]
async fn deflate_is_decoded_without_its_wrapper_as_well() {
    for len in [1, 100, 100_000] {
        let text = text(len);
        let bare = encoded_by(&text, Box::new(DeflateEncoder::new(Level::Fastest.into())));
        for size in [1, 7, usize::MAX] {
            assert_eq!(decoded(Coding::Deflate, &bare, size).await.as_ref(), Ok(&text), "{len} {size}");
        }
        assert!(decoded(Coding::Deflate, &bare[..bare.len() - 1], 7).await.is_err());
        assert!(decoded(Coding::Deflate, &[&bare[..], b"\n"].concat(), 7).await.is_err());
    }
}

#[tokio::test]
async fn padding_behind_gzip_is_passed_over_and_hides_no_member() {
    let (text, more) = (text(1_000), encoded(Coding::Gzip, b"more"));
    let gzip = encoded(Coding::Gzip, &text);
    for (rest, read) in [
        (&b"\0"[..], Some("")),
        (&[0; 512], Some("")),
        (b"\r\n", Some("")),
        (b" \t\n\0\n", Some("")),
        (&[&[0; 9][..], &more].concat(), Some("more")),
        (&[&more[..], &[0; 9]].concat(), Some("more")),
        (&more[..more.len() - 1], None),
        (b"\x1f", None),
        (b"\0\x1f", None),
        (b"\nDisallow: /", None),
        (b"\x8b", None),
    ] {
        let bytes = [&gzip[..], rest].concat();
        for size in [1, 7, usize::MAX] {
            let found = decoded(Coding::Gzip, &bytes, size).await.ok();
            let wanted = read.map(|more| [&text[..], more.as_bytes()].concat());
            assert_eq!(found, wanted, "{:?} by {size}", rest.escape_ascii().to_string());
        }
    }
}

#[tokio::test]
async fn only_a_whole_trailer_of_gzip_may_be_missing_from_a_whole_body() {
    for len in [0, 1, 100, PIECE_LEN, 100_000] {
        let text = text(len);
        let gzip = encoded(Coding::Gzip, &text);
        for cut in 0..gzip.len().min(40) {
            let bytes = Bytes::copy_from_slice(&gzip[..gzip.len() - cut]);
            let body = http_body_util::Full::new(bytes).map_err(|never| match never {});
            let found = DecodedBody::new(body, Coding::Gzip, |why| why).strict().collect().await;
            assert_eq!(found.is_ok(), matches!(cut, 0 | 8), "{len}: {cut} bytes cut");
            assert!(found.is_err() || found.is_ok_and(|whole| whole.to_bytes() == text));
        }
    }
}

#[tokio::test]
async fn members_without_text_do_not_go_on_for_ever() {
    for coding in [Coding::Gzip, Coding::Zstd] {
        let nothing = encoded(coding, b"");
        let endless = nothing.repeat(1_000_000 / nothing.len());
        let mut body = body(coding, &endless, 4096, None).strict();
        assert!(body.frame().await.is_some_and(|frame| frame.is_err()));
        assert!(body.read < OVERHEAD_MAX + 4096, "{coding:?}: {} bytes were read", body.read);
        assert!(body.frame().await.is_none(), "an error is the end");
    }
}

#[tokio::test]
async fn an_empty_body_is_one_unless_its_coding_must_be_there() {
    for coding in CODINGS {
        assert_eq!(body(coding, b"", 1, None).collect().await.unwrap().to_bytes(), "");
        assert!(decoded(coding, b"", 1).await.unwrap_err().contains("is empty"));
    }
}

#[tokio::test]
async fn trailers_pass() {
    let trailers = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("\"1\""))]);
    let body = body(Coding::Gzip, &encoded(Coding::Gzip, b"text"), 3, Some(trailers));
    let whole = body.collect().await.unwrap();
    assert_eq!(whole.trailers().unwrap()["etag"], "\"1\"");
    assert_eq!(whole.to_bytes(), "text");
}

/// A server states the length of what it coded, if any: nothing is known of the other, however much has been
/// read.
#[tokio::test]
async fn a_decoded_body_states_no_length() {
    let mut body = body(Coding::Gzip, &encoded(Coding::Gzip, b"text"), 1_000, None);
    while body.frame().await.is_some() {
        assert_eq!(body.size_hint().exact(), None);
    }
    assert_eq!(body.size_hint().exact(), None);
    assert!(body.is_end_stream());
}

#[test]
fn one_coding_is_taken_off_and_no_more() {
    for (fields, coding) in [
        (&[][..], Ok(None)),
        (&["identity", ""], Ok(None)),
        (&["GZIP"], Ok(Some(Coding::Gzip))),
        (&["identity, x-gzip"], Ok(Some(Coding::Gzip))),
        (&["deflate"], Ok(Some(Coding::Deflate))),
        (&["br"], Ok(Some(Coding::Brotli))),
        (&["zstd"], Ok(Some(Coding::Zstd))),
        (&["gzip", "gzip"], Err(Failure::StillCoded)),
        (&["gzip, br"], Err(Failure::StillCoded)),
        (&["compress"], Err(Failure::StillCoded)),
        (&["none", "UTF-8", "us-ascii, iso-8859-1", "7bit,8bit,binary", "text/plain"], Ok(None)),
        (&["aws-chunked,gzip"], Ok(Some(Coding::Gzip))),
        (&["br, utf-8"], Ok(Some(Coding::Brotli))),
        (&["utf-8, x-unknown"], Err(Failure::StillCoded)),
        (&["none, compress"], Err(Failure::StillCoded)),
        (&["nonesuch"], Err(Failure::StillCoded)),
        (&["base64"], Err(Failure::StillCoded)),
        (&["chunked"], Err(Failure::StillCoded)),
    ] {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(field));
        }
        assert_eq!(Coding::of(&headers), coding, "{fields:?}");
    }
}
