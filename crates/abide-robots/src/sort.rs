//! Sorting texts that share prefixes: eight octets at a time, and only those that are equal so far go on.

use alloc::vec;
use alloc::vec::Vec;

/// The next eight octets of a text, and which text it is.
pub(crate) type Keyed = (u64, u32);

/// Sorts the texts that `texts` names by their octets, all of which are known to agree before `depth`. Equal texts
/// stand in no certain order.
///
/// No text may hold a zero octet. The work is that of comparing each octet about as often as there are doublings of
/// the texts that agree up to it; there is no recursion.
pub(crate) fn by_octets<'a>(texts: &mut [Keyed], depth: usize, text_of: impl Fn(u32) -> &'a [u8]) {
    let mut open: Vec<(usize, usize, usize)> = vec![(0, texts.len(), depth)];
    while let Some((start, end, depth)) = open.pop() {
        let texts = &mut texts[start..end];
        for text in texts.iter_mut() {
            text.0 = word_at(text_of(text.1), depth);
        }
        texts.sort_unstable_by_key(|text| text.0);
        let mut first = 0;
        for run in texts.chunk_by(|a, b| a.0 == b.0) {
            let ended = run[0].0 & 0xff == 0;
            if run.len() > 1 && !ended {
                open.push((start + first, start + first + run.len(), depth + 8));
            }
            first += run.len();
        }
    }
}

/// Eight octets as a number that sorts as they do, filled with zeros behind the end.
#[inline]
pub(crate) fn word_at(text: &[u8], at: usize) -> u64 {
    let rest = text.get(at..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(word) => u64::from_be_bytes(*word),
        None => short_word(rest),
    }
}

#[inline]
fn short_word(rest: &[u8]) -> u64 {
    if rest.is_empty() {
        return 0;
    }
    let word = rest.iter().fold(0, |word, &octet| word << 8 | u64::from(octet));
    word << (64 - 8 * rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_sorted_by_octets() {
        let texts: Vec<&[u8]> = vec![
            b"/b",
            b"/a/very/long/pattern/b",
            b"/a/very/long/pattern/a",
            b"/a",
            b"/b",
            b"",
            b"/a/very",
            b"/a/very/",
            b"/12345678",
            b"/1234567",
            b"/123456789",
            b"/a/very/long/pattern/a",
        ];
        let mut keyed: Vec<Keyed> = (0..texts.len() as u32).map(|number| (0, number)).collect();
        by_octets(&mut keyed, 0, |number| texts[number as usize]);
        let mut expected = texts.clone();
        expected.sort();
        assert_eq!(keyed.iter().map(|keyed| texts[keyed.1 as usize]).collect::<Vec<_>>(), expected);
    }
}
