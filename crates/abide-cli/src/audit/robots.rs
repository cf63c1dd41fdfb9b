//! The robots.txt of one origin, as the archive shows it over time.
//!
//! A request is judged by the file that was there before it, and not by a later one: what counts is
//! what was permitted at the time.

use std::collections::VecDeque;
use std::sync::Arc;

use abide_permissions::AI_TRAINING_TOKEN;
use abide_robots::{ParseOptions, ProductToken, RobotsVerdict, Rules, Target};

use super::time::Time;

/// The last records about the robots.txt of an origin, in the order of their dates.
#[derive(Debug, Default)]
pub(super) struct OriginRobots {
    records: VecDeque<RobotsRecord>,
    /// Its `/.well-known/tdmrep.json`.
    pub(super) tdmrep: Option<Arc<[u8]>>,
    /// A request without one before it was reported.
    pub(super) is_reported: bool,
}

#[derive(Debug)]
pub(super) struct RobotsRecord {
    pub(super) id: String,
    pub(super) at: Time,
    /// Of its payload, as `sha256:` writes it.
    pub(super) digest: String,
    /// The same as the record has it.
    pub(super) stated_digest: Option<String>,
    pub(super) says: RobotsSays,
}

#[derive(Debug, Clone)]
pub(super) enum RobotsSays {
    /// Its text, read for the tokens that were in use last.
    Rules(Box<TextRules>),
    /// There is none: everything is allowed.
    Unavailable,
    /// It cannot be fetched: everything is disallowed.
    Unreachable(String),
}

#[derive(Debug, Clone)]
pub(super) struct TextRules {
    text: Arc<[u8]>,
    tokens: Arc<[ProductToken]>,
    rules: Rules,
    /// Whether a group may be one of a policy token.
    has_policy_token: bool,
}

impl TextRules {
    pub(super) fn new(text: &[u8], tokens: &Arc<[ProductToken]>) -> Self {
        let token = AI_TRAINING_TOKEN.as_bytes();
        let has_policy_token = text.windows(token.len()).any(|window| window.eq_ignore_ascii_case(token));
        Self { text: text.into(), tokens: Arc::clone(tokens), rules: rules(text, tokens), has_policy_token }
    }

    pub(super) fn rules(&mut self, tokens: &Arc<[ProductToken]>) -> &Rules {
        if *self.tokens != **tokens {
            (self.rules, self.tokens) = (rules(&self.text, tokens), Arc::clone(tokens));
        }
        &self.rules
    }

    pub(super) fn has_policy_token(&self) -> bool {
        self.has_policy_token
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
}

impl RobotsSays {
    /// The verdict of the rules; `None` without a text.
    pub(super) fn verdict(
        &mut self,
        tokens: &Arc<[ProductToken]>,
        target: &Target<'_>,
    ) -> Option<RobotsVerdict> {
        if let Self::Rules(text) = self { Some(text.rules(tokens).verdict(target)) } else { None }
    }
}

impl OriginRobots {
    pub(super) fn add(&mut self, record: RobotsRecord) {
        let later = self.records.iter().rev().take_while(|known| record.at < known.at).count();
        self.records.insert(self.records.len() - later, record);
        if self.records.len() > RECORDS_MAX {
            self.records.pop_front();
        }
    }

    pub(super) fn find(&mut self, id: &str) -> Option<&mut RobotsRecord> {
        self.records.iter_mut().rev().find(|record| record.id == id)
    }

    /// What an earlier record said, by its own name or the digest of its payload; else the last text.
    pub(super) fn again(&self, record: Option<&str>, digest: Option<&str>) -> Option<RobotsSays> {
        let is_named = |known: &&RobotsRecord| {
            record == Some(known.id.as_str())
                || digest.is_some()
                    && (digest == known.stated_digest.as_deref() || digest == Some(&known.digest))
        };
        let is_text = |known: &&RobotsRecord| matches!(known.says, RobotsSays::Rules(_));
        let mut texts = self.records.iter().rev().filter(is_text);
        let known = texts.clone().find(is_named).or_else(|| texts.next())?;
        Some(known.says.clone())
    }

    /// What applies at a time; `None` if nothing was known then.
    pub(super) fn at(&mut self, at: Time) -> Option<&mut RobotsSays> {
        let known = self.records.iter().filter(|record| !at.is_before(record.at)).count();
        let is_text = |record: &RobotsRecord| matches!(record.says, RobotsSays::Rules(_));
        let last = known.checked_sub(1)?;
        let is_unreachable = |place: usize| {
            self.records.get(place).is_some_and(|record| matches!(record.says, RobotsSays::Unreachable(_)))
        };
        // RFC 9309 §2.3.1.4: in an outage, a cached copy may be used.
        let copy =
            if is_unreachable(last) { self.records.iter().take(known).rposition(is_text) } else { None };
        self.records.get_mut(copy.unwrap_or(last)).map(|record| &mut record.says)
    }
}

/// As the gate reads it: a text that is longer was cut before.
fn rules(text: &[u8], tokens: &[ProductToken]) -> Rules {
    Rules::parse_with(text, tokens, ParseOptions::new().with_limit(text.len().max(1)))
}

/// A decision names one of the last.
const RECORDS_MAX: usize = 8;
