//! What is to be committed together.
//!
//! A commit costs a sync of the disk, so rows wait here for about a second and are committed in one. Reads
//! look here first.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_gate::Origin;
use abide_gate::pacing::HostEntry;
use abide_gate::robots_cache::RobotsRecord;
use abide_permissions::PermissionRecord;

/// Waiting rows by their key. In order, which is how a tree likes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) records: BTreeMap<Origin, RobotsRecord>,
    pub(crate) permissions: BTreeMap<Box<str>, PermissionChanges>,
    pub(crate) backoffs: Backoffs,
    /// About how many bytes the records take.
    weight: usize,
}

/// The last row of each host, in times of the wall clock. `None`: forgotten.
pub(crate) type Backoffs = BTreeMap<Arc<str>, Option<HostEntry>>;

/// What was done to a record of permissions, in this order. `None`: it was removed.
pub(crate) type PermissionChanges = Vec<Option<PermissionRecord>>;

/// What becomes of a record of permissions. One that is saved is kept, unless the one that is there was
/// received later.
pub(crate) fn changed(
    record: Option<PermissionRecord>,
    changes: &[Option<PermissionRecord>],
) -> Option<PermissionRecord> {
    changes.iter().fold(record, |kept, change| match (kept, change) {
        // Responses end in another order than they came in: the last one received is the site's word.
        (Some(kept), Some(new)) if kept.outlives(new) => Some(kept),
        (_, change) => change.clone(),
    })
}

/// About what a record of permissions takes, which is not counted more exactly: a page has a few hundred
/// bytes of them, and no more than some kilobytes are common.
const PERMISSION_WEIGHT: usize = 2_048;

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.permissions.is_empty() && self.backoffs.is_empty()
    }

    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    pub(crate) fn save(&mut self, record: RobotsRecord) {
        self.weight = self.weight.saturating_add(record.weight());
        if let Some(old) = self.records.insert(record.origin().clone(), record) {
            self.weight = self.weight.saturating_sub(old.weight());
        }
    }

    pub(crate) fn change_permission(&mut self, url: &str, change: Option<PermissionRecord>) {
        self.weight = self.weight.saturating_add(PERMISSION_WEIGHT).saturating_add(url.len());
        self.permissions.entry(url.into()).or_default().push(change);
    }

    pub(crate) fn extend(&mut self, later: Self) {
        self.backoffs.extend(later.backoffs);
        for record in later.records.into_values() {
            self.save(record);
        }
        for (url, changes) in later.permissions {
            changes.into_iter().for_each(|change| self.change_permission(&url, change));
        }
    }
}
