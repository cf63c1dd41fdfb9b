//! May I ask, and when?

mod clock;
mod origin;

#[cfg(feature = "testing")]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock, WallMillis};
pub use origin::{Host, Origin, UnsupportedUrl};
