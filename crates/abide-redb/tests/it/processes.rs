//! Other processes: one that has the file open, and some that are killed while they write.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use abide_redb::{Error, Store};
use fastrand::Rng;

use crate::support::{Ledger, START, Step, Still, perform, steps};

/// Where the child finds its store, and what it is to do there.
const PATH: &str = "ABIDE_REDB_TEST_PATH";
const LIFE: &str = "ABIDE_REDB_TEST_LIFE";

/// So many things are done in one life, unless it is killed before.
const STEPS: u64 = 500;

/// So many files are written at once, each in every so many lives: most of a life is waiting.
const FILES: u64 = 4;

fn steps_of(life: u64) -> Vec<Step> {
    steps(life, life / FILES * STEPS, STEPS, 20)
}

/// This test program, once more, as another process, which runs the child below.
fn process(path: &Path, life: u64) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--ignored", "--nocapture"])
        .env(PATH, path)
        .env(LIFE, life.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// The child: writes, and says what was acknowledged, until it is killed.
#[tokio::test]
#[ignore = "it is the child of the other tests here"]
async fn child() {
    let path = std::env::var_os(PATH).expect("the parent says where");
    let builder = Store::builder().write_behind(Duration::from_millis(5)).clock(Still::at(START));
    let store = builder.open(path).unwrap();
    let life = std::env::var(LIFE).unwrap().parse().unwrap();
    for (n, step) in steps_of(life).into_iter().enumerate() {
        say(&format!("given {n}"));
        if perform(&store, step).await {
            say(&format!("acknowledged {n}"));
        }
    }
    // It waits for the kill with the file open. A child whose parent is gone ends, too.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// One line, in one piece, now.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
fn a_file_opened_twice_is_an_error_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    let (mut other, output) = process(&path, 1);
    // Kept, so that the other process can go on writing to it.
    let mut lines = output.lines();
    assert!(lines.any(|line| line.unwrap().starts_with("acknowledged")), "it has it open");
    // It does so until it is killed, below: an opening that waits for it would never end.
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(&error, Error::Locked { path: named } if *named == path), "{error}");
    let error = Store::builder().rebuild_if_corrupt(true).open(&path).unwrap_err();
    assert!(error.is_locked(), "a file that is in use is not damaged: {error}");
    other.kill().unwrap();
    other.wait().unwrap();
    drop(lines);

    let store = Store::open(&path).unwrap();
    assert!(Store::open(&path).unwrap_err().is_locked(), "within one process too");
    drop(store);
    Store::open(&path).unwrap();
}

/// Several see the damage at once. None of them may move aside what another has made meanwhile.
/// `ABIDE_REDB_ROUNDS=10000` for the long form.
#[test]
fn of_starts_that_rebuild_a_file_at_once_one_has_it() {
    for round in 0..std::env::var("ABIDE_REDB_ROUNDS").map_or(100, |rounds| rounds.parse().unwrap()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("abide.redb");
        std::fs::write(&path, "not a database, but letters").unwrap();
        let start = std::sync::Barrier::new(8);
        let open = || {
            start.wait();
            std::thread::sleep(Duration::from_micros(fastrand::u64(0..300)));
            Store::builder().rebuild_if_corrupt(true).open(&path)
        };
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let stores = opened.iter().filter(|store| store.is_ok()).count();
        let found: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!((stores, found.len()), (1, 2), "round {round}: {found:?} {opened:?}");
    }
}

#[test]
fn an_unfinished_file_of_a_killed_start_is_removed_after_an_hour() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    let hour = Duration::from_secs(3_600);
    let half = |suffix: &str, age: Duration| {
        let path = path.with_extension(format!("redb.{suffix}"));
        std::fs::write(&path, [0; 8192]).unwrap();
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(SystemTime::now() - age)
            .unwrap();
        path
    };
    let [one, two] = [1, 2].map(|n| format!("new-{n:032x}"));
    let killed = half(&one, 2 * hour);
    // A process may be making it now, and the others are not ours.
    let kept = [half(&two, hour / 2), half("new-ideas", 2 * hour), half(&format!("{one}.bak"), 2 * hour)];
    for _ in 0..2 {
        Store::open(&path).unwrap();
        assert!(!killed.exists() && kept.iter().all(|path| path.exists()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4, "it leaves no other file");
        // Also where the database is there.
        half(&one, 2 * hour);
    }
}

/// `ABIDE_REDB_KILLS=1000` for the long form.
#[tokio::test]
async fn no_acknowledged_record_is_lost_by_a_kill() {
    let kills = std::env::var("ABIDE_REDB_KILLS").map_or(40, |kills| kills.parse().unwrap());
    let files: Vec<_> =
        (0..FILES).map(|file| tokio::task::spawn_blocking(move || killed(file, kills))).collect();
    let (mut slowest, mut acknowledged, mut size) = (Duration::ZERO, 0, 0);
    for file in files {
        let found = file.await.unwrap();
        (slowest, acknowledged, size) = (slowest.max(found.0), acknowledged + found.1, size.max(found.2));
    }
    println!(
        "{kills} kills, {acknowledged} acknowledged commits, 0 lost, slowest open {slowest:?}, {size} bytes"
    );
    assert!(acknowledged > kills, "they wrote something: {acknowledged}");
}

/// The lives of one file. Each goes on where the last one was ended. Returns the slowest open, how much was
/// acknowledged, and the size.
fn killed(file: u64, kills: u64) -> (Duration, u64, u64) {
    let runtime = tokio::runtime::Handle::current();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    let (mut rng, mut ledger) = (Rng::with_seed(kills + file), Ledger::default());
    let (mut slowest, mut acknowledged, mut size) = (Duration::ZERO, 0, 0);
    for life in (file..kills).step_by(FILES as usize) {
        let (mut other, output) = process(&path, life);
        // Some are killed before they have opened it, most at some time after so many lines.
        let lines = if (life / FILES + 3 * file).is_multiple_of(10) { 0 } else { rng.u64(1..=60) };
        let wait = Duration::from_micros(rng.u64(..if lines == 0 { 20_000 } else { 3_000 }));
        acknowledged += follow(&mut ledger, output, &steps_of(life), lines, || {
            std::thread::sleep(wait);
            other.kill().unwrap();
            other.wait().unwrap();
        });
        let began = Instant::now();
        let store = Store::builder().clock(Still::at(START)).open(&path).unwrap();
        slowest = slowest.max(began.elapsed());
        runtime.block_on(ledger.check(&store, &format!("life {life}")));
        if (life / FILES).is_multiple_of(3) {
            runtime.block_on(store.close()).unwrap();
        }
        drop(store);
        size = std::fs::metadata(&path).unwrap().len();
    }
    (slowest, acknowledged, size)
}

/// Writes down what the child says, and ends it after some lines. What it had said by then counts, too.
fn follow(
    ledger: &mut Ledger,
    output: BufReader<ChildStdout>,
    steps: &[Step],
    lines: u64,
    end: impl FnOnce(),
) -> u64 {
    let (mut acknowledged, mut end, mut left) = (0, Some(end), lines);
    if left == 0 {
        end.take().unwrap()();
    }
    for line in output.lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("given", n)) => ledger.given(steps[n.parse::<usize>().unwrap()]),
            Some(("acknowledged", _)) => {
                ledger.acknowledged();
                acknowledged += 1;
            }
            _ => continue,
        }
        left = left.saturating_sub(1);
        if left == 0
            && let Some(end) = end.take()
        {
            end();
        }
    }
    acknowledged
}
