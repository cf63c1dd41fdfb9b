//! What only PostgreSQL can suffer while several processes crawl, checked by what a website sees.

use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::Arc;

use abide_tests::free_port;
use tempfile::TempDir;
use tokio::join;

use crate::crew::faults::{Fault, both, server_fails_behind};
use crate::crew::wait_until;
use crate::store::{Server, start, start_with};
use crate::support::{CUT, HOUR, LEASED, Proxy, connect, lease, ms, status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_or_refused_shorten_no_delay() {
    let cut = Fault::at_once("connections cut", |server| drop(server.ask(CUT)));
    let limits =
        ["statement_timeout=20ms", "idle_in_transaction_session_timeout=20ms", "idle_session_timeout=500ms"];
    let nothing = Fault::at_once("short time-outs of the server", |_| ());
    join!(
        both(start, cut),
        both(move || start_with(&limits), nothing),
        none_is_left(),
        lost_on_the_way("cut on the way", |proxy, _| proxy.cut()),
        lost_on_the_way("gone without a word", |proxy, port| proxy.lead_to(port)),
    );
}

/// As a role that is no superuser, because those have connections of their own.
async fn none_is_left() {
    let Some(server) = start() else { return };
    server.ask("CREATE ROLE crawler LOGIN; GRANT USAGE ON SCHEMA abide TO crawler");
    server.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA abide TO crawler");
    let refuse = |server: &mut Server| {
        server.ask("ALTER ROLE crawler CONNECTION LIMIT 0");
        server.ask(CUT);
    };
    let accept = |server: &mut Server| drop(server.ask("ALTER ROLE crawler CONNECTION LIMIT -1"));
    let url = server.url().replace("postgres@", "crawler@");
    let fault = Fault::lasting(5, "no connection left for 5 s", refuse, accept);
    server_fails_behind(server, fault, false, url).await;
}

async fn lost_on_the_way(name: &'static str, lose: fn(&Proxy, u16)) {
    let Some(server) = start() else { return };
    let proxy = Arc::new(Proxy::start(server.port()).await);
    let url = proxy.url();
    let fault = Fault::at_once(name, move |server| lose(&proxy, server.port()));
    server_fails_behind(server, fault, false, url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_a_failover_and_a_slow_disk_shorten_no_delay() {
    let back = Fault::at_once("clock set back by 1 h", |server| set_clock(server, -3_600));
    let failover = Fault::lasting(2, "restored from a backup", fail_over, Server::start_again);
    // Each commit that waits for the disk takes so much longer, in microseconds.
    let slow = || start_with(&["commit_delay=100000", "commit_siblings=0", "fsync=on"]);
    let nothing = Fault::at_once("slow disk", |_| ());
    join!(both(start, back), both(start, failover), both(slow, nothing), through_a_pooler());
}

/// By so many seconds, in place of the machine's.
fn set_clock(server: &Server, seconds: i64) {
    let micros = seconds * 1_000_000;
    server.ask(&format!(
        "CREATE OR REPLACE FUNCTION abide.micros() RETURNS bigint LANGUAGE sql VOLATILE AS
        'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {micros}'"
    ));
}

/// What was committed after the backup is lost.
fn fail_over(server: &mut Server) {
    let backup = server.backup();
    std::thread::sleep(ms(2_000));
    server.kill();
    server.restore(backup);
}

/// docs/scaling.md says so.
#[tokio::test]
async fn a_clock_that_is_set_forth_ends_leases_early() {
    let Some(server) = start() else { return };
    let store = connect(&server.url()).await;
    assert_eq!(status(&store, 1, lease(HOUR)).await, LEASED);
    set_clock(&server, 2 * 3_600);
    assert_eq!(status(&store, 2, lease(HOUR)).await, LEASED);
}

/// In transaction mode, where each statement may go to another session.
async fn through_a_pooler() {
    let Some(server) = start() else { return };
    let Some(pooler) = Pooler::start(server.port()) else { return };
    let fault = Fault::at_once("behind PgBouncer, connections cut", |server| drop(server.ask(CUT)));
    server_fails_behind(server, fault, false, pooler.url()).await;
}

/// A PgBouncer of a test's own.
struct Pooler {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl Pooler {
    fn start(server: u16) -> Option<Self> {
        let is_installed = Command::new("pgbouncer").arg("--version").output().is_ok();
        let is_required = std::env::var_os("ABIDE_REQUIRE_POSTGRES").is_some();
        assert!(is_installed || !is_required, "pgbouncer is required here");
        if !is_installed {
            return None;
        }
        let (directory, port) = (TempDir::new().unwrap(), free_port());
        let file = directory.path().join("pgbouncer.ini");
        let databases = format!("[databases]\npostgres = host=127.0.0.1 port={server} user=postgres\n");
        let listens =
            format!("[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n");
        let pools = "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n";
        std::fs::write(&file, databases + &listens + pools).unwrap();
        let mut command = Command::new("pgbouncer");
        if Command::new("id").arg("-u").output().unwrap().stdout == b"0\n" {
            // It refuses to run as root, too.
            let owned = Command::new("chown").args(["-R", "postgres"]).arg(directory.path()).status();
            assert!(owned.unwrap().success());
            command.args(["-u", "postgres"]);
        }
        let child = command.arg("-q").arg(&file).spawn().unwrap();
        wait_until("pgbouncer listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { child, port, _directory: directory })
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
