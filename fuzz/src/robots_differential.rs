//! The answer is that of another implementation (texting_robots), but for the differences that are known and
//! explained.
//!
//! The input: lines that begin with a letter, then a blank line, then targets. `u` makes a user-agent line,
//! `a` an Allow, `s` a sitemap, anything else a Disallow of what follows.

use abide_robots::{ProductToken, Rules, Target};

const AGENT: &str = "foobot";

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let input = crate::text(bytes);
    if input.len() > 600 {
        return;
    }
    let (lines, targets) = input.split_once("\n\n").unwrap_or((input, ""));
    // Rules before any group are for no crawler (RFC 9309 §2.2.1); there they are for all. So the file begins
    // with a group.
    let robots: String = agent(lines.len()) + &lines.lines().map(record).collect::<String>();
    if DIFFERENCES.iter().any(|(_, applies)| applies(&robots)) {
        return;
    }
    // It gives up on what it cannot compile.
    let Ok(other) = texting_robots::Robot::new(AGENT, robots.as_bytes()) else { return };
    let rules = Rules::parse(robots.as_bytes(), &[ProductToken::new(AGENT).expect("a token")]);
    for text in targets.lines().filter(|text| text.starts_with('/') && !text.starts_with("//")) {
        // It takes URLs apart and puts them together again, so it is asked only about paths that this leaves
        // alone. A star in them is `%2A` here (RFC 9309 §2.2.3) and a star there.
        let left_alone = text.bytes().all(plain) && !text.contains("/.") && !text.contains('*');
        if !left_alone || text == "/robots.txt" {
            continue;
        }
        let verdict = rules.verdict(&Target::new(text));
        let answer = other.allowed(&format!("https://example.com{text}"));
        assert_eq!(verdict.is_allowed(), answer, "{text:?} of {robots:?}: we say: {verdict}");
    }
}

fn agent(number: usize) -> String {
    format!("user-agent: {}\n", ["foobot", "*", "barbot"][number % 3])
}

fn record(line: &str) -> String {
    let (kind, value) = line.split_at_checked(1).unwrap_or(("d", ""));
    match kind {
        "u" => agent(value.len()),
        "a" => format!("allow: {value}\n"),
        "s" => format!("sitemap: https://example.com/{value}\n"),
        _ => format!("disallow: {value}\n"),
    }
}

/// What a URL parser neither encodes nor resolves.
fn plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-_.~!&()+,;=:@?*".contains(&byte)
}

/// Why we differ, and in which files.
type Difference = (&'static str, fn(&str) -> bool);
const DIFFERENCES: [Difference; 5] = [
    (
        "RFC 9309 §2.2.2: bytes beyond ASCII and escapes are brought into one form; it leaves some as they are",
        |robots| !values(robots).all(|value| value.bytes().all(|byte| plain(byte) || byte == b'$')),
    ),
    ("RFC 9309 §2.2.3: only a final `$` is the end of the pattern; it takes each for the end", |robots| {
        values(robots).any(|value| value.trim_end_matches('$').contains('$') || value.ends_with("$$"))
    }),
    (
        "RFC 9309 §2.2.2: a pattern is compared from the first byte of the path; there one may lack its slash",
        |robots| values(robots).any(|value| !value.is_empty() && !value.starts_with('/')),
    ),
    ("RFC 9309 §2.2: an empty pattern is no rule; there it allows what others deny", |robots| {
        values(robots).any(str::is_empty)
    }),
    ("RFC 9309 §2.2.4: a sitemap splits no run of user-agent lines; there it does", |robots| {
        let keys: Vec<&str> = robots.lines().filter_map(|line| line.split(':').next()).collect();
        let runs = keys.split(|key| matches!(*key, "allow" | "disallow"));
        runs.into_iter().any(|run| run.contains(&"sitemap"))
    }),
];

fn values(robots: &str) -> impl Iterator<Item = &str> {
    let rules = robots.lines().filter(|line| !line.starts_with("user-agent") && !line.starts_with("sitemap"));
    rules.filter_map(|line| line.split_once(": ").map(|(_, value)| value))
}
