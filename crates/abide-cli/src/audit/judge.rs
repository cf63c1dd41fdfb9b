//! What the records say of the crawler, one after the other.
//!
//! Memory grows with the number of hosts, not of records: of each, the last requests and the last robots.txt
//! are kept.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use abide::pacing::{PacePolicy, RETRY_AFTER_MAX, WaitRequest, wait_request};
use abide_permissions::ProductToken;
use abide_robots::Target;
use http::StatusCode;
use http::header::USER_AGENT;
use url::Url;

use super::agents::{Agents, Tokens};
use super::finding::{Finding, Kind, Level, Place};
use super::pace::{Half, HostPace, Mark, Recorded};
use super::record::{Exchange, Record, exchange, hash, host, location, target};
use super::robots::RobotsSays;
use super::sites::{Sites, is_robots_txt};
use super::stated::{is_read, restrictions};
use super::time::Time;
use crate::json;
use crate::sanitize::public;
use crate::warc::http::{HTTP_TYPE, decoded};
use crate::warc::{DECISION_TYPE, Decision, DecisionRule, PAGE_LEN_MAX, ROBOTS_TYPE};

/// An audit that is under way.
pub(super) struct Judge {
    /// Of `--delay`.
    delay: Option<Duration>,
    agents: Agents,
    sites: Sites,
    hosts: HashMap<String, HostPace>,
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

type Found = Vec<(Level, Kind, String)>;

fn fault(kind: Kind, why: String) -> (Level, Kind, String) {
    (Level::Finding, kind, why)
}

impl Judge {
    pub(super) fn new(agent: Option<Vec<ProductToken>>, delay: Option<Duration>) -> Self {
        Self {
            delay,
            agents: Agents::new(agent),
            sites: Sites::default(),
            hosts: HashMap::new(),
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
            "metadata" if head.is_of(ROBOTS_TYPE) => self.sites.robots_statement(record)?,
            "resource" if head.target().is_some_and(is_robots_txt) => {
                self.sites.robots_resource(record, &self.agents.tokens(record.file))?;
            }
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
        let robots = self.sites.origin(&exchange.origin);
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
        let is_for_robots = self.sites.is_for_robots(url);
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
        let robots = self.sites.origin(origin);
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
        let tokens = self.agents.tokens(record.file);
        if !self.sites.response(record, exchange, status, &tokens) && status.is_success() {
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
        let robots = self.sites.origin(&url.origin().ascii_serialization());
        let Some(robots) = robots.find(id) else {
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
        let robots = self.sites.origin(&exchange.origin);
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

/// After a 429 or 503 without a Retry-After: no specification says how long. Lenient: abide waits a minute.
const THROTTLE: Duration = Duration::from_secs(10);
/// Decisions stand right before their responses.
const DECISIONS_MAX: usize = 64;
/// A writer that puts responses first has their requests right behind them.
const UNJUDGED_MAX: usize = 64;
