//! TDMRep: the reservation of text and data mining (W3C community group, final report of 10 May 2024).
//!
//! Three places can state it, and the first that does decides; so they are read together, and not one by one as other sources are.

use abide_robots::Target;
use serde_json::Value;

use super::{Preference, PreferenceStatement, Preferences, Usage};
use crate::head::Meta;
use crate::provenance::{Provenance, warn};

impl Preferences {
    /// Adds the one statement of TDMRep: 1 disallows mining, 0 allows it. It is in the metas of the head, else in the
    /// `tdm-reservation` and `tdm-policy` fields of the response, else in the `/.well-known/tdmrep.json` of the site, of which the first
    /// entry that covers the target counts. Of several lines or metas 1 wins.
    ///
    /// The file is an array of objects with a `location`, which is a path pattern of robots.txt, a `tdm-reservation` and perhaps a
    /// `tdm-policy`. A reservation other than 0 and 1 is unset, but its entry still covers its location. Elements that are no
    /// objects are passed over, and entries beyond 32,768. Stricter: an object in place of the array is its one entry, `"1"` and
    /// `true` reserve like `1`, and a reservation whose location is missing or is no path holds for the whole site, since each was
    /// meant as one. A file that cannot be read is an [unread source](Self::with_unread_sources); a warning says why, with the line
    /// and column.
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
                warn(&mut self.warnings, Provenance::WellKnown { index: 0 }, &problem);
                self.has_unread_sources = true;
                Carrier::default()
            }
        };
        let by_precedence = [Carrier::of_metas(metas), Carrier::of_fields(fields), of_file];
        // What a carrier does not say, it does not reset.
        self.tdm_policy = by_precedence.iter().find_map(|carrier| carrier.policy.clone()).or(self.tdm_policy);
        let reservation = by_precedence.into_iter().find_map(|carrier| carrier.reservation);
        self.statements.extend(reservation.map(|(reserved, source)| {
            let (preference, text) =
                if reserved { (Preference::Disallow, b"1") } else { (Preference::Allow, b"0") };
            PreferenceStatement::new(Usage::Tdm, preference, source, text)
        }));
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
            } else if name.eq_ignore_ascii_case(RESERVATION) {
                found.add(reserved(value.trim_ascii()), Provenance::field(RESERVATION, lines));
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
            } else if name.eq_ignore_ascii_case(RESERVATION) {
                found.add(reserved(content.as_bytes()), source());
            }
        }
        found
    }

    /// The entry of a file, if it covers the target.
    fn of_entry(index: usize, entry: &Value, target: &Target<'_>) -> Option<Self> {
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
        target.covered_by(location.as_bytes())?;
        let url = entry.get(POLICY).and_then(Value::as_str).and_then(url);
        Some(Self {
            reservation: reserved.map(|reserved| (reserved, Provenance::WellKnown { index })),
            policy: url.map(|url| (Provenance::WellKnown { index }, url)),
        })
    }

    /// Inside one carrier 1 wins.
    fn add(&mut self, reserved: Option<bool>, source: Provenance) {
        match (&self.reservation, reserved) {
            (None, Some(reserved)) => self.reservation = Some((reserved, source)),
            (Some((false, _)), Some(true)) => self.reservation = Some((true, source)),
            _ => {}
        }
    }
}

/// The first entry of a tdmrep.json that covers the target, or what is wrong with the file.
fn entry_for(json: &[u8], target: &Target<'_>) -> Result<Option<Carrier>, String> {
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let entries = match serde_json::from_slice(json) {
        Ok(Value::Array(entries)) => entries,
        Ok(entry @ Value::Object(_)) => vec![entry],
        Ok(_) => {
            let expected = "an array of objects with `location` and `tdm-reservation`";
            return Err(format!("expected {expected}, found another JSON value"));
        }
        Err(error) => return Err(format!("expected JSON, found none: {error}")),
    };
    let mut entries = entries.iter().enumerate().take(ENTRIES_MAX);
    Ok(entries.find_map(|(index, entry)| Carrier::of_entry(index, entry, target)))
}

/// "Values other than 0 and 1 MUST be treated as unset."
fn reserved(value: &[u8]) -> Option<bool> {
    match value {
        // Stricter: `content=1/>` was meant to end its tag.
        b"1" | b"1/" => Some(true),
        b"0" => Some(false),
        _ => None,
    }
}

/// The URL of a policy, if there is one in the text.
fn url(text: &str) -> Option<Box<str>> {
    Some(text.trim_ascii()).filter(|url| !url.is_empty()).map(Into::into)
}

const RESERVATION: &str = "tdm-reservation";
const POLICY: &str = "tdm-policy";

/// Sites that list their pages one by one are wrong, but not by more than this.
const ENTRIES_MAX: usize = 32_768;
