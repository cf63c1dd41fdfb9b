//! Leases of hosts: one script for each exchange.

use std::sync::LazyLock;
use std::time::Duration;

use abide_gate::StoreFuture;
use abide_gate::pacing::{Backoff, BackoffCause, HostState, HostStore, LeaseAsk, LeaseStatus, Want};

use redis::ToRedisArgs;

use crate::Store;
use crate::key::Kind;
use crate::script::Script;

static EXCHANGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/marker.lua"), include_str!("lua/exchange.lua"))));

/// Verdict, wait, and the state: quiet, delay, left, over, throttles, cause. Spans are microseconds; -1 is none.
type Reply = (String, i64, i64, i64, i64, i64, u8, String);

impl HostStore for Store {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        Box::pin(async move {
            let keys = &self.link.keys;
            let keys = [keys.of(Kind::Host, host), keys.marker(host)];
            let reply: Reply = self.link.run(&EXCHANGE, &keys, args(&ask, self.link.number())).await?;
            Ok(read(reply).ok_or_else(|| self.link.unexpected())?)
        })
    }
}

/// The arguments of the script.
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
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX).min(1 << 51)
}

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
mod tests {
    use super::*;

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
}
