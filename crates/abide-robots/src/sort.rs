//! Sorting texts that share prefixes: eight octets at a time, and only those that are equal so far go on.

use alloc::vec;
use alloc::vec::Vec;

/// The next eight octets of a text, and which text it is.
type Keyed = (u64, u32);

/// Gives the numbers in the order of the octets of their texts, all of which are known to agree before `depth`. Equal
/// texts stand in no certain order.
///
/// No text may hold a zero octet. The work is that of comparing each octet about as often as there are doublings of
/// the texts that agree up to it; there is no recursion.
pub(crate) fn by_octets<'a>(
    numbers: impl Iterator<Item = u32>,
    depth: usize,
    text_of: impl Fn(u32) -> &'a [u8],
) -> Vec<u32> {
    let mut texts: Vec<Keyed> = numbers.map(|number| (word_at(text_of(number), depth), number)).collect();
    let mut open: Vec<(usize, usize, usize)> = vec![(0, texts.len(), depth)];
    while let Some((start, end, depth)) = open.pop() {
        let texts = &mut texts[start..end];
        texts.sort_unstable_by_key(|text| text.0);
        let mut first = 0;
        for run in texts.chunk_by_mut(|a, b| a.0 == b.0) {
            let ended = run[0].0 & 0xff == 0;
            if run.len() > 1 && !ended {
                for text in run.iter_mut() {
                    text.0 = word_at(text_of(text.1), depth + 8);
                }
                open.push((start + first, start + first + run.len(), depth + 8));
            }
            first += run.len();
        }
    }
    texts.into_iter().map(|(_, number)| number).collect()
}

/// Eight octets as a number that sorts as they do, filled with zeros behind the end.
#[inline]
fn word_at(text: &[u8], at: usize) -> u64 {
    let rest = text.get(at..).unwrap_or_default();
    match (rest.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(word), _) => u64::from_be_bytes(*word),
        (None, _) if rest.is_empty() => 0,
        (None, Some(tail)) => u64::from_be_bytes(*tail) << (64 - 8 * rest.len()),
        (None, None) => {
            let word = rest.iter().fold(0, |word, &octet| word << 8 | u64::from(octet));
            word << (64 - 8 * rest.len())
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
        let order = by_octets(0..texts.len() as u32, 0, |number| texts[number as usize]);
        let sorted: Vec<&[u8]> = order.iter().map(|number| texts[*number as usize]).collect();
        let mut expected = texts.clone();
        expected.sort();
        assert_eq!(sorted, expected);
    }
}
