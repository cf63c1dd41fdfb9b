//! Sorted texts, each linked to the longest other one that is a prefix of it: finds the texts that a target starts with
//! in the time of one binary search, however many there are.

use crate::sort::word_at;

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
        let mut candidate = (index as u32).wrapping_sub(1);
        while candidate != NONE && !text_of(&items[index]).starts_with(text_of(&items[candidate as usize])) {
            candidate = *link_of(&mut items[candidate as usize]);
        }
        *link_of(&mut items[index]) = candidate;
    }
}

/// The last of `count` sorted texts that does not sort behind the target, and how many octets it shares with it.
///
/// Every text that the target starts with is this one or one that it is linked to: what sorts between a prefix of the
/// target and the target itself starts with that prefix too. Those that are no longer than the shared octets are the
/// ones.
///
/// The target ends in a `$` of its own: so a pattern with a final `$` is a text like any other. No octet of a normal
/// form is `$` otherwise.
#[inline]
pub(crate) fn last_before<'a>(
    count: usize,
    text_of: impl Fn(usize) -> &'a [u8],
    target: &[u8],
) -> Option<(usize, usize)> {
    let head = word_at(target, 0);
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_behind(text_of(middle), target, head) { high = middle } else { low = middle + 1 }
    }
    let index = low.checked_sub(1)?;
    Some((index, shared(text_of(index), target)))
}

/// Whether the text sorts behind the target. `head` is the first word of the target.
#[inline]
fn is_behind(text: &[u8], target: &[u8], head: u64) -> bool {
    match text.first_chunk::<8>() {
        Some(word) if target.len() >= 8 => {
            let word = u64::from_be_bytes(*word);
            if word == head { is_behind_from(8, text, target) } else { word > head }
        }
        _ => is_behind_from(0, text, target),
    }
}

fn is_behind_from(from: usize, text: &[u8], target: &[u8]) -> bool {
    let common = shared_from(from, text, target);
    match text.get(common) {
        None => false,
        Some(octet) => octet > target.get(common).unwrap_or(&b'$'),
    }
}

/// How many octets of the text stand in the target, with its `$`.
fn shared(text: &[u8], target: &[u8]) -> usize {
    let common = shared_from(0, text, target);
    common + usize::from(common == target.len() && text.get(common) == Some(&b'$'))
}

fn shared_from(from: usize, text: &[u8], target: &[u8]) -> usize {
    let (a, b) = (&text[from..], &target[from..]);
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let mut at = 0;
    for (a, b) in a_words.iter().zip(b_words) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return from + at + (differ.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    from + at + a[at..].iter().zip(&b[at..]).take_while(|(a, b)| a == b).count()
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
        let Some((index, shared)) =
            last_before(items.len(), |index| items[index].0.as_bytes(), target.as_bytes())
        else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut next = index as u32;
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
