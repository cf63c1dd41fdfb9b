//! The normal form of a target is its own normal form, is ASCII, starts with a slash, and decides as the target does.

#![no_main]

use abide_robots::{Pattern, Target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (text, pattern) = input;
    let target = Target::new(text);
    let normal = target.as_str().to_string();
    assert!(normal.is_ascii() && normal.starts_with('/'));
    let again = Target::new(&normal);
    assert_eq!(again.as_str(), normal);
    let pattern = Pattern::new(pattern.as_bytes());
    assert_eq!(pattern.matches(&target), pattern.matches(&again));
    assert!(pattern.as_str().is_ascii());
});
