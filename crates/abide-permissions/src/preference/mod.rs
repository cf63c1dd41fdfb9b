//! Preferences about the use of content: Content-Usage, Content-Signal, TDMRep, policy tokens. None of them
//! denies a request by itself.
//!
//! Everything found is a [`PreferenceStatement`] with its source, also what was not understood.
//! [`Preferences::answer`] combines the statements on one use, most restrictively: yes, no, unset, or unknown
//! with the reasons.

mod page;
mod robots;
mod signal;
mod tdm;
mod usage;

mod label;
mod line;
mod salvage;

pub use page::states_preferences;
pub use robots::record_problem;

use std::fmt;

use crate::answer::Answer;
use crate::options::{PreferenceOptions, ReadOptions};
use crate::permissions::Permissions;
use crate::provenance::{Provenance, warn};
use label::Value;
use line::StatedLine;
use page::Carrier;

/// A use of content.
///
/// ```
/// use abide_permissions::{Preference, Preferences, Usage};
///
/// fn may_train(preferences: &Preferences) -> bool {
///     match preferences.answer(&Usage::TrainAi).preference() {
///         Preference::Allow => true,
///         Preference::Disallow | Preference::Unknown => false,
///         Preference::Unset => false, // Where nothing is stated, the choice is yours.
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Usage {
    /// `train-ai`: training models that generate content (draft-ietf-aipref-vocab); `ai-train` of
    /// Content-Signal.
    TrainAi,
    /// `search`: selecting assets and directing users to them.
    Search,
    /// `ai-input` of Content-Signal: input to a generative model when it answers.
    AiInput,
    /// Text and data mining (TDMRep).
    Tdm,
    /// A label that names no use we know, or that would allow one by a name that is not its own. It touches
    /// no other usage.
    Other(Box<str>),
}

/// As in the vocabularies; another label behind `other:`, so that `train-ai` is always the usage of that
/// name.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TrainAi => f.write_str("train-ai"),
            Self::Search => f.write_str("search"),
            Self::AiInput => f.write_str("ai-input"),
            Self::Tdm => f.write_str("tdm"),
            Self::Other(label) => write!(f, "other:{}", label.escape_debug()),
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

/// Reasons that are kept and given, enough to mend a page by.
const REASONS_MAX: usize = 32;

/// The two names that are both records of robots.txt and response fields: draft-ietf-aipref-attach,
/// contentsignals.org.
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
    /// Why it is unknown.
    #[cfg_attr(feature = "serde", serde(default))]
    problem: Option<Box<str>>,
}

impl PreferenceStatement {
    pub(crate) fn new(usage: Usage, preference: Preference, source: Provenance, text: &[u8]) -> Self {
        // No character has more than four bytes.
        let text = text.get(..TEXT_CHARS_MAX.saturating_mul(4)).unwrap_or(text);
        let text = String::from_utf8_lossy(text).chars().take(TEXT_CHARS_MAX).collect::<String>().into();
        Self { usage, preference, source, text, problem: None }
    }

    /// What is wrong with the text, if that leaves the usage unknown.
    fn with_problem(self, problem: Option<&str>) -> Self {
        let problem = problem.filter(|_| self.preference == Preference::Unknown).map(Into::into);
        Self { problem, ..self }
    }

    /// Why it is unknown, with its place.
    fn reason(&self) -> String {
        let problem = self.problem.as_deref().unwrap_or("what it states is unknown");
        format!("{}: {problem}", self.source)
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
/// A statement that was not understood is one of [`Preference::Unknown`]: it makes its question unknown,
/// never allowed or unset. Taken when the response is fetched, from the copy of robots.txt that decided that
/// fetch, they travel with the response: "updates do not retroactively apply" (draft-ietf-aipref-attach).
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
    /// Why sources were not read.
    unread: Vec<Box<str>>,
    options: PreferenceOptions,
}

impl Preferences {
    /// Nothing found yet; what is added is read as `options` say. By default (`Preferences::default()`)
    /// broken values are salvaged, the signals of `*` are not united with those of a named group, and the
    /// only policy token is that of [training](crate::AI_TRAINING_TOKEN).
    pub fn new(options: &ReadOptions) -> Self {
        Self { options: options.preferences.clone(), ..Self::default() }
    }

    /// Adds what response fields state: `Content-Usage`, `Content-Signal` and their like, each line by
    /// itself. Stricter: joined into one Dictionary, a later `y` would cancel an earlier `n`. The fields of
    /// TDMRep are read [with its other places](Self::with_tdm).
    pub fn with_fields<'a>(mut self, fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut lines = Vec::<(Carrier, usize)>::new();
        for (name, value) in fields {
            let Some(carrier) = Carrier::named(name) else { continue };
            let line = match lines.iter_mut().find(|(known, _)| *known == carrier) {
                Some((_, line)) => {
                    *line = line.saturating_add(1);
                    *line
                }
                None => {
                    lines.push((carrier, 0));
                    0
                }
            };
            let is_exact = name.eq_ignore_ascii_case(carrier.name());
            self.add_carried(carrier, value, Provenance::field(carrier.name(), line), is_exact);
        }
        self
    }

    /// What stands in a field or a meta of this name. Only a field that is spelt as specified allows
    /// anything.
    fn add_carried(&mut self, carrier: Carrier, value: &[u8], source: Provenance, may_allow: bool) {
        let before = self.statements.len();
        match carrier {
            Carrier::ContentUsage => {
                self.add_line(usage::read(value, self.options.strict), &source, value);
            }
            Carrier::ContentSignal => self.add_signal(value, source),
            Carrier::DisallowAiTraining | Carrier::NoMl => {
                let mut line = StatedLine::default();
                match Value::of(&String::from_utf8_lossy(value)) {
                    Value::No => {
                        line.doubt(&[Usage::TrainAi], carrier.name(), &String::from_utf8_lossy(value))
                    }
                    _ => line.disallow(&[Usage::TrainAi]),
                }
                self.add_line(line, &source, value);
            }
        }
        if !may_allow {
            let added = self.statements.split_off(before);
            self.statements.extend(added.into_iter().filter(|added| added.preference != Preference::Allow));
        }
    }

    /// Adds `noai` as a statement against training and AI input. Off unless called, because `noai` is about
    /// data sets, and this is an interpretation. The source of the statement is that of the rule.
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

    /// Says that something which may state preferences was not read, and why: a head, a line of a field, a
    /// file of the site.
    pub fn with_unread_source(mut self, why: &str) -> Self {
        self.unread(why);
        self
    }

    fn unread(&mut self, why: &str) {
        if self.unread.len() < REASONS_MAX && !self.unread.iter().any(|known| **known == *why) {
            self.unread.push(why.into());
        }
    }

    /// Whether everything was read and understood that may state preferences. If not, nothing is *known* to
    /// be allowed.
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty()
            && self.statements.iter().all(|statement| statement.preference != Preference::Unknown)
    }

    /// May the content be used to train models? Short for [`answer`](Self::answer) to [`Usage::TrainAi`].
    pub fn training(&self) -> Answer {
        self.answer(&Usage::TrainAi)
    }

    /// May the content be input to a model that answers a person? Short for [`answer`](Self::answer) to
    /// [`Usage::AiInput`].
    pub fn input(&self) -> Answer {
        self.answer(&Usage::AiInput)
    }

    /// May the content be used so? The most restrictive of what is stated on the usage; for training also on
    /// text and data mining, which it needs. Unknown, with the reasons, where a statement on it was not
    /// understood or a source was [not read](Self::with_unread_source), unless another statement disallows
    /// it. `noai` counts where it was [added](Self::with_noai).
    pub fn answer(&self, usage: &Usage) -> Answer {
        let counts = |other: &Usage| other == usage || (*usage == Usage::TrainAi && *other == Usage::Tdm);
        let about = || self.statements.iter().filter(|statement| counts(&statement.usage));
        let unread = if self.unread.is_empty() { Preference::Unset } else { Preference::Unknown };
        let stated = about().map(|statement| statement.preference).max().unwrap_or_default();
        let decided = stated.max(unread);
        let deciding = || about().filter(|statement| statement.preference == decided);
        if decided != Preference::Unknown {
            return Answer::new(decided, deciding().map(|statement| statement.source.clone()));
        }
        let mut reasons: Vec<String> = Vec::new();
        let unread = self.unread.iter().map(|why| why.to_string());
        for reason in deciding().map(PreferenceStatement::reason).chain(unread) {
            if reasons.len() < REASONS_MAX && !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        Answer::unknown(reasons)
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

    /// The same without what some places state: their statements, their `use` of Content-Signal and their
    /// policy of TDMRep. An App-Directive may override the preferences of the *same robots.txt* within its
    /// own scope, which only the application knows; so nothing is overridden unless the caller leaves it out
    /// here. What was not read, and the warnings, stay.
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

    /// The value of `use` in Content-Signal: `immediate`, `reference` or `full`; the most restrictive one
    /// stated.
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

    fn add_signal(&mut self, value: &[u8], source: Provenance) {
        let (line, content_use) = signal::read(value, self.options.strict);
        self.add_line(line, &source, value);
        self.signal_uses.extend(content_use.map(|rank| (source, rank)));
    }

    fn disallow(&mut self, usage: Usage, source: Provenance, text: &[u8]) {
        self.statements.push(PreferenceStatement::new(usage, Preference::Disallow, source, text));
    }

    fn add_line(&mut self, line: StatedLine, source: &Provenance, text: &[u8]) {
        if let Some(problem) = &line.problem {
            warn(&mut self.warnings, source.clone(), problem);
        }
        for (usage, preference) in line.stated {
            let statement = PreferenceStatement::new(usage, preference, source.clone(), text);
            self.statements.push(statement.with_problem(line.problem.as_deref()));
        }
    }
}
