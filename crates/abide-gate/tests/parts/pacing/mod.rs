//! When a request may go: delays, queues and backoff of each host.

mod acquire;
mod backoff;
mod edges;
mod key;
mod loopback;
mod memory;
mod processes;
mod rate_limit;
mod refusals;
mod report;
mod schedules;
