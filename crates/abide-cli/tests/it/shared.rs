//! `--store redis://…`: processes that share what a server states about its limit.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use abide_tests::{Quota, Server};
use serde_json::json;
use tokio::join;

use crate::crawl::only_host;
use crate::{Words, has, online};

/// A `redis-server` on a free port. It is killed when it is dropped.
pub(crate) struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    /// `None`: there is no such program here. The tests of abide-redis say so, and fail in CI.
    pub(crate) fn start() -> Option<Self> {
        // Another process may take the port between the look and the start.
        (0..10).find_map(|_| {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let child = Command::new("redis-server")
                .args("--bind 127.0.0.1 --save \'\' --appendonly no --port".words())
                .arg(port.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let mut redis = Self { child: child.ok()?, port };
            redis.is_up().then_some(redis)
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    fn is_up(&mut self) -> bool {
        while self.child.try_wait().unwrap().is_none() {
            let mut pong = [0; 5];
            let asked = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
                stream.write_all(b"PING\r\n")?;
                stream.read_exact(&mut pong)
            });
            if asked.is_ok() && &pong == b"+PONG" {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn two_processes_never_exceed_a_quota() {
    let Some(redis) = Redis::start() else { return };
    let quota = Quota::new(10, Duration::from_secs(2));
    let (counter, server) = (quota.clone(), Server::start(move |seen| quota.answer(seen)).await);
    let args = &format!("crawl --json --max-pages 15 --store {} a.example/", redis.url());
    let (one, other) = join!(online(&server, args), online(&server, args));
    for ran in [one, other] {
        has(&only_host(ran.ends_with(0)), json!({"fetched": 15}));
    }
    assert_eq!(counter.refused(), 0);
    assert_eq!(server.count("a.example/robots.txt"), 1, "they share that, too");
    assert_eq!(server.log().len(), 31, "each process crawls fifteen pages");
}
