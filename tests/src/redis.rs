//! A `redis-server` of a test's own, for those that use a Redis and do not test one.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// A server on a free port. It is killed when it is dropped.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    /// One that seems to have been in use for two days, so that no process waits for the leases of before its start. `None`: there is no
    /// such program here (`ABIDE_REDIS_SERVER`, else `redis-server`), which has been said.
    ///
    /// # Panics
    /// Where there must be one: `CI` or `ABIDE_REQUIRE_REDIS` is set.
    pub fn start() -> Option<Self> {
        let program = std::env::var("ABIDE_REDIS_SERVER").ok().filter(|name| !name.is_empty());
        let program = program.unwrap_or_else(|| "redis-server".to_owned());
        // Another process may take the port between the look and the start.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let child = Command::new(&program)
                .args([
                    "--bind",
                    "127.0.0.1",
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--port",
                    &port.to_string(),
                ])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let child = match child {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let is_set = |name| {
                        std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false")
                    };
                    assert!(!is_set("CI") && !is_set("ABIDE_REQUIRE_REDIS"), "{program} is required here");
                    // Said where the test harness does not swallow it.
                    let _ = writeln!(
                        std::io::stderr(),
                        "\n*** {program} is not installed: a test is SKIPPED ***\n"
                    );
                    return None;
                }
                child => child.unwrap(),
            };
            let mut redis = Self { child, port };
            if let Some(stream) = redis.connected() {
                redis.age(stream);
                return Some(redis);
            }
        }
        panic!("{program} has not started on any of ten ports");
    }

    /// `redis://127.0.0.1:PORT/`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Once it answers; `None` if it has ended.
    fn connected(&mut self) -> Option<TcpStream> {
        while self.child.try_wait().unwrap().is_none() {
            let asked = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
                stream.write_all(b"PING\r\n")?;
                stream.read_exact(&mut [0; 7])?;
                Ok(stream)
            });
            if let Ok(stream) = asked {
                return self.child.try_wait().unwrap().is_none().then_some(stream);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Says since when all of its keys are known, as abide-redis does when it connects for the first time.
    fn age(&self, mut stream: TcpStream) {
        stream.write_all(b"INFO replication\r\n").unwrap();
        let mut info = Vec::new();
        let mut chunk = [0; 4096];
        let server = loop {
            let len = stream.read(&mut chunk).unwrap();
            info.extend_from_slice(&chunk[..len]);
            let text = String::from_utf8_lossy(&info);
            let named = text.lines().find_map(|line| line.strip_prefix("master_replid:"));
            if let Some(server) = named.filter(|_| text.ends_with("\r\n\r\n")) {
                break server.to_owned();
            }
        };
        let began = SystemTime::now() - Duration::from_secs(2 * 86_400);
        let began = began.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
        for bucket in 0..256 {
            let command = format!("SET abide:{{b{bucket}}}:born \"{began} {server}\"\r\n");
            stream.write_all(command.as_bytes()).unwrap();
            stream.read_exact(&mut [0; 5]).unwrap();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
