//! What reading permissions costs, beside what others take for part of it, in one run:
//!
//! ```sh
//! cargo bench -p abide-permissions --bench permissions [-- fields] [heads]
//! ```
//!
//! A time is the fastest of many rounds, in which all cases take turns: what else the machine does slows most
//! of them down, but hardly all. Instructions are the same each time. The program counts them by running
//! itself (`count CASE`) under callgrind, where valgrind is installed.
#![allow(clippy::restriction, reason = "a benchmark that cannot go on fails")]

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use abide_permissions::{Head, Permissions, ReadOptions};

mod pages;
mod workload;

use pages::{page, page_with_small_head};
use workload::{field, floor, other_fields, scan, tokenize};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let [count, name] = words.as_slice()
        && count == "count"
    {
        return count_once(name);
    }
    for (part, cases) in [("fields", fields()), ("heads", heads())] {
        if words.is_empty() || words.iter().any(|word| word == part) {
            print_table(&cases);
        }
    }
}

/// Something that is measured: its name, and what it does.
type Case = (String, Box<dyn Fn()>);

fn case<T>(name: impl Into<String>, run: impl Fn() -> T + 'static) -> Case {
    (name.into(), Box::new(move || drop(black_box(run()))))
}

fn fields() -> Vec<Case> {
    let read = |name: &'static str, value: String| {
        let options = options();
        move || {
            let lines = [(name, black_box(value.as_bytes()))];
            Permissions::read(&options, lines, Head::default(), SystemTime::UNIX_EPOCH)
        }
    };
    let mut cases = Vec::new();
    cases.push(case("no field", {
        let options = options();
        move || {
            Permissions::read(&options, black_box(other_fields()), Head::default(), SystemTime::UNIX_EPOCH)
        }
    }));
    for members in [1, 3, 20, 450] {
        let value = field(members);
        let label = format!("{members} of {} bytes", value.len());
        cases.push(case(label.clone(), read("robots-tag", value.clone())));
        if members < 100 {
            cases.push(case(format!("{label}, sfv alone"), move || {
                let parser = sfv::Parser::new(black_box(value.as_str()));
                parser.parse_list_with_visitor(sfv::visitor::Ignored).unwrap();
            }));
        }
    }
    let value = "noindex, nofollow";
    cases.push(case(format!("`X-Robots-Tag: {value}`"), read("x-robots-tag", value.to_owned())));
    cases
}

fn heads() -> Vec<Case> {
    let mut cases = Vec::new();
    for (length, name) in [(10_000, "10 KB"), (100_000, "100 KB"), (1_000_000, "1 MB")] {
        let (options, page) = (options(), page(length));
        cases.push(case(format!("abide, a page of {name}"), move || {
            scan(&options, black_box(page.as_bytes()))
        }));
    }
    let (small, small_page) = (options(), page_with_small_head());
    cases.push(case("abide, a head of 1 KB", move || scan(&small, black_box(small_page.as_bytes()))));
    let selectors = ["meta[name=robots]", "body"].map(|text| text.parse().unwrap());
    let (whole, head) = (page(10_000), page(0));
    cases.push(case("lol_html, stopped at `<body>`", move || floor(&selectors, black_box(whole.as_bytes()))));
    cases.push(case("html5ever's tokenizer to `</head>`", move || tokenize(black_box(&head))));
    cases
}

fn options() -> ReadOptions {
    ReadOptions::new("ExampleBot".parse().unwrap())
}

fn print_table(cases: &[Case]) {
    println!("| | time | instructions |\n| --- | --- | --- |");
    for ((name, _), nanos) in cases.iter().zip(fastest(cases)) {
        println!("| {name} | {} | {} |", time(nanos), instructions(name));
    }
    println!();
}

/// Nanoseconds for each case, of the fastest of its rounds.
fn fastest(cases: &[Case]) -> Vec<f64> {
    let times: Vec<u32> = cases.iter().map(|(.., run)| times(run)).collect();
    let mut fastest = vec![f64::MAX; cases.len()];
    for _ in 0..ROUNDS {
        for (((.., run), times), fastest) in cases.iter().zip(&times).zip(&mut fastest) {
            *fastest = fastest.min(took(run, *times).as_nanos() as f64 / f64::from(*times));
        }
    }
    fastest
}

fn took(run: &dyn Fn(), times: u32) -> Duration {
    let began = Instant::now();
    (0..times).for_each(|_| run());
    began.elapsed()
}

/// How often to run a case in a round: long beside a look at the clock, short beside what the system gives a
/// program at once.
fn times(run: &dyn Fn()) -> u32 {
    (0..24).map(|power| 1 << power).find(|times| took(run, *times) > ROUND_MIN).unwrap()
}

const ROUNDS: usize = 400;
const ROUND_MIN: Duration = Duration::from_micros(200);

fn time(nanos: f64) -> String {
    if nanos < 1_000.0 { format!("{nanos:.0} ns") } else { format!("{:.1} µs", nanos / 1_000.0) }
}

/// Instructions of a case, or a dash where they cannot be counted.
fn instructions(name: &str) -> String {
    let counted = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=permissions::measured*",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["count", name])
        .output();
    let report =
        counted.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default();
    let collected = report.split_once("Collected : ").map(|(_, rest)| rest.trim_end());
    let digits = collected.and_then(|rest| rest.split_whitespace().next());
    digits.map_or("–".to_owned(), thousands)
}

fn thousands(digits: &str) -> String {
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8(groups.join(&b',')).unwrap()
}

/// For callgrind: once to warm up, and once to be counted.
fn count_once(name: &str) {
    let cases = fields().into_iter().chain(heads());
    let (.., run) = cases.into_iter().find(|(known, ..)| known == name).unwrap();
    run();
    measured(&run);
}

#[inline(never)]
fn measured(run: &dyn Fn()) {
    run();
}
