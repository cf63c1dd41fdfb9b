//! The contract of the command, as a program that relies on it sees it: the real binary, its two outputs, its
//! exit status.

#![allow(clippy::restriction, reason = "a test that cannot go on fails, and says where")]

mod audit;
mod batch;
mod calls;
mod config;
mod crawl;
mod crawl_outcomes;
#[cfg(unix)]
mod documented;
mod identity;
mod io;
mod link_checks;
mod pacing;
#[cfg(feature = "redb")]
mod recrawl;
mod refused;
#[cfg(all(feature = "serve", unix))]
mod serve;
#[cfg(all(feature = "serve", unix))]
mod serve_access;
#[cfg(all(feature = "serve", unix))]
mod serve_clients;
#[cfg(all(feature = "serve", unix))]
mod serve_end;
mod store;
#[cfg(target_os = "linux")]
mod terminal;
mod warc;
mod watch;

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What a call left behind.
struct Ran {
    status: i32,
    out: String,
    err: String,
}

impl Ran {
    /// Every line of the output as JSON.
    fn lines(&self) -> Vec<Value> {
        let line =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{}", self.err));
        self.out.lines().map(line).collect()
    }

    fn line(&self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{}{}", self.out, self.err);
        lines.remove(0)
    }

    /// The line that a crawl prints of a host.
    #[track_caller]
    fn host(&self, name: &str) -> Value {
        let is_it = |line: &Value| line["host"].as_str().is_some_and(|host| host.starts_with(name));
        let found = self.lines().into_iter().find(is_it);
        found.unwrap_or_else(|| panic!("{name} is not in {}{}", self.out, self.err))
    }

    #[track_caller]
    fn ends_with(&self, status: i32) -> &Self {
        assert_eq!(self.status, status, "{}{}", self.out, self.err);
        self
    }

    /// The output, each line in one piece: one that is longer than a terminal goes on below, indented.
    fn unwrapped(&self) -> String {
        let mut text = String::new();
        for line in self.out.lines() {
            let rest = line.trim_start();
            text.push_str(match line.len() - rest.len() {
                6 => " ",
                8 => "  ",
                _ => "\n",
            });
            text.push_str(if matches!(line.len() - rest.len(), 6 | 8) { rest } else { line });
        }
        text.push('\n');
        text
    }

    /// Its output has all of these parts.
    #[track_caller]
    fn shows(&self, parts: &[&str]) -> &Self {
        let text = self.unwrapped();
        for part in parts {
            assert!(text.contains(part), "{part}: {}{}", self.out, self.err);
        }
        self
    }

    /// Its messages have all of these parts.
    #[track_caller]
    fn reports(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.err.contains(part), "{part}: {}{}", self.out, self.err);
        }
        self
    }

    /// It was refused as a whole, by one line that has all of these parts. A note on a short delay may stand
    /// before it.
    #[track_caller]
    fn is_wrong_usage(&self, parts: &[&str]) {
        let lines = self.err.lines().filter(|line| !line.contains("less considerate")).count();
        assert_eq!((self.status, self.out.as_str(), lines), (2, "", 1), "{}", self.err);
        self.reports(parts);
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).expect("the output is UTF-8"),
            err: String::from_utf8(output.stderr).expect("the messages are UTF-8"),
        }
    }
}

/// The words of a call; what stands in single quotes is one word.
fn words(call: &str) -> Vec<String> {
    let words = |(number, part): (usize, &'_ str)| match number % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    };
    call.split('\'').enumerate().flat_map(words).collect()
}

/// The command, without what changes its answers in the environment of this machine.
fn command(args: impl AsRef<str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(words(args.as_ref())).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in FOREIGN.split(' ') {
        command.env_remove(name);
    }
    // There is no configuration.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// Environment variables that change answers.
const FOREIGN: &str = "NO_COLOR CLICOLOR CLICOLOR_FORCE ABIDE_AGENT ABIDE_USER_AGENT ABIDE_CONFIG \
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy";

fn abide(args: impl AsRef<str>) -> Ran {
    abide_with(args, "")
}

/// With something on standard input.
fn abide_with(args: impl AsRef<str>, input: impl Into<Vec<u8>>) -> Ran {
    fed(&mut command(args), input)
}

/// Runs the command to its end.
fn fed(command: &mut Command, input: impl Into<Vec<u8>>) -> Ran {
    let mut child = command.spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.into();
    let feeder = std::thread::spawn(move || {
        // A call that is refused does not read.
        let _ = stdin.write_all(&input);
    });
    let ran = child.wait_with_output().expect("the binary ends").into();
    feeder.join().expect("the input is fed");
    ran
}

/// A call that goes online, where every name leads to `server`, without delay unless it sets one.
async fn online(server: impl Into<SocketAddr>, args: impl AsRef<str>) -> Ran {
    let args = to(server, args);
    blocking(move || abide(&args)).await
}

/// Such a call.
fn to(server: impl Into<SocketAddr>, args: impl AsRef<str>) -> String {
    let mut args = args.as_ref().to_owned();
    for (name, value) in [("--agent", "ExampleBot"), ("--delay", "0")] {
        if !words(&args).iter().any(|word| word == name) {
            args = args.replacen(' ', &format!(" {name} {value} "), 1);
        }
    }
    reaching(server, args)
}

/// A call whose names lead to `server`. `a.example/x` is that URL at the port of the server, and `PORT` that
/// port.
fn reaching(server: impl Into<SocketAddr>, args: impl AsRef<str>) -> String {
    let server = server.into();
    let (address, port) = (server.ip(), server.port());
    let url = |word: String| match word.split_once(".example/") {
        Some((name, path)) if name.chars().all(char::is_alphanumeric) => {
            format!("http://{name}.example:{port}/{path}")
        }
        _ => word,
    };
    let words = words(args.as_ref()).into_iter().map(|word| format!("'{}' ", url(word)));
    let args = words.collect::<String>().replace("PORT", &port.to_string());
    format!("{args} --resolve *:{port}:{address} --allow-net {address}")
}

/// A call as [`online`] makes it, ended by a signal as soon as `is_time`.
#[cfg(unix)]
async fn ended_by(
    signal: &str,
    server: &abide_tests::Server,
    args: impl AsRef<str>,
    is_time: impl Fn() -> bool,
) -> Output {
    let mut child = command(to(server, args)).spawn().expect("the binary runs");
    while !is_time() {
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended by itself");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.expect("there is a kill").success());
    blocking(move || child.wait_with_output().expect("the binary ends")).await
}

/// The server lives on this runtime, and a child process is waited for elsewhere.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(call).await.expect("the call ends")
}

/// The keys of an object, in order, with spaces between them.
fn keys(value: &Value) -> String {
    let object = value.as_object().unwrap_or_else(|| panic!("an object: {value}"));
    object.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// An object has these values, whatever else it has.
#[track_caller]
fn has(value: &Value, expected: Value) {
    for (key, expected) in expected.as_object().expect("an object is expected") {
        assert_eq!(&value[key], expected, "{key}: {value}");
    }
}

/// A file that is gone after the test. It is displayed as its path.
struct Temporary(tempfile::NamedTempFile);

fn file(content: impl AsRef<[u8]>) -> Temporary {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(content.as_ref()).expect("a temporary file can be written");
    Temporary(file)
}

impl Temporary {
    fn path(&self) -> &str {
        self.0.path().to_str().expect("temporary files have plain names")
    }
}

impl std::fmt::Display for Temporary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path())
    }
}

/// A directory that is gone after the test.
struct Directory(tempfile::TempDir);

fn directory() -> Directory {
    Directory(tempfile::tempdir().expect("a temporary directory can be made"))
}

fn store() -> (Directory, String) {
    let directory = directory();
    let store = format!("redb:{}", directory.place("s.redb"));
    (directory, store)
}

impl Directory {
    fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    /// Where a file of this name is, or would be.
    fn place(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }
}

/// Whether a time is written as `2026-11-21T00:31:50Z`.
fn is_rfc3339(text: &[u8]) -> bool {
    let like = |(one, other): (&u8, &u8)| one == other || one.is_ascii_digit() && other.is_ascii_digit();
    text.len() == 20 && text.iter().zip(b"2026-11-21T00:31:50Z").all(like)
}

fn unix_seconds(time: &Value) -> u64 {
    let text = time.as_str().unwrap_or_else(|| panic!("a time: {time}"));
    assert!(is_rfc3339(text.as_bytes()), "{text}");
    let time = abide_permissions::UnavailableAfter::parse(text).unwrap_or_else(|| panic!("a time: {text}"));
    time.unix_seconds().try_into().expect("it is after 1970")
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("the clock is set").as_secs()
}
