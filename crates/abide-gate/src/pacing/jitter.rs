//! Jitter from a seed, so that a run can be repeated.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// SplitMix64 (Steele, Lea, Flood 2014): enough for jitter and for names that must only differ.
#[derive(Debug)]
pub(crate) struct Jitter {
    state: AtomicU64,
}

impl Jitter {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// Seeded by the keys that the standard library draws for its hash maps.
    pub(crate) fn random() -> Self {
        Self::seeded(RandomState::new().hash_one(0_u64))
    }

    pub(crate) fn bits(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1, without 1.
    pub(crate) fn unit(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_sequence() {
        let jitter = Jitter::seeded(0);
        // The first outputs of SplitMix64 from 0, as published with its source.
        assert_eq!(jitter.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(jitter.bits(), 0x6e78_9e6a_a1b9_65f4);
        let (once, again) = (Jitter::seeded(7), Jitter::seeded(7));
        assert!((0..100).all(|_| once.bits() == again.bits()));
    }

    #[test]
    fn units_are_from_0_to_1_and_spread() {
        let jitter = Jitter::seeded(1);
        let units: Vec<f64> = (0..1_000).map(|_| jitter.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = units.iter().sum::<f64>() / 1_000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
