//! What the tests share.

pub(crate) mod judge;
mod proxy;
mod redis;
pub(crate) mod workers;

use std::time::Duration;

pub(crate) use proxy::Proxy;
pub(crate) use redis::{Redis, WITHOUT_EVAL};

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
