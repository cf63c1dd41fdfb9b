//! All wildcard patterns against one target in one walk: what bounds the work on files that were made to cause it.
//!
//! Each pattern waits for the next of its pieces. At each octet of the target the pieces that start there are found by
//! one search ([`prefix`]); the patterns that wait for one of them go on to their next piece, which may start where
//! this one ends. So the work is that of one search per octet, and one step per piece, however the two are chosen.

use alloc::vec;
use alloc::vec::Vec;

use crate::block::{Entry, Parts};
use crate::prefix;
use crate::sort;

/// The first of the `count` first wildcards that covers the target.
pub(crate) fn first_match(parts: &Parts<'_>, count: usize, target: &[u8], query: usize) -> Option<usize> {
    let patterns: Vec<Pattern<'_>> =
        (0..count).map(|index| Pattern::of(&parts.wildcard(index), parts.block)).collect();
    let mut sweep = Sweep::new(&patterns, target, query);
    for at in 0..=target.len() {
        sweep.start(at);
        sweep.advance(at);
    }
    sweep.best
}

/// A pattern as its pieces, in both forms; see [`crate::normal::query_form`].
struct Pattern<'a> {
    head: &'a [u8],
    pieces: Vec<[&'a [u8]; 2]>,
    at_end: bool,
}

impl<'a> Pattern<'a> {
    fn of(entry: &Entry, block: &'a [u8]) -> Self {
        let [path, query] = [entry.pattern(block), entry.query_form(block)];
        let at_end = path.last() == Some(&b'$');
        let split = |form: &'a [u8]| form[..form.len() - usize::from(at_end)].split(|&octet| octet == b'*');
        let mut pieces = split(path).zip(split(query)).map(|(path, query)| [path, query]);
        let head = pieces.next().unwrap_or_default()[0];
        Self { head, pieces: pieces.collect(), at_end }
    }
}

/// A distinct piece, and who waits for it.
struct Piece<'a> {
    text: &'a [u8],
    link: u32,
    /// The first of those who wait for it anywhere, and in the query.
    anywhere: u32,
    in_query: u32,
}

/// A pattern that waits; they form lists.
#[derive(Clone, Copy)]
struct Waiting {
    pattern: u32,
    stage: u32,
    next: u32,
}

const NOBODY: u32 = u32::MAX;

struct Sweep<'a> {
    patterns: &'a [Pattern<'a>],
    target: &'a [u8],
    query: usize,
    pieces: Vec<Piece<'a>>,
    /// The pieces of each pattern as numbers of distinct ones, in both forms, and where those of a pattern start.
    numbers: Vec<[u32; 2]>,
    first_number: Vec<usize>,
    stages: Vec<u32>,
    waiting: Vec<Waiting>,
    /// For each octet of the target, the first of the patterns whose next piece may start there.
    starting: Vec<u32>,
    best: Option<usize>,
}

impl<'a> Sweep<'a> {
    fn new(patterns: &'a [Pattern<'a>], target: &'a [u8], query: usize) -> Self {
        let mut sweep = Self {
            patterns,
            target,
            query,
            pieces: Vec::new(),
            numbers: Vec::new(),
            first_number: Vec::with_capacity(patterns.len()),
            stages: vec![0; patterns.len()],
            waiting: Vec::with_capacity(patterns.len()),
            starting: vec![NOBODY; target.len() + 1],
            best: None,
        };
        sweep.number_pieces();
        for (number, pattern) in patterns.iter().enumerate() {
            if target.starts_with(pattern.head) {
                sweep.wait_to_start(number as u32, pattern.head.len());
            }
        }
        sweep
    }

    fn number_pieces(&mut self) {
        let mut texts: Vec<&[u8]> = Vec::new();
        for pattern in self.patterns {
            self.first_number.push(texts.len() / 2);
            texts.extend(pattern.pieces.iter().flatten());
        }
        // Both forms of nearly all pieces are the same, and numbered once.
        let same = |number: usize| texts[number] == texts[number ^ 1];
        let numbers = (0..texts.len()).filter(|&number| number % 2 == 0 || !same(number));
        let mut order: Vec<sort::Keyed> = numbers.map(|number| (0, number as u32)).collect();
        sort::by_octets(&mut order, 0, |number| texts[number as usize]);
        self.numbers = vec![[0; 2]; texts.len() / 2];
        for (_, number) in order {
            let number = number as usize;
            let text = texts[number];
            if self.pieces.last().is_none_or(|last| last.text != text) {
                self.pieces.push(Piece { text, link: 0, anywhere: NOBODY, in_query: NOBODY });
            }
            let piece = self.pieces.len() as u32 - 1;
            let forms = &mut self.numbers[number / 2];
            forms[number % 2] = piece;
            if same(number) {
                *forms = [piece; 2];
            }
        }
        prefix::link(&mut self.pieces, |piece| piece.text, |piece| &mut piece.link);
    }

    /// Patterns whose next piece may start at `at` begin to wait for it.
    fn start(&mut self, at: usize) {
        let mut next = self.starting[at];
        while next != NOBODY {
            let waiting = self.waiting[next as usize];
            self.wait_for_piece(waiting.pattern, at);
            next = waiting.next;
        }
    }

    fn wait_for_piece(&mut self, number: u32, at: usize) {
        let pattern = &self.patterns[number as usize];
        let mut stage = self.stages[number as usize];
        loop {
            let piece = pattern.pieces[stage as usize];
            let last = stage as usize + 1 == pattern.pieces.len();
            if last && (pattern.at_end || piece[0].is_empty()) {
                if !pattern.at_end || self.ends_with(piece, at) {
                    self.found(number);
                }
                return;
            }
            if !piece[0].is_empty() {
                break;
            }
            stage += 1;
        }
        self.stages[number as usize] = stage;
        let [anywhere, in_query] = self.numbers[self.first_number[number as usize] + stage as usize];
        let waiting = &mut self.waiting;
        push(waiting, &mut self.pieces[anywhere as usize].anywhere, number, stage);
        if in_query != anywhere {
            push(waiting, &mut self.pieces[in_query as usize].in_query, number, stage);
        }
    }

    fn ends_with(&self, [path, query]: [&[u8]; 2], from: usize) -> bool {
        let rest = |from: usize| self.target.get(from..).unwrap_or_default();
        rest(from).ends_with(path)
            || (query.len() < path.len()
                && from.max(self.query) <= self.target.len()
                && rest(from.max(self.query)).ends_with(query))
    }

    /// The pieces that start at `at`: who waited for them goes on.
    fn advance(&mut self, at: usize) {
        let rest = &self.target[at..];
        let pieces = &self.pieces;
        let Some((last, shared)) = prefix::last_before(0..pieces.len(), 0, |index| pieces[index].text, rest)
        else {
            return;
        };
        let mut number = last as u32;
        while number != prefix::NONE {
            let piece = &mut self.pieces[number as usize];
            let (length, link) = (piece.text.len(), piece.link);
            if length <= shared && length <= rest.len() {
                let anywhere = core::mem::replace(&mut piece.anywhere, NOBODY);
                let in_query =
                    if at >= self.query { core::mem::replace(&mut piece.in_query, NOBODY) } else { NOBODY };
                self.go_on(anywhere, at + length);
                self.go_on(in_query, at + length);
            }
            number = link;
        }
    }

    fn go_on(&mut self, mut next: u32, end: usize) {
        while next != NOBODY {
            let Waiting { pattern, stage, next: following } = self.waiting[next as usize];
            // It may have waited for two forms, and the other came first.
            if self.stages[pattern as usize] == stage {
                self.stages[pattern as usize] += 1;
                if stage as usize + 1 == self.patterns[pattern as usize].pieces.len() {
                    self.found(pattern);
                } else {
                    self.wait_to_start(pattern, end);
                }
            }
            next = following;
        }
    }

    fn wait_to_start(&mut self, pattern: u32, at: usize) {
        push(&mut self.waiting, &mut self.starting[at], pattern, 0);
    }

    fn found(&mut self, pattern: u32) {
        let pattern = pattern as usize;
        self.best = Some(self.best.map_or(pattern, |best| best.min(pattern)));
    }
}

fn push(waiting: &mut Vec<Waiting>, list: &mut u32, pattern: u32, stage: u32) {
    waiting.push(Waiting { pattern, stage, next: *list });
    *list = waiting.len() as u32 - 1;
}
