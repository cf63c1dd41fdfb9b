//! A record as an audit looks at it, and the named fields that it needs.
//!
//! What a field must be is said here, so that each broken one is reported in the same words.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::header::LOCATION;
use url::Url;

use super::block::Block;
use super::time::Time;
use crate::warc::http::Message;
use crate::warc::reader::RecordHead;
use crate::warc::record::{digest, labelled};

/// A record that is looked at.
pub(super) struct Record<'a> {
    pub(super) file: usize,
    pub(super) name: &'a str,
    pub(super) head: &'a RecordHead,
    pub(super) block: &'a Block,
}

/// An HTTP record whose named fields are good.
pub(super) struct Exchange<'a> {
    pub(super) url: Url,
    pub(super) at: Time,
    pub(super) origin: String,
    pub(super) host: String,
    pub(super) id: &'a str,
    pub(super) concurrent: Vec<u64>,
    pub(super) message: Message<'a>,
}

/// `None`: it is of no concern here, such as a name that was looked up.
pub(super) fn exchange<'a>(record: &Record<'a>) -> Result<Option<Exchange<'a>>, String> {
    let head = record.head;
    let (url, at) = (target(head)?, date(head)?);
    let Some(host) = host(&url).filter(|_| matches!(url.scheme(), "http" | "https")) else { return Ok(None) };
    let message = Message::read(&record.block.bytes);
    let message = message.ok_or("expected an HTTP message in the block")?;
    let id = head.field("WARC-Record-ID").ok_or("the record has no WARC-Record-ID")?;
    let concurrent = head.fields_named("WARC-Concurrent-To").map(hash).collect();
    let origin = url.origin().ascii_serialization();
    Ok(Some(Exchange { origin, host, url, at, id, concurrent, message }))
}

pub(super) fn target(head: &RecordHead) -> Result<Url, String> {
    let text = head.target().ok_or("the record has no WARC-Target-URI")?;
    let mut url = Url::parse(text).map_err(|error| format!("its WARC-Target-URI is no URL: {error}"))?;
    url.set_fragment(None);
    Ok(url)
}

pub(super) fn date(head: &RecordHead) -> Result<Time, String> {
    let text = head.field("WARC-Date").ok_or("the record has no WARC-Date")?;
    Time::parse(text).ok_or_else(|| "its WARC-Date is no time such as 2026-11-21T00:31:50Z".to_owned())
}

pub(super) fn host(url: &Url) -> Option<String> {
    Some(url.host_str()?.trim_end_matches('.').to_owned())
}

/// Of a payload that is too long to be kept, the one that it states, which was checked.
pub(super) fn payload_digest(record: &Record<'_>, payload: &[u8]) -> String {
    let stated = record.head.field("WARC-Payload-Digest").filter(|_| !record.block.is_whole);
    stated.map_or_else(|| labelled(&digest(&[payload])), str::to_owned)
}

pub(super) fn stated_digest(record: &Record<'_>) -> Option<String> {
    record.head.field("WARC-Payload-Digest").map(str::to_owned)
}

pub(super) fn location(exchange: &Exchange<'_>) -> Option<Url> {
    let text = exchange.message.fields.get(LOCATION)?;
    let mut url = exchange.url.join(&String::from_utf8_lossy(text.as_bytes())).ok()?;
    url.set_fragment(None);
    Some(url)
}

pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
