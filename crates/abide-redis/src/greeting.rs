//! What is asked of a server once for each connection: who it is, whether its data is whole, what it can do.
//!
//! The data is whole since the birth of its *epoch*: a key that is there as long as the server runs and nobody flushes it. A
//! restart, a failover (which loses what was not replicated) and FLUSHALL end it; whoever comes first makes a new one. Nobody
//! knows what was sent shortly before, so after the birth every host waits for one full gap.

use abide_gate::pacing::LeaseId;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, Script, cmd, pipe};

use crate::key::Keys;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) epoch: Epoch,
    pub(crate) can_eval: bool,
    /// What is not known may have been evicted.
    pub(crate) is_evicting: bool,
    pub(crate) policy: String,
}

/// Since when the server's data is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) key: String,
    /// What the key holds as long as nothing is lost: `<born> <random>`.
    pub(crate) value: String,
    /// In microseconds of the server's clock.
    pub(crate) born: u64,
}

/// An epoch that nobody has greeted for so long ends, which costs every host one gap.
const EPOCH_LIFE_SECONDS: u64 = 30 * 86_400;

/// What was granted just before a loss may go out a little after it.
pub(crate) const ON_ITS_WAY: u64 = 100_000;

/// Which server it is if it does not say.
const NAMELESS: &str = "unnamed";

/// Its policy if it does not say.
const UNKNOWN: &str = "unknown";

/// The least script.
const PROBE: &str = "return 1";

pub(crate) async fn greet(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    may_eval: bool,
) -> Result<Greeting, RedisError> {
    let mut questions = pipe();
    questions.ignore_errors();
    questions.cmd("TIME");
    questions.cmd("INFO").arg("server");
    questions.cmd("INFO").arg("memory");
    questions.cmd("EVAL").arg(PROBE).arg(0);
    questions.cmd("EVALSHA").arg(Script::new(PROBE).get_hash()).arg(0);
    let answers: Vec<RedisResult<redis::Value>> = questions.query_async(connection).await?;
    let [time, server, memory, eval, again] = <[_; 5]>::try_from(answers).map_err(|_| unexpected())?;
    let now: (u64, u64) = redis::from_redis_value(time?)?;
    // Some operators allow no INFO: a restart is then seen only where it has lost the epoch, and any key may have been evicted.
    let server = info(server);
    let run_id = field(&server, "run_id").unwrap_or(NAMELESS);
    let memory = info(memory);
    let policy = field(&memory, "maxmemory_policy").unwrap_or(UNKNOWN).to_owned();
    let is_bounded = field(&memory, "maxmemory").is_none_or(|bytes| bytes != "0");
    Ok(Greeting {
        epoch: epoch(connection, keys.epoch(run_id), now).await?,
        can_eval: may_eval && eval.is_ok() && again.is_ok(),
        is_evicting: is_bounded && policy != "noeviction",
        policy,
    })
}

/// The epoch that is there, or a new one.
async fn epoch(connection: &mut MultiplexedConnection, key: String, now: (u64, u64)) -> RedisResult<Epoch> {
    let now = now.0 * 1_000_000 + now.1;
    let mut ask = pipe();
    let new = format!("{} {}", now + ON_ITS_WAY, LeaseId::random());
    ask.cmd("SET").arg(&key).arg(new).arg("NX").arg("EX").arg(EPOCH_LIFE_SECONDS).ignore();
    ask.cmd("GET").arg(&key);
    ask.cmd("EXPIRE").arg(&key).arg(EPOCH_LIFE_SECONDS).ignore();
    let (value,): (String,) = ask.query_async(connection).await?;
    let born = value.split(' ').next().and_then(|born| born.parse().ok()).unwrap_or(u64::MAX);
    // One that was born in the future has seen a clock set back since.
    Ok(Epoch { born: born.min(now + ON_ITS_WAY), key, value })
}

/// Whether the data is what it was: to be asked *after* what was done with it.
pub(crate) fn ask_epoch(epoch: &Epoch) -> redis::Cmd {
    let mut ask = cmd("GET");
    ask.arg(&epoch.key);
    ask
}

fn info(answer: RedisResult<redis::Value>) -> String {
    answer.ok().and_then(|text| redis::from_redis_value(text).ok()).unwrap_or_default()
}

/// A line `name:value`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

fn unexpected() -> RedisError {
    (redis::ErrorKind::UnexpectedReturnType, "a pipeline with fewer answers than questions").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_info() {
        let text = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n";
        assert_eq!(field(text, "maxmemory"), Some("0"));
        assert_eq!(field(text, "maxmemory_policy"), Some("allkeys-lru"));
        assert_eq!(field(text, "run_id"), None);
    }
}
