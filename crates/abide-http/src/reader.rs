//! Reads a response: its fields at once, its head if it is a page, its body untouched.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body::Body;
use tokio::sync::watch;

use crate::body::{BoxError, ResponseBody};
use crate::fetch_info::{FetchInfo, Outcome, RedirectHistory, with_robots};
use crate::head::HeadReader;
use crate::permission_history::{StoredPermissions, persist};
use abide_gate::WallMillis;
use abide_permissions::{
    Fetched, Head, HeadEnd, HeadScanner, Meta, PermissionStore, Permissions, Preferences, ReadOptions,
    is_whole,
};
use abide_robots::Target;

/// How the responses of one crawler are read.
pub(crate) struct Reader {
    pub(crate) options: ReadOptions,
    pub(crate) scan: Scan,
    /// Where permissions are kept between fetches. A head that is scanned lazily is not kept.
    pub(crate) store: Option<Arc<dyn PermissionStore>>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("options", &self.options)
            .field("scan", &self.scan)
            .finish_non_exhaustive()
    }
}

/// One response that is about to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) scan: Scan,
    pub(crate) method: &'a Method,
    pub(crate) received: WallMillis,
    /// The fields that were sent with the request: a 304 may be about the version that they name.
    pub(crate) request: Option<&'a HeaderMap>,
    pub(crate) source: FieldSource,
}

/// Where an answer comes from, as far as its fields are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldSource {
    /// From the wire.
    Wire,
    /// From the wire at that time, with all fields that were there then.
    Kept(WallMillis),
    /// Through something that may have dropped fields.
    Unknown,
}

impl Reading<'_> {
    fn fields(&self, headers: &HeaderMap) -> Fields {
        Fields::of(self.scan, headers, self.source != FieldSource::Unknown, self.received)
    }

    /// A redirect that is followed: the last hop of `history` keeps its own rules.
    pub(crate) async fn followed(
        self,
        history: &mut RedirectHistory,
        status: StatusCode,
        headers: &HeaderMap,
    ) {
        let fields = self.fields(headers);
        history.keep_rules(fields.permissions(&self.reader.options, not_scanned()));
        if let Some(store) = self.store() {
            self.persist(store, history, status, headers, not_scanned()).await;
        }
    }

    /// Why the body is not read; `None` also for a response that is kept for later fetches.
    pub(crate) fn reason_to_leave(&self, status: StatusCode, headers: &HeaderMap) -> Option<HeadEnd> {
        reason_to_leave(self.scan, self.method, (status, headers)).filter(|_| self.store().is_none())
    }

    /// The fetch info of a response whose body is not read for this reason.
    pub(crate) fn fetch_info(
        self,
        reason: HeadEnd,
        history: RedirectHistory,
        headers: &HeaderMap,
        received: impl FnOnce() -> WallMillis,
    ) -> FetchInfo {
        let (read, mut fields) = (&self.reader.options, self.fields(headers));
        let outcome = if fields.is_empty() {
            // Made on request, which costs no more than a copy.
            Outcome::Nothing(reason)
        } else {
            fields.received = received();
            Outcome::Known(fields.permissions(read, Head::not_scanned(reason)))
        };
        FetchInfo::new(read.clone(), history, fields, outcome)
    }

    /// The answer that the caller gets: its head is read, and a [`FetchInfo`] put into its extensions.
    ///
    /// Its URL is that of the history's last hop; without one nothing is kept for later fetches.
    // Not `async`: a future that takes things by value has room for them twice.
    pub(crate) fn finish<B>(
        self,
        history: RedirectHistory,
        mut response: Response<ResponseBody<B>>,
    ) -> impl Future<Output = Response<ResponseBody<B>>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        let reader = self.reader;
        let (status, options) = (response.status(), &reader.options);
        let plan = plan(options, self.scan, self.method, (status, response.headers()));
        let fields = self.fields(response.headers());
        async move {
            let seen = run(plan, response.body_mut()).await;
            let known = match self.store() {
                // In a box: few crawlers have a store, and all would carry the room for it through every call.
                Some(store) => {
                    Box::pin(self.persist(store, &history, status, response.headers(), seen.head())).await
                }
                None => None,
            };
            let answer = seen.answer(options, &fields, known);
            response.extensions_mut().insert(FetchInfo::new(options.clone(), history, fields, answer));
            response
        }
    }

    /// Where what this response says is kept: only these methods ask for the resource itself, and what may have lost fields says too
    /// little.
    fn store(&self) -> Option<&Arc<dyn PermissionStore>> {
        let asks = matches!(*self.method, Method::GET | Method::HEAD) && self.scan != Scan::Off;
        self.reader.store.as_ref().filter(|_| asks && self.source != FieldSource::Unknown)
    }

    /// Keeps what the response says for later fetches, under the URL that the last hop asked for.
    async fn persist(
        &self,
        store: &Arc<dyn PermissionStore>,
        history: &RedirectHistory,
        status: StatusCode,
        headers: &HeaderMap,
        head: Head,
    ) -> Option<StoredPermissions> {
        let hop = history.last()?;
        let robots = with_robots(Preferences::new(&self.reader.options), hop);
        let received = match self.source {
            FieldSource::Kept(time) => time,
            FieldSource::Wire | FieldSource::Unknown => self.received,
        };
        let fields = lines(headers);
        let asked = self.request.map(lines).unwrap_or_default();
        let info = Fetched::new(status.as_u16(), &fields, head, received.to_system_time())
            .with_request(&asked)
            .with_preferences(&robots);
        persist(store, &self.reader.options, hop.url(), &info, status).await
    }
}

fn lines(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

fn not_scanned() -> Head {
    Head::not_scanned(HeadEnd::NotScanned)
}

/// How the permissions of a response are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scan {
    /// Nothing is read, and the permissions are unknown.
    Off,
    /// `Robots-Tag` and `X-Robots-Tag` only.
    Headers,
    /// The header fields, and the head of an HTML page, before the call returns the response. The default.
    ///
    /// Reading stops when the head has ended; the body is replayed untouched.
    Eager,
    /// The header fields at once, the head while the caller reads the body:
    /// [`FetchInfo::settled`](crate::FetchInfo::settled) resolves when the head has ended or the body was dropped.
    Lazy,
}

/// What is done with a body.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Nothing, for this reason.
    Leave(HeadEnd),
    /// Its head is read before the caller gets it.
    Ahead(HeadReader),
    /// Its head is read as it passes.
    Along(HeadReader),
}

/// The field lines of one response that hold rules, and when they came.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    lines: Vec<(HeaderName, HeaderValue)>,
    /// Whether these are all lines that the server sent.
    are_all: bool,
    received: WallMillis,
}

impl Fields {
    /// Takes the lines, or none if nothing is to be read.
    pub(crate) fn of(scan: Scan, headers: &HeaderMap, are_all: bool, received: WallMillis) -> Self {
        let are_read = scan != Scan::Off;
        let lines = headers
            .iter()
            .filter(|(name, value)| are_read && (holds_rules(name.as_str()) || names_license(name, value)));
        let lines = lines.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { lines, are_all: are_all && are_read, received }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines, in the order of the response.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.lines.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
    }

    /// What they say on how content may be used; `metas` are those of the head, and `tdmrep` is the site's file with the target.
    pub(crate) fn preferences(
        &self,
        read: &ReadOptions,
        metas: &[Meta],
        tdmrep: Option<(&[u8], &Target<'_>)>,
    ) -> Preferences {
        Preferences::new(read).with_fields(self.lines()).with_tdm(tdmrep, self.lines(), metas)
    }

    /// What they permit, together with a head.
    pub(crate) fn permissions(&self, read: &ReadOptions, head: Head) -> Permissions {
        let permissions = Permissions::read(read, self.lines(), head, self.received.to_system_time());
        if self.are_all { permissions } else { permissions.with_missing_fields() }
    }
}

/// The fields that hold rules (draft-illyes-repext-03 §3.1.1) and preferences.
fn holds_rules(name: &str) -> bool {
    matches!(
        name,
        "robots-tag" | "x-robots-tag" | "content-usage" | "content-signal" | "tdm-reservation" | "tdm-policy"
    )
}

/// Whether a line may name a licence (RSL 1.0). Other links and challenges are many, and say nothing here.
fn names_license(name: &HeaderName, value: &HeaderValue) -> bool {
    let word: &[u8] = match *name {
        header::LINK => b"rsl+xml",
        header::WWW_AUTHENTICATE => b"license",
        _ => return false,
    };
    value.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
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
    let content_type = content_type(headers);
    let content_type = content_type.as_deref().map(String::from_utf8_lossy);
    let scanner = HeadScanner::new(read, content_type.as_deref());
    let head = HeadReader::new(scanner, is_all(status, headers));
    // A client that undoes a coding takes the length away, and some stop at the end of the first gzip member: a document that ends
    // within its head may go on then. Where the whole document is scanned, its end is always that of the body.
    let has_length = headers.contains_key(header::CONTENT_LENGTH);
    let head = head.with_sure_end(has_length || read.has_body_metas());
    match scan {
        Scan::Lazy => Plan::Along(head),
        _ => Plan::Ahead(head),
    }
}

/// All lines of the field, as one value.
fn content_type(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let mut lines = headers.get_all(header::CONTENT_TYPE).iter().map(HeaderValue::as_bytes);
    let first = lines.next()?;
    Some(lines.fold(Cow::Borrowed(first), |all, line| Cow::Owned([&*all, b", ", line].concat())))
}

/// Only a final 2xx says something about its URL, and only a body that begins where the page does, decoded, and HTML.
pub(crate) fn reason_to_leave(
    scan: Scan,
    method: &Method,
    (status, headers): (StatusCode, &HeaderMap),
) -> Option<HeadEnd> {
    let skipped = matches!(scan, Scan::Off | Scan::Headers)
        || !status.is_success()
        || *method == Method::HEAD
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::IM_USED)
        || (status == StatusCode::PARTIAL_CONTENT && !starts_at_zero(headers));
    if skipped {
        return Some(HeadEnd::NotScanned);
    }
    if is_coded(headers) {
        return Some(HeadEnd::Undecoded);
    }
    if HeadScanner::scans(content_type(headers).as_deref()) {
        return None;
    }
    // The type of a part may be that of several parts.
    Some(if is_all(status, headers) { HeadEnd::NotHtml } else { HeadEnd::NotScanned })
}

/// Whether the body is the whole page.
fn is_all(status: StatusCode, headers: &HeaderMap) -> bool {
    // Looked up only where the status does not decide.
    let ranges = std::iter::once(()).flat_map(|()| headers.get_all(header::CONTENT_RANGE));
    let ranges = ranges.map(HeaderValue::as_bytes);
    is_whole(status.as_u16(), ranges)
}

/// `Content-Range: bytes 0-…`.
fn starts_at_zero(headers: &HeaderMap) -> bool {
    let range = headers.get(header::CONTENT_RANGE).map(|value| value.as_bytes().trim_ascii());
    range.is_some_and(|range| range.starts_with(b"bytes 0-"))
}

/// The client did not undo the content coding. An element of the list may be empty (RFC 9110 §5.6.1), and then names none.
fn is_coded(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CONTENT_ENCODING).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

/// Carries the plan out: a head, or one that comes with the body.
pub(crate) async fn run<B>(plan: Plan, body: &mut ResponseBody<B>) -> ScannedHead
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let seen = match plan {
        Plan::Leave(reason) => ScannedHead::Now(Head::not_scanned(reason)),
        Plan::Ahead(head) => ScannedHead::Now(Box::pin(body.read_head(head)).await),
        Plan::Along(reader) => {
            let (sender, head) = watch::channel(None);
            body.scan_lazily(reader, sender);
            ScannedHead::Later(head)
        }
    };
    body.take_what_is_here().await;
    seen
}

/// What has been seen of a head when the caller gets the response.
#[derive(Debug)]
pub(crate) enum ScannedHead {
    Now(Head),
    Later(watch::Receiver<Option<Head>>),
}

impl ScannedHead {
    /// The head as far as it is known now.
    pub(crate) fn head(&self) -> Head {
        match self {
            Self::Now(head) => head.clone(),
            Self::Later(_) => Head::not_scanned(HeadEnd::NotScanned),
        }
    }

    /// The permissions, with what an earlier fetch has stored where that is more.
    pub(crate) fn answer(
        self,
        read: &ReadOptions,
        fields: &Fields,
        known: Option<StoredPermissions>,
    ) -> Outcome {
        match (self, known) {
            (Self::Later(head), _) => Outcome::Later(head),
            (Self::Now(_), Some(known)) => Outcome::Stored(Box::new(known)),
            (Self::Now(head), None) => Outcome::Known(fields.permissions(read, head)),
        }
    }
}
