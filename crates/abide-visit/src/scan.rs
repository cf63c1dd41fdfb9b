//! Which responses are read, and how: header fields always, the head of HTML pages.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body::Body;
use tokio::sync::watch;

use abide_gate::WallMillis;
use abide_permissions::{Head, HeadEnd, HeadScanner, Meta, Permissions, Preferences, ReadOptions, Tdm};

use crate::body::WatchedBody;
use crate::remember::Known;
use crate::visit::Answer;

/// How the permissions of a response are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scan {
    /// Nothing is read: the permissions say "not scanned".
    Off,
    /// `Robots-Tag` and `X-Robots-Tag` only.
    Headers,
    /// The header fields, and the head of an HTML page before the caller gets the response. The default.
    ///
    /// Reading stops when the head has ended; the body is replayed untouched.
    Eager,
    /// The header fields at once, the head while the caller reads the body:
    /// [`Visit::settled`](crate::Visit::settled) resolves when the head has ended or the body was dropped.
    Lazy,
}

/// What is done with a body.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Nothing, for this reason.
    Leave(HeadEnd),
    /// Its head is read before the caller gets it.
    Ahead(Box<HeadScanner>),
    /// Its head is read as it passes.
    Along(Box<HeadScanner>),
}

/// The field lines of one response that hold rules, and when they came.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    lines: Vec<(HeaderName, HeaderValue)>,
    received: WallMillis,
}

impl Fields {
    /// Takes the lines, or none if nothing is to be read.
    pub(crate) fn of(scan: Scan, headers: &HeaderMap, received: WallMillis) -> Self {
        let lines = headers.iter().filter(|(name, _)| scan != Scan::Off && holds_rules(name.as_str()));
        Self { lines: lines.map(|(name, value)| (name.clone(), value.clone())).collect(), received }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What they say on how content may be used; `metas` are those of the head.
    pub(crate) fn preferences(&self, metas: &[Meta]) -> Preferences {
        let lines = || self.lines.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let tdm = Tdm::default().with_fields(lines()).with_metas(metas);
        Preferences::default().with_fields(lines()).with_tdm(&tdm)
    }

    /// What they permit, together with a head.
    pub(crate) fn permissions(&self, read: &ReadOptions, head: Head) -> Permissions {
        let lines = self.lines.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        Permissions::read(read, lines, head, self.received.to_system_time())
    }
}

/// The fields that hold rules (draft-illyes-repext-03 §3.1.1) and preferences.
fn holds_rules(name: &str) -> bool {
    matches!(
        name,
        "robots-tag" | "x-robots-tag" | "content-usage" | "content-signal" | "tdm-reservation" | "tdm-policy"
    )
}

/// Decides from the head of a response whether its body is looked at.
pub(crate) fn plan(
    read: &ReadOptions,
    scan: Scan,
    method: &Method,
    (status, headers): (StatusCode, &HeaderMap),
) -> Plan {
    if let Some(reason) = reason_to_leave(scan, method, (status, headers)) {
        return Plan::Leave(reason);
    }
    let content_type =
        headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let scanner = HeadScanner::new(read, content_type.as_deref());
    match scan {
        Scan::Lazy => Plan::Along(Box::new(scanner)),
        _ => Plan::Ahead(Box::new(scanner)),
    }
}

/// Only a final 2xx says something about its URL, and only a body that is all there, from its beginning, decoded, and HTML.
pub(crate) fn reason_to_leave(
    scan: Scan,
    method: &Method,
    (status, headers): (StatusCode, &HeaderMap),
) -> Option<HeadEnd> {
    let skipped = matches!(scan, Scan::Off | Scan::Headers)
        || !status.is_success()
        || *method == Method::HEAD
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT)
        || (status == StatusCode::PARTIAL_CONTENT && !starts_at_zero(headers));
    if skipped {
        return Some(HeadEnd::NotScanned);
    }
    if is_coded(headers) {
        return Some(HeadEnd::Undecoded);
    }
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    (!HeadScanner::scans(content_type)).then_some(HeadEnd::NotHtml)
}

/// `Content-Range: bytes 0-…`.
fn starts_at_zero(headers: &HeaderMap) -> bool {
    let range = headers.get(header::CONTENT_RANGE).map(|value| value.as_bytes().trim_ascii());
    range.is_some_and(|range| range.starts_with(b"bytes 0-"))
}

/// The client did not undo the content coding.
fn is_coded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

/// Carries the plan out: a head, or one that comes with the body.
pub(crate) async fn run<B>(plan: Plan, body: &mut WatchedBody<B>) -> Seen
where
    B: Body<Data = Bytes> + Unpin,
{
    let seen = match plan {
        Plan::Leave(reason) => Seen::Now(Head::not_scanned(reason)),
        Plan::Ahead(scanner) => Seen::Now(Box::pin(body.read_head(scanner)).await),
        Plan::Along(scanner) => {
            let (sender, head) = watch::channel(None);
            body.scan_lazily(scanner, sender);
            Seen::Later(head)
        }
    };
    body.take_what_is_here().await;
    seen
}

/// What has been seen of a head when the caller gets the response.
#[derive(Debug)]
pub(crate) enum Seen {
    Now(Head),
    Later(watch::Receiver<Option<Head>>),
}

impl Seen {
    /// The head as far as it is known now.
    pub(crate) fn head(&self) -> Head {
        match self {
            Self::Now(head) => head.clone(),
            Self::Later(_) => Head::not_scanned(HeadEnd::NotScanned),
        }
    }

    /// The permissions, with what an earlier visit has left where that is more.
    pub(crate) fn answer(self, read: &ReadOptions, fields: &Fields, known: Option<Known>) -> Answer {
        match (self, known) {
            (Self::Later(head), _) => Answer::Later { read: read.clone(), head },
            (Self::Now(_), Some(known)) => Answer::Remembered(Box::new(known)),
            (Self::Now(head), None) => Answer::Known(fields.permissions(read, head)),
        }
    }
}
