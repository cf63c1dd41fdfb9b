//! One kind of record in the file: a table by key, and one by age, so that the oldest can be found without
//! looking at all.
//!
//! Records of robots.txt and of permissions are both removed by age when there are too many; this is what
//! they share.

use redb::{
    Error, ReadTransaction, ReadableTable, ReadableTableMetadata, Table, TableDefinition, WriteTransaction,
};

use crate::row;

type Rows = TableDefinition<'static, &'static str, &'static [u8]>;
type Ages = TableDefinition<'static, (u64, &'static str), ()>;

pub(crate) struct RecordTable {
    rows: Rows,
    ages: Ages,
}

pub(crate) const ROBOTS: RecordTable =
    RecordTable { rows: Rows::new("robots"), ages: Ages::new("robots-by-age") };

pub(crate) const PERMISSIONS: RecordTable =
    RecordTable { rows: Rows::new("permissions"), ages: Ages::new("permissions-by-age") };

/// So many old records are removed in one transaction: a backoff must not wait for more.
const STEP: u64 = 4_096;

impl RecordTable {
    pub(crate) fn read<T>(
        &self,
        transaction: &ReadTransaction,
        key: &str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let row = transaction.open_table(self.rows)?.get(key)?;
        Ok(row.and_then(|row| read(row.value())))
    }

    pub(crate) fn len(&self, transaction: &ReadTransaction) -> Result<u64, Error> {
        Ok(transaction.open_table(self.rows)?.len()?)
    }

    /// The records in a transaction, whose `bytes` are counted where the file does not say them.
    pub(crate) fn open<'t>(
        &self,
        transaction: &'t WriteTransaction,
        bytes: Option<u64>,
    ) -> Result<Records<'t>, Error> {
        let (rows, ages) = (transaction.open_table(self.rows)?, transaction.open_table(self.ages)?);
        let mut records = Records { rows, ages, bytes: bytes.unwrap_or_default() };
        if bytes.is_none() {
            for row in records.rows.iter()? {
                let (key, row) = row?;
                records.bytes = records.bytes.saturating_add(size(key.value(), row.value()));
            }
        }
        Ok(records)
    }
}

pub(crate) struct Records<'t> {
    rows: Table<'t, &'static str, &'static [u8]>,
    ages: Table<'t, (u64, &'static str), ()>,
    /// Of all keys and rows.
    pub(crate) bytes: u64,
}

impl Records<'_> {
    pub(crate) fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        Ok(self.rows.get(key)?.and_then(|row| read(row.value())))
    }

    pub(crate) fn insert(&mut self, key: &str, age: u64, row: &[u8]) -> Result<(), Error> {
        // Its age as well: the index must not lead to a row that is younger than it says.
        self.remove(key)?;
        self.rows.insert(key, row)?;
        self.ages.insert((age, key), ())?;
        self.bytes = self.bytes.saturating_add(size(key, row));
        Ok(())
    }

    pub(crate) fn remove(&mut self, key: &str) -> Result<(), Error> {
        if let Some(old) = self.rows.remove(key)? {
            self.bytes = self.bytes.saturating_sub(size(key, old.value()));
            self.ages.remove((row::age(old.value()), key))?;
        }
        Ok(())
    }

    /// Removes the oldest until there is no more than there may be, or enough for one transaction. Returns
    /// whether it was enough.
    ///
    /// First goes what is from after `now`: a clock was ahead, and what is saved with a right one would be
    /// the oldest, and go at once.
    pub(crate) fn shrink(&mut self, records_max: u64, bytes_max: u64, now: u64) -> Result<bool, Error> {
        let removed =
            self.remove_oldest(now, |records, bytes, _| records > records_max || bytes > bytes_max)?;
        Ok(removed == STEP)
    }

    /// Removes some of those that are older, and returns how many. None: there are no more.
    pub(crate) fn sweep(&mut self, older_than: u64) -> Result<u64, Error> {
        self.remove_oldest(u64::MAX, |_, _, age| age < older_than)
    }

    /// Removes those from after `now`, then the oldest. `goes` says of the number of the records, of their
    /// bytes and of the age of the next one whether that one is removed.
    fn remove_oldest(&mut self, now: u64, goes: impl Fn(u64, u64, u64) -> bool) -> Result<u64, Error> {
        for removed in 0..STEP {
            let next = match self.ages.last()?.filter(|(key, _)| key.value().0 > now) {
                Some(newest) => Some(newest),
                None => self.ages.first()?,
            };
            let next = next.map(|(key, _)| (key.value().0, key.value().1.to_owned()));
            match next {
                Some((age, key)) if goes(self.rows.len()?, self.bytes, age) => {
                    // By itself too: an age without its row would be the oldest for ever, and nothing would
                    // be removed.
                    self.ages.remove((age, &*key))?;
                    self.remove(&key)?;
                }
                _ => return Ok(removed),
            }
        }
        Ok(STEP)
    }
}

fn size(key: &str, row: &[u8]) -> u64 {
    (key.len() as u64).saturating_add(row.len() as u64)
}
