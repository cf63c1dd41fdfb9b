//! Fetching and caching robots.txt.

mod deferral;
mod explain;
mod faults;
mod freshness;
#[cfg(feature = "tracing")]
mod log;
mod outage;
mod outcome;
mod redirect;
mod refused;
mod schedules;
mod single_flight;
mod store;
mod text;
