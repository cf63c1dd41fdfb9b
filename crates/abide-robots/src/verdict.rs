//! `RobotsVerdict`: whether a target may be fetched, and the rule that decided.
//!
//! It shares the rules that it was made from, so it is small; what it can say of them is looked up when asked.

use core::fmt;
use core::time::Duration;

use crate::compiled::Found;
use crate::line::RecordKind;
use crate::record::Record;
use crate::rules::Rules;

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Rule(Found),
    NoMatch,
    NoGroup,
    RobotsTxt,
}

/// Whether a target may be fetched, and why.
///
/// Cheap to clone: it shares its rules.
///
/// ```
/// use abide_robots::{ProductToken, Rules, Target};
///
/// let rules = Rules::parse(b"User-agent: *\nDisallow: /a", &[ProductToken::new("ExampleBot")?]);
/// let verdict = rules.verdict(&Target::new("/a/b"));
/// assert!(!verdict.is_allowed());
/// assert_eq!(verdict.rule().unwrap().line(), 2);
/// assert_eq!(verdict.to_string(), "disallowed by \"Disallow: /a\" on line 2");
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RobotsVerdict {
    rules: Rules,
    decision: Decision,
}

impl RobotsVerdict {
    pub(crate) fn new(rules: Rules, decision: Decision) -> Self {
        Self { rules, decision }
    }

    /// Whether the target may be fetched.
    pub fn is_allowed(&self) -> bool {
        !matches!(self.decision, Decision::Rule(Found { allows: false, .. }))
    }

    /// The rule that decided, with its pattern as written; bytes that are not UTF-8 become U+FFFD. `None` if no rule matches the target, no
    /// group applies ([`Rules::has_group`]), or the target is [`/robots.txt`](Self::is_robots_txt).
    pub fn rule(&self) -> Option<Record<'_>> {
        let Decision::Rule(found) = self.decision else { return None };
        let compiled = self.rules.compiled();
        let rule = compiled.rule(found)?;
        let kind = if found.allows { RecordKind::Allow } else { RecordKind::Disallow };
        Some(Record::kept(kind, rule.written(&compiled.text), rule.line()))
    }

    /// Whether the target is `/robots.txt`, which is implicitly allowed (RFC 9309 §2.2.2).
    pub fn is_robots_txt(&self) -> bool {
        self.decision == Decision::RobotsTxt
    }

    /// The tokens of the group that applies, in lower case, in file order, without repetition.
    pub fn group(&self) -> impl Iterator<Item = &str> {
        self.rules.group()
    }

    /// Whether the file names the crawler: the group is that of a token, not that of `*`.
    pub fn is_named(&self) -> bool {
        self.rules.is_named()
    }

    /// Which of the crawler's tokens has a group; `None` if `*` or no group applies.
    pub fn token(&self) -> Option<&str> {
        self.rules.token()
    }

    /// The Crawl-delay of the group: the least time between two requests.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.rules.crawl_delay()
    }

    /// The rules of the verdict.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

impl fmt::Display for RobotsVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rule(), self.decision) {
            (Some(rule), _) => {
                let answer = if self.is_allowed() { "allowed" } else { "disallowed" };
                write!(f, "{answer} by \"{rule}\" on line {}", rule.line())
            }
            (None, Decision::NoGroup) => f.write_str("allowed, because no group applies"),
            (None, Decision::RobotsTxt) => f.write_str("allowed, because robots.txt itself always is"),
            (None, _) => f.write_str("allowed, because no rule matches"),
        }
    }
}

impl fmt::Debug for RobotsVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsVerdict")
            .field("is_allowed", &self.is_allowed())
            .field("rule", &self.rule())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;
    use crate::{ProductToken, Target};

    const FILE: &[u8] =
        b"user-agent: foobot\ncrawl-delay: 2\nallow: /a/b\ndisallow: /a\ndisallow: /\x1b%41\n";

    fn verdict(file: &[u8], token: &str, target: &str) -> RobotsVerdict {
        Rules::parse(file, &[ProductToken::new(token).unwrap()]).verdict(&Target::new(target))
    }

    #[test]
    fn a_rule_is_shown_escaped_and_cut_at_200_characters() {
        let file =
            format!("user-agent: *\ndisallow: /\u{202e}\u{2066}\u{200b}\u{9b}'\"\\{}\n", "x".repeat(300));
        let shown = verdict(file.as_bytes(), "a", "/").rules().verdict(&Target::new(&file[24..])).to_string();
        let start = "disallowed by \"Disallow: /\\u{202e}\\u{2066}\\u{200b}\\u{9b}'\"\\xxx";
        assert!(shown.starts_with(start) && shown.ends_with("x…\" on line 2"), "{shown}");
        assert!(shown.chars().count() < 270, "{shown}");
    }

    #[test]
    fn a_verdict_names_its_rule_as_it_stands_in_the_file() {
        let verdict = verdict(FILE, "foobot", "/a/b/c");
        let rule = verdict.rule().unwrap();
        assert_eq!((rule.kind(), rule.value(), rule.line()), (RecordKind::Allow, &b"/a/b"[..], 3));
        assert_eq!(rule.to_string(), "Allow: /a/b");
        assert!(format!("{verdict:?}").starts_with("RobotsVerdict { is_allowed: true, rule: Some(Record"));
    }

    #[test]
    fn a_verdict_says_whose_group_it_is_from() {
        let named = verdict(FILE, "FooBot", "/a");
        assert_eq!((named.is_named(), named.token()), (true, Some("FooBot")));
        assert_eq!(named.group().collect::<Vec<_>>(), ["foobot"]);
        assert_eq!(named.crawl_delay(), Some(Duration::from_secs(2)));
        let all = verdict(b"user-agent: *\ndisallow: /a\n", "foobot", "/a");
        assert_eq!((all.is_named(), all.token()), (false, None));
        assert_eq!(all.group().collect::<Vec<_>>(), ["*"]);
        assert_eq!(all.crawl_delay(), None);
        let none = verdict(FILE, "barbot", "/a");
        assert_eq!((none.is_named(), none.token(), none.group().count()), (false, None, 0));
    }
}
