//! `StatedLine`: what one record, field line or meta states, and what its author should know.
//!
//! Every carrier puts a label and its value in here, so both mean the same in all of them.

use std::collections::BTreeMap;

use super::label::{Value, known};
use super::{Preference, Usage, salvage};
use crate::provenance::Shown;

/// What one record or field line states.
#[derive(Default)]
pub(super) struct StatedLine {
    /// Of each usage the most restrictive.
    pub(super) stated: BTreeMap<Usage, Preference>,
    /// Some of it could not be read. It hides no other line.
    pub(super) is_broken: bool,
    /// What its author should know. Where something is unknown, why.
    pub(super) problem: Option<String>,
}

impl StatedLine {
    /// A label and its value. `own` are the labels of the carrier, whose yes counts.
    pub(super) fn member(&mut self, label: &str, value: Value, own: &[(&str, Usage)], found: &str) {
        if let Some((own, usage)) = own.iter().find(|(known, _)| *known == label) {
            match value {
                Value::Yes => return self.state(usage.clone(), Preference::Allow),
                Value::No => return self.state(usage.clone(), Preference::Disallow),
                _ => return self.doubt(std::slice::from_ref(usage), &format!("a yes or no to {own}"), found),
            }
        }
        match (known(label), value) {
            (Some(label), Value::No) if !label.is_negative => self.disallow(label.usages),
            (Some(label), Value::Yes | Value::OtherYes | Value::Missing) if label.is_negative => {
                self.disallow(label.usages);
            }
            // A yes to a wider label is none to what it covers.
            (Some(known), Value::Yes | Value::OtherYes) if !known.is_negative => {
                self.state(Usage::Other(label.into()), Preference::Allow);
            }
            (Some(known), _) => self.doubt(known.usages, &format!("a yes or no to {label}"), found),
            (None, Value::Yes) => self.state(Usage::Other(label.into()), Preference::Allow),
            (None, Value::No) => self.state(Usage::Other(label.into()), Preference::Disallow),
            // `Content-Usage: none`: of what, is not said.
            (None, Value::Missing) if Value::of(label) == Value::No => {
                self.doubt(&[Usage::TrainAi], "a usage before the no", found);
            }
            (None, _) => {}
        }
    }

    /// What the grammar of the carrier cannot read.
    pub(super) fn salvage(&mut self, text: &[u8], expected: &str, is_strict: bool) {
        self.is_broken = true;
        let salvaged = if is_strict { BTreeMap::new() } else { salvage::read(text) };
        let is_unknown = salvaged.values().any(|preference| *preference == Preference::Unknown);
        let what = match (is_unknown, salvaged.is_empty()) {
            (true, _) => "what it permits is unknown",
            (false, true) => "it states nothing",
            (false, false) => "of it only what is disallowed counts",
        };
        self.remark(expected, &String::from_utf8_lossy(text.trim_ascii()), what, is_unknown);
        salvaged.into_iter().for_each(|(usage, preference)| self.state(usage, preference));
    }

    /// The uses are unknown, because something else than what was expected stands there.
    pub(super) fn doubt(&mut self, usages: &[Usage], expected: &str, found: &str) {
        self.is_broken = true;
        self.remark(expected, found, "what it permits is unknown", true);
        usages.iter().for_each(|usage| self.state(usage.clone(), Preference::Unknown));
    }

    /// Keeps what is forbidden as unknown, and drops the rest: whom or which URL the line is for is not
    /// known.
    pub(super) fn into_doubt(mut self, problem: &str) -> Self {
        self.stated.retain(|usage, preference| {
            let forbids = *preference > Preference::Allow && !matches!(usage, Usage::Other(_));
            *preference = Preference::Unknown;
            forbids
        });
        Self { is_broken: true, problem: Some(problem.to_owned()), ..self }
    }

    pub(super) fn disallow(&mut self, usages: &[Usage]) {
        usages.iter().for_each(|usage| self.state(usage.clone(), Preference::Disallow));
    }

    /// Labels outside the vocabulary are kept in a bounded number.
    pub(super) fn state(&mut self, usage: Usage, preference: Preference) {
        let is_other = matches!(usage, Usage::Other(_));
        let is_full = || {
            self.stated.keys().rev().take_while(|usage| matches!(usage, Usage::Other(_))).count()
                >= OTHERS_MAX
        };
        if is_other && !self.stated.contains_key(&usage) && is_full() {
            return;
        }
        let known = self.stated.entry(usage).or_default();
        *known = preference.max(*known);
    }

    /// Notes the first part of the line that could not be read as what was expected; what makes it unknown
    /// comes first.
    pub(super) fn remark(&mut self, expected: &str, found: &str, what: &str, is_unknown: bool) {
        let has_doubt = self.stated.values().any(|preference| *preference == Preference::Unknown);
        if self.problem.is_none() || (is_unknown && !has_doubt) {
            self.problem = Some(format!("expected {expected}, found `{}`; {what}", Shown(found)));
        }
    }
}

/// Labels outside the vocabulary that are kept of one record.
const OTHERS_MAX: usize = 64;
