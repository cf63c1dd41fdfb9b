//! Reads a response: its fields at once, its head if it is a page, its body untouched.
//!
//! Between the last hop and the caller: it reads ahead to the end of the head, and gives the caller a body
//! that replays what was read. How long it waits and how much it holds is bounded; what is beyond is unknown,
//! never permitted.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body::Body;
use url::Url;

use crate::body::{BoxError, FrameResult, ResponseBody};
use crate::call::{Call, Done, ResponseHead};
use crate::crawler::{Crawler, Options};
use crate::fetch_info::{FetchInfo, HeadOutcome, with_robots};
use crate::permission_history::persist;
use crate::tdmrep::Tdmrep;
use abide_gate::{REFUSAL_LOOKED_AT, Refusal, WallMillis, named_codings};
use abide_permissions::{
    Fetched, Head, HeadEnd, HeadScanner, PermissionRecord, PermissionStore, Permissions, Preferences,
    ReadOptions, is_whole, states_preferences,
};

impl Crawler {
    /// Reads the header fields and the head of a response to `url` that did not come by a call of this
    /// crawler: from a cache, an archive, a test. Its [`FetchInfo`] has no hops. The body stays whole, but
    /// for what [`ResponseBody`] joins.
    ///
    /// What has kept the response must have kept its field lines: a restriction that it lost is not known.
    /// Its [`FetchInfo::verdict`], and with it the preferences of robots.txt, are those that are in memory;
    /// without them, the preferences are unknown. Nothing is persisted.
    ///
    /// ```
    /// # type Stored = http_body_util::Full<bytes::Bytes>;
    /// async fn may_index(crawler: &abide_http::Crawler, url: &url::Url, stored: http::Response<Stored>) -> bool {
    ///     let page = crawler.read(url, stored).await;
    ///     abide_http::FetchInfo::of(page.extensions()).is_some_and(|info| info.permissions().may_index())
    /// }
    /// ```
    pub async fn read<B>(&self, url: &Url, response: Response<B>) -> Response<ResponseBody<B>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        let call = self.call(Options::new(), &Method::GET, url, None);
        let mut read = call.read().finish(&HeaderMap::new(), response, None).await;
        if let Some(info) = read.extensions_mut().get_mut::<FetchInfo>() {
            let tdmrep = self.tdmrep.as_ref().map_or(Tdmrep::NotFetched, |cache| cache.cached(url));
            info.add_site(url, self.gate.check_cached(url), tdmrep);
        }
        read
    }
}

impl Done<'_> {
    /// Says that the end of the body is that of the document, because it is framed, and the client takes no
    /// codings off by itself. By default that is known of a body whose length a field states.
    pub fn with_sure_end(self, is_sure: bool) -> Self {
        Self { has_sure_end: is_sure, ..self }
    }

    /// The response that the caller gets: its head is read for permissions and replayed, a [`FetchInfo`] is
    /// put into its extensions, and its permit ends with its body, which fails if the server sends nothing
    /// for `read_timeout` while it is read.
    ///
    /// `request` has the fields that were sent: a 304 may be about the version that they name, and a 206 be
    /// without some.
    pub async fn finish<B>(
        self,
        request: &HeaderMap,
        response: Response<B>,
        read_timeout: Option<Duration>,
    ) -> Response<ResponseBody<B>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        let Self { mut call, has_sure_end } = self;
        let (status, version, scan) = (response.status(), response.version(), call.scan());
        let permit = call.permit.take();
        let mut response =
            response.map(|body| ResponseBody::new(body, version, permit).with_read_timeout(read_timeout));
        let (mut fields, head) = call.fields_and_head(request, status, response.headers());
        // Only what a field or a page says depends on the time.
        if head.is_ok() || !fields.lines.is_empty() || call.store().is_some() {
            fields.received = call.crawler.gate.wall();
        }
        let body = response.body_mut();
        let mut outcome = match head {
            Err(reason) => HeadOutcome::Known(Head::not_scanned(reason)),
            Ok(mut reader) => {
                reader.has_sure_end |= has_sure_end;
                match scan {
                    Scan::Lazy => HeadOutcome::Later(body.scan_lazily(reader)),
                    _ => HeadOutcome::Known(body.read_head(reader).await),
                }
            }
        };
        body.take_what_is_here().await;
        let mut refusal = call.crawler.refusal_in_head(status, response.headers());
        if refusal.is_none() && call.may_be_refused_in_body(status, response.headers()) {
            // The head of a page has been read by now; errors are read for this alone.
            let start = response.body_mut().start(REFUSAL_LOOKED_AT, !status.is_success()).await;
            refusal = Refusal::in_body(status, response.headers(), &start);
        }
        if let Some(reporter) = call.refusals.take() {
            reporter.report(status, refusal);
            reporter.saved().await;
        }
        if refusal.is_some() {
            // Neither the fields nor the head are the site's, and no record is kept of them.
            fields.lines.clear();
            fields.received = call.crawler.gate.wall();
            outcome = HeadOutcome::Known(not_scanned());
        } else if call.store().is_some() {
            let head = if let HeadOutcome::Known(head) = &outcome { head.clone() } else { not_scanned() };
            let known = call.persist(request, status, response.headers(), head, fields.received).await;
            if let (HeadOutcome::Known(_), Some(known)) = (&outcome, known) {
                outcome = HeadOutcome::Stored(Box::new(known));
            }
        }
        let info = FetchInfo::new(&mut call, fields, outcome, refusal);
        response.extensions_mut().insert(info);
        response
    }
}

impl Call<'_> {
    fn scan(&self) -> Scan {
        self.options.scan.unwrap_or(self.crawler.settings.scan)
    }

    /// Reads the fields of a response, and decides whether its body is read for permissions: by what, or why
    /// not.
    fn fields_and_head(
        &self,
        request: &HeaderMap,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> (RuleFields, Result<HeadReader, HeadEnd>) {
        let scan = self.scan();
        // RFC 9110 §15.3.7: such a response may leave out fields of the page, because the client should have
        // them.
        let is_resumed = status == StatusCode::PARTIAL_CONTENT && request.contains_key(header::IF_RANGE);
        let are_all = !self.has_lost_fields && !is_resumed;
        let (fields, body) = RuleFields::of(scan, headers, are_all);
        (fields, self.head_reader(scan, status, headers, &body))
    }

    /// The redirect that is about to be followed keeps its own permissions: they are for its own URL only.
    pub(crate) async fn keep_rules(&mut self, head: ResponseHead<'_>) {
        let none = HeaderMap::new();
        let (mut fields, _) = self.fields_and_head(&none, head.status, head.headers);
        fields.received = self.crawler.gate.wall();
        let rules = fields.permissions(&self.crawler.settings.read, not_scanned());
        if let Some(hop) = self.history.hops.last_mut() {
            hop.permissions = Some(Arc::new(rules));
        }
        self.persist(&none, head.status, head.headers, not_scanned(), fields.received).await;
    }

    /// Where what the response says is kept: only these methods ask for the resource itself, and what may
    /// have lost fields says too little.
    fn store(&self) -> Option<&Arc<dyn PermissionStore>> {
        let asks = matches!(self.method, Method::GET | Method::HEAD) && self.scan() != Scan::Off;
        self.crawler.settings.permissions.as_ref().filter(|_| asks && !self.has_lost_fields)
    }

    /// Keeps what the response says for later fetches, under the URL that the last hop asked for.
    async fn persist(
        &self,
        request: &HeaderMap,
        status: StatusCode,
        headers: &HeaderMap,
        head: Head,
        received: WallMillis,
    ) -> Option<PermissionRecord> {
        let (store, hop) = (self.store()?, self.history.last()?);
        let preferences = Preferences::new(&self.crawler.settings.read);
        let robots = with_robots(preferences, hop.verdict(), hop.url());
        let (fields, asked) = (lines(headers), lines(request));
        let info = Fetched::new(status.as_u16(), &fields, head, received.to_system_time())
            .with_request(&asked)
            .with_preferences(&robots);
        persist(store, hop.url(), &info, status).await
    }

    /// Reads the head of a page, if there is one. Only a final 2xx is about its URL, and only a body that
    /// begins where the page does, decoded, and HTML.
    fn head_reader(
        &self,
        scan: Scan,
        status: StatusCode,
        headers: &HeaderMap,
        body: &BodyFields<'_>,
    ) -> Result<HeadReader, HeadEnd> {
        let skipped = matches!(scan, Scan::Off | Scan::Headers)
            || !status.is_success()
            || self.method == Method::HEAD
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::IM_USED)
            || (status == StatusCode::PARTIAL_CONTENT && !starts_at_zero(headers));
        if skipped {
            return Err(HeadEnd::NotScanned);
        }
        if body.is_coded {
            return Err(HeadEnd::Undecoded);
        }
        let read = &self.crawler.settings.read;
        match HeadScanner::of_page(read, body.content_type.as_deref()) {
            // A client that undoes a coding takes the length away, and some stop at the end of the first gzip
            // member: a document that ends within its head may go on then. Where the whole document is
            // scanned, its end is always that of the body.
            Some(scanner) => {
                let has_sure_end = headers.contains_key(header::CONTENT_LENGTH) || read.has_body_metas();
                Ok(HeadReader { has_sure_end, ..HeadReader::new(scanner, is_all(status, headers)) })
            }
            // The type of a part may be that of several parts.
            None => Err(if is_all(status, headers) { HeadEnd::NotHtml } else { HeadEnd::NotScanned }),
        }
    }
}

fn lines(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

pub(crate) fn not_scanned() -> Head {
    Head::not_scanned(HeadEnd::NotScanned)
}

/// How the permissions of a response are read.
///
/// ```
/// use abide_http::{Options, Scan};
///
/// // A HEAD request, or a page whose body is not of interest.
/// let options = Options::new().with_scan(Scan::Headers);
/// ```
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
    /// [`FetchInfo::settled`](crate::FetchInfo::settled) resolves when the head has ended or the body was
    /// dropped.
    Lazy,
}

/// The field lines of one response that hold rules, and when they came.
#[derive(Debug, Clone)]
pub(crate) struct RuleFields {
    lines: Vec<(HeaderName, HeaderValue)>,
    /// Whether these are all lines that the server sent.
    are_all: bool,
    pub(crate) received: WallMillis,
}

impl RuleFields {
    /// Takes the lines, or none if nothing is to be read. In one pass with what the fields say of the body,
    /// because every response comes here.
    fn of(scan: Scan, headers: &HeaderMap, are_all: bool) -> (Self, BodyFields<'_>) {
        let (are_read, mut lines, mut body) = (scan != Scan::Off, Vec::new(), BodyFields::default());
        for (name, value) in headers {
            body.add(name, value);
            if are_read && (holds_rules(name.as_str()) || names_license(name, value)) {
                lines.push((name.clone(), value.clone()));
            }
        }
        (Self { lines, are_all: are_all && are_read, received: WallMillis::default() }, body)
    }

    /// The lines, in the order of the response.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.lines.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
    }

    /// What they permit, together with a head.
    pub(crate) fn permissions(&self, read: &ReadOptions, head: Head) -> Permissions {
        let permissions = Permissions::read(read, self.lines(), head, self.received.to_system_time());
        if self.are_all { permissions } else { permissions.with_missing_fields() }
    }
}

/// The fields that hold rules (draft-illyes-repext-03 §3.1.1) and preferences.
fn holds_rules(name: &str) -> bool {
    matches!(name, "robots-tag" | "x-robots-tag") || states_preferences(name)
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

#[derive(Default)]
struct BodyFields<'h> {
    /// All lines of `Content-Type`, as one value.
    content_type: Option<Cow<'h, [u8]>>,
    /// Whether the client did not undo the content coding.
    is_coded: bool,
}

impl<'h> BodyFields<'h> {
    fn add(&mut self, name: &HeaderName, value: &'h HeaderValue) {
        if *name == header::CONTENT_TYPE {
            let line = value.as_bytes();
            self.content_type = Some(match self.content_type.take() {
                None => Cow::Borrowed(line),
                Some(before) => Cow::Owned([&*before, b", ", line].concat()),
            });
        } else if *name == header::CONTENT_ENCODING {
            self.is_coded = self.is_coded || named_codings(value.as_bytes()).next().is_some();
        }
    }
}

/// Whether the body is the whole page.
fn is_all(status: StatusCode, headers: &HeaderMap) -> bool {
    // Looked up only where the status does not decide.
    let ranges = std::iter::once(()).flat_map(|()| headers.get_all(header::CONTENT_RANGE));
    is_whole(status.as_u16(), ranges.map(HeaderValue::as_bytes))
}

/// `Content-Range: bytes 0-…`.
fn starts_at_zero(headers: &HeaderMap) -> bool {
    let range = headers.get(header::CONTENT_RANGE).map(|value| value.as_bytes().trim_ascii());
    range.is_some_and(|range| range.starts_with(b"bytes 0-"))
}

/// A scanner, and what else of a body decides whether its head can be read.
#[derive(Debug)]
pub(crate) struct HeadReader {
    scanner: HeadScanner,
    /// The beginning of the body, if its first frame is too short to show whether it is text.
    start: Vec<u8>,
    /// Whether the body looks coded, when enough of it was seen.
    is_coded: Option<bool>,
    is_scanned: bool,
    /// Whether the head, or the body, was seen to its end.
    is_read: bool,
    /// Whether the body is all of the page, and not a part of it.
    is_whole: bool,
    /// Whether the end of the body is surely that of the document.
    has_sure_end: bool,
}

impl HeadReader {
    pub(crate) fn new(scanner: HeadScanner, is_whole: bool) -> Self {
        let (start, is_coded) = (Vec::new(), None);
        Self { scanner, start, is_coded, is_scanned: false, is_read: false, is_whole, has_sure_end: true }
    }

    /// Takes the next frame of the body, the error that breaks it off, or its end, at which so many bytes of
    /// its length are `missing`. Returns whether nothing more is wanted.
    pub(crate) fn take(&mut self, frame: Option<&FrameResult>, missing: u64) -> bool {
        match frame {
            Some(Err(_)) => return true,
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.feed(data);
                }
            }
            None => {
                // hyper ends the body of an HTTP/2 stream that was reset with NO_ERROR, too, and what is
                // missing may be a rule.
                self.is_read = missing == 0;
                return true;
            }
        }
        self.is_read
    }

    fn feed(&mut self, data: &[u8]) {
        if self.is_coded.is_none() {
            let start = match data.get(..LOOKED_AT) {
                Some(start) if self.start.is_empty() => start,
                // A copy: a part of the frame would keep all of it, for as long as a body is read lazily.
                _ => {
                    let room = LOOKED_AT.saturating_sub(self.start.len());
                    self.start.extend_from_slice(data.get(..room).unwrap_or(data));
                    &self.start
                }
            };
            let is_enough = start.len() >= LOOKED_AT || has_magic(start);
            self.is_coded = is_enough.then(|| looks_coded(start));
        }
        if self.is_coded == Some(true) {
            self.is_read = true;
            return;
        }
        self.is_scanned = self.is_scanned || self.scanner.feed(data).is_break();
        // A server chooses the size of its frames: the first byte of a coding may be that of a text, which
        // ends a head at once.
        let is_judged = self.is_coded.is_some() || begins_with_a_tag(&self.start);
        self.is_read = self.is_scanned && is_judged;
    }

    /// Nothing more comes: enough was seen, the body broke off, or the caller stops reading.
    pub(crate) fn finish(self) -> Head {
        if self.is_coded.unwrap_or_else(|| looks_coded(&self.start)) {
            return Head::not_scanned(HeadEnd::Undecoded);
        }
        let head = if self.is_read { self.scanner.finish() } else { self.scanner.interrupt() };
        let is_cut = head.end() == HeadEnd::Eof && !self.has_sure_end;
        if self.is_whole && !is_cut { head } else { head.of_part() }
    }
}

/// A coding where text should begin: a client undoes one of nested ones and removes the field with it. gzip
/// and zstd have a name; what is neither UTF-8 nor UTF-16, and holds more control characters than any text,
/// is taken for brotli or deflate.
fn looks_coded(start: &[u8]) -> bool {
    let is_many = |count: usize, parts| count.saturating_mul(parts) > start.len();
    let is_wide = || is_many(start.iter().filter(|&&byte| byte == 0).count(), 8);
    let odd = |byte: &&u8| matches!(byte, 1..=8 | 0x0e..=0x19 | 0x1c..=0x1f);
    let is_odd = || is_many(start.iter().filter(odd).count(), 32);
    // The cheapest question first: most pages are UTF-8, and begin in ASCII, which is seen at once.
    let is_binary =
        !start.is_ascii() && std::str::from_utf8(start).is_err_and(|error| error.error_len().is_some());
    has_magic(start) || start == [0x1f] || (is_binary && is_odd() && !is_wide())
}

/// gzip or zstd.
fn has_magic(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b]) || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// As nearly all pages do: then the head need not be waited for any longer. Byte order marks, blanks and the
/// zeros of UTF-16 may stand before it.
fn begins_with_a_tag(start: &[u8]) -> bool {
    let is_before =
        |byte: &&u8| matches!(byte, 0 | 0xef | 0xbb | 0xbf | 0xfe | 0xff) || byte.is_ascii_whitespace();
    start.iter().find(|byte| !is_before(byte)) == Some(&b'<')
}

/// Enough of a stream to hold what no text does.
const LOOKED_AT: usize = 256;

#[cfg(test)]
pub(crate) mod tests {
    use http_body::Frame;

    use super::*;

    /// Of a whole page.
    pub(crate) fn head_reader() -> HeadReader {
        let options = ReadOptions::new("ExampleBot".parse().unwrap());
        HeadReader::new(HeadScanner::new(&options, Some("text/html")), true)
    }

    fn read(body: &[u8], size: usize) -> Head {
        let mut head = head_reader();
        let frames = body.chunks(size).map(|frame| Ok(Frame::data(Bytes::copy_from_slice(frame))));
        frames.map(Some).chain([None]).any(|frame| head.take(frame.as_ref(), 0));
        head.finish()
    }

    #[test]
    fn a_coding_is_noticed_in_frames_of_any_size() {
        let deflate = b"\x78\x9c\xb3\xc9\x28\xc9\xcd\xb1\xb3\xc9\x48\x4d\x4c\x01\x92\xb9\xa9\x25\x89\x0a";
        let brotli = b"\x1b\x68\x00\xf8\x05\xe0\x6c\xe9\x8b\x12\x06\x91\x1f\xb2\x38\x0e";
        for (body, end) in [
            (&deflate[..], HeadEnd::Undecoded),
            (brotli, HeadEnd::Undecoded),
            (b"\x1f\x8b\x08\x00\x00", HeadEnd::Undecoded),
            (b"\x1f", HeadEnd::Undecoded),
            (b"\x28\xb5\x2f\xfd\x04\x00abc", HeadEnd::Undecoded),
            (b"text", HeadEnd::Ended),
            (b"(text)", HeadEnd::Ended),
            (b"<title>x</title><p>", HeadEnd::Ended),
            (b"x <p>", HeadEnd::Ended),
            // Windows-1251, UTF-16 without a mark, a stray control character, UTF-8 with many.
            (b"<title>\xcf\xf0\xe8\xe2\xe5\xf2", HeadEnd::Eof),
            (b"<\0t\0>\0\x1f\x04@\x048\x042\x045\x04\xe9\0", HeadEnd::UnknownCharset),
            (b"<title>\xe9\x13................................</title><p>", HeadEnd::Ended),
            (b"\x01\x02\x03 \xc3\xa9", HeadEnd::Ended),
            (b"", HeadEnd::Eof),
        ] {
            for size in [1, 2, 3, 1000] {
                assert_eq!(read(body, size).end(), end, "{body:?} by {size}");
            }
        }
    }

    #[test]
    fn a_page_that_begins_with_a_tag_is_not_waited_for() {
        for (start, is_read) in [(&b"<body>"[..], true), (b" \xef\xbb\xbf<p>", true), (b"text", false)] {
            let mut head = head_reader();
            head.feed(start);
            assert_eq!(head.is_read, is_read, "{start:?}");
        }
    }
}
