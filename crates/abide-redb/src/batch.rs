//! What is to be committed together.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_gate::Origin;
use abide_gate::robots_cache::RobotsRecord;
use abide_permissions::PermissionRecord;

use crate::row::BackoffRow;

/// Waiting rows by their key, the last of each. In order, which is how a tree likes it.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) records: BTreeMap<Origin, RobotsRecord>,
    pub(crate) permissions: BTreeMap<Box<str>, Permission>,
    /// `None`: forgotten.
    pub(crate) backoffs: BTreeMap<Arc<str>, Option<BackoffRow>>,
    /// It is the last one, and everything has been said.
    pub(crate) closes: bool,
    /// About how many bytes the records take.
    weight: usize,
}

/// What is to become of a record of permissions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permission {
    /// The one that is there is removed, however late it was received.
    pub(crate) is_removed: bool,
    /// Kept, unless the one that is there was received later.
    pub(crate) record: Option<PermissionRecord>,
}

impl Permission {
    /// What becomes of it after something else has.
    pub(crate) fn after(self, earlier: Self) -> Self {
        match self.is_removed {
            true => self,
            false => {
                Self { is_removed: earlier.is_removed, record: received_later(self.record, earlier.record) }
            }
        }
    }
}

/// The one that counts: `new`, unless `old` was received later.
pub(crate) fn received_later(
    new: Option<PermissionRecord>,
    old: Option<PermissionRecord>,
) -> Option<PermissionRecord> {
    match (new, old) {
        (Some(new), Some(old)) if old.outlives(&new) => Some(old),
        (new, old) => new.or(old),
    }
}

/// About what a record of permissions takes, which is not counted more exactly: a page has a few hundred bytes of them, and no
/// more than some kilobytes are common.
const PERMISSION_WEIGHT: usize = 2_048;

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.permissions.is_empty() && self.backoffs.is_empty()
    }

    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    pub(crate) fn save(&mut self, record: &RobotsRecord) {
        self.weight = self.weight.saturating_add(record.weight());
        if let Some(old) = self.records.insert(record.origin().clone(), record.clone()) {
            self.weight = self.weight.saturating_sub(old.weight());
        }
    }

    pub(crate) fn permission(&mut self, url: &str, permission: Permission) {
        match self.permissions.get_mut(url) {
            Some(waiting) => *waiting = permission.after(std::mem::take(waiting)),
            None => {
                self.permissions.insert(url.into(), permission);
                self.weight = self.weight.saturating_add(PERMISSION_WEIGHT).saturating_add(url.len());
            }
        }
    }

    pub(crate) fn backoffs(&mut self, rows: impl IntoIterator<Item = (Arc<str>, Option<BackoffRow>)>) {
        self.backoffs.extend(rows);
    }

    /// Takes back what could not be committed, as far as nothing newer is waiting, and nothing beyond `weight_max`: what is lost
    /// is asked for again. Returns how many records were dropped.
    pub(crate) fn take_back(&mut self, old: &Self, weight_max: usize) -> usize {
        let mut dropped = 0_usize;
        for (host, row) in &old.backoffs {
            self.backoffs.entry(host.clone()).or_insert(*row);
        }
        for record in old.records.values() {
            if self.records.contains_key(record.origin()) {
                continue;
            }
            // When a site began to fail is what the 30-day rule counts from: a few hundred bytes, if it has no copy.
            match self.weight < weight_max || record.failing_since().is_some() && record.copy().is_none() {
                true => self.save(record),
                false => dropped = dropped.saturating_add(1),
            }
        }
        for (url, permission) in &old.permissions {
            if let Some(newer) = self.permissions.get_mut(url) {
                *newer = std::mem::take(newer).after(permission.clone());
                continue;
            }
            match self.weight < weight_max {
                true => self.permission(url, permission.clone()),
                false => dropped = dropped.saturating_add(1),
            }
        }
        dropped
    }
}
