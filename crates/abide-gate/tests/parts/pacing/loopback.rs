//! The promise as a server can check it, in real time: a server on the loopback writes down when each request
//! arrives and when it has written each response; many tasks ask for permits, some of them are cancelled, and
//! the processor is kept busy.
//!
//! The long run of `docs/dev/store-figures.md`:
//!
//! ```text
//! GAPS=100000 TASKS=10000 HOSTS=50 cargo test --release -p abide-gate --all-features --lib loopback -- --nocapture
//! ```

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::pacing::Pacer;
use abide_gate::pacing::Permit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::parts::support::number;
use crate::parts::support::pacing::one_second;

const DELAY: Duration = Duration::from_millis(20);
const BODY: usize = 2_000;

/// Longer than the test takes.
const EVER: Duration = Duration::from_secs(7_200);

/// One request as the server saw it.
struct Seen {
    host: usize,
    arrived: Instant,
    /// Just before the response was written: the server may be interrupted between writing and looking at
    /// the clock. The arrival, if the client has gone before the end: the server cannot tell when.
    ended: Instant,
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// A request as the client saw it, cancelled ones too: host, beginning, end.
type Requests = Arc<Mutex<Vec<(usize, Instant, Instant)>>>;

/// Writes the end down before the permit is dropped, wherever that is.
struct Request {
    requests: Requests,
    host: usize,
    began: Instant,
    _permit: Permit,
}

impl Drop for Request {
    fn drop(&mut self) {
        self.requests.lock().unwrap().push((self.host, self.began, Instant::now()));
    }
}

/// What all tasks of the client share.
#[derive(Clone)]
struct Client {
    pacer: Arc<Pacer>,
    server: SocketAddr,
    requests: Requests,
}

/// Answers on a thread of its own.
fn serve(log: Log) -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, Arc::clone(&log)));
            }
        });
    });
    receiver.recv().unwrap()
}

async fn answer(mut stream: TcpStream, log: Log) -> Option<()> {
    let host = stream.read_u32().await.ok()?;
    let arrived = Instant::now();
    tokio::time::sleep(Duration::from_micros(u64::from(host) * 37 % 1_500)).await;
    let wrote = Instant::now();
    // The client says that it has read the whole.
    let is_read = stream.write_all(&[b'x'; BODY]).await.is_ok() && stream.read_u8().await.is_ok();
    let ended = if is_read { wrote } else { arrived };
    log.lock().unwrap().push(Seen { host: host as usize, arrived, ended });
    Some(())
}

impl Client {
    /// One request, which goes away after so long on the wire. Returns the time on the wire, if it did not.
    async fn request(&self, host: usize, patience: Duration) -> Option<Duration> {
        let url: Url = format!("http://h{host}.example/").parse().unwrap();
        let permit = self.pacer.get(&url).await.unwrap();
        let request =
            Request { requests: Arc::clone(&self.requests), host, began: Instant::now(), _permit: permit };
        tokio::time::timeout(patience, self.exchange(host)).await.ok()?;
        Some(request.began.elapsed())
    }

    async fn exchange(&self, host: usize) {
        let mut stream = TcpStream::connect(self.server).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_u32(u32::try_from(host).unwrap()).await.unwrap();
        let mut body = [0; BODY];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_u8(0).await.unwrap();
    }
}

/// The next number of a row that looks like rng (Knuth's MMIX).
fn roll(n: &mut u64) -> u64 {
    *n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *n
}

/// Uses the processor now and then, in bursts of its own choosing.
fn noise(stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut n = 1_u64;
        while !stop.load(Ordering::Relaxed) {
            let until = Instant::now() + Duration::from_micros(roll(&mut n) >> 52);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_micros(n >> 51));
        }
    });
}

#[test]
fn the_server_sees_no_delay_below_the_promise() {
    let (delays, tasks, hosts) = (number("GAPS", 300), number("TASKS", 600), number("HOSTS", 6));
    let (log, stop) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let server = serve(Arc::clone(&log));
    noise(Arc::clone(&stop));
    noise(Arc::clone(&stop));
    let policy = one_second().danger_min_delay(DELAY).with_max_wait(EVER);
    let client = Client { pacer: Pacer::new(policy), server, requests: Requests::default() };
    let cancelled = Arc::new(AtomicUsize::new(0));
    let left = Arc::new(AtomicUsize::new(delays + hosts));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wire: Vec<Duration> = runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks)
            .map(|n| {
                let client = client.clone();
                let (left, cancelled) = (Arc::clone(&left), Arc::clone(&cancelled));
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    let mut row = n as u64;
                    while left.load(Ordering::SeqCst) > 0 {
                        let rng = roll(&mut row);
                        // Every fourth goes away in the line, every fourth on the wire.
                        let (line, wire) = match rng >> 62 {
                            0 => (Duration::from_micros((rng >> 32) % 400_000), EVER),
                            1 => (EVER, Duration::from_micros((rng >> 32) % 3_000)),
                            _ => (EVER, EVER),
                        };
                        match tokio::time::timeout(line, client.request(n % hosts, wire)).await {
                            Ok(Some(took)) => {
                                times.push(took);
                                let _ = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                                    left.checked_sub(1)
                                });
                            }
                            _ => drop(cancelled.fetch_add(1, Ordering::SeqCst)),
                        }
                    }
                    times
                })
            })
            .collect();
        let mut wire = Vec::new();
        for task in tasks {
            wire.extend(task.await.unwrap());
        }
        wire
    });
    stop.store(true, Ordering::SeqCst);
    assert_eq!((client.pacer.stats().in_flight, client.pacer.stats().waiting), (0, 0));
    let cancelled = cancelled.load(Ordering::SeqCst);
    assert!(cancelled > tasks / 20, "{cancelled} cancelled");
    check(std::mem::take(&mut *client.requests.lock().unwrap()));
    report(&std::mem::take(&mut *log.lock().unwrap()), wire, cancelled);
}

/// From the end of a request, also of one that was cancelled, to the next: exactly the promise.
fn check(mut requests: Vec<(usize, Instant, Instant)>) {
    requests.sort();
    let pairs = requests.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    let delays: Vec<Option<Duration>> =
        pairs.map(|pair| pair[1].1.checked_duration_since(pair[0].2)).collect();
    let early = delays.iter().filter(|delay| delay.is_none_or(|delay| delay < DELAY)).count();
    println!("requests {}, cancelled ones too: {early} early", requests.len());
    assert_eq!(early, 0);
}

/// Prints what the server saw, and checks it.
fn report(seen: &[Seen], mut wire: Vec<Duration>, cancelled: usize) {
    let mut by_host: Vec<&Seen> = seen.iter().collect();
    by_host.sort_by_key(|seen| (seen.host, seen.arrived));
    let pairs = by_host.windows(2).filter(|pair| pair[0].host == pair[1].host);
    let (mut delays, mut overlaps) = (Vec::new(), 0);
    for pair in pairs {
        match pair[1].arrived.checked_duration_since(pair[0].ended) {
            // After a request that was cancelled the server knows only that it has arrived before.
            Some(_) if pair[0].ended == pair[0].arrived => {}
            Some(delay) => delays.push(delay),
            None => overlaps += 1,
        }
    }
    delays.sort();
    wire.sort();
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let below = delays.iter().filter(|delay| **delay < DELAY).count();
    let median_wire = wire[wire.len() / 2];
    println!(
        "delays {}, below the promise {below}, overlaps {overlaps}, cancelled {cancelled}",
        delays.len()
    );
    println!("smallest {:?}, 0.1 % {:?}, 1 % {:?}, median {:?}", delays[0], at(0.001), at(0.01), at(0.5));
    println!("promise {DELAY:?}, median time on the wire {median_wire:?}");
    assert_eq!((below, overlaps), (0, 0));
}
