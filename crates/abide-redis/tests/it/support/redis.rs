//! A `redis-server` of one's own.

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use abide_redis::{Builder, Store};
use redis::{Client, Connection, FromRedisValue, cmd};
use tempfile::TempDir;

/// A server on a free port, in a directory of its own. It is killed when it is dropped.
pub(crate) struct Redis {
    child: Child,
    port: u16,
    args: Vec<String>,
    directory: TempDir,
}

/// Arguments of a server that runs no scripts.
pub(crate) const WITHOUT_EVAL: &[&str] =
    &["--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "", "--rename-command", "SCRIPT", ""];

const STARTS_WITHIN: Duration = Duration::from_secs(20);

impl Redis {
    /// `None`: there is no `redis-server` here, which has been said.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Option<Self> {
        let directory = TempDir::new().expect("a directory can be made");
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        // Another process may take the port between the look and the start.
        for _ in 0..10 {
            let port = free_port();
            let child = match spawn(port, &args, &directory) {
                Ok(child) => child,
                Err(error) if error.kind() == ErrorKind::NotFound => return skip(),
                Err(error) => panic!("redis-server does not start: {error}"),
            };
            let mut redis = Self { child, port, args: args.clone(), directory: TempDir::new().unwrap() };
            if redis.is_up() {
                redis.directory = directory;
                return Some(redis);
            }
        }
        panic!("redis-server has not started on any of ten ports");
    }

    fn is_up(&mut self) -> bool {
        let deadline = Instant::now() + STARTS_WITHIN;
        while Instant::now() < deadline {
            if self.child.try_wait().expect("a child can be waited for").is_some() {
                return false;
            }
            match self.connection().and_then(|mut connection| cmd("PING").exec(&mut connection)) {
                Err(error) if error.code() != Some("NOAUTH") => {}
                _ => return true,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// On the same port, with what is on its disk.
    pub(crate) fn start_again(&mut self) {
        let deadline = Instant::now() + STARTS_WITHIN;
        while Instant::now() < deadline {
            self.child = spawn(self.port, &self.args, &self.directory).expect("it has started before");
            if self.is_up() {
                return;
            }
        }
        panic!("redis-server does not start again on port {}", self.port);
    }

    /// A builder for a store on a server that has been in use for two days, so that nobody waits for its epoch.
    pub(crate) fn aged(&self) -> Builder {
        self.age("abide");
        Store::builder(&self.url())
    }

    pub(crate) fn age(&self, prefix: &str) {
        let run_id = self.info("server", "run_id");
        let (now, _): (u64, u64) = self.ask(&["TIME"]);
        let born = format!("{} two-days-ago", (now - 2 * 86_400) * 1_000_000);
        self.ask::<()>(&["SET", &format!("{prefix}:epoch:{run_id}"), &born]);
    }

    /// A field of a section of INFO.
    pub(crate) fn info(&self, section: &str, field: &str) -> String {
        let info: String = self.ask(&["INFO", section]);
        let field = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        field.expect("the server says so").trim().to_owned()
    }

    /// A command on a connection of its own.
    pub(crate) fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = self.connection().expect("the server is there");
        let mut command = cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        command.query(&mut connection).unwrap_or_else(|error| panic!("{}: {error}", words[0]))
    }

    /// Whatever comes of it.
    pub(crate) fn tell(&self, words: &[&str]) {
        let mut command = cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        let _ = self.connection().and_then(|mut connection| command.exec(&mut connection));
    }

    fn connection(&self) -> redis::RedisResult<Connection> {
        Client::open(self.url())?.get_connection_with_timeout(Duration::from_secs(5))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, args: &[String], directory: &TempDir) -> std::io::Result<Child> {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--dir".as_ref(), directory.path().as_os_str()])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be listened on");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// Said where the test harness does not swallow it.
fn skip() -> Option<Redis> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    assert!(
        !set("CI") && !set("ABIDE_REQUIRE_REDIS"),
        "redis-server is not on the path, and is required here"
    );
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let line =
            "\n*** redis-server is not installed: the tests of abide-redis that need it are SKIPPED ***\n\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
    None
}
