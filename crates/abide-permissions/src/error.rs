//! `PermissionError`: the one error of this crate.
//!
//! Reading a response never fails. A limit below what the specification asks for is refused, a tdmrep.json may be no JSON, and a store may
//! fail.

/// A limit is too small, a tdmrep.json cannot be read, or a store could not do its work. `Display` says which.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PermissionError(#[from] Kind);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("expected a {what} limit of at least {at_least} bytes, found {found}")]
    Limit { what: &'static str, at_least: usize, found: usize },
    #[error("expected a tdmrep.json, found no JSON: {0}")]
    Json(serde_json::Error),
    #[error(
        "expected a tdmrep.json, an array of objects with `location` and `tdm-reservation`, found another JSON value"
    )]
    Tdmrep,
    #[error("expected the store of permissions to answer, found: {0}")]
    Store(Box<dyn std::error::Error + Send + Sync>),
}

impl PermissionError {
    /// Wraps the error of a store.
    #[must_use]
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Kind::Store(error.into()))
    }

    pub(crate) fn not_json(error: serde_json::Error) -> Self {
        Self(Kind::Json(error))
    }

    pub(crate) fn not_tdmrep() -> Self {
        Self(Kind::Tdmrep)
    }

    /// Checks a limit.
    pub(crate) fn unless_at_least(at_least: usize, found: usize, what: &'static str) -> Result<usize, Self> {
        if found < at_least { Err(Self(Kind::Limit { what, at_least, found })) } else { Ok(found) }
    }
}
