//! Equal texts once: the bodies of robots.txt and their compiled rules, shared by all hosts that send the
//! same.
//!
//! Hosters and shop systems give the same robots.txt to thousands of hosts. A text lives as long as an entry
//! uses it. Rules are shared within one cache only: they are compiled for its product tokens.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use abide_robots::Rules;

/// The body of a robots.txt, and what it says to this crawler.
#[derive(Debug, Default)]
pub(super) struct RobotsText {
    pub(super) body: Arc<[u8]>,
    /// `None` in a record that is in no cache.
    pub(super) rules: Option<Rules>,
}

/// What a text takes besides its bytes: this block, the heads of the other two, its place here, and what an
/// allocator adds.
const TEXT_WEIGHT: usize = 160;

impl RobotsText {
    pub(super) fn new(body: impl Into<Arc<[u8]>>) -> Arc<Self> {
        Arc::new(Self { body: body.into(), ..Self::default() })
    }

    /// How many bytes it takes, for however many entries.
    pub(super) fn weight(&self) -> usize {
        let rules = self.rules.as_ref().map_or(0, Rules::heap_size);
        self.body.len().saturating_add(rules).saturating_add(TEXT_WEIGHT)
    }
}

impl PartialEq for RobotsText {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body
    }
}

/// The texts in use, by a hash of their body.
#[derive(Default)]
pub(super) struct Interner {
    texts: Mutex<Texts>,
    hasher: RandomState,
}

#[derive(Default)]
struct Texts {
    by_hash: HashMap<u64, Weak<RobotsText>>,
    /// With so many, those that are no longer in use are removed.
    sweep_at: usize,
}

/// Fewer are not worth a sweep.
const SWEEP_MIN: usize = 1024;

impl Interner {
    /// The text in use with this body. If there is none, its rules are compiled.
    pub(super) fn get(&self, body: &Arc<[u8]>, compile: impl FnOnce(&[u8]) -> Rules) -> Arc<RobotsText> {
        let hash = self.hasher.hash_one(body);
        let found = self.lock().by_hash.get(&hash).and_then(Weak::upgrade);
        // Two bodies can have one hash. Then they are not shared.
        if let Some(text) = found.filter(|text| text.body == *body) {
            return text;
        }
        // Not under the lock: half a megabyte takes milliseconds.
        let (body, rules) = (Arc::clone(body), Some(compile(body)));
        let text = Arc::new(RobotsText { body, rules });
        let mut texts = self.lock();
        if texts.by_hash.len() >= texts.sweep_at.max(SWEEP_MIN) {
            texts.by_hash.retain(|_, text| text.strong_count() > 0);
            // At twice what is left, so that the cost of a sweep is spread over as many insertions.
            texts.sweep_at = texts.by_hash.len().saturating_mul(2);
        }
        // Another task may have put an equal one in meanwhile: that one goes with its entries.
        texts.by_hash.insert(hash, Arc::downgrade(&text));
        text
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(body: &[u8]) -> Rules {
        Rules::parse(body, &["ExampleBot".parse().unwrap()])
    }

    fn body(n: usize) -> Arc<[u8]> {
        format!("User-agent: *\nDisallow: /{n}\n").into_bytes().into()
    }

    #[test]
    fn texts_that_nothing_uses_are_forgotten() {
        let interner = Interner::default();
        let kept: Vec<_> = (0..10).map(|n| interner.get(&body(n), compile)).collect();
        for n in 10..10 * SWEEP_MIN {
            interner.get(&body(n), compile);
        }
        assert!(interner.lock().by_hash.len() <= SWEEP_MIN);
        for (n, text) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(text, &interner.get(&body(n), |_| panic!("it is in use"))));
        }
    }
}
