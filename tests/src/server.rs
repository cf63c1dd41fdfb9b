//! The listener, its log, and a resolver that makes any name reach it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::reply::{Reply, Step};

/// A server on a loopback port of its own. It ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    log: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

/// One request, as it reached the server.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When its head had arrived.
    pub at: Instant,
    /// When the last part of the answer began to be sent: the client has its end later. The arrival until
    /// then.
    pub answered: Instant,
    /// Bytes of the answer that were handed to the operating system.
    pub sent: usize,
    /// Whether the answer has ended: all of it was sent, or the client has gone.
    pub is_over: bool,
    /// The method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// Header fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Seen {
    /// The first field of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The name that was asked for, without port.
    pub fn host(&self) -> &str {
        let host = self.header("host").unwrap_or_default();
        host.rsplit_once(':').map_or(host, |(host, _)| host)
    }

    /// Scheme, name and port, as they begin the URLs of this site.
    pub fn site(&self) -> String {
        format!("http://{}", self.header("host").unwrap_or_default())
    }

    /// Host and path: `a.example/robots.txt`.
    pub fn what(&self) -> String {
        format!("{}{}", self.host(), self.path)
    }
}

/// From the end of each answer to the arrival of the next request, in the order of arrival. What the server
/// measures begins when it hands its answer over, which is before the client has it.
pub fn delays(log: &[Seen]) -> impl Iterator<Item = Duration> {
    log.windows(2).map(|pair| pair[1].at.saturating_duration_since(pair[0].answered))
}

impl Server {
    /// Answers every request with what `answer` says.
    ///
    /// # Panics
    /// When loopback cannot be listened on: there is nothing to test then.
    pub async fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::accepting(answer, |stream| std::future::ready(Some(stream)))
    }

    /// Has no robots.txt, so that everything is allowed.
    pub async fn without_rules(page: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(move |seen| if seen.path == "/robots.txt" { Reply::new(404, "") } else { page(seen) })
            .await
    }

    /// Answers `/robots.txt` of every host with these rules, and the rest with what `page` says.
    pub async fn with_rules(
        rules: &'static str,
        page: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| if seen.path == "/robots.txt" { Reply::new(200, rules) } else { page(seen) })
            .await
    }

    /// The same over TLS.
    ///
    /// # Panics
    /// When loopback cannot be listened on.
    pub async fn start_tls(
        acceptor: TlsAcceptor,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::accepting(answer, move |stream| {
            let acceptor = acceptor.clone();
            async move { acceptor.accept(stream).await.ok() }
        })
    }

    /// `secure` makes of a connection what HTTP is spoken on.
    fn accepting<C: Connection, F>(
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
        secure: impl Fn(TcpStream) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Option<C>> + Send + 'static,
    {
        let (listener, address) = listen().expect("loopback can be listened on");
        let log = Arc::new(Mutex::new(Vec::new()));
        let (answer, secure, seen) = (Arc::new(answer), Arc::new(secure), Arc::clone(&log));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, secure, seen) = (Arc::clone(&answer), Arc::clone(&secure), Arc::clone(&seen));
                tokio::spawn(async move {
                    if let Some(stream) = secure(stream).await {
                        serve(stream, answer, seen).await;
                    }
                });
            }
        });
        Self { address, log, task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A resolver that answers every name with this server.
    pub fn names(&self) -> Arc<dyn Resolve> {
        Arc::new(Names(self.address))
    }

    /// Everything that arrived so far, in order.
    pub fn log(&self) -> Vec<Seen> {
        self.log.lock().unwrap().clone()
    }

    /// Host and path of everything that arrived, in order.
    pub fn asked(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(Seen::what).collect()
    }

    /// How often this host and path were asked for.
    pub fn count(&self, what: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|seen| seen.what() == what).count()
    }
}

/// The connections have small buffers, so that what was sent is not much more than what was taken.
fn listen() -> std::io::Result<(TcpListener, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let listener = socket.listen(1_024)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

const SEND_BUFFER: u32 = 64 * 1024;

impl From<&Server> for SocketAddr {
    fn from(server: &Server) -> Self {
        server.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// By tokio's clock, which a test may have stopped.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Any name, one address. The port counts for URLs that name none.
#[derive(Debug, Clone, Copy)]
pub struct Names(pub SocketAddr);

impl Resolve for Names {
    fn resolve(&self, _: Name) -> Resolving {
        let address = self.0;
        Box::pin(async move { Ok(Box::new(std::iter::once(address)) as Addrs) })
    }
}

/// A byte stream that can end with a reset.
trait Connection: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn reset_when_dropped(&self);
}

impl Connection for TcpStream {
    fn reset_when_dropped(&self) {
        // A socket that cannot be set is closed in the ordinary way; the test then fails by what it sees.
        let _ = self.set_zero_linger();
    }
}

impl Connection for TlsStream<TcpStream> {
    fn reset_when_dropped(&self) {
        self.get_ref().0.reset_when_dropped();
    }
}

/// One connection, request after request.
async fn serve(
    mut stream: impl Connection,
    answer: Arc<impl Fn(&Seen) -> Reply>,
    log: Arc<Mutex<Vec<Seen>>>,
) {
    let mut buffer = Vec::new();
    while let Some(seen) = read_request(&mut stream, &mut buffer).await {
        let reply = answer(&seen);
        let head_only = seen.method == "HEAD";
        let place = {
            let mut log = log.lock().unwrap();
            log.push(seen);
            log.len() - 1
        };
        let note = |sent: usize| {
            let seen = &mut log.lock().unwrap()[place];
            seen.sent += sent;
            if sent == 0 {
                seen.answered = now();
            }
        };
        let goes_on = play(&mut stream, reply, head_only, note).await;
        log.lock().unwrap()[place].is_over = true;
        if !goes_on {
            return;
        }
    }
}

/// Whether the connection can be used again.
///
/// Calls `note` with 0 before each thing that is sent, since the client cannot have had the end of it before;
/// and with its length afterwards.
async fn play(stream: &mut impl Connection, reply: Reply, head_only: bool, note: impl Fn(usize)) -> bool {
    for step in reply.steps {
        let (bytes, times) = match step {
            Step::Send(mut bytes) => {
                if let Some(end) = head_end(&bytes).filter(|_| head_only && reply.keep_alive) {
                    bytes.truncate(end);
                }
                (bytes, 1)
            }
            Step::Repeat(bytes, times) => (bytes, times),
            Step::Sleep(wait) => {
                tokio::time::sleep(wait).await;
                continue;
            }
            Step::Wait(signal) => {
                signal.notified().await;
                continue;
            }
            Step::Hang => std::future::pending().await,
            Step::Reset => {
                stream.reset_when_dropped();
                return false;
            }
        };
        note(0);
        for _ in 0..times {
            if stream.write_all(&bytes).await.is_err() {
                return false;
            }
            note(bytes.len());
        }
    }
    reply.keep_alive
}

pub(crate) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads on; `None` when the peer has closed.
async fn more(stream: &mut impl Connection, buffer: &mut Vec<u8>) -> Option<()> {
    (stream.read_buf(buffer).await.ok()? > 0).then_some(())
}

/// Reads one request; `None` when the peer has closed or talks no HTTP.
async fn read_request(stream: &mut impl Connection, buffer: &mut Vec<u8>) -> Option<Seen> {
    let end = loop {
        match head_end(buffer) {
            Some(end) => break end,
            None => more(stream, buffer).await?,
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end);
    let mut lines = head.lines();
    let mut start = lines.next()?.split(' ');
    let (method, path) = (start.next()?.to_owned(), start.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let at = now();
    let mut seen =
        Seen { at, answered: at, sent: 0, is_over: false, method, path, headers, body: Vec::new() };
    read_body(stream, buffer, &mut seen).await?;
    Some(seen)
}

/// By length or in chunks; chunks are kept as they came.
async fn read_body(stream: &mut impl Connection, buffer: &mut Vec<u8>, seen: &mut Seen) -> Option<()> {
    if seen.header("transfer-encoding").is_some() {
        while !buffer.ends_with(b"0\r\n\r\n") {
            more(stream, buffer).await?;
        }
        seen.body = std::mem::take(buffer);
        return Some(());
    }
    let length: usize = seen.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while buffer.len() < length {
        more(stream, buffer).await?;
    }
    seen.body = buffer.drain(..length).collect();
    Some(())
}
