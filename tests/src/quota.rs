//! A server's quota: so many requests within a window, stated in RateLimit fields, and 429 for one too many.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::{Reply, Seen};

/// Counts requests. Clones count together.
#[derive(Debug, Clone)]
pub struct Quota {
    requests: usize,
    window: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    ends: Instant,
    used: usize,
    refused: usize,
}

impl Quota {
    /// So many requests within each window, which begins with its first request.
    pub fn new(requests: usize, window: Duration) -> Self {
        let state = State { ends: Instant::now(), used: 0, refused: 0 };
        Self { requests, window, state: Arc::new(Mutex::new(state)) }
    }

    /// How many requests were one too many.
    pub fn refused(&self) -> usize {
        self.state.lock().unwrap().refused
    }

    /// An empty robots.txt, or a page with links to `/0` to `/19`; and what is left of the quota.
    pub fn answer(&self, seen: &Seen) -> Reply {
        let mut state = self.state.lock().unwrap();
        let now = Instant::now();
        if now >= state.ends {
            (state.ends, state.used) = (now + self.window, 0);
        }
        let is_refused = state.used >= self.requests;
        if is_refused {
            state.refused += 1;
        } else {
            state.used += 1;
        }
        // In whole seconds, rounded down, as a careless server does it.
        let reset = (state.ends - now).as_secs();
        let limit = format!("\"pages\";r={};t={reset}", self.requests - state.used);
        let status = if is_refused { 429 } else { 200 };
        let links = if seen.path == "/robots.txt" { 0 } else { 20 };
        let body: String = (0..links).map(|page| format!("<a href=/{page}>{page}</a>")).collect();
        Reply::with_headers(status, &[("content-type", "text/html"), ("ratelimit", &limit)], body)
    }
}
