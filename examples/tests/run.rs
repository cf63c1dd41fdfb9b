//! Every example runs, ends well, and says what it is there to show.
//!
//! The binaries are those that `cargo test` has built beside this test.
#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

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

/// The example prints what stands on each line of `outputs/NAME.txt`, in this order.
fn prints(name: &str) -> String {
    let text = run(name, &[]);
    let expected = format!("{}/tests/outputs/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(expected).unwrap();
    let mut rest = text.as_str();
    for line in expected.lines() {
        let Some(at) = rest.find(line) else { panic!("{name} does not print {line:?} there:\n{text}") };
        rest = &rest[at + line.len()..];
    }
    assert!(!text.contains("No crawler should see this"), "{text}");
    text
}

/// All that the manifest has, but for those that have a test of their own: an example that is not run would
/// not be noticed.
#[test]
fn each_example_prints_what_it_is_there_to_show() {
    let entries = include_str!("../Cargo.toml").split("[[example]]").skip(1);
    let names = entries.map(|entry| entry.split('"').nth(1).unwrap());
    // Beside each other: most of their time they wait.
    std::thread::scope(|scope| {
        for name in names.filter(|name| !OWN_TESTS.contains(name)) {
            scope.spawn(move || prints(name));
        }
    });
}

const OWN_TESTS: [&str; 3] = ["permissions", "many_processes", "postgres_queue"];

#[test]
fn permissions() {
    let text = prints("permissions");
    let saved: u64 = text.split("were sent, ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(saved > 32 * 1024 * 1024, "{text}");
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

#[test]
fn postgres_queue() {
    let text = run("postgres_queue", &[]);
    if text.contains("PostgreSQL is not installed here") {
        return;
    }
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    // Five pages, because one is forbidden, and robots.txt once; and one page that is asked for again.
    for (host, requests) in [("bakery", "6"), ("busy", "7"), ("journal", "6"), ("open", "6")] {
        let row = rows.iter().find(|row| row.first() == Some(&&*format!("{host}.example"))).unwrap();
        assert_eq!(row[1..3], [requests, "1"], "{text}");
        let shortest: f64 = row[4].trim_end_matches("ms").parse().unwrap();
        assert!(shortest >= 300.0, "{text}");
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
