//! A `redis-server` of one's own. `ABIDE_REDIS_SERVER` names another program that does the same, such as `valkey-server`.

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

/// The machine may be busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

const STARTS_WITHIN: Duration = super::LONG;

impl Redis {
    /// `None`: there is no such program here, which has been said.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// One that has been in use for two days, so that no process waits for its grace.
    pub(crate) fn start_aged(args: &[&str]) -> Option<Self> {
        Self::start_with(args).inspect(Self::age)
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
                Err(error) => panic!("{} does not start: {error}", program()),
            };
            let mut redis = Self { child, port, args: args.clone(), directory: TempDir::new().unwrap() };
            if redis.is_up() {
                redis.directory = directory;
                return Some(redis);
            }
        }
        panic!("{} has not started on any of ten ports", program());
    }

    fn is_up(&mut self) -> bool {
        let deadline = Instant::now() + STARTS_WITHIN;
        while Instant::now() < deadline {
            if self.child.try_wait().expect("a child can be waited for").is_some() {
                return false;
            }
            match self.connection().and_then(|mut connection| cmd("PING").exec(&mut connection)) {
                // A port that another process has taken meanwhile is not ours.
                Err(error) if error.code() != Some("NOAUTH") => {}
                _ => return self.child.try_wait().is_ok_and(|ended| ended.is_none()),
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
        panic!("{} does not start again on port {}", program(), self.port);
    }

    /// A builder for a store on a server that has been in use for two days, so that no process waits for its grace.
    pub(crate) fn aged(&self) -> Builder {
        self.age();
        Store::builder(&self.url()).command_timeout(PATIENCE)
    }

    pub(crate) fn age(&self) {
        let (now, _): (u64, u64) = self.ask(&["TIME"]);
        let marker =
            format!("{} {}", (now - 2 * 86_400) * 1_000_000, self.info("replication", "master_replid"));
        let mut all = redis::pipe();
        for bucket in 0..256 {
            all.cmd("SET").arg(format!("abide:{{b{bucket}}}:born")).arg(&marker).ignore();
        }
        // A node of a cluster says of some that they lie elsewhere.
        let _ = all.query::<()>(&mut self.connection().unwrap());
    }

    /// It stays connected, and says nothing.
    pub(crate) fn pause(&self) {
        signal(&self.child, "STOP");
    }

    pub(crate) fn resume(&self) {
        signal(&self.child, "CONT");
    }

    /// A field of a section of INFO.
    pub(crate) fn info(&self, section: &str, field: &str) -> String {
        let info: String = self.ask(&["INFO", section]);
        let field = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        field.expect("the server says so").trim().to_owned()
    }

    /// A command on a connection of its own.
    pub(crate) fn ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]>]) -> T {
        self.try_ask(words).unwrap_or_else(|error| panic!("{}: {error}", words[0].as_ref().escape_ascii()))
    }

    pub(crate) fn try_ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]>]) -> redis::RedisResult<T> {
        try_ask(self.port, words)
    }

    fn connection(&self) -> redis::RedisResult<Connection> {
        connection(self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Without a crate for one system call.
pub(crate) fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.expect("kill is on the path").success());
}

fn connection(port: u16) -> redis::RedisResult<Connection> {
    Client::open(format!("redis://127.0.0.1:{port}/"))?.get_connection_with_timeout(Duration::from_secs(5))
}

/// A command to the server on this port.
pub(crate) fn try_ask<T: FromRedisValue>(port: u16, words: &[impl AsRef<[u8]>]) -> redis::RedisResult<T> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word.as_ref());
    }
    command.query(&mut connection(port)?)
}

/// The server to be tested with.
pub(crate) fn program() -> String {
    let named = std::env::var("ABIDE_REDIS_SERVER").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| "redis-server".to_owned())
}

fn spawn(port: u16, args: &[String], directory: &TempDir) -> std::io::Result<Child> {
    Command::new(program())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--dir".as_ref(), directory.path().as_os_str()])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be listened on");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// Said where the test harness does not swallow it.
fn skip() -> Option<Redis> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    assert!(
        !set("CI") && !set("ABIDE_REQUIRE_REDIS"),
        "{} is not on the path, and is required here",
        program()
    );
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let line = format!(
            "\n*** {} is not installed: the tests of abide-redis that need it are SKIPPED ***\n\n",
            program()
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
    None
}
