//! The classifier: in which grammar one field line is written, and what it states in that grammar.

use std::borrow::Cow;

use super::Reading;
use super::draft00;
use super::split::{lower_case_outside_strings, pieces};
use super::structured::{Member, ProductName, parse_member};
use crate::element::{read_elements, read_salvaged};
use crate::options::ReadOptions;
use crate::provenance::{Findings, Provenance};
use crate::rule::{Known, known};
use crate::stated::Stated;

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
    let line = trim(line);
    if line.is_empty() {
        return Line { reading: Reading::Sf, parts: Vec::new() };
    }
    let mut survey = Survey::default();
    let mut parts = Vec::new();
    for text in pieces(line).map(trim) {
        let folded;
        let mut member = parse_member(text, options);
        // X2: keys in capitals are an error in RFC 9651 only.
        if member.is_none() && text.iter().any(u8::is_ascii_uppercase) {
            folded = fold(text);
            member = parse_member(&folded, options);
        }
        let stated = match survey.take(member, options) {
            Piece::States(member) if !member.binds_us() => continue,
            Piece::States(member) => Some(member.stated()),
            Piece::StatesFlag(flag) => {
                let mut stated = Stated::default();
                stated.flag(flag, text);
                Some(stated)
            }
            Piece::StatesNothing => continue,
            Piece::Bad if text.iter().any(u8::is_ascii_whitespace) => {
                let salvaged = read_salvaged(text, options);
                if salvaged.rules.is_empty() { None } else { Some(salvaged) }
            }
            Piece::Bad => None,
        };
        parts.push(Part { text, stated });
    }
    let part = |stated| Part { text: line, stated: Some(stated) };
    match survey.reading(line) {
        reading @ (Reading::Sf | Reading::SfSalvage) => Line { reading, parts },
        reading @ Reading::Draft00 => {
            Line { reading, parts: draft00::read(line, options).into_iter().map(part).collect() }
        }
        reading @ Reading::Legacy => Line { reading, parts: vec![part(read_elements(line, Some(options)))] },
    }
}

/// Reads the members of a structured field as they are written, without folding case, each with its offset in `value`.
/// A bad one states nothing.
pub(super) fn read_members<'a>(value: &'a [u8], options: &ReadOptions) -> Vec<(usize, Part<'a>)> {
    let mut end = 0_usize;
    let placed = pieces(value).map(|piece| {
        let blanks = piece.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let start = end.saturating_add(blanks);
        end = end.saturating_add(piece.len()).saturating_add(1);
        (start, trim(piece))
    });
    placed
        .filter(|(_, text)| !text.is_empty())
        .map(|(start, text)| (start, Part { text, stated: parse_member(text, options).map(Member::stated) }))
        .collect()
}

impl Line<'_> {
    pub(super) fn report(self, field: &str, line: usize, findings: &mut Findings) {
        for part in self.parts {
            part.report(field, line, self.reading, findings);
        }
    }
}

impl Part<'_> {
    pub(super) fn report(self, field: &str, line: usize, reading: Reading, findings: &mut Findings) {
        let source = || Provenance::Field {
            name: field.into(),
            line,
            reading: Cow::Borrowed(reading.as_str()),
            text: written(self.text),
        };
        match self.stated {
            Some(stated) => findings.add(stated, source),
            None => findings.warn(source(), "expected a product token with rules as parameters"),
        }
    }
}

/// Text as it is written; what a valid member is written in is ASCII.
fn written(text: &[u8]) -> Box<str> {
    std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text).into(), Into::into)
}

/// What the pieces of a line show together.
#[derive(Default)]
struct Survey {
    good: bool,
    bad: bool,
    legacy_shaped: bool,
}

/// What a piece states if the line turns out to be a structured field.
enum Piece<'a> {
    States(Member<'a>),
    StatesFlag(Known),
    StatesNothing,
    Bad,
}

impl Survey {
    fn take<'a>(&mut self, member: Option<Member<'a>>, options: &ReadOptions) -> Piece<'a> {
        let Some(member) = member else {
            self.bad = true;
            return Piece::Bad;
        };
        if let ProductName::Token(token) = member.token
            && let Some(flag) = legacy_shape(token.as_bytes(), options)
        {
            self.legacy_shaped = true;
            return match flag {
                // Stricter: beside members that are meant for the structured field, a bare `noindex` is meant too.
                Some(flag) if flag.is_flag() && !member.has_parameters => Piece::StatesFlag(flag),
                _ => Piece::Bad,
            };
        }
        if matches!(member.token, ProductName::Other) || !member.has_parameters {
            return Piece::StatesNothing;
        }
        self.good = true;
        Piece::States(member)
    }

    fn reading(&self, line: &[u8]) -> Reading {
        match (self.good, self.bad || self.legacy_shaped) {
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

/// Folds case where it has no meaning.
fn fold(piece: &[u8]) -> Vec<u8> {
    let mut folded = piece.to_vec();
    lower_case_outside_strings(&mut folded);
    folded
}

/// RFC 9110 §5.6.3: optional whitespace is SP and HTAB.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
