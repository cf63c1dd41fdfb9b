//! Preferences in robots.txt: the records of the group that applies, those before all groups, and the groups
//! of policy tokens.
//!
//! Paths are matched here, and each value is read by the module of its carrier.

use abide_robots::{ParseOptions, Record, RecordKind, Rules, Target};

use super::label::Value;
use super::line::StatedLine;
use super::{Preferences, Usage, signal, tdm, usage};
use crate::directives::{self, path_and_value};
use crate::provenance::Provenance;

impl Preferences {
    /// Adds what robots.txt states: of Content-Usage the records with the longest path that covers the URL;
    /// of the other records all of the group, and all outside groups, which sites put there for every
    /// crawler. Of a Content-Usage outside groups it is not known whom it is for, so what it forbids is
    /// unknown. For a URL that it disallows it states nothing ("no preferences are implied for resources that
    /// are disallowed").
    pub fn with_robots(mut self, rules: &Rules, target: &Target<'_>) -> Self {
        if !rules.is_allowed(target) {
            return self;
        }
        let group = rules.token().unwrap_or("*");
        self.add_usage_records(rules.records(), target, group);
        for record in rules.records_outside_groups() {
            self.add_record(&record, target, None);
        }
        for record in rules.records().filter(|record| record.kind() != RecordKind::ContentUsage) {
            self.add_record(&record, target, Some(group));
        }
        if self.options.unites_signals {
            for record in rules.signals_of_all() {
                self.add_record(&record, target, Some("*"));
            }
        }
        self
    }

    /// Adds what the groups of policy tokens state: that of [training](crate::AI_TRAINING_TOKEN), and
    /// [others](crate::ReadOptions::with_policy_token). `robots_txt` is the copy that decided the access. A
    /// group that disallows the URL disallows the usage; one that allows it states nothing.
    pub fn with_policy_tokens(mut self, robots_txt: &[u8], target: &Target<'_>) -> Self {
        let options = self.options.clone();
        for policy in options.policies() {
            let name = policy.token.as_str().as_bytes();
            // Nearly no file has such a group, and each token would need a look at every line.
            if !policy.fallback && !robots_txt.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
            {
                continue;
            }
            // The copy was cut at the limit when it was fetched.
            let limit = ParseOptions::new().with_limit(robots_txt.len());
            let rules = Rules::parse_with(robots_txt, std::slice::from_ref(&policy.token), limit);
            if !rules.is_named() && !policy.fallback {
                continue;
            }
            let verdict = rules.verdict(target);
            if let Some(rule) = verdict.rule().filter(|_| !verdict.is_allowed()) {
                let group = rules.token().unwrap_or("*");
                let source = Provenance::of_record(&rule, Some(rule.value()), Some(group));
                self.disallow(policy.usage.clone(), source, rule.to_string().as_bytes());
            }
        }
        self
    }

    /// A record of which all that cover the URL count.
    fn add_record(&mut self, record: &Record<'_>, target: &Target<'_>, group: Option<&str>) {
        if record.kind() == RecordKind::ContentSignal && record.value().len() <= RECORD_BYTES_MAX {
            return self.add_signal(record.value(), Provenance::of_record(record, None, group));
        }
        let (path, value) = path_of(record);
        let covers = path.is_none_or(|path| target.covered_by(path).is_some());
        let Some(line) = read(record, self.options.strict).filter(|_| covers) else { return };
        let is_of_nobody = group.is_none() && record.kind() == RecordKind::ContentUsage;
        let line = if is_of_nobody { line.into_doubt(OUTSIDE) } else { line };
        self.add_line(line, &Provenance::of_record(record, path, group), value);
    }

    fn add_usage_records<'a>(
        &mut self,
        records: impl Iterator<Item = Record<'a>>,
        target: &Target<'_>,
        group: &str,
    ) {
        let mut covering = Vec::new();
        let mut bytes_max = 0;
        for record in records.filter(|record| record.kind() == RecordKind::ContentUsage) {
            let (path, value) = path_and_value(record.value());
            let source = Provenance::of_record(&record, path, Some(group));
            let Some(line) = read(&record, self.options.strict) else { continue };
            let is_path_known = path.is_none() || !value.is_empty() || line.stated.is_empty();
            let covers = match path {
                Some(path) if is_path_known => target.covered_by(path),
                _ => Some(0),
            };
            if let Some(bytes) = covers.filter(|_| !line.is_broken) {
                bytes_max = bytes_max.max(bytes);
            }
            covering.push((covers, line, source, value, is_path_known));
        }
        for (bytes, mut line, source, value, is_path_known) in covering {
            // A broken line hides no other; what was salvaged of it yields to a longer path like everything
            // else.
            let counts = bytes
                .is_some_and(|bytes| if line.is_broken { bytes >= bytes_max } else { bytes == bytes_max });
            if !counts && is_path_known {
                line.stated.clear();
            }
            self.add_line(line, &source, value);
        }
    }
}

const OUTSIDE: &str = "expected a user-agent line before it, found none; whom it is for is unknown";

/// The path of a record and what stands behind it. A signal has none, and that of DisallowAITraining is all
/// it has.
fn path_of<'a>(record: &Record<'a>) -> (Option<&'a [u8]>, &'a [u8]) {
    let value = record.value();
    match record.kind() {
        RecordKind::ContentUsage => path_and_value(value),
        RecordKind::DisallowAiTraining if value.starts_with(b"/") || value.starts_with(b"*") => {
            (Some(value), value)
        }
        _ => (None, value),
    }
}

/// What a record states for the URLs that its path covers; `None` for records of other kinds.
fn read(record: &Record<'_>, strict: bool) -> Option<StatedLine> {
    let (path, value) = path_of(record);
    let is_cut = record.value().len() > RECORD_BYTES_MAX;
    match record.kind() {
        RecordKind::ContentUsage | RecordKind::ContentSignal if is_cut => Some(read_beginning(value)),
        RecordKind::ContentUsage => Some(read_usage(path, value, strict)),
        RecordKind::ContentSignal => Some(signal::read(value, strict).0),
        RecordKind::DisallowAiTraining => Some(read_no_training(path, value)),
        RecordKind::TdmReservation => Some(tdm::read_record(value)),
        _ => None,
    }
}

fn read_usage(path: Option<&[u8]>, value: &[u8], strict: bool) -> StatedLine {
    const PROBLEM: &str = "expected a preference behind the path";
    match path {
        Some(path) if value.is_empty() => {
            let mut line = StatedLine::default();
            // `/a/train-ai=n` has a space too few. A path without a sign in it is one.
            if path.contains(&b'=') {
                line.salvage(path, "a space behind the path", strict);
                line = line.into_doubt(PROBLEM);
                line.is_broken = !line.stated.is_empty();
            }
            StatedLine { problem: Some(PROBLEM.to_owned()), ..line }
        }
        _ => usage::read(value, strict),
    }
}

/// A record that abide-robots has cut: what its beginning forbids counts, and the rest is unknown.
fn read_beginning(value: &[u8]) -> StatedLine {
    let mut line = StatedLine::default();
    line.salvage(value, "at most 16 KiB", false);
    line.doubt(
        &[Usage::TrainAi, Usage::Search, Usage::AiInput],
        "at most 16 KiB",
        &String::from_utf8_lossy(value),
    );
    line
}

/// The most that abide-robots hands over of a record that is not cut.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// `DisallowAITraining: /path` (draft-canel-robots-ai-control). Stricter: `true` is the whole site.
fn read_no_training(path: Option<&[u8]>, value: &[u8]) -> StatedLine {
    let mut line = StatedLine::default();
    let text = String::from_utf8_lossy(value);
    match Value::of(&text) {
        _ if path.is_some() => line.disallow(&[Usage::TrainAi]),
        Value::Yes | Value::OtherYes => line.disallow(&[Usage::TrainAi]),
        _ => line.doubt(&[Usage::TrainAi], "a path behind DisallowAITraining", &text),
    }
    line
}

/// What the author of a preference record should know: that it is dropped, in what part it counts, or that
/// what it permits is unknown. `None` for one that is read as written, and for records of other kinds.
///
/// ```
/// use abide_permissions::record_problem;
/// use abide_robots::Robots;
///
/// let robots = Robots::parse(b"User-agent: *\nContent-Usage: train-ai=n search=n");
/// let problem = robots.records().find_map(|record| record_problem(&record));
/// assert_eq!(
///     problem.as_deref(),
///     Some("expected a dictionary such as `train-ai=n`, found `train-ai=n search=n`; of it only what is disallowed counts")
/// );
/// ```
pub fn record_problem(record: &Record<'_>) -> Option<String> {
    match record.kind() {
        RecordKind::AppDirectives => directives::problem(record.value()),
        _ => read(record, false)?.problem,
    }
}
