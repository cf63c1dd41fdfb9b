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
    let mut sweep = Sweep::new(parts, count, target, query);
    for at in 0..=target.len() {
        sweep.start(at);
        sweep.advance(at);
    }
    sweep.best
}

/// A pattern: where its pieces are, and whether the last must end the target.
struct Pattern {
    first: usize,
    pieces: usize,
    at_end: bool,
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
    target: &'a [u8],
    query: usize,
    patterns: Vec<Pattern>,
    /// The pieces of all patterns, in the form they have in the path and in that of the query
    /// ([`crate::normal::query_form`]), and both as numbers of distinct ones.
    forms: Vec<[&'a [u8]; 2]>,
    numbers: Vec<[u32; 2]>,
    pieces: Vec<Piece<'a>>,
    stages: Vec<u32>,
    waiting: Vec<Waiting>,
    /// For each octet of the target, the first of the patterns whose next piece may start there.
    starting: Vec<u32>,
    best: Option<usize>,
}

impl<'a> Sweep<'a> {
    fn new(parts: &Parts<'a>, count: usize, target: &'a [u8], query: usize) -> Self {
        let mut sweep = Self {
            target,
            query,
            patterns: Vec::with_capacity(count),
            forms: Vec::with_capacity(2 * count),
            numbers: Vec::new(),
            pieces: Vec::new(),
            stages: vec![0; count],
            waiting: Vec::with_capacity(count),
            starting: vec![NOBODY; target.len() + 1],
            best: None,
        };
        for index in 0..count {
            sweep.add(&parts.wildcard(index), parts.block);
        }
        sweep.number_pieces();
        sweep
    }

    /// Takes a pattern apart. It waits for its first piece if the target starts as it does.
    fn add(&mut self, entry: &Entry, block: &'a [u8]) {
        let pattern = entry.pattern(block);
        let at_end = pattern.last() == Some(&b'$');
        let split = |form: &'a [u8]| form[..form.len() - usize::from(at_end)].split(|&octet| octet == b'*');
        let mut pieces = split(pattern);
        let head = pieces.next().unwrap_or_default();
        let first = self.forms.len();
        if entry.link == 0 {
            self.forms.extend(pieces.map(|piece| [piece, piece]));
        } else {
            let in_query = split(entry.query_form(block)).skip(1);
            self.forms.extend(pieces.zip(in_query).map(|(path, query)| [path, query]));
        }
        self.patterns.push(Pattern { first, pieces: self.forms.len() - first, at_end });
        if self.target.starts_with(head) {
            self.wait_to_start(self.patterns.len() as u32 - 1, head.len());
        }
    }

    fn number_pieces(&mut self) {
        // Both forms of nearly all pieces are the same, and numbered once. The lower bit tells the form.
        let forms = &self.forms;
        let text = |number: u32| forms[number as usize / 2][number as usize % 2];
        // A form that differs is shorter: an escape is one octet there.
        let same = |number: u32| text(number).len() == text(number ^ 1).len();
        let numbers = (0..2 * forms.len() as u32).filter(|&number| number % 2 == 0 || !same(number));
        let order = sort::by_octets(numbers, 0, text);
        self.numbers = vec![[0; 2]; forms.len()];
        for number in order {
            if self.pieces.last().is_none_or(|last| last.text != text(number)) {
                self.pieces.push(Piece { text: text(number), link: 0, anywhere: NOBODY, in_query: NOBODY });
            }
            let piece = self.pieces.len() as u32 - 1;
            let forms = &mut self.numbers[number as usize / 2];
            forms[number as usize % 2] = piece;
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
            let piece = self.forms[pattern.first + stage as usize];
            let last = stage as usize + 1 == pattern.pieces;
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
        let [anywhere, in_query] = self.numbers[pattern.first + stage as usize];
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
        let (count, shared) = prefix::last_before(0..pieces.len(), 0, |index| pieces[index].text, rest);
        let mut number = (count as u32).wrapping_sub(1);
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
                if stage as usize + 1 == self.patterns[pattern as usize].pieces {
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
