//! Every spelling of this machine's own addresses that a URL can hold, and a listener there that must stay
//! silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;

/// Hosts of URLs that lead to [`Silent`] at its port, written in every way that the URL standard reads as an
/// address.
pub const OWN_ADDRESSES: [&str; 18] = [
    "127.0.0.2",
    "2130706434",
    "0x7f000002",
    "0x7F.0x0.0x0.0x2",
    "0177.0.0.2",
    "017700000002",
    "127.2",
    "127.0.2",
    "0x7f.2",
    "127.0.0.2.",
    "%31%32%37.0.0.2",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.2",
    "127\u{3002}0\u{3002}0\u{3002}2",
    "[::ffff:127.0.0.2]",
    "[::ffff:7f00:2]",
    "[::1]",
    "0.0.0.0",
    "[::]",
];

/// Listens on all addresses of this machine, and counts who connects.
#[derive(Debug)]
pub struct Silent {
    port: u16,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Silent {
    /// Listens on a free port. On IPv4 alone where the machine has no IPv6.
    ///
    /// # Panics
    /// When nothing can be listened on.
    pub async fn start() -> Self {
        let listener = match TcpListener::bind("[::]:0").await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind("0.0.0.0:0").await.expect("the machine has an address"),
        };
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let silent = Self { port, connections, task };
        silent.is_listening().await;
        silent
    }

    /// Waits until one connection of its own is counted: it does listen.
    async fn is_listening(&self) {
        let address = SocketAddr::from(([127, 0, 0, 2], self.port));
        let _connection = tokio::net::TcpStream::connect(address).await.expect("it listens on IPv4 too");
        while self.connections.swap(0, Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Where it listens, whatever the address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.task.abort();
    }
}
