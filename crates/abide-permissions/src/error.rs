//! `PermissionError`: the one error of this crate.
//!
//! Reading never fails. A limit below what the specification asks for is refused, and a store may fail.

/// A limit is too small, or an operation of a store failed.
///
/// ```
/// use abide_permissions::{PermissionError, ReadOptions};
///
/// let too_small = ReadOptions::for_tokens([]).with_head_limit(1024).unwrap_err();
/// assert_eq!(too_small.to_string(), "expected a head limit of at least 8192 bytes, found 1024");
/// let of_your_store = PermissionError::new("no space is left");
/// assert!(of_your_store.to_string().ends_with("no space is left"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PermissionError(#[from] Kind);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("expected a {what} limit of at least {at_least} bytes, found {found}")]
    Limit { what: &'static str, at_least: usize, found: usize },
    #[error("expected the store of permissions to answer, found: {0}")]
    Store(Box<dyn std::error::Error + Send + Sync>),
}

impl PermissionError {
    /// Wraps the error of a store.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Kind::Store(error.into()))
    }

    /// Checks a limit.
    pub(crate) fn unless_at_least(at_least: usize, found: usize, what: &'static str) -> Result<usize, Self> {
        if found < at_least { Err(Self(Kind::Limit { what, at_least, found })) } else { Ok(found) }
    }
}
