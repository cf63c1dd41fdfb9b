//! Which requests are let in: none of a browser, and from other machines none without the token.
//!
//! Every page that a browser on this machine shows can send requests to loopback. Such a request has an
//! `Origin`, or is no JSON, or names the page's own host after DNS rebinding; each of these is refused, and
//! nothing is ever allowed by CORS.

use std::net::SocketAddr;
use std::path::Path;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, Uri};
use subtle::ConstantTimeEq;

use super::error::CallError;
use crate::input::read_file;
use crate::status::UsageError;

/// What a request must show.
#[derive(Debug)]
pub(crate) struct Guard {
    token: Option<String>,
    /// Where the address is loopback: what the `Host` may be.
    hosts: Vec<String>,
}

impl Guard {
    /// For requests that come to `address`, or over a unix socket.
    pub(crate) fn new(address: Option<SocketAddr>, token: Option<String>) -> Self {
        let hosts = match address {
            Some(address) if address.ip().is_loopback() => hosts_of(address),
            _ => Vec::new(),
        };
        Self { token, hosts }
    }

    /// # Errors
    /// Why the request is refused.
    pub(crate) fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), CallError> {
        if headers.contains_key(ORIGIN) {
            return Err(CallError::browser());
        }
        if let Some(expected) = self.hosts.first()
            && !self.is_own_host(uri, headers)
        {
            return Err(CallError::foreign_host(expected));
        }
        if self.token.as_ref().is_some_and(|token| !bears(headers, token)) {
            return Err(CallError::unauthorized());
        }
        if method == Method::POST && !is_json(headers) {
            return Err(CallError::not_json());
        }
        Ok(())
    }

    fn is_own_host(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let is_own = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        let mut lines = headers.get_all(HOST).iter();
        let is_named = lines.next().and_then(|host| host.to_str().ok()).is_some_and(is_own);
        // A request to a proxy names its host twice.
        is_named && lines.next().is_none() && uri.authority().is_none_or(|host| is_own(host.as_str()))
    }
}

/// The address and `localhost`, with the port. The port of http is left out by clients.
fn hosts_of(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let named = [address.to_string(), format!("localhost:{port}")];
    let bare = named.iter().filter_map(|host| host.strip_suffix(":80").map(str::to_owned));
    named.clone().into_iter().chain(bare).collect()
}

fn bears(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some((scheme, given)) = value.split_once(' ') else { return false };
    scheme.eq_ignore_ascii_case("bearer") && bool::from(given.as_bytes().ct_eq(token.as_bytes()))
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// Shorter ones can be guessed.
const TOKEN_LEN_MIN: usize = 16;

/// The token in a file: its only line.
pub(crate) fn token(path: &Path) -> anyhow::Result<String> {
    let bytes = read_file(path)?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default().trim();
    if text.len() < TOKEN_LEN_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("expected one line of at least {TOKEN_LEN_MIN} visible ASCII characters");
        return Err(UsageError(format!("--token-file {}: {what}", path.display())).into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(guard: &Guard, method: Method, uri: &str, fields: &[(&'static str, &str)]) -> &'static str {
        let fields = fields.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
        });
        let mut headers = HeaderMap::new();
        fields.for_each(|(name, value)| {
            headers.append(name, value);
        });
        guard.admit(&method, &uri.parse().unwrap(), &headers).err().map_or("", |error| error.code)
    }

    #[test]
    fn no_browser_gets_in() {
        let guard = Guard::new(Some("127.0.0.1:8410".parse().unwrap()), None);
        let json = ("content-type", "application/json; charset=utf-8");
        let own = ("host", "127.0.0.1:8410");
        for (method, uri, fields, expected) in [
            (Method::GET, "/healthz", &[own][..], ""),
            (Method::GET, "/healthz", &[("host", "LocalHost:8410")], ""),
            (Method::POST, "/v1/check", &[own, json], ""),
            (Method::GET, "/healthz", &[own, ("origin", "null")], "browser"),
            (Method::POST, "/v1/check", &[own, json, ("origin", "http://127.0.0.1:8410")], "browser"),
            (Method::GET, "/healthz", &[("host", "rebound.example:8410")], "foreign_host"),
            (Method::GET, "/healthz", &[("host", "127.0.0.1")], "foreign_host"),
            (Method::GET, "/healthz", &[("host", "127.0.0.1.:8410")], "foreign_host"),
            (Method::GET, "/healthz", &[own, ("host", "rebound.example")], "foreign_host"),
            (Method::GET, "http://rebound.example/healthz", &[own], "foreign_host"),
            (Method::GET, "/healthz", &[], "foreign_host"),
            (Method::POST, "/v1/check", &[own], "not_json"),
            (Method::POST, "/v1/check", &[own, ("content-type", "text/plain")], "not_json"),
            (Method::POST, "/v1/check", &[own, ("content-type", "text/plain;application/json")], "not_json"),
        ] {
            assert_eq!(code(&guard, method, uri, fields), expected, "{uri} {fields:?}");
        }
        let on_80 = Guard::new(Some("[::1]:80".parse().unwrap()), None);
        for host in ["[::1]", "[::1]:80", "localhost"] {
            assert_eq!(code(&on_80, Method::GET, "/", &[("host", host)]), "", "{host}");
        }
    }

    #[test]
    fn from_afar_the_token_is_needed() {
        let guard = Guard::new(Some("192.0.2.1:8410".parse().unwrap()), Some("0123456789abcdef".to_owned()));
        let ask = |value: &str| code(&guard, Method::GET, "/healthz", &[("authorization", value)]);
        assert_eq!((ask("Bearer 0123456789abcdef"), ask("bearer 0123456789abcdef")), ("", ""));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdeg",
            "Basic 0123456789abcdef",
        ] {
            assert_eq!(ask(wrong), "unauthorized", "{wrong}");
        }
        assert_eq!(code(&guard, Method::GET, "/healthz", &[]), "unauthorized");
    }
}
