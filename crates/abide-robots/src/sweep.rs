//! All wildcard patterns against one target in one walk: what bounds the work on files that were made to
//! cause it.
//!
//! Each pattern waits for the next of its pieces. At each byte of the target the pieces that start there are
//! found by one search ([`literals`]); the patterns that wait for one of them go on to their next piece,
//! which may start where this one ends. So the work is that of one search per byte, and one per piece,
//! however the two are chosen.

use alloc::vec;
use alloc::vec::Vec;
use core::mem::take;
use core::ops::Range;

use crate::compiled::Wildcard;
use crate::literals;
use crate::pattern::Pieces;
use crate::slice;
use crate::work;

/// Those of the numbered wildcards that cover the target.
pub(crate) fn covering<'a>(
    wildcards: impl Iterator<Item = (u32, &'a Wildcard)>,
    text: &'a [u8],
    target: &'a [u8],
    query: usize,
) -> Vec<u32> {
    let starting = vec![Vec::new(); target.len().saturating_add(1)];
    let mut sweep = Sweep { target, query, starting, covering: Vec::new() };
    for (number, wildcard) in wildcards {
        let (head, pieces) = Pieces::of(wildcard.rule.pattern(text), wildcard.query_form(text));
        if let Some(pieces) = pieces
            && target.starts_with(head)
        {
            sweep.go_on(Waiting { number, pieces, next: 0 }, head.len());
        }
    }
    sweep.walk(0..query, |pieces| pieces.path);
    // What does not start before the query is looked for as it reads there.
    sweep.walk(query..target.len(), |pieces| pieces.query);
    sweep.covering
}

impl<'a> Waiting<'a> {
    fn after(self, pieces: Pieces<'a>) -> Self {
        Self { pieces, next: self.next.wrapping_add(1), ..self }
    }
}

struct Sweep<'a> {
    target: &'a [u8],
    query: usize,
    /// For each byte of the target, the patterns whose next piece may start there.
    starting: Vec<Vec<Waiting<'a>>>,
    covering: Vec<u32>,
}

/// A pattern, and what of it has not been found.
#[derive(Clone, Copy)]
struct Waiting<'a> {
    number: u32,
    pieces: Pieces<'a>,
    /// The place of the next piece among those of all patterns.
    next: u32,
}

/// A distinct piece, and the patterns that wait for it.
struct Piece<'a> {
    text: &'a [u8],
    link: u32,
    waiting: Vec<Waiting<'a>>,
}

impl<'a> Sweep<'a> {
    /// Pieces of the pattern may be found from `at` on.
    fn go_on(&mut self, mut pattern: Waiting<'a>, at: usize) {
        loop {
            match pattern.pieces.split() {
                (piece, None) if piece.at_end || piece.path.is_empty() => {
                    if piece.end(self.target, at, self.query) {
                        self.covering.push(pattern.number);
                    }
                    return;
                }
                (piece, Some(pieces)) if piece.path.is_empty() => pattern = pattern.after(pieces),
                _ => break,
            }
        }
        if let Some(starting) = self.starting.get_mut(at) {
            starting.push(pattern);
        }
    }

    /// Finds the pieces, in one of their forms, that start in this part of the target.
    fn walk(&mut self, range: Range<usize>, form: impl Fn(&Pieces<'a>) -> &'a [u8]) {
        if range.is_empty() {
            return;
        }
        let (mut pieces, numbers) = self.pieces(form);
        for at in range.clone() {
            for pattern in self.starting.get_mut(at).map(take).unwrap_or_default() {
                work::count(1);
                let number = numbers.get(pattern.next as usize).copied().unwrap_or_default();
                if let Some(piece) = pieces.get_mut(number as usize) {
                    piece.waiting.push(pattern);
                }
            }
            self.find(&mut pieces, at);
        }
        if let Some(starting) = self.starting.get_mut(range.end) {
            // What was not found in this part may be found in the next.
            starting.extend(pieces.into_iter().flat_map(|piece| piece.waiting));
        }
    }

    /// The distinct pieces that are still to be found, sorted and linked; and for each piece of all patterns,
    /// which of these it is.
    fn pieces(&mut self, form: impl Fn(&Pieces<'a>) -> &'a [u8]) -> (Vec<Piece<'a>>, Vec<u32>) {
        let mut texts: Vec<&[u8]> = Vec::new();
        for pattern in self.starting.iter_mut().flatten() {
            pattern.next = texts.len() as u32;
            texts.extend(form(&pattern.pieces).split(|&byte| byte == b'*'));
        }
        work::count(texts.len());
        let (mut pieces, mut numbers) = (Vec::<Piece<'_>>::new(), vec![0; texts.len()]);
        let text_of = |number: u32| texts.get(number as usize).copied().unwrap_or_default();
        for sorted in literals::sorted(texts.iter().map(|text| literals::key(text)), text_of) {
            let text = text_of(sorted.number);
            if pieces.last().is_none_or(|last| last.text != text) {
                let shared = pieces.last().map_or(0, |last| literals::common(0, last.text, text));
                let before = |index: usize| pieces.get(index).map(|piece| (piece.text.len(), piece.link));
                let link = literals::link(pieces.len(), shared, before);
                pieces.push(Piece { text, link, waiting: Vec::new() });
            }
            if let Some(number) = numbers.get_mut(sorted.number as usize) {
                *number = (pieces.len() as u32).wrapping_sub(1);
            }
        }
        (pieces, numbers)
    }

    /// Finds the pieces that start at `at`; the patterns that waited for them go on.
    fn find(&mut self, pieces: &mut [Piece<'a>], at: usize) {
        let rest = slice::from(self.target, at);
        let text_of = |index: usize| pieces.get(index).map(|piece| piece.text).unwrap_or_default();
        let (count, shared) = literals::last_before(0..pieces.len(), 0, text_of, rest);
        let mut number = (count as u32).wrapping_sub(1);
        while let Some(piece) = pieces.get_mut(number as usize) {
            work::count(1);
            if piece.text.len() <= shared.min(rest.len()) {
                let end = at.saturating_add(piece.text.len());
                for pattern in take(&mut piece.waiting) {
                    work::count(1);
                    match pattern.pieces.split().1 {
                        Some(pieces) => self.go_on(pattern.after(pieces), end),
                        None => self.covering.push(pattern.number),
                    }
                }
            }
            number = piece.link;
        }
    }
}
