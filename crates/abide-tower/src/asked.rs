//! What a request asks for: the URL that is judged, and that the request then carries.

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, Uri};
use url::Url;

use abide_gate::without_userinfo;

use crate::error::ServiceError;

/// The URL of a request. What is judged is what is sent: the request's URI becomes the URL's normal form (no dot segments, no user
/// information), and a `Host` of another origin is taken off.
///
/// Stricter: tower-http's `FollowRedirect` carries a `Host` to the next host. There it would reach a site whose rules were not
/// asked. Clients set the right one themselves.
pub(crate) fn url_of<B>(request: &mut Request<B>) -> Result<Url, ServiceError> {
    let written = request.uri().to_string();
    // The URI of a CONNECT, `a.example:443`, would be a URL of the scheme `a.example`.
    let is_absolute = request.uri().scheme().is_some();
    let Some(url) = parse(&written).filter(|_| is_absolute) else { return Err(no_origin(request.uri())) };
    if url.as_str() != written {
        match Uri::try_from(url.as_str()) {
            Ok(uri) => *request.uri_mut() = uri,
            Err(_) => return Err(no_origin(request.uri())),
        }
    }
    let is_foreign = request.headers().get(HOST).is_some_and(|host| !names(host, &url));
    if is_foreign {
        remove_host(request.headers_mut());
    }
    Ok(url)
}

/// An absolute URL, without user information.
fn parse(written: &str) -> Option<Url> {
    let url = Url::parse(written).ok()?;
    Some(without_userinfo(&url))
}

fn no_origin(uri: &Uri) -> ServiceError {
    ServiceError::NoOrigin { uri: uri.clone() }
}

/// Whether a `Host` field is that of the URL, with its port or, where that is the default one, without.
fn names(host: &HeaderValue, url: &Url) -> bool {
    let (Ok(host), Some(name)) = (host.to_str(), url.host_str()) else { return false };
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (host, None),
    };
    let default = if url.scheme() == "https" { 443 } else { 80 };
    host.eq_ignore_ascii_case(name) && Some(port.unwrap_or(default)) == url.port_or_known_default()
}

fn remove_host(headers: &mut HeaderMap) {
    headers.remove(HOST);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(uri: &str, host: Option<&str>) -> Result<(String, String, bool), ServiceError> {
        let mut request = Request::builder().uri(uri).body(()).unwrap();
        if let Some(host) = host {
            request.headers_mut().insert(HOST, host.parse().unwrap());
        }
        let url = url_of(&mut request)?;
        Ok((url.to_string(), request.uri().to_string(), request.headers().contains_key(HOST)))
    }

    #[test]
    fn what_is_judged_is_what_is_sent() {
        for (written, normal) in [
            ("http://a.example", "http://a.example/"),
            ("http://a.example/x?y=`{}", "http://a.example/x?y=`{}"),
            ("http://a.example/open/../private/x", "http://a.example/private/x"),
            ("http://a.example/open/%2e%2E/private/x", "http://a.example/private/x"),
            ("http://A.EXAMPLE:80/x", "http://a.example/x"),
            ("http://user:secret@a.example/x", "http://a.example/x"),
            ("http://0x7f.2/", "http://127.0.0.2/"),
        ] {
            let (judged, sent, _) = ask(written, None).unwrap();
            assert_eq!((judged.as_str(), sent.as_str()), (normal, normal), "{written}");
        }
    }

    #[test]
    fn a_uri_without_origin_is_refused() {
        for uri in ["/relative", "a.example:443", "*"] {
            assert!(matches!(ask(uri, None), Err(ServiceError::NoOrigin { .. })), "{uri}");
        }
    }

    #[test]
    fn a_host_of_another_origin_is_taken_off() {
        for (uri, host, stays) in [
            ("http://a.example/", "a.example", true),
            ("http://a.example/", "A.example:80", true),
            ("https://a.example/", "a.example:443", true),
            ("http://a.example:8080/", "a.example:8080", true),
            ("http://[2001:db8::1]/", "[2001:db8::1]", true),
            ("http://[2001:db8::1]:81/", "[2001:db8::1]:81", true),
            ("http://a.example:8080/", "a.example", false),
            ("http://a.example/", "b.example", false),
            ("http://a.example/", "a.example:81", false),
            ("http://a.example/", "", false),
        ] {
            assert_eq!(ask(uri, Some(host)).unwrap().2, stays, "{uri} {host}");
        }
    }
}
