//! What a page permitted at the last fetch, for the responses that do not repeat it (304, HEAD).
//!
//! RFC 9110 lets a 304 leave out fields that have not changed. Taken alone it would permit what the page
//! forbids; the store has the rest.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::timeout;
use url::Url;

use abide_gate::{caught_future, without_userinfo};
use abide_permissions::{Fetched, PermissionError, PermissionRecord, PermissionStore};

use crate::fetch_info::not_persisted;

/// So long a response waits for the store. It is unread until then, and holds up the next request to its
/// host.
const STORE_TIME_MAX: Duration = Duration::from_secs(2);

/// Keeps what a response says about its URL, and returns what is known of it now where that is more than the
/// response says.
///
/// A store that fails, hangs or panics is logged, and the response's own rules stand, with those that it
/// could still load.
pub(crate) async fn persist(
    store: &Arc<dyn PermissionStore>,
    url: &Url,
    info: &Fetched<'_>,
    status: StatusCode,
) -> Option<PermissionRecord> {
    // Without what does not reach the server.
    let mut key = without_userinfo(url);
    key.set_fragment(None);
    let key = key.as_str();
    // It counts even if it cannot be saved, or not in time.
    let mut known = None;
    let taking_in = async {
        // A whole page replaces all that is known.
        let loaded =
            if info.is_whole_page() { None } else { caught(async { store.load(key).await }).await? };
        let record = match loaded {
            Some(mut record) => {
                // Of another version nothing is known: the response's own rules are all there is.
                if !record.update(info) {
                    return Ok(());
                }
                &*known.insert(record)
            }
            // An error page says nothing about the resource, and a 304 nothing about what we never had.
            None if !status.is_success() && !status.is_redirection()
                || status == StatusCode::NOT_MODIFIED =>
            {
                return Ok(());
            }
            None => &PermissionRecord::new(key, info),
        };
        let saved = caught(async { store.save(record).await }).await;
        if saved.is_err() {
            match caught(async { store.load(key).await }).await {
                Ok(None) => {}
                // It is as good, or the record itself, which is to be written later.
                Ok(Some(kept)) if kept.covers(record) => {}
                // It would answer the next 304. That nothing is known is better.
                _ => drop(caught(async { store.remove(key).await }).await),
            }
        }
        saved
    };
    let slow = |_| Err(PermissionError::new(format!("no answer within {STORE_TIME_MAX:?}")));
    if let Err(error) = timeout(STORE_TIME_MAX, taking_in).await.unwrap_or_else(slow) {
        not_persisted(url, &error);
    }
    known
}

/// The store's answer. Its panic is an error.
async fn caught<T>(asked: impl Future<Output = Result<T, PermissionError>>) -> Result<T, PermissionError> {
    caught_future(asked).await.unwrap_or_else(|| Err(PermissionError::new("a panic")))
}
