//! The words of a value that its grammar could not read.
//!
//! Sites write `noindex/nofollow`, `“none”` and `[noindex]`, and mean what they say. Here any mark and any
//! blank separates words, and two things are looked for: the names of rules, and words that would be one if
//! they were joined (`no-index`).

use std::borrow::Cow;

use crate::rule::{KnownRule, NAME_BYTES_MAX, known, named_like};

/// A word of a text, with its place in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Word<'_> {
    pub(crate) fn rule(&self) -> Option<KnownRule> {
        known(self.text.as_bytes())
    }
}

/// The words of a text, without marks at their ends: `-noindex-` is `noindex`, and `max-snippet` one word.
pub(crate) fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    spans(text, |char| is_of_word(char) || matches!(char, '-' | '_')).filter_map(move |(start, end)| {
        let raw = text.get(start..end)?;
        let trimmed = raw.trim_start_matches(['-', '_']);
        let start = end.saturating_sub(trimmed.len());
        let word = trimmed.trim_end_matches(['-', '_']);
        (!word.is_empty()).then_some(Word { text: word, start, end: start.saturating_add(word.len()) })
    })
}

/// Rules that the text names and does not state: a restriction within a longer word (`x-noindex`), and words
/// that are the name of a rule when they are joined (`no-index`, `no follow`, `noin&shy;dex`). Each with the
/// text as it is written.
pub(crate) fn rules_in_parts(text: &str) -> Vec<(KnownRule, &str)> {
    let longer = words(text).filter(|word| word.rule().is_none()).flat_map(|word| {
        let parts = spans(word.text, is_of_word).filter_map(move |(start, end)| word.text.get(start..end));
        parts.filter_map(flag).map(move |rule| (rule, word.text))
    });
    let parts: Vec<(usize, usize)> = spans(text, is_of_word).collect();
    let joined = (0..parts.len()).filter_map(|first| joined_rule(text, parts.get(first..)?));
    longer.chain(joined).collect()
}

/// The rule whose name the first of the parts make when they are joined.
fn joined_rule<'a>(text: &'a str, parts: &[(usize, usize)]) -> Option<(KnownRule, &'a str)> {
    let start = parts.first()?.0;
    let mut joined = String::new();
    for (index, (from, to)) in parts.iter().enumerate() {
        joined.push_str(text.get(*from..*to)?);
        if joined.len() > NAME_BYTES_MAX {
            return None;
        }
        // One part, or `max-snippet`: a word that was read as what it is.
        let written = text.get(start..*to)?;
        if index > 0
            && known(written.as_bytes()).is_none()
            && let Some(rule) = named_like(&joined)
        {
            return Some((rule, written));
        }
    }
    None
}

/// Without `none`, which is an ordinary word beside others.
fn flag(name: &str) -> Option<KnownRule> {
    known(name.as_bytes()).filter(|rule| matches!(rule, KnownRule::Flag(_)))
}

/// The longest runs of such characters.
fn spans(text: &str, is_inside: impl Fn(char) -> bool) -> impl Iterator<Item = (usize, usize)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while rest.next_if(|(_, char)| !is_inside(*char)).is_some() {}
        let (start, _) = *rest.peek()?;
        while rest.next_if(|(_, char)| is_inside(*char)).is_some() {}
        Some((start, rest.peek().map_or(text.len(), |(end, _)| *end)))
    })
}

/// Letters and digits of any script: `noindexé` is a word, and not `noindex`.
fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() && !is_invisible_letter(char)
}

/// Unicode calls these letters, and prints nothing for them: the Hangul fillers.
const fn is_invisible_letter(char: char) -> bool {
    matches!(char, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

/// The text in ASCII where it only looks otherwise: full-width letters and marks, and blanks that come with
/// copied text (`noindex,&nbsp;nofollow`).
pub(crate) fn folded(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let fold = |char: char| match char {
        // The full-width forms stand in the order of ASCII.
        '\u{ff01}'..='\u{ff5e}' => {
            u32::from(char).checked_sub(FULL_WIDTH).and_then(char::from_u32).unwrap_or(char)
        }
        char if !char.is_ascii() && (char.is_whitespace() || matches!(char, '\u{200b}' | '\u{feff}')) => ' ',
        char => char,
    };
    String::from_utf8_lossy(text).chars().map(fold).collect::<String>().into_bytes().into()
}

/// How far the full-width forms are behind ASCII.
const FULL_WIDTH: u32 = 0xfee0;
