//! Whose site a request is for, by its `Host`: rules are those of the URL, pages those of the `Host`.

use http::header::HOST;
use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::identity::excerpt;
use abide_gate::DeniedKind;

/// The first `Host` field that does not name the authority of `url`. With one, the site that answers is not the site whose
/// robots.txt was asked (RFC 9110 §7.2: the field is "the target URI's authority component").
///
/// The port may be left out where it is the scheme's own; names are compared without case.
///
/// ```
/// use abide_http::foreign_host;
///
/// let url = "http://a.example/x".parse()?;
/// let mut headers = http::HeaderMap::new();
/// headers.insert("host", "A.example:80".parse()?);
/// assert_eq!(foreign_host(&headers, &url), None);
/// headers.append("host", "b.example".parse()?);
/// assert_eq!(foreign_host(&headers, &url).unwrap(), "b.example");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn foreign_host<'h>(headers: &'h HeaderMap, url: &Url) -> Option<&'h HeaderValue> {
    headers.get_all(HOST).iter().find(|host| !names(host, url))
}

/// Refuses a request whose `Host` does not name the authority of its URL.
///
/// # Errors
/// [`DeniedKind::ForeignHost`].
pub fn refuse_foreign_host(headers: &HeaderMap, url: &Url) -> Result<(), DeniedKind> {
    match foreign_host(headers, url) {
        Some(host) => Err(DeniedKind::ForeignHost { host: excerpt(host) }),
        None => Ok(()),
    }
}

/// Whether a `Host` field is that of the URL, with its port or, where that is the default one, without.
fn names(host: &HeaderValue, url: &Url) -> bool {
    let (Ok(host), Some(name)) = (host.to_str(), url.host_str()) else { return false };
    let default = if url.scheme() == "https" { 443 } else { 80 };
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, number(port)),
        _ => (host, Some(default)),
    };
    host.eq_ignore_ascii_case(name) && port.is_some() && port == url.port_or_known_default()
}

/// Digits only: `str::parse` takes a sign as well.
fn number(port: &str) -> Option<u16> {
    port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_foreign_unless_it_is_the_authority_of_the_url() {
        for (url, host, own) in [
            ("http://a.example/", "a.example", true),
            ("http://a.example/", "A.example:80", true),
            ("https://a.example/", "a.example:443", true),
            ("http://a.example:8080/", "a.example:8080", true),
            ("http://[2001:db8::1]/", "[2001:db8::1]", true),
            ("http://[2001:db8::1]:81/", "[2001:db8::1]:81", true),
            ("http://a.example:8080/", "a.example", false),
            ("http://a.example/", "b.example", false),
            ("http://a.example/", "a.example:81", false),
            ("http://a.example/", "a.example:http", false),
            ("http://a.example/", "a.example:+80", false),
            ("http://a.example/", "a.example:", false),
            ("http://a.example/", "a.example@b.example", false),
            ("http://a.example/", "a.example, b.example", false),
            ("https://a.example/", "a.example:80", false),
            ("http://a.example/", "", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            assert_eq!(foreign_host(&headers, &url.parse().unwrap()).is_none(), own, "{url} {host}");
        }
    }
    #[test]
    fn a_request_for_two_sites_at_once_is_refused_with_what_it_says() {
        let url: Url = "http://a.example/x".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "a.example".parse().unwrap());
        assert!(refuse_foreign_host(&headers, &url).is_ok());
        headers.append(HOST, HeaderValue::from_bytes(b"b.example\xff").unwrap());
        let refused = refuse_foreign_host(&headers, &url).unwrap_err();
        let DeniedKind::ForeignHost { host } = refused else { panic!("{refused:?}") };
        assert_eq!(host, "b.example\u{fffd}");
    }
}
