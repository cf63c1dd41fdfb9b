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
/// A store that fails, hangs or panics is told in the log, and the response's own rules stand, with those that it could still load.
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
    let is_whole = status.is_success() && head.end().is_complete();
    let visit = Visit::new(status.as_u16(), &fields, head, now).with_preferences(robots);
    let slow = |_| Err(PermissionStoreError::new(format!("no answer within {STORE_TIME_MAX:?}")));
    match timeout(STORE_TIME_MAX, take_in(store, read, url, &visit, (status, is_whole)))
        .await
        .unwrap_or_else(slow)
    {
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
    read: &ReadOptions,
    url: &Url,
    visit: &Visit<'_>,
    (status, is_whole): (StatusCode, bool),
) -> Result<Option<(PermissionRecord, Update)>, PermissionStoreError> {
    let key = key(url);
    let known = match caught(async { store.load(&key).await }).await {
        // All of it is replaced, whatever it is.
        Err(_) if is_whole => None,
        known => known?,
    };
    let (record, update) = match known {
        Some(mut record) => {
            let update = record.update(visit);
            (record, update)
        }
        // An error page says nothing about the resource, and a 304 nothing about what we never had.
        None if !status.is_success() && !status.is_redirection() || status == StatusCode::NOT_MODIFIED => {
            return Ok(None);
        }
        None => (PermissionRecord::new(&*key, visit), Update::Replaced),
    };
    if update == Update::Kept {
        return Ok(Some((record, update)));
    }
    if let Err(error) = caught(async { store.save(&record).await }).await {
        log::not_kept(url, &error);
        if let Ok(Some(kept)) = caught(async { store.load(&key).await }).await
            && !stands_for(&kept, &record, read)
        {
            // It would answer the next 304. That nothing is known is better.
            let _ = caught(async { store.remove(&key).await }).await;
        }
    }
    Ok(Some((record, update)))
}

/// Whether what a store has can stand for the record that it could not save: it forbids as much, and claims to know no more. A store
/// that will save it later has the record itself.
fn stands_for(kept: &PermissionRecord, wanted: &PermissionRecord, read: &ReadOptions) -> bool {
    let forbids = kept.rules(read);
    forbids.clone().union(&wanted.rules(read)) == forbids
        && kept.preferences() == wanted.preferences()
        && kept.head_end() == wanted.head_end()
}

/// The store's answer. Its panic is an error.
async fn caught<T>(
    asked: impl Future<Output = Result<T, PermissionStoreError>>,
) -> Result<T, PermissionStoreError> {
    let mut asked = pin!(asked);
    poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| asked.as_mut().poll(context)))
            .unwrap_or_else(|_| Poll::Ready(Err(PermissionStoreError::new("a panic"))))
    })
    .await
}

/// The URL without what does not reach the server.
fn key(url: &Url) -> String {
    let mut url = without_userinfo(url);
    url.set_fragment(None);
    url.into()
}
