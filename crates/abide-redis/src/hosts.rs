//! Leases of hosts: one script for each exchange, or for all of a renewal.
//!
//! What many processes must agree on is decided in the server (`lua/exchange.lua`), by its clock: here is
//! what goes in and what comes out.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use abide_gate::pacing::{
    Backoff, BackoffCause, HostState, HostStore, LeaseAsk, LeaseReply, LeaseStatus, Want, exchange_each,
};
use abide_gate::{BoxFuture, StoreError};
use redis::ToRedisArgs;

use crate::key::HOST;
use crate::script::Script;
use crate::{Error, Store};

static EXCHANGE: LazyLock<Script> = LazyLock::new(|| Script::new(CODE));

const CODE: &str =
    concat!(include_str!("lua/seal.lua"), include_str!("lua/marker.lua"), include_str!("lua/exchange.lua"));

/// Verdict, wait, and the state: quiet, delay, left, over, throttles, cause. Spans are microseconds; -1 is
/// none.
type Reply = (String, i64, i64, i64, i64, i64, u8, String);

impl HostStore for Store {
    fn exchange<'a>(
        &'a self,
        host: &'a str,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<(LeaseStatus, HostState), StoreError>> {
        Box::pin(async move {
            let mut replies = self.exchanges(&[(host, ask)]).await?;
            Ok(replies.pop().ok_or_else(|| self.link.unexpected())?)
        })
    }

    /// In one script; in a cluster, where the hosts lie on many nodes, in one each.
    fn exchange_all<'a>(&'a self, asks: &'a [(Arc<str>, LeaseAsk)]) -> BoxFuture<'a, Vec<LeaseReply>> {
        if self.link.is_cluster() {
            return Box::pin(exchange_each(self, asks));
        }
        Box::pin(async move {
            let pairs: Vec<_> = asks.iter().map(|(host, ask)| (&**host, *ask)).collect();
            match self.exchanges(&pairs).await {
                Ok(replies) => replies.into_iter().map(Ok).collect(),
                Err(error) => asks.iter().map(|_| Err(error.clone().into())).collect(),
            }
        })
    }
}

impl Store {
    async fn exchanges(&self, asks: &[(&str, LeaseAsk)]) -> Result<Vec<(LeaseStatus, HostState)>, Error> {
        let keys = |(host, _): &(&str, _)| [self.link.keys.of(HOST, host), self.link.keys.marker(host)];
        let keys: Vec<_> = asks.iter().flat_map(keys).collect();
        let args: Vec<_> = asks.iter().map(|(_, ask)| args(ask)).collect();
        let replies: Vec<Reply> = self.link.run(&EXCHANGE, &keys, args).await?;
        replies.into_iter().map(|reply| read(reply).ok_or_else(|| self.link.unexpected())).collect()
    }
}

fn args(ask: &LeaseAsk) -> impl ToRedisArgs {
    let LeaseAsk { holder, number, want, state: HostState { quiet, delay, backoff } } = ask;
    let (want, ttl, again_in) = match *want {
        Want::Lease { ttl, again_in, is_held: false } => ("lease", ttl, again_in),
        Want::Lease { ttl, again_in, is_held: true } => ("held", ttl, again_in),
        Want::Release => ("release", Duration::ZERO, Duration::ZERO),
    };
    let (left, over, throttles, cause) = match backoff {
        Some(backoff) => {
            (micros(backoff.left), micros(backoff.over), backoff.throttles, backoff.cause.encode())
        }
        None => (-1, 0, 0, "none".to_owned()),
    };
    let (holder, quiet, delay) = (holder.to_string(), quiet.map_or(-1, micros), micros(*delay));
    (holder, *number, want, micros(ttl), micros(again_in), quiet, delay, left, over, throttles, cause)
}

fn read(
    (verdict, wait, quiet, delay, left, over, throttles, cause): Reply,
) -> Option<(LeaseStatus, HostState)> {
    let span = |micros: i64| u64::try_from(micros).ok().map(Duration::from_micros);
    let lease = match verdict.as_str() {
        "leased" => LeaseStatus::Leased { is_wanted: false },
        "wanted" => LeaseStatus::Leased { is_wanted: true },
        "busy" => LeaseStatus::Busy { wait: span(wait)?, is_next: false },
        "next" => LeaseStatus::Busy { wait: span(wait)?, is_next: true },
        "released" => LeaseStatus::Released,
        _ => return None,
    };
    let over = span(over)?;
    let backoff =
        span(left).map(|left| Backoff { left, over, throttles, cause: BackoffCause::decode(&cause) });
    Some((lease, HostState { quiet: span(quiet), delay: span(delay)?, backoff }))
}

/// Microseconds that the script can add to the time of day: at most 71 years.
fn micros(span: Duration) -> i64 {
    // Numbers are doubles in Lua, exact up to 2^53; the time of day is below 2^51, too.
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX).min(1 << 51)
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "a test that cannot go on fails")]
mod tests {
    use std::future::ready;
    use std::sync::Mutex;

    use abide_gate::HolderId;
    use abide_gate::pacing::HostEntry;
    use abide_gate::testing::hosts::{Beginning, exchanges_equal_the_plain_function};
    use abide_tests::Redis;
    use redis::{Client, Connection, cmd};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);

    /// The script, by the clock of the test in place of the server's.
    struct Scripted {
        redis: Redis,
        connection: Mutex<Connection>,
        script: String,
        began: Duration,
    }

    impl Scripted {
        fn start() -> Option<Self> {
            let script = CODE.replace("redis.call('TIME')", "{ARGV[#ARGV - 1], ARGV[#ARGV]}");
            let redis = Redis::start()?;
            let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]);
            let began = Duration::from_secs(seconds) + Duration::from_micros(micros);
            let connection = Client::open(redis.url()).unwrap().get_connection().unwrap();
            let scripted = Self { redis, connection: connection.into(), script, began };
            scripted.lost_nothing_since(began - 48 * HOUR);
            Some(scripted)
        }

        fn lost_nothing_since(&self, at: Duration) {
            let name = self.redis.info("replication", "master_replid");
            self.redis.put("born", format!("{} {name}", at.as_micros()));
        }

        fn exchange(&self, host: &str, ask: &LeaseAsk, now: Duration) -> (LeaseStatus, HostState) {
            let mut call = cmd("EVAL");
            call.arg(&self.script).arg(2).arg(host).arg("born").arg(args(ask));
            call.arg(now.as_secs()).arg(now.subsec_micros());
            let mut replies: Vec<Reply> = call.query(&mut self.connection.lock().unwrap()).unwrap();
            read(replies.pop().unwrap()).unwrap()
        }

        /// Without the version and the checksum before it, and the marker behind it.
        fn stored(&self, host: &str) -> Option<HostEntry> {
            let row: Option<String> =
                cmd("GET").arg(host).query(&mut self.connection.lock().unwrap()).unwrap();
            let row = row?;
            let entry = row.splitn(3, ' ').last().unwrap().rsplit_once(' ').unwrap().0;
            Some(HostEntry::decode(entry).unwrap())
        }
    }

    fn lease(holder: u128, ttl: Duration) -> LeaseAsk {
        let want = Want::Lease { ttl, again_in: MINUTE, is_held: false };
        LeaseAsk { holder: HolderId(holder), number: 0, want, state: HostState::default() }
    }

    /// Also within the grace of a loss. What the script has stored is the text of an entry.
    #[tokio::test]
    async fn the_script_equals_the_plain_function() {
        let Some(scripted) = Scripted::start() else { return };
        let ttl = 10 * SECOND;
        for born in [scripted.began - 48 * HOUR, scripted.began] {
            scripted.lost_nothing_since(born);
            let known = HostState::default();
            let beginning = Beginning { now: scripted.began, grace_until: born + ttl, known };
            exchanges_equal_the_plain_function(beginning, |host, ask, now| {
                let reply = scripted.exchange(&host, &ask, now);
                if let Some(stored) = scripted.stored(&host) {
                    assert_eq!(stored.state(now), reply.1, "what is stored of {host}");
                }
                ready(reply)
            })
            .await;
        }
    }

    #[test]
    fn a_clock_that_is_set_back_delays_no_host_for_long() {
        let Some(scripted) = Scripted::start() else { return };
        let (now, ttl) = (scripted.began, 8 * SECOND);
        let backoff =
            Backoff { left: MINUTE, over: Duration::ZERO, throttles: 1, cause: BackoffCause::Operator };
        let state = HostState { quiet: Some(SECOND), delay: 5 * SECOND, backoff: Some(backoff) };
        scripted.exchange("h", &LeaseAsk { state, ..lease(1, ttl) }, now);
        scripted.exchange("h", &lease(2, ttl), now);
        let then = scripted.exchange("h", &lease(3, ttl), now - HOUR);
        assert_eq!(then.0, LeaseStatus::Busy { wait: ttl, is_next: false });
        assert_eq!((then.1.quiet, then.1.backoff.unwrap().left), (Some(SECOND), MINUTE));
    }
}
