//! Each target over its corpus and over inputs grown from it: a fuzzer without feedback, for every compiler and every day.
//!
//! `ABIDE_FUZZ_INPUTS=3000000` tries more of them (with `--profile fuzz`, six minutes of two cores), `ABIDE_FUZZ_SEED` others.

use std::path::Path;
use std::sync::LazyLock;

use crate::{TARGETS, Target};

/// Words of the languages that are read, which chance would take long to find.
static WORDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| crate::list(include_str!("words.txt")));

struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    /// A child of one or two members of the corpus.
    fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(6) {
            let (at, end) = (self.below(input.len() + 1), input.len());
            match self.below(6) {
                0 => input.truncate(at),
                1 => drop(input.drain(at..(at + self.below(8)).min(end))),
                2 => input.splice(at..at, WORDS[self.below(WORDS.len())].iter().copied()).for_each(drop),
                3 => input.insert(at, self.below(256) as u8),
                4 if at < end => input[at] ^= 1 << self.below(8),
                _ => {
                    let other = &corpus[self.below(corpus.len())];
                    let from = self.below(other.len());
                    input.truncate(at);
                    input.extend(&other[from..]);
                }
            }
        }
        input.truncate(4096);
        input
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a file")).collect()
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs one input, and writes it down if it is a finding.
fn try_one(name: &str, run: fn(&[u8]), input: &[u8]) {
    let result = std::panic::catch_unwind(|| run(input));
    if let Err(panic) = result {
        let file = std::env::temp_dir().join(format!("abide-finding-{name}"));
        let _ = std::fs::write(&file, input);
        eprintln!("a finding of {name}: {}", file.display());
        std::panic::resume_unwind(panic);
    }
}

fn smoke((name, run, share): Target) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name} has a corpus");
    for input in &corpus {
        try_one(name, run, input);
    }
    let mut chance = Chance(number("ABIDE_FUZZ_SEED", 1) as u64);
    for _ in 0..number("ABIDE_FUZZ_INPUTS", 2_000) * share / 1000 {
        let input = chance.input(&corpus);
        try_one(name, run, &input);
    }
}

macro_rules! smoke {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                smoke(TARGETS.into_iter().find(|target| target.0 == stringify!($name)).expect("it is listed"));
            }
        )*

        #[test]
        fn every_target_is_tried() {
            assert_eq!([$(stringify!($name)),*].len(), TARGETS.len());
        }
    };
}

smoke! {
    app_directives cache_control common_head fetch_script gate_ops meta_stream record_decode retry_after robots_differential robots_match
    robots_parse robots_roundtrip tag_header target_normalise
}
