//! Writing a robots.txt: what goes in comes out when the file is read, and nothing else does.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use crate::error::InvalidText;
use crate::group::seconds;
use crate::line::{Key, RecordKind, Spelling, key};
use crate::pattern::can_match;
use crate::profile::{LINE_MAX, Profile};
use crate::remark::is_absolute;
use crate::token::ProductToken;

/// Writes a robots.txt, record by record.
///
/// Whatever text comes in, it stays in its place: what would end a line, begin a comment, or be read as something else, by
/// us or by Google's parser ([`ParseOptions::google`](crate::ParseOptions::google)), is an error. So is what would be read, but mean nothing.
///
/// A step that fails takes the builder with it. Who goes on after an error steps with a clone.
///
/// ```
/// use abide_robots::RobotsBuilder;
///
/// let text = RobotsBuilder::new()
///     .group(["ExampleBot", "OtherBot"])?
///     .disallow("/private/")?
///     .allow("/private/press/")?
///     .group(["*"])?
///     .disallow("")?
///     .sitemap("https://example.com/sitemap.xml")?
///     .build();
/// assert_eq!(text, "User-agent: ExampleBot\nUser-agent: OtherBot\nDisallow: /private/\nAllow: /private/press/\n\n\
///     User-agent: *\nDisallow:\n\nSitemap: https://example.com/sitemap.xml\n");
/// assert!(RobotsBuilder::new().group(["*"])?.disallow("/a\nAllow: /").is_err());
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RobotsBuilder {
    text: String,
    sitemaps: String,
    /// The group at hand, and whether it has a rule: one without would run into the next.
    group: Group,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Group {
    #[default]
    None,
    Empty,
    WithRules,
}

impl RobotsBuilder {
    /// An empty file, which allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a group for product tokens or `*`.
    ///
    /// # Errors
    /// When there is no token, or one is neither a product token nor `*`. A name with digits is none: RFC 9309 would read
    /// the letters before them, and so another crawler's name.
    pub fn group<'a>(mut self, tokens: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidText> {
        self.end_group();
        let start = self.text.len();
        for token in tokens {
            if token != "*" && ProductToken::new(token).is_err() {
                return Err(invalid("User-agent", token, TOKEN));
            }
            self.text.push_str(&format!("User-agent: {token}\n"));
        }
        if self.text.len() == start {
            return Err(invalid("User-agent", "", TOKEN));
        }
        self.group = Group::Empty;
        Ok(self)
    }

    /// Adds an Allow rule to the group. An empty pattern allows nothing that is not allowed without it.
    ///
    /// # Errors
    /// When no group was begun, or the pattern cannot stand there: unless it is empty, it must start with `/` or `*`. The
    /// line must fit into 16 KiB and hold no `#` (write `%23`), no line breaks and no control characters.
    pub fn allow(self, pattern: &str) -> Result<Self, InvalidText> {
        self.rule("Allow", pattern)
    }

    /// Adds a Disallow rule to the group. An empty pattern disallows nothing.
    ///
    /// # Errors
    /// As [`allow`](Self::allow).
    pub fn disallow(self, pattern: &str) -> Result<Self, InvalidText> {
        self.rule("Disallow", pattern)
    }

    /// Adds a Crawl-delay to the group, to the nanosecond.
    ///
    /// # Errors
    /// When no group was begun.
    pub fn crawl_delay(self, delay: Duration) -> Result<Self, InvalidText> {
        let seconds = format!("{}.{:09}", delay.as_secs(), delay.subsec_nanos());
        self.record("Crawl-delay", seconds.trim_end_matches('0').trim_end_matches('.'))
    }

    /// Adds a record to the group that is neither a user-agent line nor a rule, such as `Content-Signal`.
    ///
    /// # Errors
    /// When no group was begun; when the key would be read as one of those, or as another, by Google's parser too, which
    /// takes `Allowed` for `Allow`; when key or value cannot stand there; when the value is no number of seconds
    /// (`Crawl-delay`) or no absolute URL (`Sitemap`, `License`).
    pub fn record(mut self, name: &str, value: &str) -> Result<Self, InvalidText> {
        let line = format!("{name}: {value}");
        let read = key(line.as_bytes(), Profile::Rfc9309);
        let kind = read.map_or(RecordKind::Other, |key| key.kind);
        let expected = Some(Key { kind, spelling: Spelling::Exact, value_at: name.len().saturating_add(1) });
        let is_read_alike = read == expected && key(line.as_bytes(), Profile::Google) == expected;
        if !is_read_alike || shapes_groups(kind) || name.trim() != name {
            return Err(invalid(
                name,
                value,
                "the key of a record that is read neither as a rule nor as a user-agent line nor as another record",
            ));
        }
        if self.group == Group::None {
            return Err(invalid(name, value, NO_GROUP));
        }
        match kind {
            RecordKind::CrawlDelay if seconds(value.as_bytes()).is_none() => {
                return Err(invalid(name, value, "a number of seconds in decimal digits"));
            }
            kind if kind.is_global() && !is_absolute(value.as_bytes()) => {
                return Err(invalid(name, value, URL));
            }
            _ => {}
        }
        self.text.push_str(&written(name, value)?);
        Ok(self)
    }

    /// Adds a Sitemap to the file.
    ///
    /// # Errors
    /// When the URL is not absolute, or cannot stand there.
    pub fn sitemap(mut self, url: &str) -> Result<Self, InvalidText> {
        if !is_absolute(url.as_bytes()) {
            return Err(invalid("Sitemap", url, URL));
        }
        self.sitemaps.push_str(&written("Sitemap", url)?);
        Ok(self)
    }

    /// The text of the file.
    pub fn build(mut self) -> String {
        self.end_group();
        self.text.push_str(&self.sitemaps);
        self.text
    }

    fn rule(mut self, name: &str, pattern: &str) -> Result<Self, InvalidText> {
        if self.group == Group::None {
            return Err(invalid(name, pattern, NO_GROUP));
        }
        if !pattern.is_empty() && !can_match(pattern.as_bytes()) {
            return Err(invalid(name, pattern, "a pattern that starts with \"/\" or \"*\""));
        }
        self.text.push_str(&written(name, pattern)?);
        self.group = Group::WithRules;
        Ok(self)
    }

    /// A group without rules would be read as one with the next: an empty rule says the same and ends it.
    fn end_group(&mut self) {
        match self.group {
            Group::None => return,
            Group::Empty => self.text.push_str("Disallow:\n\n"),
            Group::WithRules => self.text.push('\n'),
        }
        self.group = Group::None;
    }
}

fn shapes_groups(kind: RecordKind) -> bool {
    kind.is_rule() || kind == RecordKind::UserAgent
}

/// A line with its end, if it is read as it is written.
fn written(name: &str, value: &str) -> Result<String, InvalidText> {
    // Readers that split lines as Unicode does take the last two for line ends.
    let spoils =
        |letter: char| letter == '#' || letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    if name.contains(spoils) || value.contains(spoils) {
        return Err(invalid(name, value, "no \"#\", no line breaks and no control characters"));
    }
    if value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']) {
        return Err(invalid(name, value, "no space around the value"));
    }
    let line = if value.is_empty() { format!("{name}:\n") } else { format!("{name}: {value}\n") };
    if line.len() > LINE_MAX {
        return Err(invalid(name, value, "a line of at most 16 KiB"));
    }
    Ok(line)
}

/// A record that would not be read as it was meant.
fn invalid(name: &str, value: &str, expected: &str) -> InvalidText {
    let shown = |text: &str| text.chars().take(60).collect::<String>();
    InvalidText(format!("expected {expected}, found {:?} with {:?}", shown(name), shown(value)))
}

const TOKEN: &str = "a product token or \"*\"";
const URL: &str = "an absolute URL";
const NO_GROUP: &str = "a group to be begun before";

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{ProductToken, Robots, Target};

    #[test]
    fn a_group_without_rules_stays_a_group() {
        let text =
            RobotsBuilder::new().group(["a"]).unwrap().group(["b"]).unwrap().disallow("/").unwrap().build();
        let robots = Robots::parse(text.as_bytes());
        assert_eq!(robots.groups().count(), 2);
        let allowed =
            |token| robots.verdict(&[ProductToken::new(token).unwrap()], &Target::new("/x")).is_allowed();
        assert!(allowed("a") && !allowed("b"));
    }

    #[test]
    fn nothing_can_be_injected() {
        let group = || RobotsBuilder::new().group(["*"]).unwrap();
        for pattern in [
            "/a\nAllow: /",
            "/a\rb",
            "/a#b",
            " /a",
            "/a ",
            "a",
            "/\u{0}",
            "/\u{85}",
            "/a\u{2028}Allow: /",
            "/\u{2029}",
        ] {
            assert!(group().disallow(pattern).is_err(), "{pattern:?}");
        }
        assert!(group().allow(&format!("/{}", "a".repeat(LINE_MAX))).is_err());
        // With the key before it and the line end behind it.
        let longest = format!("/{}", "a".repeat(LINE_MAX - "Allow: /\n".len()));
        assert!(group().allow(&longest).is_ok());
        assert!(group().allow(&(longest + "a")).is_err());
        assert!(RobotsBuilder::new().disallow("/").is_err());
        for token in ["", "a b", "a\nDisallow: /", "a/1"] {
            assert!(RobotsBuilder::new().group([token]).is_err(), "{token:?}");
        }
        assert!(RobotsBuilder::new().group([]).is_err());
        for (name, value) in [
            ("Allow", "/"),
            ("disalow", "/"),
            ("User-agent", "*"),
            ("x\nAllow", "/"),
            ("", "a"),
            ("a:b", "c"),
            // Google's parser looks at the beginning of a key only.
            ("Allowed", "/x"),
            ("Disallowed", "/x"),
            ("User-agents", "*"),
            ("Allow /x", ""),
            ("Sitemaps", "https://a.example/"),
            ("x\u{2028}Allow", "/"),
        ] {
            assert!(group().record(name, value).is_err(), "{name:?}");
        }
        assert!(RobotsBuilder::new().sitemap("https://a/\nDisallow: /").is_err());
        for (name, value) in
            [("Noindex", "/x"), ("Host", "a"), ("App-Directive", "a;b"), ("Crawl-delay", "1.5")]
        {
            assert!(group().record(name, value).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn what_would_mean_nothing_is_not_written() {
        let group = || RobotsBuilder::new().group(["*"]).unwrap();
        for url in ["", "x", "/s.xml"] {
            assert!(group().sitemap(url).is_err(), "{url:?}");
            assert!(
                group().record("Sitemap", url).is_err() && group().record("License", url).is_err(),
                "{url:?}"
            );
        }
        for delay in ["", "soon", "1e3", "-1"] {
            assert!(group().record("Crawl-delay", delay).is_err(), "{delay:?}");
        }
        let written = group().allow("").unwrap().sitemap("https://a.example/s").unwrap().build();
        assert_eq!(Robots::parse(written.as_bytes()).remarks(), []);
    }

    #[test]
    fn each_nanosecond_is_read_back() {
        for delay in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::new(123_456_789, 123_456_789),
            Duration::new(u64::MAX, 999_999_998),
            Duration::MAX,
        ] {
            let text = RobotsBuilder::new().group(["*"]).unwrap().crawl_delay(delay).unwrap().build();
            assert_eq!(Robots::parse(text.as_bytes()).rules(&[]).crawl_delay(), Some(delay), "{text}");
        }
    }

    #[test]
    fn delays_and_records_are_read_back() {
        let text = RobotsBuilder::new()
            .group(["a"])
            .unwrap()
            .crawl_delay(Duration::from_millis(2500))
            .unwrap()
            .record("Content-Signal", "search=yes")
            .unwrap()
            .build();
        let rules = Robots::parse(text.as_bytes()).rules(&[ProductToken::new("a").unwrap()]);
        assert_eq!(rules.crawl_delay(), Some(Duration::from_millis(2500)));
        assert_eq!(rules.records().next().unwrap().value(), b"search=yes");
    }

    #[test]
    fn errors_are_sentences() {
        let error = RobotsBuilder::new().group(["*"]).unwrap().allow("a\nb").unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a pattern that starts with \"/\" or \"*\", found \"Allow\" with \"a\\nb\""
        );
    }
}
