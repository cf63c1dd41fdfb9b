//! Which process fetches a robots.txt, for stores that keep that in memory.
//!
//! The store in memory uses it, and so does `abide-redb`, whose file belongs to one process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::{HolderId, Origin, WallMillis};

/// The leases of a [`RobotsStore`](super::RobotsStore), in memory.
///
/// ```
/// use abide_gate::{HolderId, WallMillis, robots_cache::RobotsLeases};
///
/// let (leases, site, now) = (RobotsLeases::default(), "https://a.example".parse()?, WallMillis::from_millis(0));
/// let lease = |holder| leases.lease(&site, HolderId(holder), now, std::time::Duration::from_secs(60));
/// assert_eq!(lease(1), None, "the first process fetches robots.txt");
/// assert_eq!(lease(2), Some(WallMillis::from_millis(60_000)), "the second one waits for it");
/// # Ok::<(), abide_gate::UnsupportedUrl>(())
/// ```
#[derive(Debug, Default)]
pub struct RobotsLeases {
    by_origin: Mutex<HashMap<Origin, (HolderId, WallMillis)>>,
}

/// More leases than a process has fetches; beyond it, those that are over are forgotten, then all: a lease only saves a second fetch.
const LEASES_MAX: usize = 65_536;

impl RobotsLeases {
    /// Takes or renews the lease of an origin, as [`RobotsStore::lease`](super::RobotsStore::lease) says.
    pub fn lease(
        &self,
        origin: &Origin,
        holder: HolderId,
        now: WallMillis,
        ttl: Duration,
    ) -> Option<WallMillis> {
        let mut leases = self.by_origin.lock().unwrap_or_else(PoisonError::into_inner);
        match leases.get(origin) {
            // A lease that ends later than one begun now could was given by a clock that has been set back since.
            Some(&(other, until)) if other != holder && now < until && until <= now.plus(ttl) => Some(until),
            _ => {
                if leases.len() >= LEASES_MAX {
                    leases.retain(|_, (_, until)| now < *until);
                }
                if leases.len() >= LEASES_MAX {
                    leases.clear();
                }
                leases.insert(origin.clone(), (holder, now.plus(ttl)));
                None
            }
        }
    }

    /// Ends the lease of an origin; with a `holder`, only its own.
    pub fn release(&self, origin: &Origin, holder: Option<HolderId>) {
        let mut leases = self.by_origin.lock().unwrap_or_else(PoisonError::into_inner);
        if leases.get(origin).is_some_and(|(other, _)| holder.is_none_or(|holder| holder == *other)) {
            leases.remove(origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_leases_are_too_many_those_that_have_ended_go_first() {
        let leases = RobotsLeases::default();
        let lease = |n: usize, holder, now, millis| {
            let (origin, now) =
                (format!("https://h{n}.example").parse().unwrap(), WallMillis::from_millis(now));
            leases.lease(&origin, HolderId(holder), now, Duration::from_millis(millis))
        };
        let count = || leases.by_origin.lock().unwrap().len();
        // One that lasts, one that ends in the instant in which room is needed, and many that have ended before.
        lease(0, 1, 0, 60_000);
        lease(1, 1, 0, 1_000);
        (2..LEASES_MAX).for_each(|n| assert_eq!(lease(n, 1, 0, 10), None));
        assert_eq!(count(), LEASES_MAX);
        lease(LEASES_MAX, 1, 1_000, 10);
        assert_eq!(lease(0, 2, 1_000, 60_000), Some(WallMillis::from_millis(60_000)));
        assert_eq!(count(), 2);
        // Where none has ended, all go: a lease only saves a second fetch.
        (2..LEASES_MAX + 2).for_each(|n| assert_eq!(lease(n, 1, 1_000, 60_000), None));
        assert!(count() <= LEASES_MAX);
    }
}
