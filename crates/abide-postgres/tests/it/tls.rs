//! TLS: a server with a certificate, and clients that trust its authority or do not.

use std::process::Command;

use abide_postgres::Store;
use abide_tests::{Authority, Postgres};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{connect, probe};

/// How the other process is given the server's address.
const URL: &str = "ABIDE_TEST_TLS_URL";

/// Hands on what comes over TLS, with a certificate for `localhost`. A client asks for TLS by a message of
/// eight bytes.
async fn terminate(authority: &Authority, server: u16) -> u16 {
    let acceptor = authority.acceptor("localhost");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                client.read_exact(&mut [0; 8]).await.unwrap();
                client.write_all(b"S").await.unwrap();
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_servers_that_are_trusted_and_no_others() {
    let Some(server) = Postgres::start(&[]) else { return };
    let plain = format!("{}?sslmode=require", server.url());
    let error = Store::connect(&plain).await.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().contains("TLS"), "the server has none: {error}");
    let authority = Authority::new();
    let port = terminate(&authority, server.port()).await;
    let url = format!("postgres://postgres@localhost:{port}/postgres?sslmode=verify-full");
    let error = Store::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "no client trusts it yet: {error}");
    let directory = tempfile::TempDir::new().unwrap();
    let certificate = directory.path().join("authority.pem");
    std::fs::write(&certificate, authority.pem()).unwrap();
    let trusting = tokio::task::spawn_blocking(move || {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "tls::a_trusting_process"]).env("SSL_CERT_FILE", certificate).env(URL, url);
        child.output().unwrap()
    });
    let output = trusting.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Not a test: what the other process runs.
#[tokio::test]
async fn a_trusting_process() {
    let Ok(url) = std::env::var(URL) else { return };
    probe(&connect(&url).await, "a.example").await.unwrap();
}
