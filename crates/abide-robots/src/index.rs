//! Which wildcard rules may match a target: a signature for each, and an index where there are many.
//!
//! The *signature* of a text is a set of its pairs of bytes, in 64 bits. A pattern whose literal pairs are
//! not all among those of the target cannot match it.
//!
//! The *index* files each pattern under one group of four bytes that it holds and that few other patterns
//! hold. A target is then walked once, and only patterns filed under one of its own groups are looked at. Two
//! patterns may share a slot by chance; their signatures distinguish them.

use alloc::vec;
use alloc::vec::Vec;

use crate::compiled::Wildcard;
use crate::slice;

/// With fewer wildcards than this, looking at each signature is faster.
const INDEXED_MIN: usize = 128;

/// A prime near 2^32 divided by the golden ratio: times it, neighbouring values end far apart.
const SPREAD: u32 = 0x9e37_79b1;

/// The pairs of bytes in `text`, and for a pattern those that any target must hold.
#[inline]
pub(crate) fn signature(text: &[u8]) -> u64 {
    slice::windows(text).fold(0, |set, pair| set | bit(pair))
}

/// The signature of a wildcard. One that reads differently inside the query has none, as its bytes are not
/// certain.
pub(crate) fn signature_of_pattern(wildcard: &Wildcard, text: &[u8]) -> u64 {
    pieces(wildcard, text).fold(0, |set, piece| set | signature(piece))
}

/// What every target holds that a wildcard covers.
#[inline]
fn pieces<'a>(wildcard: &Wildcard, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let pattern = if wildcard.query_form == 0 { wildcard.rule.pattern(text) } else { &[] };
    // A final `$` is no byte of a target.
    pattern.strip_suffix(b"$").unwrap_or(pattern).split(|&byte| byte == b'*')
}

/// The bit of a pair of bytes in a signature.
#[inline]
pub(crate) fn bit([first, second]: [u8; 2]) -> u64 {
    let pair = u32::from(u16::from_le_bytes([first, second]));
    // The top six bits of the product depend on all bits of the pair.
    1 << (pair.wrapping_mul(SPREAD) >> 26)
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Index {
    /// The slots, as a power of two.
    bits: u32,
    /// Where in the list each slot starts. The last slot is of patterns without a group of four bytes.
    starts: Vec<u32>,
    /// The numbers of the wildcards, slot by slot.
    list: Vec<u32>,
}

impl Index {
    /// The index of the wildcards, if they are enough.
    pub(crate) fn of(wildcards: &[Wildcard], text: &[u8]) -> Option<Self> {
        if wildcards.len() < INDEXED_MIN {
            return None;
        }
        // Half of the slots stay empty, and there are 256 KiB of them at most, however long the file.
        let bits = wildcards.len().saturating_mul(2).next_power_of_two().ilog2().min(16);
        let chosen = choose_slots(wildcards, text, bits);
        // Where the patterns of each slot end, and then, as they are filed from the last to the first, where
        // they start.
        let mut starts = vec![0u32; (1usize << bits).saturating_add(2)];
        for slot in &chosen {
            add(&mut starts, *slot, 1);
        }
        let mut end = 0;
        for start in &mut starts {
            end = start.wrapping_add(end);
            *start = end;
        }
        let mut list = vec![0; wildcards.len()];
        for (number, slot) in chosen.iter().enumerate().rev() {
            let place = add(&mut starts, *slot, u32::MAX);
            if let Some(filed) = list.get_mut(place as usize) {
                *filed = number as u32;
            }
        }
        Some(Self { bits, starts, list })
    }

    /// The patterns filed under the group of bytes, by their numbers.
    #[inline]
    pub(crate) fn under(&self, group: [u8; 4]) -> &[u32] {
        self.slot(slot(group, self.bits))
    }

    pub(crate) fn unfiled(&self) -> &[u32] {
        self.slot(1 << self.bits)
    }

    #[inline]
    fn slot(&self, slot: usize) -> &[u32] {
        match self.starts.get(slot..slot.wrapping_add(2)) {
            Some([start, end]) => self.list.get(*start as usize..*end as usize).unwrap_or_default(),
            _ => &[],
        }
    }

    pub(crate) fn heap_size(&self) -> usize {
        let numbers = self.starts.capacity().saturating_add(self.list.capacity());
        numbers.saturating_mul(size_of::<u32>()).saturating_add(size_of::<Self>())
    }
}

#[inline]
fn slot(group: [u8; 4], bits: u32) -> usize {
    (u32::from_le_bytes(group).wrapping_mul(SPREAD) >> (32u32.saturating_sub(bits))) as usize
}

/// Adds to one of the counts, and gives what it is then.
#[inline]
fn add(counts: &mut [u32], at: usize, number: u32) -> u32 {
    let Some(count) = counts.get_mut(at) else { return 0 };
    *count = count.wrapping_add(number);
    *count
}

/// For each wildcard the slot that the fewest patterns could be filed under; the one behind the last for
/// those without any.
fn choose_slots(wildcards: &[Wildcard], text: &[u8], bits: u32) -> Vec<usize> {
    // Walked twice rather than written down: a file of long patterns has as many groups as bytes, in memory
    // four times that.
    let slots =
        |wildcard| pieces(wildcard, text).flat_map(slice::windows).map(move |group| slot(group, bits));
    let mut load = vec![0u32; 1 << bits];
    for wildcard in wildcards {
        slots(wildcard).for_each(|slot| {
            add(&mut load, slot, 1);
        });
    }
    let load = |slot: &usize| load.get(*slot).copied().unwrap_or_default();
    wildcards.iter().map(|wildcard| slots(wildcard).min_by_key(load).unwrap_or(1 << bits)).collect()
}
