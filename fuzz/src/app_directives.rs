//! Any preference records are read: they change no verdict, a line that cannot be read touches no other, and
//! further signals never lift a restriction. Nothing around a no makes it a yes, or as good as unsaid.

use abide_permissions::{AppDirectives, Preference, Preferences, SfValue, Usage};
use abide_robots::{ProductToken, Rules, Target};

const RULES: &str = "User-agent: *\nDisallow: /x\nAllow: /x/y\n";
const NAMES: [&str; 3] = ["App-Directives", "Content-Usage", "Content-Signal"];

fn parse(records: &[u8]) -> Rules {
    let token = ProductToken::new("ExampleBot").expect("a token");
    Rules::parse(&[RULES.as_bytes(), records].concat(), &[token])
}

/// The directives of an application, without the lines on which they stand.
type Directives = Option<Vec<(String, SfValue)>>;

fn of(rules: &Rules, target: &Target<'_>) -> (Vec<Directives>, Preferences) {
    let directives = AppDirectives::of(rules, target);
    let apps: Vec<String> = directives.apps().take(8).map(str::to_owned).collect();
    (
        apps.iter()
            .map(|app| {
                let own = directives.for_app(app)?;
                Some(own.into_iter().map(|(name, value, _)| (name.to_owned(), value.clone())).collect())
            })
            .collect(),
        Preferences::default().with_robots(rules, target),
    )
}

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    surround(bytes);
    let mut records = Vec::new();
    for (line, name) in
        bytes.split(|byte| matches!(byte, b'\n' | b'\r')).take(64).zip(NAMES.into_iter().cycle())
    {
        records.extend(name.as_bytes());
        records.extend(b": ");
        records.extend(line);
        records.push(b'\n');
    }
    let (plain, with) = (parse(b""), parse(&records));
    let and = |more: &[u8]| parse(&[&records[..], more].concat());
    let spoiled = and(b"App-Directives: a;;\nContent-Usage: b=n c=n\nContent-Usage: A=n\n");
    let cleaned = parse(&without_dropped(&records, &with));
    let signalled = and(b"Content-Signal: search=yes, ai-train=yes, ai-input=yes\n");
    for path in ["/", "/x", "/x/y", "/foo/1"] {
        let target = Target::new(path);
        assert_eq!(plain.is_allowed(&target), with.is_allowed(&target), "no verdict changes");
        let (directives, preferences) = of(&with, &target);
        for (others, what) in [(&spoiled, "touches no other"), (&cleaned, "is as good as none")] {
            let (again, others) = of(others, &target);
            assert_eq!(directives, again, "a line that cannot be read {what}");
            assert_eq!(preferences.statements(), others.statements());
        }
        let (_, more) = of(&signalled, &target);
        for usage in [Usage::Search, Usage::TrainAi, Usage::AiInput] {
            let (before, after) = (preferences.resolve(&usage), more.resolve(&usage));
            assert!(before != Preference::Disallow || after == Preference::Disallow, "nothing is lifted");
        }
    }
}

/// Marks of any kind and number before and behind a no, in the record and the field of each carrier.
fn surround(bytes: &[u8]) {
    let marks = bytes.iter().filter(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'\r' | b'\n'));
    let marks: Vec<u8> = marks.take(16).copied().collect();
    let (before, behind) = marks.split_at(marks.len() / 2);
    for (name, label) in
        [("Content-Usage", "train-ai"), ("Content-Signal", "ai_train"), ("Content-Usage", "ai")]
    {
        for no in ["n", "no", "?0"] {
            let value = [label.as_bytes(), b"=", before, no.as_bytes(), behind].concat();
            let records = [name.as_bytes(), b": ", &value].concat();
            let file = Rules::parse(&[b"User-agent: *\n", &records[..]].concat(), &[]);
            let robots = Preferences::default().with_robots(&file, &Target::new("/"));
            let field = Preferences::default().with_fields([(name, value.as_slice())]);
            for preferences in [robots, field] {
                let answer = preferences.training();
                assert!(matches!(answer.as_str(), "no" | "unknown"), "{answer}");
            }
        }
    }
}

/// The file with a comment in the place of each record that could not be read.
fn without_dropped(records: &[u8], rules: &Rules) -> Vec<u8> {
    let directives = AppDirectives::of(rules, &Target::new("/"));
    let before = RULES.lines().count();
    let lines = records.split_inclusive(|byte| *byte == b'\n').zip(before + 1..);
    let is_dropped = |number: usize| directives.dropped().iter().any(|line| *line as usize == number);
    let kept = lines.map(|(line, number)| if is_dropped(number) { &b"#\n"[..] } else { line });
    kept.collect::<Vec<_>>().concat()
}
