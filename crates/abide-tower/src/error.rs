//! A call that was refused, or that failed below.

use abide_gate::Denied;
use http::Uri;
use thiserror::Error;

use crate::BoxError;

/// Why there is no response.
///
/// Layers above may wrap or box it; [`Denied::find`] still finds the refusal.
///
/// ```
/// use abide_tower::ServiceError;
///
/// fn print(error: &ServiceError) {
///     match error.refused() {
///         Some(denied) => println!("not sent: {denied}"),
///         None => println!("failed: {error}"),
///     }
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// abide refused the request: it was not sent, or the response came from elsewhere
    /// ([`DeniedKind::RedirectBypass`](abide_gate::DeniedKind::RedirectBypass)).
    #[error(transparent)]
    Refused(#[from] Denied),
    /// The URI has no origin, so no robots.txt applies: it is relative, of a `CONNECT`, or invalid.
    #[error("expected an absolute http or https URI, found {:?}", uri.path_and_query().map_or("", |path| path.as_str()))]
    NoOrigin {
        /// The URI of the request, without user information.
        uri: Uri,
    },
    /// The service below failed.
    #[error("the inner service failed")]
    Inner(#[source] BoxError),
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
