//! May I ask, and when?

mod clock;
mod origin;
pub mod pacing;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "testing")]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock, WallMillis};
pub use origin::{Host, Origin, UnsupportedUrl};
