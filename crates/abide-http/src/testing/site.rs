//! The site of the suite: two origins on loopback, which say what arrived.
//!
//! Raw bytes over sockets, because a server of any client's kind would share its mistakes. Each response ends
//! its connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use url::Url;

pub(super) const HEAD: &str = "<meta name=robots content=nofollow>";
pub(super) const PAGE: &str = "<!doctype html><head><meta name=robots content=nofollow></head><body>a page";
const ROBOTS: &str = "User-agent: *\nDisallow: /secret\n";

/// Closed, with its tasks, when it is dropped.
#[derive(Debug)]
pub(super) struct Site {
    here: SocketAddr,
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug)]
struct Shared {
    log: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    other: SocketAddr,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) path: String,
    /// Of the other origin.
    pub(super) is_other: bool,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(super) began: Instant,
    /// Before the last bytes of its response were sent.
    pub(super) ended: Option<Instant>,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    pub(super) fn shown(&self) -> String {
        format!("{}{}", if self.is_other { "other: " } else { "" }, self.path)
    }
}

impl Site {
    pub(super) async fn start() -> Self {
        let bind = || TcpListener::bind(("127.0.0.1", 0));
        let [here, other] = [bind().await, bind().await].map(|listener| listener.expect("a port is free"));
        let address = |listener: &TcpListener| listener.local_addr().expect("it is bound");
        let shared =
            Shared { log: Mutex::default(), connections: AtomicUsize::new(0), other: address(&other) };
        let (here_at, shared) = (address(&here), Arc::new(shared));
        let serve = |listener, is_other| tokio::spawn(serve(listener, is_other, Arc::clone(&shared)));
        let tasks = [serve(here, false), serve(other, true)];
        Self { here: here_at, shared, tasks }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.here
    }

    pub(super) fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.here).parse().expect("it is a URL")
    }

    pub(super) fn log(&self) -> Vec<Seen> {
        self.shared.log().clone()
    }

    /// The paths that were requested, in order.
    pub(super) fn asked(&self) -> Vec<String> {
        self.shared.log().iter().map(Seen::shown).collect()
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener, is_other: bool, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // An error is the client's, which has gone.
            let _ = exchange(stream, is_other, &shared).await;
        });
    }
}

/// One request, and its response, with which the connection ends.
async fn exchange(mut stream: TcpStream, is_other: bool, shared: &Shared) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let number = {
        let mut log = shared.log();
        log.push(Seen { path: path.clone(), is_other, headers, began: Instant::now(), ended: None });
        log.len() - 1
    };
    let end = || shared.log()[number].ended = Some(Instant::now());
    let redirect = |to: &str| format!("HTTP/1.1 302 Found\r\nx-robots-tag: noindex\r\nlocation: {to}\r\n");
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n";
    let (head, body) = match &*path {
        "/robots.txt" => ("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n".to_owned(), ROBOTS),
        "/page" | "/slow" | "/secret" | "/dropped" => (html.to_owned(), PAGE),
        "/to-secret" => (redirect("/secret"), ""),
        "/to-page" => (redirect("/page"), ""),
        "/to-other" => (redirect(&format!("http://{}/page", shared.other)), ""),
        "/busy" => ("HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\n".to_owned(), ""),
        "/cut" => return Ok(()),
        "/endless" => {
            let head = format!("{html}content-length: 1000000\r\nconnection: close\r\n\r\n{PAGE}");
            stream.write_all(head.as_bytes()).await?;
            // Until the client has gone.
            stream.read_buf(&mut Vec::new()).await?;
            return Ok(());
        }
        _ => ("HTTP/1.1 404 Not Found\r\n".to_owned(), ""),
    };
    let (first, last) = body.split_at(body.len() / 2);
    let head = format!("{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    if path == "/slow" {
        stream.write_all(format!("{head}{first}").as_bytes()).await?;
        sleep(Duration::from_millis(300)).await;
        end();
        return stream.write_all(last.as_bytes()).await;
    }
    end();
    stream.write_all(format!("{head}{body}").as_bytes()).await
}
