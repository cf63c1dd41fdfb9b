//! The block of a record, read once: its beginning is kept, and its digests are checked.
//!
//! A block may be of any size, so only as much is kept as an audit reads of a page, while the digests,
//! sha1 or sha256 in any spelling, are computed over all of it.

use data_encoding::{BASE32_NOPAD, BASE64, HEXLOWER_PERMISSIVE};
use sha1::Sha1;
use sha2::digest::DynDigest;
use sha2::{Sha256, Sha384, Sha512};

use crate::warc::http::{HTTP_TYPE, Message};
use crate::warc::reader::RecordHead;

/// Looks at a block as it passes.
pub(super) struct BlockCheck {
    kept: Vec<u8>,
    block: Option<Expected>,
    payload: Option<Expected>,
    /// Where the payload begins, once that is known.
    payload_at: Option<usize>,
    len: u64,
}

/// A digest that a record states.
struct Expected {
    name: &'static str,
    stated: String,
    /// Of the bytes so far.
    found: Box<dyn DynDigest>,
}

impl BlockCheck {
    pub(super) fn of(head: &RecordHead) -> Self {
        let is_http = head.is_of(HTTP_TYPE);
        let has_payload = matches!(head.kind(), "request" | "response" | "resource" | "metadata");
        Self {
            kept: Vec::new(),
            block: Expected::of(head, "WARC-Block-Digest"),
            payload: Expected::of(head, "WARC-Payload-Digest").filter(|_| has_payload),
            payload_at: (!is_http).then_some(0),
            len: 0,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        if let Some(block) = &mut self.block {
            block.found.update(piece);
        }
        let before = self.kept.len();
        let left = KEPT_MAX - before;
        self.kept.extend_from_slice(piece.get(..left).unwrap_or(piece));
        match (&mut self.payload, self.payload_at) {
            (Some(payload), Some(_)) => payload.found.update(piece),
            (Some(payload), None) => {
                self.payload_at = end_of_head(&self.kept, before.saturating_sub(3));
                if let Some(at) = self.payload_at {
                    // All that was kept of this piece, and what was not.
                    payload.found.update(self.kept.get(at..).unwrap_or_default());
                    payload.found.update(piece.get(left..).unwrap_or_default());
                }
            }
            (None, _) => {}
        }
        self.len += piece.len() as u64;
    }

    /// The beginning of the block, and what is wrong with it.
    pub(super) fn end(self) -> Block {
        let is_whole = self.len <= self.kept.len() as u64;
        let mut expected: Vec<Expected> = self.block.into_iter().collect();
        if let Some(payload) = self.payload.filter(|_| self.payload_at.is_some()) {
            let message = Message::read(&self.kept).filter(Message::has_transfer_coding);
            // Whether a digest counts the chunks differs from writer to writer. Lenient: of a message that is
            // too long to be kept, neither is looked at.
            let is_right = message.is_some_and(|message| !is_whole || payload.is_of(&message.dechunked()));
            expected.extend((!is_right).then_some(payload));
        }
        let wrong = expected.into_iter().filter_map(Expected::wrong).collect();
        Block { is_whole, bytes: self.kept, wrong }
    }
}

pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    /// Nothing of it was left out.
    pub(super) is_whole: bool,
    /// A sentence for each digest that is not that of the bytes.
    pub(super) wrong: Vec<String>,
}

impl Expected {
    /// `None`: it is not stated, or in a way that is not known here.
    fn of(head: &RecordHead, name: &'static str) -> Option<Self> {
        let (label, stated) = head.field(name)?.split_once(':')?;
        let found: Box<dyn DynDigest> = match label.to_ascii_lowercase().as_str() {
            "sha1" | "sha-1" => Box::new(Sha1::default()),
            "sha256" | "sha-256" => Box::new(Sha256::default()),
            "sha384" | "sha-384" => Box::new(Sha384::default()),
            "sha512" | "sha-512" => Box::new(Sha512::default()),
            _ => return None,
        };
        Some(Self { name, stated: stated.to_owned(), found })
    }

    fn wrong(self) -> Option<String> {
        let found = self.found.finalize();
        (!is_stated(&self.stated, &found)).then(|| format!("{} is not that of the bytes", self.name))
    }

    /// Whether it is the digest of these bytes, instead of those so far.
    fn is_of(&self, bytes: &[u8]) -> bool {
        let mut found = self.found.box_clone();
        found.reset();
        found.update(bytes);
        is_stated(&self.stated, &found.finalize())
    }
}

/// Whether this text spells the digest: in base 16, 32 or 64.
fn is_stated(stated: &str, digest: &[u8]) -> bool {
    let unpadded = stated.trim_end_matches('=');
    let read = [
        HEXLOWER_PERMISSIVE.decode(unpadded.as_bytes()),
        BASE32_NOPAD.decode(unpadded.to_ascii_uppercase().as_bytes()),
        BASE64.decode(stated.as_bytes()),
    ];
    read.into_iter().flatten().any(|read| read == digest)
}

/// Behind the empty line that ends the head of an HTTP message, looked for from `from` on.
/// Lenient: lines may end without a carriage return.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let line_ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let mut ends = line_ends.filter_map(|(at, _)| {
        let behind = rest.get(at + 1..)?;
        let empty = [&b"\n"[..], b"\r\n"].into_iter().find(|empty| behind.starts_with(empty))?;
        Some(from + at + 1 + empty.len())
    });
    ends.next()
}

/// As much of a page as is looked at for its head, and more than counts of a robots.txt.
const KEPT_MAX: usize = 1024 * 1024;
