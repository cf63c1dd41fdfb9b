//! The server: this program once more, so that its work is not counted.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::crawl::PAGES;
use crate::pages::{page, page_with_small_head};

pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process =
            Command::new(program).arg("--serve").stdout(Stdio::piped()).spawn().expect("it starts again");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        let port = line.trim().parse().expect("a port");
        Self { process, address: ([127, 0, 0, 1], port).into() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().and_then(|()| self.process.wait()).expect("it ends");
    }
}

/// Listens on all addresses of loopback, each of which is a host to a client, and prints the port.
pub(crate) async fn serve() {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("loopback can be listened on");
    println!("{}", listener.local_addr().expect("a bound socket has an address").port());
    let pages = Arc::new(Pages::new());
    while let Ok((stream, _)) = listener.accept().await {
        let pages = Arc::clone(&pages);
        let answer = service_fn(move |request: Request<Incoming>| {
            let (content_type, body) = pages.at(request.uri().path());
            let response = Response::builder().header("content-type", content_type).body(Full::new(body));
            async move { Ok::<_, Infallible>(response.expect("a good response")) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

struct Pages {
    robots: Bytes,
    small_head: Bytes,
    large_head: Bytes,
    with_links: Bytes,
}

impl Pages {
    fn new() -> Self {
        let rules: String = (0..40).map(|number| format!("Disallow: /private/{number}/\n")).collect();
        let links: String =
            (0..PAGES).map(|number| format!("<a href=/page/{number}>{number}</a>\n")).collect();
        Self {
            robots: format!("User-agent: *\n{rules}").into(),
            small_head: page_with_small_head().into(),
            large_head: page(10_000).into(),
            with_links: (page(10_000) + &links).into(),
        }
    }

    /// `/small` is two bytes of text; `/1-KB` and `/9-KB` are pages of 10 KB with heads of that length;
    /// robots.txt has 40 rules; `/page/0` has links to all pages of a crawl.
    fn at(&self, path: &str) -> (&'static str, Bytes) {
        match path {
            "/robots.txt" => ("text/plain", self.robots.clone()),
            "/small" => ("text/plain", Bytes::from_static(b"ok")),
            "/1-KB" => ("text/html; charset=utf-8", self.small_head.clone()),
            "/page/0" => ("text/html; charset=utf-8", self.with_links.clone()),
            _ => ("text/html; charset=utf-8", self.large_head.clone()),
        }
    }
}
