//! The whole gate through a month of faults, in milliseconds a day: robots.txt, permits, stores, callers and
//! clocks at once, on virtual time, every event checked from where the servers stand.
//!
//! A run follows from one number. When one fails, the events that matter are sought, and a line is printed
//! that runs them again:
//!
//! ```sh
//! ABIDE_SEEDS=200 cargo test -p abide-gate --test it a_month      # 200 runs of 32 days
//! ABIDE_REPLAY=17:5,9,12 cargo test -p abide-gate --test it a_month
//! ```

mod checker;
mod faulty_stores;
mod plan;
mod shrink;
mod web;
mod world;

use checker::{Occurrences, Violation};
use faulty_stores::quiet;
use plan::{DAY, DAYS, Plan};
use world::{Excuse, Rude, run};

/// Runs it, or says how to run the least that still fails.
fn checked(plan: &Plan) -> Occurrences {
    let violation = match run(plan, None) {
        Ok(counts) => return counts,
        Err(violation) => violation,
    };
    let least = shrink::shrink(plan, None, &violation);
    let found = run(&least, None).expect_err("what was shrunk still fails");
    panic!("{violation}\nleast: {found}\nABIDE_REPLAY={} of {} events", least.replay(), plan.events.len());
}

#[test]
fn a_month_of_faults_breaks_no_promise() {
    quiet();
    if let Ok(replay) = std::env::var("ABIDE_REPLAY") {
        checked(&Plan::of_replay(&replay));
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, seeds) = (number("ABIDE_SEED").unwrap_or(0), number("ABIDE_SEEDS").unwrap_or(12));
    let began = std::time::Instant::now();
    let next = std::sync::atomic::AtomicU64::new(first);
    let all = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(4) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    if seed >= first + seeds {
                        return;
                    }
                    let counts = checked(&Plan::of_seed(seed));
                    all.lock().unwrap().push((seed, counts));
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    assert_eq!(all.len() as u64, seeds);
    let mut sum = Occurrences::new();
    for (seed, counts) in all {
        assert!(
            counts["pages"] > 100 && counts["disallowed"] > 30,
            "seed {seed}: little happened: {counts:?}"
        );
        counts.into_iter().for_each(|(what, count)| *sum.entry(what).or_default() += count);
    }
    let micros = began.elapsed().as_micros() / u128::from(seeds * u64::from(DAYS));
    println!("{seeds} runs of {DAYS} days in {:?}, {micros} us a day: {sum:?}", began.elapsed());
    assert!(sum["pages by a last good copy"] > 0 && sum["unreachable"] > 0);
    assert!(sum["holds"] > 0 && sum["held"] > 0);
}

/// The promise that the checker finds broken first, in the first runs in which it finds one.
fn caught(rude: Rude) -> (Plan, Violation) {
    let runs = (0..12).map(Plan::of_seed).find_map(|mut plan| {
        plan.events.retain(|event| event.at < 10 * DAY);
        run(&plan, Some(rude)).err().map(|violation| (plan, violation))
    });
    runs.unwrap_or_else(|| panic!("{rude:?} was not caught"))
}

#[test]
fn each_broken_promise_is_caught() {
    quiet();
    for (rude, promises) in [
        (Rude::PastRobots, &["G1"][..]),
        (Rude::PastTurn, &["G4"]),
        (Rude::EarlyRelease, &["G4"]),
        (Rude::DeafToThrottles, &["G4"]),
        (Rude::DeafToRefusals, &["G4"]),
        (Rude::OpenWhenUnreachable, &["G1"]),
        (Rude::ShortDelay, &["G4"]),
        (Rude::Leak, &["end", "G10"]),
        (Rude::TwoGates, &["G3", "G4", "G12", "G1"]),
        (Rude::OverBlocks(Excuse::Interrupted), &["G10"]),
        (Rude::OverBlocks(Excuse::Deferred), &["G10"]),
        (Rude::OverBlocks(Excuse::Unreachable), &["G10"]),
        (Rude::Patient, &["G5"]),
        (Rude::LeavesTask, &["end"]),
    ] {
        let (_, violation) = caught(rude);
        assert!(promises.contains(&violation.promise), "{rude:?}: {violation}");
    }
}

/// Where stores fail, clocks jump and processes are killed there are more excuses, and still not for
/// everything.
#[test]
fn a_refusal_without_reason_is_caught_in_every_setting() {
    quiet();
    for seed in 0..6 {
        for excuse in [Excuse::Interrupted, Excuse::Deferred, Excuse::Unreachable] {
            let mut plan = Plan::of_seed(seed);
            plan.events.retain(|event| event.at < 10 * DAY);
            let promise = run(&plan, Some(Rude::OverBlocks(excuse))).err().map(|violation| violation.promise);
            assert_eq!(promise, Some("G10"), "seed {seed}, {excuse:?}");
        }
    }
}

#[test]
fn a_failing_run_shrinks_to_what_matters_and_replays_alike() {
    quiet();
    for rude in [Rude::PastRobots, Rude::EarlyRelease] {
        let (plan, violation) = caught(rude);
        let least = shrink::shrink(&plan, Some(rude), &violation);
        assert!(least.events.len() <= 3, "{rude:?}: {} of {} events", least.events.len(), plan.events.len());
        let again = Plan::of_replay(&least.replay());
        let [first, second] = [&least, &again].map(|plan| run(plan, Some(rude)).unwrap_err().to_string());
        assert_eq!(first, second, "{rude:?}: the same run, to the letter");
    }
}
