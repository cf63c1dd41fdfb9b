//! Fetching and caching robots.txt.

mod deferral;
mod explain;
mod faults;
mod flight;
mod freshness;
mod leases;
#[cfg(feature = "tracing")]
mod log;
mod outage;
mod outcome;
mod redirect;
mod schedules;
mod script;
mod simulation;
mod store;
mod text;
