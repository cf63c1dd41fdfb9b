//! `crawl --warc`: an archive of everything that went over the wire, and of every decision (WARC/1.1, ISO
//! 28500:2017).
//!
//! ```text
//!  abide::ObserveExchanges ─▶ Archive::begin ─▶ Tap ─┬▶ of a page: Exchanges of its call ─▶ Archive::page ┐
//!                                                    └▶ robots.txt and its kin ─────────▶ Archive::own ──┤
//!                                                                         records ─▶ Output ◀────────────┘
//! ```
//!
//! A decision stands before the records of its exchange, so that no response is ever there without the reason
//! why it was requested.

mod decision;
mod exchange;
mod file;
pub(crate) mod http;
pub(crate) mod reader;
pub(crate) mod record;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ::http::{Extensions, HeaderName, StatusCode};
use abide::robots_cache::{RobotsEntry, Source};
use abide::{Abide, Host, ObserveExchanges, Verdict, WallMillis};
use abide_permissions::{ProductToken, Question};
use serde::Serialize;
use url::Url;
use uuid::Uuid;

use crate::args::{CrawlArgs, WarcArgs};
use crate::fetch::FetchAnswer;
use crate::json::{OnlineVerdict, millis, rfc3339, source_name};
use crate::outcome::Outcome;
use crate::proxy;
use crate::recorder::Recorder;
use crate::sanitize::{public_url, write_json};
use crate::tags;
pub(crate) use decision::{
    DECISION_TYPE, Decision, DecisionRule, DecisionVerdict, ROBOTS_TYPE, RobotsStatement,
};
pub(crate) use exchange::Exchanges;
use exchange::{SharedExchange, Tap, WireEnd, WireExchange, WireResponse, lock};
use file::Output;
use http::{Message, decoded, protocol, request_head, without_fragment};
use reader::RecordHead;
use record::{Digest, Record, digest, labelled, timestamp, urn};

/// What `--warc` writes. Nothing, until it is [opened](Self::open).
#[derive(Debug, Default)]
pub(crate) struct Archive {
    settings: OnceLock<Settings>,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Settings {
    /// The wall clock may be set meanwhile: times are counted from here.
    started: (SystemTime, Instant),
    /// Of `--header`: they may hold keys.
    private_fields: Vec<HeaderName>,
    /// The address of a response is that of the proxy.
    has_proxy: bool,
    keeps_noarchive: bool,
    tokens: Vec<ProductToken>,
    info: Info,
}

/// What the first record of each file says of the crawl.
#[derive(Debug)]
struct Info {
    /// The same for the same start URLs.
    crawl: String,
    user_agent: String,
    agent: String,
}

#[derive(Debug)]
struct Open {
    output: Output,
    /// What is in the present file of robots.txt files: its size bounds them.
    robots: HashMap<RobotsKey, Written>,
    payloads: HashMap<Digest, Seen>,
    /// The first error: nothing is written behind it.
    error: Option<anyhow::Error>,
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
struct Written {
    record: String,
    digest: String,
}

/// A response whose payload is in the archive.
#[derive(Debug, Clone)]
struct Seen {
    record: String,
    url: String,
    date: String,
}

impl Archive {
    /// What sees the exchanges of the crawler, if `--warc` asks for it.
    pub(crate) fn observer(self: &Arc<Self>, args: &WarcArgs) -> Option<Arc<dyn ObserveExchanges>> {
        args.warc.is_some().then(|| Arc::new(Observer(Arc::clone(self))) as _)
    }

    /// Begins the archive, or goes on with that of the same crawl.
    pub(crate) fn open(&self, args: &CrawlArgs, urls: &[Url], abide: &Abide) -> anyhow::Result<()> {
        let Some(path) = &args.warc.warc else { return Ok(()) };
        let settings = self.settings.get_or_init(|| Settings {
            started: (SystemTime::now(), Instant::now()),
            private_fields: args.online.headers.iter().map(|header| header.name.clone()).collect(),
            has_proxy: proxy::is_set(&args.online),
            keeps_noarchive: args.warc.keep_noarchive,
            tokens: args.online.tokens().iter().filter_map(|token| token.parse().ok()).collect(),
            info: Info {
                crawl: crawl_name(urls),
                user_agent: String::from_utf8_lossy(abide.user_agent().as_bytes()).into_owned(),
                agent: args.online.agent.join(","),
            },
        });
        let (mut robots, mut payloads) = (HashMap::new(), HashMap::new());
        let is_part = format!("isPartOf: {}\r\n", settings.info.crawl);
        let output = Output::open(
            path,
            args.warc.warc_size,
            |path| settings.info_record(path),
            |block| String::from_utf8_lossy(block).contains(&is_part),
            |head, block| {
                robots.extend(robots_of(head, block));
                payloads.extend(seen_of(head));
            },
        )?;
        *lock(&self.open) = Some(Open { output, robots, payloads, error: None });
        Ok(())
    }

    /// The exchanges of a URL, with what was decided about it. `is_final`: it does not come again, so that
    /// it is decided also if nothing was sent.
    pub(crate) fn page(
        &self,
        url: &Url,
        answer: &FetchAnswer,
        recorder: Option<&Recorder>,
        abide: &Abide,
        is_final: bool,
    ) -> anyhow::Result<()> {
        let Some(settings) = self.settings.get() else { return Ok(()) };
        let exchanges = recorder.map(|recorder| recorder.exchanges.take()).unwrap_or_default();
        if exchanges.is_empty() && !is_final {
            return Ok(());
        }
        let verdict = answer.verdict.clone().or_else(|| abide.check_cached(url));
        let begun = exchanges.last().map_or_else(|| settings.now(), |last| lock(last).begun);
        let mut decision = decision(url, answer, verdict.as_ref(), abide);
        decision.time = timestamp(begun);
        self.write(|open| {
            let mut group = Group::new(settings, open);
            if let Some(stated) = &mut decision.verdict
                && let Some(entry) = verdict.as_ref().and_then(Verdict::entry)
            {
                let written = group.robots_in_force(entry);
                (stated.robots_record, stated.robots_digest) = (Some(written.record), Some(written.digest));
            }
            let archive = decision.answers.as_ref().and_then(|answers| answers.get("archive")?.as_str());
            group.decided(&without_fragment(url), begun, &decision, &exchanges, archive);
            let bytes = group.bytes;
            open.output.append(&bytes)
        })
    }

    /// A URL whose request was under way when the crawl was interrupted.
    pub(crate) fn interrupted(&self, recorder: &Recorder) -> anyhow::Result<()> {
        let Some(settings) = self.settings.get() else { return Ok(()) };
        let exchanges = recorder.exchanges.take();
        let Some(last) = exchanges.last() else { return Ok(()) };
        let (url, begun) = { (lock(last).url.clone(), lock(last).begun) };
        let decision = Decision {
            url: url.to_string(),
            time: timestamp(begun),
            outcome: Outcome::Error.as_str().to_owned(),
            why: "the crawl was interrupted".to_owned(),
            ..Decision::default()
        };
        self.write(|open| {
            let mut group = Group::new(settings, open);
            group.decided(&url, begun, &decision, &exchanges, Some("unknown"));
            let bytes = group.bytes;
            open.output.append(&bytes)
        })
    }

    /// At the end of the crawl: all of it is brought to the disk, and nothing is written any more, as of a
    /// robots.txt that is still under way when the process ends.
    pub(crate) fn end(&self) -> anyhow::Result<()> {
        let synced = self.write(|open| open.output.sync());
        *lock(&self.open) = None;
        synced
    }

    /// An exchange that the crawler made for itself has ended.
    fn own(&self, exchange: &WireExchange) {
        let Some(settings) = self.settings.get() else { return };
        let outcome = match (&exchange.response, &exchange.end) {
            (Some(_), WireEnd::Whole | WireEnd::Cut) => Outcome::Fetched,
            _ => Outcome::Error,
        };
        let why = exchange.why_failed().unwrap_or("requested by the crawler for its own use");
        let decision = Decision {
            url: exchange.url.to_string(),
            time: timestamp(exchange.begun),
            outcome: outcome.as_str().to_owned(),
            why: why.to_owned(),
            ..Decision::default()
        };
        // The next page ends the crawl with the error.
        let _ = self.write(|open| {
            let mut group = Group::new(settings, open);
            group.own(exchange, &decision);
            let bytes = group.bytes;
            open.output.append(&bytes)
        });
    }

    /// Writes to the file, or to the next one if it is full.
    fn write(&self, write: impl FnOnce(&mut Open) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let (mut open, Some(settings)) = (lock(&self.open), self.settings.get()) else { return Ok(()) };
        let Some(open) = &mut *open else { return Ok(()) };
        if let Some(error) = &open.error {
            return Err(anyhow::anyhow!("{error:#}"));
        }
        let write = || {
            if open.output.is_full() {
                open.output.split(|path| settings.info_record(path))?;
                // Each file says itself which robots.txt was in force.
                open.robots.clear();
            }
            write(open)
        };
        let written = write();
        written.inspect_err(|error| open.error = Some(anyhow::anyhow!("{error:#}")))
    }
}

/// Stands between the library and the archive.
struct Observer(Arc<Archive>);

impl ObserveExchanges for Observer {
    fn begin(&self, request: &reqwest::Request, extensions: &Extensions) -> Box<dyn abide::Exchange> {
        let settings = self.0.settings.get();
        let left_out = settings.map(|settings| settings.private_fields.as_slice()).unwrap_or_default();
        let exchange = Arc::new(Mutex::new(WireExchange {
            begun: settings.map_or_else(SystemTime::now, Settings::now),
            url: without_fragment(request.url()),
            request_head: request_head(request, left_out),
            response: None,
            body: Vec::new(),
            end: WireEnd::Open,
        }));
        let recorder = extensions.get::<Recorder>();
        if let Some(recorder) = recorder {
            recorder.exchanges.push(Arc::clone(&exchange));
        }
        let archive = recorder.is_none().then(|| Arc::clone(&self.0));
        Box::new(Tap { exchange, archive })
    }
}

impl Settings {
    fn now(&self) -> SystemTime {
        let (wall, started) = self.started;
        wall + started.elapsed()
    }

    /// Whether the body may be archived. What is unknown is not allowed. The answer is about the page; a
    /// redirect or an error may say for itself what it forbids.
    fn may_be_kept(&self, reply: Reply<'_>, answer: Option<&str>) -> bool {
        if self.keeps_noarchive {
            return true;
        }
        if let Some(answer) = answer.filter(|_| reply.response.status.is_success()) {
            return answer == "yes";
        }
        let fields = &reply.response.fields;
        let Ok(body) = decoded(fields, &reply.exchange.body, PAGE_LEN_MAX) else { return false };
        let fields: Vec<(String, String)> = fields
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let (permissions, _) = tags::read_page(self.tokens.clone(), &fields, Some(&body), None);
        permissions.answer(Question::Archive).is_allowed()
    }

    fn info_record(&self, path: &Path) -> Vec<u8> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Info { crawl, user_agent, agent } = &self.info;
        let version = env!("CARGO_PKG_VERSION");
        let block = format!(
            "software: abide/{version}\r\nformat: WARC File Format 1.1\r\n\
             conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n\
             robots: obey\r\nhttp-header-user-agent: {user_agent}\r\nabide-agent: {agent}\r\nisPartOf: {crawl}\r\n"
        );
        let record = Record {
            kind: "warcinfo",
            id: Uuid::new_v4(),
            date: self.now(),
            target: None,
            content_type: "application/warc-fields",
            fields: vec![("WARC-Filename", name.into_owned())],
            head: &[],
            payload: block.as_bytes(),
            has_payload_digest: false,
        };
        record.member()
    }
}

/// Records that are written together.
struct Group<'a> {
    settings: &'a Settings,
    robots: &'a mut HashMap<RobotsKey, Written>,
    payloads: &'a mut HashMap<Digest, Seen>,
    bytes: Vec<u8>,
}

impl<'a> Group<'a> {
    fn new(settings: &'a Settings, open: &'a mut Open) -> Self {
        Self { settings, robots: &mut open.robots, payloads: &mut open.payloads, bytes: Vec::new() }
    }

    fn push(&mut self, record: &Record<'_>) {
        self.bytes.extend(record.member());
    }

    /// A decision and the exchanges that it led to; none if nothing was sent. `archive` is the answer on the
    /// page.
    fn decided(
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
                let may_be_kept = self.settings.may_be_kept(reply, archive);
                self.page(reply, may_be_kept);
            }
        }
    }

    /// Of a robots.txt, which is written whole.
    fn own(&mut self, exchange: &WireExchange, decision: &Decision) {
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
            self.robots.insert(key, written);
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
        match self.payloads.get(&payload).filter(|_| is_whole).cloned() {
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
                    if self.payloads.len() >= PAYLOADS_MAX {
                        self.payloads.clear();
                    }
                    self.payloads.insert(payload, Seen { record: urn(reply.id), url, date });
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
    fn robots_in_force(&mut self, entry: &RobotsEntry) -> Written {
        let key = key_of(entry);
        if let Some(written) = self.robots.get(&key) {
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
        self.robots.insert(key, written.clone());
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

fn decision(url: &Url, answer: &FetchAnswer, verdict: Option<&Verdict>, abide: &Abide) -> Decision {
    let line = &answer.line;
    let delay = Host::of(url).ok().and_then(|host| abide.gate().report(&host)).map(|report| report.delay);
    let found = verdict.map(|verdict| (OnlineVerdict::new(verdict, abide.gate().wall()), verdict));
    let verdict = found.map(|(online, verdict)| {
        let rule = online.found.rule.map(|rule| DecisionRule {
            kind: rule.kind.to_owned(),
            pattern: rule.pattern,
            line: rule.line,
        });
        DecisionVerdict {
            allowed: online.found.allowed,
            line: rule.as_ref().map(|rule| rule.line),
            rule,
            group: online.found.group,
            robots_record: None,
            robots_digest: None,
            robots_age_s: age(verdict, abide),
        }
    });
    Decision {
        url: public_url(url).into(),
        time: String::new(),
        outcome: line.outcome.as_str().to_owned(),
        verdict,
        delay_ms: delay.map(millis),
        waited_ms: line.waited_ms,
        answers: line.answers.answers.clone(),
        unknown_because: line.answers.unknown_because.clone(),
        preferences: line.preferences.iter().chain(&answer.no_ai).cloned().collect(),
        refusal: line.refusal.clone(),
        why: line.why.clone(),
    }
}

/// Since the server last sent or confirmed it; without a copy, since it was last asked.
fn age(verdict: &Verdict, abide: &Abide) -> Option<u64> {
    let (entry, now) = (verdict.entry()?, abide.gate().wall());
    Some(entry.age(now).unwrap_or_else(|| now.since(entry.asked_at())).as_secs())
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
    (digest != record::digest(&[])).then_some((digest, seen))
}

/// The same for the same start URLs, in whatever order.
fn crawl_name(urls: &[Url]) -> String {
    let mut names: Vec<String> = urls.iter().map(|url| public_url(url).into()).collect();
    names.sort();
    names.dedup();
    let digest = digest(&[names.join("\n").as_bytes()]);
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("urn:abide:crawl:{short}")
}

const SAME_PAYLOAD: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";
/// As much as abide reads of a page for its head.
const PAGE_LEN_MAX: usize = 512 * 1024;
/// As much as the gate reads of one.
pub(crate) const ROBOTS_LEN_MAX: usize = 512_000;
/// Beyond it all are forgotten, and what comes again is written again.
const PAYLOADS_MAX: usize = 250_000;
