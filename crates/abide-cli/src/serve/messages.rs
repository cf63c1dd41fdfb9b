//! What clients send, and what they get: the types of the interface, which OpenAPI is generated from.
//!
//! A field that is unknown here is refused, because it may be a limit that the caller counts on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{OnlineVerdict, RefusalLine};

/// May this URL be fetched? Acquires nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckCall {
    /// An absolute http or https URL.
    pub(crate) url: String,
    /// The first product token of one of the crawlers that the server has; without it, the first crawler.
    pub(crate) agent: Option<String>,
}

/// May this URL be fetched, and when? Returns when its request may go out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireCall {
    /// An absolute http or https URL. Each redirect is another URL, and another call.
    pub(crate) url: String,
    /// As in /v1/check.
    pub(crate) agent: Option<String>,
    /// How long to wait for the permit, in milliseconds; at most, and by default, the server's --max-wait.
    pub(crate) max_wait_ms: Option<u64>,
    /// When the permit ends by itself, in milliseconds from its grant: 60000 by default, at most 3600000.
    pub(crate) ttl_ms: Option<u64>,
}

/// What came of an acquire.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub(crate) enum Acquired {
    /// The request may go out now. The host waits for /v1/finish, or for the end of the ttl.
    Granted {
        permit: String,
        /// When the permit ends by itself: RFC 3339 with milliseconds.
        expires_at: String,
        /// How long this call took, in milliseconds.
        waited_ms: u64,
        verdict: OnlineVerdict,
    },
    /// The site disallows it, or its robots.txt cannot be fetched: skip the URL.
    Denied(NotGranted),
    /// The host has to be left alone for longer than the call waits: keep the URL, and ask again.
    Deferred(NotGranted),
    /// The server does not let it out: its address is not public, or what stands before the site refuses.
    Refused(NotGranted),
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NotGranted {
    /// One sentence.
    pub(crate) why: String,
    /// When to ask again, if that is known: RFC 3339 with milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<OnlineVerdict>,
}

/// How a request ended: exactly one of `status`, `failed` and `unsent`. Sent when the body has been read or
/// is given up, because the delay counts from here.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishCall {
    pub(crate) permit: String,
    /// The status of the response, from 200 to 999.
    pub(crate) status: Option<u16>,
    /// All header fields of the response: Retry-After and others are obeyed.
    pub(crate) headers: Option<Vec<(String, String)>>,
    /// There was no response, or not all of it.
    pub(crate) failed: Option<Fault>,
    /// True: nothing was sent, and nothing will be. The host owes no delay.
    pub(crate) unsent: Option<bool>,
}

/// Why there was no response.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fault {
    Connect,
    Dns,
    Tls,
    Timeout,
    Reset,
    Other,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Finished {
    /// The end of the host's backoff, if there is one now: RFC 3339 with milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backed_off_until: Option<String>,
    /// What stands before the site has answered in its place: this is not the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<RefusalLine>,
    /// When the next request to the host can go out: RFC 3339 with milliseconds.
    pub(crate) next_slot: String,
}

/// Gives a permit more time, for a long body. It never gets less than it had.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendCall {
    pub(crate) permit: String,
    /// From now, in milliseconds; at most 3600000.
    pub(crate) ttl_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Extended {
    /// RFC 3339 with milliseconds.
    pub(crate) expires_at: String,
}

/// What does this response permit?
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermissionsCall {
    /// The URL that responded. The preferences of its robots.txt count, if that is in memory; else they are
    /// unknown.
    pub(crate) url: Option<String>,
    /// As in /v1/check.
    pub(crate) agent: Option<String>,
    /// The status of the response, from 200 to 999.
    pub(crate) status: u16,
    /// All header fields of the response.
    pub(crate) headers: Vec<(String, String)>,
    /// The page, decoded. Without it, what an HTML page might state is unknown.
    pub(crate) html: Option<String>,
    /// The same as bytes, in base64.
    pub(crate) html_base64: Option<String>,
}

/// The hosts that are known, the busiest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HostsAnswer {
    /// How many are known; at most 1000 of them are listed.
    pub(crate) known: usize,
    pub(crate) hosts: Vec<HostAnswer>,
}

/// One host: its pacing key, without scheme and port.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HostAnswer {
    pub(crate) host: String,
    /// When the next request can go out: RFC 3339 with milliseconds. One in flight counts as if it ended now.
    pub(crate) next_slot: String,
    /// The end of the backoff in force.
    pub(crate) backed_off_until: Option<String>,
    /// The end of the hold, if the host is held because it refuses.
    pub(crate) held_until: Option<String>,
    /// Refusals in a row.
    pub(crate) refusals: u32,
    pub(crate) refused_by: Option<RefusalLine>,
    /// Calls that wait for a permit.
    pub(crate) waiting: usize,
    /// Permits that have not ended.
    pub(crate) in_flight: usize,
    /// The delay that applied last.
    pub(crate) delay_ms: u64,
    pub(crate) requests: u32,
    pub(crate) deferrals: u32,
    pub(crate) backoffs: u32,
    /// All waits together.
    pub(crate) waited_ms: u64,
    pub(crate) longest_wait_ms: u64,
    /// The robots.txt files in memory: for each origin of the host and each crawler.
    pub(crate) robots: Vec<RobotsAnswer>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RobotsAnswer {
    pub(crate) origin: String,
    pub(crate) agent: String,
    /// As in the verdict of /v1/check: fresh, last_good, unavailable, unreachable and so on.
    pub(crate) source: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) crawl_delay: Option<f64>,
    /// When it is fetched again.
    pub(crate) retry_at: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    pub(crate) status: &'static str,
    pub(crate) version: &'static str,
}
