use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::Origin;
use crate::access::{Answer, GoodCopy, StoreError};

/// Something happened to an origin's robots.txt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AccessEvent<'a> {
    /// An attempt ended, by whatever way, after so long: its turns and redirects included.
    Took {
        /// Whose robots.txt was wanted.
        origin: &'a Origin,
        /// From its beginning to its end.
        took: Duration,
    },
    /// An attempt ended, with this answer.
    Asked {
        /// What is known now.
        answer: &'a Arc<Answer>,
    },
    /// The text is another one than before: a new one, the first one (`old` is `None`), or none, since the server has taken
    /// it away.
    Changed {
        /// What it said.
        old: Option<&'a GoodCopy>,
        /// What is known now.
        answer: &'a Arc<Answer>,
    },
    /// An attempt failed, and the last good copy applies.
    LastGood {
        /// What is known now.
        answer: &'a Arc<Answer>,
    },
    /// The store failed; the decision was made from memory and network.
    StoreFault {
        /// Whose record was wanted.
        origin: &'a Origin,
        /// What it said.
        error: &'a StoreError,
    },
}

/// Hears what happens. Closures `Fn(&AccessEvent<'_>)` are observers.
///
/// It is called from the fetching task, with no lock held. A panic in it is caught and changes nothing.
pub trait AccessObserver: Send + Sync + 'static {
    /// Hears of one event.
    fn observe(&self, event: &AccessEvent<'_>);
}

impl<F: Fn(&AccessEvent<'_>) + Send + Sync + 'static> AccessObserver for F {
    fn observe(&self, event: &AccessEvent<'_>) {
        self(event);
    }
}

/// Those who hear of events.
pub(crate) type Observers = Arc<[Arc<dyn AccessObserver>]>;

/// Tells somebody else's code, and survives it.
pub(crate) fn tell(observers: &Observers, event: &AccessEvent<'_>) {
    for observer in observers.iter() {
        let told = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
        if told.is_err() {
            super::log::observer_panicked();
        }
    }
}
