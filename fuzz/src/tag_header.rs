//! Any field lines are read: a further line takes no restriction away, the rules of all lines are the union
//! of those of each, the order of lines does not matter, what is read up to a limit is what stands before it,
//! and no marks around a restriction make it a permission.

use std::time::SystemTime;

use abide_permissions::testing::reading_of;
use abide_permissions::{Head, Permissions, ReadOptions, TagRules};

type Line<'a> = (&'a str, &'a [u8]);

const NAMES: [&str; 2] = ["Robots-Tag", "X-Robots-Tag"];

/// The least that may be set (draft-illyes-repext-03 §3.1.1).
const LIMIT: usize = 8192;

fn read(options: &ReadOptions, lines: &[Line<'_>]) -> Permissions {
    Permissions::read(options, lines.iter().copied(), Head::default(), SystemTime::UNIX_EPOCH)
}

/// Whether all of `fewer` is stated by `more`. Unknown rules are capped, so beyond the cap only the others
/// are compared.
fn contains(more: &TagRules, fewer: &TagRules) -> bool {
    let united = fewer.clone().union(more);
    united == *more || united.unknown().count() >= 1024
}

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let tokens = ["ExampleBot", "_bot"].map(|token| token.parse().expect("a token"));
    let options = ReadOptions::for_tokens(tokens).with_field_limit(1 << 20).expect("large");
    let mut lines: Vec<Line<'_>> = bytes
        .split(|byte| *byte == b'\n')
        .zip(NAMES.into_iter().cycle())
        .map(|(line, name)| (name, line))
        .collect();

    let whole = read(&options, &lines);
    let mut united = TagRules::default();
    for (n, line) in lines.iter().enumerate() {
        let alone = read(&options, std::slice::from_ref(line));
        assert!(contains(whole.rules(), alone.rules()), "a further line takes nothing away");
        united = united.union(alone.rules());
        if n < 8 {
            let so_far = read(&options, &lines[..=n]);
            assert!(contains(so_far.rules(), &united) && contains(&united, so_far.rules()), "line by line");
        }
        let _ = reading_of(line.1, &options);
    }
    assert!(contains(&united, whole.rules()) && contains(whole.rules(), &united), "the union of the lines");
    for (place, rules) in whole.statements() {
        assert!(contains(whole.rules(), rules) && !place.to_string().contains('\n'));
    }
    // A field that was cut permits nothing.
    assert!(!whole.is_truncated() || !(whole.is_complete() || whole.may_index() || whole.may_follow()));
    assert_eq!(whole.is_complete(), whole.unknown_because().is_empty());
    for (place, problem) in whole.warnings() {
        assert!(!format!("{place}: {problem}").contains('\n'));
    }

    at_the_limit(&options, &lines, bytes.first().copied().unwrap_or_default());
    let _ = read(&options.clone().with_strict_sf(true), &lines);

    in_marks(&options, bytes);

    lines.reverse();
    assert!(contains(read(&options, &lines).rules(), whole.rules()), "the order of lines");
}

/// Puts a restriction between what the input has of marks, blanks and characters that are no letters or
/// digits.
fn in_marks(options: &ReadOptions, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // A colon may end the name of a crawler, and `\u{fffd}` stands for what is no text.
    let marks: String = text
        .chars()
        .filter(|char| !char.is_alphanumeric() && !matches!(char, '\n' | '\u{fffd}'))
        .take(16)
        .collect();
    let (before, behind) =
        marks.split_at(marks.char_indices().nth(marks.chars().count() / 2).map_or(0, |(at, _)| at));
    let value = format!("{before}noindex{behind}");
    for name in NAMES {
        assert!(!read(options, &[(name, value.as_bytes())]).may_index(), "{name}: {value:?}");
    }
}

/// Puts lines without rules before those of each field, so that the limit falls among the latter, and reads
/// up to it.
fn at_the_limit(options: &ReadOptions, lines: &[Line<'_>], choice: u8) {
    let length: usize = lines.iter().map(|(_, line)| line.len() + 2).sum();
    let room = length * usize::from(choice) / 255;
    let filler = format!("\"{}\"", "x".repeat((LIMIT - 2).saturating_sub(room)));
    let mut filled: Vec<Line<'_>> = NAMES.map(|name| (name, filler.as_bytes())).to_vec();
    filled.extend(lines);
    let limited = options.clone().with_field_limit(LIMIT).expect("the least");
    let cut = read(&limited, &filled);

    // The lines as they are counted (RFC 9110 §5.3), and of the one in which the limit falls what a comma has
    // ended before it.
    let mut expected = TagRules::default();
    let mut is_cut = false;
    let mut ends = [0; 2];
    for &(name, line) in &filled {
        let end = &mut ends[usize::from(name == NAMES[1])];
        let start = if *end == 0 { 0 } else { *end + 2 };
        *end = start + line.len();
        let is_whole = *end <= LIMIT;
        let within = if is_whole { line } else { ended(&line[..LIMIT.saturating_sub(start)]) };
        let stated = read(options, &[(name, within)]);
        expected = expected.union(stated.rules());
        is_cut |= within.len() < line.len();
        // The older grammars look ahead: there the first half of a line may say what the whole does not.
        if !is_whole && reading_of(line, options) == "sf" {
            let whole = read(options, &[(name, line)]);
            assert!(contains(whole.rules(), stated.rules()), "a limit only takes rules away");
        }
    }
    assert_eq!(cut.is_truncated(), is_cut, "a limit is reported");
    assert!(contains(cut.rules(), &expected) && contains(&expected, cut.rules()), "up to the limit");
}

/// What of a line stands before its last comma outside of strings and lists (permissions §5.1).
fn ended(line: &[u8]) -> &[u8] {
    let (mut depth, mut in_string, mut end) = (0_usize, false, 0);
    let mut bytes = line.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if in_string => drop(bytes.next()),
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => end = at,
            _ => {}
        }
    }
    &line[..end]
}
