//! `TagRules`: what has been stated, as one small value, and the only way to combine two of them.
//!
//! Everything that states rules ends in this type, and union is the only way to combine two, so no source can
//! lift what another states.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use indexmap::IndexSet;

use crate::date::UnavailableAfter;
use crate::rule::{Flag, ImagePreview, KnownRule, Limit, ValuedRule};

/// A set of rules. The default is empty.
///
/// All rules restrict, so two sets are combined by [`TagRules::union`], and no rule relaxes another:
/// draft-illyes-repext-03 §3.1.2, "if any applicable tag contains a restrictive rule, that rule MUST be
/// honored".
///
/// ```
/// use abide_permissions::{Permissions, ReadOptions};
///
/// let options = ReadOptions::new("ExampleBot".parse()?);
/// let permissions = Permissions::from_headers(&options, [("Robots-Tag", "*;max-snippet=20, ExampleBot;nosnippet")]);
/// let rules = permissions.rules();
/// assert!(rules.nosnippet());
/// assert_eq!(rules.max_snippet(), Some(20));
/// assert_eq!(rules.snippet_limit(), Some(0), "nosnippet implies none");
/// assert!(rules.flags().eq(["nosnippet"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct TagRules {
    flags: u16,
    pub(crate) max_snippet: Option<Limit>,
    pub(crate) max_image_preview: Option<ImagePreview>,
    pub(crate) max_video_preview: Option<Limit>,
    pub(crate) unavailable_after: Option<UnavailableAfter>,
    /// In order of appearance, which equality ignores. Most responses have none, so they take no room then.
    unknown: Option<Box<IndexSet<Arc<str>>>>,
}

impl TagRules {
    /// The names of all rules without a value that are known, in lower case.
    pub const FLAGS: &[&str] = Flag::NAMES;

    /// The names of all rules with a value, in the order of their methods here.
    pub const VALUED: &[&str] = ValuedRule::NAMES;

    /// Whether the rule of this name, one of [`FLAGS`](Self::FLAGS), is stated.
    pub fn states(&self, name: &str) -> bool {
        self.flags().any(|flag| flag == name)
    }

    /// The rules without a value that are stated, in the order of [`FLAGS`](Self::FLAGS).
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + '_ {
        Flag::ALL.iter().filter(|flag| self.has(**flag)).map(|flag| flag.as_str())
    }

    pub(crate) const fn has(&self, flag: Flag) -> bool {
        self.flags & flag.bit() != 0
    }

    /// `noindex`: keep the content out of the publicly accessible index. Short for [`states`](Self::states),
    /// as are the next two.
    pub const fn noindex(&self) -> bool {
        self.has(Flag::NoIndex)
    }

    /// `nofollow`: do not follow the page's links.
    pub const fn nofollow(&self) -> bool {
        self.has(Flag::NoFollow)
    }

    /// `nosnippet`: reproduce no excerpt.
    pub const fn nosnippet(&self) -> bool {
        self.has(Flag::NoSnippet)
    }

    /// `max-snippet` in characters, the smallest stated; -1 is stated to be without limit. `nosnippet` does
    /// not change it; see [`TagRules::snippet_limit`].
    pub fn max_snippet(&self) -> Option<i64> {
        self.max_snippet.map(Limit::as_i64)
    }

    /// `max-image-preview`, the smallest stated: `none`, `standard` or `large`.
    pub fn max_image_preview(&self) -> Option<&'static str> {
        self.max_image_preview.map(ImagePreview::as_str)
    }

    /// `max-video-preview` in seconds, the smallest stated; 0 is a static image, and -1 is stated to be
    /// without limit.
    pub fn max_video_preview(&self) -> Option<i64> {
        self.max_video_preview.map(Limit::as_i64)
    }

    /// `unavailable_after`, the earliest stated.
    pub const fn unavailable_after(&self) -> Option<UnavailableAfter> {
        self.unavailable_after
    }

    /// The restrictions that are stated, however much they restrict. `max-snippet:-1` and a large preview are
    /// none.
    pub(crate) fn stated(&self) -> impl Iterator<Item = KnownRule> + '_ {
        let is_limit = |limit: Option<Limit>| limit.is_some_and(|limit| limit != Limit::Unlimited);
        let valued = [
            (ValuedRule::MaxSnippet, is_limit(self.max_snippet)),
            (
                ValuedRule::MaxImagePreview,
                self.max_image_preview.is_some_and(|size| size != ImagePreview::Large),
            ),
            (ValuedRule::MaxVideoPreview, is_limit(self.max_video_preview)),
            (ValuedRule::UnavailableAfter, self.unavailable_after.is_some()),
        ];
        let flags = Flag::ALL.iter().filter(|flag| self.has(**flag)).map(|flag| KnownRule::Flag(*flag));
        let valued = valued.into_iter().filter(|(_, is_stated)| *is_stated);
        flags.chain(valued.map(|(rule, _)| KnownRule::Valued(rule)))
    }

    /// Rules that enforce nothing here, in lower case, without repetition, in order of appearance; at most
    /// 1,024. Besides foreign names also `noml`, `noodp`, `noydir`, `noyaca`, `nositelinkssearchbox`.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().flat_map(|names| names.iter()).map(AsRef::as_ref)
    }

    /// Whether nothing is stated, not even an unknown rule.
    pub fn is_empty(&self) -> bool {
        self.flags == 0
            && self.max_snippet.is_none()
            && self.max_image_preview.is_none()
            && self.max_video_preview.is_none()
            && self.unavailable_after.is_none()
            && self.unknown.is_none()
    }

    /// Whether nothing in this set keeps the content out of an index at `now`. The set does not know whether
    /// it is complete; see [`Permissions::may_index_at`](crate::Permissions::may_index_at).
    pub(crate) fn may_index_at(&self, now: SystemTime) -> bool {
        !self.noindex() && self.unavailable_after.is_none_or(|after| !after.has_passed(now))
    }

    /// The longest text snippet in characters: 0 when `nosnippet`, else [`TagRules::max_snippet`]. `None`:
    /// there is no limit.
    pub const fn snippet_limit(&self) -> Option<u64> {
        match self.max_snippet {
            _ if self.nosnippet() => Some(0),
            Some(Limit::AtMost(limit)) => Some(limit),
            Some(Limit::Unlimited) | None => None,
        }
    }

    /// What either states. Commutative, associative, idempotent; it never takes a restriction away.
    pub fn union(mut self, other: &Self) -> Self {
        self.unite(other);
        self
    }

    pub(crate) fn unite(&mut self, other: &Self) {
        self.flags |= other.flags;
        tighten(&mut self.max_snippet, other.max_snippet);
        tighten(&mut self.max_image_preview, other.max_image_preview);
        tighten(&mut self.max_video_preview, other.max_video_preview);
        tighten(&mut self.unavailable_after, other.unavailable_after);
        other.unknown.iter().flat_map(|names| names.iter()).for_each(|name| self.add_name(Arc::clone(name)));
    }

    pub(crate) const fn state(&mut self, flag: Flag) {
        self.state_all(flag.bit());
    }

    /// States the flags with these bits.
    pub(crate) const fn state_all(&mut self, bits: u16) {
        self.flags |= bits;
    }

    pub(crate) fn add_unknown(&mut self, name: &[u8]) {
        self.add_name(String::from_utf8_lossy(name).to_ascii_lowercase().into());
    }

    pub(crate) fn retain_unknown(&mut self, keep: impl Fn(&str) -> bool) {
        if let Some(names) = &mut self.unknown {
            names.retain(|name| keep(name));
            self.unknown = self.unknown.take().filter(|names| !names.is_empty());
        }
    }

    fn add_name(&mut self, name: Arc<str>) {
        let names = self.unknown.get_or_insert_default();
        if names.len() < NAMES_MAX {
            names.insert(name);
        }
    }
}

/// Keeps the smaller of what is stated. In each of the types the smaller value is the more restrictive one.
pub(crate) fn tighten<T: Copy + Ord>(ours: &mut Option<T>, theirs: Option<T>) {
    if let Some(theirs) = theirs {
        *ours = Some(ours.map_or(theirs, |ours| ours.min(theirs)));
    }
}

/// As it would be written in a meta: `noindex, max-snippet:20`.
impl fmt::Display for TagRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.flags().map(str::to_owned);
        let valued = [
            self.max_snippet.map(|limit| format!("max-snippet:{}", limit.as_i64())),
            self.max_image_preview.map(|size| format!("max-image-preview:{}", size.as_str())),
            self.max_video_preview.map(|limit| format!("max-video-preview:{}", limit.as_i64())),
            self.unavailable_after.map(|after| format!("unavailable_after:{after}")),
        ];
        let unknown = self.unknown().map(|name| name.escape_default().to_string());
        let words: Vec<String> = flags.chain(valued.into_iter().flatten()).chain(unknown).collect();
        f.write_str(&words.join(", "))
    }
}

impl fmt::Debug for TagRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TagRules({self})")
    }
}

/// Names kept at most. They enforce nothing; a page with more than a few dozen is an attack.
const NAMES_MAX: usize = 1024;
