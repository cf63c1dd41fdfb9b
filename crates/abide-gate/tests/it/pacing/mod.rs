//! When a request may go: delays, queues and backoff of each host.

mod edges;
mod feedback;
mod leases;
mod loopback;
mod memory;
mod report;
mod schedules;
mod simulation;
mod turns;
