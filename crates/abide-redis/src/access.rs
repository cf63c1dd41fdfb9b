//! Records of robots.txt, and who is fetching one.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::access::{AccessStore, BoxFuture, Lease, LeaseHolder, Record, StoreError};
use abide_gate::{Origin, WallMillis};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd, pipe};

use crate::link::Link;
use crate::{Error, Store};

/// So many records are looked at in one go when old ones are swept away: 8 MB at most.
const SWEPT_AT_ONCE: usize = 16;

impl AccessStore for Store {
    fn load<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Result<Option<Record>, StoreError>> {
        let (link, key) = (Arc::clone(&self.link), self.link.keys.robots(origin.as_str()));
        Box::pin(async move {
            let bytes = self.link.run(async move { load(&link, &key).await }).await?;
            // What cannot be read is absent: it is fetched again.
            Ok(bytes.and_then(|bytes| Record::decode(&bytes)))
        })
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a Record) -> BoxFuture<'a, Result<(), StoreError>> {
        let (link, key) = (Arc::clone(&self.link), self.link.keys.robots(origin.as_str()));
        let (lease, life) = (self.link.keys.lease(origin.as_str()), millis(self.record_life));
        Box::pin(async move {
            let bytes = record.encode();
            Ok(self.link.run(async move { save(&link, &key, bytes, life, &lease).await }).await?)
        })
    }

    fn lease<'a>(
        &'a self,
        origin: &'a Origin,
        holder: LeaseHolder,
        now: WallMillis,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        let ask = Ask { link: Arc::clone(&self.link), key: self.link.keys.lease(origin.as_str()), holder };
        Box::pin(async move { Ok(self.link.run(async move { ask.lease(now, ttl).await }).await?) })
    }

    fn release<'a>(
        &'a self,
        origin: &'a Origin,
        holder: LeaseHolder,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let ask = Ask { link: Arc::clone(&self.link), key: self.link.keys.lease(origin.as_str()), holder };
        Box::pin(async move { Ok(self.link.run(async move { ask.release().await }).await?) })
    }

    fn sweep(&self, older_than: WallMillis) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move { Ok(sweep(&self.link, older_than).await?) })
    }
}

async fn load(link: &Arc<Link>, key: &str) -> Result<Option<Vec<u8>>, Error> {
    let session = link.session().await?;
    let loaded = cmd("GET").arg(key).query_async(&mut session.connection.clone()).await;
    loaded.map_err(|error| link.failed(&session, &error))
}

/// The lease of that origin has ended with it.
async fn save(link: &Arc<Link>, key: &str, bytes: Vec<u8>, life: u64, lease: &str) -> Result<(), Error> {
    let session = link.session().await?;
    let mut both = pipe();
    both.atomic().cmd("SET").arg(key).arg(bytes).arg("PX").arg(life).cmd("DEL").arg(lease);
    let saved = both.query_async::<Value>(&mut session.connection.clone()).await;
    saved.map(drop).map_err(|error| link.failed(&session, &error))
}

/// Asks to be the one who fetches a robots.txt. The key holds the holder and the end of its lease, by the clocks of the processes; it
/// goes by itself, by the server's clock, if its holder has died.
struct Ask {
    link: Arc<Link>,
    key: String,
    holder: LeaseHolder,
}

/// Others can be faster so often.
const TRIES: usize = 8;

/// By so much may the clock of one process be ahead of another's.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

impl Ask {
    async fn lease(&self, now: WallMillis, ttl: Duration) -> Result<Lease, Error> {
        let session = self.link.session().await?;
        let mut first = pipe();
        first.cmd("SET").arg(&self.key).arg(self.text(now, ttl)).arg("NX").arg("PX").arg(millis(ttl));
        first.cmd("GET").arg(&self.key);
        let asked = first.query_async(&mut session.connection.clone()).await;
        let (set, held): (Value, Option<String>) =
            asked.map_err(|error| self.link.failed(&session, &error))?;
        match held {
            _ if set != Value::Nil => return Ok(Lease::Leader),
            Some(held) => {
                if let Some(until) = self.other(&held, now, ttl) {
                    return Ok(Lease::Follow { until });
                }
            }
            None => {}
        }
        self.take_over(now, ttl).await
    }

    /// The end of another's lease, if that is alive. One that ends much later than one begun now could was given by a clock that has
    /// been set back since.
    fn other(&self, held: &str, now: WallMillis, ttl: Duration) -> Option<WallMillis> {
        let (holder, until) = read(held)?;
        (holder != self.holder && now < until && until <= now.plus(ttl).plus(CLOCKS_DIFFER)).then_some(until)
    }

    /// The lease is ours already, or it is over: it is replaced, if nobody else does so meanwhile.
    async fn take_over(&self, now: WallMillis, ttl: Duration) -> Result<Lease, Error> {
        let mut follow = None;
        self.change(|held| {
            follow = held.and_then(|held| self.other(held, now, ttl));
            match follow {
                Some(_) => None,
                None => {
                    let mut set = cmd("SET");
                    set.arg(&self.key).arg(self.text(now, ttl)).arg("PX").arg(millis(ttl));
                    Some(set)
                }
            }
        })
        .await?;
        Ok(follow.map_or(Lease::Leader, |until| Lease::Follow { until }))
    }

    async fn release(&self) -> Result<(), Error> {
        self.change(|held| {
            let is_ours = held.and_then(read).is_some_and(|(holder, _)| holder == self.holder);
            is_ours.then(|| {
                let mut remove = cmd("DEL");
                remove.arg(&self.key);
                remove
            })
        })
        .await
    }

    /// Changes what the key holds, if nobody else does so meanwhile. `None`: it stays.
    async fn change(&self, mut decide: impl FnMut(Option<&str>) -> Option<redis::Cmd>) -> Result<(), Error> {
        let session = self.link.session().await?;
        let mut spare = self.link.spare(&session).await?;
        for _ in 0..TRIES {
            let changed = self.try_change(&mut spare.connection, &mut decide).await;
            if changed.map_err(|error| self.link.failed(&session, &error))? {
                self.link.put_back(spare);
                return Ok(());
            }
        }
        Err(Error::unexpected(&self.link.server))
    }

    async fn try_change(
        &self,
        connection: &mut MultiplexedConnection,
        decide: &mut impl FnMut(Option<&str>) -> Option<redis::Cmd>,
    ) -> Result<bool, RedisError> {
        let mut look = pipe();
        look.cmd("WATCH").arg(&self.key).ignore().cmd("GET").arg(&self.key);
        let (held,): (Option<String>,) = look.query_async(connection).await?;
        let Some(change) = decide(held.as_deref()) else {
            cmd("UNWATCH").exec_async(connection).await?;
            return Ok(true);
        };
        Ok(pipe().atomic().add_command(change).query_async::<Value>(connection).await? != Value::Nil)
    }

    fn text(&self, now: WallMillis, ttl: Duration) -> String {
        format!("{:016x} {}", self.holder.0, now.plus(ttl).0)
    }
}

fn read(held: &str) -> Option<(LeaseHolder, WallMillis)> {
    let (holder, until) = held.split_once(' ')?;
    Some((LeaseHolder(u64::from_str_radix(holder, 16).ok()?), WallMillis(until.parse().ok()?)))
}

/// Looks at every record. Each step is a command of its own, so others are not kept waiting.
async fn sweep(link: &Arc<Link>, older_than: WallMillis) -> Result<u64, Error> {
    let (mut cursor, mut swept) = (0_u64, 0);
    loop {
        let (next, keys) = {
            let link = Arc::clone(link);
            link.clone().run(async move { scan(&link, cursor).await }).await?
        };
        for keys in keys.chunks(SWEPT_AT_ONCE) {
            let (link, keys) = (Arc::clone(link), keys.to_vec());
            swept += link.clone().run(async move { sweep_some(&link, &keys, older_than).await }).await?;
        }
        if next == 0 {
            return Ok(swept);
        }
        cursor = next;
    }
}

async fn scan(link: &Arc<Link>, cursor: u64) -> Result<(u64, Vec<String>), Error> {
    let session = link.session().await?;
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(link.keys.every_robots()).arg("COUNT").arg(200);
    let found = scan.query_async(&mut session.connection.clone()).await;
    found.map_err(|error| link.failed(&session, &error))
}

/// A record that is written anew between the two looks is lost, and fetched again.
async fn sweep_some(link: &Arc<Link>, keys: &[String], older_than: WallMillis) -> Result<u64, Error> {
    let session = link.session().await?;
    let mut connection = session.connection.clone();
    let (mut look, mut remove) = (pipe(), pipe());
    for key in keys {
        look.cmd("GET").arg(key);
    }
    let records: Vec<Option<Vec<u8>>> =
        look.query_async(&mut connection).await.map_err(|error| link.failed(&session, &error))?;
    for (key, record) in keys.iter().zip(records) {
        let record = record.and_then(|bytes| Record::decode(&bytes));
        if record.is_some_and(|record| record.asked_at() < older_than) {
            remove.cmd("DEL").arg(key);
        }
    }
    if remove.is_empty() {
        return Ok(0);
    }
    let removed: Vec<u64> =
        remove.query_async(&mut connection).await.map_err(|error| link.failed(&session, &error))?;
    Ok(removed.into_iter().sum())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).clamp(1, EVER)
}

/// Redis refuses expiries that overflow; a hundred years are for ever.
const EVER: u64 = 100 * 366 * 86_400_000;
