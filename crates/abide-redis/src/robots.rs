//! Records of robots.txt, and which process is fetching one.

use std::sync::LazyLock;
use std::time::Duration;

use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::{HolderId, Origin, StoreFuture, WallMillis};
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, FromRedisValue, RedisResult, Value, cmd, from_redis_value, pipe};

use crate::key::Kind;
use crate::link::Connection;
use crate::script::Script;
use crate::{Error, Store};

static FETCHING: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/fetching.lua")));

impl RobotsStore for Store {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(async move { Ok(load(self, &self.link.keys.of(Kind::Robots, origin.as_str())).await?) })
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let keys = [Kind::Robots, Kind::Fetching].map(|kind| self.link.keys.of(kind, origin.as_str()));
            let mut both = pipe();
            both.cmd("SET")
                .arg(&keys[0])
                .arg(record.encode())
                .arg("PX")
                .arg(millis(self.record_life))
                .ignore();
            both.cmd("DEL").arg(&keys[1]).ignore();
            Ok(self.link.ask(|mut at| async move { both.exec_async(&mut at).await }).await?)
        })
    }

    fn lease<'a>(
        &'a self,
        origin: &'a Origin,
        holder: HolderId,
        now: WallMillis,
        ttl: Duration,
    ) -> StoreFuture<'a, Option<WallMillis>> {
        Box::pin(async move {
            let until: Option<u64> = fetching(self, origin, holder, now, ttl).await?;
            Ok(until.map(WallMillis::from_millis))
        })
    }

    fn release<'a>(&'a self, origin: &'a Origin, holder: HolderId) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            Ok(fetching(self, origin, holder, WallMillis::from_millis(0), Duration::ZERO).await?)
        })
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(sweep(self, older_than).await?) })
    }
}

/// What cannot be read is absent: it is fetched again.
async fn load(store: &Store, key: &str) -> Result<Option<RobotsRecord>, Error> {
    let bytes: Option<Vec<u8>> = store.link.query(cmd("GET").arg(key)).await?;
    Ok(bytes.and_then(|bytes| RobotsRecord::decode(&bytes)))
}

/// Takes or renews the lease, or gives it up if it lasts no time.
async fn fetching<T: FromRedisValue>(
    store: &Store,
    origin: &Origin,
    holder: HolderId,
    now: WallMillis,
    ttl: Duration,
) -> Result<T, Error> {
    let ttl = if ttl.is_zero() { 0 } else { millis(ttl) };
    let args = (holder.to_string(), now.as_millis(), ttl);
    store.link.run(&FETCHING, &[store.link.keys.of(Kind::Fetching, origin.as_str())], args).await
}

/// Looks at every record, on all primaries of a cluster. A record that is written between the two looks is lost, and fetched again.
async fn sweep(store: &Store, older_than: WallMillis) -> Result<u64, Error> {
    let pattern = store.link.keys.every(Kind::Robots);
    let scan = |cursor: u64| {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(200).to_owned()
    };
    let mut removed = 0_u64;
    let mut places = store.link.ask(|at| first_pages(at, scan(0))).await?;
    while let Some((place, cursor, keys)) = places.pop() {
        for key in keys {
            if load(store, &key).await?.is_some_and(|record| record.asked_at() < older_than) {
                let gone: u64 = store.link.query(cmd("DEL").arg(&key)).await?;
                removed = removed.saturating_add(gone);
            }
        }
        if cursor != 0 {
            let (cursor, keys) = store.link.ask(|at| next_page(at, scan(cursor), place.clone())).await?;
            places.push((place, cursor, keys));
        }
    }
    Ok(removed)
}

/// Where it was asked, the cursor, and keys.
type Page = (Option<(String, u16)>, u64, Vec<String>);

async fn first_pages(at: Connection, scan: Cmd) -> RedisResult<Vec<Page>> {
    let Connection::Cluster(mut cluster) = at else {
        let (cursor, keys) = next_page(at, scan, None).await?;
        return Ok(vec![(None, cursor, keys)]);
    };
    let all = (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::Special));
    let replies = cluster.route_command(scan, RoutingInfo::MultiNode(all)).await?;
    let replies: Vec<(String, (u64, Vec<String>))> = from_redis_value(replies)?;
    let pages = replies.into_iter().map(|(address, (cursor, keys))| {
        let (host, port) = address.rsplit_once(':').unwrap_or((&address, ""));
        (Some((host.to_owned(), port.parse().unwrap_or_default())), cursor, keys)
    });
    Ok(pages.collect())
}

async fn next_page(
    mut at: Connection,
    scan: Cmd,
    place: Option<(String, u16)>,
) -> RedisResult<(u64, Vec<String>)> {
    let reply: Value = match (&mut at, place) {
        (Connection::Cluster(cluster), Some((host, port))) => {
            let there = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host, port });
            cluster.route_command(scan, there).await?
        }
        _ => scan.query_async(&mut at).await?,
    };
    Ok(from_redis_value(reply)?)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).clamp(1, EVER)
}

/// Redis refuses expiries that overflow; a hundred years are for ever.
const EVER: u64 = 100 * 366 * 86_400_000;
