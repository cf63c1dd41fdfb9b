//! The classifier: in which grammar one field line is written, and what it states in that grammar.
//!
//! Field lines come in three grammars that overlap: the structured field, the older list, and a list behind a
//! product token. A line is judged as a whole, because a member that is broken in one grammar can be whole in
//! another.

use std::borrow::Cow;

use super::Grammar;
use super::draft00;
use super::split::{lower_case_outside_strings, pieces};
use super::structured::{Member, parse_member};
use crate::date::is_parted;
use crate::element::{self, Carrier, read_elements, read_salvaged};
use crate::options::ReadOptions;
use crate::provenance::{Findings, Provenance};
use crate::stated::Stated;

pub(super) struct FieldLine<'a> {
    pub(super) reading: Grammar,
    parts: Vec<LinePart<'a>>,
}

/// A part of a line and what it states: a member of a structured field, or the whole line in the older
/// grammars.
pub(super) struct LinePart<'a> {
    pub(super) text: &'a [u8],
    stated: Option<Stated>,
}

/// Reads one line, in the grammar that its pieces show.
pub(super) fn read<'a>(line: &'a [u8], options: &ReadOptions) -> FieldLine<'a> {
    let line = trim(line);
    if line.is_empty() {
        return FieldLine { reading: Grammar::Sf, parts: Vec::new() };
    }
    let (mut is_good, mut is_bad) = (false, false);
    let mut parts = Vec::new();
    let mut rest = pieces(line).map(trim).peekable();
    while let Some(text) = rest.next() {
        let folded;
        let mut member = parse_member(text, options);
        // Keys in capitals are an error in RFC 9651 (§3.1.2) only: repext-03 §3.1.3 says that case does not
        // matter.
        if member.is_none() && text.iter().any(u8::is_ascii_uppercase) {
            folded = fold(text);
            member = parse_member(&folded, options);
        }
        let stated = match member {
            Some(member) if member.name.is_some() && member.has_parameters && !names_rule(&member) => {
                is_good = true;
                if !member.binds_us {
                    continue;
                }
                Some(member.stated())
            }
            // What is no crawler's name has parameters that mean nothing here (repext-03 §3.1.1).
            Some(member)
                if member.name.is_none() && (member.has_parameters || is_list_with_parameters(text)) =>
            {
                continue;
            }
            // A name without rules states nothing, if it is a name.
            Some(member) if !names_rule(&member) && read_salvaged(text, options).is_empty() => continue,
            _ => {
                is_bad = true;
                let mut text = Cow::Borrowed(text);
                while let Some(date) = rest.next_if(|next| {
                    let value = text.rsplit(|byte| matches!(byte, b':' | b'=')).next().unwrap_or_default();
                    is_parted(value.trim_ascii(), next)
                }) {
                    text = [&*text, b" ", date].concat().into();
                }
                Some(read_salvaged(&text, options)).filter(|salvaged| !salvaged.is_empty())
            }
        };
        parts.push(LinePart { text, stated });
    }
    let reading = match (is_good, is_bad) {
        (_, false) => Grammar::Sf,
        (true, true) => Grammar::SfSalvage,
        // Stricter: what no grammar reads well still goes through the legacy one; to restrict too much is
        // safe.
        (false, true) if draft00::has_form(line) => Grammar::Draft00,
        (false, true) => Grammar::Legacy,
    };
    let part = |stated| LinePart { text: line, stated: Some(stated) };
    match reading {
        Grammar::Sf | Grammar::SfSalvage => {}
        Grammar::Draft00 => parts = vec![part(draft00::read(line, options))],
        Grammar::Legacy => parts = vec![part(read_elements(line, options, Carrier::Field))],
    }
    FieldLine { reading, parts }
}

/// Reads the members of a structured field as they are written, without folding case, each with its offset in
/// `value`. A bad one states nothing.
pub(super) fn read_members<'a>(value: &'a [u8], options: &ReadOptions) -> Vec<(usize, LinePart<'a>)> {
    let mut end = 0_usize;
    let placed = pieces(value).map(|piece| {
        let blanks = piece.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let start = end.saturating_add(blanks);
        end = end.saturating_add(piece.len()).saturating_add(1);
        (start, trim(piece))
    });
    placed
        .filter(|(_, text)| !text.is_empty())
        .map(|(start, text)| {
            (start, LinePart { text, stated: parse_member(text, options).map(Member::stated) })
        })
        .collect()
}

impl FieldLine<'_> {
    pub(super) fn report(self, field: &str, line: usize, findings: &mut Findings) {
        for part in self.parts {
            part.report(field, line, self.reading, findings);
        }
    }
}

impl LinePart<'_> {
    pub(super) fn report(self, field: &str, line: usize, reading: Grammar, findings: &mut Findings) {
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

/// Whether the token of a member is no crawler's name but a rule of the older grammars: `googlebot:noindex`,
/// `noindex`, `"noindex."`.
fn names_rule(member: &Member<'_>) -> bool {
    let is_rule = |name: &str| name.contains(':') || element::names_rule(name.as_bytes());
    !member.binds_us && member.name.as_deref().is_some_and(is_rule)
}

/// `(a b);noindex`; in `(noindex;nofollow)` they are those of an item.
fn is_list_with_parameters(text: &[u8]) -> bool {
    text.starts_with(b"(") && !text.ends_with(b")")
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
