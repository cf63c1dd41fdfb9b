//! `InvalidText`: the one error of this crate.
//!
//! Reading never fails. Only what callers name or write themselves is checked: product tokens, and the records of a file
//! that is built.

use alloc::string::String;
use core::fmt;

/// Text that is no product token, or no record that would be read as it was meant. `Display` says what was expected and
/// what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidText(pub(crate) String);

impl fmt::Display for InvalidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for InvalidText {}
