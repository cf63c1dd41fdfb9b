//! What is to be committed together.

use std::collections::BTreeMap;

use abide_gate::Origin;
use abide_gate::access::Record;
use abide_gate::pacing::ScopeKey;
use abide_permissions::PermissionRecord;

use crate::row::BackoffRow;

/// Waiting rows by their key, the last of each. In order, which is how a tree likes it.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) records: BTreeMap<Origin, Record>,
    /// `None`: removed.
    pub(crate) permissions: BTreeMap<Box<str>, Option<PermissionRecord>>,
    /// `None`: forgotten.
    pub(crate) backoffs: BTreeMap<ScopeKey, Option<BackoffRow>>,
    /// It is the last one, and everything has been said.
    pub(crate) closes: bool,
    /// About how many bytes the records take.
    weight: usize,
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

    pub(crate) fn save(&mut self, record: &Record) {
        self.weight += record.weight();
        if let Some(old) = self.records.insert(record.origin().clone(), record.clone()) {
            self.weight = self.weight.saturating_sub(old.weight());
        }
    }

    pub(crate) fn permission(&mut self, url: &str, record: Option<PermissionRecord>) {
        if self.permissions.insert(url.into(), record).is_none() {
            self.weight += PERMISSION_WEIGHT + url.len();
        }
    }

    pub(crate) fn backoffs(&mut self, rows: impl IntoIterator<Item = (ScopeKey, Option<BackoffRow>)>) {
        self.backoffs.extend(rows);
    }

    /// Takes back what could not be committed, as far as nothing newer is waiting, and nothing beyond `weight_max`: what is lost
    /// is asked for again. Returns how many records were dropped.
    pub(crate) fn take_back(&mut self, old: &Self, weight_max: usize) -> usize {
        let mut dropped = 0;
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
                false => dropped += 1,
            }
        }
        for (url, record) in &old.permissions {
            if self.permissions.contains_key(url) {
                continue;
            }
            match self.weight < weight_max {
                true => self.permission(url, record.clone()),
                false => dropped += 1,
            }
        }
        dropped
    }
}
