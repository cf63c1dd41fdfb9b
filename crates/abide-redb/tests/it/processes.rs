//! Other processes: one that has the file open, and one that is killed while it writes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::pacing::{Ask, PacePolicy, Pacer};
use abide_gate::{Clock, SystemClock, WallMillis};
use abide_redb::{Error, Store};
use http::{HeaderMap, StatusCode};

use crate::support::{Dice, Ledger, Step, perform, start, steps};

/// Where the child finds its store, and what it is to do there.
const PATH: &str = "ABIDE_REDB_TEST_PATH";
const LIFE: &str = "ABIDE_REDB_TEST_LIFE";
const START: &str = "ABIDE_REDB_TEST_START";

/// So many things are done in one life, if nobody ends it before.
const STEPS: u64 = 500;

/// So many files are written at once, each in every so many lives: most of a life is waiting.
const FILES: u64 = 4;

fn steps_of(life: u64) -> Vec<Step> {
    steps(life, life / FILES * STEPS, STEPS, 20)
}

/// This test program, once more, as another process.
fn child_process(path: &Path, life: u64, start: WallMillis) -> (Child, BufReader<ChildStdout>) {
    process("processes::child", path, life, start)
}

fn process(test: &str, path: &Path, life: u64, start: WallMillis) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(PATH, path)
        .env(LIFE, life.to_string())
        .env(START, start.0.to_string())
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
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    let store = Store::builder().write_behind(Duration::from_millis(5)).open(path).unwrap();
    for (n, step) in steps_of(number(LIFE)).into_iter().enumerate() {
        say(&format!("given {n}"));
        if perform(&store, WallMillis(number(START)), step).await {
            say(&format!("acknowledged {n}"));
        }
    }
    // Whoever is not killed by now holds the file until he is.
    std::thread::sleep(Duration::from_secs(60));
}

/// One line, in one piece, now.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
fn opened_twice_is_an_error_at_once_in_another_process_and_in_this() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    let (mut other, output) = child_process(&path, 1, start());
    // Kept, so that the other process can go on saying things.
    let mut lines = output.lines();
    assert!(lines.any(|line| line.unwrap().starts_with("acknowledged")), "it has it open");
    let began = Instant::now();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(&error, Error::Locked { path: named } if *named == path), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "nothing is waited for");
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

/// The child: a crawler that is told 429, and says for how long its host is held then.
#[tokio::test]
#[ignore = "it is the child of the test below"]
async fn complainer() {
    let store = Store::open(std::env::var_os(PATH).expect("the parent says where")).unwrap();
    let pacer = Pacer::builder(PacePolicy::default()).store(Arc::new(store)).build();
    let permit = pacer.acquire(&"http://a.example/".parse().unwrap(), Ask::new()).await.unwrap();
    let mut headers = HeaderMap::new();
    if std::env::var(LIFE).unwrap() != "2" {
        headers.insert("retry-after", "1".parse().unwrap());
    }
    let until = permit.observe(StatusCode::TOO_MANY_REQUESTS, &headers).unwrap();
    drop(permit);
    assert!(pacer.settled(Duration::from_secs(30)).await);
    say(&format!("held {}", until.since(SystemClock.wall()).as_secs()));
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn the_429_after_two_that_were_ended_by_kill_9_holds_for_four_minutes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    let mut held = 0;
    for life in 0..3 {
        let (mut other, output) = process("processes::complainer", &path, life, start());
        let told =
            output.lines().map_while(Result::ok).find_map(|line| line.strip_prefix("held ")?.parse().ok());
        other.kill().unwrap();
        other.wait().unwrap();
        held = told.unwrap_or_else(|| panic!("life {life} says nothing"));
    }
    // The first two were answered with Retry-After: 1. A process that knew nothing of them would wait for a minute.
    assert!((239..=264).contains(&held), "{held} s");
}

/// `ABIDE_REDB_KILLS=1000` for the long form.
#[tokio::test]
async fn g08_no_acknowledged_record_is_lost_by_a_kill() {
    let kills: u64 = std::env::var("ABIDE_REDB_KILLS").map_or(40, |kills| kills.parse().unwrap());
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
    // A second is the promise (reliability §6); a machine that does other things as well may stand still for a while.
    assert!(slowest < Duration::from_secs(10), "slowest open {slowest:?}");
}

/// The lives of one file. Each goes on where the last one was ended. Returns the slowest open, how much was acknowledged, and the size.
fn killed(file: u64, kills: u64) -> (Duration, u64, u64) {
    let runtime = tokio::runtime::Handle::current();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    let (mut dice, mut ledger) = (Dice(kills + file), Ledger::new());
    let (mut slowest, mut acknowledged, mut size) = (Duration::ZERO, 0, 0);
    for life in (file..kills).step_by(FILES as usize) {
        let (mut other, output) = child_process(&path, life, ledger.start);
        // Some are killed before they have opened it, most at some time after so many lines.
        let lines = if (life / FILES + 3 * file).is_multiple_of(10) { 0 } else { 1 + dice.below(60) };
        let wait = Duration::from_micros(dice.below(if lines == 0 { 20_000 } else { 3_000 }));
        acknowledged += follow(&mut ledger, output, &steps_of(life), lines, || {
            std::thread::sleep(wait);
            other.kill().unwrap();
            other.wait().unwrap();
        });
        let began = Instant::now();
        let store = Store::open(&path).unwrap();
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
