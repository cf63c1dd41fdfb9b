//! What schedulers and people may know.

use std::time::Duration;

use crate::WallMillis;

/// When a host could be asked next. Nothing is reserved by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextSlot {
    pub(crate) not_before: WallMillis,
    pub(crate) wait: Duration,
    pub(crate) overdue: Option<Duration>,
    pub(crate) waiting: usize,
    pub(crate) in_flight: usize,
}

impl NextSlot {
    /// The earliest start of somebody who asks now. If something is in flight: as if it ended this instant.
    pub fn not_before(&self) -> WallMillis {
        self.not_before
    }

    /// The same, from now. Zero: it could go at once.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// How long the host has been free. Nothing: it was never asked, or is not free.
    pub fn overdue(&self) -> Option<Duration> {
        self.overdue
    }

    /// How many wait for it.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// What happened to one host, or group of hosts. Counters stop at 4,294,967,295.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostReport {
    pub(crate) scope: Box<str>,
    pub(crate) requests: u32,
    pub(crate) deferrals: u32,
    pub(crate) backoffs: u32,
    pub(crate) waited: Duration,
    pub(crate) longest_wait: Duration,
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    pub(crate) open: Option<Duration>,
    pub(crate) backed_off_until: Option<WallMillis>,
    pub(crate) delay: Duration,
}

impl HostReport {
    /// The host, or the key of the group.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Requests that got their turn.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Requests that were told to come back.
    pub fn deferrals(&self) -> u32 {
        self.deferrals
    }

    /// How often it was held.
    pub fn backoffs(&self) -> u32 {
        self.backoffs
    }

    /// All waits together, in whole milliseconds, each rounded up; at most 49 days.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The longest wait.
    pub fn longest_wait(&self) -> Duration {
        self.longest_wait
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How long the oldest response in flight has been open.
    pub fn open(&self) -> Option<Duration> {
        self.open
    }

    /// The end of the backoff in force.
    pub fn backed_off_until(&self) -> Option<WallMillis> {
        self.backed_off_until
    }

    /// The delay that was last asked for.
    pub fn delay(&self) -> Duration {
        self.delay
    }
}
