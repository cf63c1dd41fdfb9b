//! A call that was refused, or that failed below.

use std::error::Error;
use std::fmt;

use abide_gate::Denied;
use http::Uri;

use crate::BoxError;

/// What comes instead of a response.
///
/// Layers above may wrap or box it; [`Denied::find`] finds the refusal in what they make of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// The gate refused the request: it did not go out, or its answer came from elsewhere
    /// ([`DeniedKind::RedirectBypass`](abide_gate::DeniedKind::RedirectBypass)).
    Refused(Denied),
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
    pub fn refused(&self) -> Option<&Denied> {
        match self {
            Self::Refused(denied) => Some(denied),
            Self::NoOrigin { .. } | Self::Inner(_) => None,
        }
    }
}

impl From<Denied> for ServiceError {
    fn from(denied: Denied) -> Self {
        Self::Refused(denied)
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(denied) => denied.fmt(f),
            Self::NoOrigin { uri } => write!(
                f,
                "expected an absolute http or https URI, found {:?}",
                uri.path_and_query().map_or("", |path| path.as_str())
            ),
            Self::Inner(_) => f.write_str("the inner service failed"),
        }
    }
}

impl Error for ServiceError {
    /// Of a refusal its own source, because this error shows the refusal as its own.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(denied) => denied.source(),
            Self::NoOrigin { .. } => None,
            Self::Inner(error) => Some(&**error),
        }
    }
}
