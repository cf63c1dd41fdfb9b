//! `InvalidText`: the one error of this crate.
//!
//! Reading never fails. Only the names that callers give are checked: product tokens.

use alloc::string::String;
use core::fmt;

/// The text is not a valid product token. `Display` says what was expected and what was found.
///
/// ```
/// use abide_robots::{InvalidText, ProductToken};
///
/// let error: InvalidText = ProductToken::new("Bot/1.0").unwrap_err();
/// assert_eq!(error.to_string(), r#"expected a product token of letters, "_" and "-", found '/' at byte 3"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidText(pub(crate) String);

impl fmt::Display for InvalidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for InvalidText {}
