//! What is asked of a server once for each connection: who it is, whether its data is whole, what it can do.
//!
//! The data is whole since the birth of its *epoch*: a key that says which server has made it, in which of its times as a primary. A
//! restart, a failover (which loses what was not replicated, and copies the key) and FLUSHALL end it; whoever comes first makes a new
//! one in its place. Nobody knows what was sent shortly before, so after the birth every host waits for one full gap.

use abide_gate::pacing::LeaseId;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, cmd, pipe};

use crate::key::Keys;
use crate::text::Text;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) epoch: Epoch,
    pub(crate) can_eval: bool,
    /// What is not known may have been evicted.
    pub(crate) is_evicting: bool,
    pub(crate) policy: String,
    pub(crate) identity: String,
}

impl Greeting {
    /// Then a failover is not noticed.
    pub(crate) fn is_nameless(&self) -> bool {
        self.identity == NAMELESS
    }
}

/// Since when the server's data is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) key: String,
    /// What the key holds as long as nothing is lost: `<born> <random> <identity>`.
    pub(crate) value: String,
    /// In microseconds of the server's clock.
    pub(crate) born: u64,
}

impl Epoch {
    /// Whether this is what the key holds now.
    pub(crate) fn is(&self, found: Option<&Text>) -> bool {
        found.is_some_and(|Text(found)| *found == self.value)
    }
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
    epoch_slot: Option<u16>,
    may_eval: bool,
) -> Result<Greeting, RedisError> {
    let mut questions = pipe();
    questions.ignore_errors();
    questions.cmd("TIME");
    questions.cmd("INFO").arg("server");
    questions.cmd("INFO").arg("replication");
    questions.cmd("INFO").arg("memory");
    questions.cmd("EVAL").arg(PROBE).arg(0);
    questions.cmd("EVALSHA").arg(Script::new(PROBE).get_hash()).arg(0);
    let answers: Vec<RedisResult<redis::Value>> = questions.query_async(connection).await?;
    let [time, server, replication, memory, eval, again] =
        <[_; 6]>::try_from(answers).map_err(|_| unexpected())?;
    let now: (u64, u64) = redis::from_redis_value(time?)?;
    // Some operators allow no INFO: a restart is then seen only where it has lost the epoch, and any key may have been evicted.
    let (server, replication) = (info(server), info(replication));
    // Also one that takes writes: they are lost with its next copy.
    if field(&replication, "role") == Some("slave") {
        return Err((ErrorKind::Server(ServerErrorKind::ReadOnly), "it is a replica").into());
    }
    let identity = name(&server, &replication);
    let memory = info(memory);
    let policy = field(&memory, "maxmemory_policy").unwrap_or(UNKNOWN).to_owned();
    let is_bounded = field(&memory, "maxmemory").is_none_or(|bytes| bytes != "0");
    // Valkey calls it `server_mode`.
    let mode = field(&server, "redis_mode").or_else(|| field(&server, "server_mode"));
    if epoch_slot.is_none() && mode == Some("cluster") {
        expect_all_slots(connection, keys).await?;
    }
    Ok(Greeting {
        epoch: epoch(connection, keys.epoch(epoch_slot), &identity, now).await?,
        can_eval: may_eval && eval.is_ok() && again.is_ok(),
        is_evicting: is_bounded && policy != "noeviction",
        policy,
        identity,
    })
}

/// Which server is at the other end, and since which of its promotions.
pub(crate) async fn identity(connection: &mut MultiplexedConnection) -> RedisResult<String> {
    let mut questions = pipe();
    questions.cmd("INFO").arg("server").cmd("INFO").arg("replication");
    match questions.query_async::<(String, String)>(connection).await {
        Ok((server, replication)) => Ok(name(&server, &replication)),
        // It may not be asked.
        Err(error) if error.code() == Some("NOPERM") => Ok(NAMELESS.to_owned()),
        Err(error) => Err(error),
    }
}

/// Of a run of a server, and of its time as a primary: one that is made a replica and then a primary again has another's data.
fn name(server: &str, replication: &str) -> String {
    match (field(server, "run_id"), field(replication, "master_replid")) {
        (Some(run), Some(time)) => format!("{run}-{time}"),
        (Some(run), None) => run.to_owned(),
        (None, _) => NAMELESS.to_owned(),
    }
}

/// A node that has some slots of a cluster says so now, and not one host in three later (MOVED). One that has all of them is a server
/// like others.
async fn expect_all_slots(connection: &mut MultiplexedConnection, keys: &Keys) -> RedisResult<()> {
    let mut questions = pipe();
    for number in 0..LOOKS {
        questions.cmd("EXISTS").arg(keys.numbered(number)).ignore();
    }
    questions.query_async(connection).await
}

/// So many slots are looked at, as far apart as the numbers lie.
const LOOKS: u32 = 64;

/// The epoch that is there, or a new one in the place of another server's, from which it was copied.
async fn epoch(
    connection: &mut MultiplexedConnection,
    key: String,
    identity: &str,
    now: (u64, u64),
) -> RedisResult<Epoch> {
    let soon = micros_of(now).saturating_add(ON_ITS_WAY);
    let new = format!("{soon} {} {identity}", LeaseId::random());
    let mut ask = pipe();
    ask.cmd("SET").arg(&key).arg(&new).arg("NX").arg("EX").arg(EPOCH_LIFE_SECONDS).ignore();
    ask.cmd("GET").arg(&key);
    ask.cmd("EXPIRE").arg(&key).arg(EPOCH_LIFE_SECONDS).ignore();
    let (Text(mut value),): (Text,) = ask.query_async(connection).await?;
    // Who may not know the server's name believes what is there.
    if identity != NAMELESS && !value.ends_with(identity) {
        replace(connection, &key, &value, &new).await?;
        (Text(value),) = ask.query_async(connection).await?;
    }
    let born = value.split(' ').next().and_then(|born| born.parse().ok()).unwrap_or(u64::MAX);
    // One that was born in the future has seen a clock set back since.
    Ok(Epoch { born: born.min(soon), key, value })
}

/// Unless another has done so meanwhile: then its epoch counts.
async fn replace(connection: &mut MultiplexedConnection, key: &str, old: &str, new: &str) -> RedisResult<()> {
    let mut look = pipe();
    look.cmd("WATCH").arg(key).ignore().cmd("GET").arg(key);
    let (found,): (Option<Text>,) = look.query_async(connection).await?;
    let mut replace = pipe();
    match found.is_some_and(|Text(found)| found == old) {
        true => replace.atomic().cmd("SET").arg(key).arg(new).arg("EX").arg(EPOCH_LIFE_SECONDS),
        false => replace.cmd("UNWATCH"),
    };
    replace.exec_async(connection).await
}

/// An answer to `TIME`.
pub(crate) fn micros_of((seconds, micros): (u64, u64)) -> u64 {
    seconds.saturating_mul(1_000_000).saturating_add(micros)
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
    (ErrorKind::UnexpectedReturnType, "a pipeline with fewer answers than questions").into()
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
