//! What the error of a request says about its host.

use abide_gate::Failure;
use abide_http::{body_failure_of, failure_of};

use crate::read_timeout::ReadTimedOut;

/// What a failed request met; `None` if the host has no part in it.
pub(crate) fn of(error: &reqwest_middleware::Error) -> Option<Failure> {
    match error {
        reqwest_middleware::Error::Reqwest(error) => of_reqwest(error),
        reqwest_middleware::Error::Middleware(error) => failure_of(error.downcast_ref::<ReadTimedOut>()?),
    }
}

pub(crate) fn of_reqwest(error: &reqwest::Error) -> Option<Failure> {
    if error.is_builder() {
        None
    } else if error.is_timeout() {
        Some(Failure::Timeout)
    } else if error.is_decode() || error.is_body() {
        Some(body_failure_of(error))
    } else if let Some(failure) = failure_of(error) {
        Some(failure)
    } else if error.is_connect() {
        Some(Failure::Connect)
    } else {
        error.is_request().then_some(Failure::Other)
    }
}
