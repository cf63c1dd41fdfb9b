//! `Robots-Tag` and `X-Robots-Tag`: field lines in, statements out.
//!
//! Each *line* is read by itself, in the grammar that its own pieces show: joined, `googlebot: nofollow` and
//! `noindex` would be two rules for Googlebot. The statements of all lines are united. The new field never
//! switches the old one off.

mod draft00;
mod line;
mod split;
mod structured;

use crate::options::ReadOptions;
use crate::provenance::{Findings, Provenance};
use crate::words::folded;
pub(crate) use split::complete_members;

/// draft-illyes-repext-03 §3.1.1.
const ROBOTS_TAG: &str = "Robots-Tag";

/// Deprecated by §5.3 and still read.
const X_ROBOTS_TAG: &str = "X-Robots-Tag";

/// The name of a field that is read, as the specification writes it.
fn field_of(name: &str) -> Option<&'static str> {
    [ROBOTS_TAG, X_ROBOTS_TAG].into_iter().find(|field| name.eq_ignore_ascii_case(field))
}

/// The grammar in which a field line was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grammar {
    /// A structured field, every member of it valid.
    Sf,
    /// A structured field with bad members, which were left out.
    SfSalvage,
    /// `token=rule, rule; token=rule`, the first version of the draft.
    Draft00,
    /// `noindex, googlebot: nofollow`, as `X-Robots-Tag` has always been written.
    Legacy,
}

impl Grammar {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Sf => "sf",
            Self::SfSalvage => "sf-salvage",
            Self::Draft00 => "draft-00",
            Self::Legacy => "legacy",
        }
    }
}

/// In which grammar a single field line would be read: `sf`, `sf-salvage`, `draft-00` or `legacy`.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn reading_of(line: &[u8], options: &ReadOptions) -> &'static str {
    line::read(&folded(line), options).reading.as_str()
}

/// Reads the lines of both fields, in the order of the response. Fields of other names are passed over.
pub(crate) fn read_fields<'a>(
    options: &ReadOptions,
    fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    findings: &mut Findings,
) {
    let mut budgets = [Budget::default(), Budget::default()];
    let mut strict: Option<StrictField> = None;
    for (name, value) in fields {
        let Some(field) = field_of(name) else { continue };
        if options.preferences.strict && field == ROBOTS_TAG {
            strict.get_or_insert_default().push(value, options.field_limit());
            continue;
        }
        let [robots_tag, x_robots_tag] = &mut budgets;
        let budget = if field == ROBOTS_TAG { robots_tag } else { x_robots_tag };
        let line = budget.lines;
        let admitted = budget.admit(value, options.field_limit());
        if admitted.len() < value.len() {
            findings.truncated(Provenance::field(field, line));
        }
        line::read(&folded(admitted), options).report(field, line, findings);
    }
    if let Some(field) = strict {
        field.read(options, findings);
    }
}

/// How much of a field's limit is used up. RFC 9110 §5.3 joins lines by a comma and a space, which count.
#[derive(Default)]
struct Budget {
    lines: usize,
    used: usize,
}

impl Budget {
    /// The part of the next line that may be read: all of it, or its complete members within the limit.
    fn admit<'a>(&mut self, line: &'a [u8], limit: usize) -> &'a [u8] {
        let join = if self.lines == 0 { 0 } else { 2 };
        let start = self.used.saturating_add(join);
        self.lines = self.lines.saturating_add(1);
        self.used = start.saturating_add(line.len());
        if self.used <= limit {
            return line;
        }
        let within = line.get(..limit.saturating_sub(start)).unwrap_or_default();
        complete_members(within).unwrap_or_default()
    }
}

/// `Robots-Tag` by the letter of RFC 9651: the lines are one value, and one bad member voids it (§4.2).
#[derive(Default)]
struct StrictField {
    value: Vec<u8>,
    /// Where each line begins.
    starts: Vec<usize>,
    over_limit: bool,
}

impl StrictField {
    fn push(&mut self, line: &[u8], limit: usize) {
        if self.over_limit {
            return;
        }
        if !self.starts.is_empty() {
            self.value.extend_from_slice(b", ");
        }
        self.starts.push(self.value.len());
        // One byte more than the limit is enough to know that it was passed.
        let room = limit.saturating_add(1).saturating_sub(self.value.len());
        self.value.extend_from_slice(line.get(..room).unwrap_or(line));
        self.over_limit = self.value.len() > limit;
        if self.over_limit {
            self.value.truncate(limit);
        }
    }

    fn read(&self, options: &ReadOptions, findings: &mut Findings) {
        let Some(last) = self.starts.len().checked_sub(1) else { return };
        if self.over_limit {
            findings.truncated(Provenance::field(ROBOTS_TAG, last));
            let complete = complete_members(&self.value).unwrap_or_default();
            self.report(line::read_members(complete, options), findings);
        } else if structured::is_list(&self.value) {
            self.report(line::read_members(&self.value, options), findings);
        } else {
            findings.warn(
                Provenance::field(ROBOTS_TAG, 0),
                "expected a list of product tokens, so the field is ignored",
            );
        }
    }

    fn report(&self, parts: Vec<(usize, line::LinePart<'_>)>, findings: &mut Findings) {
        for (offset, part) in parts {
            let line = self.starts.iter().filter(|start| **start <= offset).count().saturating_sub(1);
            part.report(ROBOTS_TAG, line, Grammar::Sf, findings);
        }
    }
}
