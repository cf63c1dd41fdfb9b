//! TDMRep: the reservation of text and data mining (W3C community group, final report of 10 May 2024).
//!
//! Three places can state it, and the first that does decides; so they are read together, and not one by one
//! as other sources are.

use abide_robots::Target;
use serde_json::Value;

use super::label::fold;
use super::line::StatedLine;
use super::{Preference, PreferenceStatement, Preferences, Usage};
use crate::head::Meta;
use crate::provenance::{Provenance, warn};

impl Preferences {
    /// Adds the one statement of TDMRep: 1 disallows mining, 0 allows it. It is in the metas of the head,
    /// else in the `tdm-reservation` and `tdm-policy` fields of the response, else in the
    /// `/.well-known/tdmrep.json` of the site, of which the first entry that covers the target counts. Of
    /// several lines or metas 1 wins.
    ///
    /// The file is an array of objects with a `location`, which is a path pattern of robots.txt, a
    /// `tdm-reservation` and perhaps a `tdm-policy`. Entries beyond 32,768 are not read. Stricter: an object
    /// in place of the array is its one entry; `"1"`, `true` and their like reserve like `1`; a reservation
    /// whose location is missing or is no path, or that stands elsewhere in the file, holds for the whole
    /// site, since each was meant as one. A reservation other than 0 and 1 is unset, and unknown where no
    /// carrier has another. A file that cannot be read, or has no entry that can, is an [unread
    /// source](Self::with_unread_source); a warning says why, with the line and column.
    ///
    /// ```
    /// use abide_permissions::{Meta, Preference, Preferences, Usage};
    /// use abide_robots::Target;
    ///
    /// let json = br#"[{"location": "/free/", "tdm-reservation": 0}, {"location": "/", "tdm-reservation": 1}]"#;
    /// let mining = |path, metas: &[Meta]| {
    ///     let file = Some((json.as_slice(), &Target::new(path)));
    ///     Preferences::default().with_tdm(file, [], metas).resolve(&Usage::Tdm)
    /// };
    /// assert_eq!(mining("/free/a", &[]), Preference::Allow);
    /// assert_eq!(mining("/a", &[]), Preference::Disallow);
    /// assert_eq!(mining("/a", &[Meta::new("tdm-reservation", "0")]), Preference::Allow);
    /// ```
    pub fn with_tdm<'a>(
        mut self,
        file: Option<(&[u8], &Target<'_>)>,
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        metas: &[Meta],
    ) -> Self {
        let of_file = match file.map_or(Ok(None), |(json, target)| entry_for(json, target)) {
            Ok(entry) => entry.unwrap_or_default(),
            Err(problem) => {
                let source = Provenance::WellKnown { index: 0 };
                self.unread(&format!("{source}: {problem}"));
                warn(&mut self.warnings, source, &problem);
                Carrier::default()
            }
        };
        let by_precedence = [Carrier::of_metas(metas), Carrier::of_fields(fields), of_file];
        // What a carrier does not say, it does not reset.
        self.tdm_policy = by_precedence.iter().find_map(|carrier| carrier.policy.clone()).or(self.tdm_policy);
        let reservation = by_precedence.iter().find_map(|carrier| carrier.reservation.clone());
        if let Some((reserved, source)) = reservation {
            let (preference, text) =
                if reserved { (Preference::Disallow, b"1") } else { (Preference::Allow, b"0") };
            self.statements.push(PreferenceStatement::new(Usage::Tdm, preference, source, text));
        } else if !self.options.strict {
            for (text, source) in by_precedence.into_iter().filter_map(|carrier| carrier.unreadable) {
                self.add_line(unreadable(&text), &source, text.as_bytes());
            }
        }
        self
    }

    /// The URL of a policy under which text and data mining may be licensed, of TDMRep.
    pub fn tdm_policy(&self) -> Option<&str> {
        self.tdm_policy.as_ref().map(|(_, url)| &**url)
    }
}

#[derive(Default)]
struct Carrier {
    reservation: Option<(bool, Provenance)>,
    /// The first value that is none.
    unreadable: Option<(Box<str>, Provenance)>,
    policy: Option<(Provenance, Box<str>)>,
}

impl Carrier {
    fn of_fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut found = Self::default();
        let (mut policies, mut lines) = (0_usize, 0_usize);
        for (name, value) in fields {
            if name.eq_ignore_ascii_case(POLICY) {
                let url = || std::str::from_utf8(value).ok().and_then(url);
                let source = Provenance::field(POLICY, policies);
                found.policy = found.policy.or_else(|| Some((source, url()?)));
                policies = policies.saturating_add(1);
            } else if is_reservation(name) {
                let source = || Provenance::field(RESERVATION, lines);
                found.add(&String::from_utf8_lossy(value), name, source);
                lines = lines.saturating_add(1);
            }
        }
        found
    }

    fn of_metas(metas: &[Meta]) -> Self {
        let mut found = Self::default();
        for (index, meta) in metas.iter().enumerate() {
            let (name, content) = (meta.name().trim_ascii(), meta.content().trim_ascii());
            let source = || Provenance::Meta { index, name: meta.name().into() };
            if name.eq_ignore_ascii_case(POLICY) {
                found.policy = found.policy.or_else(|| Some((source(), url(content)?)));
            } else if is_reservation(name) {
                found.add(content, name, source);
            }
        }
        found
    }

    /// Inside one carrier 1 wins.
    fn add(&mut self, text: &str, name: &str, source: impl Fn() -> Provenance) {
        // Stricter: a 0 under a name that is spelt otherwise allows nothing.
        let is_exact = name.eq_ignore_ascii_case(RESERVATION);
        match (reserved(text).filter(|reserved| *reserved || is_exact), &self.reservation) {
            (Some(true), None | Some((false, _))) => self.reservation = Some((true, source())),
            (Some(false), None) => self.reservation = Some((false, source())),
            (None, _) => {
                self.unreadable.get_or_insert_with(|| (text.trim_ascii().into(), source()));
            }
            _ => {}
        }
    }

    /// The entry of a file, if it covers the target.
    fn of_entry(index: usize, entry: &Entry<'_>, target: &Target<'_>) -> Option<Self> {
        target.covered_by(entry.location.as_bytes())?;
        let source = Provenance::WellKnown { index };
        let unreadable = match entry.reservation {
            Some(_) => None,
            None => Some((entry.text.as_str().into(), source.clone())),
        };
        Some(Self {
            reservation: entry.reservation.map(|reserved| (reserved, source.clone())),
            unreadable,
            policy: entry.policy.map(|url| (source, url.into())),
        })
    }
}

/// An object of the file with a location.
struct Entry<'a> {
    location: &'a str,
    reservation: Option<bool>,
    /// The reservation as written.
    text: String,
    policy: Option<&'a str>,
}

impl<'a> Entry<'a> {
    /// `None` for what is no entry: it has no location, or a location that is no path, and reserves nothing
    /// by itself.
    fn of(value: &'a Value) -> Option<Self> {
        let stated = member(value, RESERVATION);
        let is_exact = value.get(RESERVATION).is_some();
        // Stricter: a 0 under a name that is spelt otherwise allows nothing.
        let reservation = stated.and_then(reserved_by).filter(|reserved| *reserved || is_exact);
        let location = member(value, "location").and_then(Value::as_str).map(str::trim);
        let location = match location {
            Some(location) if location.starts_with(['/', '*']) => location,
            _ if reservation == Some(true) => "/",
            _ => return None,
        };
        let text = stated.map(ToString::to_string).unwrap_or_default();
        let policy = member(value, POLICY).and_then(Value::as_str).map(str::trim_ascii);
        Some(Self { location, reservation, text, policy: policy.filter(|url| !url.is_empty()) })
    }
}

/// The first entry of a tdmrep.json that covers the target, or what is wrong with the file.
fn entry_for(json: &[u8], target: &Target<'_>) -> Result<Option<Carrier>, String> {
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let file = serde_json::from_slice(json).map_err(|error| format!("expected JSON, found none: {error}"))?;
    let values = match &file {
        Value::Array(values) => values.as_slice(),
        other => std::slice::from_ref(other),
    };
    let mut has_entry = false;
    for (index, value) in values.iter().enumerate().take(ENTRIES_MAX) {
        if let Some(entry) = Entry::of(value) {
            has_entry |= entry.reservation.is_some();
            if let Some(carrier) = Carrier::of_entry(index, &entry, target) {
                return Ok(Some(carrier));
            }
        } else if reserves_somewhere(value) {
            let reservation = Some((true, Provenance::WellKnown { index }));
            return Ok(Some(Carrier { reservation, ..Carrier::default() }));
        }
    }
    if has_entry && values.len() <= ENTRIES_MAX {
        return Ok(None);
    }
    let expected = "an array of objects with `location` and `tdm-reservation`";
    Err(format!("expected {expected}, found {}", if has_entry { "too many" } else { "another JSON value" }))
}

/// Whether something within this value is reserved, however deep. serde_json reads to a depth of 128.
fn reserves_somewhere(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(reserves_somewhere),
        Value::Object(members) => {
            member(value, RESERVATION).and_then(reserved_by) == Some(true)
                || members.values().any(reserves_somewhere)
        }
        _ => false,
    }
}

/// A member by its name, however the words of that are joined.
fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let members = value.as_object()?;
    let is_meant = |key: &&String| fold(key) == fold(name);
    members.get(name).or_else(|| members.get(members.keys().find(is_meant)?))
}

fn reserved_by(value: &Value) -> Option<bool> {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Value::Number(number) => (number.as_f64() == Some(1.0)).then_some(true),
        Value::Bool(true) => Some(true),
        Value::String(text) => reserved(text).filter(|reserved| *reserved),
        _ => None,
    }
}

/// "Values other than 0 and 1 MUST be treated as unset." Stricter: `0, 1` is two values, of which 1 wins, as
/// on two lines; and a 1 is one also in quotes, before the slash that was to end its tag, and as a word.
fn reserved(text: &str) -> Option<bool> {
    let is_reserved = |part: &str| matches!(&*fold(part), "1" | "true" | "yes" | "y" | "on" | "reserved");
    match text.trim_ascii() {
        "0" => Some(false),
        text if text.split([',', ';', ' ', '|', '/']).any(is_reserved) => Some(true),
        text if text.split(',').all(|part| part.trim_ascii() == "0") => Some(false),
        _ => None,
    }
}

/// What a record of robots.txt reserves, where TDMRep has none: a 0 allows nothing.
pub(super) fn read_record(value: &[u8]) -> StatedLine {
    let text = String::from_utf8_lossy(value);
    match reserved(&text) {
        Some(true) => {
            let mut line = StatedLine::default();
            line.disallow(&[Usage::Tdm]);
            line
        }
        Some(false) => StatedLine::default(),
        None => unreadable(&text),
    }
}

fn unreadable(text: &str) -> StatedLine {
    let mut line = StatedLine::default();
    line.doubt(&[Usage::Tdm], "0 or 1 for tdm-reservation", text);
    line
}

/// The URL of a policy, if there is one in the text.
fn url(text: &str) -> Option<Box<str>> {
    Some(text.trim_ascii()).filter(|url| !url.is_empty()).map(Into::into)
}

/// However the words of the name are joined.
fn is_reservation(name: &str) -> bool {
    name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("tdm")) && fold(name) == fold(RESERVATION)
}

const RESERVATION: &str = "tdm-reservation";
const POLICY: &str = "tdm-policy";

/// Sites that list their pages one by one are wrong, but not by more than this.
const ENTRIES_MAX: usize = 32_768;
