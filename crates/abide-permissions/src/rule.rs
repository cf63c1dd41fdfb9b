//! The vocabulary that all carriers share: fields, metas, draft-00 and legacy values.
//!
//! A new rule is one line in one of the two tables below and one in `Asked::by`, and for a rule with a value
//! also a field of `TagRules`. draft-illyes-repext-03 §5.2: the names of the registry are parameters of the
//! field *and* words of a meta's content.

/// Makes an enum of the rules that are listed with their names on the wire. Whatever lists rules follows from
/// it: the reading of every carrier, `Display`, and what the command prints.
macro_rules! vocabulary {
    ($(#[$meta:meta])* $visibility:vis enum $rules:ident { $($(#[$doc:meta])* $rule:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        $visibility enum $rules {
            $($(#[$doc])* $rule,)+
        }

        impl $rules {
            pub(crate) const ALL: &[Self] = &[$(Self::$rule,)+];
            pub(crate) const NAMES: &[&str] = &[$($name,)+];

            pub(crate) const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)+
                }
            }

            /// The one of this name, which is in lower case.
            fn named(name: &[u8]) -> Option<Self> {
                let place = Self::NAMES.iter().position(|known| known.as_bytes() == name)?;
                Self::ALL.get(place).copied()
            }
        }
    };
}

vocabulary! {
    /// A restriction without a value. Stated by any carrier, it holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Flag {
        /// Keep the content out of the publicly accessible index (repext-03 §3.1.3).
        NoIndex = "noindex",
        /// Do not follow the page's links.
        NoFollow = "nofollow",
        /// Reproduce no excerpt (repext-03 §3.1.3).
        NoSnippet = "nosnippet",
        /// Offer no cached copy.
        NoArchive = "noarchive",
        /// Bing's weaker form of `noarchive`.
        NoCache = "nocache",
        /// Do not index the page's images.
        NoImageIndex = "noimageindex",
        /// Offer no translated result.
        NoTranslate = "notranslate",
        /// Beside `noindex` Google may index the content where it is embedded. Data only: it relaxes nothing
        /// here.
        IndexIfEmbedded = "indexifembedded",
        /// Not for AI data sets.
        NoAi = "noai",
        /// The page's images are not for AI data sets.
        NoImageAi = "noimageai",
    }
}

vocabulary! {
    /// The rules that carry a value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum ValuedRule {
        /// Characters of text.
        MaxSnippet = "max-snippet",
        /// `none`, `standard` or `large`.
        MaxImagePreview = "max-image-preview",
        /// Seconds.
        MaxVideoPreview = "max-video-preview",
        /// A date.
        UnavailableAfter = "unavailable_after",
    }
}

impl Flag {
    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// An amount that a rule allows at most: characters of `max-snippet`, seconds of `max-video-preview`.
///
/// Ordered by how much it allows, so the minimum of two limits is the more restrictive one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// At most this amount; 0 is none at all. Never above [`i64::MAX`].
    AtMost(u64),
    /// `-1`: stated to be without limit.
    Unlimited,
}

impl Limit {
    /// The value as it is written: `-1` for no limit.
    pub(crate) fn as_i64(self) -> i64 {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ImagePreview {
    /// No preview.
    None,
    /// A preview of ordinary size.
    Standard,
    /// A large preview, up to the width of the viewport.
    Large,
}

impl ImagePreview {
    /// The name on the wire, in lower case.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Standard => "standard",
            Self::Large => "large",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_named = |size: &Self| size.as_str().eq_ignore_ascii_case(text);
        [Self::None, Self::Standard, Self::Large].into_iter().find(is_named)
    }
}

/// What a name of the vocabulary means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownRule {
    Flag(Flag),
    /// `none`: `noindex` and `nofollow`.
    None,
    /// `all`, `index`, `follow`, `archive`: they have no effect, because every rule of repext-03 restricts.
    Permits,
    /// A flag that others defined and nothing follows from; kept as data among the unknown rules.
    Data,
    Valued(ValuedRule),
}

impl KnownRule {
    /// Its name on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Flag(flag) => flag.as_str(),
            Self::Valued(rule) => rule.as_str(),
            Self::None => "none",
            Self::Permits => "all",
            Self::Data => "",
        }
    }

    /// Whether the name takes no value, as the 20 flags of the legacy grammar.
    pub(crate) const fn is_flag(self) -> bool {
        !matches!(self, Self::Valued(_))
    }
}

/// Looks a name up, without regard to ASCII case.
pub(crate) fn known(name: &[u8]) -> Option<KnownRule> {
    let mut buffer = [0; NAME_BYTES_MAX];
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    match &*lower {
        b"all" | b"index" | b"follow" | b"archive" => return Some(KnownRule::Permits),
        b"none" => return Some(KnownRule::None),
        b"nositelinkssearchbox" | b"noodp" | b"noydir" | b"noyaca" => return Some(KnownRule::Data),
        // What they say of training is a preference.
        b"noml" | b"disallowaitraining" => return Some(KnownRule::Data),
        _ => {}
    }
    Flag::named(lower).map(KnownRule::Flag).or_else(|| ValuedRule::named(lower).map(KnownRule::Valued))
}

/// The rule whose name this is but for hyphens and underscores, in any case: `no-index`, `max_snippet`.
pub(crate) fn named_like(joined: &str) -> Option<KnownRule> {
    let is_like = |name: &&'static str| {
        let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
        letters.eq(joined.bytes().map(|byte| byte.to_ascii_lowercase()))
    };
    let name = Flag::NAMES.iter().chain(ValuedRule::NAMES).copied().find(is_like)?;
    known(name.as_bytes())
}

/// The length of `nositelinkssearchbox`, the longest name.
pub(crate) const NAME_BYTES_MAX: usize = 20;
