//! Records of robots.txt, and who is fetching one.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::access::{AccessStore, BoxFuture, Lease, LeaseHolder, Record, StoreError};
use abide_gate::{Origin, WallMillis};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd, pipe};

use crate::link::Link;
use crate::node::{Node, Reached};
use crate::text::Text;
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
    let load = |at: Reached| async move {
        let loaded = cmd("GET").arg(key).query_async(&mut at.connection()).await;
        loaded.map_err(|error| at.failed(&error))
    };
    link.at(key, load).await
}

/// The lease of that origin has ended with it.
async fn save(link: &Arc<Link>, key: &str, bytes: Vec<u8>, life: u64, lease: &str) -> Result<(), Error> {
    let mut both = pipe();
    both.atomic().cmd("SET").arg(key).arg(bytes).arg("PX").arg(life).cmd("DEL").arg(lease);
    let both = &both;
    let save = |at: Reached| async move {
        let saved = both.query_async::<Value>(&mut at.connection()).await;
        saved.map(drop).map_err(|error| at.failed(&error))
    };
    link.at(key, save).await
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
        let mut first = pipe();
        first.cmd("SET").arg(&self.key).arg(self.text(now, ttl)).arg("NX").arg("PX").arg(millis(ttl));
        first.cmd("GET").arg(&self.key);
        let first = &first;
        let ask = |at: Reached| async move {
            let asked = first.query_async(&mut at.connection()).await;
            asked.map_err(|error| at.failed(&error))
        };
        let (set, held): (Value, Option<Text>) = self.link.at(&self.key, ask).await?;
        match held {
            _ if set != Value::Nil => return Ok(Lease::Leader),
            Some(Text(held)) => {
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
        let follow = |held: Option<&str>| held.and_then(|held| self.other(held, now, ttl));
        let before = self.change(|held| match follow(held) {
            Some(_) => None,
            None => {
                let mut set = cmd("SET");
                set.arg(&self.key).arg(self.text(now, ttl)).arg("PX").arg(millis(ttl));
                Some(set)
            }
        });
        Ok(follow(before.await?.as_deref()).map_or(Lease::Leader, |until| Lease::Follow { until }))
    }

    async fn release(&self) -> Result<(), Error> {
        let before = self.change(|held| {
            let is_ours = held.and_then(read).is_some_and(|(holder, _)| holder == self.holder);
            is_ours.then(|| {
                let mut remove = cmd("DEL");
                remove.arg(&self.key);
                remove
            })
        });
        before.await.map(drop)
    }

    /// Changes what the key holds, if nobody else does so meanwhile. `None`: it stays. Returns what it has held until then.
    async fn change(
        &self,
        decide: impl Fn(Option<&str>) -> Option<redis::Cmd>,
    ) -> Result<Option<String>, Error> {
        let decide = &decide;
        let change = |at: Reached| async move {
            let mut spare = at.spare().await?;
            for _ in 0..TRIES {
                let changed = self.try_change(&mut spare.connection, decide).await;
                if let Some(held) = changed.map_err(|error| at.failed(&error))? {
                    at.put_back(spare);
                    return Ok(held);
                }
            }
            Err(Error::unexpected(at.server()))
        };
        self.link.at(&self.key, change).await
    }

    async fn try_change(
        &self,
        connection: &mut MultiplexedConnection,
        decide: &impl Fn(Option<&str>) -> Option<redis::Cmd>,
    ) -> Result<Option<Option<String>>, RedisError> {
        let mut look = pipe();
        look.cmd("WATCH").arg(&self.key).ignore().cmd("GET").arg(&self.key);
        let (held,): (Option<Text>,) = look.query_async(connection).await?;
        let held = held.map(|Text(held)| held);
        let Some(change) = decide(held.as_deref()) else {
            cmd("UNWATCH").exec_async(connection).await?;
            return Ok(Some(held));
        };
        let changed = pipe().atomic().add_command(change).query_async::<Value>(connection).await?;
        Ok((changed != Value::Nil).then_some(held))
    }

    fn text(&self, now: WallMillis, ttl: Duration) -> String {
        format!("{:016x} {}", self.holder.0, now.plus(ttl).0)
    }
}

fn read(held: &str) -> Option<(LeaseHolder, WallMillis)> {
    let (holder, until) = held.split_once(' ')?;
    Some((LeaseHolder(u64::from_str_radix(holder, 16).ok()?), WallMillis(until.parse().ok()?)))
}

/// Looks at every record, server by server. Each step is a command of its own, so others are not kept waiting.
async fn sweep(link: &Arc<Link>, older_than: WallMillis) -> Result<u64, Error> {
    let mut swept = 0_u64;
    for server in link.servers().await? {
        let mut cursor = 0_u64;
        loop {
            let (next, keys) = link.run(scan(Arc::clone(&server), link.keys.every_robots(), cursor)).await?;
            for keys in keys.chunks(SWEPT_AT_ONCE) {
                let some = link.run(sweep_some(Arc::clone(&server), keys.to_vec(), older_than)).await?;
                swept = swept.saturating_add(some);
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
    }
    Ok(swept)
}

async fn scan(server: Arc<Node>, pattern: String, cursor: u64) -> Result<(u64, Vec<Vec<u8>>), Error> {
    let at = server.reach().await?;
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(200);
    let found = scan.query_async(&mut at.connection()).await;
    found.map_err(|error| at.failed(&error))
}

/// A record that is written anew between the two looks is lost, and fetched again.
async fn sweep_some(server: Arc<Node>, keys: Vec<Vec<u8>>, older_than: WallMillis) -> Result<u64, Error> {
    let at = server.reach().await?;
    let mut connection = at.connection();
    let (mut look, mut remove) = (pipe(), pipe());
    for key in &keys {
        look.cmd("GET").arg(key);
    }
    let records: Vec<Option<Vec<u8>>> =
        look.query_async(&mut connection).await.map_err(|error| at.failed(&error))?;
    for (key, record) in keys.iter().zip(records) {
        let record = record.and_then(|bytes| Record::decode(&bytes));
        if record.is_some_and(|record| record.asked_at() < older_than) {
            remove.cmd("DEL").arg(key);
        }
    }
    if remove.is_empty() {
        return Ok(0);
    }
    let removed: Vec<u64> = remove.query_async(&mut connection).await.map_err(|error| at.failed(&error))?;
    Ok(removed.into_iter().sum())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).clamp(1, EVER)
}

/// Redis refuses expiries that overflow; a hundred years are for ever.
const EVER: u64 = 100 * 366 * 86_400_000;
