//! The vocabulary that all carriers share: fields, metas, draft-00 and legacy values.
//!
//! draft-illyes-repext-03 §5.2: the names of the registry are parameters of the field *and* words of a meta's content.

use std::fmt;
use std::str::FromStr;

/// A restriction without a value. Stated by any carrier, it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Flag {
    /// `noindex`: not in the publicly accessible index (repext-03 §3.1.3).
    NoIndex,
    /// `nofollow`: do not follow the page's links.
    NoFollow,
    /// `nosnippet`: no excerpt (repext-03 §3.1.3).
    NoSnippet,
    /// `noarchive`: no cached copy.
    NoArchive,
    /// `nocache`: Bing's weaker form of `noarchive`.
    NoCache,
    /// `noimageindex`: do not index the page's images.
    NoImageIndex,
    /// `notranslate`: offer no translation.
    NoTranslate,
    /// `indexifembedded`: a permission beside `noindex` for embedded content. Data only: it relaxes nothing here.
    IndexIfEmbedded,
    /// `noai`: not for AI data sets.
    NoAi,
    /// `noimageai`: the page's images are not for AI data sets.
    NoImageAi,
}

impl Flag {
    /// All flags, in the order of the vocabulary.
    pub const ALL: [Self; 10] = [
        Self::NoIndex,
        Self::NoFollow,
        Self::NoSnippet,
        Self::NoArchive,
        Self::NoCache,
        Self::NoImageIndex,
        Self::NoTranslate,
        Self::IndexIfEmbedded,
        Self::NoAi,
        Self::NoImageAi,
    ];

    /// The name on the wire, in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoIndex => "noindex",
            Self::NoFollow => "nofollow",
            Self::NoSnippet => "nosnippet",
            Self::NoArchive => "noarchive",
            Self::NoCache => "nocache",
            Self::NoImageIndex => "noimageindex",
            Self::NoTranslate => "notranslate",
            Self::IndexIfEmbedded => "indexifembedded",
            Self::NoAi => "noai",
            Self::NoImageAi => "noimageai",
        }
    }

    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An amount that a rule allows at most: characters of `max-snippet`, seconds of `max-video-preview`.
///
/// Ordered by how much it allows, so the minimum of two limits is the more restrictive one.
///
/// ```
/// use abide_permissions::Limit;
///
/// assert!(Limit::AtMost(20) < Limit::Unlimited);
/// assert_eq!(Limit::Unlimited.as_i64(), -1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limit {
    /// At most so many; 0 is none at all. Never above [`i64::MAX`].
    AtMost(u64),
    /// `-1`: stated to be without limit.
    Unlimited,
}

impl Limit {
    /// The value as it is written: `-1` for no limit.
    #[must_use]
    pub fn as_i64(self) -> i64 {
        match self {
            Self::AtMost(amount) => i64::try_from(amount).unwrap_or(i64::MAX),
            Self::Unlimited => -1,
        }
    }

    /// `-1` or decimal digits; what is too large saturates.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "-1" {
            return Some(Self::Unlimited);
        }
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self::AtMost(text.parse::<i64>().map_or(i64::MAX as u64, i64::unsigned_abs)))
    }
}

/// The size of an image preview, ordered by how much it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ImagePreview {
    /// No preview.
    None,
    /// A preview of ordinary size.
    Standard,
    /// A large preview, up to the width of the viewport.
    Large,
}

impl ImagePreview {
    /// The name on the wire, in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Standard => "standard",
            Self::Large => "large",
        }
    }
}

/// The text is none of `none`, `standard`, `large`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `none`, `standard` or `large`")]
pub struct InvalidImagePreview;

impl FromStr for ImagePreview {
    type Err = InvalidImagePreview;

    fn from_str(text: &str) -> Result<Self, InvalidImagePreview> {
        [Self::None, Self::Standard, Self::Large]
            .into_iter()
            .find(|size| size.as_str().eq_ignore_ascii_case(text))
            .ok_or(InvalidImagePreview)
    }
}

impl fmt::Display for ImagePreview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The rules that carry a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValuedRule {
    /// `max-snippet`: characters of text.
    MaxSnippet,
    /// `max-image-preview`: `none`, `standard` or `large`.
    MaxImagePreview,
    /// `max-video-preview`: seconds.
    MaxVideoPreview,
    /// `unavailable_after`: a date.
    UnavailableAfter,
}

impl ValuedRule {
    /// The name on the wire, in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxSnippet => "max-snippet",
            Self::MaxImagePreview => "max-image-preview",
            Self::MaxVideoPreview => "max-video-preview",
            Self::UnavailableAfter => "unavailable_after",
        }
    }
}

/// What a name of the vocabulary means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Flag(Flag),
    /// `none`: `noindex` and `nofollow`.
    None,
    /// `all`, `index`, `follow`, `archive`: they permit, so they have no effect (X20, X21).
    Permits,
    /// A flag that others defined and nothing follows from; kept as data among the unknown rules.
    Data,
    Valued(ValuedRule),
}

impl Known {
    /// Whether the name is one of those that stand alone, as the 20 flags of the legacy grammar do.
    pub(crate) const fn is_flag(self) -> bool {
        !matches!(self, Self::Valued(_))
    }
}

/// Looks a name up, without regard to ASCII case.
pub(crate) fn known(name: &[u8]) -> Option<Known> {
    let mut buffer = [0; NAME_BYTES_MAX];
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    Some(match &*lower {
        b"all" | b"index" | b"follow" | b"archive" => Known::Permits,
        b"none" => Known::None,
        b"noindex" => Known::Flag(Flag::NoIndex),
        b"nofollow" => Known::Flag(Flag::NoFollow),
        b"noarchive" => Known::Flag(Flag::NoArchive),
        b"nocache" => Known::Flag(Flag::NoCache),
        b"nosnippet" => Known::Flag(Flag::NoSnippet),
        b"notranslate" => Known::Flag(Flag::NoTranslate),
        b"noimageindex" => Known::Flag(Flag::NoImageIndex),
        b"indexifembedded" => Known::Flag(Flag::IndexIfEmbedded),
        b"noai" => Known::Flag(Flag::NoAi),
        b"noimageai" => Known::Flag(Flag::NoImageAi),
        b"nositelinkssearchbox" | b"noodp" | b"noydir" | b"noyaca" | b"noml" => Known::Data,
        b"max-snippet" => Known::Valued(ValuedRule::MaxSnippet),
        b"max-image-preview" => Known::Valued(ValuedRule::MaxImagePreview),
        b"max-video-preview" => Known::Valued(ValuedRule::MaxVideoPreview),
        b"unavailable_after" => Known::Valued(ValuedRule::UnavailableAfter),
        _ => return None,
    })
}

/// The length of `nositelinkssearchbox`, the longest name.
const NAME_BYTES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_whole_and_without_case() {
        assert_eq!(known(b"NoIndex"), Some(Known::Flag(Flag::NoIndex)));
        for name in ["noindexfoo", "nonexistent", "non", "", "no index", "nositelinkssearchboxx"] {
            assert_eq!(known(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn every_flag_is_found_under_its_own_name() {
        for flag in Flag::ALL {
            assert_eq!(known(flag.as_str().as_bytes()), Some(Known::Flag(flag)));
        }
    }

    #[test]
    fn limits_are_minus_one_or_digits_and_saturate() {
        assert_eq!(Limit::parse("-1"), Some(Limit::Unlimited));
        assert_eq!(Limit::parse("020"), Some(Limit::AtMost(20)));
        assert_eq!(Limit::parse("99999999999999999999999"), Some(Limit::AtMost(i64::MAX as u64)));
        for text in ["", "-2", "+1", "20.5", "1e3", " 20", "twenty"] {
            assert_eq!(Limit::parse(text), None, "{text}");
        }
    }
}
