//! What one request asks of the pacer.

use std::time::Duration;

/// What one request asks: the delay of its origin, and how long it is ready to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub(crate) crawl_delay: Duration,
    pub(crate) budget: Option<Duration>,
}

impl Ask {
    /// No delay but our own, and the policy's `max_wait`.
    pub fn new() -> Self {
        Self::default()
    }

    /// The Crawl-delay of this request's own origin. The delay is the larger of this and ours.
    #[must_use]
    pub fn with_crawl_delay(mut self, delay: Duration) -> Self {
        self.crawl_delay = delay;
        self
    }

    /// How long this call may still wait, all hops together. Zero: now or not at all.
    #[must_use]
    pub fn with_budget(mut self, left: Duration) -> Self {
        self.budget = Some(left);
        self
    }
}
