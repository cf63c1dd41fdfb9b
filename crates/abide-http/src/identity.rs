//! Who asks, and whose site: product tokens, the User-Agent that must name the first of them, and the `Host`
//! that must be that of the URL.
//!
//! Rules are those of the URL and of the tokens, pages those of the `Host` and the User-Agent that are sent,
//! so they must agree.

use http::header::{Entry, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::crawler::BuildError;
use abide_gate::DeniedKind;
use abide_robots::ProductToken;

/// The identity of a crawler, checked: sites can tell from its requests whose rules to write (RFC 9309
/// §2.2.1: the product token "SHOULD be a substring of the identification string that the crawler sends").
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The product tokens, first choice first. Never empty.
    pub(crate) tokens: Vec<ProductToken>,
    pub(crate) user_agent: HeaderValue,
}

impl Identity {
    /// The product token with the tokens to fall back to, and the User-Agent; without one it is the token.
    pub(crate) fn new(
        token: &str,
        fallbacks: &[String],
        user_agent: Option<&str>,
    ) -> Result<Self, BuildError> {
        let first = ProductToken::new(token).map_err(BuildError::Token)?;
        let text = user_agent.unwrap_or(token);
        if !names(text.as_bytes(), &first) {
            return Err(BuildError::UserAgent { user_agent: text.to_owned(), token: token.to_owned() });
        }
        let Ok(user_agent) = HeaderValue::from_str(text) else {
            return Err(BuildError::UserAgentField { user_agent: text.to_owned() });
        };
        let mut tokens = vec![first];
        for token in fallbacks {
            tokens.push(ProductToken::new(token).map_err(BuildError::Token)?);
        }
        Ok(Self { tokens, user_agent })
    }

    /// Sees to it that a request names this crawler: its User-Agent is ours, or at least contains the token.
    ///
    /// # Errors
    /// [`DeniedKind::Identity`] if it has one that does not, be it a second one.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) -> Result<(), DeniedKind> {
        if let Entry::Vacant(place) = headers.entry(USER_AGENT) {
            place.insert(self.user_agent.clone());
            return Ok(());
        }
        let Some(token) = self.tokens.first() else { return Ok(()) };
        let other = headers.get_all(USER_AGENT).iter().find(|own| !names(own.as_bytes(), token));
        other.map_or(Ok(()), |other| {
            let (user_agent, token) = (excerpt(other), token.as_str().to_owned());
            Err(DeniedKind::Identity { user_agent, token })
        })
    }
}

/// The beginning of a field, printable.
pub(crate) fn excerpt(field: &HeaderValue) -> String {
    String::from_utf8_lossy(field.as_bytes()).escape_debug().take(200).collect()
}

/// Whether a User-Agent contains the token, case-insensitively as robots.txt compares it.
fn names(user_agent: &[u8], token: &ProductToken) -> bool {
    let token = token.as_str().as_bytes();
    user_agent.windows(token.len()).any(|window| window.eq_ignore_ascii_case(token))
}

/// The first `Host` field that does not name the authority of `url`. With one, the site that answers is not
/// the site whose robots.txt was asked (RFC 9110 §7.2: the field is "the target URI's authority component").
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
    headers.get_all(HOST).iter().find(|host| !is_host_of(host, url))
}

/// Whether a `Host` field is that of the URL, with its port or, where that is the default one, without.
fn is_host_of(host: &HeaderValue, url: &Url) -> bool {
    let (Ok(host), Some(name)) = (host.to_str(), url.host_str()) else { return false };
    let default = if url.scheme() == "https" { 443 } else { 80 };
    let (host, port) = match host.rsplit_once(':') {
        // Digits only: `str::parse` takes a sign as well.
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().ok().filter(|_| !port.starts_with('+')))
        }
        _ => (host, Some(default)),
    };
    host.eq_ignore_ascii_case(name) && port.is_some() && port == url.port_or_known_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_names_the_first_token_in_any_case() {
        let fallback = ["ExampleBot".to_owned()];
        let identity = Identity::new("ExampleBot-News", &fallback, Some("examplebot-news/1.0")).unwrap();
        assert_eq!(identity.tokens.len(), 2);
        assert_eq!(Identity::new("ExampleBot", &[], None).unwrap().user_agent, "ExampleBot");
        assert!(Identity::new("ExampleBot-News", &fallback, Some("ExampleBot/1.0")).is_err());
        assert!(Identity::new("ExampleBot", &["B 2".to_owned()], None).is_err());
    }

    #[test]
    fn what_is_no_identity_says_what_was_expected() {
        let invalid = ProductToken::new("Example Bot").unwrap_err().to_string();
        let not_named = "expected a User-Agent that contains the product token \"ExampleBot\", found \
                         \"Mozilla/5.0\"; write it as \"ExampleBot/1.0 (+https://example.com/bot)\"";
        let not_visible = "expected a User-Agent of visible ASCII, found \"ExampleBot\\n\"";
        for (token, user_agent, sentence, cause) in [
            ("ExampleBot", "Mozilla/5.0", not_named, None),
            ("ExampleBot", "ExampleBot\n", not_visible, None),
            ("Example Bot", "Example Bot", "the product token cannot be used", Some(invalid)),
        ] {
            let error = Identity::new(token, &[], Some(user_agent)).unwrap_err();
            assert_eq!(error.to_string(), sentence);
            assert_eq!(std::error::Error::source(&error).map(ToString::to_string), cause);
        }
    }

    #[test]
    fn a_host_is_foreign_unless_it_is_the_authority_of_the_url() {
        for (url, host, own) in [
            ("http://a.example/", "a.example", true),
            ("http://a.example/", "A.example:80", true),
            ("https://a.example/", "a.example", true),
            ("https://a.example/", "a.example:443", true),
            ("http://a.example:8080/", "a.example:8080", true),
            ("http://[2001:db8::1]/", "[2001:db8::1]", true),
            ("http://[2001:db8::1]:81/", "[2001:db8::1]:81", true),
            ("http://a.example:8080/", "a.example", false),
            ("http://a.example/", "a.example:http", false),
            ("http://a.example/", "a.example:+80", false),
            ("http://a.example/", "a.example:", false),
            ("http://a.example/", "a.example, b.example", false),
            ("https://a.example/", "a.example:80", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            assert_eq!(foreign_host(&headers, &url.parse().unwrap()).is_none(), own, "{url} {host}");
        }
    }
}
