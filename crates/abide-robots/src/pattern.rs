//! One path pattern and how it matches, RFC 9309 §2.2.2 and 2.2.3.
//!
//! Backtracking takes time exponential in the number of stars; here it is linear in pattern and target.

use alloc::vec::Vec;

use memchr::{memchr, memmem};

use crate::normal::{self, Side};
use crate::rules::Target;
use crate::slice;

impl Target<'_> {
    /// Whether a path pattern matches the target, and with how many bytes. For records with a path of their
    /// own, of which the longest match counts; rules are compiled into [`Rules`](crate::Rules).
    ///
    /// The pattern is as in a file, without space around it: `*` for any bytes, a final `$` for the end. A
    /// pattern that starts with neither `/` nor `*`, or is empty, matches nothing. The work is linear in both
    /// lengths.
    ///
    /// The bytes are those of the normal form, as RFC 9309 §2.2.2 counts them: in the query, `:`, `/`, `?`,
    /// `@` and `'` count as their encodings. The query of a pattern starts at its `?`. A pattern that reaches
    /// the query through a `*` counts as written: of `/*u=http://` and `/*u=http%3A%2F%2F`, which match the
    /// same queries, the second has more bytes.
    ///
    /// ```
    /// use abide_robots::Target;
    ///
    /// assert_eq!(Target::new("/a.php/b.php").covered_by(b"/*.php$"), Some(7));
    /// assert_eq!(Target::new("/a.php?x").covered_by(b"/*.php$"), None);
    /// ```
    pub fn covered_by(&self, pattern: &[u8]) -> Option<usize> {
        let mut form = Vec::with_capacity(pattern.len());
        normal::push_normal(pattern, Side::Pattern, &mut form);
        let query_form = normal::query_form(&form);
        let query_form = query_form.as_deref().unwrap_or(&form);
        let is_covered = can_match(&form) && matches(&form, query_form, self.bytes(), self.query());
        is_covered.then(|| normal::bytes(&form))
    }
}

/// Every target starts with `/`. RFC 9309 §2.2: `path-pattern = "/" *UTF8-char-noctl`.
/// Lenient: a leading `*` is widely used and means what it says.
pub(crate) fn can_match(pattern: &[u8]) -> bool {
    matches!(pattern.first(), Some(b'/' | b'*'))
}

/// Matches a pattern in normal form. Each piece between two stars is searched for from where the last piece
/// ended. The first place found is the best, because it leaves the most for the pieces after it, so no piece
/// is searched for twice.
///
/// `query_form` is the pattern as it reads inside the query ([`normal::query_form`]), which starts at
/// `query`; where it makes no difference, the pattern itself is given.
pub(crate) fn matches(pattern: &[u8], query_form: &[u8], target: &[u8], query: usize) -> bool {
    let (head, pieces) = Pieces::of(pattern, query_form);
    let Some(mut pieces) = pieces else {
        return match head.strip_suffix(b"$") {
            Some(head) => target == head,
            None => target.starts_with(head),
        };
    };
    if !target.starts_with(head) {
        return false;
    }
    let mut from = head.len();
    loop {
        match pieces.split() {
            (piece, None) if piece.at_end => return piece.end(target, from, query),
            (piece, None) => return piece.find(target, from, query).is_some(),
            (piece, Some(behind)) => match piece.find(target, from, query) {
                None => return false,
                Some(end) => (from, pieces) = (end, behind),
            },
        }
    }
}

/// What follows a star, in both forms; they have the same stars.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) query: &'a [u8],
    /// Whether the last piece must end the target: the pattern ends in `$`, which is left out here.
    pub(crate) at_end: bool,
}

impl<'a> Pieces<'a> {
    /// Splits a pattern at its first star. Without one, all of it is before.
    pub(crate) fn of(pattern: &'a [u8], query_form: &'a [u8]) -> (&'a [u8], Option<Self>) {
        let Some(star) = memchr(b'*', pattern) else { return (pattern, None) };
        let (path, query) = (slice::behind(pattern, star), slice::behind(query_form, star));
        let pieces = match (path.strip_suffix(b"$"), query.strip_suffix(b"$")) {
            (Some(path), Some(query)) => Self { path, query, at_end: true },
            _ => Self { path, query, at_end: false },
        };
        (slice::before(pattern, star), Some(pieces))
    }

    /// The first piece, and what follows the star behind it.
    pub(crate) fn split(self) -> (Self, Option<Self>) {
        let Self { path, query, .. } = self;
        let Some(star) = memchr(b'*', path) else { return (self, None) };
        // Where the forms differ, that of the query is shorter.
        let in_query =
            if path.len() == query.len() { star } else { memchr(b'*', query).unwrap_or(query.len()) };
        let first = Self { path: slice::before(path, star), query: slice::before(query, in_query), ..self };
        (first, Some(Self { path: slice::behind(path, star), query: slice::behind(query, in_query), ..self }))
    }

    /// Where the first occurrence of the piece at or behind `from` ends.
    ///
    /// A piece with two forms holds an escape that does not occur in a query, so its first form starts before
    /// the query does, and ends before any occurrence of the second. Behind that it is not looked for, so
    /// that no byte is looked at for every piece.
    fn find(self, target: &[u8], from: usize, query: usize) -> Option<usize> {
        let find = |from: usize, end: usize, piece: &[u8]| {
            let at = find_bytes(slice::before(target, end).get(from..)?, piece)?;
            Some(from.wrapping_add(at).wrapping_add(piece.len()))
        };
        if self.query.len() == self.path.len() {
            return find(from, target.len(), self.path);
        }
        find(from, query.saturating_add(self.path.len()), self.path)
            .or_else(|| find(from.max(query), target.len(), self.query))
    }

    /// Whether the piece, behind `from`, ends the target, or any end will do.
    pub(crate) fn end(self, target: &[u8], from: usize, query: usize) -> bool {
        !self.at_end
            || slice::from(target, from).ends_with(self.path)
            || (self.query.len() < self.path.len()
                && target.get(from.max(query)..).is_some_and(|rest| rest.ends_with(self.query)))
    }
}

/// Linear, whatever the bytes. Below the bound the simple search is faster, and its square is small.
fn find_bytes(text: &[u8], piece: &[u8]) -> Option<usize> {
    const SHORT: usize = 64;
    let Some((&first, rest)) = piece.split_first() else { return Some(0) };
    if rest.is_empty() {
        return memchr(first, text);
    }
    if text.len() > SHORT {
        return memmem::find(text, piece);
    }
    let found = |window: &[u8]| matches!(window, [head, tail @ ..] if *head == first && tail == rest);
    text.windows(piece.len()).position(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, target: &str, expected: bool) {
        let found = Target::new(target).covered_by(pattern.as_bytes());
        assert_eq!(found.is_some(), expected, "{pattern} against {target}");
    }

    #[test]
    fn each_row_of_patterns() {
        let rows = include_str!("../tests/vectors/patterns.tsv").lines().filter(|row| !row.starts_with('#'));
        for columns in rows.map(|row| row.split('\t').collect::<Vec<_>>()) {
            check(&columns[0].replace("<EMPTY>", ""), columns[1], columns[2] == "yes");
        }
    }

    #[test]
    fn the_bytes_of_a_pattern_are_those_of_its_normal_form() {
        assert_eq!(Target::new("/\u{fc}b").covered_by("/\u{fc}*".as_bytes()), Some(8));
    }

    #[test]
    fn long_pieces_and_targets_are_found_like_short_ones() {
        let target = alloc::format!("/{}b{}", "a".repeat(300), "a".repeat(300));
        check("/*ab*a$", &target, true);
        check("/*ab*b", &target, false);
        check(&alloc::format!("/*{}b", "a".repeat(300)), &target, true);
        check(&alloc::format!("/*{}b", "a".repeat(301)), &target, false);
    }
}
