//! What the types promise: to be shared between threads, to be small, and to answer without an allocation. A
//! program of its own, because the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::alloc::System;

use abide_robots::{ParseOptions, ProductToken, Robots, RobotsVerdict, Rules, Target};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Rules>();
    is_shared::<Robots>();
    is_shared::<RobotsVerdict>();
    is_shared::<Target<'static>>();
    is_shared::<ProductToken>();
};

/// A pointer, and the place of the rule.
#[test]
fn a_verdict_is_small() {
    assert!(size_of::<RobotsVerdict>() <= 5 * size_of::<usize>(), "{}", size_of::<RobotsVerdict>());
    assert_eq!(size_of::<Rules>(), size_of::<usize>());
}

/// The allocator counts what the whole process does, so the rounds are repeated until no other test
/// allocates. What allocates each time, fails each time.
#[track_caller]
fn allocates_nothing<T>(what: &str, round: impl Fn() -> T) {
    let undisturbed = (0..1000).any(|_| {
        let region = Region::new(ALLOCATOR);
        let _answer = round();
        region.change().allocations == 0
    });
    assert!(undisturbed, "{what} allocates");
}

#[test]
fn a_question_allocates_nothing() {
    let literals: String = (0..100).map(|number| format!("disallow: /{number}/\n")).collect();
    let wildcards: String = (0..200).map(|number| format!("allow: /*{number}.php$\n")).collect();
    let google = ParseOptions::google();
    for rules in ["disallow: /a\n", &literals, &(literals.clone() + &wildcards)] {
        let file = format!("user-agent: *\ncrawl-delay: 1\n{rules}");
        let rules = Rules::parse(file.as_bytes(), &[]);
        let as_google = Rules::parse_with(file.as_bytes(), &[], google);
        for path in ["/a/b?c=d/e:f", "/7/8.php", "/robots.txt"] {
            allocates_nothing("a target", || Target::new(path));
            let target = Target::new(path);
            allocates_nothing("a yes or no", || rules.is_allowed(&target));
            allocates_nothing("a yes or no for Google", || as_google.is_allowed(&target));
            allocates_nothing("a verdict", || rules.verdict(&target).clone());
        }
    }
}
