//! Leases of hosts: one script for each exchange.
//!
//! What many processes must agree on is decided in the server (`lua/exchange.lua`), by its clock: here is what goes in and what comes out.

use std::sync::LazyLock;
use std::time::Duration;

use abide_gate::pacing::{Backoff, BackoffCause, HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::{BoxFuture, StoreError};
use redis::ToRedisArgs;

use crate::Store;
use crate::key::HOST;
use crate::script::Script;

static EXCHANGE: LazyLock<Script> = LazyLock::new(|| Script::new(CODE));

const CODE: &str =
    concat!(include_str!("lua/seal.lua"), include_str!("lua/marker.lua"), include_str!("lua/exchange.lua"));

/// Verdict, wait, and the state: quiet, delay, left, over, throttles, cause. Spans are microseconds; -1 is none.
type Reply = (String, i64, i64, i64, i64, i64, u8, String);

impl HostStore for Store {
    fn exchange<'a>(
        &'a self,
        host: &'a str,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<(LeaseStatus, HostState), StoreError>> {
        Box::pin(async move {
            let keys = &self.link.keys;
            let keys = [keys.of(HOST, host), keys.marker(host)];
            // Numbered, so that a release that comes late, on a connection that was given up, ends no lease that was taken since.
            let reply: Reply = self.link.run(&EXCHANGE, &keys, args(&ask, self.link.number())).await?;
            Ok(read(reply).ok_or_else(|| self.link.unexpected())?)
        })
    }
}

fn args(ask: &LeaseAsk, number: u64) -> impl ToRedisArgs {
    let LeaseAsk { holder, want, state: HostState { quiet, delay, backoff } } = ask;
    let (want, ttl, again_in) = match *want {
        Want::Lease { ttl, again_in, is_held: false } => ("lease", ttl, again_in),
        Want::Lease { ttl, again_in, is_held: true } => ("held", ttl, again_in),
        Want::Release => ("release", Duration::ZERO, Duration::ZERO),
    };
    let (left, over, throttles, cause) = match backoff {
        Some(backoff) => {
            (micros(backoff.left), micros(backoff.over), backoff.throttles, write(backoff.cause))
        }
        None => (-1, 0, 0, "none".to_owned()),
    };
    let (holder, quiet, delay) = (holder.to_string(), quiet.map_or(-1, micros), micros(*delay));
    (holder, number, want, micros(ttl), micros(again_in), quiet, delay, left, over, throttles, cause)
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
    let backoff = span(left).map(|left| Backoff { left, over, throttles, cause: read_cause(&cause) });
    Some((lease, HostState { quiet: span(quiet), delay: span(delay)?, backoff }))
}

/// Microseconds that the script can add to the time of day: at most 71 years.
fn micros(span: Duration) -> i64 {
    // Numbers are doubles in Lua, exact up to 2^53; the time of day is below 2^51, too.
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX).min(1 << 51)
}

/// Letters, digits and colons only: the script takes a row with another character for one that is not ours.
/// `429:60000`, `503`, `calm`, `operator`, `shared`.
fn write(cause: BackoffCause) -> String {
    match cause {
        BackoffCause::Answer { status, retry_after: None } => status.to_string(),
        BackoffCause::Answer { status, retry_after: Some(asked) } => {
            format!("{status}:{}", asked.as_millis())
        }
        BackoffCause::EnhanceYourCalm => "calm".to_owned(),
        BackoffCause::Operator => "operator".to_owned(),
        _ => "shared".to_owned(),
    }
}

/// What a newer version may have written is a backoff all the same.
fn read_cause(text: &str) -> BackoffCause {
    let (first, rest) = text.split_once(':').unwrap_or((text, ""));
    match (first, first.parse()) {
        (_, Ok(status)) => {
            BackoffCause::Answer { status, retry_after: rest.parse().ok().map(Duration::from_millis) }
        }
        ("calm", _) => BackoffCause::EnhanceYourCalm,
        ("operator", _) => BackoffCause::Operator,
        _ => BackoffCause::Shared,
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "a test that cannot go on fails")]
mod tests {
    use abide_gate::HolderId;
    use abide_gate::pacing::HostEntry;
    use abide_tests::Redis;
    use redis::{Client, cmd};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn causes_survive() {
        let asked = |seconds| Some(Duration::from_secs(seconds));
        let answers = [(429, None), (503, asked(60)), (403, asked(86_400))];
        let answers = answers.map(|(status, retry_after)| BackoffCause::Answer { status, retry_after });
        for cause in answers.into_iter().chain([
            BackoffCause::EnhanceYourCalm,
            BackoffCause::Operator,
            BackoffCause::Shared,
        ]) {
            let text = write(cause);
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b':'), "{text}");
            assert_eq!(read_cause(&text), cause);
        }
    }

    #[test]
    fn an_unknown_cause_is_a_backoff_all_the_same() {
        for text in ["", "later", "429x:1", "-1"] {
            assert_eq!(read_cause(text), BackoffCause::Shared, "{text}");
        }
    }

    /// The script, by the clock of the test in place of the server's.
    struct Scripted {
        redis: Redis,
        script: String,
        began: Duration,
    }

    impl Scripted {
        fn start() -> Option<Self> {
            let script = CODE.replace("redis.call('TIME')", "{ARGV[12], ARGV[13]}");
            let redis = Redis::start()?;
            let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]);
            let began = Duration::from_secs(seconds) + Duration::from_micros(micros);
            let scripted = Self { redis, script, began };
            scripted.lost_nothing_since(began - 48 * HOUR);
            Some(scripted)
        }

        fn lost_nothing_since(&self, at: Duration) {
            let name = self.redis.info("replication", "master_replid");
            self.redis.put("born", format!("{} {name}", at.as_micros()));
        }

        fn exchange(
            &self,
            host: &str,
            number: u64,
            ask: &LeaseAsk,
            now: Duration,
        ) -> (LeaseStatus, HostState) {
            let mut call = cmd("EVAL");
            call.arg(&self.script).arg(2).arg(host).arg("born").arg(args(ask, number));
            call.arg(now.as_secs()).arg(now.subsec_micros());
            let mut server = Client::open(self.redis.url()).unwrap().get_connection().unwrap();
            read(call.query(&mut server).unwrap()).unwrap()
        }
    }

    fn lease(holder: u128, ttl: Duration) -> LeaseAsk {
        let want = Want::Lease { ttl, again_in: MINUTE, is_held: false };
        LeaseAsk { holder: HolderId(holder), want, state: HostState::default() }
    }

    /// Thousands of random exchanges of four processes, answered alike to the microsecond.
    #[test]
    fn the_script_equals_the_plain_function() {
        let Some(scripted) = Scripted::start() else { return };
        let (mut now, mut seed) = (scripted.began, 1_u64);
        let mut rng = move |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        for run in 0..60 {
            let (mut entry, host) = (HostEntry::default(), format!("h{run}"));
            // In half of the runs it begins within the grace of a loss.
            let ttl = 8 * SECOND;
            let born = if run % 2 == 0 { now } else { now - HOUR * 48 };
            scripted.lost_nothing_since(born);
            for number in 1..60 {
                now += Duration::from_micros(rng(3_000_000));
                let left = Duration::from_micros(rng(2) * rng(40_000_000));
                let over = Duration::from_micros(rng(2_000_000_000));
                let backoff = Backoff {
                    left,
                    // Either it lasts, or it is over.
                    over: if left.is_zero() { over } else { Duration::ZERO },
                    throttles: u8::try_from(rng(4) + 1).unwrap(),
                    cause: BackoffCause::Operator,
                };
                let state = HostState {
                    quiet: (rng(3) == 0).then(|| Duration::from_micros(rng(30_000_000))),
                    delay: Duration::from_millis(rng(3_000)),
                    backoff: (rng(6) == 0).then_some(backoff),
                };
                let is_held = rng(8) == 0;
                let want = match rng(4) {
                    0 => Want::Release,
                    _ => Want::Lease { ttl, again_in: Duration::from_millis(rng(6_000)), is_held },
                };
                let ask = LeaseAsk { holder: HolderId(u128::from(rng(4)) + 1), want, state };
                let expected = entry.exchange(&ask, now, born + ttl);
                let found = scripted.exchange(&host, number, &ask, now);
                assert_eq!(found, expected, "run {run}, {number}: {ask:?}");
                if !entry.is_in_use(now - MINUTE) {
                    entry = HostEntry::default();
                }
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_back_delays_no_host_for_long() {
        let Some(scripted) = Scripted::start() else { return };
        let (now, ttl) = (scripted.began, 8 * SECOND);
        let backoff =
            Backoff { left: MINUTE, over: Duration::ZERO, throttles: 1, cause: BackoffCause::Operator };
        let state = HostState { quiet: Some(SECOND), delay: 5 * SECOND, backoff: Some(backoff) };
        scripted.exchange("h", 1, &LeaseAsk { state, ..lease(1, ttl) }, now);
        scripted.exchange("h", 2, &lease(2, ttl), now);
        let then = scripted.exchange("h", 3, &lease(3, ttl), now - HOUR);
        assert_eq!(then.0, LeaseStatus::Busy { wait: ttl, is_next: false });
        assert_eq!((then.1.quiet, then.1.backoff.unwrap().left), (Some(SECOND), MINUTE));
    }

    /// It was sent on a connection that was given up, and comes after the lease has been taken again.
    #[test]
    fn a_release_that_comes_late_gives_up_nothing() {
        let Some(scripted) = Scripted::start() else { return };
        let now = scripted.began;
        let release = LeaseAsk { want: Want::Release, ..lease(1, MINUTE) };
        scripted.exchange("h", 7, &lease(1, MINUTE), now);
        scripted.exchange("h", 6, &release, now);
        let busy = LeaseStatus::Busy { wait: MINUTE, is_next: true };
        assert_eq!(scripted.exchange("h", 1, &lease(2, MINUTE), now).0, busy);
        scripted.exchange("h", 8, &release, now);
        let leased = LeaseStatus::Leased { is_wanted: false };
        assert_eq!(scripted.exchange("h", 2, &lease(2, MINUTE), now).0, leased);
    }
}
