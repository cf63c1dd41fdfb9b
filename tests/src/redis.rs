//! A `redis-server` of a test's own. `ABIDE_REDIS_SERVER` names another program that does the same, such as
//! `valkey-server`.

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Client, Connection, FromRedisValue, RedisResult};
use tempfile::TempDir;

/// A server on a free port of loopback, in a directory of its own. It is killed when it is dropped.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    port: u16,
    args: Vec<String>,
    directory: TempDir,
}

/// The machine may be busy with other things.
const STARTS_WITHIN: Duration = Duration::from_secs(120);

/// In its directory.
const LOG: &str = "redis.log";

const PUT: &str = "local checksum = redis.sha1hex('1' .. KEYS[1] .. '\\n' .. ARGV[1]):sub(1, 8)
    redis.call('SET', KEYS[1], '1 ' .. checksum .. ' ' .. ARGV[1])";

impl Redis {
    /// One that seems to have been in use for two days, so that no process waits for the leases of before its
    /// start. `None`: there is no such program here, which has been said.
    ///
    /// # Panics
    /// Where there must be one: `CI` or `ABIDE_REQUIRE_REDIS` is set.
    pub fn start() -> Option<Self> {
        Self::start_new(&[]).inspect(Self::age)
    }

    /// One that knows nothing, with these arguments.
    pub fn start_new(args: &[&str]) -> Option<Self> {
        // Another process may take the port between the look and the start.
        let mut said = String::new();
        for _ in 0..10 {
            let (port, directory) = (free_port(), TempDir::new().unwrap());
            let args = args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
            let child = match spawn(port, &args, &directory) {
                Err(error) if error.kind() == ErrorKind::NotFound => return skip(),
                child => child.unwrap(),
            };
            let mut redis = Self { child, port, args, directory };
            if redis.is_up() {
                return Some(redis);
            }
            said = std::fs::read_to_string(redis.directory.path().join(LOG)).unwrap_or_default();
            // What it lacks may be there in a moment.
            std::thread::sleep(Duration::from_millis(500));
        }
        panic!("{} has not started on any of ten ports: {said}", program());
    }

    fn is_up(&mut self) -> bool {
        let deadline = Instant::now() + STARTS_WITHIN;
        while Instant::now() < deadline && self.child.try_wait().unwrap().is_none() {
            match self.try_ask::<()>(&["PING"]) {
                // A port that another process has taken meanwhile is not ours.
                Err(error) if error.code() != Some("NOAUTH") => std::thread::sleep(Duration::from_millis(10)),
                _ => return self.child.try_wait().unwrap().is_none(),
            }
        }
        false
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT/`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// As `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// On the same port, with what is on its disk.
    pub fn start_again(&mut self) {
        let deadline = Instant::now() + STARTS_WITHIN;
        while Instant::now() < deadline {
            self.child = spawn(self.port, &self.args, &self.directory).unwrap();
            if self.is_up() {
                return;
            }
        }
        panic!("{} does not start again on port {}", program(), self.port);
    }

    /// Says since when all of its keys are known, as abide-redis does when it connects for the first time:
    /// for two days.
    pub fn age(&self) {
        let (now, _): (u64, u64) = self.ask(&["TIME"]);
        let began = (now - 2 * 86_400) * 1_000_000;
        let marker = format!("{began} {}", self.info("replication", "master_replid"));
        let mut all = redis::pipe();
        for bucket in 0..256 {
            all.cmd("EVAL").arg(PUT).arg(1).arg(format!("abide:{{b{bucket}}}:born")).arg(&marker).ignore();
        }
        // A node of a cluster says of some that they lie elsewhere.
        let _ = all.query::<()>(&mut self.connection().unwrap());
    }

    /// Writes a value as abide-redis does: with its version and its checksum.
    pub fn put(&self, key: &str, fields: impl AsRef<[u8]>) {
        self.ask::<()>(&[b"EVAL", PUT.as_bytes(), b"1", key.as_bytes(), fields.as_ref()]);
    }

    /// It stays connected, and says nothing.
    pub fn pause(&self) {
        signal(&self.child, "STOP");
    }

    /// It goes on after a pause.
    pub fn resume(&self) {
        signal(&self.child, "CONT");
    }

    /// A field of a section of INFO.
    pub fn info(&self, section: &str, field: &str) -> String {
        let info: String = self.ask(&["INFO", section]);
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("expected {field} in {info}")).trim().to_owned()
    }

    /// The reply to a command, on a connection of its own.
    pub fn ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]>]) -> T {
        self.try_ask(words).unwrap_or_else(|error| panic!("{}: {error}", words[0].as_ref().escape_ascii()))
    }

    /// The same, or its error.
    ///
    /// # Errors
    /// What the server says, or that it cannot be reached.
    pub fn try_ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]>]) -> RedisResult<T> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word.as_ref());
        }
        command.query(&mut self.connection()?)
    }

    fn connection(&self) -> RedisResult<Connection> {
        Client::open(self.url())?.get_connection_with_timeout(Duration::from_secs(5))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process, without a crate for one system call.
pub fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

fn program() -> String {
    let named = std::env::var("ABIDE_REDIS_SERVER").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| "redis-server".to_owned())
}

fn spawn(port: u16, args: &[String], directory: &TempDir) -> std::io::Result<Child> {
    // A sentinel starts with a file to write to, which may be empty.
    let file = directory.path().join("redis.conf");
    std::fs::OpenOptions::new().create(true).append(true).open(&file)?;
    let log = std::fs::OpenOptions::new().create(true).append(true).open(directory.path().join(LOG))?;
    Command::new(program())
        .arg(&file)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--repl-diskless-sync-delay", "0", "--dir"])
        .arg(directory.path())
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// A port on which nothing listens now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Said where the test harness does not swallow it.
fn skip() -> Option<Redis> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!is_set("CI") && !is_set("ABIDE_REQUIRE_REDIS"), "{} is required here", program());
    let line = format!("\n*** {} is not installed: a test is SKIPPED ***\n\n", program());
    let _ = std::io::stderr().write_all(line.as_bytes());
    None
}
