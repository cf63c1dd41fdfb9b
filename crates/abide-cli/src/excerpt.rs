//! Lines of a robots.txt on a terminal, marked as compilers do.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Renderer, Snippet};

use crate::sanitize::{escaped, masked};

/// A file as it can be shown: text of any encoding, any line ends, any control characters.
pub(crate) struct Excerpt<'a> {
    lines: Vec<Line<'a>>,
    text: String,
}

struct Line<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where it stands in the text that is shown, without its end.
    shown: Range<usize>,
}

/// A mark on a line.
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

impl<'a> Excerpt<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        let mut excerpt = Self { lines: Vec::new(), text: String::new() };
        for bytes in lines(text).map(masked) {
            let start = excerpt.text.len();
            excerpt.text.push_str(&letters(bytes.get(..LINE_SHOWN_MAX).unwrap_or(&bytes)));
            excerpt.lines.push(Line { bytes, shown: start..excerpt.text.len() });
            excerpt.text.push('\n');
        }
        excerpt
    }

    /// The bytes of a line, without its end, and with the user information of URLs masked.
    pub(crate) fn line(&self, number: u32) -> &[u8] {
        self.find(number).map_or(b"", |line| &line.bytes)
    }

    /// The line of one mark alone, in a file called `path`.
    pub(crate) fn one(&self, path: &'a str, mark: &Mark) -> Snippet<'_, Annotation<'_>> {
        let Some(line) = self.find(mark.line) else { return Snippet::source("").path(path) };
        let within = |place: usize| place.saturating_sub(line.shown.start);
        let span = self.span(mark);
        Snippet::source(self.text.get(line.shown.clone()).unwrap_or_default())
            .line_start(usize::try_from(mark.line).unwrap_or(usize::MAX))
            .path(path)
            .annotation(annotation(mark, within(span.start)..within(span.end)))
    }

    /// The whole, of which the marked lines are shown.
    pub(crate) fn all(&self, path: &'a str, marks: &[Mark]) -> Snippet<'_, Annotation<'_>> {
        let annotations = marks.iter().map(|mark| annotation(mark, self.span(mark)));
        Snippet::source(&self.text).path(path).annotations(annotations)
    }

    fn find(&self, number: u32) -> Option<&Line<'a>> {
        self.lines.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// Where a mark stands in `text`.
    fn span(&self, mark: &Mark) -> Range<usize> {
        let Some(Line { bytes, shown }) = self.find(mark.line) else { return 0..0 };
        let place = |column: usize| {
            let before = bytes.get(..column.saturating_sub(1).min(LINE_SHOWN_MAX)).unwrap_or(bytes);
            let end = shown.start.saturating_add(letters(before).len());
            // `str::floor_char_boundary` needs Rust 1.91.
            (0..=end.min(shown.end)).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0)
        };
        let from = place(mark.columns.start);
        from..place(mark.columns.end).max(from)
    }
}

fn annotation<'a>(mark: &Mark, span: Range<usize>) -> Annotation<'a> {
    let kind = if mark.is_primary { AnnotationKind::Primary } else { AnnotationKind::Context };
    let annotation = kind.span(span);
    if mark.label.is_empty() { annotation } else { annotation.label(mark.label.clone()) }
}

/// Prints what `groups` say.
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

/// RFC 9309 §2.2: lines end with CR, LF or CRLF.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
        let (line, end) = rest.split_at(end);
        rest = end.strip_prefix(b"\r\n").or_else(|| end.get(1..)).unwrap_or_default();
        Some(line)
    })
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

    #[test]
    fn lines_are_those_of_rfc_9309() {
        let of = |text: &'static [u8]| lines(text).collect::<Vec<_>>();
        assert_eq!(of(b""), [b""; 0]);
        assert_eq!(of(b"a\rb\r\nc\n\nd"), [&b"a"[..], b"b", b"c", b"", b"d"]);
        assert_eq!(of(b"a\n"), [b"a"]);
    }

    #[test]
    fn every_mark_has_a_place_whatever_the_bytes() {
        let text = b"\xff\xfe: \x1b[0m\xe9\r\xc3\xa9\xc3\n\n";
        let excerpt = Excerpt::of(text);
        for line in 0..6 {
            for start in 0..12 {
                for end in 0..12 {
                    let mark = Mark { line, columns: start..end, label: "x".to_owned(), is_primary: true };
                    let group =
                        |snippet| annotate_snippets::Level::WARNING.primary_title("t").element(snippet);
                    for shown in [excerpt.one("p", &mark), excerpt.all("p", std::slice::from_ref(&mark))] {
                        assert!(!Renderer::plain().render(&[group(shown)]).contains('\x1b'));
                    }
                }
            }
        }
    }

    #[test]
    fn columns_are_bytes_and_places_are_letters() {
        let excerpt = Excerpt::of("é: x".as_bytes());
        let mark = Mark { line: 1, columns: 5..6, label: String::new(), is_primary: true };
        assert_eq!(excerpt.text.get(excerpt.span(&mark)), Some("x"));
    }
}
