//! A PostgreSQL server of a test's own. `ABIDE_POSTGRES_BIN` names the directory of its programs, if that is
//! not Debian's.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::redis::{free_port, signal};

/// A server on a free port of loopback, in a directory of its own. It is killed when it is dropped.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    port: u16,
    args: Vec<String>,
    directory: TempDir,
}

/// The machine may be busy with other things.
const STARTS_WITHIN: Duration = Duration::from_secs(120);

/// In its directory.
const DATA: &str = "data";
const LOG: &str = "log";

impl Postgres {
    /// One with the user `postgres`, without a password, and with these settings, each as `name=value`.
    /// `None`: there is no such program here, which has been said.
    ///
    /// # Panics
    /// Where there must be one: `CI` or `ABIDE_REQUIRE_POSTGRES` is set.
    pub fn start(settings: &[&str]) -> Option<Self> {
        let Some(made) = template() else { return skip() };
        let directory = private_directory();
        copy(made.path(), directory.path());
        Some(Self::start_in(directory, settings))
    }

    /// The same with what lies in this directory, as [`backup`](Self::backup) has made it, on a port of its
    /// own.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_in(mut directory: TempDir, settings: &[&str]) -> Self {
        let args: Vec<String> = settings.iter().flat_map(|it| ["-c".to_owned(), (*it).to_owned()]).collect();
        // Another process may take the port between the look and the start.
        for _ in 0..10 {
            let port = free_port();
            let child = spawn(port, &args, directory.path());
            let mut server = Self { child, port, args: args.clone(), directory };
            if server.is_up() {
                return server;
            }
            directory = server.into_directory();
        }
        panic!("postgres has not started on any of ten ports: {}", log_of(directory.path()));
    }

    fn is_up(&mut self) -> bool {
        let deadline = Instant::now() + STARTS_WITHIN;
        while Instant::now() < deadline && self.child.try_wait().unwrap().is_none() {
            if self.try_ask("SELECT 1").is_ok() {
                return self.child.try_wait().unwrap().is_none();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// What it has said.
    pub fn log(&self) -> String {
        log_of(self.directory.path())
    }

    /// As `pg_ctl stop -m immediate`: it comes back by crash recovery.
    pub fn kill(&mut self) {
        signal(&self.child, "QUIT");
        self.child.wait().unwrap();
    }

    /// In good order, without waiting for those that are connected.
    pub fn stop(&mut self) {
        signal(&self.child, "INT");
        self.child.wait().unwrap();
    }

    /// On the same port, with what is on its disk.
    pub fn start_again(&mut self) {
        let deadline = Instant::now() + STARTS_WITHIN;
        while Instant::now() < deadline {
            self.child = spawn(self.port, &self.args, self.directory.path());
            if self.is_up() {
                return;
            }
        }
        panic!("postgres does not start again on port {}: {}", self.port, self.log());
    }

    /// Puts a directory that [`backup`](Self::backup) has made in place of its own. It must have ended.
    pub fn restore(&mut self, backup: TempDir) {
        self.directory = backup;
    }

    /// All of its processes stay connected, and say nothing.
    pub fn pause(&self) {
        self.signal_all("STOP");
    }

    /// It goes on after a pause.
    pub fn resume(&self) {
        self.signal_all("CONT");
    }

    fn signal_all(&self, name: &str) {
        // The children first, or some would be started meanwhile.
        let id = self.child.id().to_string();
        signal(&self.child, name);
        Command::new("pkill").args([&format!("-{name}"), "-P", &id]).status().unwrap();
    }

    /// A copy of its data, taken while it runs.
    pub fn backup(&self) -> TempDir {
        let directory = private_directory();
        let data = directory.path().join(DATA);
        let port = self.port.to_string();
        let arguments = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-X", "stream", "-c", "fast"];
        run(unprivileged("pg_basebackup").args(arguments).arg("-D").arg(data));
        directory
    }

    /// What psql prints for this statement, on a connection of its own.
    ///
    /// # Panics
    /// It fails.
    pub fn ask(&self, sql: &str) -> String {
        self.try_ask(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The same, or what psql says.
    ///
    /// # Errors
    /// The server says so, or it cannot be reached.
    pub fn try_ask(&self, sql: &str) -> Result<String, String> {
        let port = self.port.to_string();
        let arguments = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-d", "postgres", "-qAtX"];
        let mut psql = Command::new(program("psql"));
        psql.args(arguments).args(["-v", "ON_ERROR_STOP=1", "-c", sql]).env("PGCONNECT_TIMEOUT", "5");
        let Output { status, stdout, stderr } = psql.stdin(Stdio::null()).output().unwrap();
        match status.success() {
            true => Ok(String::from_utf8(stdout).unwrap().trim().to_owned()),
            false => Err(String::from_utf8_lossy(&stderr).into_owned()),
        }
    }

    fn into_directory(mut self) -> TempDir {
        self.end();
        std::mem::replace(&mut self.directory, private_directory())
    }

    fn end(&mut self) {
        // A process that is stopped would not see that its parent has gone.
        self.resume();
        signal(&self.child, "QUIT");
        let _ = self.child.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.end();
        }
    }
}

/// One that `initdb` has made, once for all tests of a program.
fn template() -> Option<&'static TempDir> {
    static MADE: OnceLock<Option<TempDir>> = OnceLock::new();
    let make = || {
        let has_server = program("initdb").exists() && program("postgres").exists();
        has_server.then(|| {
            let directory = private_directory();
            let arguments = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync"];
            let data = directory.path().join(DATA);
            run(unprivileged("initdb").args(arguments).args(["--wal-segsize", "1", "-D"]).arg(data));
            directory
        })
    };
    MADE.get_or_init(make).as_ref()
}

/// The newest version that is installed.
fn program(name: &str) -> PathBuf {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        if let Some(named) = std::env::var_os("ABIDE_POSTGRES_BIN").filter(|named| !named.is_empty()) {
            return named.into();
        }
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let version = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let newest = versions.filter_map(version).max().unwrap_or_default();
        Path::new("/usr/lib/postgresql").join(newest.to_string()).join("bin")
    };
    BIN.get_or_init(find).join(name)
}

/// PostgreSQL refuses to run as root: there, as the user that its package makes.
fn unprivileged(name: &str) -> Command {
    if !is_root() {
        return Command::new(program(name));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program(name));
    command
}

fn is_root() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| Command::new("id").arg("-u").output().unwrap().stdout == b"0\n")
}

/// Of the user that runs the server.
fn private_directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    if is_root() {
        run(Command::new("chown").arg("postgres:postgres").arg(directory.path()));
    }
    directory
}

fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").args(["-a"]).arg(from.join(DATA)).arg(to));
}

fn run(command: &mut Command) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let said = [stdout, stderr].concat();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}

fn spawn(port: u16, args: &[String], directory: &Path) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(directory.join(LOG)).unwrap();
    unprivileged("postgres")
        .arg("-D")
        .arg(directory.join(DATA))
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
        // Processes are killed here, and no machine: what the system has is on the disk.
        .args(["-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "log_min_messages=fatal"])
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn log_of(directory: &Path) -> String {
    std::fs::read_to_string(directory.join(LOG)).unwrap_or_default()
}

/// Said where the test harness does not swallow it.
fn skip() -> Option<Postgres> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!is_set("CI") && !is_set("ABIDE_REQUIRE_POSTGRES"), "a PostgreSQL server is required here");
    let line = "\n*** PostgreSQL is not installed: a test is SKIPPED ***\n\n";
    let _ = std::io::stderr().write_all(line.as_bytes());
    None
}
