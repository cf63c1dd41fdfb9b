//! Where a redirect of robots.txt leads (RFC 9309 §2.3.1.2), and which ones are not followed.
//!
//! A Location is where a server names the next URL that the crawler requests, so what is not known to be harmless is refused.

use http::HeaderMap;
use http::header::LOCATION;
use url::Url;

use crate::Failure;
use crate::robots_cache::RobotsPolicy;

/// No honest Location is longer; browsers and proxies stop there, too.
const LOCATION_LEN_MAX: usize = 8 * 1024;

/// Where the answer to `from` sends us: an http or https URL without user information and fragment.
pub(crate) fn destination(from: &Url, headers: &HeaderMap, policy: &RobotsPolicy) -> Result<Url, Failure> {
    let mut fields = headers.get_all(LOCATION).iter();
    let field = fields.next().ok_or(Failure::LocationMissing)?;
    if fields.next().is_some() {
        return Err(Failure::LocationInvalid);
    }
    let mut url = resolve(from, field.as_bytes())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Failure::LocationInvalid);
    }
    // Stricter: rules that were fetched in the clear can be rewritten on the way, so https is never left.
    if from.scheme() == "https" && url.scheme() == "http" && !policy.follow_downgrade {
        return Err(Failure::RedirectDowngrade);
    }
    url.set_fragment(None);
    let stripped = url.set_username("").and_then(|()| url.set_password(None));
    match (stripped, url.host(), url.port_or_known_default()) {
        (Ok(()), Some(_), Some(1..)) => Ok(url),
        _ => Err(Failure::LocationInvalid),
    }
}

fn resolve(from: &Url, location: &[u8]) -> Result<Url, Failure> {
    if location.len() > LOCATION_LEN_MAX {
        return Err(Failure::LocationInvalid);
    }
    let text = std::str::from_utf8(location).map_err(|_| Failure::LocationInvalid)?;
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Err(Failure::LocationMissing);
    }
    if text.chars().any(char::is_control) {
        return Err(Failure::LocationInvalid);
    }
    from.join(text).map_err(|_| Failure::LocationInvalid)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn follow(from: &str, locations: &[&[u8]]) -> Result<String, Failure> {
        let mut headers = HeaderMap::new();
        for location in locations {
            headers.append(LOCATION, HeaderValue::from_bytes(location).unwrap());
        }
        let from = from.parse().unwrap();
        destination(&from, &headers, &RobotsPolicy::default()).map(String::from)
    }

    #[test]
    fn locations_are_resolved_against_the_hop() {
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
    fn locations_that_lead_nowhere_are_refused() {
        const MISSING: Failure = Failure::LocationMissing;
        const INVALID: Failure = Failure::LocationInvalid;
        let long = vec![b'a'; 64 * 1024];
        let table: &[(&[&[u8]], Failure)] = &[
            (&[], MISSING),
            (&[b""], MISSING),
            (&[b"   "], MISSING),
            (&[b"/a", b"/b"], INVALID),
            (&[b"/a", b"/a"], INVALID),
            (&[&long], INVALID),
            (&[b"/\xff\xfe"], INVALID),
            (&[b"/a\tb"], INVALID),
            (&["/a\u{85}b".as_bytes()], INVALID),
            (&[b"file:///etc/passwd"], INVALID),
            (&[b"ftp://a.example/robots.txt"], INVALID),
            (&[b"gopher://a.example/"], INVALID),
            (&[b"data:text/plain,Allow:/"], INVALID),
            (&[b"javascript:alert(1)"], INVALID),
            (&[b"ws://a.example/"], INVALID),
            (&[b"http://a.example:99999/"], INVALID),
            (&[b"http://a.example:port/"], INVALID),
            (&[b"http://a.example:0/"], INVALID),
            (&[b"http://a b.example/"], INVALID),
            (&[b"http://"], INVALID),
            (&[b"http://[::1/"], INVALID),
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
        assert_eq!(follow(from, &[&location(8 * 1024 + 1)]), Err(Failure::LocationInvalid));
    }

    #[test]
    fn https_is_not_left_unless_asked() {
        let from: Url = "https://a.example/robots.txt".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.append(LOCATION, HeaderValue::from_static("http://a.example/robots.txt"));
        let strict = RobotsPolicy::default();
        assert_eq!(destination(&from, &headers, &strict), Err(Failure::RedirectDowngrade));
        let lenient = strict.with_downgrade(true);
        assert_eq!(destination(&from, &headers, &lenient).unwrap().scheme(), "http");
    }
}
