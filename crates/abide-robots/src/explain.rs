//! Why a verdict is what it is, rule by rule.

use alloc::string::String;
use alloc::vec::Vec;

use crate::group::Raw;
use crate::line::{self, RecordKind};
use crate::robots::Robots;
use crate::rules::Rules;
use crate::target::Target;
use crate::token::ProductToken;
use crate::verdict::{Reason, RuleKind, Verdict};

/// A verdict with every rule that was considered for it, in file order. It has no `Display`: the verdict is the sentence,
/// and [`Considered::line`] finds the lines to show beside it ([`Robots::records`] has their places).
#[derive(Clone, Debug)]
pub struct Explanation {
    verdict: Verdict,
    rules: Vec<Considered>,
}

impl Explanation {
    /// The verdict.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The rules of the group that applies. None if no group applies, or the target is `/robots.txt`.
    pub fn rules(&self) -> &[Considered] {
        &self.rules
    }
}

/// A rule of the group that applies, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    kind: RuleKind,
    pattern: String,
    line: u32,
    fate: Fate,
}

/// What became of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It is the most specific one that covers the target.
    Decides,
    /// It covers the target, but another rule that does has more octets.
    Shorter,
    /// It covers the target, but an Allow of as many octets does too.
    AllowWins,
    /// It covers the target, but an earlier rule says the same with as many octets.
    Repeated,
    /// It does not cover the target.
    NoMatch,
    /// It covers nothing: its pattern is empty, or starts with neither `/` nor `*`; or it is an Allow of more than 16 KiB,
    /// which is dropped.
    NeverMatches,
}

impl Considered {
    /// Allow or Disallow.
    pub fn kind(&self) -> RuleKind {
        self.kind
    }

    /// The pattern as written, of a Disallow of more than 16 KiB its beginning. Empty for an Allow of more than 16 KiB, of
    /// which nothing is read. Octets that are no UTF-8 are shown as U+FFFD.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The line it stands on; the first is 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// What became of it.
    pub fn fate(&self) -> Fate {
        self.fate
    }
}

impl Robots {
    /// The verdict on a target, with what became of each rule of the group that applies. For people who ask why; it
    /// costs more than a verdict.
    ///
    /// ```
    /// use abide_robots::{Fate, ProductToken, Robots, Target};
    ///
    /// let robots = Robots::parse(b"User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /c");
    /// let why = robots.explain(&[ProductToken::new("ExampleBot")?], &Target::new("/a/b/c"));
    /// let fates: Vec<Fate> = why.rules().iter().map(|rule| rule.fate()).collect();
    /// assert_eq!(fates, [Fate::Shorter, Fate::Decides, Fate::NoMatch]);
    /// # Ok::<(), abide_robots::InvalidToken>(())
    /// ```
    pub fn explain(&self, tokens: &[ProductToken], target: &Target<'_>) -> Explanation {
        let gatherer = self.gather(tokens);
        let verdict = self.verdict(tokens, target);
        if verdict.reason() == Reason::RobotsTxt {
            return Explanation { verdict, rules: Vec::new() };
        }
        let decides = verdict.rule().map(|rule| (rule.line(), rule.kind()));
        let best =
            gatherer.rules.iter().filter_map(|rule| self.octets_if_covering(rule, target)).max().unwrap_or(0);
        let rules = gatherer.rules.iter().map(|rule| {
            let kind = if rule.kind == RecordKind::Allow { RuleKind::Allow } else { RuleKind::Disallow };
            let fate = match self.octets_if_covering(rule, target) {
                Some(_) if decides == Some((rule.line, kind)) => Fate::Decides,
                Some(octets) if octets < best => Fate::Shorter,
                Some(_) if decides.is_some_and(|(_, decider)| decider != kind) => Fate::AllowWins,
                Some(_) => Fate::Repeated,
                None if self.alone(rule).parts().is_empty() => Fate::NeverMatches,
                None => Fate::NoMatch,
            };
            let pattern = String::from_utf8_lossy(line::trim(line::without_comment(rule.value))).into_owned();
            Considered { kind, pattern, line: rule.line, fate }
        });
        Explanation { rules: rules.collect(), verdict }
    }

    /// How specific a rule is for a target that it covers.
    fn octets_if_covering(&self, rule: &Raw<'_>, target: &Target<'_>) -> Option<u16> {
        self.alone(rule).octets_of_match(target)
    }

    /// The rule as if it were the only one.
    fn alone(&self, rule: &Raw<'_>) -> Rules {
        Rules::of_rule(*rule, self.options().profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, ReadOptions};

    #[test]
    fn each_rule_has_its_fate() {
        let robots = Robots::parse(
            b"User-agent: *\nDisallow: /a # one\nAllow: /a\nAllow: /a\nDisallow:\nDisallow: x\nDisallow: /b\nAllow: /",
        );
        let why = robots.explain(&[], &Target::new("/a"));
        let fates: Vec<(u32, Fate)> = why.rules().iter().map(|rule| (rule.line(), rule.fate())).collect();
        assert_eq!(
            fates,
            [
                (2, Fate::AllowWins),
                (3, Fate::Decides),
                (4, Fate::Repeated),
                (5, Fate::NeverMatches),
                (6, Fate::NeverMatches),
                (7, Fate::NoMatch),
                (8, Fate::Shorter),
            ]
        );
        assert_eq!(why.rules()[0].pattern(), "/a");
        assert!(why.verdict().is_allowed());
    }

    #[test]
    fn google_explains_by_its_own_reading() {
        let google = ReadOptions::new().with_profile(Profile::Google);
        let file = b"User-agent: b\nDisallowed: /%61\nAllow: /a/index.html\nDisallow: /a\n\nUser-agent: *\nDisallow: /";
        let robots = Robots::parse_with(file, google);
        let chain = ["a", "b"].map(|token| ProductToken::new(token).unwrap());
        let why = robots.explain(&chain, &Target::new("/a/"));
        let fates: Vec<(u32, Fate)> = why.rules().iter().map(|rule| (rule.line(), rule.fate())).collect();
        assert_eq!(fates, [(2, Fate::NoMatch), (3, Fate::Decides), (4, Fate::Shorter)]);
        assert_eq!(why.verdict().token(), Some("b"));
        assert!(!robots.explain(&[], &Target::new("/robots.txt")).verdict().is_allowed());
    }

    #[test]
    fn an_over_long_allow_is_shown_without_its_pattern() {
        let long = "x".repeat(20_000);
        let robots =
            Robots::parse(alloc::format!("User-agent: *\nAllow: /{long}\nDisallow: /{long}").as_bytes());
        let why = robots.explain(&[], &Target::new("/a"));
        let shown: Vec<(usize, Fate)> =
            why.rules().iter().map(|rule| (rule.pattern().len(), rule.fate())).collect();
        assert_eq!(shown, [(0, Fate::NeverMatches), (16 * 1024, Fate::NoMatch)]);
    }

    #[test]
    fn robots_txt_itself_is_no_matter_of_rules() {
        let robots = Robots::parse(b"User-agent: *\nDisallow: /");
        assert!(robots.explain(&[], &Target::new("/robots.txt")).rules().is_empty());
    }
}
