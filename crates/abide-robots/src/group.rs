//! Which group applies to a crawler, RFC 9309 §2.2.1: a walk over the records in file order.

use alloc::vec::Vec;
use core::time::Duration;

use crate::line::RecordKind;
use crate::token::{ProductToken, is_token_octet};

/// A record as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) kind: RecordKind,
    pub(crate) value: &'a [u8],
    /// 1-based.
    pub(crate) line: u32,
}

/// How specifically a user-agent line addresses the crawler: the index into its chain of tokens, then `*`, then not
/// at all. Lower is better.
pub(crate) type Level = usize;

const NOT_ADDRESSED: Level = Level::MAX;

/// Gathers what concerns one crawler, while the records of a file pass by.
///
/// The groups of the best level seen so far are combined. When a better one comes, what was gathered for lesser ones
/// is dropped, so the work is linear and the memory that of one crawler's rules.
pub(crate) struct Gatherer<'a, 't> {
    tokens: &'t [ProductToken],
    best: Level,
    run: Run<'a>,
    /// The values of the user-agent lines of the combined groups.
    pub(crate) agents: Vec<&'a [u8]>,
    pub(crate) rules: Vec<Raw<'a>>,
    /// Preference records of the combined groups.
    pub(crate) records: Vec<Raw<'a>>,
    /// Records that belong to the whole file.
    pub(crate) globals: Vec<Raw<'a>>,
    pub(crate) crawl_delay: Option<Duration>,
}

/// A run of user-agent lines, and the group that it begins.
struct Run<'a> {
    level: Level,
    phase: Phase,
    agents: Vec<&'a [u8]>,
    /// Other records between the user-agent lines. They end no run (RFC 9309 §2.2.4) and belong to all its agents.
    pending: Vec<Raw<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No user-agent line yet: records belong to no group.
    Outside,
    /// User-agent lines follow each other; what they address is not settled yet.
    Agents,
    /// A rule has come: the next user-agent line begins another group.
    Rules { ours: bool },
}

impl<'a, 't> Gatherer<'a, 't> {
    pub(crate) fn new(tokens: &'t [ProductToken]) -> Self {
        let run =
            Run { level: NOT_ADDRESSED, phase: Phase::Outside, agents: Vec::new(), pending: Vec::new() };
        Self {
            tokens,
            best: NOT_ADDRESSED,
            run,
            agents: Vec::new(),
            rules: Vec::new(),
            records: Vec::new(),
            globals: Vec::new(),
            crawl_delay: None,
        }
    }

    /// Whether the records of the group at hand will be asked for; those of others need not be read.
    #[inline]
    pub(crate) fn wants(&self, kind: RecordKind) -> bool {
        match self.run.phase {
            Phase::Rules { ours } => ours || !(kind.is_rule() || is_of_group(kind)),
            Phase::Outside => !(kind.is_rule() || is_of_group(kind)),
            Phase::Agents => true,
        }
    }

    /// Takes the next record of the file.
    pub(crate) fn take(&mut self, record: Raw<'a>) {
        match record.kind {
            RecordKind::UserAgent => self.agent(record.value),
            RecordKind::Allow | RecordKind::Disallow => self.rule(record),
            kind if kind.is_global() => self.globals.push(record),
            kind if is_of_group(kind) => self.other(record),
            _ => {}
        }
    }

    /// The file has ended. RFC 9309 §2.1: "The last group may have no rules".
    pub(crate) fn finish(&mut self) {
        if self.run.phase == Phase::Agents {
            self.settle();
        }
    }

    fn agent(&mut self, value: &'a [u8]) {
        if self.run.phase != Phase::Agents {
            self.run.level = NOT_ADDRESSED;
            self.run.agents.clear();
            self.run.phase = Phase::Agents;
        }
        self.run.level = self.run.level.min(level(value, self.tokens));
        self.run.agents.push(value);
    }

    fn rule(&mut self, record: Raw<'a>) {
        if self.run.phase == Phase::Agents {
            self.settle();
        }
        if self.run.phase == (Phase::Rules { ours: true }) {
            self.rules.push(record);
        }
    }

    fn other(&mut self, record: Raw<'a>) {
        match self.run.phase {
            Phase::Agents => self.run.pending.push(record),
            Phase::Rules { ours: true } => self.keep(record),
            Phase::Rules { ours: false } | Phase::Outside => {}
        }
    }

    /// The run is complete: is the group ours, and better than what we have?
    fn settle(&mut self) {
        let ours = self.run.level != NOT_ADDRESSED && self.run.level <= self.best;
        if ours {
            self.begin_better_level();
            self.agents.append(&mut self.run.agents);
            for record in core::mem::take(&mut self.run.pending) {
                self.keep(record);
            }
        }
        self.run.pending.clear();
        self.run.phase = Phase::Rules { ours };
    }

    fn begin_better_level(&mut self) {
        if self.run.level < self.best {
            self.best = self.run.level;
            self.agents.clear();
            self.rules.clear();
            self.records.clear();
            self.crawl_delay = None;
        }
    }

    fn keep(&mut self, record: Raw<'a>) {
        if record.kind == RecordKind::CrawlDelay {
            self.crawl_delay = self.crawl_delay.max(seconds(record.value));
        } else {
            self.records.push(record);
        }
    }

    /// Which group applies: the token of the chain, or `*`, or none.
    pub(crate) fn chosen(&self) -> Chosen {
        match self.best {
            NOT_ADDRESSED => Chosen::None,
            level if level == self.tokens.len() => Chosen::Global,
            level => Chosen::Token(level),
        }
    }
}

/// The outcome of choosing the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// The group of the token at this place in the chain.
    Token(usize),
    /// The `*` group.
    Global,
    None,
}

/// Records besides rules that we hand over with the group they stand in.
fn is_of_group(kind: RecordKind) -> bool {
    matches!(
        kind,
        RecordKind::CrawlDelay
            | RecordKind::AppDirectives
            | RecordKind::ContentUsage
            | RecordKind::ContentSignal
    )
}

/// RFC 9309 §2.2.1: case-insensitive equality with the product token, never a prefix or a part of it.
fn level(value: &[u8], tokens: &[ProductToken]) -> Level {
    match agent(value) {
        Agent::Global => tokens.len(),
        Agent::Token(name) => tokens
            .iter()
            // Lenient: tokens with digits exist; the whole value then is the token.
            .position(|token| token.is_named_by(name) || token.is_named_by(value))
            .unwrap_or(NOT_ADDRESSED),
    }
}

/// Whom a user-agent line addresses.
pub(crate) enum Agent<'a> {
    /// `*`
    Global,
    /// A product token; empty if the value starts with none.
    Token(&'a [u8]),
}

/// `product-token = identifier / "*"`
///
/// Lenient: what follows the token is ignored, as in `ExampleBot/1.0`.
pub(crate) fn agent(value: &[u8]) -> Agent<'_> {
    match value {
        [b'*'] | [b'*', b' ' | b'\t', ..] => Agent::Global,
        _ => {
            let length = value.iter().position(|&octet| !is_token_octet(octet)).unwrap_or(value.len());
            Agent::Token(&value[..length])
        }
    }
}

/// Decimal seconds. `None` for what is no such number, negative or endless; more than a `Duration` holds is its maximum.
pub(crate) fn seconds(value: &[u8]) -> Option<Duration> {
    if !matches!(value.first(), Some(b'0'..=b'9' | b'.')) {
        return None;
    }
    let seconds: f64 = core::str::from_utf8(value).ok()?.parse().ok()?;
    seconds.is_finite().then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crawl_delay_is_a_finite_number_of_seconds() {
        for (value, expected) in [
            ("1", Some(Duration::from_secs(1))),
            ("1.5", Some(Duration::from_millis(1500))),
            (".5", Some(Duration::from_millis(500))),
            ("0", Some(Duration::ZERO)),
            ("1000000000", Some(Duration::from_secs(1_000_000_000))),
            ("1e300", Some(Duration::MAX)),
            ("1e309", None),
            ("", None),
            ("-1", None),
            ("-0", None),
            ("nan", None),
            ("inf", None),
            ("infinity", None),
            ("+1", None),
            ("1,5", None),
            ("10s", None),
            (".", None),
        ] {
            assert_eq!(seconds(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn a_token_ends_at_the_first_other_octet() {
        let token = |value| match agent(value) {
            Agent::Global => &b"*"[..],
            Agent::Token(name) => name,
        };
        assert_eq!(token(b"Foo/1.0"), b"Foo");
        assert_eq!(token(b"foobot*"), b"foobot");
        assert_eq!(token(b"foobot bar"), b"foobot");
        assert_eq!(token(b"MJ12bot"), b"MJ");
        assert_eq!(token(b"*"), b"*");
        assert_eq!(token(b"* x"), b"*");
        assert_eq!(token(b"*/1"), b"");
        assert_eq!(token(b"*bot"), b"");
    }
}
