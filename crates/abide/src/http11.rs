//! Origins that respond over HTTP/1.1 only, and a client that speaks nothing else.
//!
//! In HTTP/2 a server says so with `HTTP_1_1_REQUIRED` (RFC 9113 §7), as for requests that need a client's
//! certificate. A client of reqwest offers both protocols, or one, with each connection, so the second one
//! needs another client.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use url::Url;

use abide_gate::Origin;

/// More are known of no honest crawl at a time. Beyond it all are forgotten, and each costs one request to be
/// known again.
const ORIGINS_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Http11 {
    client: reqwest::Client,
    origins: Mutex<HashSet<Origin>>,
    /// So that the others need no lock.
    has_any: AtomicBool,
}

impl Http11 {
    /// With a client that speaks HTTP/1.1 alone.
    pub(crate) fn new(client: reqwest::Client) -> Self {
        Self { client, origins: Mutex::default(), has_any: AtomicBool::new(false) }
    }

    /// The client for this URL, if its origin has asked for HTTP/1.1.
    pub(crate) fn client_for(&self, url: &Url) -> Option<&reqwest::Client> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        let origin = Origin::of(url).ok()?;
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        origins.contains(&origin).then_some(&self.client)
    }

    /// The origin of this URL has asked for HTTP/1.1.
    pub(crate) fn add(&self, url: &Url) {
        let Ok(origin) = Origin::of(url) else { return };
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        if origins.len() >= ORIGINS_MAX {
            origins.clear();
        }
        origins.insert(origin);
        self.has_any.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origins_that_asked_are_known_and_bounded() {
        let http11 = Http11::new(reqwest::Client::new());
        let url = |n: usize| -> Url { format!("https://h{n}.example/x").parse().unwrap() };
        assert!(http11.client_for(&url(0)).is_none());
        (0..ORIGINS_MAX).for_each(|n| http11.add(&url(n)));
        assert!(http11.client_for(&url(0)).is_some() && http11.client_for(&url(ORIGINS_MAX)).is_none());
        assert!(http11.client_for(&"http://h0.example/x".parse().unwrap()).is_none(), "another origin");
        http11.add(&url(ORIGINS_MAX));
        assert!(http11.client_for(&url(ORIGINS_MAX)).is_some());
        assert!(http11.origins.lock().unwrap().len() <= ORIGINS_MAX);
    }
}
