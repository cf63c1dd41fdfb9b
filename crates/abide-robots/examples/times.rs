//! Time, ours beside a peer's, as a table: the fastest of rounds that take turns, so that a busy machine harms neither.
//!
//! ```sh
//! cargo run --release -p abide-robots --example times
//! ```

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on ends the program"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use abide_robots::{ProductToken, Rules, Target};

#[path = "../benches/workload.rs"]
mod workload;

use workload::AGENT;

fn main() {
    println!("| | abide | robotxt 0.7 |\n| --- | --- | --- |");
    for name in ["tiny", "typical", "large", "huge"] {
        let text = workload::file(name).expect("a known file");
        let (body, tokens) = (text.as_bytes(), [token()]);
        row(
            &format!("read and compile `{name}`"),
            1,
            || Rules::parse(black_box(body), &tokens),
            || robotxt::Robots::parse(black_box(body), AGENT),
        );
    }
    for (rules, wildcards) in [(40, 0), (40, 20), (1_500, 20), (15_000, 0), (15_000, 20)] {
        let (robots, paths) = workload::match_set(rules, wildcards);
        let ours = Rules::parse(robots.as_bytes(), &[token()]);
        let theirs = robotxt::Robots::parse(robots.as_bytes(), AGENT);
        row(
            &format!("match a target, {rules} rules, {wildcards} % wildcards"),
            paths.len(),
            || paths.iter().filter(|path| ours.is_allowed(&Target::new(black_box(path)))).count(),
            || paths.iter().filter(|path| theirs.is_allowed(black_box(path))).count(),
        );
    }
}

fn token() -> ProductToken {
    ProductToken::new(AGENT).expect("the name of the crawler is a token")
}

/// Each round takes a fraction of a millisecond, or one call where a call takes longer.
fn row<A, B>(name: &str, items: usize, ours: impl Fn() -> A, theirs: impl Fn() -> B) {
    let [ours_times, theirs_times] = [times(&ours), times(&theirs)];
    let (mut a, mut b) = (Duration::MAX, Duration::MAX);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        a = a.min(took(&ours, ours_times) / ours_times);
        b = b.min(took(&theirs, theirs_times) / theirs_times);
    }
    let each = |took: Duration| took.as_nanos() as f64 / items as f64;
    println!("| {name} | {} | {} ({:.1}x) |", shown(each(a)), shown(each(b)), each(b) / each(a));
}

fn took<T>(run: &impl Fn() -> T, times: u32) -> Duration {
    let began = Instant::now();
    (0..times).for_each(|_| drop(black_box(run())));
    began.elapsed()
}

fn times<T>(run: &impl Fn() -> T) -> u32 {
    let once = took(run, 1).max(Duration::from_nanos(50));
    (Duration::from_micros(300).as_nanos() / once.as_nanos()).clamp(1, 10_000) as u32
}

fn shown(nanos: f64) -> String {
    if nanos < 1_000.0 { format!("{nanos:.0} ns") } else { format!("{:.1} µs", nanos / 1_000.0) }
}
