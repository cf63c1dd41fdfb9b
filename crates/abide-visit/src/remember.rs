//! What a page permitted at the last visit, for the visits that do not say it again (304, HEAD).

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tokio::time::timeout;
use url::Url;

use abide_gate::without_userinfo;
use abide_permissions::{
    Head, PermissionRecord, PermissionStore, PermissionStoreError, Permissions, Preferences, ReadOptions,
    Update, Visit,
};

use crate::log;

/// What is known of a URL from this visit and those before it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) permissions: Permissions,
    pub(crate) preferences: Preferences,
}

/// So long a response waits for the store. It is unread until then, and holds up the next request to its host.
const STORE_TIME_MAX: Duration = Duration::from_secs(2);

/// Keeps what a response says about its URL, and returns what is known of it now where that is more than the response says.
///
/// A store that fails, hangs or panics is told in the log, and the response's own rules stand.
pub(crate) async fn remember(
    store: &Arc<dyn PermissionStore>,
    read: &ReadOptions,
    url: &Url,
    (status, headers): (StatusCode, &HeaderMap),
    head: Head,
    robots: &Preferences,
    now: SystemTime,
) -> Option<Known> {
    let fields: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let visit = Visit::new(status.as_u16(), &fields, head, now).with_preferences(robots);
    let key = key(url);
    let mut taking_in = pin!(take_in(store, &key, &visit, status));
    let caught = poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| taking_in.as_mut().poll(context)))
            .unwrap_or_else(|_| Poll::Ready(Err(PermissionStoreError::new("a panic"))))
    });
    let slow = |_| Err(PermissionStoreError::new(format!("no answer within {STORE_TIME_MAX:?}")));
    match timeout(STORE_TIME_MAX, caught).await.unwrap_or_else(slow) {
        Ok(Some((record, Update::Revalidated | Update::FieldsReplaced))) => {
            Some(Known { permissions: record.permissions(read), preferences: record.preferences() })
        }
        Ok(_) => None,
        Err(error) => {
            log::not_kept(url, &error);
            None
        }
    }
}

async fn take_in(
    store: &Arc<dyn PermissionStore>,
    key: &str,
    visit: &Visit<'_>,
    status: StatusCode,
) -> Result<Option<(PermissionRecord, Update)>, PermissionStoreError> {
    let (record, update) = match store.load(key).await? {
        Some(mut record) => {
            let update = record.update(visit);
            (record, update)
        }
        // An error page says nothing about the resource, and a 304 nothing about what we never had.
        None if !status.is_success() && !status.is_redirection() || status == StatusCode::NOT_MODIFIED => {
            return Ok(None);
        }
        None => (PermissionRecord::new(key, visit), Update::Replaced),
    };
    if update == Update::Kept {
        return Ok(Some((record, update)));
    }
    let saved = store.save(&record).await;
    if saved.is_err() && update != Update::Revalidated {
        // What is there is of an older version, and would stand for this one at the next 304: unknown is better.
        let _ = store.remove(key).await;
    }
    saved.map(|()| Some((record, update)))
}

/// The URL without what does not reach the server.
fn key(url: &Url) -> String {
    let mut url = without_userinfo(url);
    url.set_fragment(None);
    url.into()
}
