//! What several tests share.

pub(crate) mod faulty;
pub(crate) mod pacing;
pub(crate) mod robots_cache;
#[path = "../../it/scripted.rs"]
pub(crate) mod scripted;
