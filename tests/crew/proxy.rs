//! A way to the server that takes its time, and can lead to another one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Hands everything on, in both directions, after a delay that can be changed. It ends with its runtime.
pub(crate) struct Proxy {
    address: SocketAddr,
    way: Arc<Way>,
}

struct Way {
    /// In milliseconds.
    delay: AtomicU64,
    port: AtomicU16,
    /// Connections that were made before are silent.
    generation: AtomicU64,
    /// Connections that were made before are closed.
    cuts: watch::Sender<u64>,
}

impl Proxy {
    pub(crate) async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let way = Arc::new(Way {
            delay: 0.into(),
            port: port.into(),
            generation: 0.into(),
            cuts: watch::Sender::new(0),
        });
        let shared = Arc::clone(&way);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let port = shared.port.load(Ordering::SeqCst);
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                let ((from, to), (back_from, back_to)) = (client.into_split(), server.into_split());
                let mut cuts = shared.cuts.subscribe();
                let (there, back) = (
                    hand_on(from, back_to, Arc::clone(&shared)),
                    hand_on(back_from, to, Arc::clone(&shared)),
                );
                tokio::spawn(async move {
                    tokio::select! {
                        // The other way may have something to say when one has ended.
                        _ = async { tokio::join!(there, back) } => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self { address, way }
    }

    pub(crate) fn url(&self) -> String {
        crate::store::url_at(self.address)
    }

    /// As if the machine had gone without a word: what is connected stays so, and nothing comes any more. New
    /// connections go there.
    pub(crate) fn lead_to(&self, port: u16) {
        self.way.port.store(port, Ordering::SeqCst);
        self.way.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// What is connected is closed, by both sides.
    pub(crate) fn cut(&self) {
        self.way.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// One way.
    pub(crate) fn delay(&self, millis: u64) {
        self.way.delay.store(millis, Ordering::SeqCst);
    }
}

/// Reading goes on while what was read waits.
async fn hand_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Arc<Way>) {
    let born = way.generation.load(Ordering::SeqCst);
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let writing = async {
        while let Some((due, bytes)) = receiver.recv().await {
            sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            let due = Instant::now() + Duration::from_millis(way.delay.load(Ordering::SeqCst));
            if way.generation.load(Ordering::SeqCst) == born {
                let _ = sender.send((due, buffer[..read].to_vec()));
            }
        }
        drop(sender);
    };
    tokio::join!(writing, reading);
}
