//! What a rule is matched against: path and query as bytes, RFC 9309 §2.2.2.
//!
//! It is normalised once for each URL, so that comparing it with a rule is a comparison of bytes.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::normal::{self, HASH, QUERY, Side};
use crate::slice;

/// The path and query of a URL, in the normal form that rules are compared in.
///
/// Create it once per URL and check it against many rule sets. It borrows if the text is in normal form already.
///
/// ```
/// use abide_robots::Target;
///
/// assert_eq!(Target::new("/a%62c?q=1#top").as_str(), "/abc?q=1");
/// assert_eq!(Target::new("").as_str(), "/");
/// assert_eq!(Target::new("https://example.com/a").as_str(), "/a");
/// ```
#[derive(Clone)]
pub struct Target<'a> {
    normal: Cow<'a, [u8]>,
    /// Path and query as given, where `normal` is not that.
    given: Option<Cow<'a, [u8]>>,
    /// Where the query starts in `normal`, behind its `?`; the length of `normal` if there is none.
    query: usize,
}

impl<'a> Target<'a> {
    /// Takes a path with or without a query. A fragment is dropped, and an empty path is `/`.
    ///
    /// Of an absolute URL, scheme and authority are dropped. Dot segments are not resolved: URL parsers such as `url::Url` do that.
    ///
    /// It never fails: a `/` is put before text that does not start with one, so `mailto:x` becomes `/mailto:x`. Parse URLs of unknown origin first.
    #[inline]
    pub fn new(path_and_query: &'a str) -> Self {
        let text = path_and_query.as_bytes();
        match (text.first(), normal::classes(text)) {
            (Some(b'/'), 0) => Self { normal: Cow::Borrowed(text), given: None, query: text.len() },
            (_, classes) => Self::rewritten(text, classes),
        }
    }

    #[inline(never)]
    fn rewritten(text: &'a [u8], classes: u8) -> Self {
        let given = without_fragment(rooted(text), classes);
        let (normal, given) = if classes & !QUERY == 0 {
            (given, None)
        } else {
            let mut out = Vec::with_capacity(given.len().saturating_add(16));
            normal::push_normal(&given, Side::Target, &mut out);
            (Cow::Owned(out), Some(given))
        };
        let query = memchr::memchr(b'?', &normal).map_or(normal.len(), |mark| mark.saturating_add(1));
        Self { normal, given, query }
    }

    /// The normal form, in ASCII.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.normal).unwrap_or_default()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.normal
    }

    pub(crate) fn given(&self) -> &[u8] {
        self.given.as_ref().unwrap_or(&self.normal)
    }

    pub(crate) fn query(&self) -> usize {
        self.query
    }

    /// RFC 9309 §2.2.2: "The /robots.txt URI is implicitly allowed."
    pub(crate) fn is_robots_txt(&self) -> bool {
        *self.normal == *b"/robots.txt"
    }
}

/// A path that starts with `/`, of something that may not.
fn rooted(text: &[u8]) -> Cow<'_, [u8]> {
    if text.first() == Some(&b'/') {
        return Cow::Borrowed(text);
    }
    // RFC 3986 §3: a scheme ends before the first of these, so a colon behind them is none of it.
    let end = text.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(text.len());
    let (scheme, authority) = text.split_at_checked(end).unwrap_or((text, &[]));
    let rest = match (scheme.strip_suffix(b":"), authority.strip_prefix(b"//")) {
        (Some(_), Some(authority)) => {
            let path = authority.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
            slice::from(authority, path.unwrap_or(authority.len()))
        }
        _ => text,
    };
    if rest.first() == Some(&b'/') {
        return Cow::Borrowed(rest);
    }
    let mut given = Vec::with_capacity(rest.len().saturating_add(1));
    given.push(b'/');
    given.extend_from_slice(rest);
    Cow::Owned(given)
}

fn without_fragment(given: Cow<'_, [u8]>, classes: u8) -> Cow<'_, [u8]> {
    if classes & HASH == 0 {
        return given;
    }
    let end = given.iter().position(|&byte| byte == b'#').unwrap_or(given.len());
    match given {
        Cow::Borrowed(text) => Cow::Borrowed(slice::before(text, end)),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

impl<'a> From<&'a str> for Target<'a> {
    fn from(path_and_query: &'a str) -> Self {
        Self::new(path_and_query)
    }
}

#[cfg(feature = "url")]
impl<'a> Target<'a> {
    /// Path and query of the URL; its fragment is dropped.
    ///
    /// ```
    /// use abide_robots::Target;
    ///
    /// let url = url::Url::parse("https://example.com/a/../b?q='c'#top")?;
    /// assert_eq!(Target::of(&url), Target::new("/b?q='c'"));
    /// # Ok::<(), url::ParseError>(())
    /// ```
    pub fn of(url: &'a url::Url) -> Self {
        Self::new(&url[url::Position::BeforePath..url::Position::AfterQuery])
    }
}

impl PartialEq for Target<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.normal == other.normal
    }
}

impl Eq for Target<'_> {}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&String::from(self.as_str())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_equal_when_their_normal_forms_are() {
        assert_eq!(Target::new("/%7ea#top"), Target::new("/~a"));
        assert_ne!(Target::new("/a"), Target::new("/b"));
        assert_ne!(Target::new("/a"), Target::new("/a?"));
    }

    #[test]
    fn a_target_is_shown_in_its_normal_form() {
        let target = Target::new("/%7e");
        assert_eq!(alloc::format!("{target}"), "/~");
        assert_eq!(alloc::format!("{target:?}"), "Target(\"/~\")");
    }

    #[test]
    fn nothing_is_copied_where_nothing_changes() {
        assert!(matches!(Target::new("/a/b?c=d/e:f").normal, Cow::Borrowed(_)));
        assert!(matches!(Target::new("/%41").normal, Cow::Owned(_)));
    }
}
