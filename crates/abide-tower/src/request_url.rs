//! What a request asks for: the URL that is checked, and that the request then carries.
//!
//! `http::Uri` keeps what it was given and `url::Url` normalises it. The server must get the path that was
//! checked, so the normalised one is sent.

use http::header::HOST;
use http::{Request, Uri};
use url::Url;

use abide_gate::without_userinfo;
use abide_http::foreign_host;

use crate::error::ServiceError;

/// The URL of a request. What is checked is what is sent: the request's URI becomes the URL's normal form (no
/// dot segments, no user information), and a `Host` of another origin is taken off.
///
/// Stricter: tower-http's `FollowRedirect` carries a `Host` along, which would reach a site whose rules were
/// not checked. Clients set the right one.
pub(crate) fn url_of<B>(request: &mut Request<B>) -> Result<Url, ServiceError> {
    let written = request.uri().to_string();
    let no_origin =
        || ServiceError::NoOrigin { uri: Uri::try_from(without_user(&written)).unwrap_or_default() };
    // The URI of a CONNECT, `a.example:443`, would be a URL of the scheme `a.example`.
    let url = request.uri().scheme().and_then(|_| Url::parse(&written).ok()).ok_or_else(no_origin)?;
    let url = without_userinfo(&url);
    if url.as_str() != written {
        *request.uri_mut() = Uri::try_from(url.as_str()).map_err(|_| no_origin())?;
    }
    if foreign_host(request.headers(), &url).is_some() {
        request.headers_mut().remove(HOST);
    }
    Ok(url)
}

/// As [`without_userinfo`], of what need not be a URL: `http` takes `http://user:secret@256.256.256.256/`,
/// and `user:secret@a.example:443`.
fn without_user(written: &str) -> String {
    let (scheme, slashes, rest) = match written.split_once("//") {
        Some((scheme, rest)) if !scheme.contains('/') => (scheme, "//", rest),
        _ => ("", "", written),
    };
    let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |end| rest.split_at(end));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    [scheme, slashes, host, path].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut request = Request::get(written).body(()).unwrap();
            let checked = url_of(&mut request).unwrap();
            assert_eq!((checked.as_str(), &*request.uri().to_string()), (normal, normal), "{written}");
        }
    }

    #[test]
    fn a_uri_without_origin_is_refused_without_its_userinfo() {
        for (written, shown) in [
            ("/relative", "/relative"),
            ("/for/user:marker@a.example", "/for/user:marker@a.example"),
            ("//user:marker@a.example/x", "//a.example/x"),
            ("a.example:443", "a.example:443"),
            ("user:marker@a.example:443", "a.example:443"),
            ("*", "*"),
            ("http://user:marker@256.256.256.256/", "http://256.256.256.256/"),
            ("http://user:marker@a.example:99999/x?y=@", "http://a.example:99999/x?y=@"),
        ] {
            let refused = url_of(&mut Request::get(written).body(()).unwrap()).unwrap_err();
            let ServiceError::NoOrigin { uri } = &refused else { panic!("{written}: {refused:?}") };
            assert_eq!(uri.to_string(), shown);
            let is_told = format!("{refused:?} {refused}").contains("marker");
            assert_eq!(is_told, shown.contains("marker"), "{refused:?}");
        }
    }
}
