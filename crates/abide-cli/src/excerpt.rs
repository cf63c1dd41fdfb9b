//! Lines of a robots.txt on a terminal, marked as compilers do.
//!
//! `lint` and `explain` point at bytes of a file. annotate-snippets draws; what is left is its columns of
//! letters, and lines too long or not text.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Renderer, Snippet};

use crate::sanitize::{escaped, masked};

#[derive(Debug, Clone)]
pub(crate) struct Mark {
    /// The first is 1.
    pub(crate) line: u32,
    /// Bytes of the line, the first being 1.
    pub(crate) columns: Range<usize>,
    pub(crate) label: String,
    /// What it is all about, and not what belongs to it.
    pub(crate) is_primary: bool,
}

/// The bytes of a line, with the user information of URLs masked.
pub(crate) fn line<'a>(lines: &[&'a [u8]], number: u32) -> Option<Cow<'a, [u8]>> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    lines.get(index).map(|line| masked(line))
}

/// The marked lines of a file called `path`, whatever its encoding and control characters.
pub(crate) fn snippet<'a>(lines: &[&[u8]], path: &'a str, marks: &[Mark]) -> Snippet<'a, Annotation<'a>> {
    let numbers = || marks.iter().map(|mark| mark.line);
    let (first, last) = (numbers().min().unwrap_or(1), numbers().max().unwrap_or(0));
    let (mut text, mut annotations) = (String::new(), Vec::new());
    for (number, bytes) in (first..=last).map_while(|number| Some((number, line(lines, number)?))) {
        let start = text.len();
        text.push_str(&letters(bytes.get(..LINE_SHOWN_MAX).unwrap_or(&bytes)));
        let place = |column: usize| {
            // Counted in what is shown, because an escape is longer than its byte.
            let before = bytes.get(..column.saturating_sub(1).min(LINE_SHOWN_MAX)).unwrap_or(&bytes);
            let end = start.saturating_add(letters(before).len());
            // `str::floor_char_boundary` needs Rust 1.91.
            (0..=end.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
        };
        for mark in marks.iter().filter(|mark| mark.line == number) {
            let kind = if mark.is_primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            let from = place(mark.columns.start);
            let annotation = kind.span(from..place(mark.columns.end).max(from));
            let label = Some(mark.label.clone()).filter(|label| !label.is_empty());
            annotations.push(annotation.label(label));
        }
        text.push('\n');
    }
    let start = usize::try_from(first).unwrap_or(usize::MAX);
    Snippet::source(text).line_start(start).path(path).annotations(annotations)
}

pub(crate) fn print(groups: &[Group<'_>]) -> std::io::Result<()> {
    use std::io::Write;
    let renderer = Renderer::styled().term_width(width());
    writeln!(anstream::stdout().lock(), "{}\n", renderer.render(groups))
}

/// Columns of the terminal; where there is none, as many as fit most of them.
fn width() -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    terminal.map_or(WIDTH, |(width, _)| usize::from(width.0).max(WIDTH_MIN))
}

/// What is shown of a line. A tab stays one: there is always room for it.
fn letters(line: &[u8]) -> String {
    line.split(|byte| *byte == b'\t').map(escaped).collect::<Vec<_>>().join("\t")
}

const WIDTH: usize = 140;
/// Of what is narrower nothing would be left beside the margin.
const WIDTH_MIN: usize = 40;
/// A line may be as long as the file; no one reads more of it.
const LINE_SHOWN_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &[u8], line: u32, columns: Range<usize>) -> String {
        let mark = Mark { line, columns, label: String::new(), is_primary: true };
        let robots = abide_robots::Robots::parse(text);
        let snippet = snippet(&robots.lines().collect::<Vec<_>>(), "p", &[mark]);
        Renderer::plain().render(&[annotate_snippets::Level::WARNING.primary_title("t").element(snippet)])
    }

    #[test]
    fn every_mark_has_a_place_whatever_the_bytes() {
        let text = b"\xff\xff: \x1b[0m\xe9\r\xc3\xa9\xc3\n\n";
        for line in 0..6 {
            for (start, end) in (0..144).map(|number| (number / 12, number % 12)) {
                assert!(!rendered(text, line, start..end).contains('\x1b'));
            }
        }
    }

    #[test]
    fn columns_are_bytes_and_places_are_letters() {
        assert!(rendered("é: x".as_bytes(), 1, 5..6).ends_with("1 | é: x\n  |    ^"));
    }
}
