//! An operation without scripts: what is stored is watched and read, decided upon here, and written only if nobody else has
//! written meanwhile.

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, Value, cmd, pipe};

use super::decide::{Operation, Outcome, Slot, Stored, Writes};
use crate::Error;
use crate::greeting::{Epoch, ask_epoch, micros_of};
use crate::key::TurnKeys;
use crate::node::Reached;
use crate::text::Text;

/// Others can be faster so often. Each time one of them has got what it wanted.
const TRIES: usize = 32;

pub(crate) async fn run(
    at: &Reached,
    keys: &TurnKeys,
    operation: &Operation,
) -> Result<(Outcome, bool), Error> {
    // What is watched belongs to the connection, so nobody else may use it meanwhile.
    let mut spare = at.spare().await?;
    let done = attempts(&mut spare.connection, &at.greeting().epoch, keys, operation).await;
    let done = done.map_err(|error| at.failed(&error))?;
    at.put_back(spare);
    done.ok_or_else(|| Error::unexpected(at.server()))
}

async fn attempts(
    connection: &mut MultiplexedConnection,
    epoch: &Epoch,
    keys: &TurnKeys,
    operation: &Operation,
) -> Result<Option<(Outcome, bool)>, RedisError> {
    for _ in 0..TRIES {
        let mut questions = pipe();
        questions.cmd("WATCH").arg(&keys.slot).arg(&keys.flight).ignore();
        let (stored, _) = ask(connection, questions, epoch, keys).await?;
        let (outcome, writes) = stored.apply(operation);
        let Some(writes) = pipeline(keys, &writes) else {
            let (epoch_now,): (Option<Text>,) =
                pipe().cmd("UNWATCH").ignore().add_command(ask_epoch(epoch)).query_async(connection).await?;
            return Ok(Some((outcome, epoch.is(epoch_now.as_ref()))));
        };
        if writes.query_async::<Value>(connection).await? != Value::Nil {
            let now: Option<Text> = ask_epoch(epoch).query_async(connection).await?;
            return Ok(Some((outcome, epoch.is(now.as_ref()))));
        }
    }
    Ok(None)
}

/// What is stored of a scope, and whether the server's data is whole. Needs no connection of its own.
pub(crate) async fn read(at: &Reached, keys: &TurnKeys) -> Result<(Stored, bool), Error> {
    let read = ask(&mut at.connection(), pipe(), &at.greeting().epoch, keys).await;
    read.map_err(|error| at.failed(&error))
}

/// Of the slot: start, end, hold, cause, gap, strikes.
type Fields = (Option<Text>, Option<Text>, Option<Text>, Option<Text>, Option<Text>, Option<Text>);
/// Time, slot, flight, epoch.
type Answers = ((u64, u64), Fields, Vec<(Text, f64)>, Option<Text>);

async fn ask(
    connection: &mut MultiplexedConnection,
    mut questions: Pipeline,
    epoch: &Epoch,
    keys: &TurnKeys,
) -> Result<(Stored, bool), RedisError> {
    questions.cmd("TIME");
    questions.cmd("HMGET").arg(&keys.slot).arg(&["start", "end", "hold", "cause", "gap", "strikes"]);
    questions.cmd("ZRANGE").arg(&keys.flight).arg(0).arg(-1).arg("WITHSCORES");
    questions.add_command(ask_epoch(epoch));
    let answers: Answers = questions.query_async(connection).await?;
    let (time, (start, end, hold, cause, gap, strikes), flight, now) = answers;
    let stored = Stored {
        now: micros_of(time),
        slot: Slot {
            start: number(start),
            end: number(end),
            hold: number(hold),
            cause: cause.unwrap_or_default().0,
            gap: number(gap),
            strikes: u8::try_from(number(strikes)).unwrap_or(u8::MAX),
        },
        // Scores are whole microseconds; what is not becomes zero, or the most.
        flight: flight.into_iter().map(|(Text(lease), expiry)| (lease, expiry as u64)).collect(),
    };
    Ok((stored, epoch.is(now.as_ref())))
}

/// What is not one that we write is the largest: it is taken for a time that is far ahead, and nothing is let out for it.
fn number(text: Option<Text>) -> u64 {
    // Numbers that we write have no sign, which `parse` would take.
    let ours = |text: String| text.bytes().all(|octet| octet.is_ascii_digit()).then(|| text.parse().ok());
    text.map_or(0, |Text(text)| ours(text).flatten().unwrap_or(NUMBER_MAX).min(NUMBER_MAX))
}

/// A double holds what is below exactly.
const NUMBER_MAX: u64 = 1 << 53;

/// All writes in one transaction; none if there is nothing to write.
fn pipeline(keys: &TurnKeys, writes: &Writes) -> Option<Pipeline> {
    let mut all = pipe();
    all.atomic();
    if let Some((slot, life)) = &writes.slot {
        let mut set = cmd("HSET");
        set.arg(&keys.slot).arg("start").arg(slot.start).arg("end").arg(slot.end);
        set.arg("hold").arg(slot.hold).arg("cause").arg(&slot.cause).arg("gap").arg(slot.gap);
        set.arg("strikes").arg(slot.strikes);
        all.add_command(set).cmd("PEXPIRE").arg(&keys.slot).arg(life.div_ceil(1_000));
    }
    if let Some(now) = writes.clean_until {
        all.cmd("ZREMRANGEBYSCORE").arg(&keys.flight).arg("-inf").arg(now);
    }
    if let Some(last) = writes.clean_after {
        all.cmd("ZREMRANGEBYSCORE").arg(&keys.flight).arg(format!("({last}")).arg("+inf");
    }
    if let Some((lease, expiry, life)) = &writes.lease {
        all.cmd("ZADD").arg(&keys.flight).arg(*expiry).arg(lease);
        all.cmd("PEXPIRE").arg(&keys.flight).arg(life.div_ceil(1_000));
    }
    if let Some(lease) = &writes.remove {
        all.cmd("ZREM").arg(&keys.flight).arg(lease);
    }
    (!all.is_empty()).then_some(all)
}
