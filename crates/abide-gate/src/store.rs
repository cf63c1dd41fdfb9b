//! What the traits of both stores share.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::text::Escaped;

/// A boxed future, so that the traits of this crate can be used as `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The store could not do what it was asked. Its text says why, without anything secret: it is logged.
///
/// It never changes a decision of robots.txt: a record that cannot be loaded is fetched, one that cannot be saved is kept in memory.
#[derive(Clone)]
pub struct StoreError {
    text: Arc<str>,
}

impl StoreError {
    /// With a reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self { text: reason.to_string().into() }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Escaped(self.text.as_bytes()))
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreError({self})")
    }
}

impl std::error::Error for StoreError {}
