//! May I ask, and when?

// The keys and the clocks.
mod clock;
mod origin;

// Whether a robots.txt could be had, and when a request may go out: two halves that do not know each other.
pub mod access;
pub mod pacing;

mod address;

// The composition: robots.txt first, then the host's turn.
mod body;
mod error;
mod gate;
mod verdict;

#[cfg(feature = "testing")]
pub mod testing;

pub use address::{AddressGuard, AddressRefused};
pub use body::PermitBody;
#[cfg(feature = "testing")]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock, WallMillis};
pub use error::{Denied, Error};
pub use gate::{Gate, GateBuilder};
pub use origin::{Host, Origin, UnsupportedUrl};
pub use verdict::Verdict;
