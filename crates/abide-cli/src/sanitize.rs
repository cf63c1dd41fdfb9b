//! Text that others wrote, made fit to be shown: nothing in it commands a terminal, and no URL keeps its user
//! information.
//!
//! All that is written for people goes through [`escaped`], and all that is written for programs through
//! [`write_json`].

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;

use serde::Serialize;
use serde_json::ser::Formatter;
use url::Url;

/// A line, or a part of one, for people: escaped, and without the user information of the URLs in it.
pub(crate) fn sanitized(text: &str) -> String {
    escaped(without_user(text).as_bytes())
}

/// The same of what a server can make as long as it likes: cut where it would fill the screen.
pub(crate) fn cut(text: &str) -> String {
    let text = without_user(text);
    let (text, more) = first(&text, "…");
    escaped(text.as_bytes()) + more
}

/// The first 200 characters, and `more` if there are more.
fn first<'a>(text: &'a str, more: &'static str) -> (&'a str, &'static str) {
    let end = text.char_indices().nth(200);
    end.map_or((text, ""), |(end, _)| (text.split_at(end).0, more))
}

/// What would command a terminal, or show text in another order than it is in, as `\u{202e}`.
pub(crate) fn escaped(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in String::from_utf8_lossy(text).chars() {
        if is_hidden(letter) { shown.extend(letter.escape_default()) } else { shown.push(letter) }
    }
    shown
}

/// Control characters, and Unicode's format characters, which have no shape of their own: some of them
/// reverse the direction of text.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Without user information, which is never printed.
pub(crate) fn public_url(url: &Url) -> Url {
    let mut url = url.clone();
    // Both fail only for URLs without a host, and those have no user information.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// The text of a URL without its user information. What is no URL loses everything before its last `@`.
pub(crate) fn public(text: &str) -> Cow<'_, str> {
    let Some((before, after)) = text.rsplit_once('@') else { return text.into() };
    match Url::parse(text) {
        Ok(url) if url.has_host() => match public_url(&url) {
            public if public == url => text.into(),
            public => String::from(public).into(),
        },
        // A path, where an `@` is nothing else.
        _ if text.starts_with('/') && !text.starts_with("//") => text.into(),
        _ => format!("{}...@{after}", scheme(before)).into(),
    }
}

/// What was given, for a message: without user information, escaped, and cut.
pub(crate) fn quoted(text: &str) -> String {
    let text = public(text);
    let (text, more) = first(&text, "...");
    format!("{text:?}{more}")
}

/// A time that need not be exact.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A time to wait, to the second as long as that matters: `3 min 20 s`, `2 h 5 min`.
pub(crate) fn wait(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// `1 page`, `2 pages`.
pub(crate) fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// `http://`, if `text` begins like that.
pub(crate) fn scheme(text: &str) -> &str {
    let Some((name, rest)) = text.split_once("://") else { return "" };
    let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric());
    text.strip_suffix(rest).filter(|_| is_name).unwrap_or_default()
}

/// A sentence without the user information of the URLs in it.
pub(crate) fn without_user(text: &str) -> Cow<'_, str> {
    match without_user_bytes(text.as_bytes()) {
        Cow::Borrowed(_) => text.into(),
        Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
    }
}

/// The same of bytes that need not be a text.
pub(crate) fn without_user_bytes(text: &[u8]) -> Cow<'_, [u8]> {
    let users = users(text);
    if users.is_empty() {
        return text.into();
    }
    let ends = users.iter().map(|user| user.start).chain([text.len()]);
    let starts = [0].into_iter().chain(users.iter().map(|user| user.end));
    starts.zip(ends).filter_map(|(start, end)| text.get(start..end)).flatten().copied().collect()
}

/// The same of a line whose columns are to stay as they are.
pub(crate) fn masked(line: &[u8]) -> Cow<'_, [u8]> {
    let mut line = Cow::Borrowed(line);
    for user in users(&line) {
        line.to_mut().get_mut(user).unwrap_or_default().fill(b'*');
    }
    line
}

/// Where user information is: from the slashes that begin an authority to the last `@` before the path, as in
/// RFC 3986 §3.2.
fn users(text: &[u8]) -> Vec<Range<usize>> {
    let mut users = Vec::new();
    let mut at = 0;
    while let Some((before, rest)) = text.split_at_checked(at).filter(|(_, rest)| !rest.is_empty()) {
        let slashes = rest.iter().take_while(|byte| is_slash(byte)).count();
        at = at.saturating_add(slashes.max(1));
        if slashes > 0 && begins_authority(before, slashes) {
            let authority = rest.get(slashes..).unwrap_or_default();
            let authority = authority.split(ends_authority).next().unwrap_or_default();
            let end = authority.iter().rposition(|byte| *byte == b'@');
            users.extend(end.map(|end| at..at.saturating_add(end).saturating_add(1)));
        }
    }
    users
}

/// URL parsers take either slash.
fn is_slash(byte: &u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

fn ends_authority(byte: &u8) -> bool {
    is_slash(byte) || byte.is_ascii_whitespace() || matches!(byte, b'?' | b'#')
}

/// Whether so many slashes behind `before` begin an authority. In a path they do not: `/a//@b`.
fn begins_authority(before: &[u8], slashes: usize) -> bool {
    match before {
        [scheme @ .., b':'] => slashes > 1 || is_http(scheme),
        [.., last] => slashes > 1 && !last.is_ascii_alphanumeric() && !b"-._~%!$&*+;@)]".contains(last),
        [] => slashes > 1,
    }
}

/// Whether `text` ends with the name of one of the two schemes.
fn is_http(text: &[u8]) -> bool {
    text.last_chunk::<4>().is_some_and(|end| end.eq_ignore_ascii_case(b"http"))
        || text.last_chunk::<5>().is_some_and(|end| end.eq_ignore_ascii_case(b"https"))
}

/// Writes a value as JSON: exact for a program, and safe on a terminal, where what is hidden is shown as
/// `\u202e`.
pub(crate) fn write_json(out: impl Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Escaping))
}

/// JSON escapes also for what JSON would leave as it is.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // Nearly all that is written, and quicker to see.
        if fragment.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, letter)) = rest.char_indices().find(|(_, letter)| is_hidden(*letter)) {
            let (before, hidden) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = hidden.strip_prefix(letter).unwrap_or_default();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_escaped() {
        assert_eq!(escaped("a\x1b[31m\u{202e}é\t\u{9b}\n".as_bytes()), "a\\u{1b}[31m\\u{202e}é\\t\\u{9b}\\n");
        assert_eq!(escaped(b"\xff"), "\u{fffd}");
        assert_eq!(cut(&"\u{202e}".repeat(201)), "\\u{202e}".repeat(200) + "…");
        assert_eq!(cut(&"x".repeat(200)), "x".repeat(200));
    }

    #[test]
    fn json_is_exact_and_has_no_hidden_characters() {
        for letter in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = format!("a{letter}\"b\\");
            let mut written = Vec::new();
            write_json(&mut written, &text).unwrap();
            let written = String::from_utf8(written).unwrap();
            assert!(!written.contains(is_hidden), "{written}");
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }

    #[test]
    fn urls_lose_their_user_information_and_nothing_else() {
        for (text, kept) in [
            ("http://u:p@a.example/x@y?@#@", "http://a.example/x@y?@#@"),
            ("http:\\\\u@a.example", "http://a.example/"),
            ("\thttp:u:p@a.example/", "http://a.example/"),
            ("HTTP://A.example/%7e", "HTTP://A.example/%7e"),
            ("/a@b", "/a@b"),
            ("//u:p@a/", "...@a/"),
            ("u:p@a", "...@a"),
            ("http://u:p/q@a:port/", "http://...@a:port/"),
            ("u://p@a@b:x", "u://...@b:x"),
            ("a b", "a b"),
        ] {
            assert_eq!(public(text), kept, "{text}");
        }
    }

    #[test]
    fn sentences_lose_the_user_information_of_their_urls() {
        for (text, kept) in [
            ("http://u:p@a/x: no (ftp://q@b)", "http://a/x: no (ftp://b)"),
            ("http://a/x@y and mail c@d", "http://a/x@y and mail c@d"),
            ("//u:p@q@a", "//a"),
            ("http:// a@b", "http:// a@b"),
            ("\"HTTPS:\\\\u:p@a\" http:/u@b http:////u@c", "\"HTTPS:\\\\a\" http:/b http:////c"),
            // Paths, and what is no URL.
            ("http://a//@x /b//@y /c:/d@e", "http://a//@x /b//@y /c:/d@e"),
        ] {
            assert_eq!(sanitized(text), kept);
        }
    }

    #[test]
    fn a_masked_line_keeps_its_columns() {
        assert_eq!(*masked(b"Sitemap: http://u:p@a/ //q@b \xff"), *b"Sitemap: http://****a/ //**b \xff");
    }
}
