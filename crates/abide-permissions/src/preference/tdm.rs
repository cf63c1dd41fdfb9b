//! TDMRep: the reservation of text and data mining (W3C community group, final report of 10 May 2024).

use abide_robots::{Pattern, Target};
use serde_json::Value;

use super::{Preference, PreferenceStatement, Usage};
use crate::error::PermissionError;
use crate::head::Meta;
use crate::provenance::Provenance;

/// What TDMRep states for one URL: in the file of the site, in the fields of the response, in the metas of its head. A field supersedes
/// the file and a meta both, in whatever order they are added. What a carrier does not say, it does not reset.
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
    file: Carrier,
    field: Carrier,
    meta: Carrier,
}

/// What one carrier states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Carrier {
    reservation: Option<(bool, Provenance)>,
    policy: Option<Box<str>>,
}

impl Tdm {
    /// Adds the first entry of `/.well-known/tdmrep.json` that covers the URL.
    ///
    /// ```
    /// use abide_permissions::{Tdm, TdmFile};
    /// use abide_robots::Target;
    ///
    /// let json = br#"[{"location": "/free/", "tdm-reservation": 0}, {"location": "/", "tdm-reservation": 1}]"#;
    /// let file = TdmFile::parse(json)?;
    /// assert_eq!(Tdm::default().with_file(&file, &Target::new("/free/a")).is_reserved(), Some(false));
    /// assert_eq!(Tdm::default().with_file(&file, &Target::new("/a")).is_reserved(), Some(true));
    /// # Ok::<(), abide_permissions::PermissionError>(())
    /// ```
    #[must_use]
    pub fn with_file(mut self, file: &TdmFile, target: &Target<'_>) -> Self {
        let mut entries = file.entries.iter().enumerate();
        if let Some((index, entry)) = entries.find(|(_, entry)| entry.location.matches(target)) {
            let reservation = entry.reserved.map(|reserved| (reserved, Provenance::WellKnown { index }));
            self.file = Carrier { reservation, policy: entry.policy.clone() };
        }
        self
    }

    /// Adds the `tdm-reservation` and `tdm-policy` fields of a response. Of several lines 1 wins.
    #[must_use]
    pub fn with_fields<'a>(mut self, fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut lines = 0_usize;
        for (name, value) in fields {
            if name.eq_ignore_ascii_case(POLICY) {
                let policy = || std::str::from_utf8(value).ok().map(|text| text.trim_ascii().into());
                self.field.policy = self.field.policy.or_else(policy);
            } else if name.eq_ignore_ascii_case(RESERVATION) {
                self.field.add(reserved(value.trim_ascii()), Provenance::field(RESERVATION, lines));
                lines = lines.saturating_add(1);
            }
        }
        self
    }

    /// Adds the metas of the same names in the head of the document. Of several 1 wins.
    #[must_use]
    pub fn with_metas(mut self, metas: &[Meta]) -> Self {
        for (index, meta) in metas.iter().enumerate() {
            let (name, content) = (meta.name().trim_ascii(), meta.content().trim_ascii());
            if name.eq_ignore_ascii_case(POLICY) {
                self.meta.policy = self.meta.policy.or_else(|| Some(content.into()));
            } else if name.eq_ignore_ascii_case(RESERVATION) {
                self.meta
                    .add(reserved(content.as_bytes()), Provenance::Meta { index, name: meta.name().into() });
            }
        }
        self
    }

    /// Whether mining is reserved to the rightholder. `None`: nothing is stated.
    #[must_use]
    pub fn is_reserved(&self) -> Option<bool> {
        self.reservation().map(|(reserved, _)| *reserved)
    }

    /// The URL of a policy under which mining may be licensed.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        let mut policies = self.by_precedence().into_iter().filter_map(|carrier| carrier.policy.as_deref());
        policies.next()
    }

    /// The one statement: 1 disallows mining, 0 allows it.
    #[must_use]
    pub fn statement(&self) -> Option<PreferenceStatement> {
        let (reserved, source) = self.reservation()?;
        let (preference, text) =
            if *reserved { (Preference::Disallow, b"1") } else { (Preference::Allow, b"0") };
        Some(PreferenceStatement::new(Usage::Tdm, preference, source.clone(), text))
    }

    fn reservation(&self) -> Option<&(bool, Provenance)> {
        self.by_precedence().into_iter().find_map(|carrier| carrier.reservation.as_ref())
    }

    fn by_precedence(&self) -> [&Carrier; 3] {
        [&self.meta, &self.field, &self.file]
    }
}

impl Carrier {
    /// Inside one carrier 1 wins.
    fn add(&mut self, reserved: Option<bool>, source: Provenance) {
        match (&self.reservation, reserved) {
            (None, Some(reserved)) => self.reservation = Some((reserved, source)),
            (Some((false, _)), Some(true)) => self.reservation = Some((true, source)),
            _ => {}
        }
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

/// A `/.well-known/tdmrep.json`: the reservations of a site by location.
#[derive(Debug, Default)]
pub struct TdmFile {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    location: Pattern,
    reserved: Option<bool>,
    policy: Option<Box<str>>,
}

impl TdmFile {
    /// Reads a file: an array of objects with a `location`, which is a path pattern of robots.txt, a `tdm-reservation` and perhaps a
    /// `tdm-policy`. A reservation other than 0 and 1 is unset, but its entry still covers its location. Elements that are no
    /// objects are passed over, and entries beyond 32,768.
    ///
    /// Stricter: an object in place of the array is its one entry, `"1"` and `true` reserve like `1`, and a reservation whose
    /// location is missing or is no path holds for the whole site, since each was meant as one.
    ///
    /// # Errors
    /// When it is no JSON, with the line and column, or neither an array nor an object.
    pub fn parse(json: &[u8]) -> Result<Self, PermissionError> {
        let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
        let entries = match serde_json::from_slice(json).map_err(PermissionError::not_json)? {
            Value::Array(entries) => entries,
            entry @ Value::Object(_) => vec![entry],
            _ => return Err(PermissionError::not_tdmrep()),
        };
        let entries = entries.iter().take(ENTRIES_MAX).filter_map(Entry::read).collect();
        Ok(Self { entries })
    }
}

impl Entry {
    fn read(entry: &Value) -> Option<Self> {
        let entry = entry.as_object()?;
        let reserved = match entry.get(RESERVATION) {
            Some(Value::Number(number)) if number.as_f64() == Some(0.0) => Some(false),
            Some(Value::Number(number)) if number.as_f64() == Some(1.0) => Some(true),
            Some(Value::Bool(true)) => Some(true),
            Some(Value::String(text)) if text == "1" => Some(true),
            _ => None,
        };
        let location = match entry.get("location") {
            Some(Value::String(location)) => match location.trim() {
                location if location.starts_with(['/', '*']) || reserved != Some(true) => location,
                _ => "/",
            },
            _ if reserved == Some(true) => "/",
            _ => return None,
        };
        let policy = entry.get(POLICY).and_then(Value::as_str).map(Into::into);
        Some(Self { location: Pattern::new(location.as_bytes()), reserved, policy })
    }
}

const RESERVATION: &str = "tdm-reservation";
const POLICY: &str = "tdm-policy";

/// Sites that list their pages one by one are wrong, but not by more than this.
const ENTRIES_MAX: usize = 32_768;
