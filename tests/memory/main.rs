//! G6: what one robots.txt costs in memory, whatever the server sends. A process of its own, since it looks
//! at the resident set.

#![allow(clippy::restriction, reason = "a test that cannot go on fails")]
#![cfg(target_os = "linux")]

use std::io::Write;
use std::time::Duration;

use abide::pacing::PacePolicy;
use abide::{Abide, Denied};
use abide_tests::{Reply, Server, Step};

/// Resident KiB now (`VmRSS`) or at most since [`forget_peak`] (`VmHWM`).
fn resident_kib(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field is there");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of KiB")
}

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
}

/// So many bytes of comments behind a rule; never in memory as a whole.
fn bomb(encoder: &mut impl Write, bytes: usize) {
    encoder.write_all(b"User-agent: *\nDisallow: /x\n").expect("a vector takes it");
    let comments = b"#aaaaaaaaaaaaaa\n".repeat(4096);
    for _ in 0..bytes / comments.len() {
        encoder.write_all(&comments).expect("a vector takes it");
    }
}

const MIB: usize = 1024 * 1024;

/// A bomb in each coding that is taken off, with the widest window that its decoder allows for.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb(&mut gzip, 256 * MIB);
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    bomb(&mut deflate, 64 * MIB);
    let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 1, 24);
    bomb(&mut brotli, 32 * MIB);
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).expect("a level that there is");
    zstd.window_log(27).expect("a window that there is");
    bomb(&mut zstd, 256 * MIB);
    vec![
        ("gzip", gzip.finish().expect("a vector takes it")),
        ("deflate", deflate.finish().expect("a vector takes it")),
        ("br", brotli.into_inner()),
        ("zstd", zstd.finish().expect("a vector takes it")),
    ]
}

#[test]
fn bombs_and_endless_bodies_cost_a_mebibyte_beyond_the_limit() {
    // One thread, so that what the server has in memory meanwhile does not depend on how busy the machine is.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    runtime.block_on(async {
        let bombs = bombs();
        let server = Server::start(move |seen| match (seen.host(), seen.path.as_str()) {
            (host, "/robots.txt") if host.starts_with("bomb") => {
                let coded = bombs.iter().find(|(coding, _)| host[5..].starts_with(&format!("-{coding}.")));
                let (coding, bomb) = coded.expect("the host names a coding");
                Reply::with_headers(200, &[("content-encoding", coding)], bomb.clone())
            }
            (host, "/robots.txt") if host.starts_with("endless") => Reply::raw(vec![
                Step::send(b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\nDisallow: /x\n"),
                Step::Repeat(b"#aaaaaaaaaaaaaa\n".repeat(1024), 16_384),
            ]),
            (host, "/robots.txt") if host.starts_with("stated") => Reply::raw(vec![
                Step::send(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 9000000000000\r\n\r\nUser-agent: *\nDisallow: /x\n",
                ),
                Step::Repeat(b"#aaaaaaaaaaaaaa\n".repeat(1024), 256),
            ]),
            _ => Reply::new(200, b"#aaaaaaaaaaaaaa\n".repeat(32_000)),
        })
        .await;
        let (abide, _) = Abide::builder("ExampleBot")
            .resolver(server.names())
            .allow_net(server.address().ip().into())
            .pace(PacePolicy::default().danger_min_delay(Duration::ZERO))
            .build_with(reqwest::Client::builder())
            .expect("the settings are good");
        // What clients, decoders and sockets keep for good is there after these.
        for host in ["warm1", "bomb0-gzip", "bomb0-deflate", "bomb0-zstd", "endless0", "stated0"] {
            let url = format!("http://{host}.example/x").parse().expect("a URL");
            abide.check(&url).await.expect("a verdict");
        }
        let mut over = Vec::new();
        for host in ["bomb1-gzip", "bomb1-deflate", "bomb1-zstd", "endless1", "stated1", "bomb1-br"] {
            let before = resident_kib("VmRSS");
            forget_peak();
            let url: url::Url = format!("http://{host}.example/x").parse().expect("a URL");
            let denied = abide.gate().denial(&abide.check(&url).await.expect("a verdict"), &url);
            assert!(
                denied.as_ref().is_some_and(Denied::is_disallowed),
                "{host}: the rule before the cut counts: {denied:?}"
            );
            let grown = resident_kib("VmHWM").saturating_sub(before);
            println!("{host}: {grown} KiB");
            let window = if host == "bomb1-br" { BROTLI_KIB } else { 0 };
            let server = if host.starts_with("bomb") { BOMB_KIB } else { 0 };
            // The body (500 KiB), twice while it is compiled, and the mebibyte.
            over.extend((grown >= 500 + 500 + 1024 + server + window).then_some((host, grown)));
        }
        assert!(over.is_empty(), "{over:?}");
    });
}

/// The server, in the same process, copies the compressed bomb three times to send it.
const BOMB_KIB: usize = 3 * 400;

/// What the decoder of brotli keeps besides, which it does not let us bound: the window that the server
/// names, 16 MiB at most, twice. Last, since what it has given back hides what others take.
const BROTLI_KIB: usize = 32 * 1024;
