//! Preferences about the use of content: Content-Usage, Content-Signal, TDMRep, policy tokens. None of them denies a request.
//!
//! Everything found is a [`PreferenceStatement`] with its source. [`Preferences::resolve`] combines the statements on one
//! usage, most restrictively.

mod salvage;
mod signal;
mod tdm;
mod usage;

use std::fmt;

use abide_robots::{ParseOptions, Record, RecordKind, Rules, Target};

use crate::answer::Answer;
use crate::directives::{self, path_and_value};
use crate::options::{PreferenceOptions, ReadOptions};
use crate::permissions::Permissions;
use crate::provenance::{Provenance, Shown, warn};

/// A use of content.
///
/// ```
/// use abide_permissions::{Preference, Preferences, Usage};
///
/// fn may_train(preferences: &Preferences) -> bool {
///     preferences.is_complete() && preferences.resolve(&Usage::TrainAi) != Preference::Disallow
/// }
/// ```
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
///
/// ```
/// use abide_permissions::{Preference, Preferences};
///
/// let training = Preferences::default().with_fields([("Content-Usage", b"train-ai=n".as_slice())]).training();
/// let may_train = match training.preference() {
///     Preference::Allow => true,
///     Preference::Disallow | Preference::Unknown => false,
///     Preference::Unset => false, // Where nothing is stated, the choice is yours.
/// };
/// assert!(!may_train);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Preference {
    /// Nothing is stated. What follows from that is the caller's choice; the drafts take no position.
    #[default]
    Unset,
    /// The use is allowed.
    Allow,
    /// Something is stated that was not understood, or something was not read. It is never allowed.
    Unknown,
    /// The use is disallowed.
    Disallow,
}

impl Preference {
    /// `allow`, `disallow`, or `None` when neither is known.
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Unset | Self::Unknown => None,
            Self::Allow => Some("allow"),
            Self::Disallow => Some("disallow"),
        }
    }
}

/// The two names that are both records of robots.txt and response fields: draft-ietf-aipref-attach, contentsignals.org.
const CONTENT_USAGE: &str = "Content-Usage";
const CONTENT_SIGNAL: &str = "Content-Signal";

/// One preference and its source.
///
/// ```
/// let preferences = abide_permissions::Preferences::default().with_fields([("Content-Usage", b"search=y".as_slice())]);
/// let statement = &preferences.statements()[0];
/// assert_eq!(format!("{} in {}", statement.text(), statement.source()), "search=y in Content-Usage, field 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PreferenceStatement {
    usage: Usage,
    preference: Preference,
    source: Provenance,
    text: Box<str>,
}

impl PreferenceStatement {
    pub(crate) fn new(usage: Usage, preference: Preference, source: Provenance, text: &[u8]) -> Self {
        // No character has more than four bytes.
        let text = text.get(..TEXT_CHARS_MAX.saturating_mul(4)).unwrap_or(text);
        let text = String::from_utf8_lossy(text).chars().take(TEXT_CHARS_MAX).collect::<String>().into();
        Self { usage, preference, source, text }
    }

    /// The use that it is about.
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// What is preferred.
    pub const fn preference(&self) -> Preference {
        self.preference
    }

    /// Where it stands.
    pub const fn source(&self) -> &Provenance {
        &self.source
    }

    /// The text as written, at most 256 characters of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

const TEXT_CHARS_MAX: usize = 256;

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
/// assert_eq!(preferences.resolve(&Usage::TrainAi), Preference::Disallow, "the most restrictive statement counts");
/// assert_eq!(preferences.decided_by(&Usage::TrainAi).count(), 1);
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Preferences {
    statements: Vec<PreferenceStatement>,
    warnings: Vec<(Provenance, String)>,
    /// The values of `use` in Content-Signal, by their rank.
    signal_uses: Vec<(Provenance, usize)>,
    tdm_policy: Option<(Provenance, Box<str>)>,
    has_unread_sources: bool,
    options: PreferenceOptions,
}

impl Preferences {
    /// Nothing found yet; what is added is read as `options` say. By default (`Preferences::default()`) broken values are
    /// salvaged, the signals of `*` are not united with those of a named group, and there are no policy tokens.
    pub fn new(options: &ReadOptions) -> Self {
        Self { options: options.preferences.clone(), ..Self::default() }
    }

    /// Adds what robots.txt states: of Content-Usage the records with the longest path that covers the URL; of Content-Signal
    /// all of the group, and all outside groups, which sites put there for every crawler. For a URL that it
    /// disallows it states nothing ("no preferences are implied for resources that are disallowed").
    pub fn with_robots(mut self, rules: &Rules, target: &Target<'_>) -> Self {
        if !rules.is_allowed(target) {
            return self;
        }
        self.add_usage_records(rules, target);
        for record in rules.signals_outside_groups() {
            self.add_signal(record.value(), Provenance::of_record(&record, None, None));
        }
        let group = rules.token().unwrap_or("*");
        for record in rules.records().filter(|record| record.kind() == RecordKind::ContentSignal) {
            self.add_signal(record.value(), Provenance::of_record(&record, None, Some(group)));
        }
        if self.options.unites_signals {
            for record in rules.signals_of_all() {
                self.add_signal(record.value(), Provenance::of_record(&record, None, Some("*")));
            }
        }
        self
    }

    /// Adds what the groups of the [policy tokens](ReadOptions::with_policy_token) state: `robots_txt` is the copy that decided
    /// the access. A group that disallows the URL disallows the usage; one that allows it states nothing.
    pub fn with_policy_tokens(mut self, robots_txt: &[u8], target: &Target<'_>) -> Self {
        let options = self.options.clone();
        for policy in options.policies() {
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

    /// Adds what response fields state: `Content-Usage` and `Content-Signal`, each line by itself. Stricter: joined into one
    /// Dictionary, a later `y` would cancel an earlier `n`.
    pub fn with_fields<'a>(mut self, fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let (mut usages, mut signals) = (0_usize, 0_usize);
        for (name, value) in fields {
            if name.eq_ignore_ascii_case(CONTENT_USAGE) {
                let source = Provenance::field(CONTENT_USAGE, usages);
                usages = usages.saturating_add(1);
                let line = usage::read(value, self.options.strict);
                self.add_line(&line, &source, value);
            } else if name.eq_ignore_ascii_case(CONTENT_SIGNAL) {
                self.add_signal(value, Provenance::field(CONTENT_SIGNAL, signals));
                signals = signals.saturating_add(1);
            }
        }
        self
    }

    /// Adds `noai` as a statement against training and AI input. Off unless called, because `noai` is about data sets, and this is
    /// an interpretation. The source of the statement is that of the rule.
    pub fn with_noai(mut self, permissions: &Permissions) -> Self {
        if let Some((source, _)) = permissions.statements().iter().find(|(_, rules)| rules.states("noai")) {
            let text = match source {
                Provenance::Field { text, .. } => text.as_bytes(),
                _ => b"noai",
            };
            for usage in [Usage::TrainAi, Usage::AiInput] {
                self.disallow(usage, source.clone(), text);
            }
        }
        self
    }

    /// Adds statements that were kept from an earlier fetch.
    pub fn with_statements(mut self, statements: impl IntoIterator<Item = PreferenceStatement>) -> Self {
        self.statements.extend(statements);
        self
    }

    /// Says that something which may state preferences was not read: a head, a line of a field, a file of the site.
    pub const fn with_unread_sources(mut self) -> Self {
        self.has_unread_sources = true;
        self
    }

    /// Whether everything was read that may state preferences. If not, nothing is *known* to be allowed.
    pub const fn is_complete(&self) -> bool {
        !self.has_unread_sources
    }

    /// May the content be used to train models? The most restrictive of what is stated on training and on text and data mining, which
    /// training needs. Not allowed but unknown where [something was not read](Self::is_complete). `noai` counts where it was
    /// [added](Self::with_noai).
    pub fn training(&self) -> Answer {
        self.answer(&[Usage::TrainAi, Usage::Tdm])
    }

    /// May the content be input to a model that answers a person? Not allowed but unknown where
    /// [something was not read](Self::is_complete). `noai` counts where it was [added](Self::with_noai).
    pub fn input(&self) -> Answer {
        self.answer(&[Usage::AiInput])
    }

    fn answer(&self, usages: &[Usage]) -> Answer {
        let about = || self.statements.iter().filter(|statement| usages.contains(&statement.usage));
        match about().map(|statement| statement.preference).max().unwrap_or_default() {
            Preference::Allow if self.has_unread_sources => Answer::new(Preference::Unknown, None),
            decided => {
                let deciding = about().filter(|statement| statement.preference == decided);
                Answer::new(decided, deciding.map(|statement| statement.source.clone()))
            }
        }
    }

    /// Everything that was found, in order.
    pub fn statements(&self) -> &[PreferenceStatement] {
        &self.statements
    }

    /// Records and lines that could not be read, and why; at most 32.
    pub fn warnings(&self) -> &[(Provenance, String)] {
        &self.warnings
    }

    /// The most restrictive statement on a usage. Nothing is inferred from one usage for another.
    pub fn resolve(&self, usage: &Usage) -> Preference {
        self.most_restrictive(usage, |_| true)
    }

    /// The statements that decide on a usage: those as restrictive as [`resolve`](Self::resolve) says.
    pub fn decided_by<'a>(&'a self, usage: &'a Usage) -> impl Iterator<Item = &'a PreferenceStatement> {
        let decided = self.resolve(usage);
        self.statements.iter().filter(move |s| s.usage == *usage && s.preference == decided)
    }

    /// The same without what some places state: their statements, their `use` of Content-Signal and their policy of TDMRep. An
    /// App-Directive may override the preferences of the *same robots.txt* within its own scope, which only the application knows; so nothing
    /// is overridden unless the caller leaves it out here. What was not read, and the warnings, stay.
    pub fn without(mut self, leave_out: impl Fn(&Provenance) -> bool) -> Self {
        self.statements.retain(|statement| !leave_out(&statement.source));
        self.signal_uses.retain(|(source, _)| !leave_out(source));
        self.tdm_policy = self.tdm_policy.filter(|(source, _)| !leave_out(source));
        self
    }

    /// The labels of the current vocabulary that Content-Usage states, with their combined preference.
    pub fn content_usage(&self) -> impl Iterator<Item = (&'static str, Preference)> {
        self.carried(&usage::LABELS, CONTENT_USAGE)
    }

    /// The keys of Content-Signal that are stated, with their combined preference.
    pub fn content_signal(&self) -> impl Iterator<Item = (&'static str, Preference)> {
        self.carried(&signal::KEYS, CONTENT_SIGNAL)
    }

    /// The value of `use` in Content-Signal: `immediate`, `reference` or `full`; the most restrictive one stated.
    pub fn content_signal_use(&self) -> Option<&str> {
        signal::USES.get(self.signal_uses.iter().map(|(_, rank)| *rank).min()?).copied()
    }

    fn carried(
        &self,
        labels: &'static [(&'static str, Usage)],
        carrier: &'static str,
    ) -> impl Iterator<Item = (&'static str, Preference)> {
        let resolve = move |usage| self.most_restrictive(usage, |source| source.is_carried_by(carrier));
        let resolved = labels.iter().map(move |(label, usage)| (*label, resolve(usage)));
        resolved.filter(|(_, preference)| preference.as_str().is_some())
    }

    fn most_restrictive(&self, usage: &Usage, counts: impl Fn(&Provenance) -> bool) -> Preference {
        let about = self.statements.iter().filter(|s| s.usage == *usage && counts(&s.source));
        about.map(|statement| statement.preference).max().unwrap_or_default()
    }

    fn add_usage_records(&mut self, rules: &Rules, target: &Target<'_>) {
        let group = rules.token().unwrap_or("*");
        let mut covering = Vec::new();
        let mut bytes_max = 0;
        for record in rules.records().filter(|record| record.kind() == RecordKind::ContentUsage) {
            let (path, value) = path_and_value(record.value());
            let source = Provenance::of_record(&record, path, Some(group));
            let line = read_usage_record(path, value, self.options.strict);
            let covers = path.map_or(Some(0), |path| target.covered_by(path));
            if let Some(bytes) = covers.filter(|_| !line.is_broken) {
                bytes_max = bytes_max.max(bytes);
            }
            covering.push((covers, line, source, value));
        }
        for (bytes, mut line, source, value) in covering {
            // A broken line hides no other; what was salvaged of it yields to a longer path like everything else.
            let counts = bytes
                .is_some_and(|bytes| if line.is_broken { bytes >= bytes_max } else { bytes == bytes_max });
            if !counts {
                line.stated.clear();
            }
            self.add_line(&line, &source, value);
        }
    }

    fn add_signal(&mut self, value: &[u8], source: Provenance) {
        let (line, content_use) = signal::read(value, self.options.strict);
        self.add_line(&line, &source, value);
        self.signal_uses.extend(content_use.map(|rank| (source, rank)));
    }

    fn disallow(&mut self, usage: Usage, source: Provenance, text: &[u8]) {
        self.statements.push(PreferenceStatement::new(usage, Preference::Disallow, source, text));
    }

    fn add_line(&mut self, line: &StatedLine, source: &Provenance, text: &[u8]) {
        if let Some(problem) = &line.problem {
            warn(&mut self.warnings, source.clone(), problem);
        }
        for (usage, preference) in &line.stated {
            self.statements.push(PreferenceStatement::new(usage.clone(), *preference, source.clone(), text));
        }
    }
}

/// What one record or field line states.
#[derive(Default)]
struct StatedLine {
    stated: Vec<(Usage, Preference)>,
    /// Its grammar cannot read it: what is stated was salvaged.
    is_broken: bool,
    /// What its author should know.
    problem: Option<String>,
}

impl StatedLine {
    /// Notes the first part of the line that could not be read as what was expected.
    fn remark(&mut self, expected: &str, found: &[u8], is_dropped: bool) {
        let found = String::from_utf8_lossy(found.trim_ascii());
        let what = if is_dropped { "it states nothing" } else { "of it only what is disallowed counts" };
        self.problem.get_or_insert_with(|| format!("expected {expected}, found `{}`; {what}", Shown(&found)));
    }
}

fn read_usage_record(path: Option<&[u8]>, value: &[u8], strict: bool) -> StatedLine {
    let mut line = usage::read(value, strict);
    if path.is_some() && value.is_empty() {
        line.problem = Some("expected a preference behind the path".to_owned());
    }
    line
}

/// What the author of an App-Directives, Content-Usage or Content-Signal record should know: that it is dropped, or in what part it
/// counts. `None` for one that is read as written, and for records of other kinds.
///
/// ```
/// use abide_permissions::record_problem;
/// use abide_robots::Robots;
///
/// let robots = Robots::parse(b"User-agent: *\nContent-Signal: search=yes; ai-train=no");
/// let problem = robots.records().find_map(|record| record_problem(&record));
/// assert_eq!(
///     problem.as_deref(),
///     Some("expected a signal such as `ai-train=no`, found `search=yes; ai-train=no`; of it only what is disallowed counts")
/// );
/// ```
pub fn record_problem(record: &Record<'_>) -> Option<String> {
    match record.kind() {
        RecordKind::ContentUsage => {
            let (path, value) = path_and_value(record.value());
            read_usage_record(path, value, false).problem
        }
        RecordKind::ContentSignal => signal::read(record.value(), false).0.problem,
        RecordKind::AppDirectives => directives::problem(record.value()),
        _ => None,
    }
}
