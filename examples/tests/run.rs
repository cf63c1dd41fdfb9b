//! Every example runs, ends well, and says what it is there to show.
//!
//! The binaries are those that `cargo test` has built beside this test.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

#[allow(dead_code, reason = "its main is run as a program")]
#[path = "../own_store.rs"]
mod own_store;

use std::future::ready;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use abide_gate::testing::{hosts, robots_cache};
use own_store::OwnStore;

/// `target/<profile>/examples/<name>`, next to `deps`, where this test is.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(path.exists(), "{} is not built: cargo build -p abide-examples --examples", path.display());
    path
}

/// What the example prints; it must end with success.
fn run(name: &str, args: &[&str]) -> String {
    let output = Command::new(example(name)).args(args).env("NO_COLOR", "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}\n{errors}", output.status);
    text
}

/// The example prints these, in this order.
fn prints(name: &str, args: &[&str], lines: &[&str]) {
    let text = run(name, args);
    let mut rest = text.as_str();
    for line in lines {
        let Some(at) = rest.find(line) else { panic!("{name} does not print {line:?} there:\n{text}") };
        rest = &rest[at + line.len()..];
    }
    assert!(!text.contains("No crawler should see this"), "{text}");
}

#[test]
fn wrap() {
    prints(
        "wrap",
        &[],
        &[
            "200 OK  http://bakery.example/bread.html: ",
            "may be indexed: true",
            "skip http://bakery.example/private/recipes.html: disallowed by \"Disallow: /private/\" on line 3",
            "skip http://bakery.example/old-recipes: disallowed by",
            "503 Service Unavailable  http://busy.example/shop.html",
        ],
    );
}

#[test]
fn gate() {
    prints(
        "gate",
        &[],
        &[
            "known before: false",
            "denied    http://bakery.example/private/recipes.html",
            "allowed   http://bakery.example/private/menu.html",
            "denied    http://broken.example/",
            "known now: true",
            "requests for pages so far: 0",
            "45000 of 50000 URLs are allowed; ",
        ],
    );
}

#[test]
fn permissions() {
    prints(
        "permissions",
        &[],
        &[
            "header.html: asks for \"noindex, nosnippet\"",
            "dropped unread",
            "meta.html: asks for \"noindex, nofollow\"",
            "dropped unread",
            "snippet.html: asks for \"noarchive, max-snippet:20\"",
            "indexed, with a snippet of 20 characters",
            "long.html: asks for \"noindex\"",
            "the long page has 67108864 bytes; ",
            " saved",
        ],
    );
    let text = run("permissions", &[]);
    let saved: u64 = text.split("were sent, ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(saved > 32 * 1024 * 1024, "{text}");
}

#[test]
fn ai_training() {
    prints(
        "ai_training",
        &[],
        &[
            "archive/1: not asked for: Disallow: /archive/",
            "news/1: taken, and never to be quoted",
            "poems/1: left out: ",
            "columns/field: left out: train-ai=n",
            "columns/signal: left out: ",
            "columns/tags: left out: ",
            "columns/meta: left out: ",
            "columns/mining: left out: ",
            "columns/open: taken, ",
        ],
    );
}

#[test]
fn retry_cache() {
    prints(
        "retry_cache",
        &[],
        &[
            "catalogue.html: 200 OK after waiting 1.",
            "catalogue.html: 200 OK after waiting 0.0 s",
            "catalogue.html: 200 OK after waiting 0.0 s",
            "opening-hours.html: 503 Service Unavailable after waiting ",
            "opening-hours.html: 200 OK after waiting ",
            "my-account: refused: http://library.example/loans/7.html (redirect 1): disallowed by",
            "requests that reached the server:\n",
            "    library.example/catalogue.html\n",
            "    library.example/opening-hours.html\n",
            "    library.example/opening-hours.html\n",
            "    library.example/my-account\n",
        ],
    );
}

#[test]
fn frontier() {
    prints(
        "frontier",
        &[],
        &["120000 links, 72 allowed by robots.txt; ", "72 pages of 24 hosts in ", "0 denied, 0 failed"],
    );
}

#[test]
fn tower() {
    prints(
        "tower",
        &[],
        &[
            "200 OK  http://bakery.example/bread.html",
            "skip http://bakery.example/partner\n     http://journal.example/: disallowed by",
            "skip http://bakery.example/old-recipes\n     http://bakery.example/private/recipes.html: disallowed by",
            "no   http://bakery.example/inside\n     http://127.0.0.2/admin is refused",
        ],
    );
}

#[test]
fn own_client() {
    prints(
        "own_client",
        &[],
        &[
            "bread.html: 200, ",
            "private/recipes.html: skip: ",
            "old-recipes: skip: ",
            "inside: refused: http://127.0.0.2/admin is refused",
        ],
    );
}

#[test]
fn crawl() {
    prints(
        "crawl",
        &["--delay", "0.1"],
        &[
            "six sites on 127.0.0.1:",
            "http://bakery.example/",
            "host ",
            "bakery.example ",
            "journal.example ",
        ],
    );
}

#[test]
fn durable() {
    prints(
        "durable",
        &[],
        &[
            "The first life, with a new file:",
            "200 OK, after ",
            "The second life, with the same file:",
            "busy.example returned 503",
            " in the first life, 0 in the second",
        ],
    );
}

#[test]
fn own_store() {
    prints(
        "own_store",
        &[],
        &["first: 200 OK, 1 requests for robots.txt", "second: 200 OK, 0 requests for robots.txt"],
    );
}

#[test]
fn many_processes() {
    let text = run("many_processes", &["--seconds", "2"]);
    if text.contains("redis-server is not installed here") {
        return;
    }
    assert!(text.contains("4 processes, 3 hosts, a promise of 0.2 s"), "{text}");
    for host in ["bakery.example", "journal.example", "open.example"] {
        assert!(text.contains(host), "{text}");
    }
}

#[tokio::test]
async fn own_store_passes_the_suites_of_records() {
    robots_cache::conformance(|| ready(OwnStore::default())).await;
    abide_permissions::testing::conformance(|| ready(OwnStore::default())).await;
}

#[tokio::test(start_paused = true)]
async fn own_store_passes_the_suite_of_hosts() {
    let store = Arc::new(OwnStore::default());
    hosts::conformance(store.clone(), tokio::time::sleep).await;
    hosts::throttle_counts_are_forgiven(store, tokio::time::sleep).await;
}

/// An example without a test here would not be noticed.
#[test]
fn every_example_is_run() {
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let tests = include_str!("run.rs");
    let examples = manifest.split("[[example]]").skip(1);
    for name in examples.map(|entry| entry.split('"').nth(1).unwrap()) {
        assert!(tests.contains(&format!("\nfn {name}() {{")), "no test runs the example {name}");
    }
}
