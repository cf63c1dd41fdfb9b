//! What the files about sites say, as the archive shows them: robots.txt and tdmrep.json of each origin.
//!
//! A robots.txt may redirect to any URL, so a request is one for a robots.txt also where its path is another.

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;
use url::Url;

use super::agents::Tokens;
use super::record::{Exchange, Record, date, location, payload_digest, stated_digest, target};
use super::robots::{OriginRobots, RobotsRecord, RobotsSays, TextRules};
use crate::warc::http::decoded;
use crate::warc::{PAGE_LEN_MAX, ROBOTS_LEN_MAX, RobotsStatement};

#[derive(Default)]
pub(super) struct Sites {
    origins: HashMap<String, OriginRobots>,
    redirected: HashMap<String, Redirected>,
}

/// A URL to which robots.txt files redirect.
#[derive(Debug, Default)]
struct Redirected {
    /// Of those files.
    origins: Vec<String>,
    /// How many requests for it are for them: one, and its repetition.
    left: u8,
}

impl Sites {
    pub(super) fn origin(&mut self, origin: &str) -> &mut OriginRobots {
        self.origins.entry(origin.to_owned()).or_default()
    }

    /// Whether a request is for a robots.txt, also where one redirects to.
    pub(super) fn is_for_robots(&mut self, url: &str) -> bool {
        let redirected = self.redirected.get_mut(url).filter(|redirected| redirected.left > 0);
        if let Some(redirected) = redirected {
            redirected.left -= 1;
            return true;
        }
        is_robots_txt(url)
    }

    /// Whether the response is a file about a site, and no page: what it says counts from now on.
    pub(super) fn response(
        &mut self,
        record: &Record<'_>,
        exchange: &Exchange<'_>,
        status: StatusCode,
        tokens: &Tokens,
    ) -> bool {
        let url = exchange.url.as_str();
        let redirected = self.redirected.remove(url);
        let mut origins = redirected.map(|redirected| redirected.origins).unwrap_or_default();
        if is_robots_txt(url) {
            origins.push(exchange.origin.clone());
        }
        if !origins.is_empty() {
            self.robots_response(record, exchange, status, tokens, origins);
        } else if is_tdmrep(&exchange.url) {
            self.tdmrep(exchange, status);
        } else {
            return false;
        }
        true
    }

    fn robots_response(
        &mut self,
        record: &Record<'_>,
        exchange: &Exchange<'_>,
        status: StatusCode,
        tokens: &Tokens,
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
                    Ok(text) => RobotsSays::Rules(Box::new(TextRules::new(&text, tokens))),
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

    /// A robots.txt that came from a store.
    pub(super) fn robots_resource(&mut self, record: &Record<'_>, tokens: &Tokens) -> Result<(), String> {
        let text = TextRules::new(&record.block.bytes, tokens);
        self.robots_record(record, RobotsSays::Rules(Box::new(text)))
    }

    /// What abide says of a robots.txt without a text.
    pub(super) fn robots_statement(&mut self, record: &Record<'_>) -> Result<(), String> {
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
}

pub(super) fn is_robots_txt(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.path() == "/robots.txt" && url.query().is_none())
}

fn is_tdmrep(url: &Url) -> bool {
    url.path() == "/.well-known/tdmrep.json"
}

/// Redirects of robots.txt that were not followed yet.
const REDIRECTED_MAX: usize = 10_000;
