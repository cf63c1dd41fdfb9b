//! A primary, a replica, and three sentinels that watch them.

use std::time::Instant;

use abide_tests::Redis;

use super::{follow, wait_until};

pub(crate) struct Watched {
    pub(crate) primary: Redis,
    pub(crate) replica: Redis,
    pub(crate) sentinels: Vec<Redis>,
}

/// In milliseconds. The machine may be busy with other things: no replica takes over before a test wants it.
const PATIENT: &str = "60000";

impl Watched {
    pub(crate) fn start() -> Option<Self> {
        let (primary, replica) = (Redis::start_new(&[])?, Redis::start_new(&[])?);
        follow(&replica, &primary);
        // Not before: the first replica gives it another name.
        primary.age();
        let sentinels: Option<Vec<_>> = (0..3).map(|_| start_sentinel(&primary, &[])).collect();
        let watched = Self { primary, replica, sentinels: sentinels? };
        wait_until("the sentinels know the replica and each other", || {
            watched.all_say("num-slaves", "1") && watched.all_say("num-other-sentinels", "2")
        });
        Some(watched)
    }

    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }

    /// The primary dies, and the replica takes its place. Returns when that became so.
    pub(crate) fn fail_over(&mut self) -> Instant {
        self.is_down_after("500");
        self.primary.kill();
        // A server that is promoted closes its connections.
        let role = || self.replica.try_ask::<String>(&["INFO", "replication"]);
        wait_until("the replica takes over", || role().is_ok_and(|info| info.contains("role:master")));
        let over = Instant::now();
        wait_until("all sentinels say so", || self.is_primary(&self.replica));
        self.is_down_after(PATIENT);
        over
    }

    fn is_down_after(&self, millis: &str) {
        for sentinel in &self.sentinels {
            sentinel.ask::<()>(&["SENTINEL", "SET", "main", "down-after-milliseconds", millis]);
        }
    }

    /// As all of them say.
    pub(crate) fn is_primary(&self, server: &Redis) -> bool {
        self.all_say("port", &server.port().to_string())
    }

    /// A field of what they know of the primary.
    fn all_say(&self, field: &str, value: &str) -> bool {
        self.sentinels.iter().all(|sentinel| {
            let fields = sentinel.try_ask::<Vec<String>>(&["SENTINEL", "MASTER", "main"]).unwrap_or_default();
            fields.chunks(2).any(|pair| pair == [field, value])
        })
    }
}

pub(crate) fn start_sentinel(primary: &Redis, settings: &[&str]) -> Option<Redis> {
    let sentinel = Redis::start_new(&["--sentinel"])?;
    let port = primary.port().to_string();
    sentinel.ask::<()>(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "2"]);
    let own = ["down-after-milliseconds", PATIENT, "failover-timeout", "4000"];
    sentinel.ask::<()>(&[&["SENTINEL", "SET", "main"], &own[..], settings].concat());
    Some(sentinel)
}
