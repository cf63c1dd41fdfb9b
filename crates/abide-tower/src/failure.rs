//! What the error of an inner service says about the host.

use std::error::Error;

use abide_gate::Failure;
use abide_http::failure_of;

/// What a request met that failed below; `None` if the host may have no part in it.
pub(crate) fn of(error: &(dyn Error + 'static)) -> Option<Failure> {
    failure_of(error).or_else(|| of_hyper_util(error))
}

/// hyper-util's client says how far the request had come.
#[cfg(feature = "hyper-util")]
fn of_hyper_util(error: &(dyn Error + 'static)) -> Option<Failure> {
    use hyper_util::client::legacy::Error as Legacy;

    let mut causes = std::iter::successors(Some(error), |&error| error.source()).take(CAUSES_MAX);
    let client = causes.find_map(|error| error.downcast_ref::<Legacy>())?;
    // An error without a source is the caller's: nothing was sent.
    let failure = if client.is_connect() { Failure::Connect } else { Failure::Other };
    client.source().map(|_| failure)
}

#[cfg(not(feature = "hyper-util"))]
fn of_hyper_util(_: &(dyn Error + 'static)) -> Option<Failure> {
    None
}

/// No service wraps its errors deeper than this, and a chain could be a ring.
#[cfg(feature = "hyper-util")]
const CAUSES_MAX: usize = 16;
