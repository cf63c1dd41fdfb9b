//! One record of an archive as bytes: its named fields, digests and block, in a gzip member of its own.
//!
//! Made in memory before anything is written: a record is in the file as a whole or not at all.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide::WallMillis;
use data_encoding::BASE32;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::json::rfc3339;

pub(crate) type Digest = [u8; 32];

/// What is written of a record. Its length and the digest of its block are computed.
pub(crate) struct Record<'a> {
    /// `WARC-Type`.
    pub(crate) kind: &'static str,
    pub(crate) id: Uuid,
    pub(crate) date: SystemTime,
    /// `WARC-Target-URI`.
    pub(crate) target: Option<&'a str>,
    pub(crate) content_type: &'static str,
    /// Further named fields.
    pub(crate) fields: Vec<(&'static str, String)>,
    /// The head of an HTTP message; empty in records of other kinds.
    pub(crate) head: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Whether the digest of the payload is stated besides that of the block.
    pub(crate) has_payload_digest: bool,
}

impl Record<'_> {
    /// The record as a gzip member.
    pub(crate) fn member(&self) -> Vec<u8> {
        let mut head = format!(
            "WARC/1.1\r\nWARC-Type: {}\r\nWARC-Record-ID: {}\r\nWARC-Date: {}\r\n",
            self.kind,
            urn(self.id),
            timestamp(self.date)
        );
        let mut add = |name: &str, value: &str| {
            // A line end in a value would begin another field.
            let value = value.replace(['\r', '\n'], " ");
            head.push_str(&format!("{name}: {value}\r\n"));
        };
        if let Some(target) = self.target {
            add("WARC-Target-URI", target);
        }
        for (name, value) in &self.fields {
            add(name, value);
        }
        if self.has_payload_digest {
            add("WARC-Payload-Digest", &labelled(&digest(&[self.payload])));
        }
        add("WARC-Block-Digest", &labelled(&digest(&[self.head, self.payload])));
        add("Content-Type", self.content_type);
        add("Content-Length", &(self.head.len() + self.payload.len()).to_string());
        let parts = [head.as_bytes(), b"\r\n", self.head, self.payload, b"\r\n\r\n"];
        let mut gzip = GzBuilder::new().write(Vec::new(), Compression::default());
        // Neither can fail: the bytes go to memory.
        let written = parts.iter().try_for_each(|part| gzip.write_all(part)).and_then(|()| gzip.finish());
        written.unwrap_or_default()
    }
}

pub(crate) fn digest(parts: &[&[u8]]) -> Digest {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize().into()
}

/// As archives write digests: `sha256:`, and Base32 (RFC 4648 §6).
pub(crate) fn labelled(digest: &Digest) -> String {
    format!("sha256:{}", BASE32.encode(digest))
}

pub(crate) fn urn(id: Uuid) -> String {
    format!("<urn:uuid:{id}>")
}

/// `2026-11-21T00:31:50.123456Z`.
pub(crate) fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = rfc3339(WallMillis::from_millis(since.as_secs().saturating_mul(1000)));
    format!("{}.{:06}Z", seconds.trim_end_matches('Z'), since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_microseconds() {
        let time = UNIX_EPOCH + Duration::from_micros(1_764_384_238_000_042);
        assert_eq!(timestamp(time), "2025-11-29T02:43:58.000042Z");
    }
}
