//! Web Bot Auth as the signer of a crawler.
//!
//! Apart, because the signatures need no crawler: those who sign the requests of another client do not
//! compile one.

use std::error::Error;
use std::sync::Arc;

use abide_gate::{SignRequest, WallMillis};
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::WebBotAuth;

impl SignRequest for WebBotAuth {
    fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: WallMillis,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.signs_only_when_asked() {
            return Ok(());
        }
        Ok(self.sign(method, url, headers, now.to_system_time())?)
    }

    fn asked(&self, status: StatusCode, headers: &HeaderMap) -> Option<Arc<dyn SignRequest>> {
        let asked = self.signs_only_when_asked().then(|| self.as_asked(status, headers)).flatten();
        Some(Arc::new(asked?))
    }
}
