//! What a turn and a record cost on a Redis of one's own on loopback. `cargo bench -p abide-redis`.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use abide_gate::access::AccessStore;
use abide_gate::pacing::{Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk};
use abide_gate::testing::access::sample_record;
use abide_gate::{Origin, WallMillis};
use abide_redis::Store;
use redis::cmd;

/// How often each thing is done.
const TIMES: usize = 20_000;
/// So many at a time, where it is not one after the other.
const AT_ONCE: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(server) = Server::start() else {
        println!("redis-server is not installed here: nothing is measured");
        return Ok(());
    };
    let url = server.url();
    let mut client = redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    for _ in 0..2 {
        let began = Instant::now();
        for _ in 0..TIMES {
            cmd("PING").exec_async(&mut client).await?;
        }
        show("a round trip of the client library alone (PING)", began, TIMES);
    }
    for (name, builder) in
        [("script", Store::builder(&url)), ("watch", Store::builder(&url).without_scripts())]
    {
        let store = builder.connect().await?;
        turns(name, &store).await?;
    }
    records(&Store::connect(&url).await?).await?;
    memory(&mut client).await?;
    Ok(())
}

/// A gap that does not make anybody wait: what is measured is the store.
fn scope(n: usize) -> [ScopeAsk; 1] {
    [ScopeAsk::new(format!("h{}.example", n % 1_000).as_str().into(), Duration::ZERO, u16::MAX)]
}

async fn turns(name: &str, store: &Store) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    for n in 0..TIMES {
        turn(store, n).await?;
    }
    show(&format!("a turn, taken and ended, by {name}: one after the other"), began, TIMES);
    let began = Instant::now();
    let tasks: Vec<_> = (0..AT_ONCE)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..TIMES / AT_ONCE {
                    turn(&store, task * 1_009 + n).await.map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    show(&format!("a turn, taken and ended, by {name}: {AT_ONCE} at a time"), began, TIMES);
    Ok(())
}

async fn turn(store: &Store, n: usize) -> Result<(), Box<dyn std::error::Error>> {
    let ask =
        LeaseAsk { lease: LeaseId::random(), max_wait: Duration::from_secs(1), ttl: Duration::from_secs(60) };
    match store.reserve(&scope(n), ask).await? {
        Reply::Granted { .. } => Ok(PaceStore::release(store, &scope(n), ask.lease, Ended::Response).await?),
        refused @ Reply::Refused { .. } => Err(format!("{refused:?}").into()),
    }
}

async fn records(store: &Store) -> Result<(), Box<dyn std::error::Error>> {
    for (size, times) in [(2_000, TIMES / 4), (512_000, 400)] {
        let origin = |n: usize| -> Origin { format!("https://r{}.example", n % 500).parse().expect("a URL") };
        let record = |n| sample_record(&origin(n), WallMillis(0), vec![b'#'; size]);
        let records: Vec<_> = (0..times.min(500)).map(record).collect();
        let began = Instant::now();
        for n in 0..times {
            store.save(&origin(n), &records[n % records.len()]).await?;
        }
        show(&format!("a record of {size} bytes, saved"), began, times);
        let began = Instant::now();
        for n in 0..times {
            store.load(&origin(n)).await?.ok_or("it was saved")?;
        }
        show(&format!("a record of {size} bytes, loaded"), began, times);
    }
    Ok(())
}

async fn memory(client: &mut redis::aio::MultiplexedConnection) -> Result<(), Box<dyn std::error::Error>> {
    let usage = async |key: &str, client: &mut redis::aio::MultiplexedConnection| {
        cmd("MEMORY").arg("USAGE").arg(key).query_async::<Option<u64>>(client).await
    };
    let slot = usage("abide:{h7.example}:slot", client).await?.ok_or("there is a turn")?;
    cmd("ZADD")
        .arg("one-lease")
        .arg(1_800_000_000_000_000_u64)
        .arg(LeaseId(1).to_string())
        .exec_async(client)
        .await?;
    let flight = usage("one-lease", client).await?.ok_or("there is a lease")?;
    println!(
        "{slot:>10} bytes of the server's memory for a host, and {flight} more while a request is in flight"
    );
    Ok(())
}

fn show(what: &str, began: Instant, times: usize) {
    let each = began.elapsed().as_secs_f64() * 1e6 / times as f64;
    println!("{each:>10.1} µs  {:>8.0} a second  {what}", 1e6 / each);
}

struct Server(Child, u16);

impl Server {
    fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let server = Self(child, port);
        for _ in 0..500 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
