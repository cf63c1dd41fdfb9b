//! What a piece of text states, collected name by name. Every grammar ends here.
//!
//! So a rule means the same in a meta, in an older field line and in a member of a structured field, and what is unknown or broken is kept alike.

use crate::date::UnavailableAfter;
use crate::rule::{Flag, ImagePreview, KnownRule, Limit, ValuedRule, known};
use crate::rules::{TagRules, tighten};

/// The rules that a text states, and the values in it that are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stated {
    pub(crate) rules: TagRules,
    /// Valued rules that are not stated, as their value is not of their type, with its beginning.
    pub(crate) invalid: Vec<(ValuedRule, String)>,
}

impl Stated {
    /// A name without a value. A valued rule without its value states nothing.
    pub(crate) fn name(&mut self, name: &[u8]) {
        match known(name) {
            Some(KnownRule::Valued(rule)) => self.invalid(rule, b""),
            Some(known) => self.flag(known, name),
            None => self.rules.add_unknown(name),
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

    /// What both texts state.
    pub(crate) fn unite(&mut self, other: Self) {
        self.rules.unite(&other.rules);
        let room = INVALID_MAX.saturating_sub(self.invalid.len());
        self.invalid.extend(other.invalid.into_iter().take(room));
    }

    pub(crate) fn invalid(&mut self, rule: ValuedRule, value: &[u8]) {
        if self.invalid.len() < INVALID_MAX {
            let value = String::from_utf8_lossy(value).chars().take(INVALID_CHARS_MAX).collect();
            self.invalid.push((rule, value));
        }
    }
}

/// Invalid values that are kept of one text, and characters of each: enough to find them by.
const INVALID_MAX: usize = 8;
const INVALID_CHARS_MAX: usize = 64;
