//! Faults on pages: heads and header fields that were made to hurt, codings that break, methods other than
//! GET.

use abide::{Denied, HeadEnd, Options, RequestBuilderExt, ResponseExt, Scan};
use abide_tests::{Reply, Server, Step, StoppedClock, gzip, until};

use crate::{client, status};

const HTML: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n";

/// Some bytes, and how often they come.
type Piece<'a> = (&'a [u8], usize);

/// A page of these pieces; robots.txt allows all.
async fn page(pieces: &[Piece<'_>]) -> Server {
    let mut steps = vec![Step::send(HTML)];
    steps.extend(pieces.iter().map(|(bytes, times)| Step::Repeat(bytes.to_vec(), *times)));
    Server::without_rules(move |seen| match seen.path.as_str() {
        "/next" => Reply::html("page"),
        _ => Reply::raw(steps.clone()),
    })
    .await
}

const NOSNIPPET: &[u8] = b"<head><meta name=robots content=nosnippet>";

#[tokio::test]
async fn hostile_heads_stay_within_the_limits() {
    let attribute = b"a".repeat(64 * 1024);
    let style = b"/* */ ".repeat(10_000);
    let cases: [(&str, Vec<Piece<'_>>); 5] = [
        ("a gibibyte of head", vec![(NOSNIPPET, 1), (b"<style>", 1), (&style, 17_000)]),
        (
            "a million nested tags",
            vec![(NOSNIPPET, 1), (b"<template>", 1_000_000), (b"</template>", 1_000_000)],
        ),
        (
            "an attribute of 10 MB",
            vec![(NOSNIPPET, 1), (b"<meta name=robots content='", 1), (&attribute, 160), (b"'>", 1)],
        ),
        ("100,000 metas", vec![(NOSNIPPET, 1), (b"<meta name=x content=y>", 100_000)]),
        ("an open comment", vec![(NOSNIPPET, 1), (b"<!--", 1), (&style, 100)]),
    ];
    // The time that a head may take is not what ends it.
    let _clock = StoppedClock::stop();
    for (what, pieces) in cases {
        let server = page(&pieces).await;
        let client = client(&server);
        let answer = client.get("http://a.example/x").send().await.unwrap();
        let permissions = answer.permissions();
        assert!(permissions.rules().nosnippet(), "{what}: what was found counts");
        assert_eq!(permissions.noindex_known(), None, "{what}: and the rest is not known");
        assert!(
            matches!(permissions.head_end(), HeadEnd::ByteLimit | HeadEnd::MemoryLimit),
            "{what}: {:?}",
            permissions.head_end()
        );
        let total: usize = pieces.iter().map(|(bytes, times)| bytes.len() * times).sum();
        if total < 32 * 1024 * 1024 {
            assert_eq!(answer.bytes().await.unwrap().len(), total, "{what}: the body goes on untouched");
        } else {
            drop(answer);
        }
        assert_eq!(status(&client, "http://a.example/next").await, 200, "{what}: the permit is free");
        let page = || server.log().into_iter().find(|seen| seen.path == "/x").unwrap();
        until("the server has noticed", || page().is_over).await;
        let sent = page().sent;
        assert!(sent < 48 * 1024 * 1024, "{what}: {sent} bytes");
        if total < 1024 * 1024 {
            let lazy = client.get("http://a.example/x").abide(Options::new().with_scan(Scan::Lazy));
            let answer = lazy.send().await.unwrap();
            let settled = answer.fetch_info().unwrap().settled();
            answer.bytes().await.unwrap();
            assert_eq!(settled.await.noindex_known(), None, "{what}: read lazily, too");
        }
    }
}

#[tokio::test]
async fn a_head_in_one_byte_chunks_costs_no_more_frames() {
    const TIMES: usize = 600_000;
    let mut head =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let beginning = [NOSNIPPET, b"<style>"].concat();
    for byte in &beginning {
        head.extend_from_slice(&[b'1', b'\r', b'\n', *byte, b'\r', b'\n']);
    }
    let steps = vec![Step::Send(head), Step::Repeat(b"1\r\nx\r\n".to_vec(), TIMES), Step::send(b"0\r\n\r\n")];
    let server = Server::without_rules(move |_| Reply::raw(steps.clone())).await;
    let mut answer = client(&server).get("http://a.example/x").send().await.unwrap();
    assert!(answer.permissions().rules().nosnippet(), "what was found counts");
    assert_eq!(answer.permissions().noindex_known(), None, "and the rest is not known");
    let first = answer.chunk().await.unwrap().unwrap();
    assert!(first.len() > 1024 && first.starts_with(&beginning), "{} bytes in the first frame", first.len());
    let mut seen = first.len();
    while let Some(chunk) = answer.chunk().await.unwrap() {
        seen += chunk.len();
    }
    assert_eq!(seen, beginning.len() + TIMES, "the body goes on untouched");
}

fn tagged(lines: &[String]) -> Reply {
    let mut head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n".to_owned();
    for line in lines {
        head.push_str(line);
        head.push_str("\r\n");
    }
    Reply::raw(vec![Step::send(format!("{head}\r\npage"))])
}

/// `*;noindex`, then members for another crawler, in exactly so many bytes.
fn field_of(bytes: usize) -> String {
    const MEMBER: &str = ", other;noarchive";
    let members = MEMBER.repeat((bytes - 9) / MEMBER.len());
    let spaces = " ".repeat(bytes - 9 - members.len());
    format!("robots-tag: *;noindex{spaces}{members}")
}

/// What it is, its field lines, and what is known of noindex then; nothing is known where the transport
/// refuses.
type Case = (&'static str, Vec<String>, Option<Option<bool>>);

#[tokio::test]
async fn fields_are_read_whole_or_are_an_error() {
    let many = |count: usize| -> Vec<String> {
        (0..count)
            .map(|number| format!("robots-tag: other{number};noarchive"))
            .chain(["robots-tag: *;noindex".to_owned()])
            .collect()
    };
    // `*;noindex` is the last member, and the limit cuts it.
    let cut = || format!("robots-tag: {}        *;noindex", "other;noarchive, ".repeat(16 * 1024 / 17));
    let cases: Vec<Case> = vec![
        ("8,192 bytes", vec![field_of(8_192)], Some(Some(true))),
        ("8,195 bytes", vec![field_of(8_195)], Some(Some(true))),
        ("100 KB", vec![field_of(100_000)], Some(Some(true))),
        ("the cut member is the noindex", vec![cut()], Some(None)),
        ("90 lines", many(89), Some(Some(true))),
        ("1,000 lines", many(999), None),
        ("malformed", vec!["robots-tag: *;noindex;;;=\"".to_owned()], Some(Some(true))),
        ("malformed X", vec!["x-robots-tag: ,, max-snippet:x, noindex ,;=".to_owned()], Some(Some(true))),
    ];
    for (what, lines, readable) in cases {
        let server = Server::without_rules(move |_| tagged(&lines)).await;
        let answer = client(&server).get("http://a.example/x").send().await;
        match (readable, answer) {
            (Some(noindex), Ok(answer)) => {
                let permissions = answer.permissions();
                assert_eq!(permissions.noindex_known(), noindex, "{what}");
                assert_eq!(answer.text().await.unwrap(), "page", "{what}");
            }
            // hyper takes 100 fields and no more.
            (None, Err(error)) => assert!(Denied::find(&error).is_none(), "{what}: {error:?}"),
            (_, other) => panic!("{what}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn an_error_of_the_decoder_comes_at_its_place() {
    let page = [NOSNIPPET, b"</head><body>".as_slice(), &b"text ".repeat(50_000)].concat();
    let mut broken = gzip(&page);
    let length = broken.len();
    broken[length - 6] ^= 0xff;
    let server =
        Server::without_rules(move |_| Reply::html(broken.clone()).with("content-encoding", "gzip")).await;
    let mut answer = client(&server).get("http://a.example/x").send().await.unwrap();
    assert!(answer.permissions().rules().nosnippet(), "the head was whole");
    let mut seen = 0;
    let error = loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => seen += chunk.len(),
            Ok(None) => panic!("the checksum is wrong, so the body must not end well"),
            Err(error) => break error,
        }
    };
    assert!(error.is_decode(), "{error:?}");
    assert!(seen > 100_000, "what could be decoded came first: {seen} bytes");
}

fn gzipped(body: Vec<u8>) -> Reply {
    Reply::with_headers(200, &[("content-type", "text/html"), ("content-encoding", "gzip")], body)
}

#[tokio::test]
async fn pages_are_asked_for_in_all_codings_unless_decoding_is_off() {
    let server = Server::without_rules(|_| gzipped(gzip(b"page"))).await;
    for (inner, decodes, asked, is_decoded) in [
        (reqwest::Client::builder(), true, Some("zstd,gzip,deflate,br"), true),
        (reqwest::Client::builder().no_gzip(), true, Some("zstd,gzip,deflate,br"), true),
        (reqwest::Client::builder(), false, None, false),
    ] {
        let client = crate::builder(&server).decode(decodes).build_client(inner).unwrap();
        let page = client.get("http://a.example/x").send().await.unwrap();
        let log = server.log();
        let [.., robots, seen] = &log[..] else { panic!("{log:?}") };
        assert_eq!(seen.header("accept-encoding"), asked);
        assert_eq!(
            robots.header("accept-encoding"),
            Some("gzip, deflate, br, zstd"),
            "robots.txt is decoded here"
        );
        assert_eq!(page.headers().contains_key("content-encoding"), !is_decoded, "{asked:?}");
        assert_eq!(page.url().as_str(), "http://a.example/x");
        assert_eq!(page.remote_addr(), Some(server.address()), "{asked:?}");
        assert!(!is_decoded || page.content_length().is_none_or(|length| length == 4), "{asked:?}");
        assert_eq!(page.bytes().await.unwrap() == "page", is_decoded, "{asked:?}");
    }
    let client = client(&server);
    for (name, value) in [("accept-encoding", "identity"), ("range", "bytes=2-")] {
        let page = client.get("http://a.example/y").header(name, value).send().await.unwrap();
        assert_eq!(server.log().pop().unwrap().header("accept-encoding"), Some("identity"), "{name}");
        assert_eq!(page.text().await.unwrap(), "page");
    }
}

#[tokio::test]
async fn garbage_behind_the_coded_head_of_a_page_is_an_error() {
    let coded = [&gzip(b"<head><title>")[..], b"garbage"].concat();
    let server = Server::without_rules(move |_| gzipped(coded.clone())).await;
    let page = client(&server).get("http://a.example/x").send().await.unwrap();
    assert_eq!(page.permissions().noindex_known(), None, "{:?}", page.permissions().head_end());
    assert!(page.bytes().await.unwrap_err().is_decode());
}

#[tokio::test]
async fn head_and_post_are_gated_paced_and_read() {
    let server = Server::start(|seen| match (seen.method.as_str(), seen.path.as_str()) {
        (_, "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        _ => Reply::html("<head><meta name=robots content=noindex></head>").with("x-robots-tag", "noarchive"),
    })
    .await;
    let client = client(&server);
    let head = client.head("http://a.example/x").send().await.unwrap();
    assert!(head.permissions().rules().states("noarchive"));
    assert_eq!(head.permissions().noindex_known(), None, "no body, so the head of the page is not known");
    let post = client.post("http://a.example/x").body("x=1").send().await.unwrap();
    assert!(post.permissions().rules().states("noarchive") && post.permissions().rules().noindex());
    assert!(post.fetch_info().unwrap().verdict().unwrap().is_allowed());
    for refused in [client.head("http://a.example/secret"), client.post("http://a.example/secret").body("x")]
    {
        let error = refused.send().await.unwrap_err();
        assert!(Denied::find(&error).is_some_and(|denied| denied.is_disallowed()));
    }
    assert_eq!(server.count("a.example/secret"), 0);
}
