//! TDMRep: the reservation of text and data mining (W3C community group, final report of 10 May 2024).

use abide_robots::{Pattern, Target};

use super::{Preference, PreferenceStatement, Usage};
use crate::head::Meta;
use crate::provenance::Provenance;

/// The reservation that TDMRep states for one URL, after its own order of precedence: the file, superseded by fields,
/// superseded by metas. What a carrier does not say, it does not reset.
///
/// ```
/// use abide_permissions::{Meta, Tdm};
///
/// let fields = [("tdm-reservation", b"1".as_slice()), ("tdm-policy", b"https://example.org/policy.json")];
/// let tdm = Tdm::default().with_fields(fields);
/// assert_eq!(tdm.is_reserved(), Some(true));
/// assert_eq!(tdm.policy(), Some("https://example.org/policy.json"));
/// assert_eq!(tdm.with_metas(&[Meta::new("tdm-reservation", "0")]).is_reserved(), Some(false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tdm {
    statement: Option<PreferenceStatement>,
    policy: Option<Box<str>>,
}

impl Tdm {
    /// Takes the first entry of `/.well-known/tdmrep.json` that covers the URL. Call it before the others.
    ///
    /// The file is not fetched here, and its JSON is the caller's to parse: an array of objects, each given as its `location`
    /// (make its pattern once, not for every URL), `tdm-reservation` and perhaps `tdm-policy`. A reservation other than 0
    /// and 1 is unset, but the entry still matches. Entries beyond 10,000 are ignored.
    ///
    /// ```
    /// use abide_permissions::Tdm;
    /// use abide_robots::{Pattern, Target};
    ///
    /// let file = [(Pattern::new(b"/free/"), 0, None), (Pattern::new(b"/*"), 1, Some("https://example.org/policy"))];
    /// let entries = || file.iter().map(|(location, reservation, policy)| (location, *reservation, *policy));
    /// assert_eq!(Tdm::default().with_file(entries(), &Target::new("/free/a")).is_reserved(), Some(false));
    /// assert_eq!(Tdm::default().with_file(entries(), &Target::new("/a")).is_reserved(), Some(true));
    /// ```
    #[must_use]
    pub fn with_file<'a>(
        self,
        entries: impl IntoIterator<Item = (&'a Pattern, i64, Option<&'a str>)>,
        target: &Target<'_>,
    ) -> Self {
        let mut numbered = entries.into_iter().take(ENTRIES_MAX).enumerate();
        let Some((index, (_, reservation, policy))) = numbered.find(|(_, (at, ..))| at.matches(target))
        else {
            return self;
        };
        let reserved = match reservation {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        self.superseded(
            reserved.map(|reserved| (reserved, Provenance::WellKnown { index })),
            policy.map(Into::into),
        )
    }

    /// Takes the `tdm-reservation` and `tdm-policy` fields of a response. Of several lines 1 wins.
    #[must_use]
    pub fn with_fields<'a>(self, fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let (mut reservation, mut policy, mut lines) = (None, None, 0_usize);
        for (name, value) in fields {
            if name.eq_ignore_ascii_case(POLICY) && policy.is_none() {
                policy = std::str::from_utf8(value).ok().map(|text| text.trim_ascii().into());
            } else if name.eq_ignore_ascii_case(RESERVATION) {
                let source = Provenance::field(RESERVATION, lines);
                lines = lines.saturating_add(1);
                reservation = stricter(reservation, reserved(value.trim_ascii()), source);
            }
        }
        self.superseded(reservation, policy)
    }

    /// Takes the metas of the same names in the head of the document. Of several 1 wins.
    #[must_use]
    pub fn with_metas(self, metas: &[Meta]) -> Self {
        let (mut reservation, mut policy) = (None, None);
        for (index, meta) in metas.iter().enumerate() {
            let (name, content) = (meta.name().trim_ascii(), meta.content().trim_ascii());
            if name.eq_ignore_ascii_case(POLICY) && policy.is_none() {
                policy = Some(content.into());
            } else if name.eq_ignore_ascii_case(RESERVATION) {
                let source = Provenance::Meta { index, name: meta.name().into() };
                reservation = stricter(reservation, reserved(content.as_bytes()), source);
            }
        }
        self.superseded(reservation, policy)
    }

    /// Whether mining is reserved to the rightholder. `None`: nothing is stated.
    #[must_use]
    pub fn is_reserved(&self) -> Option<bool> {
        self.statement.as_ref().map(|statement| statement.preference() == Preference::Disallow)
    }

    /// The URL of a policy under which mining may be licensed.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// The one statement: 1 disallows mining, 0 allows it.
    #[must_use]
    pub const fn statement(&self) -> Option<&PreferenceStatement> {
        self.statement.as_ref()
    }

    fn superseded(mut self, reservation: Option<(bool, Provenance)>, policy: Option<Box<str>>) -> Self {
        if let Some((reserved, source)) = reservation {
            let (preference, text) =
                if reserved { (Preference::Disallow, b"1") } else { (Preference::Allow, b"0") };
            self.statement = Some(PreferenceStatement::new(Usage::Tdm, preference, source, text));
        }
        self.policy = policy.or(self.policy);
        self
    }
}

/// "Values other than 0 and 1 MUST be treated as unset."
fn reserved(value: &[u8]) -> Option<bool> {
    match value {
        b"1" => Some(true),
        b"0" => Some(false),
        _ => None,
    }
}

fn stricter(
    ours: Option<(bool, Provenance)>,
    theirs: Option<bool>,
    source: Provenance,
) -> Option<(bool, Provenance)> {
    match (ours, theirs) {
        (None, Some(reserved)) => Some((reserved, source)),
        (Some((false, _)), Some(true)) => Some((true, source)),
        (ours, _) => ours,
    }
}

const RESERVATION: &str = "tdm-reservation";
const POLICY: &str = "tdm-policy";

/// Sites that list their pages one by one are wrong, but not by more than this.
const ENTRIES_MAX: usize = 10_000;
