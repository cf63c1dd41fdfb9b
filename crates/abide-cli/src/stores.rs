//! `--store`: where robots.txt, leases, backoffs and permissions are kept.
//!
//! The features `redb`, `redis` and `postgres` can be left out of a build.

#[cfg(any(feature = "redb", feature = "redis", feature = "postgres"))]
use std::sync::Arc;
use std::time::Duration;

use abide::{Builder, Gate};

use crate::args::StoreArg;
use crate::status::UsageError;

/// One store in its three roles.
#[derive(Debug, Clone)]
pub(crate) enum Stores {
    Memory,
    #[cfg(feature = "redb")]
    Redb(abide_redb::Store),
    #[cfg(feature = "redis")]
    Redis(abide_redis::Store),
    #[cfg(feature = "postgres")]
    Postgres(abide_postgres::Store),
}

/// How long a store may take to answer.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// A store that has gone silent must not keep a call from ending.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);

impl Stores {
    /// Opens what `--store` names. One that cannot be had is wrong usage: nothing has been asked then.
    pub(crate) async fn open(arg: &StoreArg) -> Result<Self, UsageError> {
        #[cfg(any(feature = "redb", feature = "redis", feature = "postgres"))]
        let wrong = |error: &dyn std::fmt::Display| UsageError(format!("--store: {error}"));
        match arg {
            StoreArg::Memory => Ok(Self::Memory),
            #[cfg(feature = "redb")]
            StoreArg::Redb(path) => {
                abide_redb::Store::open(path).map(Self::Redb).map_err(|error| wrong(&error))
            }
            #[cfg(feature = "redis")]
            StoreArg::Redis(url) => {
                // A server that has just started may be slow. Later the pacer has a limit of its own for each
                // command.
                let store = abide_redis::Store::builder(url).command_timeout(STORE_TIMEOUT);
                store.connect().await.map(Self::Redis).map_err(|error| wrong(&error))
            }
            #[cfg(feature = "postgres")]
            StoreArg::Postgres(url) => {
                let store = abide_postgres::Store::builder(url).command_timeout(STORE_TIMEOUT);
                store.connect().await.map(Self::Postgres).map_err(|error| wrong(&error))
            }
            #[cfg(not(feature = "redb"))]
            StoreArg::Redb(_) => Err(left_out("--store", "redb")),
            #[cfg(not(feature = "redis"))]
            StoreArg::Redis(_) => Err(left_out("--store", "redis")),
            #[cfg(not(feature = "postgres"))]
            StoreArg::Postgres(_) => Err(left_out("--store", "postgres")),
        }
    }

    pub(crate) fn on(&self, builder: Builder) -> Builder {
        match self.clone() {
            Self::Memory => builder,
            #[cfg(feature = "redb")]
            Self::Redb(store) => {
                let (robots, pace) = (Arc::new(store.clone()), Arc::new(store.clone()));
                builder.robots_store(robots).host_store(pace).permission_store(Arc::new(store))
            }
            #[cfg(feature = "redis")]
            Self::Redis(store) => {
                let (robots, pace) = (Arc::new(store.clone()), Arc::new(store.clone()));
                builder.robots_store(robots).host_store(pace).permission_store(Arc::new(store))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => {
                let (robots, pace) = (Arc::new(store.clone()), Arc::new(store.clone()));
                builder.robots_store(robots).host_store(pace).permission_store(Arc::new(store))
            }
        }
    }

    /// Writes what is still to be written: first what the gate, if there was one, has still to save.
    pub(crate) async fn close(self, gate: Option<Gate>) -> anyhow::Result<()> {
        // A backoff that is not stored is lost; a permit that is not given back keeps its host waiting until
        // its lease ends, the next call of this command too.
        if let Some(gate) = gate {
            gate.settled(SETTLED_WITHIN).await;
        }
        #[cfg(feature = "redb")]
        if let Self::Redb(store) = self {
            store.close().await?;
        }
        Ok(())
    }
}

/// Something that this build does not have.
#[cfg(not(all(feature = "redb", feature = "redis", feature = "postgres", feature = "serve")))]
pub(crate) fn left_out(what: &str, feature: &str) -> UsageError {
    UsageError(format!(
        "{what}: this abide was built without {feature}; install it with --features {feature}"
    ))
}
