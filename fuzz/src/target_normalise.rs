//! The normal form of a target is its own normal form, is ASCII, starts with a slash, and decides as the target does.

use abide_robots::{Pattern, Target};

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let input = crate::text(bytes);
    let (text, pattern) = input.split_once('\n').unwrap_or((input, ""));
    let target = Target::new(text);
    let normal = target.as_str().to_string();
    assert!(normal.is_ascii() && normal.starts_with('/'));
    let again = Target::new(&normal);
    assert_eq!(again.as_str(), normal);
    let pattern = Pattern::new(pattern.as_bytes());
    assert_eq!(pattern.matches(&target), pattern.matches(&again));
    assert!(pattern.as_str().is_ascii());
}
