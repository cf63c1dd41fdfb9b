//! What one call sent, hop by hop: known also when the call ends in an error, which carries no fetch info.
//!
//! A middleware below abide's, so it sees what really leaves. It also ends a page that takes too long,
//! because it knows when the request left.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use abide::{Abide, Failure};
use async_trait::async_trait;
use http::{Extensions, HeaderMap};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use url::Url;

use crate::args::{HeaderArg, Online};
use crate::own_site::OwnSite;
use crate::sanitize::public_url;
use crate::status::UsageError;
use crate::style;
use crate::warc::Exchanges;

/// The requests of one call, in order. Given to the request as an extension, and read afterwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder {
    sent: Arc<Mutex<Vec<Sent>>>,
    /// For an archive.
    pub(crate) exchanges: Exchanges,
    /// From a request to the end of its body.
    page_max: Option<Duration>,
}

/// One request as it went on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) url: Url,
    /// When it left: robots.txt had been checked and the permit acquired.
    pub(crate) at: Instant,
    /// Until the head of the answer was there; `None` as with the status.
    pub(crate) took: Option<Duration>,
    /// `None` while it is under way, and if it failed.
    pub(crate) status: Option<u16>,
}

impl Recorder {
    /// Of a call that gives each of its pages so much time.
    pub(crate) fn with_page_max(page_max: Duration) -> Self {
        Self { page_max: Some(page_max), ..Self::default() }
    }

    /// At most as many as there may be hops.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.lock().clone()
    }

    /// A request goes on the wire.
    fn begin(&self, url: Url) {
        let (mut sent, at) = (self.lock(), Instant::now());
        match sent.last_mut().filter(|last| last.url == url && last.status.is_none()) {
            // The connection was closed before there was a response, and it goes out once more: that is one
            // hop.
            Some(last) => last.at = at,
            None => sent.push(Sent { url, at, took: None, status: None }),
        }
    }

    /// The time that there is for a page, if the last one has had all of it.
    pub(crate) fn overdue(&self) -> Option<Duration> {
        let begun = self.lock().last()?.at;
        self.page_max.filter(|max| begun.elapsed() >= *max)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The crawler of a call, and the client with its whole middleware, and a recorder below.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) abide: Abide,
    pub(crate) http: ClientWithMiddleware,
    pub(crate) own_site: OwnSite,
    /// Those of `--header`.
    pub(crate) fields: HeaderMap,
}

/// The client with the whole middleware, and a recorder below it. `prints_heads`: of each request and
/// response, on standard error.
pub(crate) fn client(
    abide: Abide,
    inner: reqwest::Client,
    online: &Online,
    own_site: OwnSite,
    prints_heads: bool,
) -> anyhow::Result<Client> {
    let fields = online.headers.iter().map(HeaderArg::field).collect::<Result<Vec<_>, _>>();
    let fields = fields.map_err(|error| UsageError(format!("--header: {error}")))?;
    let mut all = HeaderMap::new();
    for (name, value) in fields {
        all.append(name, value);
    }
    let http = ClientBuilder::new(inner).with(abide.middleware()).with(Below { prints_heads }).build();
    Ok(Client { abide, http, own_site, fields: all })
}

/// Sees each request as it goes on the wire, and limits its time there.
#[derive(Debug)]
struct Below {
    prints_heads: bool,
}

#[async_trait]
impl Middleware for Below {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let recorder = extensions.get::<Recorder>().cloned().unwrap_or_default();
        // Set below the permit, so that the wait for it does not count.
        *request.timeout_mut() = recorder.page_max;
        let url = public_url(request.url());
        if self.prints_heads {
            let first = format!("{} {url}", request.method());
            print_head('>', &first, request.headers());
        }
        recorder.begin(url);
        let response = next.run(request, extensions).await.inspect_err(|error| {
            if let Some(Failure::AddressRefused(_)) = abide_http::failure_of(error) {
                // It was resolved, and nothing was sent.
                recorder.lock().pop();
            }
        })?;
        if let Some(last) = recorder.lock().last_mut() {
            (last.status, last.took) = (Some(response.status().as_u16()), Some(last.at.elapsed()));
        }
        if self.prints_heads {
            print_head('<', &format!("{:?} {}", response.version(), response.status()), response.headers());
        }
        Ok(response)
    }
}

/// A head on standard error, as curl's `-v` has it, without what is secret.
fn print_head(mark: char, first: &str, fields: &HeaderMap) {
    style::mention(&[(style::DIM, format!("{mark} {first}"))]);
    for (name, value) in fields {
        let is_secret =
            matches!(name.as_str(), "authorization" | "cookie" | "set-cookie" | "proxy-authorization");
        let value = String::from_utf8_lossy(value.as_bytes());
        let value = if is_secret { "..." } else { &*value };
        style::mention(&[(style::DIM, format!("{mark} {name}: {value}"))]);
    }
}
