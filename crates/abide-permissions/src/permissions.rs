//! `Permissions`: what one response permits, and how much of that is known.
//!
//! It unites what the fields, the metas and the rendered document state. Nothing relaxes, and what was not
//! read is not permitted.

use std::time::SystemTime;

use crate::answer::Answer;
use crate::head::{Head, HeadEnd, Meta};
use crate::header::read_fields;
use crate::meta::{read_head, read_metas};
use crate::options::ReadOptions;
use crate::preference::Preference;
use crate::provenance::{Findings, Provenance};
use crate::question::{Asked, Question};
use crate::rules::TagRules;

/// What a site permits with a page: the rules of all sources combined, and where each rule comes from.
///
/// These are requests of the publisher, not access control (draft-illyes-repext-03 §1): they do not decide
/// whether a page may be fetched.
///
/// ```
/// use std::time::SystemTime;
/// use abide_permissions::{Head, HeadEnd, Meta, Permissions, ReadOptions};
///
/// let options = ReadOptions::new("ExampleBot".parse()?);
/// let fields = [("Robots-Tag", b"*;nosnippet".as_slice()), ("X-Robots-Tag", b"otherbot: noindex")];
/// let head = Head::from_metas([Meta::new("examplebot", "nofollow")], HeadEnd::Ended);
/// let permissions = Permissions::read(&options, fields, head, SystemTime::now());
///
/// assert!(permissions.may_index());
/// assert!(!permissions.may_follow());
/// assert!(permissions.rules().nosnippet());
/// let sources: Vec<String> = permissions.statements().iter().map(|(place, _)| place.to_string()).collect();
/// assert_eq!(sources, ["Robots-Tag, field 1 (sf): *;nosnippet", "meta 1 named examplebot"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Permissions {
    rules: TagRules,
    findings: Findings,
    head: Head,
    fields_read: bool,
    unknown_is_permitted: bool,
    received_at: SystemTime,
}

impl Permissions {
    /// Reads a response: its header fields as (name, value), one pair for each line, in order; and its head,
    /// or the reason why there is none. Fields of other names are passed over.
    pub fn read<'a>(
        options: &ReadOptions,
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        head: Head,
        received_at: SystemTime,
    ) -> Self {
        let mut findings = Findings::default();
        // In the order in which `statements` lists them.
        read_fields(options, fields, &mut findings);
        read_head(options, &head, &mut findings);
        Self {
            rules: findings.rules(),
            findings,
            head,
            fields_read: true,
            unknown_is_permitted: options.unknown_is_permitted,
            received_at,
        }
    }

    /// Reads header fields alone, as text, for content that is not HTML. The reading is as of the epoch; give
    /// the time with [`Permissions::with_received_at`] when an `unavailable_after` should count.
    pub fn from_headers<'a>(
        options: &ReadOptions,
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let fields = fields.into_iter().map(|(name, value)| (name, value.as_bytes()));
        Self::read(options, fields, Head::default(), SystemTime::UNIX_EPOCH)
    }

    /// Nothing is known of the page, for this reason, and no setting permits what is unknown: the response is
    /// not the page's.
    pub fn unknown(received_at: SystemTime, reason: String) -> Self {
        let findings =
            Findings { doubted: Asked::ALL, doubts: vec![(Asked::ALL, reason)], ..Findings::default() };
        Self {
            rules: findings.rules(),
            findings,
            head: Head::default(),
            fields_read: true,
            unknown_is_permitted: false,
            received_at,
        }
    }

    /// Sets when the response was received, as of which [`Permissions::may_index`] answers.
    pub const fn with_received_at(mut self, received_at: SystemTime) -> Self {
        self.received_at = received_at;
        self
    }

    /// Says that there may be field lines which [`Permissions::read`] was not given, because something on the
    /// way does not keep them, as HTTP caches do. What is stated stays, and nothing else is known.
    pub const fn with_missing_fields(mut self) -> Self {
        self.fields_read = false;
        self
    }

    /// Adds what the document states after its scripts have run: the metas of the final DOM's head, in order.
    ///
    /// What the initial source states stays in force, even if the DOM does not have it
    /// (draft-illyes-repext-03 §4: the final DOM MUST NOT be the exclusive source of truth).
    pub(crate) fn union_rendered(mut self, options: &ReadOptions, metas: &[Meta]) -> Self {
        read_metas(options, metas, |index, name| Provenance::Rendered { index, name }, &mut self.findings);
        // Combined once more from all statements, of which none was taken back.
        self.rules = self.findings.rules();
        self
    }

    /// The effective rules for our tokens, whatever their source.
    pub const fn rules(&self) -> &TagRules {
        &self.rules
    }

    /// The effective rules one by one with their sources: fields first, then metas, then metas in `noscript`.
    pub fn statements(&self) -> &[(Provenance, TagRules)] {
        &self.findings.statements
    }

    /// Places that could not be read as their publisher may have meant them, and why; at most 32.
    pub fn warnings(&self) -> &[(Provenance, String)] {
        &self.findings.warnings
    }

    /// The head as it was found, whichever crawlers its metas address.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// How the scan of the head ended, or why there was none.
    pub const fn head_end(&self) -> HeadEnd {
        self.head.end()
    }

    /// Every meta element of the head with a name, in order, whichever crawler it addresses.
    pub fn metas(&self) -> &[Meta] {
        self.head.metas()
    }

    /// Whether a limit cut a field, a `content`, or the head, or the head could not be read to its end: rules
    /// may be missing.
    pub const fn is_truncated(&self) -> bool {
        self.findings.truncated
    }

    /// When the response was received.
    pub const fn received_at(&self) -> SystemTime {
        self.received_at
    }

    /// Whether everything was read and understood that could state a rule: every field line, and the head to
    /// its end unless there is no HTML. If not, some [answer](Self::answer) is unknown, unless something
    /// forbids it.
    pub const fn is_complete(&self) -> bool {
        self.is_read() && self.findings.doubted.is_empty()
    }

    /// Whether everything was read that could state a rule or a preference, also where some of it was not
    /// understood.
    pub const fn is_read(&self) -> bool {
        self.fields_read && !self.findings.truncated && self.head_end().is_complete()
    }

    /// May the page be used so? As of when the response was received. Yes where everything was read that
    /// could forbid it, all that was stated about it was understood, and nothing forbids it; else no, or
    /// unknown with the reasons. No setting changes this.
    ///
    /// ```
    /// use abide_permissions::{Permissions, Question, ReadOptions};
    ///
    /// let options = ReadOptions::new("ExampleBot".parse()?);
    /// let permissions = Permissions::from_headers(&options, [("X-Robots-Tag", "unavailable_after: 03/04/2025, nofollow")]);
    /// let index = permissions.answer(Question::Index);
    /// assert_eq!(index.unknown_because(), ["X-Robots-Tag 1: unavailable_after: 03/04/2025 is no date that has one reading"]);
    /// assert!(permissions.answer(Question::Follow).is_disallowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn answer(&self, question: Question) -> Answer {
        let forbids = |rules: &TagRules| question.is_forbidden_by(rules, self.received_at);
        let sources =
            self.findings.statements.iter().filter(|(_, rules)| forbids(rules)).map(|(source, _)| source);
        let sources: Vec<_> = sources.cloned().collect();
        // What is stated holds, however much was not read or not understood.
        if !sources.is_empty() {
            Answer::new(Preference::Disallow, sources)
        } else if self.is_known(question) {
            Answer::new(Preference::Allow, None)
        } else {
            Answer::unknown(self.reasons_for(Asked::of(question)))
        }
    }

    /// Why something is unknown, a sentence for each reason, whatever it is about. Empty if everything [is
    /// known](Self::is_complete).
    pub fn unknown_because(&self) -> Vec<String> {
        self.reasons_for(Asked::ALL)
    }

    const fn is_known(&self, question: Question) -> bool {
        self.is_read() && !self.findings.doubted.has(question)
    }

    fn reasons_for(&self, asked: Asked) -> Vec<String> {
        let doubts = self.findings.doubts.iter().filter(|(about, _)| about.meets(asked));
        let mut reasons: Vec<String> = doubts.map(|(_, reason)| reason.clone()).collect();
        if !self.fields_read {
            reasons.push("fields: something on the way may have dropped lines".to_owned());
        }
        if self.head.noscript_cut() {
            reasons.push("head: a noscript element is over the limit".to_owned());
        }
        if self.head.strays_cut() {
            reasons.push("head: more metas behind it than are kept".to_owned());
        }
        if !self.head_end().is_complete() {
            reasons.push(format!("head: {}", self.head_end()));
        }
        reasons.dedup();
        reasons
    }

    /// Whether the content may be in an index, as of when the response was received. Unknown is no: `true`
    /// only when the [answer](Self::answer) is yes, or with [`ReadOptions::danger_unknown_is_permitted`]. A
    /// robots meta behind the head is found only as [`ReadOptions::with_whole_document`] says.
    pub fn may_index(&self) -> bool {
        self.may_index_at(self.received_at)
    }

    /// Whether the content may be in an index at `now`. Later than the response, an `unavailable_after` may
    /// have passed. Unknown is no, as for [`Permissions::may_index`].
    pub fn may_index_at(&self, now: SystemTime) -> bool {
        self.permits_what_is_not_stated(Question::Index) && self.rules.may_index_at(now)
    }

    /// Whether the page's links may be followed. Unknown is no, as for [`Permissions::may_index`]. For a
    /// single link see [`link_follow`](crate::link_follow).
    pub const fn may_follow(&self) -> bool {
        self.permits_what_is_not_stated(Question::Follow) && !self.rules.nofollow()
    }

    /// The longest text snippet in characters; 0 when `nosnippet`, or when that is unknown. `None`: there is
    /// no limit.
    pub const fn snippet_limit(&self) -> Option<u64> {
        if self.permits_what_is_not_stated(Question::Snippet) { self.rules.snippet_limit() } else { Some(0) }
    }

    /// The answer on [indexing](Question::Index) in reverse: `Some(true)` when it is forbidden, `Some(false)`
    /// when it is allowed, `None` when it is unknown. No setting changes this.
    pub fn noindex_known(&self) -> Option<bool> {
        match self.answer(Question::Index).preference() {
            Preference::Disallow => Some(true),
            Preference::Allow => Some(false),
            Preference::Unset | Preference::Unknown => None,
        }
    }

    const fn permits_what_is_not_stated(&self, question: Question) -> bool {
        self.unknown_is_permitted || self.is_known(question)
    }
}

/// Nothing is stated, and nothing was looked at.
impl Default for Permissions {
    fn default() -> Self {
        let head = Head::not_scanned(HeadEnd::NotScanned);
        Self::read(&ReadOptions::for_tokens([]), [], head, SystemTime::UNIX_EPOCH).with_missing_fields()
    }
}
