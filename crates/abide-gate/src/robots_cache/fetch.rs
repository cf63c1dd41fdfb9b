//! The transport of robots.txt: the trait that an HTTP client implements, its request, its response and its
//! error.
//!
//! The gate has no HTTP client. One request is one hop: the caller counts redirects, and its pacing comes
//! before this trait (`paced.rs`).

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ETAG, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use http::{HeaderMap, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use httpdate::{fmt_http_date, parse_http_date};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Url;

use crate::coding::ACCEPTED_CODINGS;
use crate::denied::DenialCause;
use crate::origin::ShortText;
use crate::pacing::NextHop;
use crate::robots_cache::body::{LARGE_BODIES_MAX, decoded, read};
use crate::robots_cache::outcome::coding;
use crate::text::Escaped;
use crate::{BoxFuture, Failure, WallMillis};

/// The body of a robots.txt, as it comes: in the coding that the reply's `Content-Encoding` names, which is
/// taken off by the caller.
pub(crate) type FetchBody = UnsyncBoxBody<Bytes, FetchError>;

/// Sends one request for a robots.txt.
///
/// An implementation sends exactly one GET, again only if [`FetchError::with_repetition`] asked for it, and
/// **never follows a redirect**: hops are counted, checked and filed by the caller (RFC 9309 §2.3.1.2). It
/// sends the crawler's own User-Agent and [`RobotsRequest::headers`], but no cookies, credentials, Referer or
/// Range. It returns the body **as the server sent it**, with its `Content-Encoding`: decoders of clients
/// lose what follows the first gzip member. Before it sends, it refuses addresses that must not be contacted
/// ([`AddressGuard`](crate::AddressGuard)). It has [`RobotsRequest::budget`] of time for the
/// head ([`on_the_wire`] keeps it); the caller keeps the body's.
///
/// ```
/// use std::time::Instant;
///
/// use abide_gate::BoxFuture;
/// use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse};
/// use http::{HeaderMap, StatusCode};
///
/// /// The robots.txt of every site is in a folder.
/// #[derive(Debug)]
/// struct Archive(std::path::PathBuf);
///
/// impl Fetch for Archive {
///     fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
///         let started = Instant::now();
///         let file = self.0.join(request.url().host_str().unwrap_or_default());
///         let (status, body) = match std::fs::read(file) {
///             Ok(body) => (StatusCode::OK, body),
///             Err(_) => (StatusCode::NOT_FOUND, Vec::new()),
///         };
///         Box::pin(async move { Ok(RobotsResponse::whole(status, HeaderMap::new(), body, started)) })
///     }
/// }
/// ```
pub trait Fetch: fmt::Debug + Send + Sync + 'static {
    /// Sends the request, and returns the head with its unread body.
    ///
    /// # Errors
    /// [`FetchError`] if there was no complete head, of whatever status.
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>>;
}

/// Runs `request`, which begins when this is called, within the time that is left for it.
///
/// # Errors
/// Those of `request`, or [`Failure::Timeout`] when the time is over.
pub async fn on_the_wire<F>(budget: Duration, request: F) -> Result<RobotsResponse, FetchError>
where
    F: Future<Output = Result<RobotsResponse, FetchError>>,
{
    let late = |_| Err(FetchError::new(Failure::Timeout, "no complete head in time"));
    timeout(budget, request).await.unwrap_or_else(late)
}

/// One request for a robots.txt: the first, or a redirect hop.
///
/// ```
/// use abide_gate::robots_cache::RobotsRequest;
///
/// let request = RobotsRequest::new("https://a.example/robots.txt".parse()?, std::time::Duration::from_secs(30));
/// assert_eq!(request.headers()["accept"], "text/plain, */*;q=0.5");
/// # Ok::<(), url::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RobotsRequest {
    pub(super) url: Url,
    pub(super) validators: Validators,
    pub(crate) budget: Duration,
    pub(super) hop: usize,
    /// To which the wait for its permit is added.
    pub(crate) permit_wait: PermitWait,
    /// For how long a 429 backs the host off at least, if the last response was one too.
    pub(crate) throttle: Option<Duration>,
    /// The signature, and what else is sent with it.
    pub(crate) fields: HeaderMap,
    /// None without a store.
    pub(super) stored_meanwhile: Option<StoredMeanwhile>,
}

impl RobotsRequest {
    /// A request for `url` with `budget` of time on the wire.
    pub fn new(url: Url, budget: Duration) -> Self {
        Self {
            url,
            validators: Validators::default(),
            budget,
            hop: 0,
            permit_wait: PermitWait::default(),
            throttle: None,
            fields: HeaderMap::new(),
            stored_meanwhile: None,
        }
    }

    /// The URL: http or https, without user information and fragment.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Whether the request is conditional: the stored copy came from exactly this URL.
    pub fn is_conditional(&self) -> bool {
        !self.validators.is_empty()
    }

    /// The time that is left on the wire, from connecting to the last byte. Waiting for a permit does not
    /// count.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// How many redirects led here: 0 for `/robots.txt` itself.
    pub fn hop(&self) -> usize {
        self.hop
    }

    /// The same request with these fields, such as a signature, for another file that is fetched in the way
    /// of a robots.txt.
    #[must_use]
    pub fn with_fields(self, fields: HeaderMap) -> Self {
        Self { fields, ..self }
    }

    /// The header fields to send besides the crawler's own User-Agent: `Accept`, `Accept-Encoding`, the
    /// validators, and the signature.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = self.fields.clone();
        // abide decodes robots.txt itself, to the last byte, so it names the codings, and not the client.
        headers.insert(ACCEPT_ENCODING, ACCEPTED_CODINGS);
        headers.insert(ACCEPT, HeaderValue::from_static("text/plain, */*;q=0.5"));
        let etag = self.validators.etag().map(Cow::from);
        for (name, text) in [(IF_NONE_MATCH, etag), (IF_MODIFIED_SINCE, self.validators.last_modified())] {
            if let Some(value) = text.and_then(|text| HeaderValue::from_bytes(&text).ok()) {
                headers.insert(name, value);
            }
        }
        headers
    }
}

impl RobotsRequest {
    /// Whether another process has fetched this robots.txt while the request waited for its permit: they wait
    /// for the lease of one host, and the first that gets it fetches for all. Whose permit came at once has
    /// waited for none.
    pub(crate) async fn is_stored_meanwhile(&self) -> bool {
        match &self.stored_meanwhile {
            Some(StoredMeanwhile(look)) if !self.permit_wait.lock().total.is_zero() => look().await,
            _ => false,
        }
    }
}

/// A look at the store, for a record that is newer than the one that the fetch began with.
#[derive(Clone)]
pub(super) struct StoredMeanwhile(pub(super) Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>);

impl fmt::Debug for StoredMeanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredMeanwhile")
    }
}

/// How long an attempt has waited for permits, without its time on the wire. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PermitWait(Arc<Mutex<Waits>>);

#[derive(Debug, Default)]
pub(crate) struct Waits {
    total: Duration,
    /// When the present wait began.
    began: Option<Instant>,
    /// How long the next request to one of its hosts waits at least.
    pub(super) gap: Duration,
    /// What the last hop, a redirect, asks of the next one by its Retry-After.
    pub(crate) next_hop: Option<NextHop>,
    /// Whether there is an entry that may be used meanwhile, so that no caller waits.
    pub(crate) is_background: bool,
}

impl PermitWait {
    pub(crate) fn begin(&self, now: Instant) {
        self.lock().began = Some(now);
    }

    pub(crate) fn add(&self, waited: Duration) {
        let mut waits = self.lock();
        (waits.total, waits.began) = (waits.total.saturating_add(waited), None);
    }

    pub(crate) fn add_gap(&self, gap: Duration) {
        let mut waits = self.lock();
        waits.gap = waits.gap.max(gap);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it has waited by `now`, and how long of that without an end.
    pub(crate) fn at(&self, now: Instant) -> (Duration, Duration) {
        let waits = self.lock();
        let present = waits.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        (waits.total.saturating_add(present), present)
    }
}

/// `ETag` and `Last-Modified` of a copy, as the server wrote them (RFC 9110 §8.8).
/// Packed, because a million are kept: the entity tag, a mark, and the date, in four bytes where it is
/// written as all servers should. So they are in place for tags of up to 25 bytes. Empty: none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validators(pub(super) ShortText<30>);

impl Default for Validators {
    fn default() -> Self {
        Self(ShortText::concat(&[]))
    }
}

/// A longer validator is not kept, because it would be sent back with every request.
pub(crate) const VALIDATOR_LEN_MAX: usize = 1024;

/// The marks before the date: it is a number of seconds, or text. No field value contains such bytes.
const SECONDS: u8 = 0;
const TEXT: u8 = 1;

impl Validators {
    /// Validators from the two field values. Values that are empty, over 1,024 bytes, or could not stand in a
    /// header field are left out.
    pub(crate) fn new(etag: Option<&[u8]>, last_modified: Option<&[u8]>) -> Self {
        let can_be_kept = |value: &&[u8]| {
            (1..=VALIDATOR_LEN_MAX).contains(&value.len()) && HeaderValue::from_bytes(value).is_ok()
        };
        let [etag, date] = [etag, last_modified].map(|value| value.filter(can_be_kept).unwrap_or_default());
        if etag.is_empty() && date.is_empty() {
            return Self::default();
        }
        Self(match seconds(date) {
            Some(seconds) => ShortText::concat(&[etag, &[SECONDS], &seconds.to_le_bytes()]),
            None => ShortText::concat(&[etag, &[TEXT], date]),
        })
    }

    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let [etag, date] = [ETAG, LAST_MODIFIED].map(|name| headers.get(name).map(HeaderValue::as_bytes));
        Self::new(etag, date)
    }

    /// The entity tag, and the mark with the date.
    fn split(&self) -> (&[u8], &[u8]) {
        let bytes = self.0.as_bytes();
        let mark = bytes.iter().position(|&byte| matches!(byte, SECONDS | TEXT));
        bytes.split_at_checked(mark.unwrap_or_default()).unwrap_or_default()
    }

    /// The entity tag, with its quotes.
    pub(crate) fn etag(&self) -> Option<&[u8]> {
        Some(self.split().0).filter(|etag| !etag.is_empty())
    }

    pub(crate) fn last_modified(&self) -> Option<Cow<'_, [u8]>> {
        match *self.split().1 {
            [SECONDS, a, b, c, d] => Some(date_of(u32::from_le_bytes([a, b, c, d])).into_bytes().into()),
            [TEXT, ref date @ ..] if !date.is_empty() => Some(date.into()),
            _ => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_bytes().is_empty()
    }

    /// Whether they can tell one version of a file from another. Reproducible images give all files one time,
    /// of 1970 or 1980, and many servers make the entity tag of the time and the size: a file that changes
    /// within its length has the validators of before.
    pub(crate) fn can_change(&self) -> bool {
        let date = self.last_modified().and_then(|date| parse_http_date(str::from_utf8(&date).ok()?).ok());
        let is_of_the_web = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since.as_secs() >= WEB_BEGAN)
        };
        match date {
            Some(date) => is_of_the_web(date),
            None => !self.etag().is_some_and(is_of_an_old_time),
        }
    }

    /// These, with what is missing taken from `older`.
    pub(crate) fn or(self, older: &Self) -> Self {
        // RFC 9110 §15.4.5: a 304 repeats the ETag, but Last-Modified only where it is needed.
        let (date, older_date) = (self.last_modified(), older.last_modified());
        Self::new(self.etag().or(older.etag()), date.or(older_date).as_deref())
    }
}

/// 1 January 1995, in seconds. No robots.txt that is served is older: the first ones are of 1994.
const WEB_BEGAN: u64 = 788_918_400;

/// Whether an entity tag is made of a time and a size alone, as nginx (`"65f2c1a3-12c"`, in seconds) and
/// Apache (`"12c-613a2f8d0c2c0"`, in microseconds) write it, in hexadecimal digits, and of no time in which
/// there was a web.
fn is_of_an_old_time(etag: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(etag) else { return false };
    let text = text.trim_start_matches("W/").trim_matches('"');
    let numbers: Option<Vec<u64>> = text.split('-').map(|part| u64::from_str_radix(part, 16).ok()).collect();
    let Some([first, .., last]) = numbers.as_deref() else { return false };
    *first < WEB_BEGAN && *last < WEB_BEGAN.saturating_mul(1_000_000)
}

/// The seconds of a date, if this is how we would write them.
fn seconds(date: &[u8]) -> Option<u32> {
    let time = parse_http_date(str::from_utf8(date).ok()?).ok()?;
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs().try_into().ok()?;
    // Another spelling goes back as it came: servers may compare If-Modified-Since as text.
    (date_of(seconds).as_bytes() == date).then_some(seconds)
}

fn date_of(seconds: u32) -> String {
    fmt_http_date(WallMillis::from_millis(0).plus(Duration::from_secs(seconds.into())).to_system_time())
}

/// The head of a response, with its unread body.
///
/// ```
/// use abide_gate::robots_cache::RobotsResponse;
/// use http::{HeaderMap, StatusCode};
///
/// let response = RobotsResponse::whole(StatusCode::OK, HeaderMap::new(), "User-agent: *", std::time::Instant::now());
/// assert!(response.status().is_success());
/// ```
pub struct RobotsResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: FetchBody,
    pub(crate) started: Instant,
    pub(crate) backed_off_until: Option<WallMillis>,
}

impl RobotsResponse {
    /// A response to a request that was sent at `started`.
    pub fn new(status: StatusCode, headers: HeaderMap, body: FetchBody, started: Instant) -> Self {
        Self { status, headers, body, started, backed_off_until: None }
    }

    /// A response whose body was already read, for tests and adapters.
    pub fn whole(status: StatusCode, headers: HeaderMap, body: impl Into<Bytes>, started: Instant) -> Self {
        let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
        Self::new(status, headers, body, started)
    }

    /// Notes that the response has backed its host off until `until`. robots.txt is not requested before.
    #[must_use]
    pub fn with_backoff_until(self, until: WallMillis) -> Self {
        Self { backed_off_until: Some(until), ..self }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The header fields.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// When the request was sent, after the wait for its permit.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The end of the host's backoff, if this response began or extended one.
    pub fn hold(&self) -> Option<WallMillis> {
        self.backed_off_until
    }

    /// Reads the body without its content coding: at most so many bytes, to the end of the last whole line,
    /// and whether there were more. At most 64 long bodies are read at a time.
    ///
    /// # Errors
    /// The body broke off, or is in a coding that is not known.
    pub async fn read(self, limit: usize) -> Result<(Vec<u8>, bool), FetchError> {
        static LARGE_BODIES: Semaphore = Semaphore::const_new(LARGE_BODIES_MAX);
        let coding = coding(&self.headers);
        let coding = coding.map_err(|failure| FetchError::new(failure, "its coding is not known"))?;
        read(decoded(self.body, coding), limit, &LARGE_BODIES).await
    }

    /// The body, as sent. Dropping it unread must close or drain the connection within bounds.
    pub fn into_body(self) -> FetchBody {
        self.body
    }
}

impl fmt::Debug for RobotsResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsResponse")
            .field("status", &self.status.as_u16())
            .field("backed_off_until", &self.backed_off_until)
            .finish_non_exhaustive()
    }
}

/// Why there was no head, or why the body ended early.
///
/// The text is for people, escaped and cut when shown. It must contain no user information or credentials:
/// remove the URL of reqwest's errors.
///
/// ```
/// use abide_gate::Failure;
/// use abide_gate::robots_cache::FetchError;
///
/// let error = FetchError::new(Failure::Timeout, "no response head after 10 s");
/// assert_eq!(error.failure(), Some(Failure::Timeout));
/// ```
#[derive(Clone)]
pub struct FetchError {
    pub(super) why: NoResponse,
    text: Arc<str>,
    pub(crate) may_be_repeated: bool,
}

/// Why there is no response.
#[derive(Clone)]
pub(super) enum NoResponse {
    Failed(Failure),
    /// By the pacer. Nothing was sent, so that it does not count as an attempt.
    Deferred(Box<DenialCause>),
    /// Nothing was sent, because [another process](RobotsRequest::is_stored_meanwhile) has sent it.
    StoredMeanwhile,
}

impl FetchError {
    /// An error of this kind, described by `text`.
    pub fn new(failure: Failure, text: impl Into<String>) -> Self {
        Self { why: NoResponse::Failed(failure), text: Arc::from(text.into()), may_be_repeated: false }
    }

    pub(crate) fn deferred(why: DenialCause) -> Self {
        let text = Arc::from("the request waits for the rate limit of its host");
        Self { why: NoResponse::Deferred(Box::new(why)), text, may_be_repeated: false }
    }

    pub(crate) fn stored_meanwhile() -> Self {
        let text = Arc::from("another process has fetched it");
        Self { why: NoResponse::StoredMeanwhile, text, may_be_repeated: false }
    }

    /// Whether the request goes out once more, under the same permit: because a connection that was kept from
    /// a request before was closed before there was a response (RFC 9112 §9.3.1), or because the server wants
    /// another version of HTTP, which the transport uses from now on.
    #[must_use]
    pub fn with_repetition(self, may_be_repeated: bool) -> Self {
        Self { may_be_repeated, ..self }
    }

    /// Whether [`with_repetition`](Self::with_repetition) has said so.
    pub fn may_be_repeated(&self) -> bool {
        self.may_be_repeated
    }

    /// What went wrong; `None` if nothing was sent, because the request was deferred, or is not needed any
    /// more.
    pub fn failure(&self) -> Option<Failure> {
        match self.why {
            NoResponse::Failed(failure) => Some(failure),
            NoResponse::Deferred(_) | NoResponse::StoredMeanwhile => None,
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Escaped(self.text.as_bytes()))
    }
}

impl fmt::Debug for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failure() {
            Some(failure) => write!(f, "FetchError({failure:?}: {self})"),
            None => write!(f, "FetchError(not sent: {self})"),
        }
    }
}

impl Error for FetchError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_are_kept_as_they_were_written() {
        let (etag, date) = (&b"W/\"65f2\""[..], &b"Thu, 14 Mar 2024 09:12:51 GMT"[..]);
        for (date, bytes) in [
            (Some(date), 4),
            (None, 0),
            (Some(b"Thu, 01 Jan 1970 00:00:00 GMT"), 4),
            (Some(b"Sun, 07 Feb 2106 06:28:16 GMT"), 29),
            (Some(b"Thursday, 14-Mar-24 09:12:51 GMT"), 32),
            (Some(b"Fri, 14 Mar 2024 09:12:51 GMT"), 29),
            (Some(b"Thu, 14 Mar 2024 09:12:51 UTC"), 29),
            (Some(b"yesterday"), 9),
            (Some(&[0xff; 4]), 4),
        ] {
            for etag in [Some(etag), None, Some(&[b'x'; VALIDATOR_LEN_MAX])] {
                let kept = Validators::new(etag, date);
                assert_eq!((kept.etag(), kept.last_modified().as_deref()), (etag, date));
                let mark = usize::from(!kept.is_empty());
                assert_eq!(kept.0.as_bytes().len(), mark + etag.map_or(0, <[u8]>::len) + bytes, "{kept:?}");
            }
        }
    }

    #[test]
    fn validators_of_a_time_before_the_web_confirm_nothing() {
        let now = Some("Sat, 01 Aug 2026 10:00:00 GMT");
        for (etag, date, can_change) in [
            (None, now, true),
            (None, Some("Thu, 01 Jan 1970 00:00:01 GMT"), false),
            (None, Some("Tue, 01 Jan 1980 00:00:00 GMT"), false),
            (None, Some("Saturday, 31-Dec-94 23:59:59 GMT"), false),
            (None, Some("Sun, 01 Jan 1995 00:00:00 GMT"), true),
            (None, Some("yesterday"), true),
            (Some("\"12ceea600-1e\""), Some("Tue, 01 Jan 1980 00:00:00 GMT"), false),
            (Some("\"67452301efcdab89\""), Some("Thu, 01 Jan 1970 00:00:01 GMT"), false),
            // nginx, of 1970, 1980 and 2024; Apache, of 1980 and 2024, without and with the inode.
            (Some("\"1-1e\""), None, false),
            (Some("W/\"12cea600-1e\""), None, false),
            (Some("\"65f2c1a3-12c\""), None, true),
            (Some("\"1e-11ef9b3c0e000\""), None, false),
            (Some("\"12c-613a2f8d0c2c0\""), None, true),
            (Some("\"3f-12c-613a2f8d0c2c0\""), None, true),
            // Of the content: one part, a checksum with a number of parts, and one in base64.
            (Some("\"12c\""), None, true),
            (Some("\"d41d8cd98f00b204e9800998ecf8427e-2\""), None, true),
            (Some("W/\"1e-Xh7kq\""), None, true),
            (Some("\"-\""), None, true),
            (Some("\"12cea600-1e\""), now, true),
        ] {
            let validators = Validators::new(etag.map(str::as_bytes), date.map(str::as_bytes));
            assert_eq!(validators.can_change(), can_change, "{etag:?} {date:?}");
        }
    }

    #[test]
    fn no_control_byte_of_a_server_is_shown() {
        let error = FetchError::new(Failure::Reset, "reset\u{1b}[31m by\r\npeer\u{202e}");
        let validators = Validators::new(Some("\"reset\u{202e}\"".as_bytes()), None);
        for shown in [format!("{error}"), format!("{error:?}"), format!("{validators:?}")] {
            let is_plain = shown.contains("reset") && !shown.contains(['\u{1b}', '\r', '\n', '\u{202e}']);
            assert!(is_plain, "{shown}");
        }
    }
}
