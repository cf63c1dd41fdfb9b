//! What one call sent, hop by hop: known also when the call ends in a network error, which carries no visit report.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use abide::Abide;
use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use url::Url;

/// The requests of one call, in order. Given to the request as an extension, and read afterwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trail {
    sent: Arc<Mutex<Vec<Sent>>>,
}

/// One request as it went on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) url: Url,
    /// When it left: robots.txt had been asked and the turn waited for.
    pub(crate) at: Instant,
    /// Until the head of the answer was there; `None` as with the status.
    pub(crate) took: Option<Duration>,
    /// `None` while it is under way, and for ever if it failed.
    pub(crate) status: Option<u16>,
}

impl Trail {
    /// At most as many as there may be hops.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn leaves(&self, url: &Url) {
        let sent = Sent { url: public(url), at: Instant::now(), took: None, status: None };
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
    }

    fn answered(&self, status: u16) {
        if let Some(last) = self.sent.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            last.status = Some(status);
            last.took = Some(last.at.elapsed());
        }
    }
}

/// The client with the whole middleware, and the recorder below it.
pub(crate) fn client(abide: &Abide, inner: reqwest::Client) -> ClientWithMiddleware {
    ClientBuilder::new(inner).with(abide.middleware()).with(Recorder).build()
}

#[derive(Debug)]
struct Recorder;

#[async_trait]
impl Middleware for Recorder {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let trail = extensions.get::<Trail>().cloned().unwrap_or_default();
        trail.leaves(request.url());
        let response = next.run(request, extensions).await?;
        trail.answered(response.status().as_u16());
        Ok(response)
    }
}

/// Without user information, which is nobody's to print.
pub(crate) fn public(url: &Url) -> Url {
    let mut url = url.clone();
    // Both fail only for URLs without a host, and those have no user information.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}
