//! The rules for one crawler, compiled.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::block::{Block, FLAG_GOOGLE, FLAG_GROUP, FLAG_NAMED, Parts};
use crate::compile::{self, ITEM_AGENT, ITEM_MATCHED};
use crate::decode::Text;
use crate::group::{Gatherer, Raw};
use crate::line::RecordKind;
use crate::normal::{self, Side};
use crate::profile::{Profile, ReadOptions};
use crate::search;
use crate::target::Target;
use crate::token::ProductToken;
use crate::verdict::{Decision, Verdict};

/// What a robots.txt says to one crawler: its rules, Crawl-delay, sitemaps and preferences.
///
/// All of it lies in one block of memory; a clone shares it. Equal rule sets are equal values (`Eq`, `Hash`), so a
/// cache of many hosts can keep one of each.
///
/// It holds no remarks on the file: reading for one crawler passes over the groups of others, and who crawls has no use
/// for them. [`Robots::remarks`](crate::Robots::remarks) has them all.
///
/// ```
/// use abide_robots::{ProductToken, Rules, Target};
///
/// let rules = Rules::parse(b"User-agent: *\nDisallow: /private/", &[ProductToken::new("ExampleBot")?]);
/// assert!(rules.is_allowed(&Target::new("/public/")));
/// assert!(!rules.is_allowed(&Target::new("/private/a")));
/// # Ok::<(), abide_robots::InvalidToken>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Rules {
    block: Block,
}

impl Rules {
    /// Reads a robots.txt for a crawler that goes by `tokens`: the first of them that has a group wins, else the `*`
    /// group applies (RFC 9309 §2.2.1). Never fails: what cannot be read is skipped, a line at a time.
    pub fn parse(body: &[u8], tokens: &[ProductToken]) -> Self {
        Self::parse_with(body, tokens, ReadOptions::new())
    }

    /// Like [`parse`](Self::parse), with a profile or a limit of your choice.
    pub fn parse_with(body: &[u8], tokens: &[ProductToken], options: ReadOptions) -> Self {
        let text = Text::of(body, options.limit);
        Self::of_block(compile::compile(&text.octets, tokens, options.profile))
    }

    /// One rule for everybody.
    pub(crate) fn of_rule(rule: Raw<'_>, profile: Profile) -> Self {
        let mut gatherer = Gatherer::new(&[], profile);
        gatherer.take(Raw { kind: RecordKind::UserAgent, value: b"*", line: 0 });
        gatherer.take(rule);
        gatherer.finish();
        Self::of_block(compile::build(&gatherer, &[], profile))
    }

    /// The octets of the rule that covers the target, if one does.
    pub(crate) fn octets_of_match(&self, target: &Target<'_>) -> Option<u16> {
        match self.decide(target) {
            Decision::Rule { found, .. } => Some(self.parts().entry(found).octets),
            _ => None,
        }
    }

    pub(crate) fn of_block(block: Block) -> Self {
        Self { block }
    }

    /// Whether the target may be fetched.
    ///
    /// Allocates nothing, unless the file was made to cause work: where thousands of wildcard rules meet a target of
    /// thousands of octets, memory in their order of size buys an answer in bounded time.
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {
        match self.decide(target) {
            Decision::Rule { allow, .. } => allow,
            Decision::NoMatch | Decision::NoGroup | Decision::RobotsTxt => true,
        }
    }

    /// Whether the target may be fetched, and why.
    pub fn verdict(&self, target: &Target<'_>) -> Verdict {
        Verdict::new(self.clone(), self.decide(target))
    }

    // An answer that need not be written down as a `Decision` is worth a copy of this.
    #[inline(always)]
    fn decide(&self, target: &Target<'_>) -> Decision {
        let flags = self.block.flags();
        if flags & FLAG_GOOGLE != 0 {
            return self.decide_as_google(target, flags);
        }
        if target.is_robots_txt() {
            return Decision::RobotsTxt;
        }
        if flags & FLAG_GROUP == 0 {
            return Decision::NoGroup;
        }
        self.most_specific(target.octets(), target.query())
    }

    /// Google's parser does not know `/robots.txt`, and takes targets as they are.
    #[cold]
    fn decide_as_google(&self, target: &Target<'_>, flags: u32) -> Decision {
        if flags & FLAG_GROUP == 0 {
            return Decision::NoGroup;
        }
        let mut octets = Vec::new();
        normal::push_google(target.given(), Side::Target, &mut octets);
        self.most_specific(&octets, octets.len())
    }

    #[inline]
    fn most_specific(&self, target: &[u8], query: usize) -> Decision {
        match search::most_specific(&self.block, target, query) {
            Some((found, allow)) => Decision::Rule { found, allow },
            None => Decision::NoMatch,
        }
    }

    /// The least time between two requests that the group asks for: the largest Crawl-delay in it. One that exceeds
    /// what a `Duration` holds is [`Duration::MAX`].
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.block.delay()
    }

    /// The Sitemap records of the file, as written: absolute URLs, if their authors kept to the protocol.
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {
        self.texts(RecordKind::Sitemap as u32)
    }

    /// The License records of the file (RSL 1.0), as written.
    pub fn licenses(&self) -> impl Iterator<Item = &str> {
        self.texts(RecordKind::License as u32)
    }

    /// The tokens of the group that applies, in lower case, in file order, without repetition. Nothing if no group
    /// applies.
    pub fn group(&self) -> impl Iterator<Item = &str> {
        self.texts(ITEM_AGENT)
    }

    /// Whether a group applies, be it that of a token or that of `*`.
    pub fn has_group(&self) -> bool {
        self.block.flags() & FLAG_GROUP != 0
    }

    /// Whether the file names the crawler: the group is that of a token, not that of `*`.
    pub fn is_named(&self) -> bool {
        self.block.flags() & FLAG_NAMED != 0
    }

    /// Which of the crawler's tokens has a group; `None` if `*` or no group applies.
    pub fn token(&self) -> Option<&str> {
        self.texts(ITEM_MATCHED).next()
    }

    /// The preference records of the group that applies, in file order, unread.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.block.parts().items().filter_map(|(item, value)| {
            PREFERENCES.iter().find(|kind| **kind as u32 == item.kind).map(|kind| Record {
                kind: *kind,
                value,
                line: item.line,
            })
        })
    }

    /// Octets on the heap, shared by all clones.
    pub fn heap_size(&self) -> usize {
        self.block.octets() + 2 * size_of::<usize>()
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        self.block.parts()
    }

    fn texts(&self, kind: u32) -> impl Iterator<Item = &str> {
        self.block
            .parts()
            .items()
            .filter(move |(item, _)| item.kind == kind)
            .map(|(_, octets)| core::str::from_utf8(octets).unwrap_or_default())
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        f.debug_struct("Rules")
            .field("group", &self.group().collect::<Vec<_>>())
            .field("rules", &(parts.literal_count() + parts.wildcard_count()))
            .field("crawl_delay", &self.crawl_delay())
            .finish_non_exhaustive()
    }
}

const PREFERENCES: [RecordKind; 3] =
    [RecordKind::AppDirectives, RecordKind::ContentUsage, RecordKind::ContentSignal];

/// A record of a group, as it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    kind: RecordKind,
    value: &'a [u8],
    line: u32,
}

impl<'a> Record<'a> {
    /// What the record is.
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// The usual spelling of its key.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// What follows the colon, without the comment and the space around it. Its own path, if it has one, is part of it.
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The line it stands on; the first is 1.
    pub fn line(&self) -> u32 {
        self.line
    }
}
