//! The records of one decision and of the exchanges that it led to, as they are written together.
//!
//! What the archive has already is referred to: a payload that comes again, and the robots.txt in force. Each
//! file has that once.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide::WallMillis;
use abide::robots_cache::{RobotsEntry, Source};
use http::StatusCode;
use serde::Serialize;
use url::Url;
use uuid::Uuid;

use super::decision::{DECISION_TYPE, Decision, ROBOTS_TYPE, RobotsStatement};
use super::exchange::{SharedExchange, WireEnd, WireExchange, WireResponse, lock};
use super::http::{Message, decoded, protocol};
use super::reader::RecordHead;
use super::record::{Digest, Record, digest, labelled, timestamp, urn};
use super::{ROBOTS_LEN_MAX, Settings};
use crate::json::{rfc3339, source_name};
use crate::sanitize::write_json;

/// Records that are written together.
pub(super) struct Group<'a> {
    settings: &'a Settings,
    known: &'a mut Known,
    bytes: Vec<u8>,
}

impl<'a> Group<'a> {
    pub(super) fn new(settings: &'a Settings, known: &'a mut Known) -> Self {
        Self { settings, known, bytes: Vec::new() }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn push(&mut self, record: &Record<'_>) {
        self.bytes.extend(record.member());
    }

    /// A decision and the exchanges that it led to; none if nothing was sent. `archive` is the answer on the
    /// page.
    pub(super) fn decided(
        &mut self,
        url: &Url,
        begun: SystemTime,
        decision: &Decision,
        exchanges: &[SharedExchange],
        archive: Option<&str>,
    ) {
        let ids: Vec<_> = exchanges.iter().map(|exchange| Ids::new(&lock(exchange))).collect();
        let concerned = ids.iter().rev().find_map(|ids| ids.response.or(ids.request));
        self.decision(url, begun, decision, concerned);
        for (exchange, ids) in exchanges.iter().zip(ids) {
            let exchange = lock(exchange);
            self.request(&exchange, ids);
            if let Some(reply) = ids.reply(&exchange) {
                let may_be_kept = self.settings.may_be_kept(reply.exchange, reply.response, archive);
                self.page(reply, may_be_kept);
            }
        }
    }

    /// Of a robots.txt, which is written whole.
    pub(super) fn own(&mut self, exchange: &WireExchange, decision: &Decision) {
        let ids = Ids::new(exchange);
        self.decision(&exchange.url, exchange.begun, decision, ids.response.or(ids.request));
        self.request(exchange, ids);
        let Some(reply) = ids.reply(exchange) else { return };
        let (fields, status) = (self.reply_fields(reply), reply.response.status);
        match status {
            StatusCode::NOT_MODIFIED => self.not_modified(reply, fields),
            _ => self.response(reply, fields, &exchange.body),
        }
        let text = decoded(&reply.response.fields, &exchange.body, ROBOTS_LEN_MAX);
        if let Some(key) = robots_key(exchange.url.as_str(), status.as_u16(), text) {
            let written = Written { record: urn(reply.id), digest: labelled(&digest(&[&exchange.body])) };
            self.known.robots.insert(key, written);
        }
    }

    fn decision(&mut self, url: &Url, date: SystemTime, decision: &Decision, concerned: Option<Uuid>) {
        let concurrent = concerned.map(|id| ("WARC-Concurrent-To", urn(id)));
        self.metadata(url.as_str(), date, DECISION_TYPE, decision, concurrent);
    }

    fn metadata(
        &mut self,
        target: &str,
        date: SystemTime,
        content_type: &'static str,
        value: &impl Serialize,
        field: Option<(&'static str, String)>,
    ) -> Written {
        let mut json = Vec::new();
        // It has only keys that are text, and memory takes all bytes.
        let _ = write_json(&mut json, value);
        let id = Uuid::new_v4();
        self.push(&Record {
            kind: "metadata",
            id,
            date,
            target: Some(target),
            content_type,
            fields: field.into_iter().collect(),
            head: &[],
            payload: &json,
            // A decision has no payload but its block. What is known of a robots.txt is referred to by it.
            has_payload_digest: content_type == ROBOTS_TYPE,
        });
        Written { record: urn(id), digest: labelled(&digest(&[&json])) }
    }

    fn request(&mut self, exchange: &WireExchange, ids: Ids) {
        let Some(id) = ids.request else { return };
        let mut fields = self.address(exchange);
        fields.extend(ids.response.map(|id| ("WARC-Concurrent-To", urn(id))));
        self.push(&Record {
            kind: "request",
            id,
            date: exchange.begun,
            target: Some(exchange.url.as_str()),
            content_type: "application/http; msgtype=request",
            fields,
            head: &exchange.request_head,
            payload: &[],
            has_payload_digest: true,
        });
    }

    /// The response of a page: whole, without its body, or a reference to an earlier one.
    fn page(&mut self, reply: Reply<'_>, may_be_kept: bool) {
        let (exchange, mut fields) = (reply.exchange, self.reply_fields(reply));
        if reply.response.status == StatusCode::NOT_MODIFIED {
            return self.not_modified(reply, fields);
        }
        if !may_be_kept && !exchange.body.is_empty() {
            fields.retain(|(name, _)| *name != "WARC-Truncated");
            fields.push(("WARC-Truncated", "unspecified".to_owned()));
            return self.response(reply, fields, &[]);
        }
        let payload = digest(&[&exchange.body]);
        let is_whole = exchange.end == WireEnd::Whole && !exchange.body.is_empty();
        match self.known.payloads.get(&payload).filter(|_| is_whole).cloned() {
            Some(seen) => {
                fields.push(("WARC-Profile", SAME_PAYLOAD.to_owned()));
                fields.push(("WARC-Payload-Digest", labelled(&payload)));
                fields.push(("WARC-Refers-To", seen.record));
                fields.push(("WARC-Refers-To-Target-URI", seen.url));
                fields.push(("WARC-Refers-To-Date", seen.date));
                self.revisit(reply, fields);
            }
            None => {
                if is_whole {
                    let (url, date) = (exchange.url.to_string(), timestamp(exchange.begun));
                    if self.known.payloads.len() >= PAYLOADS_MAX {
                        self.known.payloads.clear();
                    }
                    self.known.payloads.insert(payload, Seen { record: urn(reply.id), url, date });
                }
                self.response(reply, fields, &exchange.body);
            }
        }
    }

    fn response(&mut self, reply: Reply<'_>, fields: Fields, payload: &[u8]) {
        let record = reply.record("response", fields);
        self.push(&Record { payload, has_payload_digest: true, ..record });
    }

    fn not_modified(&mut self, reply: Reply<'_>, mut fields: Fields) {
        // The payload is that of an earlier crawl, which is not known here.
        fields.push(("WARC-Profile", NOT_MODIFIED.to_owned()));
        self.revisit(reply, fields);
    }

    fn revisit(&mut self, reply: Reply<'_>, fields: Fields) {
        self.push(&reply.record("revisit", fields));
    }

    fn reply_fields(&self, reply: Reply<'_>) -> Fields {
        let mut fields = self.address(reply.exchange);
        fields.push(("WARC-Protocol", protocol(reply.response.version).to_owned()));
        fields.extend(reply.exchange.truncated().map(|why| ("WARC-Truncated", why.to_owned())));
        fields
    }

    fn address(&self, exchange: &WireExchange) -> Fields {
        let address = exchange.response.as_ref().and_then(|response| response.address);
        let address = address.filter(|_| !self.settings.has_proxy);
        address.map(|address| ("WARC-IP-Address", address.to_string())).into_iter().collect()
    }

    /// The record of the robots.txt that decides, which is written now unless this file has it.
    pub(super) fn robots_in_force(&mut self, entry: &RobotsEntry) -> Written {
        let key = key_of(entry);
        if let Some(written) = self.known.robots.get(&key) {
            return written.clone();
        }
        let written = match entry.copy() {
            Some(copy) => {
                let (id, digest) = (Uuid::new_v4(), labelled(&digest(&[copy.body()])));
                self.push(&Record {
                    kind: "resource",
                    id,
                    date: system_time(copy.fetched_at()),
                    target: Some(&key.url),
                    content_type: "text/plain; charset=utf-8",
                    fields: Vec::new(),
                    head: &[],
                    payload: copy.body(),
                    has_payload_digest: true,
                });
                Written { record: urn(id), digest }
            }
            None => {
                let statement = RobotsStatement {
                    robots_url: key.url.clone(),
                    source: source_name(Some(entry.source())).to_owned(),
                    status: entry.status(),
                    why: why_unreachable(entry),
                    asked_at: rfc3339(entry.asked_at()),
                };
                self.metadata(&key.url, system_time(entry.asked_at()), ROBOTS_TYPE, &statement, None)
            }
        };
        self.known.robots.insert(key, written.clone());
        written
    }
}

/// Named fields of a record.
type Fields = Vec<(&'static str, String)>;

/// A response, and what its record is called.
#[derive(Clone, Copy)]
struct Reply<'a> {
    exchange: &'a WireExchange,
    response: &'a WireResponse,
    id: Uuid,
}

impl<'a> Reply<'a> {
    /// Without a payload.
    fn record(self, kind: &'static str, fields: Fields) -> Record<'a> {
        Record {
            kind,
            id: self.id,
            date: self.exchange.begun,
            target: Some(self.exchange.url.as_str()),
            content_type: "application/http; msgtype=response",
            fields,
            head: &self.response.head,
            payload: &[],
            has_payload_digest: false,
        }
    }
}

/// The records of one exchange.
#[derive(Debug, Clone, Copy)]
struct Ids {
    request: Option<Uuid>,
    response: Option<Uuid>,
}

impl Ids {
    fn new(exchange: &WireExchange) -> Self {
        Self {
            request: exchange.is_sent().then(Uuid::new_v4),
            response: exchange.response.is_some().then(Uuid::new_v4),
        }
    }

    fn reply(self, exchange: &WireExchange) -> Option<Reply<'_>> {
        Some(Reply { exchange, response: exchange.response.as_ref()?, id: self.response? })
    }
}

/// What is in the archive already, so that it is not written again.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Of the present file: its size bounds them.
    robots: HashMap<RobotsKey, Written>,
    payloads: HashMap<Digest, Seen>,
}

impl Known {
    /// A record of an earlier run.
    pub(super) fn learn(&mut self, head: &RecordHead, block: &[u8]) {
        self.robots.extend(robots_of(head, block));
        self.payloads.extend(seen_of(head));
    }

    /// Each file says itself which robots.txt was in force.
    pub(super) fn begin_file(&mut self) {
        self.robots.clear();
    }
}

/// A robots.txt in force: where it is, and what it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RobotsKey {
    url: String,
    state: RobotsState,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RobotsState {
    /// The decoded text.
    Text(Digest),
    /// There is none, because of this status.
    Status(u16),
    /// There is none, for another reason.
    Other(String),
}

#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) record: String,
    pub(super) digest: String,
}

/// A response whose payload is in the archive.
#[derive(Debug, Clone)]
struct Seen {
    record: String,
    url: String,
    date: String,
}

fn system_time(time: WallMillis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(time.as_millis())
}

fn key_of(entry: &RobotsEntry) -> RobotsKey {
    let state = match (entry.copy(), entry.source()) {
        (Some(copy), _) => RobotsState::Text(digest(&[copy.body()])),
        (None, Source::Unavailable(status)) => RobotsState::Status(status),
        (None, other) => RobotsState::Other(format!("{other:?}")),
    };
    RobotsKey { url: entry.origin().robots_url().into(), state }
}

fn why_unreachable(entry: &RobotsEntry) -> Option<String> {
    match entry.source() {
        Source::Unreachable(failure) => Some(failure.to_string()),
        Source::TooManyRedirects => Some("too many redirects".to_owned()),
        _ => None,
    }
}

/// What the response of a robots.txt makes known for its own URL.
fn robots_key(url: &str, status: u16, text: Result<Vec<u8>, String>) -> Option<RobotsKey> {
    let state = match (status, text) {
        (200..=299, Ok(text)) => RobotsState::Text(digest(&[&text])),
        (400..=499, _) => RobotsState::Status(status),
        _ => return None,
    };
    Some(RobotsKey { url: url.to_owned(), state })
}

/// The same of a record of an earlier run.
fn robots_of(head: &RecordHead, block: &[u8]) -> Option<(RobotsKey, Written)> {
    let (url, record) = (head.target()?, head.field("WARC-Record-ID")?);
    if !url.ends_with("/robots.txt") {
        return None;
    }
    let digest_of = || head.field("WARC-Payload-Digest").map(str::to_owned);
    let key = match head.kind() {
        "resource" => RobotsKey { url: url.to_owned(), state: RobotsState::Text(digest(&[block])) },
        "response" => {
            let message = Message::read(block)?;
            let text = decoded(&message.fields, message.body, ROBOTS_LEN_MAX);
            robots_key(url, message.status?, text)?
        }
        _ => return None,
    };
    Some((key, Written { record: record.to_owned(), digest: digest_of()? }))
}

fn seen_of(head: &RecordHead) -> Option<(Digest, Seen)> {
    let is_whole = head.kind() == "response" && head.field("WARC-Truncated").is_none();
    let digest = head.field("WARC-Payload-Digest").filter(|_| is_whole)?.strip_prefix("sha256:")?;
    let digest = data_encoding::BASE32.decode(digest.as_bytes()).ok()?.try_into().ok()?;
    let field = |name| head.field(name).map(str::to_owned);
    let seen =
        Seen { record: field("WARC-Record-ID")?, url: head.target()?.to_owned(), date: field("WARC-Date")? };
    // All empty ones are alike.
    (digest != self::digest(&[])).then_some((digest, seen))
}

const SAME_PAYLOAD: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";
/// Beyond it all are forgotten, and what comes again is written again.
const PAYLOADS_MAX: usize = 250_000;
