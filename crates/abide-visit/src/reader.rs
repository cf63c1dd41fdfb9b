//! Reads a response: its fields at once, its head as the plan says, its body untouched.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body;
use url::Url;

use abide_gate::WallMillis;
use abide_permissions::{Head, HeadEnd, PermissionStore, Preferences, ReadOptions};
use abide_robots::Target;

use crate::body::WatchedBody;
use crate::remember::{Known, remember};
use crate::scan::{self, Fields, Scan};
use crate::trail::Trail;
use crate::visit::Visit;

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

    /// The answer to `method url`, whose head arrived at `received`.
    pub fn response_to<'a>(&'a self, method: &'a Method, url: &'a Url, received: WallMillis) -> Reading<'a> {
        Reading { reader: self, scan: self.scan, method, url, received }
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
    url: &'a Url,
    received: WallMillis,
}

impl Reading<'_> {
    /// Reads this one differently.
    pub fn with_scan(mut self, scan: Option<Scan>) -> Self {
        self.scan = scan.unwrap_or(self.scan);
        self
    }

    /// A redirect that is followed: the last hop of `trail` keeps its own rules.
    pub async fn pass(self, trail: &mut Trail, status: StatusCode, headers: &HeaderMap) {
        let fields = Fields::of(self.scan, headers, self.received);
        trail.keep_rules(fields.permissions(&self.reader.options, not_scanned()));
        self.remember(trail, status, headers, not_scanned()).await;
    }

    /// The answer that the caller gets: its head is read, and a [`Visit`] put into its extensions.
    pub async fn finish<B>(self, trail: Trail, response: Response<B>) -> Response<WatchedBody<B>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let mut response = response.map(WatchedBody::new);
        let (status, options) = (response.status(), &self.reader.options);
        let plan = scan::plan(options, self.scan, self.method, (status, response.headers()));
        let fields = Fields::of(self.scan, response.headers(), self.received);
        let seen = scan::run(plan, response.body_mut()).await;
        let known = self.remember(&trail, status, response.headers(), seen.head()).await;
        let answer = seen.answer(options, &fields, known);
        response.extensions_mut().insert(Visit::new(trail, fields, answer));
        response
    }

    /// Keeps what the response says for later visits, if there is a store for it.
    async fn remember(
        &self,
        trail: &Trail,
        status: StatusCode,
        headers: &HeaderMap,
        head: Head,
    ) -> Option<Known> {
        // Only these ask for the resource itself.
        let asks = matches!(*self.method, Method::GET | Method::HEAD) && self.scan != Scan::Off;
        let store = self.reader.store.as_ref().filter(|_| asks)?;
        let robots = trail.last().and_then(|hop| hop.verdict().rules()).map(|verdict| {
            // As it was when this was fetched: the very copy that let the request out.
            Preferences::default().with_robots(verdict.rules(), &Target::of(self.url))
        });
        let (options, robots) = (&self.reader.options, robots.unwrap_or_default());
        let now = self.received.to_system_time();
        // In a box: few crawlers have a store, and all would carry the room for it through every call.
        Box::pin(remember(store, options, self.url, (status, headers), head, &robots, now)).await
    }
}

fn not_scanned() -> Head {
    Head::not_scanned(HeadEnd::NotScanned)
}
