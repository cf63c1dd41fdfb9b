//! The one reader: a file as lines, a line as a record. RFC 9309 §2.2.
//!
//! The document, the compiled rules and the single question all read lines here, so they cannot disagree
//! about what a line states.

use memchr::{memchr, memchr2};

use crate::profile::{GOOGLE_LINE_MAX, LINE_MAX, Profile};
use crate::slice;
use crate::space::{Space, trim, trim_start};

/// What a line states, by its key.
///
/// ```
/// use abide_robots::{RecordKind, Robots};
///
/// let robots = Robots::parse(b"User-agent: *\nDisallow: /a");
/// let rules = robots.records().filter(|record| matches!(record.kind(), RecordKind::Allow | RecordKind::Disallow));
/// assert_eq!(rules.count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecordKind {
    /// `User-agent`, RFC 9309 §2.2.1.
    UserAgent,
    /// `Allow`, RFC 9309 §2.2.2.
    Allow,
    /// `Disallow`, RFC 9309 §2.2.2.
    Disallow,
    /// `Sitemap` (sitemaps.org); it belongs to the whole file.
    Sitemap,
    /// `Crawl-delay`, in decimal seconds.
    CrawlDelay,
    /// `App-Directives` (draft-nottingham-plan-b).
    AppDirectives,
    /// `Content-Usage` (draft-ietf-aipref-attach).
    ContentUsage,
    /// `Content-Signal` (contentsignals.org).
    ContentSignal,
    /// `DisallowAITraining` (draft-canel-robots-ai-control), or `noml` by an older name.
    DisallowAiTraining,
    /// `TDM-Reservation`, which TDMRep has in response fields and files have here.
    TdmReservation,
    /// `License` (RSL 1.0); it belongs to the whole file.
    License,
    /// `Request-rate`, kept as text.
    RequestRate,
    /// `Visit-time`, kept as text.
    VisitTime,
    /// `Host`, kept as text.
    Host,
    /// `Clean-param`, kept as text.
    CleanParam,
    /// Any other record (RFC 9309 §2.2.4).
    Other,
}

impl RecordKind {
    /// The key in its usual spelling; empty for [`Other`](Self::Other).
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether it states something about the use of content, for the crawlers of its group.
    pub(crate) fn is_preference(self) -> bool {
        use RecordKind::{AppDirectives, ContentSignal, ContentUsage, DisallowAiTraining, TdmReservation};
        matches!(self, AppDirectives | ContentSignal | ContentUsage | DisallowAiTraining | TdmReservation)
    }

    /// Whether it may be an opt-out from a use. Such a record is kept also before any group, and of one that
    /// is too long the beginning.
    pub(crate) fn may_opt_out(self) -> bool {
        self.is_preference() && self != Self::AppDirectives
    }

    pub(crate) fn is_rule(self) -> bool {
        matches!(self, Self::Allow | Self::Disallow)
    }

    /// Whether the record belongs to the file rather than to a group.
    pub(crate) fn is_global(self) -> bool {
        matches!(self, Self::Sitemap | Self::License)
    }

    /// Whether the record may stand before any group: some crawlers read `Host` and `Clean-param` for the
    /// whole file, and what an unknown record belongs to is not known.
    pub(crate) fn stands_anywhere(self) -> bool {
        self.is_global() || matches!(self, Self::Host | Self::CleanParam | Self::Other)
    }
}

/// Keys as they are usually spelt. The first of a kind is its name.
const NAMES: &[(&str, RecordKind)] = &[
    ("User-agent", RecordKind::UserAgent),
    ("Allow", RecordKind::Allow),
    ("Disallow", RecordKind::Disallow),
    ("Sitemap", RecordKind::Sitemap),
    ("Crawl-delay", RecordKind::CrawlDelay),
    ("App-Directives", RecordKind::AppDirectives),
    // The draft's grammar has the singular, its prose the plural.
    ("App-Directive", RecordKind::AppDirectives),
    ("Content-Usage", RecordKind::ContentUsage),
    ("Content-Signal", RecordKind::ContentSignal),
    ("DisallowAITraining", RecordKind::DisallowAiTraining),
    ("noml", RecordKind::DisallowAiTraining),
    ("TDM-Reservation", RecordKind::TdmReservation),
    ("License", RecordKind::License),
    ("Request-rate", RecordKind::RequestRate),
    ("Visit-time", RecordKind::VisitTime),
    ("Host", RecordKind::Host),
    ("Clean-param", RecordKind::CleanParam),
];

/// Lenient (RFC 9309 §2.2.4 allows it for other records, the field does it for all): misspellings that files
/// are full of. None of them is of `Allow`: a misspelt rule may add a restriction and never lift one. A
/// misspelt user-agent line is read for what it is, and so begins a group, which may take a crawler out of
/// the one before it or out of the `*` group; so does a misspelt Disallow that ends a run of user-agent
/// lines.
const MISSPELLINGS: &[(&str, RecordKind)] = &[
    ("useragent", RecordKind::UserAgent),
    ("user agent", RecordKind::UserAgent),
    ("dissallow", RecordKind::Disallow),
    ("dissalow", RecordKind::Disallow),
    ("disalow", RecordKind::Disallow),
    ("diasllow", RecordKind::Disallow),
    ("disallaw", RecordKind::Disallow),
    ("site-map", RecordKind::Sitemap),
    ("crawldelay", RecordKind::CrawlDelay),
    ("crawl delay", RecordKind::CrawlDelay),
];

/// Stricter: what a site asks of those who use its content is read however the words of its key are joined,
/// as in `Content_Usage`. Without `-`, `_` and spaces, in lower case.
const PREFERENCES: &[(&str, RecordKind)] = &[
    ("contentusage", RecordKind::ContentUsage),
    ("contentsignal", RecordKind::ContentSignal),
    ("contentsignals", RecordKind::ContentSignal),
    ("disallowaitraining", RecordKind::DisallowAiTraining),
    ("tdmreservation", RecordKind::TdmReservation),
];

/// How a key was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    Exact,
    Misspelt,
    MissingColon,
}

/// A line that states something: its kind, and where in the line its value starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordKey {
    pub(crate) kind: RecordKind,
    pub(crate) spelling: Spelling,
    pub(crate) value_at: usize,
}

/// The lines of a file, without their ends: CR, LF or CRLF, and nothing else (RFC 9309 §2.2, `NL`).
pub(crate) struct Lines<'a> {
    rest: &'a [u8],
    /// Bytes of the whole file.
    length: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        Self { rest: text, length: text.len() }
    }
}

impl<'a> Iterator for Lines<'a> {
    /// Where the line starts, and the line.
    type Item = (usize, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        if self.rest.is_empty() {
            return None;
        }
        let start = self.length.wrapping_sub(self.rest.len());
        let (line, end) = self.rest.split_at(line_length(self.rest));
        self.rest = match end {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => &[],
        };
        Some((start, line))
    }
}

/// The bytes before the first CR or LF.
///
/// Lines are short, so sixteen bytes in two plain registers at a time beat wider ones: of those below 14,
/// which the subtraction finds, a file holds hardly any but line ends and tabs.
#[inline]
fn line_length(text: &[u8]) -> usize {
    let (chunks, tail) = text.as_chunks::<16>();
    for (index, chunk) in chunks.iter().enumerate() {
        let low = low_bytes(u128::from_le_bytes(*chunk));
        if let Some(at) = first_line_end(low, chunk) {
            return index.wrapping_mul(16).wrapping_add(at);
        }
    }
    let behind = tail.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(tail.len());
    chunks.len().wrapping_mul(16).wrapping_add(behind)
}

/// Sets the highest bit of each byte that is below 14, and perhaps of others behind one.
#[inline]
fn low_bytes(word: u128) -> u128 {
    const EACH: u128 = u128::MAX / 255;
    word.wrapping_sub(14 * EACH) & !word & (128 * EACH)
}

#[inline]
fn first_line_end(mut low: u128, chunk: &[u8; 16]) -> Option<usize> {
    while low != 0 {
        let at = (low.trailing_zeros() / 8) as usize;
        if matches!(chunk.get(at), Some(b'\r' | b'\n')) {
            return Some(at);
        }
        low &= low.wrapping_sub(1);
    }
    None
}

/// Reads the key of a line. `None` for a line that states nothing: empty, a comment, or text.
#[inline]
pub(crate) fn key(line: &[u8], profile: Profile) -> Option<RecordKey> {
    match common_key(line) {
        Some(key) => Some(key),
        None if matches!(line.first(), None | Some(b'#')) => None,
        None => any_key(line, profile),
    }
}

/// The keys that nearly all lines have, spelt as usual with the colon right behind.
#[inline]
fn common_key(line: &[u8]) -> Option<RecordKey> {
    let bytes @ [_, _, _, _, fifth, sixth, _, eighth] = line.first_chunk::<8>()?;
    let head = u64::from_le_bytes(*bytes);
    // Sets bit 5 of each byte: letters become lower-case. "-" and ":" have it set already.
    let lower = head | 0x2020_2020_2020_2020;
    // It also makes `-` of a carriage return and `:` of 0x1A, so these two are compared as they stand.
    let (kind, value_at) = if lower == DISALLOW && line.get(8) == Some(&b':') {
        (RecordKind::Disallow, 9)
    } else if lower & 0xffff_ffff_ffff == ALLOW && *sixth == b':' {
        (RecordKind::Allow, 6)
    } else if lower == USER_AGE && *fifth == b'-' && is_agent_tail(line) {
        (RecordKind::UserAgent, 11)
    } else if lower == SITEMAP && *eighth == b':' {
        (RecordKind::Sitemap, 8)
    } else {
        return None;
    };
    Some(RecordKey { kind, spelling: Spelling::Exact, value_at })
}

const DISALLOW: u64 = u64::from_le_bytes(*b"disallow");
const USER_AGE: u64 = u64::from_le_bytes(*b"user-age");
const SITEMAP: u64 = u64::from_le_bytes(*b"sitemap:");
const ALLOW: u64 = u64::from_le_bytes(*b"allow:\0\0");

fn is_agent_tail(line: &[u8]) -> bool {
    matches!(line.get(8..11), Some([b'n' | b'N', b't' | b'T', b':']))
}

/// Any key: `*WS key *WS ":"`, its misspellings, and a missing colon.
#[inline(never)]
fn any_key(line: &[u8], profile: Profile) -> Option<RecordKey> {
    let line = content(line, profile);
    if let Some(colon) = memchr(b':', line) {
        let name = name(slice::before(line, colon), profile);
        let (kind, spelling) = kind_of(name, profile);
        // `Disallow /a:b` has a colon, but not behind its key.
        if kind == RecordKind::Other
            && profile == Profile::Rfc9309
            && let Some(key) = without_colon(line, profile)
        {
            return Some(key);
        }
        return (!name.is_empty()).then_some(RecordKey { kind, spelling, value_at: colon.saturating_add(1) });
    }
    without_colon(line, profile)
}

/// A key without the space around it.
///
/// Stricter: also without characters that nobody sees, unless it is `Allow`: that may add a restriction and
/// never lift one.
pub(crate) fn name(key: &[u8], profile: Profile) -> &[u8] {
    let name = trim(key, Space::around_key(profile));
    let is_allow = name.eq_ignore_ascii_case(b"allow");
    if is_allow { trim(key, Space::of(profile)) } else { name }
}

pub(crate) fn kind_of(name: &[u8], profile: Profile) -> (RecordKind, Spelling) {
    let is = |known: &&(&str, RecordKind)| match profile {
        Profile::Rfc9309 => name.eq_ignore_ascii_case(known.0.as_bytes()),
        // Google's parser compares only as many bytes as the key it knows has.
        Profile::Google => {
            name.get(..known.0.len()).is_some_and(|n| n.eq_ignore_ascii_case(known.0.as_bytes()))
        }
    };
    if let Some((_, kind)) = NAMES.iter().find(is) {
        return (*kind, Spelling::Exact);
    }
    let misspelt = MISSPELLINGS.iter().find(is).or_else(|| match profile {
        Profile::Rfc9309 => PREFERENCES.iter().find(|(joined, _)| is_joined(name, joined)),
        Profile::Google => None,
    });
    misspelt.map_or((RecordKind::Other, Spelling::Exact), |(_, kind)| (*kind, Spelling::Misspelt))
}

/// Whether these are the words of the name, without what stands between them.
fn is_joined(name: &[u8], joined: &str) -> bool {
    let letters = name.iter().filter(|byte| !matches!(byte, b'-' | b'_' | b' ' | b'\t'));
    letters.map(u8::to_ascii_lowercase).eq(joined.bytes())
}

/// Lenient: exactly two words, the first of them a key, stand for a record whose colon was forgotten.
///
/// Not for `Allow`: a line that breaks the grammar may add a restriction and never lift one. Google's parser
/// takes any key.
fn without_colon(line: &[u8], profile: Profile) -> Option<RecordKey> {
    let space = Space::around_key(profile);
    let words = trim_start(line, space);
    // Google's parser looks for SP and TAB here.
    let between = if profile == Profile::Google { Space::Rfc9309 } else { space };
    let end = (0..words.len()).find(|&at| between.at_start(slice::from(words, at)) > 0)?;
    let (key, value) = words.split_at_checked(end)?;
    let value = trim(value, space);
    if value.is_empty() || value.iter().any(|&byte| is_space(byte)) {
        return None;
    }
    let (kind, _) = kind_of(name(key, profile), profile);
    let understood = match profile {
        Profile::Rfc9309 => !matches!(kind, RecordKind::Allow | RecordKind::Other),
        Profile::Google => true,
    };
    let value_at = line.len().saturating_sub(words.len()).saturating_add(key.len());
    understood.then_some(RecordKey { kind, spelling: Spelling::MissingColon, value_at })
}

/// The value that starts at `at`, without its comment and the space around it.
pub(crate) fn value(kind: RecordKind, line: &[u8], at: usize, profile: Profile) -> &[u8] {
    trim(slice::from(content(line, profile), at), Space::around_value(kind, profile))
}

/// The line without its comment. To Google's parser it is what fits into a buffer, and a string of C, which
/// ends before a NUL.
pub(crate) fn content(line: &[u8], profile: Profile) -> &[u8] {
    match profile {
        Profile::Rfc9309 => without_comment(line),
        Profile::Google => {
            let line = slice::before(line, GOOGLE_LINE_MAX);
            slice::before(line, memchr2(b'#', 0, line).unwrap_or(line.len()))
        }
    }
}

/// `comment = "#" *(UTF8-char-noctl / WS / "#")`; it starts anywhere.
pub(crate) fn without_comment(text: &[u8]) -> &[u8] {
    match memchr(b'#', text) {
        Some(comment) => slice::before(text, comment),
        None => text,
    }
}

/// `WS = %x20 / %x09`
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// What of a record's value is used, perhaps with the comment behind it; `None`: the record is dropped, as
/// its value is longer than the limit.
///
/// Stricter: the beginning of a Disallow covers all that the whole pattern covers, so it is kept. So is the
/// beginning of a user-agent line, which names the same crawler. The beginning of an Allow, or of any other
/// record, might say what its author did not; that of a preference is handed over with one byte more than the
/// limit, for its reader to take what it forbids.
#[inline]
pub(crate) fn fitting(kind: RecordKind, line: &[u8], value_at: usize, profile: Profile) -> Option<&[u8]> {
    if line.len() <= profile.plain_line_max() {
        return Some(trim(slice::from(line, value_at), Space::around_value(kind, profile)));
    }
    fitting_of_other(kind, line, value_at, profile)
}

#[cold]
fn fitting_of_other(kind: RecordKind, line: &[u8], value_at: usize, profile: Profile) -> Option<&[u8]> {
    let whole = value(kind, line, value_at, profile);
    match (profile, kind) {
        (Profile::Google, _) => Some(whole),
        (Profile::Rfc9309, _) if whole.len() <= LINE_MAX => Some(whole),
        (Profile::Rfc9309, RecordKind::Disallow) => Some(without_half(slice::before(whole, LINE_MAX))),
        (Profile::Rfc9309, RecordKind::UserAgent) => Some(slice::before(whole, LINE_MAX)),
        // One byte more than fits, so that its reader sees that it was cut.
        (Profile::Rfc9309, kind) if kind.may_opt_out() => {
            Some(slice::before(whole, LINE_MAX.saturating_add(1)))
        }
        (Profile::Rfc9309, _) => None,
    }
}

/// Drops an escape that the cut has broken (`%` or `%4`), which would match other bytes, and a `$`, which
/// would match less. What is then at the end is checked in the same way.
fn without_half(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., b'%' | b'$'] | [rest @ .., b'%', _] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    fn read(line: &str, profile: Profile) -> Option<(RecordKind, Spelling, &str)> {
        let key = key(line.as_bytes(), profile)?;
        let value = core::str::from_utf8(value(key.kind, line.as_bytes(), key.value_at, profile)).unwrap();
        Some((key.kind, key.spelling, value))
    }

    #[test]
    fn line_ends_are_cr_lf_and_crlf() {
        let lines: Vec<&[u8]> = Lines::of(b"a\nb\rc\r\nd\r\r\ne\x0bf\x0cg").map(|(_, line)| line).collect();
        assert_eq!(lines, [&b"a"[..], b"b", b"c", b"d", b"", b"e\x0bf\x0cg"]);
        assert_eq!(Lines::of(b"").count(), 0);
        assert_eq!(Lines::of(b"\r\n").count(), 1);
    }

    #[test]
    fn each_row_of_lines() {
        let named =
            [("<EMPTY>", ""), ("\\t", "\t"), ("\\r", "\r"), ("\\v", "\x0b"), ("\\f", "\x0c"), ("\\0", "\0")];
        let bytes =
            |text: &str| named.iter().fold(text.to_owned(), |text, (name, byte)| text.replace(name, byte));
        let rows = include_str!("../tests/vectors/lines.tsv").lines().filter(|row| !row.starts_with('#'));
        for (line, expected) in rows.filter_map(|row| row.split_once('\t')) {
            let google = line.strip_prefix("google:");
            let profile = google.map_or(Profile::Rfc9309, |_| Profile::Google);
            let line = bytes(google.unwrap_or(line));
            let shown = read(&line, profile)
                .map(|(kind, spelling, value)| format!("{kind:?}\t{spelling:?}\t{value}"));
            assert_eq!(shown.unwrap_or("-".into()), bytes(expected), "{line:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn a_long_value_is_cut_where_nothing_changes_its_meaning() {
        let read = |kind, value: &[u8]| {
            let line = [b"x:", value].concat();
            fitting(kind, &line, 2, Profile::Rfc9309).map(<[u8]>::to_vec)
        };
        let long = |end: &str| format!("/{}{end}", "a".repeat(16 * 1024 - 1 - end.len())).into_bytes();
        let beyond = |end: &str| [&long(end)[..], b"bbbb"].concat();
        assert_eq!(read(RecordKind::Disallow, &long("")), Some(long("")));
        assert_eq!(read(RecordKind::Disallow, &beyond("")), Some(long("")));
        for end in ["%", "%2", "$", "$$", "$%", "$%4", "%$%2$$"] {
            let cut = long(end);
            assert_eq!(
                read(RecordKind::Disallow, &beyond(end)).unwrap(),
                cut[..cut.len() - end.len()],
                "{end}"
            );
        }
        assert_eq!(read(RecordKind::Disallow, &beyond("$%41")), Some(long("$%41")));
        assert_eq!(read(RecordKind::Allow, &beyond("")), None);
        assert_eq!(read(RecordKind::Sitemap, &beyond("")), None);
        assert_eq!(read(RecordKind::UserAgent, &beyond("")), Some(long("")));
        let spaced = [&b" ".repeat(20_000)[..], b"/a$", &b" ".repeat(20_000), b"# why"].concat();
        assert_eq!(read(RecordKind::Allow, &spaced).unwrap(), b"/a$");
    }

    #[test]
    fn of_a_line_google_reads_what_fits_its_buffer() {
        let long = format!("disallow: /{}", "a".repeat(20_000));
        assert_eq!(read(&long, Profile::Google).unwrap().2, &long["disallow: ".len()..2083 * 8 - 1]);
        assert_eq!(read(&format!("{}disallow: /a", " ".repeat(20_000)), Profile::Google), None);
    }

    #[test]
    fn the_short_way_reads_what_the_long_way_reads() {
        for line in [
            "Disallow: /a#b",
            "allow:/x",
            "User-agent:  b ",
            "disallow:::",
            "allow::::",
            "user-agent:a:b",
            "SiteMap:/x",
        ] {
            assert_eq!(common_key(line.as_bytes()), any_key(line.as_bytes(), Profile::Rfc9309), "{line:?}");
        }
    }
}
