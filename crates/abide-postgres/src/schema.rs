//! What the database must have: `sql/1.sql` and the versions after it, made by the first process that
//! connects.
//!
//! Under a lock, because many processes start at once. A role that may not create a schema gets the
//! statements to hand to an administrator.

use tokio_postgres::{Client, Transaction};

use crate::Error;

#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) name: String,
}

/// Each goes on from the one before it. Processes of an earlier version go on, so a later one only adds.
const VERSIONS: [&str; 1] = [include_str!("sql/1.sql")];

const NAME_LEN_MAX: usize = 40;

/// Of the lock under which one process makes the schema. Any number: others use others.
const LOCK: i64 = 0x6162_6964_6500;

/// Why there is no schema to work with.
pub(crate) enum SchemaError {
    Newer(i32),
    Failed(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for SchemaError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failed(error)
    }
}

impl Schema {
    /// What SQL reads as it stands, without quotation marks.
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins_well = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        match begins_well && name.len() <= NAME_LEN_MAX && name.bytes().all(is_plain) {
            true => Ok(Self { name: name.to_owned() }),
            false => Err(Error::schema()),
        }
    }

    /// A statement about this schema, which it names `abide`.
    pub(crate) fn of(&self, sql: &str) -> String {
        sql.replace("abide.", &format!("{}.", self.name)).replace("'abide'", &format!("'{}'", self.name))
    }

    pub(crate) fn sql(&self) -> String {
        let create = format!("CREATE SCHEMA IF NOT EXISTS {};\n", self.name);
        create + &VERSIONS.map(|version| self.of(version)).concat()
    }

    /// Makes or migrates it, unless another process has.
    pub(crate) async fn ensure(&self, client: &mut Client) -> Result<(), SchemaError> {
        if self.version(client).await? == VERSIONS.len() {
            return Ok(());
        }
        let transaction = client.transaction().await?;
        transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
        self.migrate(&transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn migrate(&self, transaction: &Transaction<'_>) -> Result<(), SchemaError> {
        // After the lock, because the process that had it may have done all.
        let version = self.version(transaction.client()).await?;
        let name = &self.name;
        let is_there = format!("SELECT FROM pg_namespace WHERE nspname = '{name}'");
        if transaction.client().query_typed(&is_there, &[]).await?.is_empty() {
            transaction.batch_execute(&format!("CREATE SCHEMA {name}")).await?;
        }
        for sql in VERSIONS.iter().skip(version) {
            transaction.batch_execute(&self.of(sql)).await?;
        }
        Ok(())
    }

    /// 0: there is nothing.
    async fn version(&self, client: &Client) -> Result<usize, SchemaError> {
        // In the tables, because what is looked up by name may be remembered from before the lock.
        let is_there = "SELECT FROM pg_proc JOIN pg_namespace AS it ON it.oid = pronamespace
            WHERE proname = 'version' AND nspname = 'abide'";
        if client.query_typed(&self.of(is_there), &[]).await?.is_empty() {
            return Ok(0);
        }
        let rows = client.query_typed(&self.of("SELECT abide.version()"), &[]).await?;
        let version: i32 = rows.first().map_or(0, |row| row.get(0));
        match usize::try_from(version) {
            Ok(known) if known <= VERSIONS.len() => Ok(known),
            _ => Err(SchemaError::Newer(version)),
        }
    }
}
