//! Sorting texts that share prefixes: twelve octets at a time, and only those that are equal so far go on.

use alloc::vec;
use alloc::vec::Vec;

/// Gives the numbers in the order of the octets of their texts, all of which are known to agree before `depth`; equal
/// texts by number.
///
/// No text may hold a zero octet. The work is that of comparing each octet about as often as there are doublings of
/// the texts that agree up to it; there is no recursion.
pub(crate) fn by_octets<'a>(
    numbers: impl Iterator<Item = u32>,
    depth: usize,
    text_of: impl Fn(u32) -> &'a [u8],
) -> impl Iterator<Item = u32> {
    let keyed = |number: u32, depth| word_at(text_of(number), depth) & OCTETS | u128::from(number);
    let mut texts: Vec<u128> = numbers.map(|number| keyed(number, depth)).collect();
    let mut open: Vec<(usize, usize, usize)> = vec![(0, texts.len(), depth)];
    while let Some((start, end, depth)) = open.pop() {
        let texts = &mut texts[start..end];
        texts.sort_unstable();
        let mut first = 0;
        for run in texts.chunk_by_mut(|a, b| (a ^ b) & OCTETS == 0) {
            let ended = run[0] & LAST_OCTET == 0;
            if run.len() > 1 && !ended {
                for text in run.iter_mut() {
                    *text = keyed(*text as u32, depth + 12);
                }
                open.push((start + first, start + first + run.len(), depth + 12));
            }
            first += run.len();
        }
    }
    texts.into_iter().map(|text| text as u32)
}

/// What is sorted: twelve octets of a text, and below them its number.
const OCTETS: u128 = !(u32::MAX as u128);
const LAST_OCTET: u128 = 0xff << 32;

/// Sixteen octets as a number that sorts as they do, filled with zeros behind the end.
#[inline]
pub(crate) fn word_at(text: &[u8], at: usize) -> u128 {
    let rest = text.get(at..).unwrap_or_default();
    match (rest.first_chunk::<16>(), text.last_chunk::<16>()) {
        (Some(word), _) => u128::from_be_bytes(*word),
        (None, Some(_)) if rest.is_empty() => 0,
        (None, Some(tail)) => u128::from_be_bytes(*tail) << (8 * (16 - rest.len())),
        (None, None) => {
            let mut word = [0; 16];
            word[..rest.len()].copy_from_slice(rest);
            u128::from_be_bytes(word)
        }
    }
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
            b"/1234567890ab",
            b"/1234567890a",
            b"/1234567890abc",
            b"/a/very/long/pattern/a",
        ];
        let order: Vec<u32> = by_octets(0..texts.len() as u32, 0, |number| texts[number as usize]).collect();
        let mut expected: Vec<u32> = (0..texts.len() as u32).collect();
        expected.sort_by_key(|number| texts[*number as usize]);
        assert_eq!(order, expected);
    }
}
