//! A server's quota: so many requests within a window, stated in RateLimit fields, and 429 for one too many.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Reply, Seen};

/// Counts requests. Clones count together.
#[derive(Debug, Clone)]
pub struct Quota {
    requests: usize,
    window: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    began: Option<Instant>,
    used: usize,
    refused: usize,
}

impl Quota {
    /// So many requests within each window, which begins with its first request.
    pub fn new(requests: usize, window: Duration) -> Self {
        Self { requests, window, state: Arc::default() }
    }

    /// How many requests were one too many.
    pub fn refused(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).refused
    }

    /// An empty robots.txt, or a page with links to `/0` to `/19`; and what is left of the quota.
    pub fn answer(&self, seen: &Seen) -> Reply {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let began = match state.began {
            Some(began) if now < began + self.window => began,
            _ => {
                (state.began, state.used) = (Some(now), 0);
                now
            }
        };
        let is_refused = state.used >= self.requests;
        if is_refused {
            state.refused += 1;
        } else {
            state.used += 1;
        }
        // In whole seconds, rounded down, as a careless server does it.
        let reset = (began + self.window - now).as_secs();
        let limit = format!("\"pages\";r={};t={reset}", self.requests - state.used);
        drop(state);
        let status = if is_refused { 429 } else { 200 };
        let links = |count| (0..count).map(|page| format!("<a href=/{page}>{page}</a>")).collect::<String>();
        let body = links(if seen.path == "/robots.txt" { 0 } else { 20 });
        Reply::with_headers(status, &[("content-type", "text/html"), ("ratelimit", &limit)], body)
    }
}
