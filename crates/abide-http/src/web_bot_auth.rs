//! Web Bot Auth, as what the gate and the calls of a crawler sign with.

use std::error::Error;
use std::sync::Arc;

use abide_gate::{SignRequest, WallMillis};
use abide_identity::WebBotAuth;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

/// An identity that signs for a crawler.
#[derive(Debug)]
pub(crate) struct Signing(pub(crate) WebBotAuth);

impl SignRequest for Signing {
    fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: WallMillis,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.0.is_only_when_asked() {
            return Ok(());
        }
        Ok(self.0.sign(method, url, headers, now.to_system_time())?)
    }

    fn asked(&self, status: StatusCode, headers: &HeaderMap) -> Option<Arc<dyn SignRequest>> {
        if !self.0.is_only_when_asked() {
            return None;
        }
        Some(Arc::new(Self(self.0.as_asked(status, headers)?)))
    }
}
