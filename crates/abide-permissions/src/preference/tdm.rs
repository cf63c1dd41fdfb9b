//! TDMRep: the reservation of text and data mining (W3C community group, final report of 10 May 2024).

use abide_robots::{Pattern, Target};

use super::{Preference, PreferenceSource, PreferenceStatement, Usage};
use crate::head::Meta;

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
    #[must_use]
    pub fn with_file(self, file: &TdmFile, target: &Target<'_>) -> Self {
        let found = file.entries.iter().enumerate().find(|(_, entry)| entry.location.matches(target));
        match found {
            None => self,
            Some((index, entry)) => {
                let reservation =
                    entry.reserved.map(|reserved| (reserved, PreferenceSource::WellKnown(index)));
                self.superseded(reservation, entry.policy.clone())
            }
        }
    }

    /// Takes the `tdm-reservation` and `tdm-policy` fields of a response. Of several lines 1 wins.
    #[must_use]
    pub fn with_fields<'a>(self, fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let (mut reservation, mut policy, mut lines) = (None, None, 0_usize);
        for (name, value) in fields {
            if name.eq_ignore_ascii_case("tdm-policy") && policy.is_none() {
                policy = std::str::from_utf8(value).ok().map(|text| text.trim_ascii().into());
            } else if name.eq_ignore_ascii_case("tdm-reservation") {
                let source = PreferenceSource::Field { name: "tdm-reservation".into(), line: lines };
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
            if name.eq_ignore_ascii_case("tdm-policy") && policy.is_none() {
                policy = Some(content.into());
            } else if name.eq_ignore_ascii_case("tdm-reservation") {
                reservation =
                    stricter(reservation, reserved(content.as_bytes()), PreferenceSource::Meta(index));
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

    fn superseded(mut self, reservation: Option<(bool, PreferenceSource)>, policy: Option<Box<str>>) -> Self {
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
    ours: Option<(bool, PreferenceSource)>,
    theirs: Option<bool>,
    source: PreferenceSource,
) -> Option<(bool, PreferenceSource)> {
    match (ours, theirs) {
        (None, Some(reserved)) => Some((reserved, source)),
        (Some((false, _)), Some(true)) => Some((true, source)),
        (ours, _) => ours,
    }
}

/// The entries of `/.well-known/tdmrep.json`, in order. The file is not fetched here, and its JSON is the caller's to parse:
/// an array of objects with `location`, `tdm-reservation` and perhaps `tdm-policy`.
#[derive(Clone, Debug, Default)]
pub struct TdmFile {
    entries: Vec<TdmEntry>,
}

#[derive(Clone, Debug)]
struct TdmEntry {
    location: Pattern,
    reserved: Option<bool>,
    policy: Option<Box<str>>,
}

impl TdmFile {
    /// Adds an entry; beyond 10,000 they are ignored. A reservation other than 0 and 1 is unset, but the entry still matches.
    #[must_use]
    pub fn with_entry(mut self, location: &str, reservation: i64, policy: Option<&str>) -> Self {
        if self.entries.len() < ENTRIES_MAX {
            let reserved = match reservation {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            };
            let location = Pattern::new(location.as_bytes());
            self.entries.push(TdmEntry { location, reserved, policy: policy.map(Into::into) });
        }
        self
    }
}

/// Sites that list their pages one by one are wrong, but not by more than this.
const ENTRIES_MAX: usize = 10_000;
