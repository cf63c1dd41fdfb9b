//! Any Retry-After and Date fields give nothing, or more than nothing and at most 24 hours; a further field
//! never shortens the wait.

use std::time::Duration;

use abide_gate::WallMillis;
use abide_gate::pacing::{RETRY_AFTER_MAX, retry_after};
use http::{HeaderMap, HeaderValue};

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let Some((wall, fields)) = bytes.split_first_chunk::<8>() else { return };
    let wall = WallMillis::from_millis(u64::from_le_bytes(*wall));
    let mut headers = HeaderMap::new();
    let mut longest = None;
    for (n, field) in fields.split(|byte| *byte == b'\n').take(16).enumerate() {
        let Ok(value) = HeaderValue::from_bytes(field) else { continue };
        if n == 0 && !field.is_empty() {
            headers.append("date", value);
            continue;
        }
        headers.append("retry-after", value);
        let wait = retry_after(&headers, wall);
        assert!(wait.is_none_or(|wait| wait > Duration::ZERO && wait <= RETRY_AFTER_MAX), "{wait:?}");
        assert!(wait >= longest, "a further field shortens nothing");
        longest = wait;
    }
}
