//! `serve`: what happens when a client goes away, and when the server does.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::serve::{Serving, kill, site, url};
use crate::{abide, directory};

/// What a plain client sends.
fn acquire(url: &str) -> String {
    let body = json!({ "url": url }).to_string();
    let length = body.len();
    format!(
        "POST /v1/acquire HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_queue_at_once() {
    let site = site().await;
    let serve = Serving::start(&site, "");
    let url = url(&site, "a.example/x");
    let permit = serve.permit(&url).await;
    let address = serve.base.trim_start_matches("http://");
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(acquire(&url).replace("HOST", address).as_bytes()).unwrap();
    serve.until("a.example", "waiting", json!(1)).await;
    drop(waiting);
    // The permit is still held, and its ttl is a minute: it is the end of the connection that counts.
    serve.until("a.example", "waiting", json!(0)).await;
    assert_eq!(serve.get("/v1/hosts/a.example").await["in_flight"], 1);
    serve.post("/v1/finish", json!({ "permit": permit, "status": 200 })).await;
    serve.permit(&url).await;
}

#[tokio::test]
async fn sigterm_defers_what_waits_and_lets_permits_be_finished() {
    let (site, directory) = (site().await, directory());
    let socket = directory.place("abide.sock");
    let mut serve = Serving::start(&site, &format!("--listen 'unix:{socket}'"));
    let url = url(&site, "a.example/x");
    let permit = serve.permit(&url).await;
    let deferred = tokio::join!(serve.post("/v1/acquire", json!({ "url": url })), async {
        serve.until("a.example", "waiting", json!(1)).await;
        serve.signal("TERM");
    })
    .0;
    assert_eq!(deferred["outcome"], "deferred", "{deferred}");
    assert!(deferred["why"].as_str().unwrap().contains("shutting down") && deferred["retry_at"].is_string());
    // On a connection that is open.
    serve.post("/v1/finish", json!({ "permit": permit, "status": 200 })).await;
    let status = serve.child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(!Path::new(&socket).exists(), "its file is gone");
}

#[tokio::test]
async fn a_permit_that_stays_open_does_not_keep_the_server() {
    let site = site().await;
    let mut serve = Serving::start(&site, "");
    serve.permit(&url(&site, "a.example/x")).await;
    serve.signal("TERM");
    let status = crate::blocking(move || {
        let status = serve.child.wait();
        (serve, status)
    });
    let (_, status) = tokio::time::timeout(Duration::from_secs(60), status).await.expect("it ends");
    assert_eq!(status.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_is_replaced() {
    let (site, directory) = (site().await, directory());
    let socket = directory.place("abide.sock");
    let mut killed = Serving::start(&site, &format!("--listen 'unix:{socket}'"));
    abide(format!("serve -q --listen 'unix:{socket}'")).is_wrong_usage(&["--listen", "another process"]);
    kill(&mut killed.child);
    assert!(Path::new(&socket).exists() && UnixStream::connect(&socket).is_err(), "it is left behind");
    let serve = Serving::start(&site, &format!("--listen 'unix:{socket}'"));
    assert_eq!(serve.get("/healthz").await["status"], "ok");
    let file = directory.place("file");
    std::fs::write(&file, "precious").unwrap();
    abide(format!("serve -q --listen 'unix:{file}'")).is_wrong_usage(&["--listen", "expected a socket"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[tokio::test]
async fn a_port_that_is_taken_is_wrong_usage() {
    let site = site().await;
    let serve = Serving::start(&site, "");
    let taken = serve.base.trim_start_matches("http://");
    let begun = Instant::now();
    abide(format!("serve -q --listen {taken}")).is_wrong_usage(&["--listen", taken]);
    assert!(begun.elapsed() < Duration::from_secs(60));
}
