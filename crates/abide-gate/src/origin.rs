//! The keys that everything is filed under: the origin for rules, the host for pacing.

use std::fmt;
use std::sync::Arc;

use url::{Position, Url};

/// Whose robots.txt counts: scheme, ASCII host and effective port (RFC 9309 §2.3).
///
/// http and https never share an origin, nor do two ports. User information, path and query are not part of it. Its text
/// always names the port: `https://example.com:443`. Cheap to clone.
///
/// ```
/// # use abide_gate::Origin;
/// let origin = Origin::of(&"HTTPS://User:pw@Example.COM/a?b".parse()?)?;
/// assert_eq!(origin.as_str(), "https://example.com:443");
/// assert_eq!(origin.robots_url().as_str(), "https://example.com/robots.txt");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    text: Arc<str>,
}

impl Origin {
    /// The origin of an absolute http or https URL.
    ///
    /// # Errors
    /// [`UnsupportedUrl`] for any other scheme.
    pub fn of(url: &Url) -> Result<Self, UnsupportedUrl> {
        let default_port = match url.scheme() {
            "http" => ":80",
            "https" => ":443",
            scheme => return Err(UnsupportedUrl { scheme: scheme.to_owned() }),
        };
        // A URL keeps its port only where that is not the default one.
        let port = if url.port().is_none() { default_port } else { "" };
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        // Asked on every request, so put together from parts: `format!` is several times the work.
        Ok(Self { text: [url.scheme(), "://", authority, port].concat().into() })
    }

    /// `scheme://host:port`, lower case, the port always present.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        if self.text.starts_with("https:") { "https" } else { "http" }
    }

    /// Where its robots.txt is asked for: `scheme://host[:port]/robots.txt`.
    pub fn robots_url(&self) -> Url {
        let text = format!("{}/robots.txt", self.text);
        // Cannot fail: the text was put together from the parts of a parsed URL.
        Url::parse(&text).expect("scheme, host and port come from a parsed URL")
    }

    /// The pacing key of this origin.
    pub fn host(&self) -> Host {
        let rest = &self.text[self.scheme().len() + "://".len()..];
        let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
        Host::from_ascii(host)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({})", self.text)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Origin {
    type Err = UnsupportedUrl;

    /// Reads `https://example.com`, with or without a port; anything after the authority is ignored.
    fn from_str(text: &str) -> Result<Self, UnsupportedUrl> {
        let url = Url::parse(text).map_err(|_| UnsupportedUrl { scheme: String::new() })?;
        Self::of(&url)
    }
}

/// Whose turn is counted: the ASCII host in lower case, without trailing dot and without port.
///
/// http, https and all ports of a name share one slot. Cheap to clone.
///
/// ```
/// # use abide_gate::Host;
/// let a = Host::of(&"http://EXAMPLE.com.:8080/".parse()?)?;
/// let b = Host::of(&"https://example.com/".parse()?)?;
/// assert_eq!(a, b);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    text: Arc<str>,
}

impl Host {
    /// The pacing key of an absolute http or https URL.
    ///
    /// # Errors
    /// [`UnsupportedUrl`] for any other scheme.
    pub fn of(url: &Url) -> Result<Self, UnsupportedUrl> {
        match (url.scheme(), url.host_str()) {
            ("http" | "https", Some(host)) => Ok(Self::from_ascii(host)),
            _ => Err(UnsupportedUrl { scheme: url.scheme().to_owned() }),
        }
    }

    /// The host as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn from_ascii(host: &str) -> Self {
        Self { text: host.strip_suffix('.').unwrap_or(host).into() }
    }
}

impl std::borrow::Borrow<str> for Host {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.text)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The URL without `user:password@`, which must not reach an error, a log or a report.
pub fn without_userinfo(url: &Url) -> Url {
    let mut url = url.clone();
    if !url.username().is_empty() || url.password().is_some() {
        // Both fail only for URLs without a host, and those have no user information.
        let _ = url.set_username("");
        let _ = url.set_password(None);
    }
    url
}

/// The URL is not http or https, so no robots.txt speaks for it and it is never allowed by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedUrl {
    scheme: String,
}

impl fmt::Display for UnsupportedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme: String = self.scheme.chars().take(32).collect();
        write!(f, "expected an http or https URL, found the scheme {scheme:?}")
    }
}

impl std::error::Error for UnsupportedUrl {}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> String {
        Origin::of(&url.parse().unwrap()).unwrap().as_str().to_owned()
    }

    #[test]
    fn the_key_is_scheme_ascii_host_and_effective_port() {
        for (url, key) in [
            ("HTTP://EXAMPLE.com:80/", "http://example.com:80"),
            ("https://example.com/", "https://example.com:443"),
            ("http://example.com:8080/a?b#c", "http://example.com:8080"),
            ("http://ex\u{3002}ample.com/", "http://ex.ample.com:80"),
            ("http://b\u{fc}cher.example/", "http://xn--bcher-kva.example:80"),
            ("http://example.com./", "http://example.com.:80"),
            ("http://user:pw@example.com/", "http://example.com:80"),
            ("http://[::1]:8080/", "http://[::1]:8080"),
            ("http://[2001:DB8::1]/", "http://[2001:db8::1]:80"),
            ("http://0x7f.1/", "http://127.0.0.1:80"),
            ("http://2130706433/", "http://127.0.0.1:80"),
            ("http:///nohost/x", "http://nohost:80"),
        ] {
            assert_eq!(origin(url), key, "{url}");
        }
    }

    #[test]
    fn robots_url_has_no_query_and_no_userinfo() {
        let origin = Origin::of(&"http://u:p@[2001:db8::1]:81/x?y".parse().unwrap()).unwrap();
        assert_eq!(origin.robots_url().as_str(), "http://[2001:db8::1]:81/robots.txt");
    }

    #[test]
    fn all_ports_and_the_trailing_dot_share_one_host() {
        let hosts = ["http://example.com", "https://example.com.", "http://EXAMPLE.com:8443"];
        for url in hosts {
            assert_eq!(Host::of(&url.parse().unwrap()).unwrap().as_str(), "example.com");
            assert_eq!(Origin::of(&url.parse().unwrap()).unwrap().host().as_str(), "example.com");
        }
        assert_eq!(Origin::of(&"http://[::1]:8080".parse().unwrap()).unwrap().host().as_str(), "[::1]");
    }

    #[test]
    fn other_schemes_are_refused() {
        for url in ["ftp://example.com/", "file:///etc/passwd", "data:,x", "javascript:1"] {
            assert!(Origin::of(&url.parse().unwrap()).is_err(), "{url}");
            assert!(Host::of(&url.parse().unwrap()).is_err(), "{url}");
        }
    }
}
