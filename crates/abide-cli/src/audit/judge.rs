//! What the records say of the crawler, one after the other.
//!
//! Memory grows with the number of hosts, not of records: of each, the last requests and the last robots.txt
//! are kept.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use abide::pacing::{PacePolicy, RETRY_AFTER_MAX, WaitRequest, wait_request};
use abide_permissions::ProductToken;
use abide_robots::Target;
use http::StatusCode;
use http::header::{LOCATION, USER_AGENT};
use url::Url;

use super::agents::{Agents, Tokens};
use super::block::Block;
use super::finding::{Finding, Kind, Level, Place};
use super::pace::{Half, HostPace, Mark, Recorded};
use super::robots::{OriginRobots, RobotsRecord, RobotsSays, TextRules};
use super::stated::{is_read, restrictions};
use super::time::Time;
use crate::json;
use crate::sanitize::public;
use crate::warc::http::{HTTP_TYPE, Message, decoded};
use crate::warc::reader::RecordHead;
use crate::warc::record::{digest, labelled};
use crate::warc::{DECISION_TYPE, Decision, DecisionRule, ROBOTS_LEN_MAX, ROBOTS_TYPE, RobotsStatement};

/// An audit that is under way.
pub(super) struct Judge {
    /// Of `--delay`.
    delay: Option<Duration>,
    agents: Agents,
    origins: HashMap<String, OriginRobots>,
    hosts: HashMap<String, HostPace>,
    redirected: HashMap<String, Redirected>,
    /// Responses whose requests may follow, which say whose they are. The earliest first.
    unjudged: VecDeque<Unjudged>,
    /// The last ones, by the record that they concern.
    decisions: VecDeque<(String, Decision)>,
    pub(super) tally: Tally,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) records: u64,
    pub(super) requests: u64,
    pub(super) findings: u64,
    pub(super) notes: u64,
}

/// A URL to which robots.txt files redirect.
#[derive(Debug, Default)]
struct Redirected {
    /// Of those files.
    origins: Vec<String>,
    /// How many requests for it are for them: one, and its repetition.
    left: u8,
}

/// A request that was not judged yet by the rules.
struct Unjudged {
    file: usize,
    /// Of its record.
    id: u64,
    place: Place,
    url: Url,
    origin: String,
    at: Time,
}

/// A record that is looked at.
pub(super) struct Record<'a> {
    pub(super) file: usize,
    pub(super) name: &'a str,
    pub(super) head: &'a RecordHead,
    pub(super) block: &'a Block,
}

/// An HTTP record whose named fields are good.
struct Exchange<'a> {
    url: Url,
    at: Time,
    origin: String,
    host: String,
    id: &'a str,
    concurrent: Vec<u64>,
    message: Message<'a>,
}

type Found = Vec<(Level, Kind, String)>;

fn fault(kind: Kind, why: String) -> (Level, Kind, String) {
    (Level::Finding, kind, why)
}

impl Judge {
    pub(super) fn new(agent: Option<Vec<ProductToken>>, delay: Option<Duration>) -> Self {
        Self {
            delay,
            agents: Agents::new(agent),
            origins: HashMap::new(),
            hosts: HashMap::new(),
            redirected: HashMap::new(),
            unjudged: VecDeque::new(),
            decisions: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// What a record shows.
    pub(super) fn record(&mut self, record: &Record<'_>) -> Vec<Finding> {
        self.tally.records += 1;
        let mut found: Found = Vec::new();
        if !record.block.wrong.is_empty() {
            found.push(fault(Kind::BrokenRecord, record.block.wrong.join("; ")));
        }
        match self.read(record) {
            Ok(more) => found.extend(more),
            Err(why) => found.push(fault(Kind::BrokenRecord, why)),
        }
        let mut findings = Vec::new();
        if self.unjudged.len() > UNJUDGED_MAX
            && let Some(earliest) = self.unjudged.pop_front()
        {
            findings = self.judged_late(earliest);
        }
        if !found.is_empty() {
            let place = Place::of(record);
            findings.extend(found.into_iter().map(|found| place.finding(found)));
        }
        self.count(&findings);
        findings
    }

    /// What is left to say when there is no further record.
    pub(super) fn end(&mut self) -> Vec<Finding> {
        let left = std::mem::take(&mut self.unjudged);
        let findings: Vec<Finding> = left.into_iter().flat_map(|left| self.judged_late(left)).collect();
        self.count(&findings);
        findings
    }

    fn count(&mut self, findings: &[Finding]) {
        let notes = findings.iter().filter(|finding| finding.level == Level::Note).count();
        self.tally.notes += notes as u64;
        self.tally.findings += (findings.len() - notes) as u64;
    }

    /// A response whose request is not in the archive.
    fn judged_late(&mut self, request: Unjudged) -> Vec<Finding> {
        let tokens = self.agents.tokens(request.file);
        let found = self.allowed(&tokens, &request.origin, &request.url, request.at);
        found.into_iter().map(|found| request.place.finding(found)).collect()
    }

    /// # Errors
    /// A sentence, if the record is broken.
    fn read(&mut self, record: &Record<'_>) -> Result<Found, String> {
        let head = record.head;
        match head.kind() {
            "warcinfo" => self.agents.info(record.file, &String::from_utf8_lossy(&record.block.bytes)),
            "metadata" if head.is_of(DECISION_TYPE) => return self.decision(record),
            "metadata" if head.is_of(ROBOTS_TYPE) => self.robots_statement(record)?,
            "resource" if head.target().is_some_and(is_robots_txt) => self.robots_resource(record)?,
            "request" if head.is_of(HTTP_TYPE) => {
                return Ok(exchange(record)?
                    .map(|exchange| self.request(record, &exchange))
                    .unwrap_or_default());
            }
            "response" | "revisit" if head.is_of(HTTP_TYPE) => {
                let Some(exchange) = exchange(record)? else { return Ok(Vec::new()) };
                return Ok(self.response(record, &exchange));
            }
            "" => return Err("the record has no WARC-Type".to_owned()),
            _ => {}
        }
        Ok(Vec::new())
    }

    fn request(&mut self, record: &Record<'_>, exchange: &Exchange<'_>) -> Found {
        let agent = exchange.message.fields.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        let tokens = self.agents.request(record.file, agent);
        match self.sent(record, exchange, Half::Request) {
            Sent::First { mut found, is_for_robots } => {
                if !is_for_robots {
                    found.extend(self.allowed(&tokens, &exchange.origin, &exchange.url, exchange.at));
                }
                found
            }
            Sent::Second(first) => {
                let place = self.unjudged.iter().position(|unjudged| unjudged.id == first);
                let unjudged = place.and_then(|place| self.unjudged.remove(place));
                let judged =
                    unjudged.and_then(|first| self.allowed(&tokens, &first.origin, &first.url, first.at));
                judged.into_iter().collect()
            }
        }
    }

    /// One half of an exchange: whether its request was too soon.
    fn sent(&mut self, record: &Record<'_>, exchange: &Exchange<'_>, half: Half) -> Sent {
        let tokens = self.agents.tokens(record.file);
        let robots = self.origins.entry(exchange.origin.clone()).or_default();
        let crawl_delay = match robots.at(exchange.at) {
            Some(RobotsSays::Rules(text)) => text.rules(&tokens).crawl_delay(),
            _ => None,
        };
        let delay = match (crawl_delay, self.delay) {
            (Some(theirs), Some(ours)) => theirs.max(ours),
            (Some(delay), None) | (None, Some(delay)) => delay,
            (None, None) => PacePolicy::DELAY,
        };
        let url = exchange.url.as_str();
        let mark = Mark {
            half,
            at: exchange.at,
            url: hash(url),
            id: hash(exchange.id),
            concurrent: exchange.concurrent.clone(),
        };
        let impolite = match self.host(&exchange.host).record(mark, delay) {
            Recorded::First(impolite) => impolite,
            Recorded::Second(first) => return Sent::Second(first),
        };
        self.tally.requests += 1;
        let delay = impolite.delay.map(|why| fault(Kind::ShortDelay, why));
        let wait = impolite.wait.map(|why| fault(Kind::IgnoredWait, why));
        // Also where a robots.txt redirects to, which is requested for it.
        let redirected = self.redirected.get_mut(url).filter(|redirected| redirected.left > 0);
        let is_for_robots = is_robots_txt(url) || redirected.is_some();
        if let Some(redirected) = redirected {
            redirected.left -= 1;
        }
        Sent::First { found: delay.into_iter().chain(wait).collect(), is_for_robots }
    }

    /// Whether robots.txt allowed a request.
    fn allowed(
        &mut self,
        tokens: &Tokens,
        origin: &str,
        url: &Url,
        at: Time,
    ) -> Option<(Level, Kind, String)> {
        let robots = self.origins.entry(origin.to_owned()).or_default();
        let is_reported = robots.is_reported;
        match robots.at(at) {
            None if is_reported => None,
            None => {
                robots.is_reported = true;
                let why = format!("no robots.txt of {origin} is in the archive before this request");
                Some(fault(Kind::NoRobots, why))
            }
            Some(RobotsSays::Unreachable(why)) => {
                let why = format!("everything is disallowed while robots.txt cannot be fetched: {why}");
                Some(fault(Kind::Disallowed, why))
            }
            Some(says) => {
                let verdict = says.verdict(tokens, &Target::of(url)).filter(|verdict| !verdict.is_allowed());
                verdict.map(|verdict| fault(Kind::Disallowed, verdict.to_string()))
            }
        }
    }

    fn response(&mut self, record: &Record<'_>, exchange: &Exchange<'_>) -> Found {
        let mut found = match self.sent(record, exchange, Half::Response) {
            Sent::First { found, is_for_robots: false } => {
                self.unjudged.push_back(Unjudged {
                    file: record.file,
                    id: hash(exchange.id),
                    place: Place::of(record),
                    url: exchange.url.clone(),
                    origin: exchange.origin.clone(),
                    at: exchange.at,
                });
                found
            }
            Sent::First { found, .. } => found,
            Sent::Second(_) => Found::new(),
        };
        let Some(status) = exchange.message.status.and_then(|status| StatusCode::from_u16(status).ok())
        else {
            return found;
        };
        self.asked_to_wait(exchange, status);
        let redirected = self.redirected.remove(exchange.url.as_str());
        let mut origins = redirected.map(|redirected| redirected.origins).unwrap_or_default();
        if is_robots_txt(exchange.url.as_str()) {
            origins.push(exchange.origin.clone());
        }
        if !origins.is_empty() {
            self.robots_response(record, exchange, status, origins);
        } else if is_tdmrep(&exchange.url) {
            self.tdmrep(exchange, status);
        } else if status.is_success() {
            found.extend(self.stated(record, exchange));
        }
        found
    }

    /// 429, 503 and their kin, and Retry-After on any error or redirect.
    fn asked_to_wait(&mut self, exchange: &Exchange<'_>, status: StatusCode) {
        let (asked, number) =
            (wait_request(status, &exchange.message.fields, exchange.at.wall()), status.as_u16());
        let because = |lasts: Option<Duration>| match lasts {
            Some(lasts) => format!("status {number} with Retry-After {} s", lasts.as_secs()),
            None => format!("status {number}"),
        };
        match asked {
            WaitRequest::Throttle { retry_after } => {
                let lasts = retry_after.unwrap_or(THROTTLE).min(RETRY_AFTER_MAX);
                self.host(&exchange.host).asked_to_wait(exchange.at, lasts, because(retry_after));
            }
            WaitRequest::Backoff { retry_after } => {
                let lasts = retry_after.min(RETRY_AFTER_MAX);
                self.host(&exchange.host).asked_to_wait(exchange.at, lasts, because(Some(retry_after)));
            }
            WaitRequest::NextHop { retry_after } => {
                if let Some((url, host)) =
                    location(exchange).and_then(|url| Some((hash(url.as_str()), host(&url)?)))
                {
                    let because = because(Some(retry_after));
                    self.host(&host).asked_before_hop(exchange.at, url, retry_after, because);
                }
            }
            _ => {}
        }
    }

    fn host(&mut self, host: &str) -> &mut HostPace {
        self.hosts.entry(host.to_owned()).or_default()
    }

    /// A response for the robots.txt of these origins.
    fn robots_response(
        &mut self,
        record: &Record<'_>,
        exchange: &Exchange<'_>,
        status: StatusCode,
        origins: Vec<String>,
    ) {
        // Some writers have no revisits.
        if record.head.kind() == "revisit" || status == StatusCode::NOT_MODIFIED {
            return self.robots_revisit(record, exchange, &origins);
        }
        let message = &exchange.message;
        let says = match status.as_u16() {
            200..=299 => {
                let body = message.dechunked();
                match decoded(&message.fields, &body, ROBOTS_LEN_MAX) {
                    Ok(text) => {
                        RobotsSays::Rules(Box::new(TextRules::new(&text, &self.agents.tokens(record.file))))
                    }
                    Err(why) => RobotsSays::Unreachable(why),
                }
            }
            300..=399 => match location(exchange) {
                Some(target) => {
                    if self.redirected.len() >= REDIRECTED_MAX {
                        self.redirected.clear();
                    }
                    let redirected = self.redirected.entry(target.into()).or_default();
                    redirected.left = 2;
                    redirected.origins.extend(origins);
                    return;
                }
                None => {
                    RobotsSays::Unreachable(format!("status {} without a good Location", status.as_u16()))
                }
            },
            // RFC 9309 §2.3.1.3.
            400..=499 => RobotsSays::Unavailable,
            other => RobotsSays::Unreachable(format!("status {other}")),
        };
        let digest = payload_digest(record, message.body);
        for origin in origins {
            let (id, digest, says) = (exchange.id.to_owned(), digest.clone(), says.clone());
            let stated_digest = stated_digest(record);
            let known = RobotsRecord { id, at: exchange.at, digest, stated_digest, says };
            self.origins.entry(origin).or_default().add(known);
        }
    }

    /// It has not changed, or is the same as that of another origin.
    fn robots_revisit(&mut self, record: &Record<'_>, exchange: &Exchange<'_>, origins: &[String]) {
        let (refers_to, stated) = (record.head.field("WARC-Refers-To"), stated_digest(record));
        let other = record.head.field("WARC-Refers-To-Target-URI").and_then(|url| Url::parse(url).ok());
        let other = other.map(|url| url.origin().ascii_serialization());
        let again = |origins: &HashMap<String, OriginRobots>, origin: &String| {
            origins.get(origin)?.again(refers_to, stated.as_deref())
        };
        for origin in origins {
            let says = again(&self.origins, origin);
            let says = says.or_else(|| other.as_ref().and_then(|other| again(&self.origins, other)));
            if let Some(says) = says {
                let (digest, stated_digest) = (stated.clone().unwrap_or_default(), stated.clone());
                let known =
                    RobotsRecord { id: exchange.id.to_owned(), at: exchange.at, digest, stated_digest, says };
                self.origins.entry(origin.clone()).or_default().add(known);
            }
        }
    }

    /// The site's statement on text and data mining. What cannot be fetched changes nothing.
    fn tdmrep(&mut self, exchange: &Exchange<'_>, status: StatusCode) {
        let message = &exchange.message;
        let json = match status.as_u16() {
            200..=299 => decoded(&message.fields, &message.dechunked(), PAGE_LEN_MAX).ok().map(Arc::from),
            400..=499 => None,
            _ => return,
        };
        self.origins.entry(exchange.origin.clone()).or_default().tdmrep = json;
    }

    fn robots_resource(&mut self, record: &Record<'_>) -> Result<(), String> {
        let text = TextRules::new(&record.block.bytes, &self.agents.tokens(record.file));
        self.robots_record(record, RobotsSays::Rules(Box::new(text)))
    }

    /// What abide says of a robots.txt without a text.
    fn robots_statement(&mut self, record: &Record<'_>) -> Result<(), String> {
        let statement: RobotsStatement = serde_json::from_slice(&record.block.bytes)
            .map_err(|error| format!("expected what is known of a robots.txt as JSON: {error}"))?;
        let status = statement.status.map(|status| format!("status {status}"));
        let why = statement.why.or(status).unwrap_or_default();
        let says = match statement.source.as_str() {
            "unavailable" | "long_outage" => RobotsSays::Unavailable,
            _ => RobotsSays::Unreachable(why),
        };
        self.robots_record(record, says)
    }

    fn robots_record(&mut self, record: &Record<'_>, says: RobotsSays) -> Result<(), String> {
        let (url, at) = (target(record.head)?, date(record.head)?);
        let id = record.head.field("WARC-Record-ID").unwrap_or_default().to_owned();
        let digest = payload_digest(record, &record.block.bytes);
        let robots = self.origins.entry(url.origin().ascii_serialization()).or_default();
        robots.add(RobotsRecord { id, at, digest, stated_digest: stated_digest(record), says });
        Ok(())
    }

    /// A decision of abide's, and whether the bytes bear it out.
    fn decision(&mut self, record: &Record<'_>) -> Result<Found, String> {
        let decision: Decision = serde_json::from_slice(&record.block.bytes)
            .map_err(|error| format!("expected a decision as JSON: {error}"))?;
        let found = self.contradictions(record, &decision)?;
        if let Some(concerned) = record.head.field("WARC-Concurrent-To") {
            if self.decisions.len() == DECISIONS_MAX {
                self.decisions.pop_front();
            }
            self.decisions.push_back((concerned.to_owned(), decision));
        }
        Ok(found.into_iter().map(|why| fault(Kind::Decision, why)).collect())
    }

    fn contradictions(&mut self, record: &Record<'_>, decision: &Decision) -> Result<Option<String>, String> {
        let (url, tokens) = (target(record.head)?, self.agents.tokens(record.file));
        let Some(stated) = &decision.verdict else { return Ok(None) };
        if decision.outcome == "fetched" && stated.allowed == Some(false) {
            return Ok(Some("it says that a URL was fetched which robots.txt disallows".to_owned()));
        }
        let Some(id) = &stated.robots_record else { return Ok(None) };
        let known = self.origins.get_mut(&url.origin().ascii_serialization());
        let Some(robots) = known.and_then(|robots| robots.find(id)) else {
            return Ok(Some(format!("the record {id} of the robots.txt in force is not before it")));
        };
        if stated.robots_digest.as_ref() != Some(&robots.digest) {
            return Ok(Some(format!("the robots.txt in {id} has other bytes than those that it names")));
        }
        let target = Target::of(&url);
        let (allowed, rule, group) = match robots.says.verdict(&tokens, &target) {
            Some(verdict) => {
                let rule = json::rule(&verdict).map(|rule| DecisionRule {
                    kind: rule.kind.to_owned(),
                    pattern: rule.pattern,
                    line: rule.line,
                });
                let has_group = verdict.rules().has_group();
                let group = has_group.then(|| verdict.group().map(str::to_owned).collect());
                (verdict.is_allowed(), rule, group)
            }
            None => (matches!(robots.says, RobotsSays::Unavailable), None, None),
        };
        let is_same = (stated.allowed, &stated.rule, &stated.group) == (Some(allowed), &rule, &group);
        let words = |allowed: Option<bool>, rule: &Option<DecisionRule>| match (allowed, rule) {
            (Some(true), Some(rule)) => format!("allowed by line {}", rule.line),
            (Some(true), None) => "allowed".to_owned(),
            (_, Some(rule)) => format!("disallowed by line {}", rule.line),
            (_, None) => "disallowed".to_owned(),
        };
        Ok((!is_same).then(|| {
            let (said, is) = (words(stated.allowed, &stated.rule), words(Some(allowed), &rule));
            format!("it says {said}, and by the bytes of the robots.txt the URL is {is}")
        }))
    }

    /// What a page that was kept states: a note if its decision says so, too.
    fn stated(&mut self, record: &Record<'_>, exchange: &Exchange<'_>) -> Found {
        let message = &exchange.message;
        // Of a revisit, the page was kept before.
        if message.body.is_empty() && record.head.kind() == "response" {
            return Vec::new();
        }
        let tokens = self.agents.tokens(record.file);
        // What cannot be decoded is not a page that can be used.
        let body = decoded(&message.fields, &message.dechunked(), PAGE_LEN_MAX).unwrap_or_default();
        let robots = self.origins.entry(exchange.origin.clone()).or_default();
        let tdmrep = robots.tdmrep.clone();
        let text = match robots.at(exchange.at) {
            Some(RobotsSays::Rules(text)) => Some(&mut **text),
            _ => None,
        };
        let target = Target::of(&exchange.url);
        let found = restrictions(&tokens, message, &body, text, tdmrep.as_deref(), &target);
        let decision = self.decisions.iter().rev().find(|(concerned, _)| concerned == exchange.id);
        let words = found.into_iter().map(|restriction| {
            let is_known = decision.is_some_and(|(_, decision)| is_read(&restriction, decision));
            let level = if is_known { Level::Note } else { Level::Finding };
            (
                level,
                Kind::Stated,
                format!("{} is stated on what was kept ({})", restriction.name, restriction.source),
            )
        });
        words.collect()
    }
}

impl Place {
    fn of(record: &Record<'_>) -> Self {
        let text = |name| record.head.field(name).map(str::to_owned);
        Self {
            file: record.name.to_owned(),
            offset: record.head.offset,
            record: text("WARC-Record-ID"),
            url: record.head.target().map(|url| public(url).into_owned()),
            time: text("WARC-Date"),
        }
    }

    fn finding(&self, (level, kind, why): (Level, Kind, String)) -> Finding {
        Finding { level, kind, place: self.clone(), why }
    }
}

/// What a record of an exchange is.
enum Sent {
    /// The first of its exchange, and what is wrong with when it was sent.
    First {
        found: Found,
        /// It is no page.
        is_for_robots: bool,
    },
    /// It belongs to this record.
    Second(u64),
}

/// `None`: it is of no concern here, such as a name that was looked up.
fn exchange<'a>(record: &Record<'a>) -> Result<Option<Exchange<'a>>, String> {
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

fn target(head: &RecordHead) -> Result<Url, String> {
    let text = head.target().ok_or("the record has no WARC-Target-URI")?;
    let mut url = Url::parse(text).map_err(|error| format!("its WARC-Target-URI is no URL: {error}"))?;
    url.set_fragment(None);
    Ok(url)
}

fn date(head: &RecordHead) -> Result<Time, String> {
    let text = head.field("WARC-Date").ok_or("the record has no WARC-Date")?;
    Time::parse(text).ok_or_else(|| "its WARC-Date is no time such as 2026-11-21T00:31:50Z".to_owned())
}

fn host(url: &Url) -> Option<String> {
    Some(url.host_str()?.trim_end_matches('.').to_owned())
}

/// Of a payload that is too long to be kept, the one that it states, which was checked.
fn payload_digest(record: &Record<'_>, payload: &[u8]) -> String {
    let stated = record.head.field("WARC-Payload-Digest").filter(|_| !record.block.is_whole);
    stated.map_or_else(|| labelled(&digest(&[payload])), str::to_owned)
}

fn is_robots_txt(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.path() == "/robots.txt" && url.query().is_none())
}

fn stated_digest(record: &Record<'_>) -> Option<String> {
    record.head.field("WARC-Payload-Digest").map(str::to_owned)
}

fn is_tdmrep(url: &Url) -> bool {
    url.path() == "/.well-known/tdmrep.json"
}

fn location(exchange: &Exchange<'_>) -> Option<Url> {
    let text = exchange.message.fields.get(LOCATION)?;
    let mut url = exchange.url.join(&String::from_utf8_lossy(text.as_bytes())).ok()?;
    url.set_fragment(None);
    Some(url)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// After a 429 or 503 without a Retry-After: no specification says how long. Lenient: abide waits a minute.
const THROTTLE: Duration = Duration::from_secs(10);
/// Decisions stand right before their responses.
const DECISIONS_MAX: usize = 64;
/// A writer that puts responses first has their requests right behind them.
const UNJUDGED_MAX: usize = 64;
/// Redirects of robots.txt that were not followed yet.
const REDIRECTED_MAX: usize = 10_000;
/// As much of a page as is looked at for its head.
const PAGE_LEN_MAX: usize = 512 * 1024;
