//! Something that one makes for all who wait for it, and that is made anew when it is over.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::Error;

/// The last attempt to make one.
pub(crate) struct Latest<T>(Mutex<Option<Attempt<T>>>);

/// What can come to its end.
pub(crate) trait Ends {
    fn is_over(&self) -> bool;
}

type Outcome<T> = Option<Result<Arc<T>, Error>>;

struct Attempt<T> {
    began: Instant,
    outcome: watch::Receiver<Outcome<T>>,
}

/// After a failure it is not tried more often. Until then all who ask are told of the failure.
pub(crate) const AGAIN: Duration = Duration::from_millis(250);

impl<T: Ends + Send + Sync + 'static> Latest<T> {
    /// The one that is there, or a new one.
    pub(crate) async fn one<F>(&self, make: impl FnOnce() -> F) -> Result<Arc<T>, Error>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut outcome = self.attempt(make);
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        ended.unwrap_or_else(|| Err(Error::interrupted()))
    }

    /// The last one that was made, whether it is over or not.
    pub(crate) fn last(&self) -> Option<Arc<T>> {
        lock(&self.0).as_ref()?.outcome.borrow().as_ref()?.as_ref().ok().cloned()
    }

    /// The attempt that counts: the last one, or a new one.
    pub(crate) fn attempt<F>(&self, make: impl FnOnce() -> F) -> watch::Receiver<Outcome<T>>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (mut last, now) = (lock(&self.0), Instant::now());
        if let Some(attempt) = &*last
            && attempt.counts(now)
        {
            return attempt.outcome.clone();
        }
        let (tell, outcome) = watch::channel(None);
        *last = Some(Attempt { began: now, outcome: outcome.clone() });
        drop(last);
        let making = make();
        // Its own task: who has asked first may go, and the others still get theirs.
        tokio::spawn(async move { tell.send_replace(Some(making.await.map(Arc::new))) });
        outcome
    }
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Ends> Attempt<T> {
    fn counts(&self, now: Instant) -> bool {
        let is_waited_for = self.outcome.has_changed().is_ok();
        match &*self.outcome.borrow() {
            None => is_waited_for,
            Some(Ok(made)) => !made.is_over(),
            Some(Err(_)) => now.saturating_duration_since(self.began) < AGAIN,
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
