//! One question to a file that is used once: the rules are matched as they are read, and nothing is compiled.
//!
//! Command lines and tests ask about one URL, for which compiling costs up to four times as much.

use alloc::vec::Vec;

use crate::compile;
use crate::decode::Text;
use crate::group::{Chosen, Raw, Sink};
use crate::index;
use crate::line::RecordKind;
use crate::normal::{self, QUERY, REWRITE, STAR, Side};
use crate::pattern::{self, can_match};
use crate::profile::{ParseOptions, Profile};
use crate::rules::{Rules, Target};
use crate::slice;
use crate::token::ProductToken;

/// Whether a robots.txt allows the crawler named `tokens` to fetch one target: the same as [`Rules::parse`] and [`Rules::is_allowed`], at a
/// third of their cost.
///
/// For one or two targets. For more, [`Rules`] are cheaper, and they say why.
///
/// ```
/// use abide_robots::{ProductToken, Target, is_allowed};
///
/// let tokens = [ProductToken::new("ExampleBot")?];
/// let body = b"User-agent: *\nDisallow: /private/\nAllow: /private/press/";
/// assert!(is_allowed(body, &tokens, &Target::new("/private/press/2026")));
/// assert!(!is_allowed(body, &tokens, &Target::new("/private/diary")));
/// # Ok::<(), abide_robots::InvalidText>(())
/// ```
pub fn is_allowed(body: &[u8], tokens: &[ProductToken], target: &Target<'_>) -> bool {
    // Before the file is read: no rule can disallow it (RFC 9309 §2.2.2).
    if target.is_robots_txt() {
        return true;
    }
    let text = Text::of(body, ParseOptions::new());
    let mut question = Question { target, best: None, signature: None, work: 0, scratch: Vec::new() };
    let gathered = compile::gather(&text.bytes, tokens, Profile::Rfc9309, &mut question);
    let Question { best, work, .. } = question;
    if work > WORK_MAX {
        return Rules::parse(body, tokens).is_allowed(target);
    }
    gathered.chosen == Chosen::None || best.is_none_or(|(_, allow)| allow)
}

/// Bytes of the target that wildcards may look at. A file made of wildcards and a long target are cheaper to compile:
/// then no wildcard is tried that cannot win.
const WORK_MAX: usize = 4 << 20;

/// The most specific of the rules so far that cover the target.
struct Question<'t> {
    target: &'t Target<'t>,
    /// Its bytes, and whether it allows. RFC 9309 §2.2.2: "The match with the most octets"; of equivalent ones "the allow rule SHOULD be
    /// used". The order of the two is that precedence.
    best: Option<(usize, bool)>,
    /// That of the target, once a wildcard asks for it.
    signature: Option<u64>,
    work: usize,
    /// The normal form of the current pattern.
    scratch: Vec<u8>,
}

impl<'a> Sink<'a> for Question<'_> {
    #[inline]
    fn push(&mut self, rule: Raw<'a>) {
        let target = self.target.bytes();
        let shared = rule.value.iter().zip(target).take_while(|(a, b)| a == b && normal::is_plain(a)).count();
        let allow = rule.kind == RecordKind::Allow;
        match rule.value.get(shared) {
            None if shared > 0 => self.best = self.best.max(Some((shared, allow))),
            // Here the rule and the target differ, and a plain byte is the same in the normal form.
            Some(byte) if normal::is_plain(byte) => {}
            Some(b'*') if self.is_ruled_out(slice::from(rule.value, shared)) => {}
            _ => self.push_special(rule, allow),
        }
    }

    fn clear(&mut self) {
        self.best = None;
    }
}

impl Question<'_> {
    /// Whether a pattern holds two plain bytes side by side that the target does not. Most wildcards end here.
    fn is_ruled_out(&mut self, pattern: &[u8]) -> bool {
        let signature = *self.signature.get_or_insert_with(|| index::signature(self.target.bytes()));
        // From an escape or a comment on, bytes may mean something else.
        let certain = pattern.iter().take_while(|byte| !normal::is_rewritten(byte)).count();
        let mut before = b'*';
        for &byte in slice::before(pattern, certain) {
            if normal::is_plain(&before)
                && normal::is_plain(&byte)
                && signature & index::bit([before, byte]) == 0
            {
                return true;
            }
            before = byte;
        }
        false
    }

    /// A pattern with a wildcard, a query, escapes or a comment behind it.
    fn push_special(&mut self, rule: Raw<'_>, allow: bool) {
        let (mut pattern, classes) = compile::pattern_of(rule.kind, rule.value, Profile::Rfc9309);
        if !can_match(pattern) {
            return;
        }
        if classes & REWRITE != 0 {
            self.scratch.clear();
            normal::push_normal(pattern, Side::Pattern, &mut self.scratch);
            pattern = &self.scratch;
        }
        let bytes = if classes & QUERY != 0 { normal::bytes(pattern) } else { pattern.len() };
        let this = Some((bytes, allow));
        if this <= self.best {
            return;
        }
        let (target, query) = (self.target.bytes(), self.target.query());
        let is_wild = classes & STAR != 0;
        if is_wild {
            self.work = self.work.saturating_add(target.len());
        }
        let query_form = if is_wild && classes & REWRITE != 0 { normal::query_form(pattern) } else { None };
        // Beyond the bound the answer comes from compiled rules.
        if self.work <= WORK_MAX
            && pattern::matches(pattern, query_form.as_deref().unwrap_or(pattern), target, query)
        {
            self.best = this;
        }
    }
}
