//! Sorting texts that share prefixes: eight bytes at a time, and only those that are equal so far go on.

use alloc::vec::Vec;

/// A text in its place among the sorted ones.
#[derive(Clone, Copy)]
pub(crate) struct Sorted {
    /// Its next eight bytes, while it is being sorted.
    word: u64,
    /// Which text it is.
    pub(crate) number: u32,
    /// How many bytes it shares with the text before it; [`ALL`] where they are equal.
    pub(crate) shared: u32,
}

/// More bytes than any text has.
pub(crate) const ALL: u32 = u32::MAX;

/// Texts in neighbouring places that agree up to `depth`.
struct Segment {
    start: usize,
    end: usize,
    depth: u32,
    /// What the first of them shares with the text before it, whichever will be the first.
    shared: u32,
}

/// Returns the texts in the order of their bytes. All are known to agree before `depth`. The order of equal texts is not
/// defined.
///
/// No text may hold a zero byte. The work is that of comparing each byte about as often as there are doublings of
/// the texts that agree up to it; there is no recursion.
pub(crate) fn by_bytes<'a>(
    numbers: impl Iterator<Item = u32>,
    depth: u32,
    text_of: impl Fn(u32) -> &'a [u8],
) -> Vec<Sorted> {
    let mut texts: Vec<Sorted> =
        numbers.map(|number| Sorted { word: word_at(text_of(number), depth), number, shared: 0 }).collect();
    let mut open = Vec::new();
    let mut next = Some(Segment { start: 0, end: texts.len(), depth, shared: 0 });
    while let Some(segment) = next {
        let Some(texts) = texts.get_mut(segment.start..segment.end) else { break };
        if segment.depth > depth {
            for text in texts.iter_mut() {
                text.word = word_at(text_of(text.number), segment.depth);
            }
        }
        texts.sort_unstable_by_key(|text| text.word);
        split(texts, &segment, &mut open);
        next = open.pop();
    }
    texts
}

/// Says of each text of a sorted segment what it shares with the one before, and opens a segment for those that agree
/// further than the word.
fn split(texts: &mut [Sorted], segment: &Segment, open: &mut Vec<Segment>) {
    let (mut start, mut shared) = (segment.start, segment.shared);
    let mut before = texts.first().map_or(0, |text| text.word);
    let mut close = |start: usize, end: usize, word: u64, shared: u32| {
        let ended = word & 0xff == 0;
        if end.wrapping_sub(start) > 1 && !ended {
            open.push(Segment { start, end, depth: segment.depth.saturating_add(8), shared });
        }
    };
    let mut place = segment.start;
    for text in texts.iter_mut() {
        let here = place;
        place = place.wrapping_add(1);
        let differing = text.word ^ before;
        if differing == 0 {
            text.shared = ALL;
            continue;
        }
        close(start, here, before, shared);
        // A text that has ended differs from the others there, as the rest of its word is zero.
        shared = segment.depth.wrapping_add(differing.leading_zeros() / 8);
        (start, before) = (here, text.word);
        text.shared = shared;
    }
    close(start, segment.end, before, shared);
    if let Some(first) = texts.first_mut() {
        first.shared = segment.shared;
    }
}

/// A stable sort by the lowest [`DIGIT`] bits of a number.
pub(crate) fn deal<T: Copy>(items: &mut [T], number: impl Fn(&T) -> u32) {
    let mut places = [0usize; 1 << DIGIT];
    for item in items.iter() {
        let count = place(&mut places, number(item));
        *count = count.wrapping_add(1);
    }
    let mut start = 0usize;
    for place in &mut places {
        let count = core::mem::replace(place, start);
        start = start.wrapping_add(count);
    }
    for item in &items.to_vec() {
        let to = place(&mut places, number(item));
        if let Some(dealt) = items.get_mut(*to) {
            *dealt = *item;
        }
        *to = to.wrapping_add(1);
    }
}

/// Bits that [`deal`] sorts by.
pub(crate) const DIGIT: u32 = 7;

#[inline]
#[allow(clippy::indexing_slicing, reason = "there are as many places as digits")]
fn place(places: &mut [usize; 1 << DIGIT], number: u32) -> &mut usize {
    &mut places[number as usize % (1 << DIGIT)]
}

/// Eight bytes as a number that sorts as they do, filled with zeros behind the end.
#[inline]
fn word_at(text: &[u8], at: u32) -> u64 {
    let Some(rest) = text.get(at as usize..) else { return 0 };
    if let Some(word) = rest.first_chunk() {
        return u64::from_be_bytes(*word);
    }
    match text.last_chunk() {
        _ if rest.is_empty() => 0,
        Some(tail) => u64::from_be_bytes(*tail) << behind(rest),
        None => rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)) << behind(rest),
    }
}

/// The bits of a word behind a text of one to seven bytes.
#[inline]
fn behind(rest: &[u8]) -> u32 {
    (rest.len() as u32).wrapping_mul(8).wrapping_neg() & 63
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    use super::*;

    #[test]
    fn texts_are_sorted_by_bytes() {
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
        let order = by_bytes(0..texts.len() as u32, 0, |number| texts[number as usize]);
        let sorted: Vec<&[u8]> = order.iter().map(|sorted| texts[sorted.number as usize]).collect();
        let mut expected = texts.clone();
        expected.sort();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn each_byte_is_looked_at_a_few_times() {
        // Each a prefix of the next; all the same; all the same but for their end.
        let nested: Vec<String> = (1..800).map(|length| "a".repeat(length)).collect();
        let same: Vec<String> = (0..800).map(|_| "a".repeat(400)).collect();
        let late: Vec<String> = (0..800).map(|n| format!("{}{n}", "a".repeat(400))).collect();
        for texts in [nested, same, late] {
            let looks = core::cell::Cell::new(0);
            by_bytes(0..texts.len() as u32, 0, |number| {
                looks.set(looks.get() + 1);
                texts[number as usize].as_bytes()
            });
            // A look takes eight bytes.
            let words: usize = texts.iter().map(|text| text.len() / 8 + 1).sum();
            assert!(looks.get() <= words, "{} looks at {words} words", looks.get());
        }
    }

    #[test]
    fn many_texts_are_sorted_and_say_what_they_share() {
        let mut texts: Vec<String> =
            (0..2000u32).map(|n| format!("/{}{:x}", "ab".repeat(n as usize % 23), n * n % 977)).collect();
        texts.extend((0..300).map(|n| format!("/always/the/same/{}", n % 7)));
        let order = by_bytes(0..texts.len() as u32, 1, |number| texts[number as usize].as_bytes());
        let sorted: Vec<&str> = order.iter().map(|sorted| texts[sorted.number as usize].as_str()).collect();
        let mut expected: Vec<&str> = texts.iter().map(String::as_str).collect();
        expected.sort_unstable();
        assert_eq!(sorted, expected);
        for (pair, text) in sorted.windows(2).filter_map(<[_]>::first_chunk::<2>).zip(&order[1..]) {
            let [before, after] = *pair;
            let shared = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
            let expected = if before == after { ALL } else { shared as u32 };
            assert_eq!(text.shared, expected, "{before} {after}");
        }
    }
}
