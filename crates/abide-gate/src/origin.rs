//! The keys of everything that is known: the origin for rules, the host for pacing; and bytes in place.
//!
//! Two keys, because RFC 9309 gives rules to scheme, host and port, while a server carries the load of all
//! ports of its name.
//!
//! A crawler knows a million of each. In place they need no block of memory of their own, nor a cache line
//! when one is compared.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use url::{Position, Url};

use crate::address::embedded;

/// What a robots.txt belongs to: scheme, ASCII host and port (RFC 9309 §2.3).
///
/// http and https never share an origin, nor do two ports. User information, path and query are not part of
/// it. Its text always names the port: `https://example.com:443`. Cheap to clone.
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
    /// In place for hosts of up to 26 bytes.
    text: ShortText<38>,
}

impl Origin {
    /// The origin of an absolute http or https URL.
    ///
    /// # Errors
    /// [`UnsupportedUrl`] for any other scheme.
    pub fn of(url: &Url) -> Result<Self, UnsupportedUrl> {
        let Some(default_port) = default_port(url.scheme()) else {
            return Err(UnsupportedUrl { scheme: url.scheme().to_owned() });
        };
        // A URL keeps its port only where that is not the default one.
        let port = if url.port().is_none() { default_port } else { "" };
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let parts = [url.scheme(), "://", authority, port];
        // Put together from parts, because this is done for every request: `format!` is several times the
        // work.
        Ok(Self { text: ShortText::concat(&parts.map(str::as_bytes)) })
    }

    /// `scheme://host:port`, lower case, the port always present.
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// How many bytes it takes besides its own.
    pub(crate) fn heap_size(&self) -> usize {
        self.text.heap_size()
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        if self.text.as_bytes().starts_with(b"https:") { "https" } else { "http" }
    }

    /// The URL of its robots.txt: `scheme://host[:port]/robots.txt`.
    pub fn robots_url(&self) -> Url {
        self.at("/robots.txt")
    }

    /// The URL with this path, which is a constant.
    #[expect(clippy::expect_used, reason = "the text was put together from the parts of a parsed URL")]
    pub(crate) fn at(&self, path: &'static str) -> Url {
        Url::parse(&format!("{self}{path}")).expect("scheme, host and port come from a parsed URL")
    }

    /// The host that rate limits of this origin are kept for.
    pub fn host(&self) -> Host {
        let (_, rest) = self.as_str().split_once("://").unwrap_or_default();
        Host { text: pacing_key(rest.rsplit_once(':').map_or(rest, |(host, _)| host)).into() }
    }
}

/// The default port, with its colon.
fn default_port(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" => Some(":80"),
        "https" => Some(":443"),
        _ => None,
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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

/// What rate limits are kept for: the ASCII host in lower case, without trailing dot and without port.
///
/// http, https and all ports of a name share one rate limit, and so do the spellings of one address:
/// `[::ffff:192.0.2.1]` and `[64:ff9b::192.0.2.1]` (NAT64) are `192.0.2.1`. Cheap to clone.
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
    /// The host of an absolute http or https URL.
    ///
    /// # Errors
    /// [`UnsupportedUrl`] for any other scheme.
    pub fn of(url: &Url) -> Result<Self, UnsupportedUrl> {
        let key = pacing_key_of(url).ok_or_else(|| UnsupportedUrl { scheme: url.scheme().to_owned() })?;
        Ok(Self { text: key.into() })
    }

    /// The host as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// The pacing key of an http or https URL, as [`Host::of`] makes it.
pub(crate) fn pacing_key_of(url: &Url) -> Option<Cow<'_, str>> {
    url.host_str().filter(|_| default_port(url.scheme()).is_some()).map(pacing_key)
}

/// The pacing key of a host as a URL spells it. Names, and most addresses, cost no allocation.
fn pacing_key(host: &str) -> Cow<'_, str> {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match address.and_then(|text| text.parse::<Ipv6Addr>().ok()).map(|address| embedded(address.into())) {
        Some(IpAddr::V4(address)) => address.to_string().into(),
        Some(IpAddr::V6(_)) | None => host.strip_suffix('.').unwrap_or(host).into(),
    }
}

impl AsRef<str> for Host {
    fn as_ref(&self) -> &str {
        self.as_str()
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
    if has_userinfo(&url) {
        // Both fail only for URLs without a host, and those have no user information.
        let _ = url.set_username("");
        let _ = url.set_password(None);
    }
    url
}

/// Whether there is a user name or a password before the host.
pub fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The URL is not http or https, so it is never allowed.
///
/// ```
/// use abide_gate::{Origin, UnsupportedUrl};
///
/// let error: UnsupportedUrl = "mailto:a@b.example".parse::<Origin>().unwrap_err();
/// assert_eq!(error.to_string(), r#"expected an http or https URL, found the scheme "mailto""#);
/// ```
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

/// At most `N` bytes in place, with zeros behind them; more of them behind a pointer. Takes `N + 2` bytes, if
/// that is a multiple of eight.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum ShortText<const N: usize> {
    Inline { length: u8, bytes: [u8; N] },
    Shared(Arc<[u8]>),
}

impl<const N: usize> ShortText<N> {
    /// The bytes of all parts, one after the other.
    pub(crate) fn concat(parts: &[&[u8]]) -> Self {
        let mut bytes = [0; N];
        let mut room = bytes.as_mut_slice();
        let fits = parts.iter().all(|part| room.write_all(part).is_ok());
        match u8::try_from(N.saturating_sub(room.len())) {
            Ok(length) if fits => Self::Inline { length, bytes },
            _ => Self::Shared(parts.concat().into()),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Shared(bytes) => bytes,
        }
    }

    /// What was made from text.
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// How many bytes it takes besides its own.
    pub(crate) fn heap_size(&self) -> usize {
        match self {
            Self::Inline { .. } => 0,
            Self::Shared(bytes) => bytes.len().saturating_add(size_of::<[usize; 2]>()),
        }
    }
}

impl<const N: usize> From<&str> for ShortText<N> {
    fn from(text: &str) -> Self {
        Self::concat(&[text.as_bytes()])
    }
}

impl<const N: usize> Ord for ShortText<N> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl<const N: usize> PartialOrd for ShortText<N> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> fmt::Debug for ShortText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("http:///nohost/x", "http://nohost:80"),
        ] {
            let origin = Origin::of(&url.parse().unwrap()).unwrap();
            assert_eq!(origin.as_str(), key, "{url}");
            assert_eq!(origin.robots_url(), format!("{key}/robots.txt").parse().unwrap());
        }
    }

    #[test]
    fn all_ports_and_spellings_of_a_name_or_address_share_one_host() {
        for (url, host) in [
            ("http://example.com", "example.com"),
            ("https://example.com.", "example.com"),
            ("http://EXAMPLE.com:8443", "example.com"),
            ("http://192.0.2.1", "192.0.2.1"),
            ("http://192.0.2.1.:8080", "192.0.2.1"),
            ("https://3221225985", "192.0.2.1"),
            ("http://[::ffff:192.0.2.1]", "192.0.2.1"),
            ("http://[::ffff:c000:201]:8080", "192.0.2.1"),
            ("http://[0:0:0:0:0:FFFF:C000:0201]", "192.0.2.1"),
            ("http://[64:ff9b::192.0.2.1]", "192.0.2.1"),
            ("http://[2001:db8::c000:201]", "[2001:db8::c000:201]"),
            ("http://[::1]:8080", "[::1]"),
        ] {
            let url = url.parse().unwrap();
            assert_eq!(Host::of(&url).unwrap().as_str(), host, "{url}");
            assert_eq!(Origin::of(&url).unwrap().host().as_str(), host, "{url}");
        }
    }

    #[test]
    fn keys_and_what_has_none_are_shown_in_a_word() {
        let origin = Origin::of(&"https://u:p@a.example/x".parse().unwrap()).unwrap();
        assert_eq!(format!("{origin} {origin:?}"), "https://a.example:443 Origin(https://a.example:443)");
        let host = origin.host();
        assert_eq!(format!("{host} {host:?}"), "a.example Host(a.example)");
        let url = format!("{}://x", "a".repeat(99)).parse().unwrap();
        let expected = format!("expected an http or https URL, found the scheme {:?}", "a".repeat(32));
        assert_eq!(Origin::of(&url).unwrap_err().to_string(), expected);
    }

    #[test]
    fn up_to_n_bytes_are_kept_in_place() {
        for (length, heap) in [(0, 0), (5, 0), (30, 0), (31, 47), (300, 316)] {
            let text = "x".repeat(length);
            let short =
                ShortText::<30>::concat(&[&text.as_bytes()[..length / 2], &text.as_bytes()[length / 2..]]);
            assert_eq!((short.as_str(), short.heap_size()), (&*text, heap));
            assert_eq!(short, ShortText::from(&*text));
            assert!(short < ShortText::from("y"));
        }
        assert_eq!((size_of::<ShortText<30>>(), size_of::<Option<ShortText<38>>>()), (32, 40));
        assert_eq!(format!("{:?}", ShortText::<30>::from("a\n")), "\"a\\n\"");
    }
}
