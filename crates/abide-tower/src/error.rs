//! A call that was refused, or that failed below; and what an error of the service below says about the host.
//!
//! Above and below are services of others, with errors of theirs; `abide_http::failure_of` finds in the chain
//! what the gate has to know.

use std::error::Error;

use abide_gate::{Denied, Failure};
use abide_http::{Refused, failure_of, is_of_the_caller};
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

impl From<Refused> for ServiceError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.denied)
    }
}

impl ServiceError {
    /// The refusal, if it is one.
    pub fn refused(&self) -> Option<&Denied> {
        if let Self::Refused(denied) = self { Some(denied) } else { None }
    }
}

/// What a request met that failed below; `None` if the host may have no part in it.
pub(crate) fn failure(error: &(dyn Error + 'static)) -> Option<Failure> {
    if is_of_the_caller(error) {
        return None;
    }
    let failure = failure_of(error);
    #[cfg(feature = "hyper-util")]
    // First by the error itself: hyper-util's own says only how far the request had come.
    let failure = failure.or_else(|| of_hyper_util(error));
    failure
}

/// hyper-util's client says how far the request had come.
#[cfg(feature = "hyper-util")]
fn of_hyper_util(error: &(dyn Error + 'static)) -> Option<Failure> {
    use hyper_util::client::legacy::Error as Legacy;

    // No service wraps its errors deeper than this, and a chain could be a ring.
    let mut causes = std::iter::successors(Some(error), |&error| error.source()).take(16);
    let client = causes.find_map(|error| error.downcast_ref::<Legacy>())?;
    // An error without a source is the caller's: nothing was sent.
    client.source().map(|_| if client.is_connect() { Failure::Connect } else { Failure::Other })
}
