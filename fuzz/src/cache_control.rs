//! Any Cache-Control fields give nothing, or a lifetime within the bounds of the policy; a further field
//! never lengthens it.

use std::time::Duration;

use abide_gate::robots_cache::RobotsPolicy;
use abide_gate::testing::robots_cache::stated_lifetime;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let policy = RobotsPolicy::default();
    let mut fields: Vec<&[u8]> = Vec::new();
    let mut shortest: Option<Duration> = None;
    for field in bytes.split(|byte| *byte == b'\n').take(16) {
        fields.push(field);
        let lifetime = stated_lifetime(&fields, &policy);
        assert!(
            lifetime.is_none_or(|lifetime| (Duration::from_secs(300)..=DAY).contains(&lifetime)),
            "{lifetime:?}"
        );
        assert!(lifetime.is_some() || shortest.is_none(), "what was stated stays stated");
        assert!(
            shortest.is_none_or(|shortest| lifetime <= Some(shortest)),
            "a further field lengthens nothing"
        );
        shortest = lifetime;
    }
}
