//! Which group applies to a crawler, RFC 9309 §2.2.1: a walk over the records in file order.
//!
//! One walk gathers what concerns one crawler and drops what a better group replaces, so memory is that of
//! its own records, however long the file is.

use alloc::vec::Vec;
use core::time::Duration;

use crate::line::RecordKind;
use crate::profile::Profile;
use crate::slice;
use crate::space::Space;
use crate::token::{ProductToken, is_lenient_byte, is_token_byte};

/// A record as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) kind: RecordKind,
    /// Without the space around it. A rule may still have its comment: compiling looks at each byte and
    /// drops it.
    pub(crate) value: &'a [u8],
    /// 1-based.
    pub(crate) line: u32,
}

/// How specifically a user-agent line addresses the crawler: the index into its chain of tokens, then `*`,
/// then not at all. Lower is better.
type Level = usize;

const NOT_ADDRESSED: Level = Level::MAX;

/// Gathers what concerns one crawler, while the records of a file pass by.
///
/// The groups of the best level seen so far are combined. When a better one comes, what was gathered for
/// lesser ones is dropped, so the work is linear and the memory that of one crawler's rules.
pub(crate) struct Gatherer<'a, 't, R> {
    tokens: &'t [ProductToken],
    profile: Profile,
    phase: Phase,
    /// The level of the current run of user-agent lines, and where its records start among the others.
    level: Level,
    run_start: usize,
    best: Level,
    rules: &'t mut R,
    others: Vec<Raw<'a>>,
    /// Whether a line of the current run is `*`.
    names_all: bool,
    signals: Signals<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No user-agent line yet: records belong to no group.
    Outside,
    /// A rule of a group that is not ours has come: the next user-agent line begins another group.
    Foreign,
    /// A run of user-agent lines, which may go on. Other records do not end it (RFC 9309 §2.2.4) and belong
    /// to all its agents.
    Agents,
    /// A rule of ours has come: the next user-agent line begins another group.
    Ours,
}

/// What takes the rules of the best groups seen so far.
pub(crate) trait Sink<'a> {
    fn push(&mut self, rule: Raw<'a>);

    /// A better group has come: drops all rules taken so far.
    fn clear(&mut self);
}

/// What concerns one crawler, of a whole file.
pub(crate) struct Gathered<'a> {
    /// What is not a rule: the user-agent lines and records of the combined groups, and those of the whole
    /// file.
    pub(crate) others: Vec<Raw<'a>>,
    pub(crate) chosen: Chosen,
    pub(crate) signals: Signals<'a>,
}

/// The preference records that may count for a crawler, besides those of its group.
#[derive(Default)]
pub(crate) struct Signals<'a> {
    /// Before the first user-agent line: they are meant for every crawler.
    pub(crate) outside: Vec<Raw<'a>>,
    /// The Content-Signal records of every group that names `*`. Where that is our group, or ours names `*`
    /// too, they are among its records as well.
    pub(crate) of_all: Vec<Raw<'a>>,
}

impl<'a, 't, R: Sink<'a>> Gatherer<'a, 't, R> {
    pub(crate) fn new(tokens: &'t [ProductToken], profile: Profile, rules: &'t mut R) -> Self {
        Self {
            tokens,
            profile,
            phase: Phase::Outside,
            level: NOT_ADDRESSED,
            run_start: 0,
            best: NOT_ADDRESSED,
            rules,
            others: Vec::with_capacity(8),
            names_all: false,
            signals: Signals::default(),
        }
    }

    /// Whether a record of this kind changes nothing where it stands, so that its value need not be read.
    #[inline]
    pub(crate) fn skips(&self, kind: RecordKind) -> bool {
        let idle = matches!(self.phase, Phase::Outside | Phase::Foreign);
        let counts_anywhere = kind == RecordKind::UserAgent || kind.may_opt_out() || kind.is_global();
        idle && !counts_anywhere
    }

    /// Takes the next record of the file.
    #[inline]
    pub(crate) fn take(&mut self, record: Raw<'a>) {
        match record.kind {
            RecordKind::Allow | RecordKind::Disallow => self.rule(record),
            RecordKind::UserAgent => self.agent(record),
            RecordKind::ContentSignal => self.signal(record),
            kind if kind.is_global() => self.others.push(record),
            kind if self.phase == Phase::Outside && kind.may_opt_out() => {
                self.signals.outside.push(record);
            }
            kind if is_of_group(kind) && self.is_in_group() => self.others.push(record),
            _ => {}
        }
    }

    /// Whether the current group is ours, or may be.
    fn is_in_group(&self) -> bool {
        matches!(self.phase, Phase::Agents | Phase::Ours)
    }

    /// The file has ended. RFC 9309 §2.1: "The last group may have no rules".
    pub(crate) fn finish(mut self) -> Gathered<'a> {
        if self.phase == Phase::Agents {
            self.settle();
        }
        let chosen = match self.tokens.get(self.best) {
            Some(token) => Chosen::Token(token.clone()),
            None if self.best == NOT_ADDRESSED => Chosen::None,
            None => Chosen::Global,
        };
        Gathered { others: self.others, chosen, signals: self.signals }
    }

    fn agent(&mut self, record: Raw<'a>) {
        if self.phase != Phase::Agents {
            self.phase = Phase::Agents;
            self.level = NOT_ADDRESSED;
            self.names_all = false;
            self.run_start = self.others.len();
        }
        self.level = self.level.min(level(record.value, self.tokens, self.profile));
        self.names_all |= addresses(record.value, None, self.profile);
        self.others.push(record);
    }

    fn signal(&mut self, record: Raw<'a>) {
        match self.phase {
            Phase::Outside => return self.signals.outside.push(record),
            // Which crawlers it is for is known when the run is complete.
            Phase::Agents => return self.others.push(record),
            Phase::Ours => self.others.push(record),
            Phase::Foreign => {}
        }
        if self.names_all {
            self.signals.of_all.push(record);
        }
    }

    /// Takes the next record of the file, which is a rule.
    #[inline]
    pub(crate) fn rule(&mut self, record: Raw<'a>) {
        if self.phase == Phase::Agents {
            self.settle();
        }
        if self.phase == Phase::Ours {
            self.rules.push(record);
        }
    }

    /// The run is complete: is the group ours, and better than what we have?
    fn settle(&mut self) {
        if self.names_all {
            let run = self.others.get(self.run_start..).unwrap_or_default();
            let signals = run.iter().filter(|record| record.kind == RecordKind::ContentSignal);
            self.signals.of_all.extend(signals);
        }
        // RFC 9309 §2.2.1: groups that match alike MUST be combined, so only a lesser one is passed over.
        if self.level == NOT_ADDRESSED || self.level > self.best {
            self.drop_run();
            self.phase = Phase::Foreign;
            return;
        }
        if self.level < self.best {
            self.drop_lesser_groups();
            self.best = self.level;
        }
        self.phase = Phase::Ours;
    }

    fn drop_run(&mut self) {
        let mut end = self.run_start;
        // Sitemaps and licences inside the run belong to the file, and stay in their order.
        for index in self.run_start..self.others.len() {
            if self.others.get(index).is_some_and(|record| record.kind.is_global()) {
                self.others.swap(end, index);
                end = end.saturating_add(1);
            }
        }
        self.others.truncate(end);
    }

    fn drop_lesser_groups(&mut self) {
        self.rules.clear();
        // What stands before this run was gathered for lesser groups.
        let mut lesser = self.run_start;
        self.others.retain(|record| {
            let keep = lesser == 0 || record.kind.is_global();
            lesser = lesser.saturating_sub(1);
            keep
        });
    }
}

impl Gathered<'_> {
    /// The largest Crawl-delay of the combined groups.
    pub(crate) fn crawl_delay(&self) -> Option<Duration> {
        let delays = self.others.iter().filter(|record| record.kind == RecordKind::CrawlDelay);
        // No standard says which of several counts; the largest is the polite one.
        delays.filter_map(|record| seconds(record.value)).max()
    }
}

/// The outcome of choosing the group.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Chosen {
    /// The group of this token.
    Token(ProductToken),
    /// The `*` group.
    Global,
    None,
}

/// Records other than rules that are kept with their group.
fn is_of_group(kind: RecordKind) -> bool {
    kind == RecordKind::CrawlDelay || kind.is_preference()
}

/// RFC 9309 §2.2.1: case-insensitive equality with the product token, never a prefix or a part of it.
fn level(value: &[u8], tokens: &[ProductToken], profile: Profile) -> Level {
    let name = agent(value, profile);
    if name == b"*" {
        return tokens.len();
    }
    // Lenient: tokens with digits exist; the whole value then is the token. Not so in Google's parser.
    let is_named = |token: &ProductToken| {
        token.is_named_by(name) || (profile == Profile::Rfc9309 && token.is_named_by(value))
    };
    tokens.iter().position(is_named).unwrap_or(NOT_ADDRESSED)
}

/// Whether a user-agent line addresses the crawler that goes by the token; without one, whether it addresses
/// all.
pub(crate) fn addresses(value: &[u8], token: Option<&ProductToken>, profile: Profile) -> bool {
    level(value, token.map(core::slice::from_ref).unwrap_or_default(), profile) == 0
}

/// The name that a user-agent line gives: `*`, or its product token. Where digits end that and the whole
/// value is a token of [`ProductToken::lenient`], it is the value, as [`level`] takes it. Empty if it names
/// no crawler.
pub(crate) fn name(value: &[u8], profile: Profile) -> &[u8] {
    if profile == Profile::Rfc9309 && is_lenient(value) { value } else { agent(value, profile) }
}

/// Whether the value is a token of [`ProductToken::lenient`].
pub(crate) fn is_lenient(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|&byte| is_lenient_byte(byte))
}

/// `product-token = identifier / "*"`; empty if the value starts with none.
///
/// Lenient: what follows the token is ignored, as in `ExampleBot/1.0`.
pub(crate) fn agent(value: &[u8], profile: Profile) -> &[u8] {
    match value {
        [b'*'] => b"*",
        // Lenient: `* all` names all crawlers. `*bot` is neither `*` nor a token, and names none.
        [b'*', rest @ ..] if Space::of(profile).at_start(rest) > 0 => b"*",
        _ => {
            let length = value.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(value.len());
            slice::before(value, length)
        }
    }
}

/// Decimal seconds, to the nanosecond. `None` for what is no such number; more than a `Duration` holds is its
/// maximum.
pub(crate) fn seconds(value: &[u8]) -> Option<Duration> {
    let point = value.iter().position(|&byte| byte == b'.').unwrap_or(value.len());
    let (whole, fraction) = (slice::before(value, point), slice::behind(value, point));
    let is_number = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    if !is_number(whole) || !is_number(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let digit = |byte: &u8| byte.saturating_sub(b'0');
    let seconds = whole
        .iter()
        .try_fold(0u64, |number, byte| number.checked_mul(10)?.checked_add(u64::from(digit(byte))));
    // Nine digits: what lies behind them is less than a nanosecond.
    let nanos = fraction.iter().chain(&[b'0'; 9]).take(9);
    let nanos =
        nanos.fold(0u32, |number, byte| number.saturating_mul(10).saturating_add(u32::from(digit(byte))));
    Some(seconds.map_or(Duration::MAX, |seconds| Duration::new(seconds, nanos)))
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn each_row_of_delays() {
        let rows = include_str!("../tests/vectors/delays.tsv").lines().filter(|row| !row.starts_with('#'));
        for (value, expected) in rows.filter_map(|row| row.split_once('\t')) {
            let found = seconds(value.as_bytes());
            let shown = found.map(|delay| format!("{}.{:09}", delay.as_secs(), delay.subsec_nanos()));
            assert_eq!(shown.unwrap_or("-".into()), expected, "{value}");
        }
    }

    #[test]
    fn a_token_ends_at_the_first_other_byte() {
        let token = |value| agent(value, Profile::Rfc9309);
        assert_eq!(token(b"Foo/1.0"), b"Foo");
        assert_eq!(token(b"foobot*"), b"foobot");
        assert_eq!(token(b"foobot bar"), b"foobot");
        assert_eq!(token(b"MJ12bot"), b"MJ");
        assert_eq!(token(b"*"), b"*");
        assert_eq!(token(b"* x"), b"*");
        assert_eq!(token(b"*/1"), b"");
        assert_eq!(token(b"*bot"), b"");
        assert_eq!(token(b"*\x0cx"), b"");
        assert_eq!(agent(b"*\x0cx", Profile::Google), b"*");
    }

    #[test]
    fn a_value_with_digits_is_shown_whole() {
        for (value, ours, google) in [
            (&b"MJ12bot"[..], &b"MJ12bot"[..], &b"MJ"[..]),
            (b"360Spider", b"360Spider", b""),
            (b"Foo/1.0", b"Foo", b"Foo"),
            (b"Foo.x 2", b"Foo", b"Foo"),
            (b"* all", b"*", b"*"),
            (b"", b"", b""),
        ] {
            assert_eq!(name(value, Profile::Rfc9309), ours);
            assert_eq!(name(value, Profile::Google), google);
        }
    }
}
