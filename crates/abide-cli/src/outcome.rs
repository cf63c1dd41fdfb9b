//! How one URL ended, and the sentence that says why.
//!
//! `check`, `fetch` and `crawl` report in these words, and exit by them, so what is a refusal and what is a
//! failure is decided once.

use std::net::IpAddr;
use std::time::SystemTime;

use abide::pacing::DeferReason;
use abide::{Denied, DeniedKind, Failure, Verdict};
use anstyle::Style;
use serde::{Deserialize, Serialize};

use crate::sanitize::{wait, without_user};
use crate::style;

/// The words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) enum Outcome {
    /// `check`: the site permits it.
    Allowed,
    /// The server answered, whatever its status.
    Fetched,
    /// The site's robots.txt disallows it, or can't be fetched; or the site disallows the use that it is for.
    Denied,
    /// Later: the host has to be left alone for longer than the call waits.
    Deferred,
    /// What stands before the site has answered in its place; or abide itself refuses it, such as an address
    /// that is not public.
    Refused,
    /// The network or the server failed.
    #[default]
    Error,
}

impl Outcome {
    /// A refusal that is ours is never reported as the site's disallow.
    pub(crate) fn of(denied: &Denied) -> Self {
        match denied.kind() {
            DeniedKind::Unreachable { cause, .. } if cause.is_refused() => Self::Refused,
            DeniedKind::Disallowed { .. } | DeniedKind::Unreachable { .. } | DeniedKind::Purpose { .. } => {
                Self::Denied
            }
            DeniedKind::Deferred { .. } | DeniedKind::Refusing { .. } => Self::Deferred,
            _ => Self::Refused,
        }
    }

    /// How a line for people begins: with the status, else with the outcome. `error` is the word for an
    /// error.
    pub(crate) fn mark(self, status: Option<u16>, error: &str) -> (Style, String) {
        match (self, status) {
            (Self::Fetched, Some(status)) => (style::of_status(status), status.to_string()),
            (Self::Deferred, _) => (style::WAIT, self.as_str().to_owned()),
            (Self::Error, _) => (style::BAD, error.to_owned()),
            _ => (style::BAD, self.as_str().to_owned()),
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Fetched => "fetched",
            Self::Denied => "denied",
            Self::Deferred => "deferred",
            Self::Refused => "refused",
            Self::Error => "error",
        }
    }
}

/// The address that abide refused to contact, if that is the reason.
fn refused_address(denied: &Denied) -> Option<IpAddr> {
    match denied.kind() {
        DeniedKind::AddressRefused { address } => *address,
        DeniedKind::Unreachable { cause: Failure::AddressRefused(address), .. } => Some(*address),
        _ => None,
    }
}

/// Why a URL was not fetched, with the flag that helps where there is one.
pub(crate) fn why(denied: &Denied) -> String {
    match refused_address(denied) {
        Some(address) => format!("{}: {}", without_user(denied.url().as_str()), not_public(address)),
        None => denied.to_string(),
    }
}

/// The same in a few words, for a line that begins with the URL: the rule and its line, or what is wrong, and
/// when to ask again.
pub(crate) fn brief(denied: &Denied) -> String {
    let what = match denied.kind() {
        DeniedKind::Disallowed { verdict } => return rule(verdict),
        DeniedKind::Deferred { reason } => deferral(reason),
        DeniedKind::Refusing { by, responses, status, .. } => {
            let by = by.map(|by| format!(", {}", by.by())).unwrap_or_default();
            format!("its host refuses this crawler: {responses} × {status} in a row{by}")
        }
        _ => cause(denied).unwrap_or_else(|| {
            let (why, url) = (why(denied), denied.url().as_str());
            without_url(&why, url).unwrap_or(&why).to_owned()
        }),
    };
    let again = denied.retry_at().and_then(|at| at.duration_since(SystemTime::now()).ok());
    // Rounded up: never too early.
    let again = again.map(|time| format!("; again in {}", wait(time.as_millis().div_ceil(1000) as u64)));
    what + &again.unwrap_or_default()
}

/// `disallowed by "Disallow: /private/" on line 2`, or what else the verdict is.
pub(crate) fn rule(verdict: &Verdict) -> String {
    verdict.rules().map_or_else(|| verdict.to_string(), ToString::to_string)
}

fn deferral(reason: &DeferReason) -> String {
    match reason {
        DeferReason::Backoff { status: Some(status), .. } => format!("its host answered {status}"),
        DeferReason::Backoff { status: None, .. } => "its host is backed off".to_owned(),
        DeferReason::Delay { .. } => "others wait for its host before it".to_owned(),
        DeferReason::InFlight { .. } => "a response of its host is still open".to_owned(),
        DeferReason::Breaker { cause } => format!("its host is left alone: {cause}"),
        DeferReason::RateLimit => "its host has few requests left, by its RateLimit fields".to_owned(),
        DeferReason::Redirect { status, .. } => format!("a {status} redirect asks to wait"),
        DeferReason::Robots => "its robots.txt has to wait".to_owned(),
        DeferReason::OtherProcess => "another process sends requests to its host".to_owned(),
        DeferReason::Store { .. } => "the shared store does not respond".to_owned(),
        _ => "its host has to wait".to_owned(),
    }
}

/// The rest of a sentence that begins with this URL, which is shown already.
pub(crate) fn without_url<'a>(why: &'a str, url: &str) -> Option<&'a str> {
    let rest = why.strip_prefix(url)?;
    rest.strip_prefix(": ").or_else(|| rest.strip_prefix(" is not requested: "))
}

/// The same without the URL, so that those that ended alike are counted together.
pub(crate) fn cause(denied: &Denied) -> Option<String> {
    match denied.kind() {
        _ if refused_address(denied).is_some() => refused_address(denied).map(not_public),
        DeniedKind::AddressRefused { .. } => Some("it has no public address".to_owned()),
        DeniedKind::Unreachable { cause, .. } => Some(format!("robots.txt can't be fetched: {cause}")),
        DeniedKind::Purpose { usage, .. } => Some(format!("the site disallows {usage}")),
        _ => None,
    }
}

fn not_public(address: IpAddr) -> String {
    format!("{address} is not a public address (--allow-net {address} permits it)")
}
