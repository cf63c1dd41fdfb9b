//! What is kept of a resource between visits, and what a visit changes of it.
//!
//! Rules never vanish because time has passed: freshness says when to look again, and nothing else.

use std::time::{Duration, SystemTime};

use crate::freshness::{CACHING_FIELDS, Freshness, FreshnessPolicy, lifetime};
use crate::head::{Head, HeadEnd, Meta};
use crate::header::complete_members;
use crate::options::ReadOptions;
use crate::permissions::Permissions;
use crate::preference::{PreferenceStatement, Preferences, Tdm};
use crate::rules::Rules;

/// What is known of the permissions of one URL. Kept between visits, it lets the last known rules be honoured for as long
/// as the resource is not fetched again (draft-illyes-repext-03 §3.1.4: "the last known robots-tag rules MUST continue to
/// be honored").
///
/// It holds what the server has sent, not what we read in it, so it can be read again for other tokens.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use abide_permissions::{Freshness, FreshnessPolicy, Head, PermissionRecord, ReadOptions, Update, Visit};
///
/// let options = ReadOptions::new("ExampleBot".parse()?);
/// let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
/// let fields = [("Robots-Tag", b"*;noindex".as_slice()), ("Cache-Control", b"max-age=60")];
/// let first = Visit::new(200, &fields, Head::default(), then);
/// let mut record = PermissionRecord::new("https://example.org/a", &first);
///
/// // A year later the rules still hold, though a recrawl is long due.
/// let year = Duration::from_secs(365 * 86_400);
/// assert!(!record.freshness(then + year, &FreshnessPolicy::default()).is_fresh());
/// assert!(record.rules(&options).noindex());
///
/// // It has not changed: a 304 without a Robots-Tag keeps the one we have.
/// let again = Visit::new(304, &[], Head::default(), then + year);
/// assert_eq!(record.update(&again), Update::Revalidated);
/// assert!(record.rules(&options).noindex());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PermissionRecord {
    url: Box<str>,
    /// Milliseconds since the epoch.
    received_at: i64,
    /// Lower-case names and lines, in the order of the response.
    fields: Vec<(Box<str>, Box<[u8]>)>,
    metas: Vec<Meta>,
    noscript_metas: Vec<Meta>,
    rendered: Vec<Meta>,
    head_end: HeadEnd,
    metas_stale: bool,
    /// What robots.txt preferred when the resource was fetched.
    #[cfg_attr(feature = "serde", serde(default))]
    preferences: Vec<PreferenceStatement>,
}

/// A response as far as permissions are concerned.
#[derive(Clone, Debug)]
pub struct Visit<'a> {
    status: u16,
    fields: &'a [(&'a str, &'a [u8])],
    head: Head,
    received_at: SystemTime,
    preferences: Vec<PreferenceStatement>,
}

impl<'a> Visit<'a> {
    /// A response: its status, its fields line by line, its head or the reason why there is none, and when it was received.
    #[must_use]
    pub const fn new(
        status: u16,
        fields: &'a [(&'a str, &'a [u8])],
        head: Head,
        received_at: SystemTime,
    ) -> Self {
        Self { status, fields, head, received_at, preferences: Vec::new() }
    }

    /// Adds what robots.txt prefers for the URL: the copy that decided this very fetch. Later copies do not change what was
    /// fetched under this one (draft-ietf-aipref-attach).
    #[must_use]
    pub fn with_preferences(mut self, preferences: &Preferences) -> Self {
        let of_robots =
            preferences.statements().iter().filter(|statement| statement.source().is_robots_txt());
        self.preferences.extend(of_robots.take(STATEMENTS_MAX).cloned());
        self
    }
}

/// What a visit has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// Everything is new.
    Replaced,
    /// The field lines are new. The metas are those of an earlier visit, and of as much as could be scanned now.
    FieldsReplaced,
    /// Nothing has changed but what the 304 says anew.
    Revalidated,
    /// The response says nothing about the resource.
    Kept,
}

impl PermissionRecord {
    /// A record of a first visit, whatever its status. The record of a redirect belongs to the URL that redirects.
    #[must_use]
    pub fn new(url: impl Into<Box<str>>, visit: &Visit<'_>) -> Self {
        let mut record = Self {
            url: url.into(),
            received_at: 0,
            fields: Vec::new(),
            metas: Vec::new(),
            noscript_metas: Vec::new(),
            rendered: Vec::new(),
            head_end: HeadEnd::NotScanned,
            metas_stale: false,
            preferences: Vec::new(),
        };
        record.replace(visit);
        record
    }

    /// Takes in another visit. What happened when there was no response (a network error, a disallowed or skipped fetch)
    /// changes nothing and needs no call.
    pub fn update(&mut self, visit: &Visit<'_>) -> Update {
        match visit.status {
            200..=299 if visit.head.end().is_complete() => {
                self.replace(visit);
                Update::Replaced
            }
            304 => {
                self.revalidate(visit);
                Update::Revalidated
            }
            200..=399 => {
                self.replace_fields(visit);
                self.add_metas(&visit.head);
                // What was not looked at this time is not known, whatever an earlier visit saw.
                self.head_end = visit.head.end();
                Update::FieldsReplaced
            }
            // 404 and 410 too: the caller says when to forget.
            _ => Update::Kept,
        }
    }

    /// Adds the metas of the document after its scripts have run. Nothing is taken away by it.
    pub fn union_rendered(&mut self, metas: impl IntoIterator<Item = Meta>) {
        add_new(&mut self.rendered, metas);
    }

    /// Forgets every rule, as after a 404 or 410 that is believed.
    pub fn forget(&mut self) {
        self.fields.clear();
        self.metas.clear();
        self.noscript_metas.clear();
        self.rendered.clear();
        self.preferences.clear();
        self.head_end = HeadEnd::NotScanned;
        self.metas_stale = false;
    }

    /// The last known rules for these tokens, fresh or stale.
    #[must_use]
    pub fn rules(&self, options: &ReadOptions) -> Rules {
        self.permissions(options).rules().clone()
    }

    /// The last known permissions for these tokens with their sources, fresh or stale.
    #[must_use]
    pub fn permissions(&self, options: &ReadOptions) -> Permissions {
        let fields = self.fields.iter().map(|(name, line)| (&**name, &**line));
        let head = Head::from_parts(self.metas.clone(), self.noscript_metas.clone(), self.head_end);
        Permissions::read(options, fields, head, self.received_at()).union_rendered(options, &self.rendered)
    }

    /// The preferences that were stated when the resource was fetched: by robots.txt, by the fields that are kept, and by
    /// TDMRep in fields and metas.
    #[must_use]
    pub fn preferences(&self) -> Preferences {
        let fields = || self.fields.iter().map(|(name, line)| (&**name, &**line));
        let tdm = Tdm::default().with_fields(fields()).with_metas(&self.metas);
        Preferences::default()
            .with_statements(self.preferences.iter().cloned())
            .with_fields(fields())
            .with_tdm(&tdm)
    }

    /// Whether this record has every rule that the other one has, the same preferences, and claims to know as much: then it forbids as
    /// much for whatever token, and can stand for the other one where that could not be kept.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use abide_permissions::{Head, PermissionRecord, Visit};
    ///
    /// let of = |line: &[u8]| {
    ///     let fields = [("Robots-Tag", line)];
    ///     PermissionRecord::new("https://example.org/", &Visit::new(200, &fields, Head::default(), SystemTime::UNIX_EPOCH))
    /// };
    /// let (free, closed) = (of(b"*;noarchive"), of(b"*;noindex"));
    /// assert!(closed.covers(&closed) && !free.covers(&closed));
    /// ```
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let has_all = |own: &[Meta], others: &[Meta]| others.iter().all(|meta| own.contains(meta));
        let mut rules = other.fields.iter().filter(|(name, _)| states_rules(name));
        rules.all(|field| self.fields.contains(field))
            && has_all(&self.metas, &other.metas)
            && has_all(&self.noscript_metas, &other.noscript_metas)
            && has_all(&self.rendered, &other.rendered)
            && self.preferences() == other.preferences()
            && self.head_end == other.head_end
    }

    /// Whether it is time to look again.
    #[must_use]
    pub fn freshness(&self, now: SystemTime, policy: &FreshnessPolicy) -> Freshness {
        let received = self.received_at();
        let lifetime = lifetime(|name| self.lines(name), received, policy);
        Freshness::at(now, received.checked_add(lifetime).unwrap_or(received))
    }

    /// The URL whose record this is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// When the resource was last received or revalidated, to the millisecond.
    #[must_use]
    pub fn received_at(&self) -> SystemTime {
        let distance = Duration::from_millis(self.received_at.unsigned_abs());
        let epoch = SystemTime::UNIX_EPOCH;
        let time =
            if self.received_at < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
        time.unwrap_or(epoch)
    }

    /// The lines of a field that is kept, by its lower-case name.
    pub fn lines<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let name: Box<str> = name.into();
        self.fields.iter().filter(move |(field, _)| *field == name).map(|(_, line)| &**line)
    }

    /// How the scan of the head ended that found the metas, or why there was none.
    #[must_use]
    pub const fn head_end(&self) -> HeadEnd {
        self.head_end
    }

    /// Whether the metas, or some of them, are those of an earlier version of the resource.
    #[must_use]
    pub const fn metas_are_stale(&self) -> bool {
        self.metas_stale
    }

    fn replace(&mut self, visit: &Visit<'_>) {
        self.forget();
        self.replace_fields(visit);
        self.add_metas(&visit.head);
        self.head_end = visit.head.end();
        self.metas_stale = false;
    }

    fn replace_fields(&mut self, visit: &Visit<'_>) {
        self.fields.clear();
        self.preferences.clear();
        self.add_fields(visit);
    }

    /// RFC 9111 §3.2: a field that the 304 has replaces all lines of that name; the others stay. Those that speak of the
    /// message itself go with it.
    fn revalidate(&mut self, visit: &Visit<'_>) {
        let brings = |name: &str| visit.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
        self.fields.retain(|(name, _)| !brings(name) && !matches!(&**name, "age" | "date"));
        self.add_fields(visit);
    }

    fn add_fields(&mut self, visit: &Visit<'_>) {
        for (name, line) in visit.fields {
            let name = name.to_ascii_lowercase();
            let room = FIELD_BYTES_MAX.saturating_sub(self.lines(&name).map(<[u8]>::len).sum());
            if is_kept(&name) && room > 0 {
                // Of a line that does not fit, its complete members are kept.
                let kept =
                    if line.len() > room { line.get(..room).and_then(complete_members) } else { Some(*line) };
                self.fields.push((name.into(), kept.unwrap_or_default().into()));
            }
        }
        // Stricter: whether a 304 is a fetch is left open, so the statements of then and now both count.
        let is_new = |statement: &&PreferenceStatement| !self.preferences.contains(statement);
        let new: Vec<_> = visit.preferences.iter().filter(is_new).cloned().collect();
        self.preferences.extend(new);
        self.preferences.truncate(STATEMENTS_MAX);
        self.received_at = unix_millis(visit.received_at);
    }

    fn add_metas(&mut self, head: &Head) {
        self.metas_stale = true;
        add_new(&mut self.metas, head.metas().iter().filter(|meta| may_name_a_token(meta)).cloned());
        add_new(
            &mut self.noscript_metas,
            head.noscript_metas().iter().filter(|meta| may_name_a_token(meta)).cloned(),
        );
    }
}

/// The fields that are kept: those that state rules or preferences, and those that decide freshness.
fn is_kept(name: &str) -> bool {
    let prefers = ["content-usage", "content-signal"].contains(&name) || name.starts_with("tdm-");
    states_rules(name) || prefers || CACHING_FIELDS.contains(&name)
}

fn states_rules(name: &str) -> bool {
    ["robots-tag", "x-robots-tag"].contains(&name)
}

/// Bytes kept of one field.
const FIELD_BYTES_MAX: usize = 64 * 1024;

/// Statements of robots.txt kept; a file has a handful.
const STATEMENTS_MAX: usize = 256;

/// Metas kept of one kind; a page has a few dozen.
const METAS_MAX: usize = 1024;

/// Product tokens have no colon, so `twitter:card` and its like need not be kept.
fn may_name_a_token(meta: &Meta) -> bool {
    meta.name()
        .trim_ascii()
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn add_new(metas: &mut Vec<Meta>, new: impl IntoIterator<Item = Meta>) {
    for meta in new {
        if metas.len() < METAS_MAX && !metas.contains(&meta) {
            metas.push(meta);
        }
    }
}

fn unix_millis(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, i64::saturating_neg),
    }
}
