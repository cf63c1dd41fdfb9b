//! Scripts, known to the server by their hash after the first time.
//!
//! A script has some kilobytes: sent whole with each exchange, it would be most of the traffic.

use redis::{ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs, cmd};

use crate::link::Connection;

pub(crate) struct Script {
    code: &'static str,
    hash: String,
}

impl Script {
    pub(crate) fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }

    /// By its hash, which is a hundredth as long; and in full where the server does not know it, which then
    /// does. The library's own way there is `SCRIPT LOAD`, on all nodes of a cluster.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        at: &mut Connection,
        keys: &[String],
        args: impl ToRedisArgs,
    ) -> RedisResult<T> {
        let call = |how, script| cmd(how).arg(script).arg(keys.len()).arg(keys).arg(&args).to_owned();
        match at.query(&call("EVALSHA", &*self.hash)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                at.query(&call("EVAL", self.code)).await
            }
            reply => reply,
        }
    }
}
