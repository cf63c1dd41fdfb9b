//! What the error of a request says about its host.

use std::error::Error as _;

use abide_gate::pacing::TransportFault;
use abide_http::{Phase, Symptoms};

use crate::silence::Silent;

/// The symptoms of a failed request; `None` if it never came to the wire.
pub(crate) fn of(error: &reqwest_middleware::Error) -> Option<Symptoms> {
    match error {
        reqwest_middleware::Error::Reqwest(error) => Some(of_reqwest(error)),
        reqwest_middleware::Error::Middleware(error) => {
            let silent = error.downcast_ref::<Silent>()?;
            Some(Symptoms::of(Some(silent)).during(Phase::Head).timed_out(true))
        }
    }
}

/// The outermost text has the URL in it and is passed over.
pub(crate) fn of_reqwest(error: &reqwest::Error) -> Symptoms {
    let symptoms = Symptoms::of(error.source()).timed_out(error.is_timeout());
    if error.is_connect() {
        symptoms.during(Phase::Connect)
    } else if error.is_decode() || error.is_body() {
        symptoms.during(Phase::Body)
    } else if error.is_request() {
        symptoms.during(Phase::Head)
    } else {
        symptoms
    }
}

/// A body that the server has ended with `ENHANCE_YOUR_CALM`.
pub(crate) fn asks_for_calm(error: &reqwest::Error) -> bool {
    of_reqwest(error).fault() == Some(TransportFault::EnhanceYourCalm)
}
