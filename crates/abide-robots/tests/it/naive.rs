//! The simplest reader and matcher that follows the specification's words: quadratic and worse, and nothing
//! shared with the crate. What the crate is compared with.

/// Whether `path` (path and query) is allowed for `token` by `robots`, by RFC 9309 §2.2, for files without
/// misspellings.
pub(crate) fn is_allowed(robots: &[u8], token: &str, path: &[u8]) -> bool {
    let target = units(path, false);
    if target == units(b"/robots.txt", false) {
        return true;
    }
    let best = rules(robots, token)
        .into_iter()
        .filter(|(_, pattern)| covers(pattern, &target))
        .map(|(allow, pattern)| (length(&pattern), allow))
        .max();
    best.is_none_or(|(_, allow)| allow)
}

/// A unit of the normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Byte(u8),
    /// An escape, by its value.
    Escape(u8),
    Star,
    End,
}

/// Splits a path or a pattern into units: escapes of unreserved characters decoded, all that a path cannot
/// hold encoded.
fn units(text: &[u8], pattern: bool) -> Vec<Unit> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        let hex = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = hex.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let value = value.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let (unit, length) = match (byte, value) {
            (b'%', Some(value)) if plain(value) && !completes_an_escape(&out, value) => {
                (Unit::Byte(value), 3)
            }
            (b'%', Some(value)) => (Unit::Escape(value), 3),
            (b'%', None) => (Unit::Byte(b'%'), 1),
            _ if completes_an_escape(&out, byte) => (Unit::Escape(byte), 1),
            (b'*', _) if pattern => (Unit::Star, 1),
            (b'$', _) if pattern && at + 1 == text.len() => (Unit::End, 1),
            _ if plain(byte) || b"!&'()+,;=:@/?".contains(&byte) => (Unit::Byte(byte), 1),
            _ => (Unit::Escape(byte), 1),
        };
        out.push(unit);
        at += length;
    }
    out
}

/// Whether a `%` that starts no escape would become one with this digit, the second behind it.
fn completes_an_escape(before: &[Unit], digit: u8) -> bool {
    matches!(before, [.., Unit::Byte(b'%'), Unit::Byte(first)] if first.is_ascii_hexdigit() && digit.is_ascii_hexdigit())
}

fn length(pattern: &[Unit]) -> usize {
    let query = pattern.iter().position(|unit| *unit == Unit::Byte(b'?')).unwrap_or(pattern.len());
    let bytes = |(at, unit): (usize, &Unit)| match unit {
        Unit::Escape(_) => 3,
        Unit::Byte(byte) if at > query && delimiter(*byte) => 3,
        _ => 1,
    };
    pattern.iter().enumerate().map(bytes).sum()
}

fn delimiter(byte: u8) -> bool {
    b":/?@'".contains(&byte)
}

/// The bytes of a target. In the query `: / ? @ '` and their escapes are the same: both are the byte itself.
fn bytes(units: &[Unit]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut in_query = false;
    for unit in units {
        match *unit {
            Unit::Escape(value) if !(in_query && delimiter(value)) => {
                out.extend(format!("%{value:02X}").bytes())
            }
            Unit::Escape(byte) | Unit::Byte(byte) => out.push(byte),
            Unit::Star | Unit::End => panic!("a target has no special characters"),
        }
        in_query |= *unit == Unit::Byte(b'?');
    }
    out
}

/// All ways of matching at once: `reached[at]` says whether the pattern so far can end before byte `at` of
/// the target.
fn covers(pattern: &[Unit], target: &[Unit]) -> bool {
    if !matches!(pattern.first(), Some(Unit::Byte(b'/') | Unit::Star)) {
        return false;
    }
    let target = bytes(target);
    let query = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let mut reached = vec![false; target.len() + 1];
    reached[0] = true;
    for unit in pattern {
        let mut next = vec![false; target.len() + 1];
        for at in 0..=target.len() {
            if !reached[at] {
                continue;
            }
            match unit {
                Unit::Star => next[at..].fill(true),
                Unit::End => next[at] = at == target.len(),
                Unit::Byte(byte) => {
                    if target.get(at) == Some(byte) {
                        next[at + 1] = true;
                    }
                }
                Unit::Escape(value) => {
                    if target[at..].starts_with(format!("%{value:02X}").as_bytes()) {
                        next[at + 3] = true;
                    }
                    if at > query && delimiter(*value) && target.get(at) == Some(value) {
                        next[at + 1] = true;
                    }
                }
            }
        }
        reached = next;
    }
    reached.contains(&true)
}

/// The white space of Unicode, and three more that nobody sees.
pub(crate) const UNSEEN: [char; 28] = [
    '\t', '\n', '\x0b', '\x0c', '\r', ' ', '\u{85}', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}', '\u{2028}', '\u{2029}', '\u{202f}', '\u{205f}', '\u{3000}', '\u{200b}', '\u{2060}',
    '\u{feff}',
];

/// The text without these characters around it.
fn without<'a>(dropped: &[char], mut text: &'a [u8]) -> &'a [u8] {
    let at_edge = |is_edge: &dyn Fn(&[u8]) -> bool| {
        let letters = dropped.iter().map(char::to_string).filter(|letter| is_edge(letter.as_bytes()));
        letters.map(|letter| letter.len()).max()
    };
    // A look at the edge first: most texts have nothing to drop.
    let may_be = |edge: Option<&u8>| edge.is_some_and(|byte| !byte.is_ascii_graphic());
    while may_be(text.first())
        && let Some(length) = at_edge(&|letter| text.starts_with(letter))
    {
        text = &text[length..];
    }
    while may_be(text.last())
        && let Some(length) = at_edge(&|letter| text.ends_with(letter))
    {
        text = &text[..text.len() - length];
    }
    text
}

fn rules(robots: &[u8], token: &str) -> Vec<(bool, Vec<Unit>)> {
    let named = rules_of(robots, token);
    let groups = if named.is_empty() { rules_of(robots, "*") } else { named };
    groups.into_iter().flatten().collect()
}

type Rule = (bool, Vec<Unit>);

fn rules_of(robots: &[u8], token: &str) -> Vec<Vec<Rule>> {
    let mut groups: Vec<(bool, bool, Vec<Rule>)> = Vec::new();
    for line in robots.split(|byte| b"\r\n".contains(byte)) {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let plain = without(&[' ', '\t'], &line[..colon]);
        let key = String::from_utf8_lossy(without(&UNSEEN, plain)).to_ascii_lowercase();
        if key == "allow" && !plain.eq_ignore_ascii_case(b"allow") {
            continue;
        }
        let dropped = if key == "allow" { &[' ', '\t'][..] } else { &UNSEEN };
        let value = without(dropped, &line[colon + 1..]);
        match key.as_str() {
            "user-agent" => {
                if groups.last().is_none_or(|(_, closed, _)| *closed) {
                    groups.push((false, false, Vec::new()));
                }
                let name = value.split(|byte| !(byte.is_ascii_alphabetic() || b"_-".contains(byte))).next();
                let global = value == b"*" || value.starts_with(b"* ") || value.starts_with(b"*\t");
                let ours = if token == "*" {
                    global
                } else {
                    name.unwrap_or_default().eq_ignore_ascii_case(token.as_bytes())
                };
                groups.last_mut().unwrap().0 |= ours;
            }
            "allow" | "disallow" => {
                if let Some((_, closed, rules)) = groups.last_mut() {
                    *closed = true;
                    if !value.is_empty() {
                        rules.push((key == "allow", units(value, true)));
                    }
                }
            }
            _ => {}
        }
    }
    groups.into_iter().filter(|(ours, _, _)| *ours).map(|(_, _, rules)| rules).collect()
}
