//! Jitter: numbers that all follow from one seed.
//!
//! Crawlers that back off on one schedule would come back at the same instant, so every wait of a schedule is
//! lengthened a little. The numbers only have to differ, and they come from a seed so that a run can be
//! repeated: a small generator of our own, not a crate of random numbers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// Draws numbers in `0.0..1.0` that all follow from one seed.
#[derive(Debug)]
pub(crate) struct Jitter {
    state: AtomicU64,
    spread: AtomicU64,
}

/// 2^64 divided by the golden ratio: each multiple falls into the widest gap that the earlier ones have left.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Jitter {
    /// Without a seed, from one at random.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one("abide"));
        Self { state: AtomicU64::new(seed), spread: AtomicU64::new(mixed(seed)) }
    }

    /// An independent number (SplitMix64: Steele, Lea, Flood 2014).
    pub(crate) fn bits(&self) -> u64 {
        mixed(self.state.fetch_add(GOLDEN, Ordering::Relaxed))
    }

    /// The same, from 0 to 1, without 1.
    pub(crate) fn draw(&self) -> f64 {
        unit(self.bits())
    }

    /// Numbers that keep away from each other, so that what is spread by them is even, without the clusters
    /// of chance.
    pub(crate) fn spread(&self) -> f64 {
        unit(self.spread.fetch_add(GOLDEN, Ordering::Relaxed))
    }
}

fn mixed(state: u64) -> u64 {
    let z = state.wrapping_add(GOLDEN);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The upper 53 bits, as many as a float holds.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_numbers_leave_no_crowd() {
        let jitter = Jitter::new(Some(3));
        let mut cells = [0_u32; 100];
        for _ in 0..10_000 {
            cells[(jitter.spread() * 100.0) as usize] += 1;
        }
        assert!(cells.iter().all(|&n| (95..=105).contains(&n)), "{cells:?}");
    }

    /// The first numbers of splitmix64 from 0, as its author publishes them.
    #[test]
    fn rolls_are_those_of_splitmix64() {
        assert_eq!([0, GOLDEN].map(mixed), [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        let jitter = Jitter::new(Some(0));
        assert_eq!([jitter.draw(), jitter.draw()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4].map(unit));
    }
}
