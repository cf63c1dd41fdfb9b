//! Where a redirect of robots.txt leads (RFC 9309 §2.3.1.2), and which ones are not followed.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::string_slice
    )
)]

use std::fmt;

use http::HeaderMap;
use http::header::LOCATION;
use url::Url;

use crate::robots_cache::RobotsPolicy;

/// Why a 3xx answer was not followed. The robots.txt is unreachable then, since nobody said that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RedirectRefusal {
    /// The status is 300, 304 unasked twice, 305, 306 or another that names no single place to go to.
    Status,
    /// No `Location` field.
    Missing,
    /// An empty `Location`.
    Empty,
    /// More than one `Location` field.
    Several,
    /// A `Location` over 8 KiB.
    TooLong,
    /// A `Location` with control bytes, or that is no UTF-8.
    NotText,
    /// A `Location` that is no URL: a bad port, a space in the host.
    NotUrl,
    /// A scheme other than http and https.
    Scheme,
    /// From https to http, where the rules could be rewritten on the way.
    Downgrade,
}

impl fmt::Display for RedirectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status => "its status names no place to go to",
            Self::Missing => "it has no Location",
            Self::Empty => "its Location is empty",
            Self::Several => "it has more than one Location",
            Self::TooLong => "its Location is over 8 KiB",
            Self::NotText => "its Location has control bytes or is not UTF-8",
            Self::NotUrl => "its Location is not a URL",
            Self::Scheme => "its Location is neither http nor https",
            Self::Downgrade => "it leads from https to http",
        })
    }
}

/// No honest Location is longer; browsers and proxies stop there, too.
const LOCATION_LEN_MAX: usize = 8 * 1024;

/// Where the answer to `from` sends us: an http or https URL without user information and fragment.
pub(crate) fn destination(
    from: &Url,
    headers: &HeaderMap,
    policy: &RobotsPolicy,
) -> Result<Url, RedirectRefusal> {
    let mut fields = headers.get_all(LOCATION).iter();
    let field = fields.next().ok_or(RedirectRefusal::Missing)?;
    if fields.next().is_some() {
        return Err(RedirectRefusal::Several);
    }
    let mut url = resolve(from, field.as_bytes())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(RedirectRefusal::Scheme);
    }
    // Stricter: rules that were fetched in the clear can be rewritten on the way, so https is never left.
    if from.scheme() == "https" && url.scheme() == "http" && !policy.follow_downgrade {
        return Err(RedirectRefusal::Downgrade);
    }
    url.set_fragment(None);
    let stripped = url.set_username("").and_then(|()| url.set_password(None));
    match (stripped, url.host(), url.port_or_known_default()) {
        (Ok(()), Some(_), Some(1..)) => Ok(url),
        _ => Err(RedirectRefusal::NotUrl),
    }
}

fn resolve(from: &Url, location: &[u8]) -> Result<Url, RedirectRefusal> {
    if location.len() > LOCATION_LEN_MAX {
        return Err(RedirectRefusal::TooLong);
    }
    let text = std::str::from_utf8(location).map_err(|_| RedirectRefusal::NotText)?;
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Err(RedirectRefusal::Empty);
    }
    if text.chars().any(char::is_control) {
        return Err(RedirectRefusal::NotText);
    }
    from.join(text).map_err(|_| RedirectRefusal::NotUrl)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn follow(from: &str, locations: &[&[u8]]) -> Result<String, RedirectRefusal> {
        let mut headers = HeaderMap::new();
        for location in locations {
            headers.append(LOCATION, HeaderValue::from_bytes(location).unwrap());
        }
        let from = from.parse().unwrap();
        destination(&from, &headers, &RobotsPolicy::default()).map(String::from)
    }

    #[test]
    fn s09_locations_are_resolved_against_the_hop() {
        for (from, location, to) in [
            ("http://a.example/robots.txt", "/r2.txt", "http://a.example/r2.txt"),
            ("http://a.example/x/robots.txt", "../y/./r.txt", "http://a.example/y/r.txt"),
            ("http://a.example/robots.txt", "//b.example/robots.txt", "http://b.example/robots.txt"),
            ("https://a.example/robots.txt", "//b.example/robots.txt", "https://b.example/robots.txt"),
            ("http://a.example/robots.txt", "?v=2", "http://a.example/robots.txt?v=2"),
            ("http://a.example/robots.txt", "https://a.example/robots.txt", "https://a.example/robots.txt"),
            ("http://a.example/robots.txt", "/r#fragment", "http://a.example/r"),
            ("http://a.example/robots.txt", "http://u:p@b.example/", "http://b.example/"),
            ("http://a.example/robots.txt", "http://b.example:8080/r", "http://b.example:8080/r"),
            ("http://a.example/robots.txt", "  /r2.txt ", "http://a.example/r2.txt"),
            ("http://a.example/robots.txt", "/\u{fc}", "http://a.example/%C3%BC"),
        ] {
            assert_eq!(follow(from, &[location.as_bytes()]).as_deref(), Ok(to), "{location}");
        }
    }

    #[test]
    fn s11_locations_that_lead_nowhere_are_refused() {
        use RedirectRefusal::{Empty, Missing, NotText, NotUrl, Scheme, Several, TooLong};
        let long = vec![b'a'; 64 * 1024];
        let table: &[(&[&[u8]], RedirectRefusal)] = &[
            (&[], Missing),
            (&[b""], Empty),
            (&[b"   "], Empty),
            (&[b"/a", b"/b"], Several),
            (&[b"/a", b"/a"], Several),
            (&[&long], TooLong),
            (&[b"/\xff\xfe"], NotText),
            (&[b"/a\tb"], NotText),
            (&["/a\u{85}b".as_bytes()], NotText),
            (&[b"file:///etc/passwd"], Scheme),
            (&[b"ftp://a.example/robots.txt"], Scheme),
            (&[b"gopher://a.example/"], Scheme),
            (&[b"data:text/plain,Allow:/"], Scheme),
            (&[b"javascript:alert(1)"], Scheme),
            (&[b"ws://a.example/"], Scheme),
            (&[b"http://a.example:99999/"], NotUrl),
            (&[b"http://a.example:port/"], NotUrl),
            (&[b"http://a.example:0/"], NotUrl),
            (&[b"http://a b.example/"], NotUrl),
            (&[b"http://"], NotUrl),
            (&[b"http://[::1/"], NotUrl),
        ];
        for (locations, refusal) in table {
            assert_eq!(follow("http://a.example/robots.txt", locations), Err(*refusal), "{locations:?}");
            assert!(refusal.to_string().starts_with("it"), "{refusal}");
        }
    }

    #[test]
    fn a_location_of_8_kib_is_followed_and_one_octet_more_is_not() {
        let location = |length: usize| format!("/{}", "a".repeat(length - 1)).into_bytes();
        let from = "http://a.example/robots.txt";
        assert!(follow(from, &[&location(8 * 1024)]).is_ok());
        assert_eq!(follow(from, &[&location(8 * 1024 + 1)]), Err(RedirectRefusal::TooLong));
    }

    #[test]
    fn s14_https_is_not_left_unless_asked() {
        let from: Url = "https://a.example/robots.txt".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.append(LOCATION, HeaderValue::from_static("http://a.example/robots.txt"));
        let strict = RobotsPolicy::default();
        assert_eq!(destination(&from, &headers, &strict), Err(RedirectRefusal::Downgrade));
        let lenient = strict.with_downgrade(true);
        assert_eq!(destination(&from, &headers, &lenient).unwrap().scheme(), "http");
    }
}
