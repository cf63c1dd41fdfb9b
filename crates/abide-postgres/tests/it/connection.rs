//! What becomes of a connection, and what is said at the first one.

use std::time::Duration;

use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Origin, WallMillis};
use abide_postgres::Store;
use abide_tests::{Postgres, free_port};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{CUT, connect, probe, refusal, wait_for};

#[tokio::test]
async fn a_role_that_may_not_make_the_schema_is_told_what_to_run() {
    let Some(server) = Postgres::start(&[]) else { return };
    server.ask("CREATE ROLE crawler LOGIN PASSWORD 's3cret'; CREATE ROLE reader LOGIN");
    let url = server.url().replace("postgres@", "crawler:s3cret@");
    let error = refusal(&url).await;
    assert!(error.contains("CREATE SCHEMA abide AUTHORIZATION the_role"), "{error}");
    assert!(!error.contains("s3cret") && !error.contains("crawler"), "{error}");
    server.ask("CREATE SCHEMA abide AUTHORIZATION crawler");
    probe(&connect(&url).await, "a.example").await.unwrap();
    let reader = server.url().replace("postgres@", "reader@");
    assert!(refusal(&reader).await.contains("may not make or use the schema"));
    // What the README says of a role that gets a schema of somebody else.
    server.ask("GRANT USAGE ON SCHEMA abide TO reader");
    server.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA abide TO reader");
    let store = connect(&reader).await;
    probe(&store, "a.example").await.unwrap();
    let origin: Origin = "https://a.example".parse().unwrap();
    store.save(&origin, &sample_record(&origin, WallMillis::from_millis(0), "")).await.unwrap();
    assert_eq!(store.sweep(WallMillis::from_millis(1)).await.unwrap(), 1);
}

#[tokio::test]
async fn the_schema_is_made_once_and_a_later_one_is_refused() {
    let Some(server) = Postgres::start(&[]) else { return };
    let mut connecting = JoinSet::new();
    for _ in 0..8 {
        let url = server.url();
        connecting.spawn(async move { connect(&url).await });
    }
    assert_eq!(connecting.join_all().await.len(), 8, "at the same time");
    server.ask("CREATE OR REPLACE FUNCTION abide.version() RETURNS int LANGUAGE sql AS 'SELECT 2'");
    let error = refusal(&server.url()).await;
    assert!(error.ends_with("its schema has version 2, of a later abide-postgres"), "{error}");
}

#[tokio::test]
async fn servers_that_cannot_be_used_are_named_without_the_user() {
    let Some(server) = Postgres::start(&[]) else { return };
    server.ask("CREATE ROLE s3cret LOGIN CONNECTION LIMIT 0");
    let at = |user: &str, port: u16, database: &str| {
        format!("postgres://{user}:s3cret@127.0.0.1:{port}/{database}")
    };
    for (url, reason) in [
        (at("nobody", server.port(), "postgres"), "it does not accept this user and password"),
        (at("postgres", server.port(), "s3cret"), "the database does not exist"),
        (at("s3cret", server.port(), "postgres"), "it has no connection left"),
        (at("postgres", free_port(), "postgres"), "onnection refused"),
    ] {
        let error = Store::connect(&url).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(reason) && !text.contains("s3cret") && !text.contains("nobody"), "{text}");
    }
    server.ask("ALTER SYSTEM SET default_transaction_read_only = on");
    server.ask("SELECT pg_reload_conf()");
    let error = refusal(&server.url()).await;
    assert!(error.ends_with("it takes no writes: it is a standby, or read-only"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_statements_never_give_their_replies_to_others() {
    let Some(server) = Postgres::start(&[]) else { return };
    let store = connect(&server.url()).await;
    let origin = |n: usize| -> Origin { format!("https://h{n}.example").parse().unwrap() };
    for n in 0..50 {
        let body = format!("# {n} {}", "x".repeat(n * 997 % 9_000));
        let record = sample_record(&origin(n), WallMillis::from_millis(n as u64), body);
        store.save(&origin(n), &record).await.unwrap();
    }
    let mut tasks = JoinSet::new();
    for task in 0..4_usize {
        let store = store.clone();
        tasks.spawn(async move {
            for step in 0..300_usize {
                let n = (task * 13 + step * 7) % 50;
                let patience = Duration::from_micros((step as u64 * 7_919 + task as u64 * 31) % 900);
                if let Ok(loaded) = timeout(patience, RobotsStore::load(&store, &origin(n))).await {
                    let loaded = loaded.unwrap().unwrap();
                    assert_eq!(loaded.asked_at(), WallMillis::from_millis(n as u64));
                }
            }
        });
    }
    tasks.join_all().await;
}

/// A connection that was closed while nobody used it is no outage.
#[tokio::test]
async fn a_connection_that_was_closed_is_made_again_at_once() {
    let Some(server) = Postgres::start(&[]) else { return };
    let store = connect(&server.url()).await;
    for _ in 0..5 {
        server.ask(CUT);
        probe(&store, "a.example").await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_was_opened_without_its_server_finds_it_later() {
    let Some(mut server) = Postgres::start(&[]) else { return };
    server.stop();
    let store = Store::builder(&server.url()).open().unwrap();
    assert!(probe(&store, "a.example").await.is_err());
    server.start_again();
    wait_for("it is found", async || probe(&store, "a.example").await.is_ok()).await;
    server.pause();
    let error = probe(&store, "a.example").await.unwrap_err().to_string();
    assert!(error.ends_with("did not answer within 1s"), "{error}");
    server.resume();
    wait_for("it is found again", async || probe(&store, "a.example").await.is_ok()).await;
}
