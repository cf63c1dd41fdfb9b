//! An operation in one script: `turn.lua`.

use std::sync::LazyLock;

use redis::{Cmd, ErrorKind, RedisError, Script, ServerErrorKind, cmd, pipe};

use super::decide::{Operation, Outcome};
use crate::Error;
use crate::greeting::ask_epoch;
use crate::key::TurnKeys;
use crate::node::Reached;
use crate::text::Text;

const TURN: &str = include_str!("turn.lua");

/// By its hash it is a tenth as long.
static HASH: LazyLock<String> = LazyLock::new(|| Script::new(TURN).get_hash().to_owned());

/// Verdict, a time, a text, and strikes.
type Answer = (String, u64, Text, u8);

pub(crate) async fn run(
    at: &Reached,
    keys: &TurnKeys,
    operation: &Operation,
) -> Result<(Outcome, bool), Error> {
    let known = ask(at, call("EVALSHA", &HASH, keys, operation), operation).await;
    let answer = match known {
        // It is run once in full and known by its hash from then on.
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            ask(at, call("EVAL", TURN, keys, operation), operation).await
        }
        known => known,
    };
    let (answer, is_whole) = answer.map_err(|error| at.failed(&error))?;
    let outcome = read(answer).ok_or_else(|| Error::unexpected(at.server()))?;
    Ok((outcome, is_whole))
}

/// Only a grant depends on what others did, so only then it matters whether the server still knows.
async fn ask(at: &Reached, call: Cmd, operation: &Operation) -> Result<(Answer, bool), RedisError> {
    let mut connection = at.connection();
    if !matches!(operation, Operation::Reserve(_)) {
        return Ok((call.query_async(&mut connection).await?, true));
    }
    let mut both = pipe();
    both.add_command(call).add_command(ask_epoch(&at.greeting().epoch));
    let (answer, epoch): (Answer, Option<Text>) = both.query_async(&mut connection).await?;
    Ok((answer, at.greeting().epoch.is(epoch.as_ref())))
}

fn call(how: &str, script: &str, keys: &TurnKeys, operation: &Operation) -> Cmd {
    let mut call = cmd(how);
    call.arg(script).arg(2).arg(&keys.slot).arg(&keys.flight);
    match operation {
        Operation::Reserve(ask) => {
            call.arg("reserve").arg(ask.lease.to_string()).arg(ask.gap).arg(ask.limit).arg(ask.max_wait);
            call.arg(ask.ttl).arg(ask.delay).arg(ask.born);
            call.arg(u8::from(ask.is_evicting)).arg(u8::from(ask.is_question));
        }
        Operation::Response { lease, gap } => {
            call.arg("release").arg(lease.to_string()).arg("response").arg(gap);
        }
        Operation::Unsent { lease } => {
            call.arg("release").arg(lease.to_string()).arg("unsent").arg(0);
        }
        Operation::Undo { lease, moved: (before, after) } => {
            call.arg("release").arg(lease.to_string()).arg("undo").arg(0).arg(before).arg(after);
        }
        Operation::Renew { lease, ttl } => {
            call.arg("renew").arg(lease.to_string()).arg(ttl);
        }
        Operation::Hold { ahead, strikes, cause } => {
            call.arg("hold").arg(ahead).arg(cause).arg(strikes);
        }
    }
    call
}

fn read((verdict, time, Text(text), strikes): Answer) -> Option<Outcome> {
    Some(match verdict.as_str() {
        "granted" => {
            let moved = text.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            Outcome::Granted { wait: time, moved: moved.unwrap_or_default(), strikes }
        }
        "stale" => Outcome::Stale,
        "busy" => Outcome::InFlight { wait: time },
        "gap" => Outcome::Gap { wait: time },
        "hold" => Outcome::Hold { wait: time, strikes, cause: text },
        "held" => Outcome::Held { left: time },
        "done" => Outcome::Done,
        _ => return None,
    })
}
