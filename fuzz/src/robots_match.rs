//! The verdict is that of a naive quadratic matcher, an unrelated group changes nothing, and neither do rules
//! that were made to cause work.
//!
//! The input: lines of patterns, the first byte of each saying Allow or Disallow, then a blank line, then
//! targets. Lines end as the input has it: LF, CR or both.

use std::fmt::Write;

use abide_robots::{ProductToken, Rules, Target};

#[path = "../../crates/abide-robots/tests/it/naive.rs"]
mod naive;

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let input = crate::text(bytes);
    if input.len() > 2000 {
        return;
    }
    let (patterns, targets) = input.split_once("\n\n").unwrap_or((input, ""));
    let mut robots = String::from("user-agent: foobot\n");
    for line in patterns.split_inclusive(['\r', '\n']) {
        let (kind, pattern) = match line.strip_prefix('+') {
            Some(pattern) => ("allow", pattern),
            None => ("disallow", line),
        };
        let _ = write!(robots, "{kind}: {pattern}");
    }
    robots.push('\n');
    let tokens = [ProductToken::new("foobot").expect("a token")];
    let rules = Rules::parse(robots.as_bytes(), &tokens);
    let with_another =
        format!("user-agent: barbot\ndisallow: /\n{robots}disallow:\nuser-agent: *\ndisallow: /\n");
    let with_another = Rules::parse(with_another.as_bytes(), &tokens);
    for text in targets.split(['\r', '\n']).filter(|text| text.starts_with('/')) {
        let target = Target::new(text);
        // A fragment is no part of what is asked for.
        let asked = text.split('#').next().unwrap_or_default();
        let expected = naive::is_allowed(robots.as_bytes(), "foobot", asked.as_bytes());
        assert_eq!(rules.is_allowed(&target), expected, "{text:?} of {robots:?}");
        assert_eq!(with_another.is_allowed(&target), expected);
    }
    if crate::one_in(256, bytes) {
        hostile(&robots, &tokens, targets.lines().find(|text| text.starts_with('/')).unwrap_or("/"));
    }
}

/// Makes the target long and adds rules that do not cover it, each of which would be looked at for each of
/// its bytes: more than the work that is spent on one rule at a time.
fn hostile(robots: &str, tokens: &[ProductToken], text: &str) {
    let text = format!("{}{}", text.split('#').next().unwrap_or_default(), "a".repeat(4000));
    let target = Target::new(&text);
    let Some(missing) =
        (0..32_u8).map(|byte| format!("%{byte:02X}")).find(|escape| !target.as_str().contains(escape))
    else {
        return;
    };
    let mut with_work = robots.to_owned();
    for (first, second) in ('b'..='y').flat_map(|first| ('b'..='y').map(move |second| (first, second))) {
        let _ = writeln!(with_work, "disallow: /*aaaa*{first}*{second}*{missing}");
    }
    let rules = Rules::parse(with_work.as_bytes(), tokens);
    let expected = naive::is_allowed(robots.as_bytes(), "foobot", text.as_bytes());
    assert_eq!(
        crate::in_time(|| rules.is_allowed(&target)),
        expected,
        "{:?} of {robots:?}",
        text.trim_end_matches('a')
    );
}
