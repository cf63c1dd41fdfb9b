//! Records of robots.txt.
//!
//! What one process has fetched, the others use. Which of them fetches is decided by the lease of the host,
//! not here.

use std::time::Duration;

use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::{BoxFuture, Origin, StoreError, WallMillis};
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo, SingleNodeRoutingInfo};
use redis::{RedisResult, Value, cmd, from_redis_value};

use crate::link::Connection;
use crate::{Error, Store, key};

type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

impl RobotsStore for Store {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(async move { Ok(load(self, &self.link.keys.of(key::ROBOTS, origin.as_str())).await?) })
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let (key, life) = (self.link.keys.of(key::ROBOTS, origin.as_str()), millis(self.record_life));
            Ok(self.link.query(cmd("SET").arg(key).arg(record.encode()).arg("PX").arg(life)).await?)
        })
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(sweep(self, older_than).await?) })
    }
}

/// What cannot be read, or has another type, is absent: it is fetched again, and replaced.
async fn load(store: &Store, key: &str) -> Result<Option<RobotsRecord>, Error> {
    let get = async |mut at: Connection| match at.query::<Option<Vec<u8>>>(cmd("GET").arg(key)).await {
        Err(error) if error.code() == Some("WRONGTYPE") => Ok(None),
        bytes => bytes,
    };
    Ok(store.link.ask(get).await?.and_then(|bytes| RobotsRecord::decode(&bytes)))
}

/// Looks at every record, on all primaries of a cluster. A record that is written between the two looks is
/// lost, and fetched again.
async fn sweep(store: &Store, older_than: WallMillis) -> Result<u64, Error> {
    let pattern = store.link.keys.every(key::ROBOTS);
    let mut removed = 0_u64;
    let mut places: Vec<_> = store.link.ask(primaries).await?.into_iter().map(|place| (place, 0)).collect();
    while let Some((place, cursor)) = places.pop() {
        // Some hundred at a time, because the server does nothing else meanwhile.
        let scan = cmd("SCAN").arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(200).to_owned();
        let page = async |mut at: Connection| at.query_at(scan.clone(), place.clone()).await;
        let (next, keys): (u64, Vec<String>) = store.link.ask(page).await?;
        for key in keys {
            if load(store, &key).await?.is_some_and(|record| record.asked_at() < older_than) {
                let gone: u64 = store.link.query(cmd("DEL").arg(&key)).await?;
                removed = removed.saturating_add(gone);
            }
        }
        if next != 0 {
            places.push((place, next));
        }
    }
    Ok(removed)
}

async fn primaries(at: Connection) -> RedisResult<Vec<SingleNodeRoutingInfo>> {
    let Connection::Cluster(mut cluster) = at else { return Ok(vec![SingleNodeRoutingInfo::Random]) };
    // With `Special` each reply comes with the address of its node, which is what is asked for.
    let all = (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::Special));
    let replies = cluster.route_command(cmd("PING"), RoutingInfo::MultiNode(all)).await?;
    let addresses = from_redis_value::<Vec<(String, Value)>>(replies)?.into_iter().map(|(address, _)| {
        let (host, port) = address.rsplit_once(':').unwrap_or((&address, ""));
        SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port: port.parse().unwrap_or_default() }
    });
    Ok(addresses.collect())
}

fn millis(span: Duration) -> u64 {
    // Redis refuses an expiry of zero.
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).clamp(1, EVER)
}

/// Redis refuses expiries that overflow; a hundred years are for ever.
const EVER: u64 = 100 * 366 * 86_400_000;
