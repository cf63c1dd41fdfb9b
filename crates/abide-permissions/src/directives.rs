//! App-Directives: what a site asks of named applications, in robots.txt (draft-nottingham-plan-b).
//!
//! They are read here and obeyed by the application, because only it knows what its directives mean.

use std::sync::Arc;

use abide_robots::{RecordKind, Rules, Target};
use sfv::{BareItem, Item, List, ListEntry, Parser};

use crate::provenance::Provenance;
use crate::value::SfValue;

/// The App-Directives of a robots.txt that apply to one URL, for any application.
///
/// They do not decide whether the URL may be fetched, and Allow and Disallow do not affect them.
///
/// ```
/// use abide_permissions::AppDirectives;
/// use abide_robots::{Rules, Target};
///
/// let robots = b"User-agent: *\nApp-Directives: examplesearch;widgets=?0\nApp-Directives: /maps/ examplesearch;zoom=3";
/// let rules = Rules::parse(robots, &["ExampleBot".parse()?]);
///
/// let anywhere = AppDirectives::of(&rules, &Target::new("/a"));
/// assert_eq!(anywhere.get("ExampleSearch", "widgets").and_then(|value| value.as_bool()), Some(false));
///
/// // The longest path that names the application counts alone.
/// let maps = AppDirectives::of(&rules, &Target::new("/maps/1"));
/// assert_eq!(maps.get("examplesearch", "widgets"), None);
/// let named = maps.for_app("examplesearch").expect("named");
/// let (name, value, source) = named[0];
/// assert_eq!((name, value.as_integer()), ("zoom", Some(3)));
/// assert_eq!(source.to_string(), "robots.txt line 3 (group *): App-Directives /maps/");
/// assert!(maps.for_app("other").is_none());
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppDirectives {
    members: Vec<AppMember>,
    dropped: Vec<u32>,
}

/// What a record that covers the URL asks of one application.
#[derive(Clone, Debug, PartialEq)]
struct AppMember {
    app: Box<str>,
    directives: Directives,
    /// The bytes of the record's path; of the records that name an application, those with the longest path
    /// count.
    bytes: usize,
    /// Shared by the members of a record, which may be thousands.
    source: Arc<Provenance>,
}

/// Each name with its last value (RFC 9651 §4.2.3.2).
type Directives = Vec<(Box<str>, SfValue)>;

impl AppDirectives {
    /// Reads the records of the group of `rules`. A record that is not a List is dropped by itself: joined,
    /// as the draft has it, one bad line would void all, and RFC 9309 §2.3.1.5 says that what is parseable is
    /// used.
    pub fn of(rules: &Rules, target: &Target<'_>) -> Self {
        let mut found = Self::default();
        let group = rules.token().unwrap_or("*");
        for record in rules.records().filter(|record| record.kind() == RecordKind::AppDirectives) {
            let (path, value) = path_and_value(record.value());
            let Some(apps) = parse(value) else {
                found.dropped.push(record.line());
                continue;
            };
            let Some(bytes) = path.map_or(Some(0), |path| target.covered_by(path)) else { continue };
            let source = Arc::new(Provenance::of_record(&record, path, Some(group)));
            let member =
                |(app, directives)| AppMember { app, directives, bytes, source: Arc::clone(&source) };
            found.members.extend(apps.into_iter().map(member));
        }
        found
    }

    /// The directives for an application, each with its value and its record, in the order of the file, with
    /// repetitions. `None` when no record names it.
    ///
    /// Of the records that name it, all those with the longest path count: a longer path that names another
    /// application hides none of ours. Names are compared case-insensitively (Lenient: SF Tokens are
    /// case-sensitive).
    pub fn for_app(&self, app: &str) -> Option<Vec<(&str, &SfValue, &Provenance)>> {
        let named = || self.members.iter().filter(|member| member.app.eq_ignore_ascii_case(app));
        let longest = named().map(|member| member.bytes).max()?;
        let counting = named().filter(|member| member.bytes == longest);
        let directives =
            counting.flat_map(|member| member.directives.iter().map(|named| (named, &*member.source)));
        Some(directives.map(|((name, value), source)| (&**name, value, source)).collect())
    }

    /// The value of a directive for an application; of a repeated one the last.
    pub fn get(&self, app: &str, name: &str) -> Option<&SfValue> {
        let directives = self.for_app(app)?;
        directives.into_iter().rev().find(|(own, ..)| *own == name).map(|(_, value, _)| value)
    }

    /// The applications that the records name, as written, with repetitions.
    pub fn apps(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &*member.app)
    }

    /// The lines of records that could not be read.
    pub fn dropped(&self) -> &[u32] {
        &self.dropped
    }
}

/// A value begins with `/` exactly when it has a path, which ends before the first space or tab.
pub(crate) fn path_and_value(value: &[u8]) -> (Option<&[u8]>, &[u8]) {
    if !value.starts_with(b"/") {
        return (None, value);
    }
    let end = value.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(value.len());
    let (path, rest) = value.split_at_checked(end).unwrap_or((value, b""));
    (Some(path), rest.trim_ascii())
}

/// What the author of a record should know.
pub(crate) fn problem(value: &[u8]) -> Option<String> {
    let (path, value) = path_and_value(value);
    match parse(value) {
        Some(_) if path.is_some() && value.is_empty() => {
            Some("expected directives behind the path".to_owned())
        }
        Some(_) => None,
        None => Some("expected a list such as `app;directive=value`; the record is dropped".to_owned()),
    }
}

/// The members of a List that are Tokens; others name no application. `None` when it is no List.
fn parse(value: &[u8]) -> Option<Vec<(Box<str>, Directives)>> {
    let members: List = Parser::new(value).parse().ok()?;
    let apps = members.into_iter().filter_map(|member| match member {
        ListEntry::Item(Item { bare_item: BareItem::Token(app), params }) => {
            let directives =
                params.into_iter().map(|(name, value)| (name.as_str().into(), SfValue::of(value)));
            Some((app.as_str().into(), directives.collect()))
        }
        _ => None,
    });
    Some(apps.collect())
}
