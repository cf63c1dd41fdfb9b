//! Sorted texts, each linked to the longest other one that is a prefix of it: finds the texts that a target starts with
//! in the time of one binary search, however many there are.

use core::ops::Range;

/// No text is a prefix.
pub(crate) const NONE: u32 = u32::MAX;

/// Sets the links of sorted, distinct texts. The prefixes of a text are its neighbour to the left, or what that is
/// linked to: any that is given up here is behind all texts to come, so the work is linear.
pub(crate) fn link<'a, T>(
    items: &mut [T],
    text_of: impl Fn(&T) -> &'a [u8],
    link_of: impl Fn(&mut T) -> &mut u32,
) {
    for index in 0..items.len() {
        let text = text_of(&items[index]);
        let mut candidate = (index as u32).wrapping_sub(1);
        while candidate != NONE {
            let before = text_of(&items[candidate as usize]);
            // Most neighbours are told apart by their length or by one octet, which is cheaper than to compare them.
            let ends_alike =
                before.len().checked_sub(1).is_none_or(|last| text.get(last) == before.get(last));
            if ends_alike && text.starts_with(before) {
                break;
            }
            candidate = *link_of(&mut items[candidate as usize]);
        }
        *link_of(&mut items[index]) = candidate;
    }
}

/// How many of the sorted texts do not sort behind the target, and how many octets the last of them shares with it. The
/// texts before the range must not sort behind the target, those after it must, and those in it share their first `from`
/// octets with it, or as many as they have.
///
/// Every text that the target starts with is that last one or one that it is linked to: what sorts between a prefix of the
/// target and the target itself starts with that prefix too. Those that are no longer than the shared octets are the
/// ones.
///
/// The target ends in a `$` of its own: so a pattern with a final `$` is a text like any other. No octet of a normal
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
        if sorts_behind(text, target, shared) {
            high = middle;
        } else {
            shared_by_last = Some(shared);
            low = middle + 1;
        }
    }
    let last = || low.checked_sub(1).map_or(0, |last| shared_from(0, text_of(last), target));
    (low, shared_by_last.unwrap_or_else(last))
}

/// Whether a text sorts behind the target, with which it shares as many octets as said.
#[inline]
fn sorts_behind(text: &[u8], target: &[u8], shared: usize) -> bool {
    text.get(shared).is_some_and(|octet| octet > target.get(shared).unwrap_or(&b'$'))
}

/// The sixteen octets behind the first, which all literals and targets have in common, as a number that sorts as they do.
///
/// Behind the end of the text it is zero.
#[inline]
pub(crate) fn key(text: &[u8]) -> u128 {
    let rest = text.get(1..).unwrap_or_default();
    match rest.first_chunk::<16>() {
        Some(word) => u128::from_be_bytes(*word),
        None => {
            let mut word = [0; 16];
            word[..rest.len()].copy_from_slice(rest);
            u128::from_be_bytes(word)
        }
    }
}

/// Like [`last_before`], where the keys of all texts are at hand: they nearly always tell all, and no text is looked at.
#[inline(always)]
pub(crate) fn last_before_by_keys<'a>(
    keys: &[[u8; 16]],
    text_of: impl Fn(usize) -> &'a [u8],
    target: &[u8],
) -> (usize, usize) {
    let mut head = key(target);
    if target.len() < 17 {
        // The `$` that the target ends in.
        head |= u128::from(b'$') << (128 - 8 * target.len());
    }
    let number = |key: &[u8; 16]| u128::from_le_bytes(*key);
    let count = keys.partition_point(|key| number(key) <= head);
    let Some(last) = count.checked_sub(1) else { return (0, 0) };
    let differing = number(&keys[last]) ^ head;
    if differing != 0 {
        // A text that has ended differs from the target there, as the rest of its key is zero.
        return (count, 1 + (differing.leading_zeros() / 8) as usize);
    }
    let text = text_of(last);
    let shared = shared_from(17, text, target);
    if sorts_behind(text, target, shared) {
        return last_before(start_of_run(keys, last)..last, 17, text_of, target);
    }
    (count, shared)
}

/// Runs of equal keys are short, so the start of one is looked for from its end.
#[inline]
fn start_of_run(keys: &[[u8; 16]], last: usize) -> usize {
    let other = |key: &[u8; 16]| *key != keys[last];
    let mut width = 1;
    while width <= last && !other(&keys[last - width]) {
        width *= 2;
    }
    let known = last - width / 2;
    let start = (last + 1).saturating_sub(width);
    start + keys[start..known].partition_point(other)
}

/// How many octets of the text stand in the target, with its `$`.
#[inline]
fn shared_from(from: usize, text: &[u8], target: &[u8]) -> usize {
    let common = common(from, text, target);
    common + usize::from(common == target.len() && text.get(common) == Some(&b'$'))
}

/// How many octets two texts have in common from their start, where the first `from` are known to be, or as many as they
/// have.
#[inline]
fn common(from: usize, a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    // Octets in which the words at `at` differ stand at their lower end.
    let differ = |at: usize| Some(word(a, at)? ^ word(b, at)?);
    let mut at = from;
    while let Some(bits) = differ(at) {
        if bits != 0 {
            return at + (bits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    // The last word overlaps with what is known to be the same.
    match length.checked_sub(8).and_then(|at| Some((at, differ(at)?))) {
        Some((_, 0)) => length,
        Some((at, bits)) => at + (bits.trailing_zeros() / 8) as usize,
        None => a.iter().zip(b).take_while(|(a, b)| a == b).count(),
    }
}

#[inline]
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// All texts that a target starts with, longest first.
    fn prefixes<'a>(texts: &[&'a str], target: &str) -> Vec<&'a str> {
        let mut items: Vec<(&str, u32)> = texts.iter().map(|text| (*text, 0)).collect();
        items.sort();
        link(&mut items, |item| item.0.as_bytes(), |item| &mut item.1);
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
