//! Signing requests: what a gate and its clients ask of whatever signs.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::WallMillis;

/// Signs requests: pages, each redirect hop of them, and robots.txt. With `abide-http`, which every client is built on, a `WebBotAuth` of
/// `abide-identity` does: `CrawlerBuilder::sign_requests`.
///
/// Set with [`GateBuilder::sign_requests`](crate::GateBuilder::sign_requests).
pub trait SignRequest: fmt::Debug + Send + Sync {
    /// Adds the fields of a signature to those of a request. It has its permit, and nothing of it changes any more but `Accept-Encoding`;
    /// it goes out at once. A request that is not to be signed stays as it is.
    ///
    /// # Errors
    /// Whatever goes wrong. The request is not sent then.
    fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: WallMillis,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// What signs the request once more, if a response with this status and these fields asks for that. The request is then repeated
    /// once, checked and paced like any other. Default: `None`.
    fn asked(&self, status: StatusCode, headers: &HeaderMap) -> Option<Arc<dyn SignRequest>> {
        let _ = (status, headers);
        None
    }
}
