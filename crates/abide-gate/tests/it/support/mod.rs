//! What several tests share.

pub(crate) mod faulty;
pub(crate) mod pacing;
pub(crate) mod robots_cache;
