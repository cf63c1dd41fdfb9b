//! `Question`: what a caller asks of a page, and which rules answer it.
//!
//! One table for both: what a rule restricts, and what is unknown when a rule was stated and not understood.

use std::time::SystemTime;

use crate::rule::{Flag, KnownRule, ValuedRule};
use crate::rules::TagRules;

/// What may be done with a page, one question each.
///
/// ```
/// use abide_permissions::{Permissions, Question, ReadOptions};
///
/// let options = ReadOptions::new("ExampleBot".parse()?);
/// let permissions = Permissions::from_headers(&options, [("X-Robots-Tag", "noarchive, max-snippet: few")]);
/// let answers = Question::ALL.map(|question| permissions.answer(question).as_str());
/// assert_eq!(answers, ["yes", "unknown", "yes", "no", "yes", "yes", "yes", "yes"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Question {
    /// May the content be in an index? `noindex` and an `unavailable_after` that has passed forbid it.
    Index,
    /// May a text snippet be shown? `nosnippet` and `max-snippet:0` forbid it; a longer limit does not.
    Snippet,
    /// May the page's links be followed? `nofollow` forbids it.
    Follow,
    /// May a cached copy be offered? `noarchive` and `nocache` forbid it.
    Archive,
    /// May the page's images be in an index? `noimageindex` forbids it.
    ImageIndex,
    /// May a translation be offered? `notranslate` forbids it.
    Translate,
    /// May an image preview be shown? `max-image-preview:none` forbids it.
    ImagePreview,
    /// May a video preview be shown? `nosnippet` and `max-video-preview:0` forbid it.
    VideoPreview,
}

impl Question {
    /// All questions, in the order of the command's JSON.
    pub const ALL: [Self; 8] = [
        Self::Index,
        Self::Snippet,
        Self::Follow,
        Self::Archive,
        Self::ImageIndex,
        Self::Translate,
        Self::ImagePreview,
        Self::VideoPreview,
    ];

    /// The name in the command's JSON: `index`, `image_index`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Snippet => "snippet",
            Self::Follow => "follow",
            Self::Archive => "archive",
            Self::ImageIndex => "image_index",
            Self::Translate => "translate",
            Self::ImagePreview => "image_preview",
            Self::VideoPreview => "video_preview",
        }
    }

    /// Whether these rules forbid it at `now`.
    pub(crate) fn is_forbidden_by(self, rules: &TagRules, now: SystemTime) -> bool {
        let has = |flag| rules.has(flag);
        match self {
            Self::Index => !rules.may_index_at(now),
            Self::Snippet => rules.snippet_limit() == Some(0),
            Self::Follow => has(Flag::NoFollow),
            Self::Archive => has(Flag::NoArchive) || has(Flag::NoCache),
            Self::ImageIndex => has(Flag::NoImageIndex),
            Self::Translate => has(Flag::NoTranslate),
            Self::ImagePreview => rules.max_image_preview() == Some("none"),
            Self::VideoPreview => has(Flag::NoSnippet) || rules.max_video_preview() == Some(0),
        }
    }
}

/// A set of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked(u8);

impl Asked {
    pub(crate) const ALL: Self = Self(u8::MAX);

    pub(crate) const fn of(question: Question) -> Self {
        Self(1 << question as u8)
    }

    /// The questions that a rule answers.
    pub(crate) const fn by(rule: KnownRule) -> Self {
        use Question::{Archive, Follow, ImageIndex, ImagePreview, Index, Snippet, Translate, VideoPreview};
        match rule {
            KnownRule::Flag(Flag::NoIndex) | KnownRule::Valued(ValuedRule::UnavailableAfter) => {
                Self::of(Index)
            }
            KnownRule::Flag(Flag::NoFollow) => Self::of(Follow),
            KnownRule::Flag(Flag::NoSnippet) => Self::of(Snippet).and(Self::of(VideoPreview)),
            KnownRule::Flag(Flag::NoArchive | Flag::NoCache) => Self::of(Archive),
            KnownRule::Flag(Flag::NoImageIndex) => Self::of(ImageIndex),
            KnownRule::Flag(Flag::NoTranslate) => Self::of(Translate),
            KnownRule::Valued(ValuedRule::MaxSnippet) => Self::of(Snippet),
            KnownRule::Valued(ValuedRule::MaxImagePreview) => Self::of(ImagePreview),
            KnownRule::Valued(ValuedRule::MaxVideoPreview) => Self::of(VideoPreview),
            KnownRule::None => Self::of(Index).and(Self::of(Follow)),
            KnownRule::Flag(Flag::IndexIfEmbedded | Flag::NoAi | Flag::NoImageAi)
            | KnownRule::Permits
            | KnownRule::Data => Self(0),
        }
    }

    /// The questions that any of these rules answers.
    pub(crate) fn by_all(rules: &TagRules) -> Self {
        rules.stated().map(Self::by).fold(Self::default(), Self::and)
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, question: Question) -> bool {
        self.0 & Self::of(question).0 != 0
    }

    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
