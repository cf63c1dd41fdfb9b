//! What `abide serve` costs: `cargo bench -p abide-cli --features serve --bench serve`, on Linux.
//!
//! Processor time of an acquire and its finish on a free host, both ends of the connection together; and the
//! memory of calls that wait. The client is the least that there can be: one connection, and no JSON library.

#![allow(clippy::arithmetic_side_effects, reason = "what cannot go on ends the program")]

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use abide_tests::{Reply, Server};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAIRS: u32 = 20_000;
const WAITING: u32 = 1_000;
/// The kernel counts processor time in hundredths of a second.
const TICK_MS: f64 = 10.0;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<()> {
    println!("| `abide serve` | |\n| --- | --- |");
    let site = Server::with_rules("User-agent: *\nDisallow: /private/\n", |_| Reply::html("a page")).await;
    let address = site.address();
    let measured = tokio::task::spawn_blocking(move || -> std::result::Result<(), String> {
        pairs(address).and_then(|()| waiting(address)).map_err(|error| error.to_string())
    });
    Ok(measured.await??)
}

/// One after the other, on a host without a delay.
fn pairs(site: SocketAddr) -> Result<()> {
    let serving = Serving::start(site, "0s")?;
    let mut client = Client::new(&serving.address)?;
    let url = format!("http://free.example:{}/page", site.port());
    for _ in 0..1_000 {
        client.pair(&url)?;
    }
    let server = serving.child.id().to_string();
    let (client_before, server_before, begun) = (ticks("self")?, ticks(&server)?, Instant::now());
    for _ in 0..PAIRS {
        client.pair(&url)?;
    }
    let each = |ticks: u32| f64::from(ticks) * TICK_MS / f64::from(PAIRS);
    let client = each(ticks("self")? - client_before);
    let server = each(ticks(&server)? - server_before);
    let lasted = begun.elapsed().as_secs_f64() * 1e3 / f64::from(PAIRS);
    println!("| acquire and finish, processor time of the server | {server:.3} ms |");
    println!("| the same of a client that does nothing else | {client:.3} ms |");
    println!("| the same by the clock | {lasted:.3} ms |");
    Ok(())
}

/// All for one host.
fn waiting(site: SocketAddr) -> Result<()> {
    let serving = Serving::start(site, "1m")?;
    let url = format!("http://busy.example:{}/page", site.port());
    let mut first = Client::new(&serving.address)?;
    // The delay counts from its robots.txt on.
    first.call("POST", "/v1/check", &format!(r#"{{"url": "{url}"}}"#))?;
    let before = resident(serving.child.id())?;
    let mut waiting = Vec::new();
    for _ in 0..WAITING {
        let mut client = Client::new(&serving.address)?;
        client.send("POST", "/v1/acquire", &format!(r#"{{"url": "{url}", "max_wait_ms": 172800000}}"#))?;
        waiting.push(client);
    }
    while !first.call("GET", "/v1/hosts/busy.example", "")?.contains(&format!(r#""waiting":{WAITING}"#)) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mib = f64::from(resident(serving.child.id())? - before) / 1024.0;
    println!("| memory for {WAITING} calls that wait | {mib:.1} MiB |");
    Ok(())
}

struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(site: SocketAddr, delay: &str) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
        command.args(["serve", "--json", "-q", "--agent", "ExampleBot", "--listen", "127.0.0.1:0"]);
        command.args(["--delay", delay, "--max-wait", "48h", "--allow-net", "127.0.0.0/8"]);
        command.args(["--resolve", &format!("*:{}:{site}", site.port())]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut said = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut said)?;
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('"').next());
        let address = address.ok_or_else(|| format!("it does not say where it listens: {said}"))?.to_owned();
        Ok(Self { child, address })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Client {
    fn new(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), host: address.to_owned() })
    }

    fn pair(&mut self, url: &str) -> Result<()> {
        let granted = self.call("POST", "/v1/acquire", &format!(r#"{{"url": "{url}"}}"#))?;
        let permit = granted.split(r#""permit":""#).nth(1).and_then(|rest| rest.split('"').next());
        let permit = permit.ok_or_else(|| format!("not granted: {granted}"))?;
        let finish = format!(
            r#"{{"permit": "{permit}", "status": 200, "headers": [["Content-Type", "text/html"], ["Content-Length", "6"]]}}"#
        );
        let finished = self.call("POST", "/v1/finish", &finish)?;
        if finished.contains("next_slot") { Ok(()) } else { Err(finished.into()) }
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> Result<()> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        Ok(self.stream.get_mut().write_all(request.as_bytes())?)
    }

    fn call(&mut self, method: &str, path: &str, body: &str) -> Result<String> {
        self.send(method, path, body)?;
        let (mut line, mut len) = (String::new(), 0);
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                len = value.trim().parse()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; len];
        self.stream.read_exact(&mut answer)?;
        Ok(String::from_utf8(answer)?)
    }
}

/// Processor time of a process.
fn ticks(process: &str) -> Result<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // Behind the name: utime and stime are the 14th and 15th field of all.
    Ok(fields.skip(11).take(2).map(|ticks| ticks.parse::<u32>().unwrap_or(0)).sum())
}

/// Memory of a process, in KiB.
fn resident(process: u32) -> Result<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
