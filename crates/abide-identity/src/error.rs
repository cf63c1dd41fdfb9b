//! Why a key cannot be used, or a request not be signed. No variant has a part of a private key.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a key cannot be used, or a request not be signed.
#[derive(Debug)]
pub struct IdentityError(Why);

#[derive(Debug)]
pub(crate) enum Why {
    /// The file cannot be read or written.
    File { path: PathBuf, error: std::io::Error },
    /// Others may read the file.
    Permissions { path: PathBuf, mode: u32 },
    /// The text is no key.
    Key { expected: &'static str },
    /// Everybody has this key.
    TestKey,
    /// The URL of `Signature-Agent`.
    Agent { url: String },
    /// The lifetime of signatures.
    Lifetime { seconds: u64 },
    /// The signer failed.
    Signer(Box<dyn std::error::Error + Send + Sync>),
    /// A field to cover cannot stand in a signature.
    Field { name: String },
}

impl IdentityError {
    pub(crate) fn key(expected: &'static str) -> Self {
        Self(Why::Key { expected })
    }

    pub(crate) fn file(path: &Path, error: std::io::Error) -> Self {
        Self(Why::File { path: path.to_owned(), error })
    }

    /// Whether the key was not read because others than its owner may read it.
    pub fn is_permissions(&self) -> bool {
        matches!(self.0, Why::Permissions { .. })
    }

    /// Whether the signer failed: the caller's own, or the machine's cryptography.
    pub fn is_signer(&self) -> bool {
        matches!(self.0, Why::Signer(_))
    }
}

impl From<Why> for IdentityError {
    fn from(why: Why) -> Self {
        Self(why)
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::File { path, .. } => write!(f, "the key file {} cannot be used", path.display()),
            Why::Permissions { path, mode } => write!(
                f,
                "expected a key file that only its owner may read, found {} with mode {mode:03o}; run chmod 600 on it",
                path.display()
            ),
            Why::Key { expected } => write!(f, "expected {expected}"),
            Why::TestKey => f.write_str(
                "expected a key of your own, found the test key of RFC 9421, which everybody has; make one with `abide identity new`",
            ),
            Why::Agent { url } => write!(
                f,
                "expected the https URL at which the keys are published, without user information and fragment, found {url:?}"
            ),
            Why::Lifetime { seconds } => {
                write!(f, "expected signatures that live for 1 s to 24 h, found {seconds} s")
            }
            Why::Signer(_) => f.write_str("the signer returned no signature"),
            Why::Field { name } => write!(f, "expected a value of visible ASCII in the field {name}, which is to be signed"),
        }
    }
}

impl std::error::Error for IdentityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Why::File { error, .. } => Some(error),
            Why::Signer(error) => Some(&**error),
            _ => None,
        }
    }
}
