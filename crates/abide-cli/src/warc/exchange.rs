//! One exchange as it passes, until it is written.
//!
//! Those of a page are collected by the [`Recorder`](crate::recorder::Recorder) of its call and written with
//! its decision, because only then it is known whether the page may be archived. What the crawler fetches for
//! itself, such as robots.txt, is written as soon as it has ended.

use std::error::Error;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use abide::{Exchange, ExchangeEnd, Failure};
use abide_http::{failure_of, root_cause};
use http::{HeaderMap, StatusCode, Version};
use url::Url;

use super::Archive;
use super::http::response_head;

/// The exchanges of one call, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchanges(Arc<Mutex<Vec<SharedExchange>>>);

pub(super) type SharedExchange = Arc<Mutex<WireExchange>>;

impl Exchanges {
    pub(super) fn push(&self, exchange: SharedExchange) {
        lock(&self.0).push(exchange);
    }

    pub(super) fn take(&self) -> Vec<SharedExchange> {
        std::mem::take(&mut lock(&self.0))
    }
}

#[derive(Debug)]
pub(super) struct WireExchange {
    pub(super) begun: SystemTime,
    /// Without user information and fragment.
    pub(super) url: Url,
    pub(super) request_head: Vec<u8>,
    pub(super) response: Option<WireResponse>,
    /// In its content coding.
    pub(super) body: Vec<u8>,
    pub(super) end: WireEnd,
}

#[derive(Debug)]
pub(super) struct WireResponse {
    pub(super) head: Vec<u8>,
    pub(super) status: StatusCode,
    pub(super) version: Version,
    pub(super) fields: HeaderMap,
    pub(super) address: Option<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WireEnd {
    /// It is under way, or was given up before there was a response.
    Open,
    Whole,
    /// The rest was not read: abide needs no more of it.
    Cut,
    Failed {
        why: String,
        is_timeout: bool,
        /// There was no connection, so no request left.
        is_unsent: bool,
    },
}

impl WireExchange {
    /// The value of `WARC-Truncated`.
    pub(super) fn truncated(&self) -> Option<&'static str> {
        match self.end {
            WireEnd::Whole => None,
            WireEnd::Cut => Some("length"),
            WireEnd::Failed { is_timeout: true, .. } => Some("time"),
            WireEnd::Failed { .. } => Some("disconnect"),
            WireEnd::Open => Some("unspecified"),
        }
    }

    /// Whether a request left.
    pub(super) fn is_sent(&self) -> bool {
        !matches!(self.end, WireEnd::Failed { is_unsent: true, .. })
    }

    pub(super) fn why_failed(&self) -> Option<&str> {
        if let WireEnd::Failed { why, .. } = &self.end { Some(why) } else { None }
    }
}

/// What is known of an exchange.
pub(super) struct Tap {
    pub(super) exchange: SharedExchange,
    /// Who writes it when it has ended. `None`: its call.
    pub(super) archive: Option<Arc<Archive>>,
}

impl Exchange for Tap {
    fn answered(&mut self, response: &reqwest::Response) {
        let answer = WireResponse {
            head: response_head(response),
            status: response.status(),
            version: response.version(),
            fields: response.headers().clone(),
            address: response.remote_addr().map(|address| address.ip()),
        };
        lock(&self.exchange).response = Some(answer);
    }

    fn data(&mut self, bytes: &[u8]) {
        let mut exchange = lock(&self.exchange);
        let left = BODY_MAX - exchange.body.len();
        exchange.body.extend_from_slice(bytes.get(..left).unwrap_or(bytes));
        if left < bytes.len() {
            exchange.end = WireEnd::Cut;
        }
    }

    fn ended(self: Box<Self>, end: ExchangeEnd<'_>) {
        let mut exchange = lock(&self.exchange);
        exchange.end = match end {
            ExchangeEnd::Whole if exchange.end == WireEnd::Open => WireEnd::Whole,
            ExchangeEnd::Failed(error) => failed(error),
            // Without a response nothing was cut: the call has ended.
            _ if exchange.response.is_none() => WireEnd::Open,
            _ => WireEnd::Cut,
        };
        if let Some(archive) = &self.archive {
            archive.own(&exchange);
        }
    }
}

fn failed(error: &(dyn Error + 'static)) -> WireEnd {
    let failure = failure_of(error);
    let is_timeout = failure == Some(Failure::Timeout);
    let is_unsent = matches!(
        failure,
        Some(
            Failure::AddressRefused(_)
                | Failure::Dns
                | Failure::Refused
                | Failure::NoRoute
                | Failure::Connect
                | Failure::Tls
                | Failure::CertificateExpired
                | Failure::CertificateUntrusted
                | Failure::CertificateName
                | Failure::NotTls
        )
    );
    let why = failure.map_or_else(|| root_cause(error).to_string(), |failure| failure.to_string());
    WireEnd::Failed { why, is_timeout, is_unsent }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kept of a body in its coding: more than the crawl reads of a sitemap.
const BODY_MAX: usize = 64 * 1024 * 1024;
