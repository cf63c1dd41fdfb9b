//! "Did you mean": the known word that a misspelt one is nearest to.
//!
//! For the notes of `tags`, the findings of `lint` and the options of `abide.toml`; strsim has the distance.

/// `; did you mean noindex?`, or nothing.
pub(crate) fn tip<'w>(text: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    to(text, words).map(|word| format!("; did you mean {word}?")).unwrap_or_default()
}

/// The nearest of `words`, if it is near enough to be meant.
pub(crate) fn to<'w>(text: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    // No word is longer, and the distance costs the product of both lengths.
    if text.len() > 32 {
        return None;
    }
    let text = text.to_ascii_lowercase();
    let near =
        words.into_iter().map(|word| (strsim::damerau_levenshtein(&text, &word.to_ascii_lowercase()), word));
    let (distance, word) = near.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters may be wrong.
    (distance > 0 && distance * 3 <= word.len().max(text.len())).then_some(word)
}

/// The same for an option: also one of several words, of which the guess has some.
pub(crate) fn option<'w>(guess: &str, options: impl IntoIterator<Item = &'w str> + Clone) -> Option<&'w str> {
    let has_word = |option: &&str| guess.split('-').all(|word| option.split('-').any(|own| own == word));
    let shortest = options.clone().into_iter().filter(has_word).min_by_key(|option| option.len());
    shortest.or_else(|| to(guess, options))
}

/// The same for the name of a usage, in a record or a field.
pub(crate) fn usage(text: &str, field: &str) -> Option<&'static str> {
    let known: &[&str] = match field {
        "Content-Usage" => &["search", "train-ai"],
        "Content-Signal" => &["ai-input", "ai-train", "search", "use"],
        _ => &[],
    };
    // The other one's name is far away, letter by letter.
    let swapped = text.split_once('-').map(|(first, last)| format!("{last}-{first}")).unwrap_or_default();
    let is_swapped = |word: &&str| word.eq_ignore_ascii_case(&swapped);
    known.iter().copied().find(is_swapped).or_else(|| to(text, known.iter().copied()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_text_is_not_compared() {
        let word = "x".repeat(32);
        assert_eq!(super::to(&format!("{word}y"), [&*word]), None);
    }
}
