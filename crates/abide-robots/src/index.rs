//! Which wildcard rules may match a target: a signature for each, and an index where there are many.
//!
//! The *signature* of a text is a set of its pairs of octets, in 64 bits. A pattern whose literal pairs are not all
//! among those of the target cannot match it.
//!
//! The *index* files each pattern under one group of four octets that it holds and that few other patterns hold. A
//! target is then walked once, and only patterns filed under one of its own groups are looked at. Two patterns may
//! share a slot by chance; their signatures tell. It lies behind the other tables as numbers of 16 bits:
//!
//! ```text
//! 1            the slots, as a power of two
//! slots + 2    where in the list below each slot starts; the last slot is of patterns without such a group
//! wildcards    their numbers, slot by slot, in order of precedence
//! ```

use alloc::vec;
use alloc::vec::Vec;

use crate::block::{Entry, Parts};

/// With fewer wildcards than this, looking at each signature is faster.
const INDEXED_MIN: usize = 128;
/// Numbers have 16 bits. More wildcards than this do not fit into 512,000 octets.
const INDEXED_MAX: usize = u16::MAX as usize;

const SPREAD: u32 = 0x9e37_79b1;

/// The pairs of octets in `text`, and for a pattern those that any target must hold.
#[inline]
pub(crate) fn signature(text: &[u8]) -> u64 {
    let mut set = 0;
    for pair in text.array_windows::<2>() {
        set |= bit(*pair);
    }
    set
}

/// The signature of a wildcard. One that reads differently inside the query has none, as its octets are not certain.
pub(crate) fn signature_of_pattern(entry: &Entry, block: &[u8]) -> u64 {
    if entry.link != 0 {
        return 0;
    }
    let pattern = entry.pattern(block);
    let mut set = 0;
    for pair in pattern.strip_suffix(b"$").unwrap_or(pattern).array_windows::<2>() {
        let [first, second] = *pair;
        let known = first != b'*' && second != b'*';
        if known {
            set |= bit(*pair);
        }
    }
    set
}

#[inline]
fn bit([first, second]: [u8; 2]) -> u64 {
    let pair = u32::from(u16::from_le_bytes([first, second]));
    1 << (pair.wrapping_mul(SPREAD) >> 26)
}

#[inline]
fn slot(group: [u8; 4], bits: u32) -> usize {
    (u32::from_le_bytes(group).wrapping_mul(SPREAD) >> (32 - bits)) as usize
}

/// The slots that a wildcard could be filed under.
#[inline]
fn slots<'a>(entry: &Entry, block: &'a [u8], bits: u32) -> impl Iterator<Item = usize> + use<'a> {
    let pattern = if entry.link == 0 { entry.pattern(block) } else { &[] };
    let pattern = pattern.strip_suffix(b"$").unwrap_or(pattern);
    pattern.array_windows::<4>().filter(|group| !holds_star(**group)).map(move |group| slot(*group, bits))
}

/// Looks at all four octets at once: one that is a star leaves zero, and only below a zero does a carry begin.
#[inline]
fn holds_star(group: [u8; 4]) -> bool {
    let zeros = u32::from_le_bytes(group) ^ u32::from_le_bytes([b'*'; 4]);
    zeros.wrapping_sub(0x0101_0101) & !zeros & 0x8080_8080 != 0
}

/// Appends the index of the wildcards to `out`, if they are enough.
pub(crate) fn write(wildcards: &[Entry], out: &mut Vec<u8>) {
    if !(INDEXED_MIN..=INDEXED_MAX).contains(&wildcards.len()) {
        return;
    }
    let bits = (2 * wildcards.len()).next_power_of_two().ilog2().min(16);
    let chosen = choose_slots(wildcards, out, bits);
    let mut starts = vec![0u32; (1 << bits) + 2];
    for slot in &chosen {
        starts[slot + 1] += 1;
    }
    for slot in 1..starts.len() {
        starts[slot] += starts[slot - 1];
    }
    out.extend_from_slice(&(bits as u16).to_le_bytes());
    for start in &starts {
        out.extend_from_slice(&(*start as u16).to_le_bytes());
    }
    let list = out.len();
    out.resize(list + 2 * wildcards.len(), 0);
    for (number, slot) in chosen.iter().enumerate() {
        let at = list + 2 * starts[*slot] as usize;
        out[at..at + 2].copy_from_slice(&(number as u16).to_le_bytes());
        starts[*slot] += 1;
    }
}

/// For each wildcard the slot that the fewest patterns could be filed under; the one behind the last for those without
/// any.
fn choose_slots(wildcards: &[Entry], block: &[u8], bits: u32) -> Vec<usize> {
    let mut load = vec![0u32; 1 << bits];
    let mut all = Vec::with_capacity(32 * wildcards.len());
    let mut ends = Vec::with_capacity(wildcards.len());
    for entry in wildcards {
        for slot in slots(entry, block, bits) {
            load[slot] += 1;
            all.push(slot as u32);
        }
        ends.push(all.len());
    }
    let mut start = 0;
    let rarest = |end| {
        let slots = &all[start..end];
        start = end;
        let rarest = slots.iter().min_by_key(|slot| load[**slot as usize]);
        rarest.map_or(1 << bits, |slot| *slot as usize)
    };
    ends.into_iter().map(rarest).collect()
}

/// A view of the index in a block.
#[derive(Clone, Copy)]
pub(crate) struct Index<'a> {
    bits: u32,
    starts: &'a [[u8; 2]],
    list: &'a [[u8; 2]],
}

impl<'a> Index<'a> {
    pub(crate) fn of(parts: &Parts<'a>) -> Option<Self> {
        let (bits, rest) = parts.index.split_first()?;
        let bits = u32::from(u16::from_le_bytes(*bits));
        let (starts, list) = rest.split_at((1 << bits) + 2);
        Some(Self { bits, starts, list })
    }

    /// The patterns filed under the group of octets, in order of precedence.
    #[inline]
    pub(crate) fn under(&self, group: [u8; 4]) -> impl Iterator<Item = usize> + use<'a> {
        self.slot(slot(group, self.bits))
    }

    /// The patterns that are filed under none.
    pub(crate) fn unfiled(&self) -> impl Iterator<Item = usize> + use<'a> {
        self.slot(1 << self.bits)
    }

    #[inline]
    fn slot(&self, slot: usize) -> impl Iterator<Item = usize> + use<'a> {
        let number = |octets: [u8; 2]| usize::from(u16::from_le_bytes(octets));
        let list = &self.list[number(self.starts[slot])..number(self.starts[slot + 1])];
        list.iter().map(move |octets| number(*octets))
    }
}
