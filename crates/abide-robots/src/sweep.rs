//! All wildcard patterns against one target in one walk: what bounds the work on files that were made to cause it.
//!
//! Each pattern waits for the next of its pieces. At each byte of the target the pieces that start there are found by
//! one search ([`prefix`]); the patterns that wait for one of them go on to their next piece, which may start where
//! this one ends. So the work is that of one search per byte, and one step per piece, however the two are chosen.

use alloc::vec;
use alloc::vec::Vec;

use crate::block::{Entry, Parts};
use crate::prefix;
use crate::slice;
use crate::sort::{self, Sorted};
use crate::work;

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

/// A distinct piece, and the patterns that wait for it anywhere, and in the query.
struct Piece<'a> {
    text: &'a [u8],
    link: u32,
    anywhere: Vec<Waiting>,
    in_query: Vec<Waiting>,
}

/// A pattern that waits, and how many of its pieces have been found.
struct Waiting {
    pattern: u32,
    stage: u32,
}

struct Sweep<'a> {
    target: &'a [u8],
    query: usize,
    patterns: Vec<Pattern>,
    /// The pieces of all patterns, in the form they have in the path and in that of the query
    /// ([`crate::normal::query_form`]), and both as numbers of distinct ones.
    forms: Vec<[&'a [u8]; 2]>,
    numbers: Vec<[u32; 2]>,
    pieces: Vec<Piece<'a>>,
    /// For each pattern, how many of its pieces have been found.
    stages: Vec<u32>,
    /// For each byte of the target, the patterns whose next piece may start there.
    starting: Vec<Vec<u32>>,
    best: Option<usize>,
}

impl<'a> Sweep<'a> {
    fn new(parts: &Parts<'a>, count: usize, target: &'a [u8], query: usize) -> Self {
        let mut sweep = Self {
            target,
            query,
            patterns: Vec::with_capacity(count),
            forms: Vec::with_capacity(count.saturating_mul(2)),
            numbers: Vec::new(),
            pieces: Vec::new(),
            stages: vec![0; count],
            starting: vec![Vec::new(); target.len().saturating_add(1)],
            best: None,
        };
        for index in 0..count {
            if let Some(entry) = parts.wildcard(index) {
                sweep.add(&entry, parts.block);
            }
        }
        sweep.number_pieces();
        sweep
    }

    /// Takes a pattern apart. It waits for its first piece if the target starts as it does.
    fn add(&mut self, entry: &Entry, block: &'a [u8]) {
        let pattern = entry.pattern(block);
        let at_end = pattern.last() == Some(&b'$');
        let split = |form: &'a [u8]| form.strip_suffix(b"$").unwrap_or(form).split(|&byte| byte == b'*');
        let mut pieces = split(pattern);
        let head = pieces.next().unwrap_or_default();
        let first = self.forms.len();
        if entry.link == 0 {
            self.forms.extend(pieces.map(|piece| [piece, piece]));
        } else {
            let in_query = split(entry.query_form(block)).skip(1);
            self.forms.extend(pieces.zip(in_query).map(|(path, query)| [path, query]));
        }
        let number = self.patterns.len() as u32;
        self.patterns.push(Pattern { first, pieces: self.forms.len().saturating_sub(first), at_end });
        if self.target.starts_with(head) {
            self.wait_to_start(number, head.len());
        }
    }

    fn number_pieces(&mut self) {
        // Both forms of nearly all pieces are the same, and numbered once. The lower bit tells the form.
        let forms = &self.forms;
        let text = |number: u32| match forms.get(number as usize / 2) {
            Some([path, _]) if number & 1 == 0 => *path,
            Some([_, query]) => *query,
            None => &[][..],
        };
        // A form that differs is shorter: an escape is one byte there.
        let same = |number: u32| text(number).len() == text(number ^ 1).len();
        let numbers =
            (0..(forms.len() as u32).saturating_mul(2)).filter(|&number| number & 1 == 0 || !same(number));
        self.numbers = vec![[0; 2]; forms.len()];
        work::count(self.forms.len());
        for Sorted { number, shared, .. } in sort::by_bytes(numbers, 0, text) {
            if self.pieces.is_empty() || shared != sort::ALL {
                let link = prefix::link(self.pieces.len(), shared, |index| {
                    self.pieces.get(index).map(|piece| (piece.text.len() as u32, piece.link))
                });
                let (anywhere, in_query) = (Vec::new(), Vec::new());
                self.pieces.push(Piece { text: text(number), link, anywhere, in_query });
            }
            let piece = (self.pieces.len() as u32).wrapping_sub(1);
            if let Some([path, query]) = self.numbers.get_mut(number as usize / 2) {
                let is_query = number & 1 == 1;
                if !is_query {
                    *path = piece;
                }
                if is_query || same(number) {
                    *query = piece;
                }
            }
        }
    }

    /// Patterns whose next piece may start at `at` begin to wait for it.
    fn start(&mut self, at: usize) {
        for pattern in self.starting.get_mut(at).map(core::mem::take).unwrap_or_default() {
            work::count(1);
            self.wait_for_piece(pattern, at);
        }
    }

    fn wait_for_piece(&mut self, number: u32, at: usize) {
        let Some(pattern) = self.patterns.get(number as usize) else { return };
        let Some(stage) = self.stages.get_mut(number as usize) else { return };
        let next = pattern.first.saturating_add(*stage as usize);
        let forms = self.forms.get(next..).unwrap_or_default();
        let mut pieces = forms.iter().zip(self.numbers.get(next..).unwrap_or_default());
        loop {
            let Some((piece, [anywhere, in_query])) = pieces.next() else { return };
            work::count(1);
            let last = (*stage as usize).saturating_add(1) == pattern.pieces;
            let is_empty = piece[0].is_empty();
            if last && (pattern.at_end || is_empty) {
                if !pattern.at_end || ends_with(*piece, self.target, at, self.query) {
                    self.found(number);
                }
                return;
            }
            if !is_empty {
                let stage = *stage;
                if let Some(piece) = self.pieces.get_mut(*anywhere as usize) {
                    piece.anywhere.push(Waiting { pattern: number, stage });
                }
                if in_query != anywhere
                    && let Some(piece) = self.pieces.get_mut(*in_query as usize)
                {
                    piece.in_query.push(Waiting { pattern: number, stage });
                }
                return;
            }
            *stage = stage.saturating_add(1);
        }
    }

    /// Finds the pieces that start at `at`; the patterns that waited for them go on.
    fn advance(&mut self, at: usize) {
        let rest = slice::from(self.target, at);
        let pieces = &self.pieces;
        let text_of = |index: usize| pieces.get(index).map(|piece| piece.text).unwrap_or_default();
        let (count, shared) = prefix::last_before(0..pieces.len(), 0, text_of, rest);
        let mut number = (count as u32).wrapping_sub(1);
        while let Some(piece) = self.pieces.get_mut(number as usize) {
            work::count(1);
            let (length, link) = (piece.text.len(), piece.link);
            if length <= shared && length <= rest.len() {
                let mut found = core::mem::take(&mut piece.anywhere);
                if at >= self.query {
                    found.append(&mut piece.in_query);
                }
                self.go_on(found, at.saturating_add(length));
            }
            number = link;
        }
    }

    fn go_on(&mut self, found: Vec<Waiting>, end: usize) {
        for Waiting { pattern, stage } in found {
            work::count(1);
            // It may have waited for two forms, and the other was found first.
            if let Some(at_hand) = self.stages.get_mut(pattern as usize)
                && *at_hand == stage
            {
                *at_hand = stage.saturating_add(1);
                let pieces = self.patterns.get(pattern as usize).map_or(0, |pattern| pattern.pieces);
                if *at_hand as usize == pieces {
                    self.found(pattern);
                } else {
                    self.wait_to_start(pattern, end);
                }
            }
        }
    }

    fn wait_to_start(&mut self, pattern: u32, at: usize) {
        if let Some(patterns) = self.starting.get_mut(at) {
            patterns.push(pattern);
        }
    }

    fn found(&mut self, pattern: u32) {
        let pattern = pattern as usize;
        self.best = Some(self.best.map_or(pattern, |best| best.min(pattern)));
    }
}

fn ends_with([path, in_query]: [&[u8]; 2], target: &[u8], from: usize, query: usize) -> bool {
    let rest = |from: usize| slice::from(target, from);
    rest(from).ends_with(path)
        || (in_query.len() < path.len()
            && from.max(query) <= target.len()
            && rest(from.max(query)).ends_with(in_query))
}
