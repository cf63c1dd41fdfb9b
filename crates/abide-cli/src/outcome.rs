//! How one URL ended, and the sentence that says why.
//!
//! `check`, `fetch` and `crawl` report in these words, and exit by them, so what is a refusal and what is a
//! failure is decided once.

use std::net::IpAddr;

use abide::{Denied, DeniedKind, Failure};
use anstyle::Style;
use serde::{Deserialize, Serialize};

use crate::sanitize::without_user;
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
