//! Signing requests: what a gate and its clients ask of whatever signs.
//!
//! A trait, because keys and algorithms are in `abide-identity`, on which the gate does not depend.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::{WallMillis, caught};

/// Signs requests: pages, each redirect hop of them, and robots.txt. A `WebBotAuth` of `abide-identity` does,
/// with its feature `client`.
///
/// Set with [`GateBuilder::sign_requests`](crate::GateBuilder::sign_requests).
///
/// ```
/// use abide_gate::{SignRequest, WallMillis};
/// use http::{HeaderMap, HeaderValue, Method};
///
/// type Failed = Box<dyn std::error::Error + Send + Sync>;
///
/// /// A secret that a site has agreed on with the crawler, in place of a signature.
/// #[derive(Debug)]
/// struct Secret(HeaderValue);
///
/// impl SignRequest for Secret {
///     fn sign(&self, _: &Method, url: &url::Url, headers: &mut HeaderMap, _: WallMillis) -> Result<(), Failed> {
///         if url.scheme() == "https" && url.host_str() == Some("partner.example") {
///             headers.insert("x-crawler-secret", self.0.clone());
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait SignRequest: fmt::Debug + Send + Sync {
    /// Adds a signature to the fields of a request, which is sent right after that. Nothing else of it
    /// changes, except `Accept-Encoding`. Requests that need no signature stay as they are.
    ///
    /// # Errors
    /// If signing fails. Then the request is not sent.
    fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: WallMillis,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// The signer for a repetition of the request, if a response with this status and these fields asks for a
    /// signature. The request is then repeated once, checked and rate-limited like any other. Default:
    /// `None`.
    fn asked(&self, status: StatusCode, headers: &HeaderMap) -> Option<Arc<dyn SignRequest>> {
        let _ = (status, headers);
        None
    }
}

/// A signer whose panic is an error: the request is not sent.
#[derive(Debug)]
pub(crate) struct CaughtSigner(pub(crate) Arc<dyn SignRequest>);

impl SignRequest for CaughtSigner {
    fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: WallMillis,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        caught(|| self.0.sign(method, url, headers, now)).unwrap_or_else(|| Err("the signer panicked".into()))
    }

    fn asked(&self, status: StatusCode, headers: &HeaderMap) -> Option<Arc<dyn SignRequest>> {
        let signer = caught(|| self.0.asked(status, headers)).flatten()?;
        Some(Arc::new(Self(signer)))
    }
}
