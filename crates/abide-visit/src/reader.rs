//! Reads a response: its fields at once, its head as the plan says, its body untouched.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body;

use abide_gate::WallMillis;
use abide_permissions::{Head, HeadEnd, PermissionStore, Preferences, ReadOptions};
use abide_robots::Target;

use crate::body::WatchedBody;
use crate::remember::{Known, remember};
use crate::scan::{self, Fields, Scan};
use crate::trail::Trail;
use crate::visit::{Answer, Visit};

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

    /// Where permissions are kept between visits. A head that is scanned lazily is not kept.
    #[must_use]
    pub fn with_store(mut self, store: Option<Arc<dyn PermissionStore>>) -> Self {
        self.store = store;
        self
    }

    /// The answer to a request with this method, whose head arrived at `received`.
    pub fn response_to<'a>(&'a self, method: &'a Method, received: WallMillis) -> Reading<'a> {
        Reading { reader: self, scan: self.scan, method, received }
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
#[must_use = "nothing is read until it is told what the answer was"]
pub struct Reading<'a> {
    reader: &'a Reader,
    scan: Scan,
    method: &'a Method,
    received: WallMillis,
}

impl<'a> Reading<'a> {
    /// Reads this one differently.
    pub fn with_scan(mut self, scan: Option<Scan>) -> Self {
        self.scan = scan.unwrap_or(self.scan);
        self
    }

    /// A redirect that is followed: the last hop of `trail` keeps its own rules.
    pub async fn pass(self, trail: &mut Trail, status: StatusCode, headers: &HeaderMap) {
        let fields = Fields::of(self.scan, headers, self.received);
        trail.keep_rules(fields.permissions(&self.reader.options, not_scanned()));
        if let Some(store) = self.store() {
            self.remember(store, trail, status, headers, not_scanned()).await;
        }
    }

    /// What there is to tell of an answer whose body nobody looks at, and which is not kept for later visits either: without
    /// waiting. `None` for all others, which are to be [`finish`](Self::finish)ed.
    pub fn leave(self, status: StatusCode, headers: &HeaderMap) -> Option<Left<'a>> {
        let reason = scan::reason_to_leave(self.scan, self.method, (status, headers))?;
        if self.store().is_some() {
            return None;
        }
        let fields = Fields::of(self.scan, headers, self.received);
        Some(Left { reader: self.reader, reason, fields })
    }

    /// The answer that the caller gets: its head is read, and a [`Visit`] put into its extensions.
    ///
    /// Its URL is that of the trail's last hop; without one nothing is kept for later visits.
    // Not `async`: a future that takes things by value has room for them twice.
    pub fn finish<B>(
        self,
        trail: Trail,
        response: Response<B>,
    ) -> impl Future<Output = Response<WatchedBody<B>>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (mut response, reader) = (response.map(WatchedBody::new), self.reader);
        let (status, options) = (response.status(), &reader.options);
        let plan = scan::plan(options, self.scan, self.method, (status, response.headers()));
        let fields = Fields::of(self.scan, response.headers(), self.received);
        async move {
            let seen = scan::run(plan, response.body_mut()).await;
            let known = match self.store() {
                // In a box: few crawlers have a store, and all would carry the room for it through every call.
                Some(store) => {
                    Box::pin(self.remember(store, &trail, status, response.headers(), seen.head())).await
                }
                None => None,
            };
            let answer = seen.answer(options, &fields, known);
            response.extensions_mut().insert(Visit::new(trail, fields, answer));
            response
        }
    }

    /// Where what this response says is kept: only these methods ask for the resource itself.
    fn store(&self) -> Option<&Arc<dyn PermissionStore>> {
        let asks = matches!(*self.method, Method::GET | Method::HEAD) && self.scan != Scan::Off;
        self.reader.store.as_ref().filter(|_| asks)
    }

    /// Keeps what the response says for later visits, under the URL that the last hop asked for.
    async fn remember(
        &self,
        store: &Arc<dyn PermissionStore>,
        trail: &Trail,
        status: StatusCode,
        headers: &HeaderMap,
        head: Head,
    ) -> Option<Known> {
        let hop = trail.last()?;
        let robots = hop.verdict().rules().map(|verdict| {
            // As it was when this was fetched: the very copy that let the request out.
            Preferences::default().with_robots(verdict.rules(), &Target::of(hop.url()))
        });
        let (options, robots) = (&self.reader.options, robots.unwrap_or_default());
        let now = self.received.to_system_time();
        remember(store, options, hop.url(), (status, headers), head, &robots, now).await
    }
}

/// An answer whose body is left alone.
#[derive(Debug)]
#[must_use = "nothing is told until it is asked"]
pub struct Left<'a> {
    reader: &'a Reader,
    reason: HeadEnd,
    fields: Fields,
}

impl Left<'_> {
    /// The visit that `trail` led to, for the response's extensions.
    pub fn visit(self, trail: Trail) -> Visit {
        let (read, reason) = (&self.reader.options, self.reason);
        let answer = if self.fields.is_empty() {
            // Made when somebody asks: that is no more work than to copy it.
            Answer::Nothing { read: read.clone(), reason }
        } else {
            Answer::Known(self.fields.permissions(read, Head::not_scanned(reason)))
        };
        Visit::new(trail, self.fields, answer)
    }
}

fn not_scanned() -> Head {
    Head::not_scanned(HeadEnd::NotScanned)
}
