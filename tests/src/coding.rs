//! Content codings, as servers apply them.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

/// Makes the coded bytes.
type Encode = fn(&[u8]) -> Vec<u8>;

/// The codings that robots.txt is asked for in, by their names in HTTP.
pub const CODINGS: [(&str, Encode); 4] = [("gzip", gzip), ("deflate", zlib), ("br", brotli), ("zstd", zstd)];

/// One member.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4_096, 1, 18);
    encoder.write_all(bytes).expect("memory takes it");
    encoder.into_inner()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory takes it")
}
