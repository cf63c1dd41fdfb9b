//! The answer, and the rule that decided it.

use core::fmt::{self, Write as _};
use core::time::Duration;

use crate::block::Entry;
use crate::rules::Rules;
use crate::search::Found;

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Rule { found: Found, allow: bool },
    NoMatch,
    NoGroup,
    RobotsTxt,
}

/// Whether a target may be fetched, and why.
///
/// Small and cheap to clone: it shares the rules that it was made from.
///
/// ```
/// use abide_robots::{ProductToken, Reason, Rules, Target};
///
/// let rules = Rules::parse(b"User-agent: *\nDisallow: /a", &[ProductToken::new("ExampleBot")?]);
/// let verdict = rules.verdict(&Target::new("/a/b"));
/// assert!(!verdict.is_allowed());
/// assert_eq!(verdict.reason(), Reason::Rule);
/// assert_eq!(verdict.rule().unwrap().line(), 2);
/// assert_eq!(verdict.to_string(), "disallowed by \"Disallow: /a\" on line 2");
/// # Ok::<(), abide_robots::InvalidToken>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Verdict {
    rules: Rules,
    decision: Decision,
}

/// Why a verdict is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A rule covers the target: [`Verdict::rule`] says which.
    Rule,
    /// A group applies, and none of its rules covers the target.
    NoMatch,
    /// No group applies (RFC 9309 §2.2.1: "no rules apply").
    NoGroup,
    /// The target is `/robots.txt`, which is implicitly allowed (RFC 9309 §2.2.2).
    RobotsTxt,
}

impl Verdict {
    pub(crate) fn new(rules: Rules, decision: Decision) -> Self {
        Self { rules, decision }
    }

    /// Whether the target may be fetched.
    pub fn is_allowed(&self) -> bool {
        !matches!(self.decision, Decision::Rule { allow: false, .. })
    }

    /// The rule that decided; `None` if none covers the target.
    pub fn rule(&self) -> Option<Rule<'_>> {
        let parts = self.rules.parts();
        let entry = match self.decision {
            Decision::Rule { found, .. } => parts.entry(found)?,
            Decision::NoMatch | Decision::NoGroup | Decision::RobotsTxt => return None,
        };
        Some(Rule::new(&entry, entry.written(parts.block)))
    }

    /// Why.
    pub fn reason(&self) -> Reason {
        match self.decision {
            Decision::Rule { .. } => Reason::Rule,
            Decision::NoMatch => Reason::NoMatch,
            Decision::NoGroup => Reason::NoGroup,
            Decision::RobotsTxt => Reason::RobotsTxt,
        }
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

    /// The least time between two requests that the group asks for.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.rules.crawl_delay()
    }

    /// The rules it was made from.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rule(), self.reason()) {
            (Some(rule), _) => {
                let answer = if self.is_allowed() { "allowed" } else { "disallowed" };
                write!(f, "{answer} by \"{rule}\" on line {}", rule.line)
            }
            (None, Reason::NoGroup) => f.write_str("allowed, as no group applies"),
            (None, Reason::RobotsTxt) => f.write_str("allowed, as robots.txt itself always is"),
            (None, _) => f.write_str("allowed, as no rule matches"),
        }
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("is_allowed", &self.is_allowed())
            .field("reason", &self.reason())
            .field("rule", &self.rule())
            .finish_non_exhaustive()
    }
}

/// A rule as it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    kind: RuleKind,
    pattern: &'a str,
    line: u32,
}

/// Which of the two a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleKind {
    /// `Allow`
    Allow,
    /// `Disallow`
    Disallow,
}

impl<'a> Rule<'a> {
    fn new(entry: &Entry, pattern: &'a str) -> Self {
        let kind = if entry.allows() { RuleKind::Allow } else { RuleKind::Disallow };
        Self { kind, pattern, line: entry.line() }
    }

    /// Allow or Disallow.
    pub fn kind(&self) -> RuleKind {
        self.kind
    }

    /// The pattern as written, without space around it. Octets that are no UTF-8 are shown as U+FFFD.
    pub fn pattern(&self) -> &'a str {
        self.pattern
    }

    /// The line it stands on; the first is 1. Zero for the rule of [`Rules::disallow_all`], which stands in no file.
    pub fn line(&self) -> u32 {
        self.line
    }
}

impl RuleKind {
    /// `Allow` or `Disallow`.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleKind::Allow => "Allow",
            RuleKind::Disallow => "Disallow",
        }
    }
}

/// Characters of a pattern that are shown.
const SHOWN_MAX: usize = 200;

/// One line, cut after 200 characters of the pattern; [`Rule::pattern`] is the whole.
impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind.as_str())?;
        // Logs and terminals show it: control and format characters are escaped, and a pattern may be as long as the file.
        let mut letters = self.pattern.chars();
        for letter in letters.by_ref().take(SHOWN_MAX) {
            match letter {
                '\'' | '"' | '\\' => f.write_char(letter)?,
                _ => write!(f, "{}", letter.escape_debug())?,
            }
        }
        if letters.as_str().is_empty() { Ok(()) } else { f.write_char('…') }
    }
}

impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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

    fn verdict(file: &[u8], token: &str, target: &str) -> Verdict {
        Rules::parse(file, &[ProductToken::new(token).unwrap()]).verdict(&Target::new(target))
    }

    #[test]
    fn a_verdict_says_why_in_a_sentence() {
        for (token, target, reason, text) in [
            ("foobot", "/a", Reason::Rule, "disallowed by \"Disallow: /a\" on line 4"),
            ("foobot", "/a/b", Reason::Rule, "allowed by \"Allow: /a/b\" on line 3"),
            ("foobot", "/b", Reason::NoMatch, "allowed, as no rule matches"),
            ("barbot", "/a", Reason::NoGroup, "allowed, as no group applies"),
            ("foobot", "/robots.txt", Reason::RobotsTxt, "allowed, as robots.txt itself always is"),
            // What a stranger wrote does not reach a terminal as it is.
            ("foobot", "/%1BA", Reason::Rule, "disallowed by \"Disallow: /\\u{1b}%41\" on line 5"),
        ] {
            let verdict = verdict(FILE, token, target);
            assert_eq!((verdict.reason(), verdict.to_string().as_str()), (reason, text), "{target}");
        }
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
        assert_eq!((rule.kind(), rule.pattern(), rule.line()), (RuleKind::Allow, "/a/b", 3));
        assert_eq!(rule.to_string(), "Allow: /a/b");
        assert_eq!([RuleKind::Allow, RuleKind::Disallow].map(|kind| kind.to_string()), ["Allow", "Disallow"]);
        assert_eq!([RuleKind::Allow, RuleKind::Disallow].map(RuleKind::as_str), ["Allow", "Disallow"]);
        assert!(
            format!("{verdict:?}").starts_with("Verdict { is_allowed: true, reason: Rule, rule: Some(Rule")
        );
    }

    #[test]
    fn a_verdict_says_whose_group_it_is_from() {
        let named = verdict(FILE, "FooBot", "/a");
        assert_eq!((named.is_named(), named.token()), (true, Some("FooBot")));
        assert_eq!(named.group().collect::<Vec<_>>(), ["foobot"]);
        assert_eq!(named.crawl_delay(), Some(Duration::from_secs(2)));
        let everybody = verdict(b"user-agent: *\ndisallow: /a\n", "foobot", "/a");
        assert_eq!((everybody.is_named(), everybody.token()), (false, None));
        assert_eq!(everybody.group().collect::<Vec<_>>(), ["*"]);
        assert_eq!(everybody.crawl_delay(), None);
        let nobody = verdict(FILE, "barbot", "/a");
        assert_eq!((nobody.is_named(), nobody.token(), nobody.group().count()), (false, None, 0));
    }
}
