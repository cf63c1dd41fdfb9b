//! The classifier: in which grammar one field line is written, and what it states in that grammar.

use std::borrow::Cow;

use super::draft00;
use super::split::{Pieces, lower_case_outside_strings};
use super::structured::{Member, ProductName, parse_member};
use super::{FieldName, Reading};
use crate::element::read_elements;
use crate::options::ReadOptions;
use crate::rule::{Known, known};
use crate::stated::Stated;
use crate::statement::{Findings, Problem, Source};

/// A line, read.
pub(super) struct Line<'a> {
    pub(super) reading: Reading,
    parts: Vec<Part<'a>>,
}

/// A part of a line and what it states: a member of a structured field, or the whole line in the older grammars.
pub(super) struct Part<'a> {
    pub(super) text: &'a [u8],
    stated: Option<Stated>,
}

/// Reads one line, in the grammar that its pieces show.
pub(super) fn read<'a>(line: &'a [u8], options: &ReadOptions) -> Line<'a> {
    let folded = fold(line);
    let mut survey = Survey::default();
    let mut parts = Vec::new();
    for (piece, text) in Pieces::of(&folded).zip(Pieces::of(line)) {
        let part = match survey.take(trim(piece), options) {
            Verdict::States(member) if !member.binds_us() => continue,
            Verdict::States(member) => Some(member.stated()),
            Verdict::StatesFlag(flag) => {
                let mut stated = Stated::default();
                stated.flag(flag, trim(piece));
                Some(stated)
            }
            Verdict::StatesNothing => continue,
            Verdict::Bad => None,
        };
        parts.push(Part { text: trim(text), stated: part });
    }
    match survey.reading(trim(line)) {
        reading @ (Reading::Sf | Reading::SfSalvage) => Line { reading, parts },
        Reading::Draft00 => {
            let stated = draft00::read(line, options).into_iter().map(Some);
            Line {
                reading: Reading::Draft00,
                parts: stated.map(|stated| Part { text: trim(line), stated }).collect(),
            }
        }
        Reading::Legacy => {
            let stated = Some(read_elements(line, Some(options)));
            Line { reading: Reading::Legacy, parts: vec![Part { text: trim(line), stated }] }
        }
    }
}

/// Reads the members of a structured field as they are written, without folding case, each with its offset in `value`.
/// A bad one states nothing.
pub(super) fn read_members<'a>(value: &'a [u8], options: &ReadOptions) -> Vec<(usize, Part<'a>)> {
    let mut end = 0_usize;
    let pieces = Pieces::of(value).map(|piece| {
        let start = end;
        end = start.saturating_add(piece.len()).saturating_add(1);
        (start, trim(piece))
    });
    pieces
        .filter(|(_, text)| !text.is_empty())
        .map(|(start, text)| (start, Part { text, stated: parse_member(text, options).map(Member::stated) }))
        .collect()
}

impl Line<'_> {
    pub(super) fn report(self, field: FieldName, line: usize, findings: &mut Findings) {
        for part in self.parts {
            part.report(field, line, self.reading, findings);
        }
    }
}

impl Part<'_> {
    pub(super) fn report(self, field: FieldName, line: usize, reading: Reading, findings: &mut Findings) {
        let source =
            || Source::Field { name: field, line, reading, text: String::from_utf8_lossy(self.text).into() };
        match self.stated {
            Some(stated) => findings.add(stated, source),
            None => findings.remark(source(), Problem::NotAMember),
        }
    }
}

/// What the pieces of a line show together.
#[derive(Default)]
struct Survey {
    pieces: usize,
    good: bool,
    bad: bool,
    legacy_shaped: bool,
    blank: bool,
}

/// What a piece states if the line turns out to be a structured field.
enum Verdict<'a> {
    States(Member<'a>),
    StatesFlag(Known),
    StatesNothing,
    Bad,
}

impl Survey {
    fn take<'a>(&mut self, piece: &'a [u8], options: &ReadOptions) -> Verdict<'a> {
        self.pieces = self.pieces.saturating_add(1);
        if piece.is_empty() {
            self.blank = true;
            return Verdict::Bad;
        }
        let Some(member) = parse_member(piece, options) else {
            self.bad = true;
            return Verdict::Bad;
        };
        if let ProductName::Token(token) = member.token
            && let Some(flag) = legacy_shape(token.as_bytes(), options)
        {
            self.legacy_shaped = true;
            return match flag {
                // Stricter: beside members that are meant for the structured field, a bare `noindex` is meant too.
                Some(flag) if flag.is_flag() && !member.has_parameters => Verdict::StatesFlag(flag),
                _ => Verdict::Bad,
            };
        }
        if matches!(member.token, ProductName::Other) || !member.has_parameters {
            return Verdict::StatesNothing;
        }
        self.good = true;
        Verdict::States(member)
    }

    fn reading(&self, line: &[u8]) -> Reading {
        // An empty piece is bad beside others, and nothing where it is the only one.
        let bad = self.bad || (self.blank && self.pieces > 1);
        match (self.good, bad || self.legacy_shaped) {
            (_, false) => Reading::Sf,
            (true, true) => Reading::SfSalvage,
            // Stricter: what no grammar reads well still goes through the legacy one; to restrict too much is safe.
            (false, true) => {
                if draft00::has_form(line) {
                    Reading::Draft00
                } else {
                    Reading::Legacy
                }
            }
        }
    }
}

/// A Token that is no product token but a rule of the older grammars (X6): one with a colon in it (`Some(None)`), or the
/// name of a rule, unless we are called that.
fn legacy_shape(token: &[u8], options: &ReadOptions) -> Option<Option<Known>> {
    if token.contains(&b':') {
        return Some(None);
    }
    known(token).filter(|_| !options.token_is_ours(token)).map(Some)
}

/// Folds case where it has no meaning, and copies only if that changes something.
fn fold(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.iter().any(u8::is_ascii_uppercase) {
        return Cow::Borrowed(line);
    }
    let mut folded = line.to_vec();
    lower_case_outside_strings(&mut folded);
    Cow::Owned(folded)
}

/// RFC 9110 §5.6.3: optional whitespace is SP and HTAB.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
