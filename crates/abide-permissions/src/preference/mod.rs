//! Preferences about the use of content: Content-Usage, Content-Signal, TDMRep. None of them denies a request.
//!
//! Everything found is a [`PreferenceStatement`] with its source. [`Preferences::resolve`] combines the statements on one
//! usage, most restrictively.

mod signal;
mod tdm;
mod usage;

pub use tdm::{Tdm, TdmFile};

use std::fmt;

use abide_robots::{Pattern, RecordKind, Rules, Target};

use crate::directives::path_and_value;
use crate::permissions::Permissions;
use crate::rule::Flag;
use crate::statement::Source;

/// A use of content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Usage {
    /// `train-ai`: training models that generate content (draft-ietf-aipref-vocab); `ai-train` of Content-Signal.
    TrainAi,
    /// `search`: selecting assets and directing users to them.
    Search,
    /// `ai-input` of Content-Signal: input to a generative model when it answers.
    AiInput,
    /// Text and data mining (TDMRep).
    Tdm,
    /// A label that is not in the vocabulary, with its `y` or `n`. It touches no other usage.
    Other(Box<str>),
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TrainAi => f.write_str("train-ai"),
            Self::Search => f.write_str("search"),
            Self::AiInput => f.write_str("ai-input"),
            Self::Tdm => f.write_str("tdm"),
            Self::Other(label) => write!(f, "{}", label.escape_debug()),
        }
    }
}

/// What is preferred. Ordered by how much it restricts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Preference {
    /// Nothing is stated. What follows from that is the caller's choice; the drafts take no position.
    #[default]
    Unknown,
    /// The use is allowed.
    Allow,
    /// The use is disallowed.
    Disallow,
}

impl Preference {
    /// `allow`, `disallow`, or `None` when nothing is stated.
    #[must_use]
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::Allow => Some("allow"),
            Self::Disallow => Some("disallow"),
        }
    }
}

/// The two carriers that stand both in robots.txt and in response fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Carrier {
    /// `Content-Usage` (draft-ietf-aipref-attach).
    ContentUsage,
    /// `Content-Signal` (contentsignals.org).
    ContentSignal,
}

/// Where a preference is stated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PreferenceSource {
    /// A record of robots.txt, in the group that applies.
    #[non_exhaustive]
    RobotsTxt {
        /// Which record.
        record: Carrier,
        /// Its line, from 1.
        line: u32,
        /// Its path as written; `None`: it covers every URL.
        path: Option<Box<str>>,
    },
    /// A response field.
    #[non_exhaustive]
    Field {
        /// Its lower-case name.
        name: Box<str>,
        /// The line among those of that name, from 0.
        line: usize,
    },
    /// A meta element of the head, from 0.
    Meta(usize),
    /// An entry of `/.well-known/tdmrep.json`, from 0.
    WellKnown(usize),
    /// A `noai` rule, mapped because the caller asked for it.
    Rule,
}

/// One preference and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PreferenceStatement {
    usage: Usage,
    preference: Preference,
    source: PreferenceSource,
    text: Box<str>,
}

impl PreferenceStatement {
    pub(crate) fn new(usage: Usage, preference: Preference, source: PreferenceSource, text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text).chars().take(TEXT_CHARS_MAX).collect::<String>().into();
        Self { usage, preference, source, text }
    }

    /// The use it speaks of.
    #[must_use]
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// What is preferred.
    #[must_use]
    pub const fn preference(&self) -> Preference {
        self.preference
    }

    /// Where it stands.
    #[must_use]
    pub const fn source(&self) -> &PreferenceSource {
        &self.source
    }

    /// The text as written, at most 256 characters of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

const TEXT_CHARS_MAX: usize = 256;

/// A record or line that could not be read and states nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferenceRemark {
    source: PreferenceSource,
    problem: &'static str,
}

impl PreferenceRemark {
    /// Where it stands.
    #[must_use]
    pub const fn source(&self) -> &PreferenceSource {
        &self.source
    }

    /// What was expected.
    #[must_use]
    pub const fn problem(&self) -> &'static str {
        self.problem
    }
}

/// All preferences that were found for one URL.
///
/// Taken when the response is fetched, from the copy of robots.txt that decided that fetch, they travel with the response:
/// "updates do not retroactively apply" (draft-ietf-aipref-attach).
///
/// ```
/// use abide_permissions::{Preference, Preferences, Usage};
/// use abide_robots::{Rules, Target};
///
/// let robots = b"User-agent: *\nAllow: /\nContent-Usage: train-ai=n\nContent-Signal: search=yes";
/// let rules = Rules::parse(robots, &["ExampleBot".parse()?]);
/// let preferences = Preferences::default()
///     .with_robots(&rules, &Target::new("/a"))
///     .with_fields([("Content-Usage", b"train-ai=y".as_slice())]);
/// let training = preferences.resolve(&Usage::TrainAi);
/// assert_eq!(training.preference(), Preference::Disallow, "the most restrictive statement counts");
/// assert_eq!(training.decided_by().len(), 1);
/// # Ok::<(), abide_robots::InvalidToken>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    statements: Vec<PreferenceStatement>,
    remarks: Vec<PreferenceRemark>,
    /// The value of `use` in Content-Signal, in lower case.
    signal_use: Option<Box<str>>,
}

/// The combined answer on one usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution<'a> {
    preference: Preference,
    decided_by: Vec<&'a PreferenceStatement>,
}

impl<'a> Resolution<'a> {
    /// The most restrictive preference that is stated.
    #[must_use]
    pub const fn preference(&self) -> Preference {
        self.preference
    }

    /// The statements that say so.
    #[must_use]
    pub fn decided_by(&self) -> &[&'a PreferenceStatement] {
        &self.decided_by
    }
}

impl Preferences {
    /// Adds what robots.txt states: of Content-Usage the records with the longest path that covers the URL, of Content-Signal
    /// all. For a URL that it disallows it states nothing ("no preferences are implied for resources that are disallowed").
    #[must_use]
    pub fn with_robots(mut self, rules: &Rules, target: &Target<'_>) -> Self {
        if !rules.is_allowed(target) {
            return self;
        }
        self.add_usage_records(rules, target);
        for record in rules.records().filter(|record| record.kind() == RecordKind::ContentSignal) {
            let source = robots_source(Carrier::ContentSignal, record.line(), None);
            self.add_signal(record.value(), source);
        }
        self
    }

    /// Adds what response fields state: `Content-Usage` and `Content-Signal`, each line by itself. Stricter: joined into one
    /// Dictionary, a later `y` would cancel an earlier `n`.
    #[must_use]
    pub fn with_fields<'a>(mut self, fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut lines = [0_usize; 2];
        for (name, value) in fields {
            let carrier = match name.to_ascii_lowercase().as_str() {
                "content-usage" => Carrier::ContentUsage,
                "content-signal" => Carrier::ContentSignal,
                _ => continue,
            };
            let [usage, signal] = &mut lines;
            let line = if carrier == Carrier::ContentUsage { usage } else { signal };
            let source = PreferenceSource::Field { name: name.to_ascii_lowercase().into(), line: *line };
            *line = line.saturating_add(1);
            match carrier {
                Carrier::ContentUsage => match usage::parse(value) {
                    Some(labels) => self.add_usage(&labels, &source, value),
                    None => self.remark(source, NOT_A_DICTIONARY),
                },
                Carrier::ContentSignal => self.add_signal(value, source),
            }
        }
        self
    }

    /// Adds the one statement of TDMRep, after its own order of precedence.
    #[must_use]
    pub fn with_tdm(mut self, tdm: &Tdm) -> Self {
        self.statements.extend(tdm.statement().cloned());
        self
    }

    /// Adds `noai` as a statement against training and AI input. Off unless called: `noai` speaks of data sets, and this is
    /// an interpretation.
    #[must_use]
    pub fn with_noai(mut self, permissions: &Permissions) -> Self {
        if let Some(stated) =
            permissions.statements().iter().find(|statement| statement.rules().states(Flag::NoAi))
        {
            let text = match stated.source() {
                Source::Field { text, .. } => text.as_bytes(),
                _ => b"noai",
            };
            for usage in [Usage::TrainAi, Usage::AiInput] {
                let source = PreferenceSource::Rule;
                self.statements.push(PreferenceStatement::new(usage, Preference::Disallow, source, text));
            }
        }
        self
    }

    /// Adds statements that were kept from an earlier visit.
    #[must_use]
    pub fn with_statements(mut self, statements: impl IntoIterator<Item = PreferenceStatement>) -> Self {
        self.statements.extend(statements);
        self
    }

    /// Everything that was found, in order.
    #[must_use]
    pub fn statements(&self) -> &[PreferenceStatement] {
        &self.statements
    }

    /// What could not be read.
    #[must_use]
    pub fn remarks(&self) -> &[PreferenceRemark] {
        &self.remarks
    }

    /// The most restrictive statement on a usage. Nothing is inferred from one usage for another.
    #[must_use]
    pub fn resolve(&self, usage: &Usage) -> Resolution<'_> {
        self.resolve_without(usage, |_| false)
    }

    /// The same without some sources. An App-Directive may override the preferences of the *same robots.txt* within its own
    /// scope, which only the application knows; so nothing is overridden unless the caller leaves it out here.
    #[must_use]
    pub fn resolve_without(
        &self,
        usage: &Usage,
        leave_out: impl Fn(&PreferenceSource) -> bool,
    ) -> Resolution<'_> {
        let about = || self.statements.iter().filter(|s| s.usage == *usage && !leave_out(&s.source));
        let preference = about().map(|statement| statement.preference).max().unwrap_or_default();
        let decides = |statement: &&PreferenceStatement| {
            statement.preference == preference && preference != Preference::Unknown
        };
        Resolution { preference, decided_by: about().filter(decides).collect() }
    }

    /// The labels of the current vocabulary that Content-Usage states, with their combined preference.
    pub fn content_usage(&self) -> impl Iterator<Item = (&'static str, Preference)> {
        usage::LABELS.iter().filter_map(|(label, usage)| {
            let preference = self.combined(usage, Carrier::ContentUsage);
            (preference != Preference::Unknown).then_some((*label, preference))
        })
    }

    /// The keys of Content-Signal that are stated, with their combined preference.
    pub fn content_signal(&self) -> impl Iterator<Item = (&'static str, Preference)> {
        signal::KEYS.iter().filter_map(|(key, usage)| {
            let preference = self.combined(usage, Carrier::ContentSignal);
            (preference != Preference::Unknown).then_some((*key, preference))
        })
    }

    /// The value of `use` in Content-Signal: `immediate`, `reference` or `full`; the most restrictive one stated.
    #[must_use]
    pub fn content_signal_use(&self) -> Option<&str> {
        self.signal_use.as_deref()
    }

    fn combined(&self, usage: &Usage, carrier: Carrier) -> Preference {
        self.resolve_without(usage, |source| !source.is_of(carrier)).preference
    }

    fn add_usage_records(&mut self, rules: &Rules, target: &Target<'_>) {
        let mut longest = Vec::new();
        let mut octets_max = 0;
        for record in rules.records().filter(|record| record.kind() == RecordKind::ContentUsage) {
            let (path, value) = path_and_value(record.value());
            let source = robots_source(Carrier::ContentUsage, record.line(), path);
            let Some(labels) = usage::parse(value) else {
                self.remark(source, NOT_A_DICTIONARY);
                continue;
            };
            if path.is_some() && value.is_empty() {
                self.remark(source.clone(), "expected a preference behind the path");
            }
            let pattern = path.map(Pattern::new);
            if pattern.as_ref().is_some_and(|pattern| !pattern.matches(target)) {
                continue;
            }
            let octets = pattern.as_ref().map_or(0, Pattern::octets);
            if octets > octets_max {
                longest.clear();
                octets_max = octets;
            }
            if octets == octets_max {
                longest.push((labels, source, value));
            }
        }
        for (labels, source, value) in longest {
            self.add_usage(&labels, &source, value);
        }
    }

    fn add_usage(&mut self, labels: &[(Usage, Preference)], source: &PreferenceSource, text: &[u8]) {
        for (usage, preference) in labels {
            self.statements.push(PreferenceStatement::new(usage.clone(), *preference, source.clone(), text));
        }
    }

    fn add_signal(&mut self, value: &[u8], source: PreferenceSource) {
        if value.starts_with(b"/") {
            return self.remark(source, "expected signals, found a path, which Content-Signal does not have");
        }
        let signal = signal::parse(value);
        self.add_usage(&signal.usages, &source, value);
        self.signal_use = match (self.signal_use.take(), signal.usage_of_content) {
            (Some(ours), Some(theirs)) => Some(signal::stricter_use(ours, theirs)),
            (ours, theirs) => ours.or(theirs),
        };
    }

    fn remark(&mut self, source: PreferenceSource, problem: &'static str) {
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(PreferenceRemark { source, problem });
        }
    }
}

/// Enough to mend a file by.
const REMARKS_MAX: usize = 32;

const NOT_A_DICTIONARY: &str = "expected a dictionary such as `train-ai=n`";

impl PreferenceSource {
    /// Whether it is a record or a field of this carrier.
    fn is_of(&self, carrier: Carrier) -> bool {
        match self {
            Self::RobotsTxt { record, .. } => *record == carrier,
            Self::Field { name, .. } => match carrier {
                Carrier::ContentUsage => &**name == "content-usage",
                Carrier::ContentSignal => &**name == "content-signal",
            },
            _ => false,
        }
    }

    /// Whether it is a record of robots.txt.
    #[must_use]
    pub const fn is_robots_txt(&self) -> bool {
        matches!(self, Self::RobotsTxt { .. })
    }
}

fn robots_source(record: Carrier, line: u32, path: Option<&[u8]>) -> PreferenceSource {
    PreferenceSource::RobotsTxt { record, line, path: path.map(|path| String::from_utf8_lossy(path).into()) }
}
