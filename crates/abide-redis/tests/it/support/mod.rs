//! What the tests share.

mod redis;

use std::time::Duration;

pub(crate) use redis::Redis;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
