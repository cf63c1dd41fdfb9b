//! What is kept of a resource between fetches, and what a fetch changes of it.
//!
//! Rules never vanish because time has passed: freshness says when to look again, and nothing else.

use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

use crate::freshness::{CACHING_FIELDS, lifetime};
use crate::head::{FoundInHead, Head, HeadEnd, Meta, Stray};
use crate::header::complete_members;
use crate::license::licenses;
use crate::options::ReadOptions;
use crate::permissions::Permissions;
use crate::preference::{PreferenceStatement, Preferences, Usage, states_preferences};
use crate::provenance::Provenance;
use crate::rules::TagRules;

/// What is known of the permissions of one URL. Keep it between fetches, so that the last known rules are
/// honoured until the resource is fetched again (draft-illyes-repext-03 §3.1.4: "the last known robots-tag
/// rules MUST continue to be honored").
///
/// It contains what the server sent, so it can be read again for other tokens.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use abide_permissions::{Head, Fetched, PermissionRecord, ReadOptions};
///
/// let options = ReadOptions::new("ExampleBot".parse()?);
/// let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
/// let fields = [("Robots-Tag", b"*;noindex".as_slice()), ("Cache-Control", b"max-age=60"), ("ETag", b"\"1\"")];
/// let first = Fetched::new(200, &fields, Head::default(), then);
/// let mut record = PermissionRecord::new("https://example.org/a", &first);
///
/// // A year later the rules still hold, though a recrawl is long due.
/// let year = Duration::from_secs(365 * 86_400);
/// assert!(record.fresh_until(&options) < then + year);
/// assert!(record.rules(&options).noindex());
///
/// // It has not changed: a 304 without a Robots-Tag keeps the one we have.
/// let again = Fetched::new(304, &[("ETag", b"\"1\"")], Head::default(), then + year);
/// assert!(record.update(&again));
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
    /// What looks like a robots meta and stands elsewhere.
    #[cfg_attr(feature = "serde", serde(default))]
    strays: Vec<Stray>,
    rendered: Vec<Meta>,
    head_end: HeadEnd,
    metas_stale: bool,
    /// Something that may state rules had no room here, or was not looked at.
    #[cfg_attr(feature = "serde", serde(default))]
    is_cut: bool,
    /// What robots.txt preferred when the resource was fetched.
    #[cfg_attr(feature = "serde", serde(default))]
    preferences: Vec<PreferenceStatement>,
    /// Of these there were more than are kept.
    #[cfg_attr(feature = "serde", serde(default))]
    preferences_cut: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    license_links: Vec<Box<str>>,
}

/// A response as far as permissions are concerned.
///
/// ```
/// use abide_permissions::{Fetched, Head, HeadEnd};
///
/// let fields = [("X-Robots-Tag", b"noindex".as_slice()), ("Content-Type", b"application/pdf")];
/// let fetched = Fetched::new(200, &fields, Head::not_scanned(HeadEnd::NotHtml), std::time::SystemTime::now());
/// assert!(fetched.is_whole_page());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Fetched<'a> {
    status: u16,
    fields: &'a [(&'a str, &'a [u8])],
    request: &'a [(&'a str, &'a [u8])],
    head: Head,
    received_at: SystemTime,
    preferences: Vec<PreferenceStatement>,
    preferences_cut: bool,
}

impl<'a> Fetched<'a> {
    /// A response: its status, its fields line by line, its head or the reason why there is none, and when it
    /// was received.
    pub const fn new(
        status: u16,
        fields: &'a [(&'a str, &'a [u8])],
        head: Head,
        received_at: SystemTime,
    ) -> Self {
        let preferences = Vec::new();
        Self { status, fields, request: &[], head, received_at, preferences, preferences_cut: false }
    }

    /// Adds the fields of the request. A 304 without validators is about the version that `If-None-Match` or
    /// `If-Modified-Since` names, and a 206 to `If-Range` may leave out fields of the page.
    pub const fn with_request(mut self, fields: &'a [(&'a str, &'a [u8])]) -> Self {
        self.request = fields;
        self
    }

    /// Adds what robots.txt prefers for the URL: the copy that decided this very fetch. Later copies do not
    /// change what was fetched under this one (draft-ietf-aipref-attach).
    pub fn with_preferences(mut self, preferences: &Preferences) -> Self {
        let of_robots =
            preferences.statements().iter().filter(|statement| statement.source().is_robots_txt());
        self.preferences.extend(of_robots.cloned());
        self.preferences_cut |= cut_statements(&mut self.preferences);
        self
    }

    /// Whether this is a whole page, all of whose permissions are known: its record replaces any other one.
    pub fn is_whole_page(&self) -> bool {
        self.is_whole() && self.head.end().is_complete()
    }

    fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name))
    }

    fn is_whole(&self) -> bool {
        let ranges = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-range"));
        // RFC 9110 §15.3.7: with `If-Range` the client has the fields already, so a 206 should not repeat
        // them.
        let is_resumed =
            self.status == 206 && self.request.iter().any(|(name, _)| name.eq_ignore_ascii_case("if-range"));
        !is_resumed && is_whole(self.status, ranges.map(|(_, value)| *value))
    }

    /// How the scan ended, as far as it was one of the resource.
    fn head_end(&self) -> HeadEnd {
        let is_of_resource = self.is_whole() || (matches!(self.status, 300..=399) && self.status != 304);
        match self.head.end() {
            end if is_of_resource || !end.is_complete() => end,
            _ => HeadEnd::Interrupted,
        }
    }
}

/// Whether a response with this status and these `Content-Range` lines is a whole representation of its
/// resource, and not a part of it (206) or what has changed in it (226). A 206 is whole when its range
/// reaches from the first byte to the last.
///
/// ```
/// use abide_permissions::is_whole;
///
/// assert!(is_whole(200, []));
/// assert!(is_whole(206, [b"bytes 0-99/100".as_slice()]));
/// assert!(!is_whole(206, [b"bytes 0-20/100".as_slice()]));
/// assert!(!is_whole(304, []));
/// ```
pub fn is_whole<'a>(status: u16, content_ranges: impl IntoIterator<Item = &'a [u8]>) -> bool {
    match status {
        206 => is_whole_range(content_ranges.into_iter()) == Some(true),
        _ => matches!(status, 200..=299) && status != 226,
    }
}

#[cold]
fn is_whole_range<'a>(mut ranges: impl Iterator<Item = &'a [u8]>) -> Option<bool> {
    let (Some(range), None) = (ranges.next(), ranges.next()) else { return None };
    // RFC 9110 §14.4; without a `Content-Range` of its own a 206 has several parts.
    let range = std::str::from_utf8(range).ok()?.trim_ascii();
    let (unit, range) = range.split_once(' ')?;
    let (last, length) = range.strip_prefix("0-")?.split_once('/')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_bytes = unit.eq_ignore_ascii_case("bytes") && is_number(last) && is_number(length);
    Some(is_bytes && last.parse::<u64>().ok()?.checked_add(1)? == length.parse::<u64>().ok()?)
}

impl PermissionRecord {
    /// A record of a first fetch with any status. The record of a redirect belongs to the URL that redirects.
    pub fn new(url: impl Into<Box<str>>, fetched: &Fetched<'_>) -> Self {
        let mut record = Self::empty(url.into());
        record.replace(fetched);
        record
    }

    /// Takes in another fetch, and returns whether that says anything about the resource; if not, the record
    /// is as it was. What happened when there was no response (a network error, a disallowed or skipped
    /// fetch) changes nothing and needs no call.
    pub fn update(&mut self, fetched: &Fetched<'_>) -> bool {
        match fetched.status {
            200..=299 if fetched.is_whole_page() => self.replace(fetched),
            // RFC 9110 §15.3.7: a 206 need not repeat the fields of the page, so those of the record stay;
            // the rest is unknown.
            200..=299 if !fetched.is_whole() => {
                // The last part says how long the page is fresh.
                self.fields.retain(|(name, _)| states(name) || !fetched.has_field(name));
                self.add_fields(fetched);
                self.add_metas(&fetched.head);
                self.head_end = fetched.head_end();
            }
            // It is about another version than the one that was recorded, or does not say about which.
            304 if !self.is_version_of(fetched) => return false,
            304 => self.revalidate(fetched),
            200..=399 => {
                self.replace_fields(fetched);
                self.add_metas(&fetched.head);
                // What was not read this time is not known, even if it was read at an earlier fetch.
                self.head_end = fetched.head.end();
            }
            // 404 and 410 too: the caller says when to forget.
            _ => return false,
        }
        true
    }

    /// Adds the metas of the document after its scripts have run. Nothing is taken away by it.
    pub fn union_rendered(&mut self, metas: impl IntoIterator<Item = Meta>) {
        self.is_cut |= !add_new(&mut self.rendered, metas);
    }

    /// Forgets every rule, as after a 404 or 410 that is believed.
    pub fn forget(&mut self) {
        let received_at = self.received_at;
        *self = Self { received_at, ..Self::empty(std::mem::take(&mut self.url)) };
    }

    const fn empty(url: Box<str>) -> Self {
        Self {
            url,
            received_at: 0,
            fields: Vec::new(),
            metas: Vec::new(),
            noscript_metas: Vec::new(),
            strays: Vec::new(),
            rendered: Vec::new(),
            head_end: HeadEnd::NotScanned,
            metas_stale: false,
            is_cut: false,
            preferences: Vec::new(),
            preferences_cut: false,
            license_links: Vec::new(),
        }
    }

    /// The last known rules for these tokens, fresh or stale.
    pub fn rules(&self, options: &ReadOptions) -> TagRules {
        self.permissions(options).rules().clone()
    }

    /// The last known permissions for these tokens with their sources, fresh or stale.
    pub fn permissions(&self, options: &ReadOptions) -> Permissions {
        let found = FoundInHead {
            metas: self.metas.clone(),
            noscript_metas: self.noscript_metas.clone(),
            // What had no room is counted in `is_cut`.
            noscript_cut: false,
            strays: self.strays.clone(),
            strays_cut: false,
            license_links: self.license_links.clone(),
        };
        let head = Head::new(found, self.head_end, 0);
        let read = Permissions::read(options, self.fields(), head, self.received_at());
        let read = read.union_rendered(options, &self.rendered);
        if self.is_cut { read.with_missing_fields() } else { read }
    }

    /// The preferences that were stated when the resource was fetched: by robots.txt, by the fields that are
    /// kept, and by the metas and words of the page.
    pub fn preferences(&self, options: &ReadOptions) -> Preferences {
        let mut read = Preferences::new(options)
            .with_statements(self.preferences.iter().cloned())
            .with_fields(self.fields())
            .with_page(&self.permissions(options))
            .with_tdm(None, self.fields(), &self.metas);
        read.add_metas(&self.rendered, |index, name| Provenance::Rendered { index, name });
        if self.preferences_cut {
            let why = "robots.txt has more statements for the URL than are kept, which are 256";
            read = read.with_unread_source(why);
        }
        if self.is_cut {
            read = read.with_unread_source("a field or a meta had no room in the record");
        }
        if self.head_end.is_complete() { read } else { read.with_unread_source(&self.head_end.to_string()) }
    }

    /// Whether this record has every rule of the other one, the same preferences, and the same gaps. Then it
    /// forbids at least as much for every token, and can be used in place of the other one.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use abide_permissions::{Head, PermissionRecord, Fetched};
    ///
    /// let of = |line: &[u8]| {
    ///     let fields = [("Robots-Tag", line)];
    ///     PermissionRecord::new("https://example.org/", &Fetched::new(200, &fields, Head::default(), SystemTime::UNIX_EPOCH))
    /// };
    /// let (free, closed) = (of(b"*;noarchive"), of(b"*;noindex"));
    /// assert!(closed.covers(&closed) && !free.covers(&closed));
    /// ```
    pub fn covers(&self, other: &Self) -> bool {
        let has_all = |own: &[Meta], others: &[Meta]| others.iter().all(|meta| own.contains(meta));
        let any = ReadOptions::for_tokens([]);
        let mut rules = other.fields.iter().filter(|(name, _)| states_rules(name));
        rules.all(|field| self.fields.contains(field))
            && has_all(&self.metas, &other.metas)
            && has_all(&self.noscript_metas, &other.noscript_metas)
            && other.strays.iter().all(|stray| self.strays.contains(stray))
            && has_all(&self.rendered, &other.rendered)
            && self.preferences(&any) == other.preferences(&any)
            && self.head_end == other.head_end
            && self.is_cut == other.is_cut
    }

    /// Until when the response is fresh: from then on it should be fetched again. Its rules stay in force
    /// (draft-illyes-repext-03 §3.1.4).
    pub fn fresh_until(&self, options: &ReadOptions) -> SystemTime {
        let received = self.received_at();
        let lifetime = lifetime(|name| self.lines(name), received, options);
        received.checked_add(lifetime).unwrap_or(received)
    }

    /// The URL whose record this is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// When the resource was last received or revalidated, to the millisecond.
    pub fn received_at(&self) -> SystemTime {
        let distance = Duration::from_millis(self.received_at.unsigned_abs());
        let epoch = SystemTime::UNIX_EPOCH;
        let time =
            if self.received_at < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
        time.unwrap_or(epoch)
    }

    /// Whether a store that has this record keeps it when `other` of the same URL is saved: it was received
    /// later, but by less than a day. A record that is dated further ahead has a wrong date, and would never
    /// be replaced.
    pub const fn outlives(&self, other: &Self) -> bool {
        let later_by = self.received_at.saturating_sub(other.received_at);
        0 < later_by && later_by < 86_400_000
    }

    /// The lines of a field that is kept, by its lower-case name.
    pub fn lines<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let name: Box<str> = name.into();
        self.fields.iter().filter(move |(field, _)| *field == name).map(|(_, line)| &**line)
    }

    /// How the scan of the head ended that found the metas, or why there was none.
    pub const fn head_end(&self) -> HeadEnd {
        self.head_end
    }

    /// Whether the metas, or some of them, are those of an earlier version of the resource.
    pub const fn metas_are_stale(&self) -> bool {
        self.metas_stale
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|(name, line)| (&**name, &**line))
    }

    fn replace(&mut self, fetched: &Fetched<'_>) {
        self.forget();
        self.replace_fields(fetched);
        self.add_metas(&fetched.head);
        self.head_end = fetched.head_end();
        self.metas_stale = false;
    }

    fn replace_fields(&mut self, fetched: &Fetched<'_>) {
        self.fields.clear();
        self.preferences.clear();
        self.preferences_cut = false;
        self.add_fields(fetched);
    }

    /// Whether the 304 is about the version that is recorded (RFC 9111 §4.3.4): by its own validators, else
    /// by the one of the request.
    fn is_version_of(&self, fetched: &Fetched<'_>) -> bool {
        let (Some(ours), Some(theirs)) = (PageValidators::of(self.fields()), PageValidators::of_304(fetched))
        else {
            return false;
        };
        match theirs {
            PageValidators { tag: Some(tag), modified } => {
                let contradicts = |ours| modified.is_some_and(|theirs| ours != theirs);
                ours.tag == Some(tag) && !ours.modified.is_some_and(contradicts)
            }
            // Variants of a page often have the same date.
            PageValidators { tag: None, modified: Some(modified) } => {
                ours.modified == Some(modified)
                    && !varies(self.fields())
                    && !varies(fetched.fields.iter().copied())
            }
            PageValidators { tag: None, modified: None } => false,
        }
    }

    /// RFC 9111 §3.2: a field that the 304 has replaces all lines of that name; the others stay, except `Age`
    /// and `Date`, which are about the message.
    fn revalidate(&mut self, fetched: &Fetched<'_>) {
        self.fields.retain(|(name, _)| !fetched.has_field(name) && !matches!(&**name, "age" | "date"));
        self.add_fields(fetched);
    }

    fn add_fields(&mut self, fetched: &Fetched<'_>) {
        for (name, line) in fetched.fields {
            let name = name.to_ascii_lowercase();
            let room = FIELD_BYTES_MAX.saturating_sub(self.lines(&name).map(<[u8]>::len).sum());
            if is_kept(&name, line) && room > 0 {
                // Of a line that does not fit, its complete members are kept.
                let kept =
                    if line.len() > room { line.get(..room).and_then(complete_members) } else { Some(*line) };
                self.is_cut |= line.len() > room && states(&name);
                let field = (name.into(), kept.unwrap_or_default().into());
                // Each part of a page may have the same lines again.
                if !self.fields.contains(&field) {
                    self.fields.push(field);
                }
            } else {
                self.is_cut |= states(&name);
            }
        }
        // Stricter: whether a 304 is a fetch is left open, so the statements of then and now both count.
        let is_new = |statement: &&PreferenceStatement| !self.preferences.contains(statement);
        let new: Vec<_> = fetched.preferences.iter().filter(is_new).cloned().collect();
        self.preferences.extend(new);
        self.preferences_cut |= fetched.preferences_cut | cut_statements(&mut self.preferences);
        self.received_at = unix_millis(fetched.received_at);
    }

    fn add_metas(&mut self, head: &Head) {
        self.metas_stale = true;
        let named =
            |metas: &[Meta]| metas.iter().filter(|meta| may_name_a_token(meta)).cloned().collect::<Vec<_>>();
        let has_all = add_new(&mut self.metas, named(head.metas()))
            & add_new(&mut self.noscript_metas, named(head.noscript_metas()))
            & add_new(&mut self.strays, head.strays().iter().cloned());
        self.is_cut |= !has_all || head.noscript_cut() || head.strays_cut();
        add_new(&mut self.license_links, head.license_links().iter().cloned());
    }
}

/// What names the version of a resource.
#[derive(Default)]
struct PageValidators<'a> {
    /// Without the `W/` of a weak one: a server says by either that it is the same page.
    tag: Option<&'a [u8]>,
    modified: Option<&'a [u8]>,
}

impl<'a> PageValidators<'a> {
    /// Those of a response; `None` when there are several of a kind.
    fn of(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<Self> {
        let mut validators = Self::default();
        for (name, line) in fields {
            let (place, value) = if name.eq_ignore_ascii_case("etag") {
                (&mut validators.tag, strong(line))
            } else if name.eq_ignore_ascii_case("last-modified") {
                (&mut validators.modified, line.trim_ascii())
            } else {
                continue;
            };
            if place.replace(value).is_some_and(|other| other != value) {
                return None;
            }
        }
        Some(validators)
    }

    /// Those of a 304; without a tag also that of the request that it answers, and without either its date
    /// (RFC 9110 §13.1.3).
    fn of_304(fetched: &Fetched<'a>) -> Option<Self> {
        let stated = Self::of(fetched.fields.iter().copied())?;
        if stated.tag.is_some() {
            return Some(stated);
        }
        let mut tags = asked(fetched, "if-none-match");
        match (tags.next(), tags.next()) {
            (Some(tag), None) if !tag.contains(&b',') => Some(Self { tag: Some(strong(tag)), ..stated }),
            (Some(_), _) => None,
            (None, _) if stated.modified.is_some() => Some(stated),
            (None, _) => {
                let mut dates = asked(fetched, "if-modified-since");
                let date = dates.next().filter(|_| dates.next().is_none())?;
                Some(Self { tag: None, modified: Some(date.trim_ascii()) })
            }
        }
    }
}

fn asked<'a>(fetched: &Fetched<'a>, name: &'static str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    fetched.request.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, line)| *line)
}

fn strong(tag: &[u8]) -> &[u8] {
    let tag = tag.trim_ascii();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether there are variants with other content; another coding is no other content.
fn varies<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
    let lines = fields.filter(|(name, _)| name.eq_ignore_ascii_case("vary")).map(|(_, line)| line);
    lines
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"accept-encoding"))
}

/// The lines that are kept: those that state rules or preferences, that decide freshness, that distinguish
/// versions, or that lead to a licence.
fn is_kept(name: &str, line: &[u8]) -> bool {
    states(name)
        || CACHING_FIELDS.contains(&name)
        || ["etag", "vary"].contains(&name)
        || !licenses(None, [(name, line)], None).is_empty()
}

/// Whether a field states rules or preferences.
fn states(name: &str) -> bool {
    states_rules(name) || states_preferences(name)
}

fn states_rules(name: &str) -> bool {
    ["robots-tag", "x-robots-tag"].contains(&name)
}

/// Bytes kept of one field.
const FIELD_BYTES_MAX: usize = 64 * 1024;

/// Statements of robots.txt kept; a file has a handful.
const STATEMENTS_MAX: usize = 256;

/// Keeps as many as there is room for: what is disallowed before the rest, and known usages before others.
/// Whether some were dropped.
fn cut_statements(statements: &mut Vec<PreferenceStatement>) -> bool {
    let is_cut = statements.len() > STATEMENTS_MAX;
    if is_cut {
        statements.sort_by_key(|statement| {
            (Reverse(statement.preference()), matches!(statement.usage(), Usage::Other(_)))
        });
        statements.truncate(STATEMENTS_MAX);
    }
    is_cut
}

/// Metas of one kind, and links, that are kept; a page has a few dozen.
const KEPT_MAX: usize = 1024;

/// Product tokens have no colon, so `twitter:card` and its like need not be kept. A name that is misspelt may
/// be meant for one.
fn may_name_a_token(meta: &Meta) -> bool {
    !meta.name().contains(':')
}

/// Whether there was room for all of them.
fn add_new<T: PartialEq>(kept: &mut Vec<T>, new: impl IntoIterator<Item = T>) -> bool {
    let mut has_room = true;
    for new in new {
        if kept.contains(&new) {
            continue;
        }
        if kept.len() < KEPT_MAX {
            kept.push(new);
        } else {
            has_room = false;
        }
    }
    has_room
}

fn unix_millis(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, i64::saturating_neg),
    }
}
