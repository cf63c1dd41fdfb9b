//! A primary, a replica, and three sentinels that watch them.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::redis::{free_port, program, signal, try_ask};
use super::{Redis, wait_until};

pub(crate) struct Watched {
    pub(crate) primary: Redis,
    pub(crate) replica: Redis,
    sentinels: Vec<Sentinel>,
}

/// It is killed when it is dropped.
pub(crate) struct Sentinel {
    child: Child,
    port: u16,
    _directory: TempDir,
}

/// In milliseconds. The machine may be busy with other things: no replica takes over before a test wants it.
const PATIENT: &str = "60000";

impl Watched {
    pub(crate) fn start(args: &[&str]) -> Option<Self> {
        let args = [&["--repl-diskless-sync-delay", "0"], args].concat();
        let (primary, replica) = (Redis::start_with(&args)?, Redis::start_with(&args)?);
        replica.follow(&primary);
        let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::start(primary.port(), "")).collect();
        let knows =
            |sentinel: &Sentinel, what: &str, many: &str| sentinel.says(what).as_deref() == Some(many);
        for sentinel in &sentinels {
            wait_until("the sentinels know the replica and each other", || {
                knows(sentinel, "num-slaves", "1") && knows(sentinel, "num-other-sentinels", "2")
            });
        }
        Some(Self { primary, replica, sentinels })
    }

    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
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
        wait_until("all sentinels say so", || self.is_primary(self.replica.port()));
        self.is_down_after(PATIENT);
        over
    }

    /// The first one of the URL.
    pub(crate) fn pause_sentinel(&self) {
        signal(&self.sentinels[0].child, "STOP");
    }

    fn is_down_after(&self, millis: &str) {
        for sentinel in &self.sentinels {
            let words = ["SENTINEL", "SET", "main", "down-after-milliseconds", millis];
            try_ask::<()>(sentinel.port, &words).unwrap();
        }
    }

    /// Where the primary is, as all of them say.
    pub(crate) fn is_primary(&self, port: u16) -> bool {
        let port = port.to_string();
        self.sentinels.iter().all(|sentinel| sentinel.says("port").as_ref() == Some(&port))
    }
}

impl Sentinel {
    /// With these lines in its configuration besides.
    pub(crate) fn start(primary: u16, lines: &str) -> Self {
        // Another process may take the port between the look and the start.
        for _ in 0..10 {
            let mut sentinel = Self::spawn(free_port(), primary, lines);
            let deadline = Instant::now() + super::LONG;
            while sentinel.child.try_wait().unwrap().is_none() && Instant::now() < deadline {
                match try_ask::<Vec<String>>(sentinel.port, &["SENTINEL", "MASTER", "main"]) {
                    Err(error) if error.code() != Some("NOAUTH") => {}
                    _ => return sentinel,
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("no sentinel has started on any of ten ports");
    }

    pub(crate) fn url(&self, password: &str) -> String {
        format!("redis+sentinel://:{password}@127.0.0.1:{}/main", self.port)
    }

    fn spawn(port: u16, primary: u16, lines: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds main {PATIENT}\nsentinel failover-timeout main 4000\n{lines}",
            directory.path().display()
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(program());
        command.arg(&file).arg("--sentinel");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), port, _directory: directory }
    }

    /// A field of what it knows of the primary.
    fn says(&self, field: &str) -> Option<String> {
        let fields: Vec<String> = try_ask(self.port, &["SENTINEL", "MASTER", "main"]).ok()?;
        fields.chunks(2).find(|pair| pair[0] == field).map(|pair| pair[1].clone())
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
