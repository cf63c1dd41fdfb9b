//! A call that was refused, or that failed below.

use std::error::Error as StdError;
use std::fmt;

use abide_gate::Error;
use http::Uri;

use crate::BoxError;

/// What comes instead of a response.
///
/// Layers above may wrap or box it; [`Error::find`] finds the refusal in what they make of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// The gate refused the request: it did not go out, or its answer came from elsewhere
    /// ([`Denied::RedirectBypass`](abide_gate::Denied::RedirectBypass)).
    Refused(Error),
    /// The URI names no origin, so there is nobody to ask: it is relative, of a `CONNECT`, or no URL.
    NoOrigin {
        /// The URI of the request, without user information.
        uri: Uri,
    },
    /// The service below failed.
    Inner(BoxError),
}

impl ServiceError {
    /// The refusal, if it is one.
    pub fn refused(&self) -> Option<&Error> {
        match self {
            Self::Refused(error) => Some(error),
            Self::NoOrigin { .. } | Self::Inner(_) => None,
        }
    }
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::NoOrigin { uri } => write!(
                f,
                "expected an absolute http or https URI, found {:?}",
                uri.path_and_query().map_or("", |path| path.as_str())
            ),
            Self::Inner(_) => f.write_str("the inner service failed"),
        }
    }
}

impl StdError for ServiceError {
    /// Of a refusal the sentence, so that it is found also where a layer above shows this error as its own.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Refused(error) => error.source(),
            Self::NoOrigin { .. } => None,
            Self::Inner(error) => Some(&**error),
        }
    }
}
