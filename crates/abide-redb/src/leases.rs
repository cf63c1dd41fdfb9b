//! Which of the gates that share a store asks for a robots.txt. One process has the file, so memory is enough.

use std::collections::HashMap;
use std::time::Duration;

use abide_gate::{HolderId, Origin, WallMillis};

#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_origin: HashMap<Origin, (HolderId, WallMillis)>,
}

/// More leases than a process has fetches; beyond it, those that are over are forgotten, then all.
const LEASES_MAX: usize = 65_536;

impl Leases {
    pub(crate) fn lease(
        &mut self,
        origin: &Origin,
        holder: HolderId,
        now: WallMillis,
        ttl: Duration,
    ) -> Option<WallMillis> {
        match self.by_origin.get(origin) {
            // A lease that ends later than one begun now could was given by a clock that has been set back since.
            Some(&(other, until)) if other != holder && now < until && until <= now.plus(ttl) => {
                return Some(until);
            }
            _ => {}
        }
        if self.by_origin.len() >= LEASES_MAX {
            self.by_origin.retain(|_, (_, until)| now < *until);
        }
        if self.by_origin.len() >= LEASES_MAX {
            self.by_origin.clear();
        }
        self.by_origin.insert(origin.clone(), (holder, now.plus(ttl)));
        None
    }

    /// Ends the lease of an origin; with a holder, only its own.
    pub(crate) fn release(&mut self, origin: &Origin, holder: Option<HolderId>) {
        let is_meant = |other| holder.is_none_or(|holder| holder == other);
        if self.by_origin.get(origin).is_some_and(|(other, _)| is_meant(*other)) {
            self.by_origin.remove(origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_bounded() {
        let mut leases = Leases::default();
        for n in 0..70_000_u64 {
            let origin = format!("https://h{n}.example").parse().unwrap();
            leases.lease(&origin, HolderId(1), WallMillis::from_millis(n), Duration::from_secs(60));
        }
        assert!(leases.by_origin.len() <= LEASES_MAX);
    }
}
