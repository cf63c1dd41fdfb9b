//! Sorted texts, each linked to the longest other one that is a prefix of it: finds the texts that a target starts with
//! in the time of one binary search, however many there are.

use core::ops::Range;

use crate::slice;
use crate::work;

/// No text is a prefix.
pub(crate) const NONE: u32 = u32::MAX;

/// The link of a text that is to stand behind `count` sorted, distinct ones and shares `shared` bytes with the last of
/// them. `before` gives the length and the link of a text.
///
/// The prefixes of a text are its neighbour to the left, or what that is linked to: any that is given up here is behind
/// all texts to come, so the work is linear.
#[inline]
pub(crate) fn link(count: usize, shared: u32, before: impl Fn(usize) -> Option<(u32, u32)>) -> u32 {
    let mut candidate = (count as u32).wrapping_sub(1);
    while let Some((length, link)) = before(candidate as usize)
        && length > shared
    {
        candidate = link;
    }
    candidate
}

/// How many of the sorted texts do not sort behind the target, and how many bytes the last of them shares with it. The
/// texts before the range must not sort behind the target, those after it must, and those in it share their first `from`
/// bytes with it, or as many as they have.
///
/// Every text that the target starts with is that last one or one that it is linked to: what sorts between a prefix of the
/// target and the target itself starts with that prefix too. Those that are no longer than the shared bytes are the
/// ones.
///
/// The target ends in a `$` of its own: so a pattern with a final `$` is a text like any other. No byte of a normal
/// form is `$` otherwise.
#[inline]
pub(crate) fn last_before<'a>(
    range: Range<usize>,
    from: usize,
    text_of: impl Fn(usize) -> &'a [u8],
    target: &[u8],
) -> (usize, usize) {
    let Range { start: mut low, end: mut high } = range;
    let mut shared_by_last = None;
    while low < high {
        let middle = low.midpoint(high);
        let text = text_of(middle);
        let shared = shared_from(from, text, target);
        work::count(1_usize.saturating_add(shared.saturating_sub(from) / 8));
        if sorts_behind(text, target, shared) {
            high = middle;
        } else {
            shared_by_last = Some(shared);
            low = middle.wrapping_add(1);
        }
    }
    let last = || low.checked_sub(1).map_or(0, |last| shared_from(0, text_of(last), target));
    (low, shared_by_last.unwrap_or_else(last))
}

/// Whether a text sorts behind the target, with which it shares as many bytes as said.
#[inline]
fn sorts_behind(text: &[u8], target: &[u8], shared: usize) -> bool {
    text.get(shared).is_some_and(|byte| byte > target.get(shared).unwrap_or(&b'$'))
}

/// The sixteen bytes behind the first, which all literals and targets have in common, as a number that sorts as they do.
///
/// Behind the end of the text it is zero.
#[inline]
pub(crate) fn key(text: &[u8]) -> u128 {
    match text {
        [_, rest @ ..] => {
            rest.first_chunk().map_or_else(|| short_key(rest), |word| u128::from_be_bytes(*word))
        }
        [] => 0,
    }
}

/// The key of a text that has fewer than sixteen bytes behind the first.
#[inline]
fn short_key(rest: &[u8]) -> u128 {
    if let (Some(head), Some(tail)) = (rest.first_chunk(), rest.last_chunk()) {
        // The last eight of the bytes overlap with the first.
        return u128::from(u64::from_be_bytes(*head)) << 64
            | u128::from(u64::from_be_bytes(*tail)) << behind(rest);
    }
    let word = rest.iter().fold(0, |word, &byte| word << 8 | u128::from(byte));
    word.checked_shl(behind(rest)).unwrap_or_default()
}

/// The bits of a key behind a text of up to sixteen bytes.
#[inline]
fn behind(rest: &[u8]) -> u32 {
    128u32.saturating_sub((rest.len() as u32).saturating_mul(8))
}

/// The first bytes of keys for which it is written down where they start are 32 from this one on: lower-case letters and
/// their neighbours.
const LETTERS: u8 = 0x60;

/// The bytes of a key.
pub(crate) const KEY: usize = 16;

/// How many numbers say where they start.
pub(crate) const STARTS: usize = 33;

/// Where the sorted keys with each letter as their first byte start, and where the last of them end.
pub(crate) fn starts(keys: &[[u8; KEY]]) -> impl Iterator<Item = u16> {
    let mut rest = keys;
    (LETTERS..).take(STARTS).map(move |letter| {
        // Most letters have no key or few.
        if matches!(rest.first(), Some([.., first]) if *first < letter) {
            rest = slice::from(rest, rest.partition_point(|[.., first]| *first < letter));
        }
        keys.len().wrapping_sub(rest.len()) as u16
    })
}

/// Like [`last_before`], by the keys of all texts, which nearly always decide, so that no text is looked at. `None` if they do
/// not: then [`last_before_in_run`] searches the texts with the key of the target.
#[inline(always)]
pub(crate) fn last_before_by_keys<'a>(
    starts: &[[u8; 2]],
    keys: &[[u8; KEY]],
    text_of: impl Fn(usize) -> &'a [u8],
    target: &[u8],
) -> Option<(usize, usize)> {
    let head = match target.first_chunk::<17>() {
        Some([_, head @ ..]) => u128::from_be_bytes(*head),
        None => short_head(target),
    };
    let letter = usize::from(((head >> 120) as u8).wrapping_sub(LETTERS));
    let start = |bytes: [u8; 2]| usize::from(u16::from_le_bytes(bytes));
    let (from, to) = match starts.get(letter..letter + 2) {
        Some([from, to]) => (start(*from), start(*to)),
        _ => (0, keys.len()),
    };
    let count = from.wrapping_add(keys.get(from..to)?.partition_point(|key| number(key) <= head));
    let Some(last) = count.checked_sub(1) else { return Some((0, 0)) };
    let differing = number(keys.get(last)?) ^ head;
    if differing != 0 {
        // A text that has ended differs from the target there, as the rest of its key is zero.
        return Some((count, (differing.leading_zeros() / 8).wrapping_add(1) as usize));
    }
    let text = text_of(last);
    let shared = shared_from(17, text, target);
    (!sorts_behind(text, target, shared)).then_some((count, shared))
}

/// Like [`last_before`], where texts have the key of the target.
pub(crate) fn last_before_in_run<'a>(
    keys: &[[u8; KEY]],
    text_of: impl Fn(usize) -> &'a [u8],
    target: &[u8],
) -> (usize, usize) {
    let head = short_head(target);
    let start = keys.partition_point(|key| number(key) < head);
    let last = keys.partition_point(|key| number(key) <= head).saturating_sub(1);
    last_before(start..last, 17, text_of, target)
}

/// The key of a target, with the `$` that it ends in.
fn short_head(target: &[u8]) -> u128 {
    let end = u128::from(b'$') << 120;
    key(target)
        | end.checked_shr((target.len() as u32).saturating_sub(1).saturating_mul(8)).unwrap_or_default()
}

#[inline]
fn number(key: &[u8; KEY]) -> u128 {
    u128::from_le_bytes(*key)
}

/// How many bytes of the text stand in the target, with its `$`.
#[inline]
fn shared_from(from: usize, text: &[u8], target: &[u8]) -> usize {
    let common = common(from, text, target);
    common.wrapping_add(usize::from(common == target.len() && text.get(common) == Some(&b'$')))
}

/// How many bytes two texts have in common from their start, where the first `from` are known to be, or as many as they
/// have.
#[inline]
pub(crate) fn common(from: usize, a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (slice::before(a, length), slice::before(b, length));
    // Bytes in which the words at `at` differ stand at their lower end.
    let differ = |at: usize| Some(word(a, at)? ^ word(b, at)?);
    let mut at = from;
    while let Some(bits) = differ(at) {
        if bits != 0 {
            return at.wrapping_add((bits.trailing_zeros() / 8) as usize);
        }
        at = at.wrapping_add(8);
    }
    // The last word overlaps with what is known to be the same.
    match length.checked_sub(8).and_then(|at| Some((at, differ(at)?))) {
        Some((_, 0)) => length,
        Some((at, bits)) => at.wrapping_add((bits.trailing_zeros() / 8) as usize),
        None => a.iter().zip(b).take_while(|(a, b)| a == b).count(),
    }
}

#[inline]
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::cell::Cell;

    use super::*;

    /// All texts that a target starts with, longest first.
    fn prefixes<'a>(texts: &[&'a str], target: &str) -> Vec<&'a str> {
        let mut sorted = texts.to_vec();
        sorted.sort_unstable();
        let mut items: Vec<(&str, u32)> = Vec::new();
        for text in sorted {
            let shared = items.last().map_or(0, |last| common(0, last.0.as_bytes(), text.as_bytes()));
            let link = link(items.len(), shared as u32, |index| {
                items.get(index).map(|item| (item.0.len() as u32, item.1))
            });
            items.push((text, link));
        }
        let (count, shared) =
            last_before(0..items.len(), 0, |index| items[index].0.as_bytes(), target.as_bytes());
        let mut found = Vec::new();
        let mut next = (count as u32).wrapping_sub(1);
        while next != NONE {
            let (text, link) = items[next as usize];
            if text.len() <= shared {
                found.push(text);
            }
            next = link;
        }
        found
    }

    #[test]
    fn a_key_is_the_sixteen_bytes_behind_the_first_and_zeros() {
        let text = b"/abcdefghijklmnopqrst";
        for length in 0..=text.len() {
            let mut bytes = [0; 16];
            for (byte, given) in bytes.iter_mut().zip(text[..length].iter().skip(1)) {
                *byte = *given;
            }
            assert_eq!(key(&text[..length]), u128::from_be_bytes(bytes), "{length}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn links_and_searches_take_few_steps() {
        // Again and again a chain of prefixes, and a text that is none of theirs.
        let mut texts: Vec<String> = (0..40)
            .flat_map(|chain| (1..40).map(move |length| alloc::format!("/{chain:02}{}", "a".repeat(length))))
            .collect();
        texts.sort();
        let steps = Cell::new(0);
        let mut items: Vec<(u32, u32)> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let before = index.checked_sub(1).map_or("", |before| &texts[before]);
            let shared = common(0, before.as_bytes(), text.as_bytes()) as u32;
            let link = link(items.len(), shared, |index| {
                steps.set(steps.get() + 1);
                items.get(index).copied()
            });
            items.push((text.len() as u32, link));
        }
        assert!(steps.get() <= 2 * texts.len(), "{} steps for {} texts", steps.get(), texts.len());
        let looks = Cell::new(0);
        let text_of = |index: usize| {
            looks.set(looks.get() + 1);
            texts[index].as_bytes()
        };
        last_before(0..texts.len(), 0, text_of, b"/20aaaaaaaa/b");
        assert!(looks.get() <= texts.len().ilog2() as usize + 2, "{} looks", looks.get());
    }

    #[test]
    fn every_prefix_is_found_longest_first() {
        let texts =
            ["/", "/a", "/a$", "/a/b", "/a/b/c/d/e/f/g", "/a/b/c/d/e/f/h", "/ab", "/b", "/b!", "/aa$", "/a!"];
        assert_eq!(prefixes(&texts, "/a"), ["/a$", "/a", "/"]);
        assert_eq!(prefixes(&texts, "/a/b/c/d/e/f/h/i"), ["/a/b/c/d/e/f/h", "/a/b", "/a", "/"]);
        assert_eq!(prefixes(&texts, "/aa"), ["/aa$", "/a", "/"]);
        assert_eq!(prefixes(&texts, "/b!"), ["/b!", "/b", "/"]);
        assert_eq!(prefixes(&texts, "/c"), ["/"]);
        assert_eq!(prefixes(&texts[1..], "/c"), [""; 0]);
        assert_eq!(prefixes(&[], "/c"), [""; 0]);
    }
}
