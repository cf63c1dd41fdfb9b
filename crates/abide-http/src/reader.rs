//! Reads a response: its fields at once, its head as the plan says, its body untouched.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body;

use abide_gate::WallMillis;
use abide_permissions::{Fetched, Head, HeadEnd, PermissionStore, Preferences, ReadOptions};

use crate::body::WatchedBody;
use crate::fetch_info::{FetchInfo, Outcome, with_robots};
use crate::permission_history::{StoredPermissions, persist};
use crate::redirect_history::RedirectHistory;
use crate::scan::{self, Fields, Scan};

/// How the responses of one crawler are read.
#[derive(Clone)]
pub struct Reader {
    options: ReadOptions,
    scan: Scan,
    store: Option<Arc<dyn PermissionStore>>,
}

impl Reader {
    /// Reads for the tokens of `options`: fields, and the head of pages ahead of the caller.
    pub fn new(options: ReadOptions) -> Self {
        Self { options, scan: Scan::Eager, store: None }
    }

    /// What is read.
    #[must_use]
    pub fn with_scan(mut self, scan: Scan) -> Self {
        self.scan = scan;
        self
    }

    /// Where permissions are kept between fetches. A head that is scanned lazily is not kept.
    #[must_use]
    pub fn with_store(mut self, store: Option<Arc<dyn PermissionStore>>) -> Self {
        self.store = store;
        self
    }

    /// The answer to a request with this method, whose head arrived at `received`.
    pub fn response_to<'a>(&'a self, method: &'a Method, received: WallMillis) -> Reading<'a> {
        Reading { reader: self, scan: self.scan, method, received, request: None, origin: Origin::Wire }
    }
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
#[must_use = "nothing is read until the response is passed in"]
pub struct Reading<'a> {
    reader: &'a Reader,
    scan: Scan,
    method: &'a Method,
    received: WallMillis,
    request: Option<&'a HeaderMap>,
    origin: Origin,
}

/// Where an answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// From the server, with all its fields.
    Wire,
    /// From a cache, with all fields of the server's answer of that time.
    Cache(WallMillis),
    /// Through something that may have dropped field lines.
    Unknown,
}

impl<'a> Reading<'a> {
    /// Reads this one differently.
    pub fn with_scan(mut self, scan: Option<Scan>) -> Self {
        self.scan = scan.unwrap_or(self.scan);
        self
    }

    /// These fields were sent with the request: a 304 may be about the version that they name.
    pub fn with_request(mut self, fields: Option<&'a HeaderMap>) -> Self {
        self.request = fields;
        self
    }

    /// The server sent this at `time`, and a cache kept it with all its fields.
    pub fn from_cache(mut self, time: WallMillis) -> Self {
        self.origin = Origin::Cache(time);
        self
    }

    /// Something on the way, such as a cache, may have dropped field lines: nothing is known but what is stated.
    pub fn with_missing_fields(mut self) -> Self {
        self.origin = Origin::Unknown;
        self
    }

    fn fields(&self, headers: &HeaderMap) -> Fields {
        Fields::of(self.scan, headers, self.origin != Origin::Unknown, self.received)
    }

    /// A redirect that is followed: the last hop of `history` keeps its own rules.
    pub async fn followed(self, history: &mut RedirectHistory, status: StatusCode, headers: &HeaderMap) {
        let fields = self.fields(headers);
        history.keep_rules(fields.permissions(&self.reader.options, not_scanned()));
        if let Some(store) = self.store() {
            self.persist(store, history, status, headers, not_scanned()).await;
        }
    }

    /// What there is to tell of an answer whose body nobody looks at, and which is not kept for later fetches either: without
    /// waiting. `None` for all others, which are to be [`finish`](Self::finish)ed.
    pub fn without_scan(self, status: StatusCode, headers: &HeaderMap) -> Option<Unscanned<'a>> {
        let reason = scan::reason_to_leave(self.scan, self.method, (status, headers))?;
        if self.store().is_some() {
            return None;
        }
        let fields = self.fields(headers);
        Some(Unscanned { reader: self.reader, reason, fields })
    }

    /// The answer that the caller gets: its head is read, and a [`FetchInfo`] put into its extensions.
    ///
    /// Its URL is that of the history's last hop; without one nothing is kept for later fetches.
    // Not `async`: a future that takes things by value has room for them twice.
    pub fn finish<B>(
        self,
        history: RedirectHistory,
        response: Response<B>,
    ) -> impl Future<Output = Response<WatchedBody<B>>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (mut response, reader) = (response.map(WatchedBody::new), self.reader);
        let (status, options) = (response.status(), &reader.options);
        let plan = scan::plan(options, self.scan, self.method, (status, response.headers()));
        let fields = self.fields(response.headers());
        async move {
            let seen = scan::run(plan, response.body_mut()).await;
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
        self.reader.store.as_ref().filter(|_| asks && self.origin != Origin::Unknown)
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
        let received = match self.origin {
            Origin::Cache(time) => time,
            Origin::Wire | Origin::Unknown => self.received,
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

/// An answer whose body is left alone.
#[derive(Debug)]
#[must_use = "it holds the fetch info until `fetch_info` is called"]
pub struct Unscanned<'a> {
    reader: &'a Reader,
    reason: HeadEnd,
    fields: Fields,
}

impl Unscanned<'_> {
    /// The fetch info of a call with this `history`, for the response's extensions.
    pub fn fetch_info(self, history: RedirectHistory) -> FetchInfo {
        let (read, reason) = (&self.reader.options, self.reason);
        let answer = if self.fields.is_empty() {
            // Made when somebody asks: that is no more work than to copy it.
            Outcome::Nothing(reason)
        } else {
            Outcome::Known(self.fields.permissions(read, Head::not_scanned(reason)))
        };
        FetchInfo::new(read.clone(), history, self.fields, answer)
    }
}

fn not_scanned() -> Head {
    Head::not_scanned(HeadEnd::NotScanned)
}
