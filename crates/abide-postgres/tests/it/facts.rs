//! What the suites cannot see: what lies in the server, what it costs, and what a loss does.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::{Backoff, BackoffCause, HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{HolderId, Origin, WallMillis};
use abide_postgres::Store;
use abide_tests::Postgres;
use tokio::time::{sleep, timeout};

use crate::crew::website::{by_host, by_worker, show_delays, start as start_crew, stop_and_check, website};
use crate::crew::workers::{Crew, run_time};
use crate::store::start;
use crate::support::{
    HOUR, LEASED, MINUTE, age, asking, connect, exchange, held, is_busy, lease, ms, probe, status, wait_for,
};

const BACKOFF: Backoff =
    Backoff { left: HOUR, over: ms(0), throttles: 1, cause: BackoffCause::EnhanceYourCalm };

#[tokio::test]
async fn leases_that_are_renewed_together_are_one_statement() {
    let Some(server) = start() else { return };
    let store = connect(&server.url()).await;
    let ask = |n: u64| (Arc::from(format!("h{n}.example")), asking(1, lease(HOUR)));
    // In another order than that in which rows are locked.
    let asks: Vec<_> = (0..64).rev().map(ask).collect();
    assert_eq!(store.exchange("h7.example", asking(2, lease(HOUR))).await.unwrap().0, LEASED);
    for (n, reply) in store.exchange_all(&asks).await.into_iter().enumerate() {
        let status = reply.unwrap().0;
        assert!(if n == 63 - 7 { is_busy(status, HOUR) } else { status == LEASED }, "{n}: {status:?}");
    }
    let writers = server.ask("SELECT count(DISTINCT xmin::text) FROM abide.host");
    assert_eq!(writers, "1", "one transaction has written all of them");
}

/// Another program may keep a row locked, as in a transaction that somebody has left open.
#[tokio::test]
async fn a_row_that_is_locked_keeps_no_other_host() {
    let Some(server) = start() else { return };
    let store = connect(&server.url()).await;
    assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
    let hold = "BEGIN; SELECT FROM abide.host FOR UPDATE; SELECT pg_sleep(60)";
    let mut psql = Command::new("psql").args(["-qAt", "-d", &server.url(), "-c", hold]).spawn().unwrap();
    let locks = "SELECT count(*) FROM pg_locks WHERE mode = 'RowShareLock' AND pid <> pg_backend_pid()";
    wait_for("the row is locked", async || server.ask(locks) != "0").await;
    sleep(ms(100)).await;
    let asks = ["a.example", "b.example"].map(|host| (Arc::from(host), asking(1, lease(HOUR))));
    let replies = store.exchange_all(&asks).await;
    let _ = (psql.kill(), psql.wait());
    let error = replies[0].as_ref().unwrap_err().to_string();
    assert!(error.ends_with("another transaction has kept a host's row locked"), "{error}");
    assert_eq!(replies[1].as_ref().unwrap().0, LEASED);
}

/// Rows whose time is over are not in the order in which a batch locks its own.
#[tokio::test]
async fn batches_that_remove_old_rows_never_wait_in_a_circle() {
    let Some(server) = start() else { return };
    let (store, other) = (connect(&server.url()).await, connect(&server.url()).await);
    for host in ["c.example", "d.example"] {
        store.exchange(host, asking(1, lease(HOUR))).await.unwrap();
    }
    server.ask("INSERT INTO abide.host (host, since) SELECT 'e.example', since FROM abide.run");
    // So that a circle is found as one.
    server.ask("ALTER FUNCTION abide.exchanges SET lock_timeout = 0");
    let hold = "BEGIN; SELECT FROM abide.host WHERE host = 'd.example' FOR UPDATE; SELECT pg_sleep(600)";
    let mut psql = Command::new("psql");
    let psql = psql.args(["-qAt", "-d", &server.url(), "-c", hold]).stderr(Stdio::null());
    let mut psql = psql.spawn().unwrap();
    let count = |what| {
        server.ask(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND {what}"
        ))
    };
    wait_for("a row is locked", async || count("wait_event = 'PgSleep'") == "1").await;
    let batch = |store: Store, hosts: &'static [&str]| {
        let asks: Vec<_> = hosts.iter().map(|host| (Arc::from(*host), asking(1, lease(HOUR)))).collect();
        tokio::spawn(async move { store.exchange_all(&asks).await })
    };
    // It has locked c, and waits for d.
    let one = batch(store, &["c.example", "d.example", "e.example"]);
    wait_for("the first waits", async || count("wait_event_type = 'Lock'") == "1").await;
    // With b, which is new, a row goes whose time is over: e.
    let two = batch(other, &["b.example", "c.example"]);
    wait_for("the second waits", async || count("wait_event_type = 'Lock'") == "2").await;
    server.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    psql.wait().unwrap();
    for reply in [one.await.unwrap(), two.await.unwrap()].concat() {
        assert_eq!(reply.unwrap().0, LEASED);
    }
    assert_eq!(server.ask("SELECT count(*) FROM abide.host"), "4", "e is in use again");
}

/// Another program may write anything into a row.
#[tokio::test]
async fn numbers_out_of_all_bounds_keep_no_host_for_years() {
    let Some(server) = start() else { return };
    let store = connect(&server.url()).await;
    assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
    let columns = ["last", "delay", "backoff", "leased_until", "kept_until"];
    let absurd = columns.map(|column| format!("{column} = {}", i64::MAX)).join(", ");
    server.ask(&format!("UPDATE abide.host SET {absurd}, throttles = 999"));
    let (reply, state) = exchange(&store, 2, lease(MINUTE)).await;
    let backoff = state.backoff.unwrap();
    assert!(is_busy(reply, HOUR), "{reply:?}");
    assert_eq!((state.quiet, state.delay, backoff.throttles), (Some(ms(0)), HOUR * 24, 255));
    assert!(backoff.left <= HOUR * 24 && backoff.left > HOUR * 23, "{backoff:?}");
    server.ask("UPDATE abide.host SET cause = 'no cause', holder = 'nobody', leased_until = 0, seen = 0");
    assert_eq!(status(&store, 2, lease(MINUTE)).await, LEASED);
}

/// With each host that comes, two go whose time is over; none before what is owed is over.
#[tokio::test]
async fn rows_of_hosts_that_are_not_in_use_go() {
    let Some(server) = start() else { return };
    let store = connect(&server.url()).await;
    let nothing = HostState::default();
    let states = [
        (Want::Release, HostState { quiet: Some(ms(0)), delay: HOUR * 24, ..nothing }, HOUR * 24),
        (Want::Release, HostState { backoff: Some(BACKOFF), ..nothing }, HOUR + MINUTE * 30),
        // Its holder may die, and have sent a request when the lease ended.
        (lease(MINUTE), HostState { delay: HOUR, ..nothing }, MINUTE + HOUR),
    ];
    for (n, (want, state, used)) in (1..).zip(states) {
        let name = format!("h{n}.example");
        store.exchange(&name, LeaseAsk { holder: HolderId(n), number: 0, want, state }).await.unwrap();
        let life =
            format!("SELECT (kept_until - abide.micros()) / 1000 FROM abide.host WHERE host = '{name}'");
        let life = ms(server.ask(&life).parse().unwrap());
        assert!(life > used && life <= used + 11 * MINUTE, "{name}: {life:?}");
    }
    probe(&store, "nothing.example").await.unwrap();
    let rows = || server.ask("SELECT count(*) FROM abide.host");
    assert_eq!(rows(), "3", "nothing is kept of a host that nothing is known of");
    server.ask("INSERT INTO abide.host (host, since) SELECT 'old' || n, 0 FROM generate_series(1, 5) AS n");
    for (n, left) in [(5, "7"), (6, "6"), (7, "6")] {
        store.exchange(&format!("h{n}.example"), asking(1, lease(MINUTE))).await.unwrap();
        assert_eq!(rows(), left);
    }
}

/// Stopped in good order or not, restored, emptied, made anew: only a process that has the lease by its own
/// clock gets it, until one ttl has passed.
#[tokio::test]
async fn after_a_loss_only_the_holder_gets_the_lease() {
    for loss in ["kill", "stop", "one process", "backup", "truncate", "drop", "clock"] {
        let Some(mut server) = start() else { return };
        let store = connect(&server.url()).await;
        assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
        match loss {
            "kill" | "stop" | "backup" => {
                let backup = (loss == "backup").then(|| server.backup());
                if loss == "kill" {
                    server.kill()
                } else {
                    server.stop()
                }
                backup.into_iter().for_each(|backup| server.restore(backup));
                server.start_again();
            }
            // As the system does where memory is short; then the server begins again without a new start.
            "one process" => {
                let ids = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE application_name = 'abide'";
                let ids = server.ask(ids);
                assert!(Command::new("kill").arg("-9").args(ids.split(' ')).status().unwrap().success());
            }
            "truncate" => drop(server.ask("TRUNCATE abide.host")),
            "drop" => {
                server.ask("DROP SCHEMA abide CASCADE");
                connect(&server.url()).await;
            }
            _ => drop(server.ask("UPDATE abide.run SET since = abide.micros() + 3600000000")),
        }
        let first = loop {
            // The first statements may find the server away.
            if let Ok(reply) = store.exchange("a.example", asking(1, lease(MINUTE))).await {
                break reply.0;
            }
            sleep(ms(50)).await;
        };
        assert!(is_busy(first, MINUTE), "{loss}: its name alone is not enough: {first:?}");
        assert!(is_busy(status(&store, 2, lease(MINUTE)).await, MINUTE), "{loss}");
        assert!(matches!(status(&store, 1, held(HOUR)).await, LeaseStatus::Leased { .. }), "{loss}");
        assert!(is_busy(status(&store, 2, held(HOUR)).await, HOUR), "{loss}: one holder");
    }
}

#[tokio::test]
async fn a_new_store_waits_for_a_ttl() {
    let Some(server) = Postgres::start(&[]) else { return };
    let store = connect(&server.url()).await;
    assert!(is_busy(status(&store, 1, lease(MINUTE)).await, MINUTE));
    age(&server);
    assert_eq!(status(&store, 1, lease(MINUTE)).await, LEASED);
}

#[tokio::test]
async fn hosts_and_robots_txt_can_be_read_in_queries() {
    let Some(server) = start() else { return };
    let store = connect(&server.url()).await;
    assert_eq!(server.ask("SELECT count(*) FROM abide.hosts"), "0");
    let state = HostState { quiet: Some(ms(0)), delay: MINUTE, backoff: Some(BACKOFF) };
    exchange(&store, 1, lease(HOUR)).await;
    store.exchange("b.example", LeaseAsk { state, ..asking(1, Want::Release) }).await.unwrap();
    let hours = |column| format!("round(extract(epoch FROM {column} - now()) / 3600)");
    let (free, backed_off) = (hours("free_at"), hours("backed_off_until"));
    let hosts = server.ask(&format!("SELECT host, {free}, {backed_off}, holder FROM abide.hosts ORDER BY 1"));
    assert_eq!(hosts, "a.example|1||00000000000000000000000000000001\nb.example|1|1|");
    server.ask("CREATE TABLE queue (host text); INSERT INTO queue VALUES ('a.example'), ('c.example')");
    let free = "SELECT queue.host FROM queue LEFT JOIN abide.hosts USING (host)
        WHERE coalesce(free_at <= now(), true) FOR UPDATE OF queue SKIP LOCKED";
    assert_eq!(server.ask(free), "c.example");
    let origin: Origin = "https://a.example".parse().unwrap();
    let text = "User-agent: *\nDisallow: /\u{e4}\n";
    store.save(&origin, &sample_record(&origin, WallMillis::from_millis(7), text)).await.unwrap();
    let stored = server.ask("SELECT origin, convert_from(text, 'UTF8') FROM abide.robots_txt");
    assert_eq!(stored, format!("{origin}|{}", text.trim()));
}

/// As the exchange says it to another process: its holder may have sent a request until the lease ended.
#[tokio::test]
async fn a_host_is_free_one_delay_after_a_lease_that_was_not_given_up() {
    let Some(server) = start() else { return };
    let store = connect(&server.url()).await;
    let free_in = || {
        let left = "SELECT round(1000 * extract(epoch FROM free_at - clock_timestamp())) FROM abide.hosts";
        ms(server.ask(left).parse().unwrap())
    };
    let is_about = |left: Duration, expected: Duration| left <= expected && left + MINUTE > expected;
    let state = HostState { quiet: Some(ms(0)), delay: HOUR, backoff: None };
    store.exchange("a.example", LeaseAsk { state, ..asking(1, lease(HOUR)) }).await.unwrap();
    let left = free_in();
    assert!(is_about(left, 2 * HOUR), "its lease runs: {left:?}");
    // Its holder has died, and the lease ended half an hour ago.
    server.ask("UPDATE abide.host SET last = last - 5400000000, leased_until = leased_until - 5400000000");
    let left = free_in();
    let (reply, state) = exchange(&store, 2, lease(MINUTE)).await;
    assert_eq!((reply, state.delay), (LEASED, HOUR));
    assert!(is_about(HOUR - state.quiet.unwrap(), HOUR / 2), "what the exchange says: {state:?}");
    assert!(is_about(left, HOUR / 2), "what the view has said: {left:?}");
    // Given up in good order, it counts from the last request.
    let state = HostState { quiet: Some(ms(0)), ..state };
    store.exchange("a.example", LeaseAsk { state, ..asking(2, Want::Release) }).await.unwrap();
    let left = free_in();
    assert!(is_about(left, HOUR), "it was given up: {left:?}");
}

#[tokio::test]
async fn records_whose_life_is_over_go_with_the_next_ones() {
    let Some(server) = start() else { return };
    let store = Store::builder(&server.url()).record_life(HOUR).connect().await.unwrap();
    let save = async |n: u32| {
        let origin: Origin = format!("https://h{n}.example").parse().unwrap();
        store.save(&origin, &sample_record(&origin, WallMillis::from_millis(1), "")).await.unwrap();
        store.save_pages(&[(format!("u{n}"), vec![1]), (format!("u{n}"), vec![2])]).await.unwrap();
    };
    for n in 0..4 {
        save(n).await;
    }
    assert_eq!(store.load_page("u3").await.unwrap(), Some(vec![2]), "the last one counts");
    server
        .ask("UPDATE abide.robots SET saved_at = now() - interval '61 minutes' WHERE origin NOT LIKE '%h3%'");
    server.ask("UPDATE abide.pages SET saved_at = now() - interval '61 minutes' WHERE url <> 'u3'");
    let counts = "SELECT (SELECT count(*) FROM abide.robots), (SELECT count(*) FROM abide.pages)";
    for (n, left) in [(4, "3|2"), (5, "3|3"), (6, "4|4")] {
        save(n).await;
        assert_eq!(server.ask(counts), left);
    }
}

/// A renewal does not wait for the disk, and a backoff is on the disk when the reply comes.
#[tokio::test]
async fn only_backoffs_wait_for_the_disk() {
    let Some(server) = start() else { return };
    let store = connect(&server.url()).await;
    server.ask("ALTER SYSTEM SET wal_writer_delay = '10s'");
    server.ask("SELECT pg_reload_conf()");
    let unwritten = "SELECT pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()";
    let (mut renewals, mut backoffs) = (0, 0);
    for n in 1..=20 {
        exchange(&store, 1, held(HOUR)).await;
        renewals += u32::from(server.ask(unwritten) == "t");
        let backoff = Backoff { left: MINUTE * n, ..BACKOFF };
        let state = HostState { backoff: Some(backoff), ..HostState::default() };
        store.exchange("a.example", LeaseAsk { state, ..asking(1, held(HOUR)) }).await.unwrap();
        backoffs += u32::from(server.ask(unwritten) == "t");
    }
    // The server's own processes write as well.
    assert!(renewals > 10 && backoffs < 5, "{renewals} renewals and {backoffs} backoffs were not on disk");
}

#[tokio::test]
async fn a_process_hears_that_it_is_next() {
    let Some(server) = start() else { return };
    let (store, other) = (connect(&server.url()).await, connect(&server.url()).await);
    assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
    assert!(is_busy(status(&other, 2, lease(HOUR)).await, HOUR));
    let hears = tokio::spawn(async move { other.given_up("a.example", HolderId(2)).await });
    // It waits before the lease is given up.
    sleep(ms(100)).await;
    assert_eq!(status(&store, 1, Want::Release).await, LeaseStatus::Released);
    timeout(MINUTE, hears).await.unwrap().unwrap();
}

/// The directions of the requirement: 0.6 where each host has one process, and 5 where four want the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_for_a_page() {
    tokio::join!(statements(2, 8, true, 0.6), statements(4, 4, false, 5.0));
}

async fn statements(workers: u32, hosts: u32, is_apart: bool, most: f64) {
    let Some(server) = start() else { return };
    let website = website(ms(5)).await;
    let crew = Crew { workers, hosts, is_apart, ..Crew::new(server.url(), website.address()) };
    let crew = Crew { delay: ms(1_000), ..crew };
    let processes = start_crew(&crew, &website).await;
    let statements = || -> f64 {
        server.ask("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'").parse().unwrap()
    };
    let (before, seen) = (statements(), website.log().len());
    sleep(run_time(ms(8_000))).await;
    let (asked, pages) = (statements() - before, website.log().len() - seen);
    stop_and_check(processes, &website, &crew).await;
    let each = asked / pages as f64;
    let whose = format!("{workers} processes, apart: {is_apart}");
    show_delays(&whose, &by_host(&website.log()), crew.delay);
    let least = by_worker(&website.log()).values().map(Vec::len).min();
    println!(
        "{whose}: {each:.2} statements a page, {pages} pages; the fewest of a process at a host: {least:?}"
    );
    // Twice the direction, because the machine may be busy with other things.
    assert!(each <= 2.0 * most, "{each} statements a page");
}
