//! Both halves together: what may be fetched, and when.

mod at_once;
mod budget;
mod lapsed;
#[cfg(feature = "metrics")]
mod metrics;
mod processes;
mod rechecks;
mod secrets;
mod settings;
