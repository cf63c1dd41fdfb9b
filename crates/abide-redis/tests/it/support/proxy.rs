//! A way to the server that takes its time, and can lead to another one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Hands everything on, in both directions, after a delay that can be changed. It ends when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    delay: Arc<AtomicU64>,
    port: Arc<AtomicU16>,
    /// Connections that were made before are silent.
    generation: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, delay) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let port = Arc::new(AtomicU16::new(port));
        let generation = Arc::new(AtomicU64::new(0));
        let current = Arc::clone(&generation);
        let (shared, leads_to) = (Arc::clone(&delay), Arc::clone(&port));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", leads_to.load(Ordering::SeqCst))).await
                else {
                    continue;
                };
                let ((from, to), (back_from, back_to)) = (client.into_split(), server.into_split());
                let born = (Arc::clone(&current), current.load(Ordering::SeqCst));
                tokio::spawn(hand_on(from, back_to, Arc::clone(&shared), born.clone()));
                tokio::spawn(hand_on(back_from, to, Arc::clone(&shared), born));
            }
        });
        Self { address, delay, port, generation, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// New connections go there.
    pub(crate) fn lead_to(&self, port: u16) {
        self.port.store(port, Ordering::SeqCst);
    }

    /// As if the machine had gone without a word: what is connected stays so, and nothing comes any more. New connections are made.
    pub(crate) fn silence(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// One way.
    pub(crate) fn delay(&self, delay: Duration) {
        self.delay.store(delay.as_micros() as u64, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reading goes on while what was read waits.
async fn hand_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Arc<AtomicU64>,
    (current, born): (Arc<AtomicU64>, u64),
) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((due, bytes)) = receiver.recv().await {
            sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let due = Instant::now() + Duration::from_micros(delay.load(Ordering::SeqCst));
        if current.load(Ordering::SeqCst) != born {
            continue;
        }
        if sender.send((due, buffer[..read].to_vec())).is_err() {
            return;
        }
    }
}
