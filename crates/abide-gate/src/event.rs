//! What the gate tells: to observers, for metrics, and to `tracing` (feature).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::access::AccessEvent;
use crate::error::Denied;
use crate::pacing::{PaceEvent, PaceObserver};
use crate::verdict::Verdict;
use crate::{Origin, access};

/// Something worth counting.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Something happened to a robots.txt: asked for, changed, its last good copy served, its store failed.
    Robots(&'a AccessEvent<'a>),
    /// Something happened to a host's turns: granted, deferred, held.
    Pacing(&'a PaceEvent<'a>),
    /// A URL of this origin was judged by robots.txt.
    Judged {
        /// The origin.
        origin: &'a Origin,
        /// Yes or no, and why.
        verdict: &'a Verdict,
    },
    /// robots.txt was passed over.
    Overridden {
        /// The origin.
        origin: &'a Origin,
        /// The reason that was given.
        reason: &'a str,
    },
    /// A request through a client ended with a refusal.
    Refused {
        /// Which.
        denied: &'a Denied,
        /// Which hop of the redirect chain it was; 0 is the request itself.
        hop: usize,
    },
}

/// Hears of every [`Event`]. Closures `Fn(&Event<'_>)` are observers.
///
/// It is called in the middle of requests, with no lock held: count, and return. A panic in it is caught and changes nothing.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Those who hear of everything. Often nobody.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<[Arc<dyn Observer>]>);

impl Observers {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self(observers.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells somebody else's code, and survives it.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        for observer in self.0.iter() {
            survive(|| observer.observe(event));
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observers({})", self.0.len())
    }
}

/// The pacer has one observer: those of everything, and those of the pacing alone.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) all: Observers,
    pub(crate) pacing: Vec<Arc<dyn PaceObserver>>,
}

impl PaceObserver for Listeners {
    fn observe(&self, event: &PaceEvent<'_>) {
        self.all.tell(&Event::Pacing(event));
        for observer in &self.pacing {
            survive(|| observer.observe(event));
        }
    }
}

fn survive(telling: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(telling)).is_err() {
        access::observer_panicked();
    }
}
