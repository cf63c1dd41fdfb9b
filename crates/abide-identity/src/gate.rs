//! What abide's clients sign with.

use std::error::Error;
use std::sync::Arc;

use abide_gate::{SignRequest, WallMillis};
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::web_bot_auth::WebBotAuth;

impl SignRequest for WebBotAuth {
    fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: WallMillis,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.waits_to_be_asked {
            return Ok(());
        }
        Ok(Self::sign(self, method, url, headers, now.to_system_time())?)
    }

    fn asked(&self, status: StatusCode, headers: &HeaderMap) -> Option<Arc<dyn SignRequest>> {
        if !self.waits_to_be_asked {
            return None;
        }
        let mut identity = self.as_asked(status, headers)?;
        identity.waits_to_be_asked = false;
        Some(Arc::new(identity))
    }
}
