//! Where a redirect leads, and what goes with it: a plain function of the answer.
//!
//! reqwest follows redirects below every middleware, so this is switched off and done here: every hop is
//! checked, rate-limited and address-checked.

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use url::Url;

use abide_gate::without_userinfo;

use crate::call::ResponseHead;
use crate::fetch_info::Stopped;

/// How redirects are followed. `Default` follows 10 hops and sends no `Referer`.
///
/// ```
/// use abide_http::RedirectPolicy;
///
/// let link_checker = RedirectPolicy::default().with_hops_max(3).with_response_at_limit(true);
/// let by_hand = RedirectPolicy::never();
/// assert_ne!(link_checker, by_hand);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct RedirectPolicy {
    pub(crate) follows: bool,
    hops_max: usize,
    returns_at_limit: bool,
    pub(crate) returns_repeats: bool,
    referer: bool,
    /// A page may redirect to itself to set a cookie. A file about its site has no reason to.
    pub(crate) follows_circles: bool,
}

impl RedirectPolicy {
    /// At most this many hops, 10 by default; one more is
    /// [`DeniedKind::TooManyRedirects`](abide_gate::DeniedKind::TooManyRedirects).
    pub fn with_hops_max(self, hops: usize) -> Self {
        Self { hops_max: hops, ..self }
    }

    /// Whether the redirect that exceeds [`with_hops_max`](Self::with_hops_max) is returned as the response,
    /// with [`Stopped::AtLimit`], instead of an error. Off by default.
    pub fn with_response_at_limit(self, on: bool) -> Self {
        Self { returns_at_limit: on, ..self }
    }

    /// Whether the second redirect in a row from a URL to itself is returned as the response, with
    /// [`Stopped::Repeats`]. Off by default, because with a cookie jar the next response may be another; for
    /// clients without one.
    pub fn with_repeats_returned(self, on: bool) -> Self {
        Self { returns_repeats: on, ..self }
    }

    /// Sends a `Referer`, without user information and fragment, and never from https to http. Off by
    /// default.
    pub fn with_referer(self, on: bool) -> Self {
        Self { referer: on, ..self }
    }

    /// Returns every 3xx to the caller.
    pub fn never() -> Self {
        Self { follows: false, ..Self::default() }
    }
}

impl RedirectPolicy {
    /// As of robots.txt: RFC 9309 §2.3.1.2.
    pub(crate) fn of_a_file() -> Self {
        Self { hops_max: 5, follows_circles: false, ..Self::default() }
    }
}

impl Default for RedirectPolicy {
    fn default() -> Self {
        Self {
            follows: true,
            hops_max: 10,
            returns_at_limit: false,
            returns_repeats: false,
            referer: false,
            follows_circles: true,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// Its end; if it is a redirect, with the reason.
    End(Option<Stopped>),
    /// One more than the policy allows, to this URL.
    TooMany(Url),
    Follow(RedirectTarget),
}

/// Where a redirect leads: the next request, as far as the response decides it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RedirectTarget {
    pub(crate) url: Url,
    pub(crate) method: Method,
    pub(crate) keeps_body: bool,
    pub(crate) keeps_credentials: bool,
    referer: Option<HeaderValue>,
    /// Whether it is the request before, to be sent again.
    is_repeat: bool,
}

impl RedirectTarget {
    pub(crate) fn repeat(method: Method, url: Url) -> Self {
        Self { url, method, keeps_body: true, keeps_credentials: true, referer: None, is_repeat: true }
    }

    /// Changes the header fields of the request before to those of this one: no credentials to another
    /// origin, no signature, no offer to pay, nothing about a body that is not sent.
    pub(crate) fn change(&self, headers: &mut HeaderMap) {
        let is_dropped = |name: &str| match name {
            // A signature is good for one request alone, and so is an offer.
            "signature" | "signature-input" | "signature-agent" => true,
            "crawler-exact-price" | "crawler-max-price" => true,
            "referer" => !self.is_repeat,
            "authorization" | "cookie" | "cookie2" | "proxy-authorization" | "www-authenticate" | "host" => {
                !self.keeps_credentials
            }
            name => !self.keeps_body && (name.starts_with("content-") || name == "transfer-encoding"),
        };
        let dropped: Vec<_> = headers.keys().filter(|name| is_dropped(name.as_str())).cloned().collect();
        for name in dropped {
            headers.remove(name);
        }
        if let Some(referer) = &self.referer {
            headers.insert(header::REFERER, referer.clone());
        }
    }
}

/// Reads the head of the response to `method` and `url`, to which so many redirects have led: `hop`.
pub(crate) fn redirect(
    policy: &RedirectPolicy,
    method: &Method,
    url: &Url,
    hop: usize,
    head: ResponseHead<'_>,
) -> Redirect {
    if !matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Redirect::End(None);
    }
    if !policy.follows {
        return Redirect::End(Some(Stopped::NotFollowing));
    }
    let target = match location(url, head.headers) {
        Ok(target) => target,
        Err(stopped) => return Redirect::End(Some(stopped)),
    };
    let (method, keeps_body) = next_method(head.status, method);
    if keeps_body && !head.is_repeatable {
        return Redirect::End(Some(Stopped::BodyNotRepeatable));
    }
    match hop < policy.hops_max {
        true => Redirect::Follow(RedirectTarget {
            keeps_credentials: same_origin(url, &target),
            referer: if policy.referer { referer(url, &target) } else { None },
            keeps_body,
            method,
            url: target,
            is_repeat: false,
        }),
        false if policy.returns_at_limit => Redirect::End(Some(Stopped::AtLimit)),
        false => Redirect::TooMany(target),
    }
}

/// The one usable Location, resolved against `url`, without user information.
fn location(url: &Url, headers: &HeaderMap) -> Result<Url, Stopped> {
    let text = abide_gate::location(headers).map_err(|_| Stopped::SeveralLocations)?;
    let text = text.filter(|text| !text.trim().is_empty()).ok_or(Stopped::NoLocation)?;
    let mut target = without_userinfo(&url.join(&text).map_err(|_| Stopped::InvalidLocation)?);
    if !matches!(target.scheme(), "http" | "https") || target.host().is_none() {
        return Err(Stopped::UnsupportedScheme);
    }
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
fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme() && a.host() == b.host() && a.port_or_known_default() == b.port_or_known_default()
}

/// The same resource: equal but for fragment and user information.
#[inline(always)]
pub fn same_resource(a: &Url, b: &Url) -> bool {
    // Asked of each response; most often they are the same altogether.
    a == b || same_origin(a, b) && a.path() == b.path() && a.query() == b.query()
}

/// The `Referer` for a hop from `from` to `to`: none from https to http.
fn referer(from: &Url, to: &Url) -> Option<HeaderValue> {
    if from.scheme() == "https" && to.scheme() != "https" {
        return None;
    }
    let mut from = without_userinfo(from);
    from.set_fragment(None);
    HeaderValue::from_str(from.as_str()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    /// What a GET of `from` meets.
    fn met(from: &str, status: StatusCode, locations: &[&[u8]]) -> Redirect {
        let line = |location: &&[u8]| (header::LOCATION, HeaderValue::from_bytes(location).unwrap());
        let headers = &locations.iter().map(line).collect();
        let head = ResponseHead { status, headers, remote_addr: None, url: None, is_repeatable: true };
        redirect(&RedirectPolicy::default(), &Method::GET, &url(from), 0, head)
    }

    #[test]
    fn only_five_statuses_redirect() {
        for status in 200..=599u16 {
            let code = StatusCode::from_u16(status).unwrap();
            let is_followed = matches!(met("http://a.example/a", code, &[b"/b"]), Redirect::Follow(_));
            assert_eq!(is_followed, [301, 302, 303, 307, 308].contains(&status), "{status}");
        }
    }

    #[test]
    fn unusable_locations_leave_the_answer_to_the_caller() {
        let cases: [(&[&[u8]], Stopped); 7] = [
            (&[], Stopped::NoLocation),
            (&[b""], Stopped::NoLocation),
            (&[b"/b", b"/c"], Stopped::SeveralLocations),
            (&[b"/b", b"/b", b"/B"], Stopped::SeveralLocations),
            (&[b"http://"], Stopped::InvalidLocation),
            (&[b"http://\xff.example/"], Stopped::InvalidLocation),
            (&[b"file:///etc/passwd"], Stopped::UnsupportedScheme),
        ];
        for (locations, stopped) in cases {
            let found = met("http://a.example/a", StatusCode::FOUND, locations);
            assert_eq!(found, Redirect::End(Some(stopped)), "{locations:?}");
        }
    }

    #[test]
    fn one_place_is_followed_however_it_is_written() {
        let cases: [(&[&[u8]], &str); 4] = [
            (&[b"/b", b"/b"], "http://a.example/b"),
            (&[b"/caf\xe9?\xff=1"], "http://a.example/caf%E9?%FF=1"),
            (&["/caf\u{e9}".as_bytes()], "http://a.example/caf%C3%A9"),
            (&[b"/caf\xe9", b"/caf\xe9"], "http://a.example/caf%E9"),
        ];
        for (locations, url) in cases {
            let found = met("http://a.example/a", StatusCode::FOUND, locations);
            let Redirect::Follow(hop) = found else { panic!("{locations:?} is followed") };
            assert_eq!(hop.url.as_str(), url);
        }
    }

    #[test]
    fn credentials_stay_with_scheme_host_and_port() {
        for (from, to, keeps) in [
            ("http://a.example/", "/b", true),
            ("http://a.example/", "http://a.example:80/b", true),
            ("http://a.example/", "https://a.example/b", false),
            ("http://a.example:443/", "https://a.example/b", false),
            ("http://a.example/", "http://a.example:8080/b", false),
            ("http://a.example/", "http://www.a.example/b", false),
        ] {
            let found = met(from, StatusCode::FOUND, &[to.as_bytes()]);
            let Redirect::Follow(hop) = found else { panic!("{to} is followed") };
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
