//! Scripts, known to the server by their hash after the first time.

use redis::{Cmd, cmd};

pub(crate) struct Script {
    code: &'static str,
    hash: String,
}

impl Script {
    pub(crate) fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }

    /// By its hash it is a hundredth as long.
    pub(crate) fn by_hash(&self, keys: &[String], words: &[String]) -> Cmd {
        call("EVALSHA", &self.hash, keys, words)
    }

    /// In full: the server knows it from then on. The library's own way there is `SCRIPT LOAD`, on all nodes of a cluster.
    pub(crate) fn in_full(&self, keys: &[String], words: &[String]) -> Cmd {
        call("EVAL", self.code, keys, words)
    }
}

fn call(how: &str, script: &str, keys: &[String], words: &[String]) -> Cmd {
    let mut call = cmd(how);
    call.arg(script).arg(keys.len()).arg(keys).arg(words);
    call
}
