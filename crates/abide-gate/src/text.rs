//! Text from strangers, made fit to be shown.
//!
//! An escape sequence of a server could rewrite the terminal that shows a log, and a Location may be 300 KB
//! long.

use std::fmt;

/// Nothing that a server sent is shown at greater length.
const SHOWN_MAX: usize = 200;

/// Shows bytes from the network: what is not printable is escaped, and at most 200 characters of it are
/// shown.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A character is at most four bytes, so the cut never hides one of the first 200.
        let start = self.0.get(..4 * SHOWN_MAX).unwrap_or(self.0);
        let text = String::from_utf8_lossy(start);
        for character in text.chars().take(SHOWN_MAX) {
            match character {
                '\'' => f.write_str("'")?,
                _ => write!(f, "{}", character.escape_debug())?,
            }
        }
        if start.len() < self.0.len() || text.chars().nth(SHOWN_MAX).is_some() {
            f.write_str("…")?;
        }
        Ok(())
    }
}

/// A number in digits. More of them than fit are still a number, and a long one.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).ok().filter(|_| is_number)?;
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_200_characters() {
        for letter in ["a", "\u{fc}", "\u{1d11e}"] {
            let shown =
                [199, 200, 201, 100_000].map(|count| Escaped(letter.repeat(count).as_bytes()).to_string());
            assert_eq!(shown.each_ref().map(|shown| shown.chars().count()), [199, 200, 201, 201]);
            assert!(shown[2].ends_with('…'), "it is seen to be cut");
        }
    }

    #[test]
    fn an_apostrophe_is_shown_as_it_is_and_a_quotation_mark_is_not() {
        assert_eq!(Escaped(b"it's \"so\"").to_string(), "it's \\\"so\\\"");
    }
}
