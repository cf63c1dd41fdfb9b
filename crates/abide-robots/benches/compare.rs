//! Time, ours beside the peers'. `cargo bench -p abide-robots`.

#![allow(clippy::restriction, reason = "what cannot go on ends the program")]
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use abide_robots::{ProductToken, Rules, Target};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

mod workload;

use workload::AGENT;

fn token() -> ProductToken {
    ProductToken::new(AGENT).expect("the name of the crawler is a token")
}

fn parse(criterion: &mut Criterion) {
    for name in workload::FILES {
        let body = workload::file(name).expect("a known file");
        let body = body.as_bytes();
        let mut group = criterion.benchmark_group(format!("parse/{name}"));
        group.throughput(Throughput::Bytes(body.len() as u64)).sample_size(20);
        let tokens = [token()];
        group.bench_function("abide", |bench| bench.iter(|| Rules::parse(black_box(body), &tokens)));
        group
            .bench_function("robotxt", |bench| bench.iter(|| robotxt::Robots::parse(black_box(body), AGENT)));
        group.bench_function("texting_robots", |bench| {
            bench.iter(|| texting_robots::Robot::new(AGENT, black_box(body)).is_ok())
        });
    }
}

fn matching(criterion: &mut Criterion) {
    for (rules, wildcards) in [(1, 0), (40, 0), (40, 20), (1500, 0), (1500, 20), (15_000, 0), (15_000, 20)] {
        let (robots, paths) = workload::match_set(rules, wildcards);
        let body = robots.as_bytes();
        let mut group = criterion.benchmark_group(format!("match/{rules}/{wildcards}%"));
        group.throughput(Throughput::Elements(paths.len() as u64)).sample_size(20);
        let ours = Rules::parse(body, &[token()]);
        group.bench_function("abide", |bench| {
            bench.iter(|| paths.iter().filter(|path| ours.is_allowed(&Target::new(black_box(path)))).count())
        });
        let theirs = robotxt::Robots::parse(body, AGENT);
        group.bench_function("robotxt", |bench| {
            bench.iter(|| paths.iter().filter(|path| theirs.is_allowed(black_box(path))).count())
        });
    }
}

/// The worst that 512,000 bytes of file and 16 KiB of path can do: parse and match in one.
fn hostile(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hostile");
    group.sample_size(10);
    for (name, robots, path) in workload::hostile() {
        let tokens = [token()];
        group.bench_function(name, |bench| {
            bench.iter(|| Rules::parse(black_box(robots.as_bytes()), &tokens).is_allowed(&Target::new(&path)))
        });
    }
}

criterion_group!(benches, parse, matching, hostile);
criterion_main!(benches);
