//! The body, its length, its errors and the URL reach the caller as the server sent them.

use std::sync::Arc;
use std::time::Duration;

use abide::{Options, RequestBuilderExt, ResponseExt, Scan};
use abide_tests::{Reply, Server, Step};

use crate::client;

/// HTML of about this many bytes: a head, then a body that changes with every line.
fn html(bytes: usize) -> Vec<u8> {
    let mut page =
        b"<!doctype html><head><title>x</title><meta name=robots content=nosnippet></head><body>\n".to_vec();
    let mut number = 0_u64;
    while page.len() < bytes {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        page.extend(format!("<p>{number:x}\n").bytes());
    }
    page
}

#[tokio::test]
async fn bytes_lengths_and_url_are_those_of_the_raw_client() {
    let pages: Arc<Vec<Vec<u8>>> =
        Arc::new([0, 1, 100, 4_096, 8_200, 100_000, 20_000_000].iter().map(|bytes| html(*bytes)).collect());
    let served = Arc::clone(&pages);
    let server = Server::start(move |seen| {
        let number = seen.path.trim_start_matches('/').split('?').next().unwrap_or_default();
        match number.parse::<usize>() {
            Ok(number) if seen.path.ends_with("chunked") => chunked(&served[number]),
            Ok(number) => Reply::html(served[number].clone()),
            Err(_) => Reply::new(404, ""),
        }
    })
    .await;
    let raw = reqwest::Client::builder().dns_resolver(server.names()).build().unwrap();
    let client = client(&server);
    for (number, page) in pages.iter().enumerate() {
        for form in ["plain", "chunked"] {
            for scan in [Scan::Eager, Scan::Lazy, Scan::Headers, Scan::Off] {
                let url = format!("http://a.example/{number}?{form}");
                let theirs = raw.get(&url).send().await.unwrap();
                let ours = client.get(&url).abide(Options::new().with_scan(scan)).send().await.unwrap();
                assert_eq!(ours.url(), theirs.url());
                assert_eq!(ours.version(), theirs.version());
                assert_eq!(ours.headers(), theirs.headers());
                assert_eq!(ours.content_length(), theirs.content_length(), "{url} {scan:?}");
                assert_eq!(ours.remote_addr(), theirs.remote_addr());
                assert_eq!(ours.bytes().await.unwrap(), page.as_slice(), "{url} {scan:?}");
            }
        }
    }
}

fn chunked(page: &[u8]) -> Reply {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for chunk in page.chunks(7_001) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    Reply::raw(vec![Step::Send(bytes)])
}

#[tokio::test]
async fn a_body_dropped_after_any_byte_ends_the_permit() {
    // More than is read ahead, and a tail that does not come: the wire is open until the drop.
    let page = html(40_000);
    let length = page.len();
    let server = Server::without_rules(move |seen| match seen.path.as_str() {
        "/next" => Reply::html("page"),
        _ => {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n",
                page.len() + 1
            );
            let bytes = [head.as_bytes(), &page].concat();
            Reply::raw(vec![Step::Send(bytes), Step::Hang])
        }
    })
    .await;
    let client = client(&server);
    let soon = || Options::new().with_max_wait(Duration::from_millis(20));
    for taken in [0, 1, 88, 20_000, length - 1, length] {
        let mut page = client.get("http://a.example/open").send().await.unwrap();
        let mut seen = 0;
        while seen < taken
            && let Some(chunk) = page.chunk().await.unwrap()
        {
            seen += chunk.len();
        }
        let held = client.get("http://a.example/next").abide(soon()).send().await;
        assert!(held.is_err(), "the permit lasts until the drop, after {taken} bytes");
        drop(page);
        assert_eq!(client.get("http://a.example/next").send().await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn an_error_met_while_reading_ahead_comes_at_its_place() {
    let server = Server::without_rules(|_| Reply::raw(vec![Step::send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 500\r\n\r\n<head><title>x</title>")]))
    .await;
    let mut page = client(&server).get("http://a.example/x").send().await.unwrap();
    assert_eq!(page.status(), 200, "send() returns the response");
    assert_eq!(page.permissions().noindex_known(), None);
    assert_eq!(page.chunk().await.unwrap().unwrap(), "<head><title>x</title>");
    assert!(page.chunk().await.is_err(), "the error comes where the body broke off");
}
