//! One kind of record in the file: a table by key, and one by age, so that the oldest can be found without looking at all.

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};

use crate::error::Fault;
use crate::row;

/// How large each kind of record may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// What lies where.
pub(crate) struct Kind {
    rows: TableDefinition<'static, &'static str, &'static [u8]>,
    ages: TableDefinition<'static, (u64, &'static str), ()>,
}

pub(crate) const ROBOTS: Kind =
    Kind { rows: TableDefinition::new("robots"), ages: TableDefinition::new("robots-by-age") };

pub(crate) const PERMISSIONS: Kind =
    Kind { rows: TableDefinition::new("permissions"), ages: TableDefinition::new("permissions-by-age") };

/// So many old records are removed in one transaction: a backoff must not wait for more.
const STEP: usize = 4_096;

impl Kind {
    pub(crate) fn create(&self, write: &WriteTransaction) -> Result<(), Fault> {
        write.open_table(self.rows)?;
        write.open_table(self.ages)?;
        Ok(())
    }

    pub(crate) fn row<T>(
        &self,
        transaction: &ReadTransaction,
        key: &str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let row = transaction.open_table(self.rows)?.get(key)?;
        Ok(row.and_then(|row| read(row.value())))
    }

    pub(crate) fn len(&self, read: &ReadTransaction) -> Result<u64, Fault> {
        Ok(read.open_table(self.rows)?.len()?)
    }

    pub(crate) fn insert(
        &self,
        write: &WriteTransaction,
        key: &str,
        age: u64,
        row: &[u8],
        bytes: &mut u64,
    ) -> Result<(), Fault> {
        let (mut rows, mut ages) = (write.open_table(self.rows)?, write.open_table(self.ages)?);
        if let Some(old) = rows.insert(key, row)? {
            *bytes = bytes.saturating_sub(size(key, old.value()));
            ages.remove((row::age(old.value()), key))?;
        }
        ages.insert((age, key), ())?;
        *bytes = bytes.saturating_add(size(key, row));
        Ok(())
    }

    /// A row, as the transaction has it.
    pub(crate) fn read<T>(
        &self,
        write: &WriteTransaction,
        key: &str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let rows = write.open_table(self.rows)?;
        let row = rows.get(key)?;
        Ok(row.and_then(|row| read(row.value())))
    }

    pub(crate) fn remove(&self, write: &WriteTransaction, key: &str, bytes: &mut u64) -> Result<(), Fault> {
        let (mut rows, mut ages) = (write.open_table(self.rows)?, write.open_table(self.ages)?);
        if let Some(old) = rows.remove(key)? {
            *bytes = bytes.saturating_sub(size(key, old.value()));
            ages.remove((row::age(old.value()), key))?;
        }
        Ok(())
    }

    /// Removes the oldest until there is no more than there may be. Returns whether it stopped before that.
    pub(crate) fn shrink(
        &self,
        write: &WriteTransaction,
        limits: Limits,
        bytes: &mut u64,
    ) -> Result<bool, Fault> {
        let (mut rows, mut ages) = (write.open_table(self.rows)?, write.open_table(self.ages)?);
        for _ in 0..STEP {
            if rows.len()? <= limits.records && *bytes <= limits.bytes {
                return Ok(false);
            }
            let Some(oldest) = ages.pop_first()? else { return Ok(false) };
            let (_, key) = oldest.0.value();
            if let Some(old) = rows.remove(key)? {
                *bytes = bytes.saturating_sub(size(key, old.value()));
            }
        }
        Ok(true)
    }

    /// Removes some of those that are older, and says how many. None: there are no more.
    pub(crate) fn sweep(
        &self,
        write: &WriteTransaction,
        older_than: u64,
        bytes: &mut u64,
    ) -> Result<u64, Fault> {
        let (mut rows, mut ages) = (write.open_table(self.rows)?, write.open_table(self.ages)?);
        let mut swept = 0_u64;
        for _ in 0..STEP {
            let oldest = ages.first()?.map(|(key, _)| key.value().0);
            if oldest.is_none_or(|age| age >= older_than) {
                break;
            }
            let Some(oldest) = ages.pop_first()? else { break };
            let (_, key) = oldest.0.value();
            if let Some(old) = rows.remove(key)? {
                *bytes = bytes.saturating_sub(size(key, old.value()));
                swept = swept.saturating_add(1);
            }
        }
        Ok(swept)
    }

    /// Looks at every row. Only where the file does not say it.
    pub(crate) fn count_bytes(&self, write: &WriteTransaction) -> Result<u64, Fault> {
        let rows = write.open_table(self.rows)?;
        let mut bytes = 0_u64;
        for row in rows.iter()? {
            let (key, row) = row?;
            bytes = bytes.saturating_add(size(key.value(), row.value()));
        }
        Ok(bytes)
    }
}

fn size(key: &str, row: &[u8]) -> u64 {
    (key.len() as u64).saturating_add(row.len() as u64)
}
