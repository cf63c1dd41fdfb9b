//! What is no price, or no token of a licence.
//!
//! One error for both, which come from settings and files of the crawler's owner, who needs its sentence
//! alone.

use thiserror::Error;

/// The text is not a valid price or licence token. `Display` says what was expected; it shows an invalid
/// price, but no token.
///
/// ```
/// # #[cfg(feature = "price")] {
/// let error = "1 cent".parse::<abide_identity::Price>().unwrap_err();
/// assert!(error.to_string().ends_with("found \"1 cent\""));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct InvalidValue(pub(crate) String);
