//! What a piece of text states, collected name by name. Every grammar ends here.
//!
//! So a rule means the same in a meta, in an older field line and in a member of a structured field, and what
//! is unknown or was not understood is kept alike.

use crate::date::UnavailableAfter;
use crate::provenance::Shown;
use crate::question::Asked;
use crate::rule::{Flag, ImagePreview, KnownRule, Limit, ValuedRule, known};
use crate::rules::{TagRules, tighten};
use crate::words::{Word, rules_in_parts, words};

/// The rules that a text states, and what it names without stating it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stated {
    pub(crate) rules: TagRules,
    /// The questions about which something is stated that was not understood. All of them, however many
    /// reasons are kept.
    pub(crate) doubted: Asked,
    /// Why, a sentence each; bounded.
    pub(crate) doubts: Vec<(Asked, String)>,
    /// What the author should know although it was understood; bounded.
    pub(crate) remarks: Vec<String>,
}

impl Stated {
    /// A name without a value. One that is none of the vocabulary is [salvaged](Self::salvage), or kept as an
    /// unknown rule.
    pub(crate) fn name(&mut self, name: &[u8]) {
        match known(name) {
            Some(KnownRule::Valued(rule)) => self.invalid(rule, b""),
            Some(known) => self.flag(known, name),
            None => {
                if !self.salvage(&String::from_utf8_lossy(name)) {
                    self.rules.add_unknown(name);
                }
            }
        }
    }

    pub(crate) fn flag(&mut self, known: KnownRule, name: &[u8]) {
        match known {
            KnownRule::Flag(flag) => self.rules.state(flag),
            KnownRule::None => {
                self.rules.state(Flag::NoIndex);
                self.rules.state(Flag::NoFollow);
            }
            KnownRule::Permits | KnownRule::Valued(_) => {}
            KnownRule::Data => self.rules.add_unknown(name),
        }
    }

    pub(crate) fn value(&mut self, rule: ValuedRule, value: &[u8]) {
        let text = std::str::from_utf8(value).ok();
        if text.and_then(|text| self.typed(rule, text)).is_none() {
            self.invalid(rule, value);
        }
    }

    fn typed(&mut self, rule: ValuedRule, text: &str) -> Option<()> {
        match rule {
            ValuedRule::MaxSnippet => tighten(&mut self.rules.max_snippet, Some(Limit::parse(text)?)),
            ValuedRule::MaxVideoPreview => {
                tighten(&mut self.rules.max_video_preview, Some(Limit::parse(text)?))
            }
            ValuedRule::MaxImagePreview => {
                tighten(&mut self.rules.max_image_preview, Some(ImagePreview::parse(text)?))
            }
            ValuedRule::UnavailableAfter => {
                tighten(&mut self.rules.unavailable_after, Some(UnavailableAfter::parse(text)?))
            }
        }
        Some(())
    }

    /// Reads the words of a text that is not written as rules are: `noindex/nofollow`, `“none”`, `noindex
    /// follow max-snippet:20`. Returns whether a restriction is in it, or nothing but rules.
    ///
    /// Stricter: what stands around a restriction does not cancel it, and a name that is one but for its
    /// hyphens (`no-index`) makes its question unknown. Nothing is permitted by a salvage: a guess must not
    /// permit what the author may have forbidden.
    pub(crate) fn salvage(&mut self, text: &str) -> bool {
        let (mut found, mut is_known) = (false, true);
        let mut is_plain = text.starts_with(|char: char| char.is_ascii_alphanumeric());
        let mut rest = words(text).peekable();
        while let Some(word) = rest.next() {
            match word.rule() {
                None => (is_plain, is_known) = (false, false),
                Some(KnownRule::Valued(rule)) => {
                    // A date has several words, and `none` is a size as well as a rule.
                    let is_size = |word: &Word<'_>| {
                        rule == ValuedRule::MaxImagePreview && ImagePreview::parse(word.text).is_some()
                    };
                    while rest.next_if(|next| next.rule().is_none() || is_size(next)).is_some() {}
                    let end = rest.peek().map_or(text.len(), |next| next.start);
                    self.salvage_value(rule, text.get(word.end..end).unwrap_or_default());
                    found = true;
                }
                Some(rule) => {
                    let behind = text.get(word.end..).unwrap_or_default();
                    is_plain &=
                        behind.is_empty() || behind.starts_with(|char: char| char.is_ascii_whitespace());
                    found |= rule != KnownRule::Permits;
                    self.flag(rule, word.text.as_bytes());
                }
            }
        }
        if found && !is_plain {
            self.remark(format!("expected rules with commas between them, found `{}`", Shown(text)));
        }
        for (rule, written) in rules_in_parts(text) {
            found = true;
            let (written, name) = (Shown(written), rule.as_str());
            self.doubt(Asked::by(rule), format!("`{written}` is not a rule; did you mean {name}?"));
        }
        found || (is_known && words(text).next().is_some())
    }

    /// The value behind the name of a rule, with all that stands around it.
    fn salvage_value(&mut self, rule: ValuedRule, text: &str) {
        let value =
            text.trim_start_matches(|char: char| !char.is_alphanumeric() && !matches!(char, '-' | '+' | '@'));
        let value = value.trim_end_matches(|char: char| !char.is_alphanumeric() && char != ')');
        let first = value.split_ascii_whitespace().next().unwrap_or_default();
        self.value(rule, if rule == ValuedRule::UnavailableAfter { value } else { first }.as_bytes());
    }

    /// Whether neither a rule is stated nor a question doubted.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.doubted.is_empty()
    }

    /// A value that may have more rules behind it: `max-snippet: 20 noindex`.
    pub(crate) fn value_and_more(&mut self, rule: ValuedRule, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        if self.typed(rule, &text).is_none() {
            self.salvage(&format!("{}: {text}", rule.as_str()));
        }
    }

    /// The same without the names that are no rules.
    pub(crate) fn without_unknown(mut self) -> Self {
        self.rules.retain_unknown(|name| known(name.as_bytes()).is_some());
        self
    }

    /// What both texts state.
    pub(crate) fn unite(&mut self, other: Self) {
        self.rules.unite(&other.rules);
        self.doubted = self.doubted.and(other.doubted);
        let room = REASONS_MAX.saturating_sub(self.doubts.len());
        self.doubts.extend(other.doubts.into_iter().take(room));
        let room = REASONS_MAX.saturating_sub(self.remarks.len());
        self.remarks.extend(other.remarks.into_iter().take(room));
    }

    /// The value of the rule is not of its type, or there is none. So the question of the rule is unknown.
    pub(crate) fn invalid(&mut self, rule: ValuedRule, value: &[u8]) {
        let value = String::from_utf8_lossy(value);
        self.doubt(Asked::by(KnownRule::Valued(rule)), problem_of(rule, value.trim()));
    }

    pub(crate) fn doubt(&mut self, asked: Asked, problem: String) {
        self.doubted = self.doubted.and(asked);
        if self.doubts.len() < REASONS_MAX {
            self.doubts.push((asked, problem));
        }
    }

    fn remark(&mut self, remark: String) {
        if self.remarks.len() < REASONS_MAX {
            self.remarks.push(remark);
        }
    }
}

fn problem_of(rule: ValuedRule, value: &str) -> String {
    let (name, value) = (rule.as_str(), Shown(value));
    if value.0.is_empty() {
        return format!("{name} has no value");
    }
    match rule {
        ValuedRule::UnavailableAfter => format!("{name}: {value} is no date that has one reading"),
        ValuedRule::MaxSnippet | ValuedRule::MaxVideoPreview => format!("{name}: {value} is no number"),
        ValuedRule::MaxImagePreview => format!("{name}: {value} is none of none, standard and large"),
    }
}

/// Sentences that are kept of one text: enough to find its mistakes by.
const REASONS_MAX: usize = 8;
