//! What was decided about a URL: a `metadata` record of type `application/vnd.abide.decision+json`.
//!
//! The writer makes it, and the audit reads it again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::{RefusalLine, StatedPreference};

/// One URL, requested or not. The names are those of `fetch --json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Decision {
    pub(crate) url: String,
    /// When its request left; of one that was not requested, when that was decided.
    pub(crate) time: String,
    pub(crate) outcome: String,
    pub(crate) verdict: Option<DecisionVerdict>,
    /// The delay between requests to the host.
    pub(crate) delay_ms: Option<u64>,
    /// How long its call waited for permits.
    pub(crate) waited_ms: u64,
    pub(crate) answers: Option<Map<String, Value>>,
    pub(crate) unknown_because: Vec<String>,
    pub(crate) preferences: Vec<StatedPreference>,
    pub(crate) refusal: Option<RefusalLine>,
    pub(crate) why: String,
}

/// What robots.txt says.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DecisionVerdict {
    pub(crate) allowed: Option<bool>,
    /// The rule that decides, if one does.
    pub(crate) rule: Option<DecisionRule>,
    pub(crate) line: Option<u32>,
    pub(crate) group: Option<Vec<String>>,
    /// The record of the robots.txt in force, in the same file.
    pub(crate) robots_record: Option<String>,
    /// The digest of the payload of that record.
    pub(crate) robots_digest: Option<String>,
    /// How long ago the server sent or confirmed it.
    pub(crate) robots_age_s: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DecisionRule {
    pub(crate) kind: String,
    pub(crate) pattern: String,
    pub(crate) line: u32,
}

/// What is known of a robots.txt without a text: there is none, or it cannot be fetched. A `metadata` record
/// of type `application/vnd.abide.robots+json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RobotsStatement {
    pub(crate) robots_url: String,
    /// As in the verdict of `check --json`: `unavailable`, `unreachable` or `long_outage`.
    pub(crate) source: String,
    pub(crate) status: Option<u16>,
    pub(crate) why: Option<String>,
    /// When the last attempt ended.
    pub(crate) asked_at: String,
}

pub(crate) const DECISION_TYPE: &str = "application/vnd.abide.decision+json";
pub(crate) const ROBOTS_TYPE: &str = "application/vnd.abide.robots+json";
