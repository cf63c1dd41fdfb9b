//! The contract of the command, as a program that relies on it sees it: the real binary, its two outputs, its exit status.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and says where"
)]

mod batch;
mod check;
mod config;
mod contract;
mod crawl;
mod crawl_outcomes;
mod directives;
#[cfg(unix)]
mod documented;
mod explain;
mod fetch;
mod hostile;
mod identity;
mod io;
mod lint;
mod offline;
mod pacing;
mod secrets;
#[cfg(feature = "redis")]
mod shared;
mod store;
#[cfg(target_os = "linux")]
mod terminal;
mod usage;

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

    /// The only line.
    fn line(&self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{}{}", self.out, self.err);
        lines.remove(0)
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

/// The command, with nothing of this machine's environment that changes its answers.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(args);
    for name in FOREIGN {
        command.env_remove(name);
    }
    // Where there is no configuration.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// What changes answers.
const FOREIGN: [&str; 14] = [
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "ABIDE_AGENT",
    "ABIDE_USER_AGENT",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "ABIDE_CONFIG",
];

fn abide(args: &[&str]) -> Ran {
    abide_with(args, "")
}

/// With something on standard input.
fn abide_with(args: &[&str], input: impl Into<Vec<u8>>) -> Ran {
    let mut command = command(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
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

/// A call that goes online, where every name leads to `server`, without delay.
async fn online(server: SocketAddr, args: &[&str]) -> Ran {
    let (port, address) = (server.port(), server.ip());
    let resolve = format!("*:{port}:{address}");
    let net = address.to_string();
    let mut all: Vec<String> = [args[0], "--agent", "ExampleBot", "--resolve", &resolve, "--allow-net", &net]
        .map(str::to_owned)
        .to_vec();
    if !args.contains(&"--delay") {
        all.extend(["--delay", "0"].map(str::to_owned));
    }
    // `PORT` in a URL is the server's.
    all.extend(args[1..].iter().map(|arg| arg.replace("PORT", &port.to_string())));
    blocking(move || abide(&all.iter().map(String::as_str).collect::<Vec<_>>())).await
}

/// A call as [`online`] makes it, ended by a signal as soon as `is_time`.
#[cfg(unix)]
async fn ended_by(
    signal: &str,
    server: &abide_tests::Server,
    args: &[&str],
    is_time: impl Fn() -> bool,
) -> Ran {
    let port = server.address().port();
    let (resolve, options) = (format!("*:{port}:127.0.0.1"), ["--delay", "0", "--allow-net", "127.0.0.1"]);
    let args: Vec<String> = args.iter().map(|arg| arg.replace("PORT", &port.to_string())).collect();
    let args = args.iter().map(String::as_str).chain(options).chain(["--resolve", &resolve]);
    let mut command = command(&args.collect::<Vec<_>>());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    while !is_time() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.expect("there is a kill").success());
    blocking(move || child.wait_with_output().expect("the binary ends")).await.into()
}

/// The server lives on this runtime, and a child process is waited for elsewhere.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(call).await.expect("the call ends")
}

/// The keys of an object, in order.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("an object: {value}")).keys().map(String::as_str).collect()
}

/// A file that is gone after the test.
fn file(content: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(content.as_ref()).expect("a temporary file can be written");
    file
}

/// Whether a time is written as `2026-11-21T00:31:50Z`.
fn is_rfc3339(text: &str) -> bool {
    let like = |(one, other): (u8, u8)| one == other || one.is_ascii_digit() && other.is_ascii_digit();
    text.len() == 20 && text.bytes().zip(*b"2026-11-21T00:31:50Z").all(like)
}

/// The seconds of a time in RFC 3339.
fn unix_seconds(time: &Value) -> u64 {
    let text = time.as_str().unwrap_or_else(|| panic!("a time: {time}"));
    assert!(is_rfc3339(text), "{text}");
    let time = abide_permissions::UnavailableAfter::parse(text).unwrap_or_else(|| panic!("a time: {text}"));
    time.unix_seconds().try_into().expect("it is after 1970")
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("the clock is set").as_secs()
}
