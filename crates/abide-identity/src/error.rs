//! Why a key cannot be used, or a request cannot be signed. No variant has a part of a private key.
//!
//! One type for all of the crate, because callers do one thing with it: show it and stop.

use std::path::{Path, PathBuf};

/// A key cannot be used, or a request cannot be signed.
///
/// ```
/// let error = abide_identity::Key::from_text("no key").unwrap_err();
/// assert!(!error.is_permissions() && error.to_string().starts_with("expected a PEM block PRIVATE KEY"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct IdentityError(#[from] Why);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Why {
    #[error("the key file {} cannot be used", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error(
        "expected a key file that only its owner may read, found {} with mode {mode:03o}; run chmod 600 on it",
        path.display()
    )]
    Permissions { path: PathBuf, mode: u32 },
    #[error("expected {expected}")]
    Key { expected: &'static str },
    #[error(
        "expected a key of your own, found the test key of RFC 9421, which is public; make one with `abide identity new`"
    )]
    TestKey,
    #[error(
        "expected the https URL at which the keys are published, without user information and fragment, found {url:?}"
    )]
    Agent { url: String },
    #[error("expected signatures that live for 1 s to 24 h, found {seconds} s")]
    Lifetime { seconds: u64 },
    #[error("the signer returned no signature")]
    Signer(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("expected a value of visible ASCII in the field {name}, which is to be signed")]
    Field { name: String },
}

impl IdentityError {
    pub(crate) fn key(expected: &'static str) -> Self {
        Self(Why::Key { expected })
    }

    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        Self(Why::File { path: path.to_owned(), source })
    }

    /// Whether the key was not read because others than its owner may read it.
    pub fn is_permissions(&self) -> bool {
        matches!(self.0, Why::Permissions { .. })
    }

    /// Whether the signer failed: your own, or the cryptography library.
    pub fn is_signer(&self) -> bool {
        matches!(self.0, Why::Signer(_))
    }
}
