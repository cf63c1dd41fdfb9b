//! Where a redirect leads, and what goes with it: a plain function of the answer.
//!
//! reqwest follows redirects below every middleware, so its own following is switched off and this is done here: only then is
//! every hop asked of robots.txt, paced and address-checked.

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

use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};
use url::Url;

use crate::trail::Stopped;
use abide_gate::without_userinfo;

/// How page redirects are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedirectPolicy {
    pub follow: bool,
    pub hops_max: usize,
    pub referer: bool,
}

impl RedirectPolicy {
    /// At most this many hops, 10 by default; one more is [`DeniedKind::TooManyRedirects`](abide_gate::DeniedKind::TooManyRedirects).
    #[must_use]
    pub fn with_hops_max(mut self, hops: usize) -> Self {
        self.hops_max = hops;
        self
    }

    /// Sends a `Referer`, without user information and fragment, and never from https to http. Off by default.
    #[must_use]
    pub fn with_referer(mut self, on: bool) -> Self {
        self.referer = on;
        self
    }

    /// Returns every 3xx to the caller.
    #[must_use]
    pub fn never() -> Self {
        Self { follow: false, ..Self::default() }
    }
}

impl Default for RedirectPolicy {
    /// 10 hops, no `Referer`.
    fn default() -> Self {
        Self { follow: true, hops_max: 10, referer: false }
    }
}

/// What to do with an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It is the caller's.
    Answer,
    /// It is a redirect, and still the caller's.
    Stop(Stopped),
    /// Go on there.
    Follow(Hop),
}

/// The next request, as far as the answer decides it.
#[derive(Debug, PartialEq, Eq)]
pub struct Hop {
    pub url: Url,
    pub method: Method,
    pub keeps_body: bool,
    pub keeps_credentials: bool,
}

/// Reads an answer to `method url`.
pub fn step(follow: bool, method: &Method, url: &Url, status: StatusCode, headers: &HeaderMap) -> Step {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Step::Answer;
    }
    if !follow {
        return Step::Stop(Stopped::NotFollowing);
    }
    let target = match location(url, headers) {
        Ok(target) => target,
        Err(stopped) => return Step::Stop(stopped),
    };
    let method = next_method(status, method);
    Step::Follow(Hop {
        keeps_body: matches!(status.as_u16(), 307 | 308) || method.1,
        keeps_credentials: same_origin(url, &target),
        method: method.0,
        url: target,
    })
}

/// The one usable Location, resolved against `url`, without user information.
fn location(url: &Url, headers: &HeaderMap) -> Result<Url, Stopped> {
    let mut fields = headers.get_all(header::LOCATION).iter();
    let field = fields.next().ok_or(Stopped::NoLocation)?;
    if fields.next().is_some() {
        return Err(Stopped::SeveralLocations);
    }
    let text = std::str::from_utf8(field.as_bytes()).map_err(|_| Stopped::InvalidLocation)?;
    if text.trim().is_empty() {
        return Err(Stopped::NoLocation);
    }
    let mut target = url.join(text).map_err(|_| Stopped::InvalidLocation)?;
    if !matches!(target.scheme(), "http" | "https") || target.host().is_none() {
        return Err(Stopped::UnsupportedScheme);
    }
    target = without_userinfo(&target);
    // RFC 9110 §10.2.2: a Location without a fragment inherits that of the URL that was asked for.
    if target.fragment().is_none() {
        target.set_fragment(url.fragment());
    }
    Ok(target)
}

/// The method after a redirect, and whether the body goes along (RFC 9110 §15.4, as browsers do it).
fn next_method(status: StatusCode, method: &Method) -> (Method, bool) {
    match status.as_u16() {
        301 | 302 if *method == Method::POST => (Method::GET, false),
        303 if *method != Method::HEAD => (Method::GET, false),
        303 => (Method::HEAD, false),
        _ => (method.clone(), true),
    }
}

/// Scheme, host and effective port are the same.
pub fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme() && a.host() == b.host() && a.port_or_known_default() == b.port_or_known_default()
}

/// The same resource: equal but for fragment and user information.
pub fn same_resource(a: &Url, b: &Url) -> bool {
    // Most often they are the same altogether.
    a == b || same_origin(a, b) && a.path() == b.path() && a.query() == b.query()
}

/// What a redirect to another scheme, host or port must not carry.
pub fn strip_credentials(headers: &mut HeaderMap) {
    let cookie2 = HeaderName::from_static("cookie2");
    for name in [header::AUTHORIZATION, header::COOKIE, cookie2, header::PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
    headers.remove(header::WWW_AUTHENTICATE);
    headers.remove(header::HOST);
}

/// What describes a body that is no longer sent.
pub fn strip_body_headers(headers: &mut HeaderMap) {
    let of_body: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("content-")).cloned().collect();
    for name in of_body {
        headers.remove(name);
    }
    headers.remove(header::TRANSFER_ENCODING);
}

/// The `Referer` for a hop from `from` to `to`: none from https to http.
pub fn referer(from: &Url, to: &Url) -> Option<http::HeaderValue> {
    if from.scheme() == "https" && to.scheme() != "https" {
        return None;
    }
    let mut from = without_userinfo(from);
    from.set_fragment(None);
    http::HeaderValue::from_str(from.as_str()).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn headers(locations: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for location in locations {
            headers.append(header::LOCATION, HeaderValue::from_bytes(location).unwrap());
        }
        headers
    }

    fn follow(from: &str, location: &str) -> Step {
        step(true, &Method::GET, &url(from), StatusCode::FOUND, &headers(&[location.as_bytes()]))
    }

    fn target(from: &str, location: &str) -> String {
        match follow(from, location) {
            Step::Follow(hop) => hop.url.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_five_statuses_redirect() {
        for status in 200..=599u16 {
            let to = headers(&[b"/b"]);
            let step = step(
                true,
                &Method::GET,
                &url("http://a.example/a"),
                StatusCode::from_u16(status).unwrap(),
                &to,
            );
            assert_eq!(
                matches!(step, Step::Follow(_)),
                [301, 302, 303, 307, 308].contains(&status),
                "{status}"
            );
        }
    }

    #[test]
    fn locations_are_resolved_against_the_hop() {
        for (from, location, to) in [
            ("http://a.example/x/y?q", "z", "http://a.example/x/z"),
            ("http://a.example/x/y", "../z/./w", "http://a.example/z/w"),
            ("https://a.example/", "//b.example:8443/p", "https://b.example:8443/p"),
            ("http://a.example/x", "?q=1", "http://a.example/x?q=1"),
            ("http://a.example/x", "https://user:secret@b.example/", "https://b.example/"),
            ("http://a.example/x#frag", "/y", "http://a.example/y#frag"),
            ("http://a.example/x#frag", "/y#own", "http://a.example/y#own"),
            ("http://a.example/x", " /y\t", "http://a.example/y"),
        ] {
            assert_eq!(target(from, location), to, "{from} + {location}");
        }
    }

    #[test]
    fn unusable_locations_leave_the_answer_to_the_caller() {
        let from = url("http://a.example/a");
        let cases: [(&[&[u8]], Stopped); 8] = [
            (&[], Stopped::NoLocation),
            (&[b""], Stopped::NoLocation),
            (&[b"/b", b"/c"], Stopped::SeveralLocations),
            (&[b"http://"], Stopped::InvalidLocation),
            (&[b"/\xff"], Stopped::InvalidLocation),
            (&[b"file:///etc/passwd"], Stopped::UnsupportedScheme),
            (&[b"javascript:alert(1)"], Stopped::UnsupportedScheme),
            (&[b"data:text/html,x"], Stopped::UnsupportedScheme),
        ];
        for (locations, stopped) in cases {
            let step = step(true, &Method::GET, &from, StatusCode::FOUND, &headers(locations));
            assert_eq!(step, Step::Stop(stopped), "{locations:?}");
        }
        let off = step(false, &Method::GET, &from, StatusCode::FOUND, &headers(&[b"/b"]));
        assert_eq!(off, Step::Stop(Stopped::NotFollowing));
    }

    #[test]
    fn the_method_and_the_body_follow_the_status() {
        let (get, post, head, put) = (Method::GET, Method::POST, Method::HEAD, Method::PUT);
        for (status, before, after, keeps) in [
            (301, &post, &get, false),
            (302, &post, &get, false),
            (303, &post, &get, false),
            (303, &put, &get, false),
            (303, &head, &head, false),
            (301, &put, &put, true),
            (302, &head, &head, true),
            (307, &post, &post, true),
            (308, &put, &put, true),
        ] {
            let to = headers(&[b"/b"]);
            let Step::Follow(hop) =
                step(true, before, &url("http://a.example/"), StatusCode::from_u16(status).unwrap(), &to)
            else {
                panic!("{status} is followed");
            };
            assert_eq!((&hop.method, hop.keeps_body), (after, keeps), "{status} {before}");
        }
    }

    #[test]
    fn credentials_stay_with_scheme_host_and_port() {
        for (from, to, keeps) in [
            ("http://a.example/", "/b", true),
            ("http://a.example/", "http://a.example:80/b", true),
            ("http://a.example/", "https://a.example/b", false),
            ("http://a.example/", "http://a.example:8080/b", false),
            ("http://a.example/", "http://www.a.example/b", false),
        ] {
            let Step::Follow(hop) = follow(from, to) else { panic!("{to} is followed") };
            assert_eq!(hop.keeps_credentials, keeps, "{from} -> {to}");
        }
    }

    #[test]
    fn a_referer_carries_no_secret_and_never_leaves_tls() {
        let from = url("https://user:pw@a.example/x?y#z");
        assert_eq!(referer(&from, &url("https://b.example/")).unwrap(), "https://a.example/x?y");
        assert_eq!(referer(&from, &url("http://b.example/")), None);
    }
}
