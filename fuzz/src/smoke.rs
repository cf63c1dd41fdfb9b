//! Each target over its corpus and over inputs grown from it: a fuzzer without feedback, for every compiler
//! and every day.
//!
//! `ABIDE_FUZZ_INPUTS=3000000` tries more of them (with `--profile fuzz`, six minutes of two cores),
//! `ABIDE_FUZZ_SEED` others.

use std::path::Path;
use std::sync::LazyLock;

use crate::gate_ops::plan::Rng;

/// Words of the languages that are read, which rng would take long to find.
static WORDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| crate::list(include_str!("words.txt")));

/// A child of one or two members of the corpus.
fn grown(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut below = |end: usize| rng.below(end.max(1) as u64) as usize;
    let mut input = corpus[below(corpus.len())].clone();
    for _ in 0..=below(6) {
        let (at, end) = (below(input.len() + 1), input.len());
        match below(6) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..(at + below(8)).min(end))),
            2 => input.splice(at..at, WORDS[below(WORDS.len())].iter().copied()).for_each(drop),
            3 => input.insert(at, below(256) as u8),
            4 if at < end => input[at] ^= 1 << below(8),
            _ => {
                let other = &corpus[below(corpus.len())];
                let from = below(other.len());
                input.truncate(at);
                input.extend(&other[from..]);
            }
        }
    }
    input.truncate(4096);
    input
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

fn smoke(name: &str, run: fn(&[u8]), share: usize) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name} has a corpus");
    for input in &corpus {
        try_one(name, run, input);
    }
    let mut rng = Rng::of(&[number("ABIDE_FUZZ_SEED", 1) as u64]);
    for _ in 0..number("ABIDE_FUZZ_INPUTS", 2_000) * share / 1000 {
        try_one(name, run, &grown(&corpus, &mut rng));
    }
}

/// The targets, and how many of the inputs each gets in a thousand: fewer where one takes longer.
macro_rules! smoke {
    ($($name:ident: $share:literal,)*) => {
        $(
            #[test]
            fn $name() {
                smoke(stringify!($name), crate::$name::run, $share);
            }
        )*

        #[test]
        fn every_target_is_tried() {
            let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
            assert_eq!([$(stringify!($name)),*].len(), std::fs::read_dir(targets).expect("a folder").count());
        }
    };
}

smoke! {
    app_directives: 60,
    cache_control: 1000,
    common_head: 1000,
    fetch_script: 100,
    gate_ops: 16,
    meta_stream: 250,
    record_decode: 800,
    retry_after: 1000,
    robots_differential: 800,
    robots_match: 800,
    robots_parse: 230,
    robots_roundtrip: 1000,
    tag_header: 80,
    target_normalise: 1000,
}
