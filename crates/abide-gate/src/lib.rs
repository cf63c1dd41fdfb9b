//! May I ask, and when?

pub mod access;
mod address;

mod clock;
mod origin;

#[cfg(feature = "testing")]
pub mod testing;

pub use address::{AddressGuard, AddressRefused};
#[cfg(feature = "testing")]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock, WallMillis};
pub use origin::{Host, Origin, UnsupportedUrl};
