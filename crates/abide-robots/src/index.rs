//! Which wildcard rules may match a target: a signature for each, and an index where there are many.
//!
//! The *signature* of a text is a set of its pairs of bytes, in 64 bits. A pattern whose literal pairs are not all
//! among those of the target cannot match it.
//!
//! The *index* files each pattern under one group of four bytes that it holds and that few other patterns hold. A
//! target is then walked once, and only patterns filed under one of its own groups are looked at. Two patterns may
//! share a slot by chance; their signatures distinguish them. The index follows the other tables, as numbers of 16 bits:
//!
//! ```text
//! 1            the slots, as a power of two
//! slots + 2    where in the list below each slot starts; the last slot is of patterns without such a group
//! wildcards    their numbers, slot by slot, in order of precedence
//! ```

use alloc::vec;
use alloc::vec::Vec;

use crate::block::{Entry, Parts};
use crate::slice;

/// With fewer wildcards than this, looking at each signature is faster.
const INDEXED_MIN: usize = 128;
/// Numbers have 16 bits. More wildcards than this do not fit into 512,000 bytes.
const INDEXED_MAX: usize = u16::MAX as usize;

const SPREAD: u32 = 0x9e37_79b1;

/// The pairs of bytes in `text`, and for a pattern those that any target must hold.
#[inline]
pub(crate) fn signature(text: &[u8]) -> u64 {
    slice::windows(text).fold(0, |set, pair| set | bit(pair))
}

/// The signature of a wildcard. One that reads differently inside the query has none, as its bytes are not certain.
pub(crate) fn signature_of_pattern(entry: &Entry, block: &[u8]) -> u64 {
    pieces(entry, block).fold(0, |set, piece| set | signature(piece))
}

/// What every target holds that a wildcard covers.
#[inline]
fn pieces<'a>(entry: &Entry, block: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let pattern = if entry.link == 0 { entry.pattern(block) } else { &[] };
    pattern.strip_suffix(b"$").unwrap_or(pattern).split(|&byte| byte == b'*')
}

/// The bit of a pair of bytes in a signature.
#[inline]
pub(crate) fn bit([first, second]: [u8; 2]) -> u64 {
    let pair = u32::from(u16::from_le_bytes([first, second]));
    1 << (pair.wrapping_mul(SPREAD) >> 26)
}

#[inline]
fn slot(group: u32, bits: u32) -> usize {
    (group.wrapping_mul(SPREAD) >> (32u32.saturating_sub(bits))) as usize
}

/// Calls `each` with the slots that a wildcard could be filed under: those of its groups of bytes that hold no star.
#[inline]
fn each_slot(entry: &Entry, block: &[u8], bits: u32, mut each: impl FnMut(usize)) {
    for piece in pieces(entry, block) {
        for group in slice::windows(piece) {
            each(slot(u32::from_le_bytes(group), bits));
        }
    }
}

/// Appends the index of the wildcards to `out`, if they are enough.
pub(crate) fn write(wildcards: &[Entry], out: &mut Vec<u8>) {
    if !(INDEXED_MIN..=INDEXED_MAX).contains(&wildcards.len()) {
        return;
    }
    let bits = wildcards.len().saturating_mul(2).next_power_of_two().ilog2().min(16);
    let chosen = choose_slots(wildcards, out, bits);
    let mut starts = vec![0u32; (1usize << bits).saturating_add(2)];
    for slot in &chosen {
        add_one(&mut starts, slot.wrapping_add(1));
    }
    let mut before = 0;
    for start in &mut starts {
        before = start.wrapping_add(before);
        *start = before;
    }
    out.extend_from_slice(&(bits as u16).to_le_bytes());
    for start in &starts {
        out.extend_from_slice(&(*start as u16).to_le_bytes());
    }
    let list_at = out.len();
    out.resize(wildcards.len().saturating_mul(2).saturating_add(list_at), 0);
    let list = out.get_mut(list_at..).unwrap_or_default().as_chunks_mut::<2>().0;
    for (number, slot) in chosen.iter().enumerate() {
        let place = starts.get(*slot).map_or(usize::MAX, |start| *start as usize);
        if let Some(bytes) = list.get_mut(place) {
            *bytes = (number as u16).to_le_bytes();
        }
        add_one(&mut starts, *slot);
    }
}

#[inline]
fn add_one(counts: &mut [u32], at: usize) {
    if let Some(count) = counts.get_mut(at) {
        *count = count.wrapping_add(1);
    }
}

/// For each wildcard the slot that the fewest patterns could be filed under; the one behind the last for those without
/// any.
fn choose_slots(wildcards: &[Entry], block: &[u8], bits: u32) -> Vec<usize> {
    let mut load = vec![0u32; 1 << bits];
    for entry in wildcards {
        each_slot(entry, block, bits, |slot| add_one(&mut load, slot));
    }
    let load = &load[..];
    // Walked twice rather than written down: a file of long patterns has as many groups as bytes, in memory four times that.
    let rarest = move |entry| {
        let (mut rarest, mut least) = (1 << bits, u32::MAX);
        each_slot(entry, block, bits, |slot| {
            if let Some(load) = load.get(slot)
                && *load < least
            {
                (rarest, least) = (slot, *load);
            }
        });
        rarest
    };
    wildcards.iter().map(rarest).collect()
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
        let (starts, list) = rest.split_at_checked((1usize << bits).saturating_add(2))?;
        Some(Self { bits, starts, list })
    }

    /// The patterns filed under the group of bytes, in order of precedence: their numbers as two bytes.
    #[inline]
    pub(crate) fn under(&self, group: [u8; 4]) -> &'a [[u8; 2]] {
        self.slot(slot(u32::from_le_bytes(group), self.bits))
    }

    /// The patterns that are filed under none.
    pub(crate) fn unfiled(&self) -> &'a [[u8; 2]] {
        self.slot(1 << self.bits)
    }

    #[inline]
    fn slot(&self, slot: usize) -> &'a [[u8; 2]] {
        let number = |bytes: [u8; 2]| usize::from(u16::from_le_bytes(bytes));
        match self.starts.get(slot..slot.wrapping_add(2)) {
            Some([start, end]) => self.list.get(number(*start)..number(*end)).unwrap_or_default(),
            _ => &[],
        }
    }
}
