//! G6: what one robots.txt costs in memory, whatever the server sends. A process of its own, since it looks at the resident set.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::time::Duration;

use abide::Abide;
use abide::pacing::PacePolicy;
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

/// 256 MiB of comments behind a rule, gzipped to a thousandth; never in memory as a whole.
fn bomb() -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(b"User-agent: *\nDisallow: /x\n").expect("a vector takes it");
    let comments = b"#aaaaaaaaaaaaaa\n".repeat(4096);
    for _ in 0..(1 << 28) / comments.len() {
        encoder.write_all(&comments).expect("a vector takes it");
    }
    encoder.finish().expect("a vector takes it")
}

#[test]
fn g06_bombs_and_endless_bodies_cost_a_mebibyte_beyond_the_limit() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("it starts");
    runtime.block_on(async {
        let bomb = bomb();
        let server = Server::start(move |seen| match (seen.host(), seen.path.as_str()) {
            (host, "/robots.txt") if host.starts_with("bomb") => {
                Reply::with_headers(200, &[("content-encoding", "gzip")], bomb.clone())
            }
            (host, "/robots.txt") if host.starts_with("endless") => Reply::raw(vec![
                Step::Send(b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\nDisallow: /x\n".to_vec()),
                Step::Repeat(b"#aaaaaaaaaaaaaa\n".repeat(1024), 16_384),
            ]),
            (host, "/robots.txt") if host.starts_with("stated") => Reply::raw(vec![
                Step::Send(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 9000000000000\r\n\r\nUser-agent: *\nDisallow: /x\n"
                        .to_vec(),
                ),
                Step::Repeat(b"#aaaaaaaaaaaaaa\n".repeat(1024), 256),
            ]),
            _ => Reply::new(200, b"#aaaaaaaaaaaaaa\n".repeat(32_000)),
        })
        .await;
        let (abide, _) = Abide::builder("ExampleBot")
            .resolver(server.names())
            .allow_net(server.address().ip().into())
            .pace(PacePolicy::default().danger_min_gap(Duration::ZERO))
            .build_with(reqwest::Client::builder())
            .expect("the settings are good");
        // What clients, decoders and sockets keep for good is there after these.
        for host in ["warm1", "bomb0", "endless0", "stated0"] {
            let url = format!("http://{host}.example/x").parse().expect("a URL");
            abide.check(&url).await.expect("a verdict");
        }
        for host in ["bomb1", "endless1", "stated1"] {
            let before = resident_kib("VmRSS");
            forget_peak();
            let url = format!("http://{host}.example/x").parse().expect("a URL");
            assert!(
                !abide.check(&url).await.expect("a verdict").is_allowed(),
                "{host}: the rule before the cut counts"
            );
            let grown = resident_kib("VmHWM").saturating_sub(before);
            // The body (500 KiB), twice while it is compiled, the server's own copy of the answer, and the mebibyte.
            assert!(grown < 500 + 500 + 1024 + BOMB_KIB, "{host}: {grown} KiB");
        }
    });
}

/// The server, in the same process, copies the compressed bomb three times to send it.
const BOMB_KIB: usize = 3 * 400;
