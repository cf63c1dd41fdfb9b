//! Any field lines are read: the rules of all lines are the union of those of each, the order of lines does not matter, a
//! limit only takes rules away, and what is written again states nothing new.

use std::time::SystemTime;

use abide_permissions::{Head, Limit, Permissions, ReadOptions, Rules, members, reading_of, write_field};

fn read(options: &ReadOptions, lines: &[(&str, &[u8])]) -> Permissions {
    Permissions::read(options, lines.iter().copied(), Head::default(), SystemTime::UNIX_EPOCH)
}

/// Whether all of `fewer` is stated by `more`. Unknown rules are capped, so beyond the cap only the others are compared.
fn contains(more: &Rules, fewer: &Rules) -> bool {
    let united = fewer.clone().union(more);
    united == *more || united.unknown().count() >= 1024
}

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let tokens = ["ExampleBot", "_bot"].map(|token| token.parse().expect("a token"));
    let options = ReadOptions::for_tokens(tokens).with_field_limit(1 << 20).expect("large");
    let names = ["Robots-Tag", "X-Robots-Tag"];
    let mut lines: Vec<(&str, &[u8])> = bytes
        .split(|byte| *byte == b'\n')
        .zip(names.into_iter().cycle())
        .map(|(line, name)| (name, line))
        .collect();

    let whole = read(&options, &lines);
    let mut united = Rules::default();
    for line in &lines {
        let alone = read(&options, std::slice::from_ref(line));
        assert!(contains(whole.rules(), alone.rules()), "a further line takes nothing away");
        united = united.union(alone.rules());
        let _ = (members(line.1), reading_of(line.1, &options).to_string());
    }
    assert!(contains(&united, whole.rules()) && contains(whole.rules(), &united), "the union of the lines");
    for statement in whole.statements() {
        assert!(contains(whole.rules(), statement.rules()) && !statement.source().to_string().contains('\n'));
    }
    for remark in whole.remarks() {
        assert!(!remark.to_string().contains('\n'));
    }

    let cut = read(&options.clone().with_field_limit(8192).expect("the least"), &lines);
    assert!(cut.is_truncated() || cut.rules() == whole.rules(), "only a limit makes a difference");
    let _ = read(&options.clone().with_strict_sf(true), &lines);

    lines.reverse();
    assert!(contains(read(&options, &lines).rules(), whole.rules()), "the order of lines");

    if let Some((name, value)) = write_field([(None, whole.rules())]) {
        let again = read(&options, &[(name, value.as_bytes())]);
        // A limit of more than fifteen digits is written as the largest that can be, and a guessed zone as UTC.
        let largest = |limit: Option<Limit>| limit.is_some_and(|limit| limit.as_i64() == 999_999_999_999_999);
        let inexact = whole.rules().unavailable_after().is_some_and(|after| after.is_approximate());
        if !inexact && !largest(again.rules().max_snippet()) && !largest(again.rules().max_video_preview()) {
            assert!(contains(whole.rules(), again.rules()), "{value}");
        }
        assert!(again.rules().flags().eq(whole.rules().flags()), "{value}");
    }
}
