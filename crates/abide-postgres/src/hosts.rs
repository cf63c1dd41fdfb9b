//! Leases of hosts: one statement for each exchange, or for all of a renewal.
//!
//! What many processes must agree on is decided in the server (`abide.exchange` of `sql/1.sql`), by its
//! clock: here is what goes in and what comes out.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::{
    Backoff, BackoffCause, HostState, HostStore, LeaseAsk, LeaseReply, LeaseStatus, Want, exchange_each,
};
use abide_gate::{BoxFuture, HolderId, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::{Error, Store};

const EXCHANGES: &str = "SELECT verdict, wait, quiet, delay, remaining, over, throttles, cause FROM abide.exchanges($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

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

    /// In one statement. Where another session has a row locked, in one each: the others are free.
    fn exchange_all<'a>(&'a self, asks: &'a [(Arc<str>, LeaseAsk)]) -> BoxFuture<'a, Vec<LeaseReply>> {
        Box::pin(async move {
            // By host, so that two processes that lock the rows of several never wait for each other.
            let mut order: Vec<usize> = (0..asks.len()).collect();
            order.sort_by_key(|n| asks.get(*n).map(|(host, _)| host));
            let sorted: Vec<_> = order.iter().filter_map(|n| asks.get(*n)).collect();
            let pairs: Vec<_> = sorted.iter().map(|(host, ask)| (&**host, *ask)).collect();
            match self.exchanges(&pairs).await {
                Ok(replies) => {
                    let mut replies: Vec<_> = order.into_iter().zip(replies.into_iter().map(Ok)).collect();
                    replies.sort_by_key(|(n, _)| *n);
                    replies.into_iter().map(|(_, reply)| reply).collect()
                }
                Err(error) if error.is_locked() => exchange_each(self, asks).await,
                Err(error) => asks.iter().map(|_| Err(error.clone().into())).collect(),
            }
        })
    }

    fn given_up<'a>(&'a self, host: &'a str, holder: HolderId) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.link.released(&holder.to_string(), host).await })
    }
}

impl Store {
    async fn exchanges(&self, asks: &[(&str, LeaseAsk)]) -> Result<Vec<(LeaseStatus, HostState)>, Error> {
        let reports: Vec<Report> = asks.iter().map(|(_, ask)| Report::of(ask)).collect();
        let names: Vec<_> = asks.iter().map(|(host, _)| host.as_bytes()).collect();
        let longs = |of: fn(&Report) -> i64| reports.iter().map(of).collect::<Vec<_>>();
        let texts = |of: fn(&Report) -> &str| reports.iter().map(of).collect::<Vec<_>>();
        let throttles: Vec<_> = reports.iter().map(|report| report.throttles).collect();
        let args: [(&(dyn ToSql + Sync), Type); 12] = [
            (&names, Type::BYTEA_ARRAY),
            (&texts(|report| &report.holder), Type::TEXT_ARRAY),
            (&longs(|report| report.number), Type::INT8_ARRAY),
            (&texts(|report| report.want), Type::TEXT_ARRAY),
            (&longs(|report| report.ttl), Type::INT8_ARRAY),
            (&longs(|report| report.again_in), Type::INT8_ARRAY),
            (&longs(|report| report.quiet), Type::INT8_ARRAY),
            (&longs(|report| report.delay), Type::INT8_ARRAY),
            (&longs(|report| report.left), Type::INT8_ARRAY),
            (&longs(|report| report.over), Type::INT8_ARRAY),
            (&throttles, Type::INT4_ARRAY),
            (&texts(|report| &report.cause), Type::TEXT_ARRAY),
        ];
        let rows = self.link.query(&self.link.schema.of(EXCHANGES), &args).await?;
        rows.iter().map(|row| read(row).ok_or_else(|| self.link.unexpected())).collect()
    }
}

/// What is reported of one host. Spans are microseconds; -1 is none.
struct Report {
    holder: String,
    number: i64,
    want: &'static str,
    ttl: i64,
    again_in: i64,
    quiet: i64,
    delay: i64,
    left: i64,
    over: i64,
    throttles: i32,
    cause: String,
}

impl Report {
    fn of(ask: &LeaseAsk) -> Self {
        let LeaseAsk { holder, number, want, state: HostState { quiet, delay, backoff } } = ask;
        let (want, ttl, again_in) = match *want {
            Want::Lease { ttl, again_in, is_held: false } => ("lease", ttl, again_in),
            Want::Lease { ttl, again_in, is_held: true } => ("held", ttl, again_in),
            Want::Release => ("release", Duration::ZERO, Duration::ZERO),
        };
        let (left, over, throttles, cause) = match backoff {
            Some(it) => (micros(it.left), micros(it.over), it.throttles.into(), it.cause.encode()),
            None => (-1, 0, 0, "none".to_owned()),
        };
        Self {
            holder: holder.to_string(),
            number: i64::try_from(*number).unwrap_or(i64::MAX),
            want,
            ttl: micros(ttl),
            again_in: micros(again_in),
            quiet: quiet.map_or(-1, micros),
            delay: micros(*delay),
            left,
            over,
            throttles,
            cause,
        }
    }
}

fn read(row: &Row) -> Option<(LeaseStatus, HostState)> {
    let span = |column| row.try_get::<_, i64>(column).ok().and_then(|micros| u64::try_from(micros).ok());
    let span = |column| span(column).map(Duration::from_micros);
    let lease = match row.try_get("verdict").ok()? {
        "leased" => LeaseStatus::Leased { is_wanted: false },
        "wanted" => LeaseStatus::Leased { is_wanted: true },
        "busy" => LeaseStatus::Busy { wait: span("wait")?, is_next: false },
        "next" => LeaseStatus::Busy { wait: span("wait")?, is_next: true },
        "released" => LeaseStatus::Released,
        _ => return None,
    };
    let over = span("over")?;
    let throttles = u8::try_from(row.try_get::<_, i32>("throttles").ok()?).unwrap_or(u8::MAX);
    let cause = BackoffCause::decode(row.try_get("cause").ok()?);
    let backoff = span("remaining").map(|left| Backoff { left, over, throttles, cause });
    Some((lease, HostState { quiet: span("quiet"), delay: span("delay")?, backoff }))
}

/// Microseconds that the function can add to the time of day: at most 71 years.
fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX).min(1 << 51)
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "a test that cannot go on fails")]
mod tests {
    use abide_gate::pacing::HostEntry;
    use abide_gate::testing::hosts::{
        Beginning, exchanges_equal_the_plain_function, survives_a_clock_set_back,
        throttle_counts_are_forgiven,
    };
    use abide_tests::Postgres;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);

    /// The functions, by the clock of the test in place of the server's.
    struct Scripted {
        _server: Postgres,
        store: Store,
    }

    const BEGAN: Duration = Duration::from_secs(1_700_000_000);

    const CLOCK: &str = "CREATE TABLE clock AS SELECT 0::bigint AS now;
        CREATE OR REPLACE FUNCTION abide.micros() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT now FROM clock'";

    const ENTRY: &str = "SELECT concat_ws(' ', last, delay, backoff, throttles, cause, coalesce(holder, '0'), leased_until, number,
        coalesce((SELECT string_agg(p || ':' || u, ',' ORDER BY n) FROM unnest(waiting, waiting_until) WITH ORDINALITY AS w(p, u, n)), '0'),
        seen) FROM abide.host WHERE host = abide.key($1)";

    impl Scripted {
        async fn start() -> Option<Self> {
            let server = Postgres::start(&[])?;
            let store = Store::builder(&server.url()).command_timeout(MINUTE).connect().await.unwrap();
            server.ask(CLOCK);
            let scripted = Self { _server: server, store };
            scripted.set(BEGAN).await;
            scripted.lost_nothing_since(BEGAN - 48 * HOUR).await;
            Some(scripted)
        }

        async fn set(&self, now: Duration) {
            let args: [(&(dyn ToSql + Sync), Type); 1] = [(&micros(now), Type::INT8)];
            self.store.link.query("UPDATE clock SET now = $1", &args).await.unwrap();
        }

        async fn lost_nothing_since(&self, at: Duration) {
            self.store.link.query("SELECT abide.since()", &[]).await.unwrap();
            let args: [(&(dyn ToSql + Sync), Type); 1] = [(&micros(at), Type::INT8)];
            self.store.link.query("UPDATE abide.run SET since = $1", &args).await.unwrap();
        }

        async fn stored(&self, host: &str) -> Option<HostEntry> {
            let rows = self.store.link.query(ENTRY, &[(&host.as_bytes(), Type::BYTEA)]).await.unwrap();
            rows.first().map(|row| HostEntry::decode(row.get(0)).unwrap())
        }
    }

    /// Also within the grace of a loss. What the function has stored is an entry, with the same words.
    #[tokio::test]
    async fn the_function_equals_the_plain_one() {
        let Some(scripted) = Scripted::start().await else { return };
        let scripted = &scripted;
        for born in [BEGAN - 48 * HOUR, BEGAN] {
            scripted.set(BEGAN).await;
            scripted.lost_nothing_since(born).await;
            let known = HostState::default();
            let beginning = Beginning { now: BEGAN, grace_until: born + Duration::from_secs(10), known };
            exchanges_equal_the_plain_function(beginning, |host, ask, now| async move {
                scripted.set(now).await;
                let reply = scripted.store.exchange(&host, ask).await.unwrap();
                if let Some(stored) = scripted.stored(&host).await {
                    assert_eq!(stored.state(now), reply.1, "what is stored of {host}");
                }
                reply
            })
            .await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_suites_with_a_clock_pass() {
        let Some(scripted) = Scripted::start().await else { return };
        let scripted = Arc::new(scripted);
        let store: Arc<dyn HostStore> = Arc::new(scripted.store.clone());
        let (passing, setting) = (Arc::clone(&scripted), Arc::clone(&scripted));
        let pass = move |span| move_clock(Arc::clone(&passing), "+", span);
        throttle_counts_are_forgiven(Arc::clone(&store), pass.clone()).await;
        let set_back = |span| {
            let moved = move_clock(setting, "-", span);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(moved));
        };
        survives_a_clock_set_back(store, pass, set_back).await;
    }

    async fn move_clock(scripted: Arc<Scripted>, sign: &'static str, span: Duration) {
        let args: [(&(dyn ToSql + Sync), Type); 1] = [(&micros(span), Type::INT8)];
        scripted.store.link.query(&format!("UPDATE clock SET now = now {sign} $1"), &args).await.unwrap();
    }
}
