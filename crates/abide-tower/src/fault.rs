//! What the error of an inner service says about the host.

use std::error::Error;
use std::fmt::Debug;

use abide_http::{Phase, Symptoms};

/// The symptoms of a request that failed below. Services do not name their phases; hyper-util's client says them in its text, and a
/// test pins that.
pub(crate) fn of(error: &(dyn Error + 'static)) -> Symptoms {
    let said = Said::by(error);
    let symptoms = Symptoms::of(Some(error)).timed_out(said.timed_out);
    match said.phase {
        Some(phase) => symptoms.during(phase),
        None => symptoms,
    }
}

/// A body that the server has ended with `ENHANCE_YOUR_CALM`. Errors of bodies are of any type: hyper's own, or in a box. What all of them
/// have is a `Debug` text, in which hyper and h2 name the code; a test pins that.
pub(crate) fn asks_for_calm(error: &impl Debug) -> bool {
    format!("{error:?}").contains("ENHANCE_YOUR_CALM")
}

#[derive(Default)]
struct Said {
    phase: Option<Phase>,
    timed_out: bool,
}

impl Said {
    fn by(error: &(dyn Error + 'static)) -> Self {
        let mut said = Self::default();
        let mut next = Some(error);
        for _ in 0..CAUSES_MAX {
            let Some(error) = next else { break };
            match error.to_string().as_str() {
                "client error (Connect)" => said.phase = Some(Phase::Connect),
                "client error (SendRequest)" => said.phase = Some(Phase::Head),
                // tower's Timeout, tokio's timeout.
                "request timed out" | "deadline has elapsed" => said.timed_out = true,
                _ => {}
            }
            next = error.source();
        }
        said
    }
}

/// As many causes as [`Symptoms`] reads.
const CAUSES_MAX: usize = 16;
