//! The answers in use, before the cache: found by a slice of the URL, without making a key and without the cache's bookkeeping.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::origin::OriginOf;
use crate::robots_cache::RobotsEntry;

/// A table of as many places as there are hosts that a crawler is likely to ask at a time. Of two origins that share a place, the
/// last one that was looked up has it.
///
/// It keeps no answer alive: what the cache forgets is gone here as well, once no verdict holds it, and the cache's bound is the bound
/// of both.
pub(super) struct HotCache {
    places: Box<[Mutex<Place>]>,
}

#[derive(Default)]
struct Place {
    answer: Weak<RobotsEntry>,
    /// Since the cache was last told that the answer is in use.
    uses: u8,
}

/// Places: 32 octets each.
const PLACES: usize = 1024;

/// Every so many uses the cache is asked as well, so that it knows what is in use.
const USES_UNTOLD: u8 = 32;

impl HotCache {
    pub(super) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| Mutex::default()).collect() }
    }

    /// The answer for an origin, unless it is not here, or the cache is to be asked for it.
    pub(super) fn find(&self, origin: OriginOf<'_>) -> Option<Arc<RobotsEntry>> {
        let mut place = self.place(origin).lock().unwrap_or_else(PoisonError::into_inner);
        let answer = place.answer.upgrade().filter(|answer| origin.is(answer.origin()))?;
        place.uses = place.uses.checked_sub(1)?;
        Some(answer)
    }

    /// What the cache answers is found here from now on. It is asked with the place locked: what is published after it has answered
    /// comes here after that, too.
    pub(super) fn fill(
        &self,
        origin: OriginOf<'_>,
        ask: impl FnOnce() -> Option<Arc<RobotsEntry>>,
    ) -> Option<Arc<RobotsEntry>> {
        let mut place = self.place(origin).lock().unwrap_or_else(PoisonError::into_inner);
        let answer = ask();
        *place = answer.as_ref().map_or_else(Place::default, |answer| Place {
            answer: Arc::downgrade(answer),
            uses: USES_UNTOLD,
        });
        answer
    }

    #[allow(clippy::indexing_slicing, reason = "there are as many places as remainders")]
    fn place(&self, origin: OriginOf<'_>) -> &Mutex<Place> {
        &self.places[origin.mixed() as usize % PLACES]
    }
}
