//! Why a verdict is what it is, rule by rule.
//!
//! Each rule is compiled as if it were the only one, so that nothing here can differ from how rules match.

use alloc::vec::Vec;

use crate::group::Raw;
use crate::line;
use crate::record::Record;
use crate::robots::Robots;
use crate::rules::Rules;
use crate::target::Target;
use crate::token::ProductToken;

/// What became of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It is the most specific one that covers the target.
    Decides,
    /// It covers the target, but another rule that does has more bytes.
    Shorter,
    /// It covers the target, but an Allow of as many bytes does too.
    AllowWins,
    /// It covers the target, but an earlier rule says the same with as many bytes.
    Repeated,
    /// It does not cover the target.
    NoMatch,
    /// It covers nothing: its pattern is empty, or starts with neither `/` nor `*`; or it is an Allow of more than 16 KiB,
    /// which is dropped.
    NeverMatches,
}

impl Robots {
    /// What became of each rule of the group that applies, in file order. None if no group applies, or the target is
    /// `/robots.txt`. For people who ask why; it costs more than a [`verdict`](Self::verdict).
    ///
    /// Of a Disallow of more than 16 KiB the value is its beginning; of such an Allow nothing is read.
    ///
    /// ```
    /// use abide_robots::{Fate, ProductToken, Robots, Target};
    ///
    /// let robots = Robots::parse(b"User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /c");
    /// let why = robots.explain(&[ProductToken::new("ExampleBot")?], &Target::new("/a/b/c"));
    /// let fates: Vec<Fate> = why.iter().map(|(_, fate)| *fate).collect();
    /// assert_eq!(fates, [Fate::Shorter, Fate::Decides, Fate::NoMatch]);
    /// # Ok::<(), abide_robots::InvalidText>(())
    /// ```
    pub fn explain(&self, tokens: &[ProductToken], target: &Target<'_>) -> Vec<(Record<'_>, Fate)> {
        let verdict = self.verdict(tokens, target);
        if verdict.is_robots_txt() {
            return Vec::new();
        }
        let rules = self.gather(tokens).rules;
        let decides = verdict.rule().map(|rule| (rule.line(), rule.kind()));
        let best = rules.iter().filter_map(|rule| self.bytes_if_covering(rule, target)).max().unwrap_or(0);
        let considered = rules.iter().map(|rule| {
            let fate = match self.bytes_if_covering(rule, target) {
                Some(_) if decides == Some((rule.line, rule.kind)) => Fate::Decides,
                Some(bytes) if bytes < best => Fate::Shorter,
                Some(_) if decides.is_some_and(|(_, decider)| decider != rule.kind) => Fate::AllowWins,
                Some(_) => Fate::Repeated,
                None if self.alone(rule).parts().is_empty() => Fate::NeverMatches,
                None => Fate::NoMatch,
            };
            (Record::kept(rule.kind, line::trim(line::without_comment(rule.value)), rule.line), fate)
        });
        considered.collect()
    }

    /// How specific a rule is for a target that it covers.
    fn bytes_if_covering(&self, rule: &Raw<'_>, target: &Target<'_>) -> Option<u16> {
        self.alone(rule).bytes_of_match(target)
    }

    /// The rule as if it were the only one.
    fn alone(&self, rule: &Raw<'_>) -> Rules {
        Rules::of_rule(*rule, self.options().profile)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::ParseOptions;

    #[test]
    fn each_rule_has_its_fate() {
        let robots = Robots::parse(
            b"User-agent: *\nDisallow: /a # one\nAllow: /a\nAllow: /a\nDisallow:\nDisallow: x\nDisallow: /b\nAllow: /",
        );
        let why = robots.explain(&[], &Target::new("/a"));
        let fates: Vec<(u32, Fate)> = why.iter().map(|(rule, fate)| (rule.line(), *fate)).collect();
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
        assert_eq!(why[0].0.to_string(), "Disallow: /a");
    }

    #[test]
    fn google_explains_by_its_own_reading() {
        let google = ParseOptions::google();
        let file = b"User-agent: b\nDisallowed: /%61\nAllow: /a/index.html\nDisallow: /a\n\nUser-agent: *\nDisallow: /";
        let robots = Robots::parse_with(file, google);
        let chain = ["a", "b"].map(|token| ProductToken::new(token).unwrap());
        let why = robots.explain(&chain, &Target::new("/a/"));
        let fates: Vec<(u32, Fate)> = why.iter().map(|(rule, fate)| (rule.line(), *fate)).collect();
        assert_eq!(fates, [(2, Fate::NoMatch), (3, Fate::Decides), (4, Fate::Shorter)]);
        assert!(!robots.explain(&[], &Target::new("/robots.txt")).is_empty());
    }

    #[test]
    fn an_over_long_allow_is_shown_without_its_pattern() {
        let long = "x".repeat(20_000);
        let robots =
            Robots::parse(alloc::format!("User-agent: *\nAllow: /{long}\nDisallow: /{long}").as_bytes());
        let why = robots.explain(&[], &Target::new("/a"));
        let shown: Vec<(usize, Fate)> = why.iter().map(|(rule, fate)| (rule.value().len(), *fate)).collect();
        assert_eq!(shown, [(0, Fate::NeverMatches), (16 * 1024, Fate::NoMatch)]);
    }

    #[test]
    fn robots_txt_itself_is_no_matter_of_rules() {
        let robots = Robots::parse(b"User-agent: *\nDisallow: /");
        assert!(robots.explain(&[], &Target::new("/robots.txt")).is_empty());
    }
}
