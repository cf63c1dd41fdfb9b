//! The rules for one crawler, compiled.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::block::{Block, FLAG_GOOGLE, FLAG_GROUP, FLAG_NAMED, NONE, Parts};
use crate::compile::{self, ITEM_AGENT, ITEM_MATCHED};
use crate::decode::Text;
use crate::line::RecordKind;
use crate::normal::{self, Side};
use crate::pattern;
use crate::profile::ReadOptions;
use crate::target::Target;
use crate::token::ProductToken;
use crate::verdict::{Decision, Verdict};

/// What a robots.txt says to one crawler: its rules, Crawl-delay, sitemaps and preferences.
///
/// All of it lies in one block of memory; a clone shares it. Equal rule sets are equal values (`Eq`, `Hash`), so a
/// cache of many hosts can keep one of each.
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

    pub(crate) fn of_block(block: Block) -> Self {
        Self { block }
    }

    /// Whether the target may be fetched. Allocates nothing.
    #[inline]
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {
        match self.decide(target) {
            Decision::Literal(index) => self.block.parts().literal(index as usize).allow,
            Decision::Wildcard(index) => self.block.parts().wildcard(index as usize).allow,
            Decision::NoMatch | Decision::NoGroup | Decision::RobotsTxt => true,
        }
    }

    /// Whether the target may be fetched, and why.
    pub fn verdict(&self, target: &Target<'_>) -> Verdict {
        Verdict::new(self.clone(), self.decide(target))
    }

    /// RFC 9309 §2.2.2.
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
        most_specific(self.block.parts(), target.octets(), target.query())
    }

    fn decide_as_google(&self, target: &Target<'_>, flags: u32) -> Decision {
        if flags & FLAG_GROUP == 0 {
            return Decision::NoGroup;
        }
        let given = target.given();
        let octets = if given.iter().any(|octet| matches!(octet, b'*' | b'$')) {
            let mut out = Vec::with_capacity(given.len());
            normal::push_google(given, Side::Target, &mut out);
            Cow::Owned(out)
        } else {
            Cow::Borrowed(given)
        };
        most_specific(self.block.parts(), &octets, octets.len())
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
            .field("rules", &(parts.literals.len() + parts.wildcards.len()))
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

/// RFC 9309 §2.2.2: "The most specific match found MUST be used", and of equals the Allow.
fn most_specific(parts: Parts<'_>, target: &[u8], query: usize) -> Decision {
    let literal = longest_literal(&parts, target);
    let (mut decision, octets, allow) = match literal {
        Some(index) => {
            let entry = parts.literal(index);
            (Decision::Literal(index as u32), entry.octets, entry.allow)
        }
        None => (Decision::NoMatch, 0, false),
    };
    for index in 0..parts.wildcards.len() {
        let entry = parts.wildcard(index);
        if entry.octets < octets || (entry.octets == octets && (allow || !entry.allow)) {
            break;
        }
        if pattern::matches(entry.pattern(parts.text), entry.query_form(parts.text), target, query) {
            decision = Decision::Wildcard(index as u32);
            break;
        }
    }
    decision
}

/// The longest literal pattern that covers the target.
///
/// Of all patterns, sorted, the last one that is not behind the target starts with every pattern that covers it: what
/// sorts between a prefix of the target and the target itself starts with that prefix too. So the answer is that
/// pattern or one of the prefixes it is linked to.
fn longest_literal(parts: &Parts<'_>, target: &[u8]) -> Option<usize> {
    let behind = parts.literals.partition_point(|octets| {
        let entry = crate::block::Entry::read(octets);
        !is_behind(entry.pattern(parts.text), target)
    });
    let mut index = behind.checked_sub(1)?;
    let common = common_length(parts.literal(index).pattern(parts.text), target);
    loop {
        let entry = parts.literal(index);
        if usize::from(entry.length) <= common {
            return Some(index);
        }
        if entry.link == NONE {
            return None;
        }
        index = entry.link as usize;
    }
}

/// How many octets of the pattern stand in the target, which ends in a `$` of its own: so a pattern with a final `$`
/// is a literal like any other. No octet of a normal form is `$` otherwise.
fn common_length(pattern: &[u8], target: &[u8]) -> usize {
    let common = pattern.iter().zip(target).take_while(|(a, b)| a == b).count();
    common + usize::from(common == target.len() && pattern.get(common) == Some(&b'$'))
}

/// Whether the pattern sorts behind the target, which ends in a `$` of its own.
fn is_behind(pattern: &[u8], target: &[u8]) -> bool {
    let common = pattern.iter().zip(target).take_while(|(a, b)| a == b).count();
    match pattern.get(common) {
        None => false,
        Some(octet) => octet > target.get(common).unwrap_or(&b'$'),
    }
}
