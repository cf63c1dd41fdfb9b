//! One measured operation, for callgrind: `cost LIBRARY parse FILE`, `cost LIBRARY match RULES WILDCARDS`,
//! or `cost abide hostile NUMBER`.
//!
//! Run by `benches/instructions`, which counts the instructions of [`measured`] alone.

#![allow(clippy::restriction, reason = "what cannot go on ends the program")]

use std::env;
use std::hint::black_box;
use std::time::Instant;

use abide_robots::{ProductToken, Rules, Target};

#[path = "../benches/workload.rs"]
mod workload;

use workload::AGENT;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [library, "parse", file] => parse(library, &workload::file(file).expect("a known file")),
        [library, "match", rules, wildcards] => {
            let rules = rules.parse().expect("a number of rules");
            let wildcards = wildcards.parse().expect("a share of wildcards");
            matching(library, workload::match_set(rules, wildcards));
        }
        ["abide", "hostile", number] => hostile(number.parse().expect("a number")),
        _ => {
            panic!("expected: LIBRARY parse FILE, or LIBRARY match RULES WILDCARDS, or abide hostile NUMBER")
        }
    }
}

/// The function whose instructions are counted.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

fn token() -> ProductToken {
    ProductToken::new(AGENT).expect("the name of the crawler is a token")
}

/// Once to warm up the allocator and what is found out about the processor, and once to measure.
fn twice<T>(work: impl Fn() -> T) {
    drop(black_box(work()));
    drop(measured(work));
}

fn parse(library: &str, body: &str) {
    let text = black_box(body);
    let body = text.as_bytes();
    let tokens = [token()];
    match library {
        "abide" => twice(|| Rules::parse(body, &tokens)),
        "texting_robots" => twice(|| texting_robots::Robot::new(AGENT, body)),
        "fast-robots" => twice(|| fast_robots::RobotsTxt::parse(text)),
        "robotxt" => twice(|| robotxt::Robots::parse(body, AGENT)),
        "robotstxt" => twice(|| one_shot(text, "https://example.com/")),
        "lines" => twice(|| memchr::memchr2_iter(b'\n', b'\r', body).count()),
        _ => panic!("expected a library"),
    }
}

fn matching(library: &str, (robots, paths): (String, Vec<String>)) {
    let body = robots.as_bytes();
    let allowed = match library {
        "abide" => {
            let rules = Rules::parse(body, &[token()]);
            measured(|| paths.iter().filter(|path| rules.is_allowed(&Target::new(path))).count())
        }
        "texting_robots" => {
            let rules = texting_robots::Robot::new(AGENT, body).expect("it reads its input");
            let urls: Vec<String> = paths.iter().map(|path| format!("https://example.com{path}")).collect();
            measured(|| urls.iter().filter(|url| rules.allowed(url)).count())
        }
        "fast-robots" => {
            let robots = fast_robots::RobotsTxt::parse(&robots);
            let rules = robots.matcher();
            measured(|| paths.iter().filter(|path| rules.is_allowed(AGENT, path)).count())
        }
        "robotxt" => {
            let rules = robotxt::Robots::parse(body, AGENT);
            measured(|| paths.iter().filter(|path| rules.is_allowed(path)).count())
        }
        _ => panic!("expected a library"),
    };
    println!("{allowed}");
}

/// Reads the worst of files and asks about the worst of paths.
fn hostile(number: usize) {
    let mut all = workload::hostile();
    assert!(number < all.len(), "there are {} of them", all.len());
    let (name, robots, path) = all.swap_remove(number);
    let tokens = [token()];
    let start = Instant::now();
    let allowed = measured(|| {
        Rules::parse(black_box(robots.as_bytes()), &tokens).is_allowed(&Target::new(black_box(&path)))
    });
    println!("{name}: {} bytes, {allowed}, {:?}", robots.len(), start.elapsed());
}

fn one_shot(body: &str, url: &str) -> bool {
    robotstxt::DefaultMatcher::default().one_agent_allowed_by_robots(body, AGENT, url)
}
