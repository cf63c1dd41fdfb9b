//! Who asks: a chain of product tokens, and the User-Agent that must name the first of them.

use abide_robots::ProductToken;
use http::header::{Entry, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use abide_gate::DeniedKind;

use crate::crawler::BuildError;

/// The identity of a crawler, checked: sites can tell from its requests whose rules to write (RFC 9309 §2.2.1: the product token
/// "SHOULD be a substring of the identification string that the crawler sends").
///
/// ```
/// use abide_http::Identity;
///
/// let identity = Identity::new("ExampleBot", &[], Some("ExampleBot/1.0 (+https://example.com/bot)"))?;
/// let mut headers = http::HeaderMap::new();
/// identity.sign(&mut headers).expect("nothing else was there");
/// assert_eq!(headers["user-agent"], "ExampleBot/1.0 (+https://example.com/bot)");
/// assert!(Identity::new("ExampleBot", &[], Some("Mozilla/5.0")).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Identity {
    tokens: Vec<ProductToken>,
    user_agent: HeaderValue,
}

impl Identity {
    /// The product token with the tokens to fall back to, and the User-Agent; without one it is the token.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(token: &str, fallbacks: &[String], user_agent: Option<&str>) -> Result<Self, BuildError> {
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

    /// The product tokens, first choice first. Never empty.
    pub fn tokens(&self) -> &[ProductToken] {
        &self.tokens
    }

    /// The User-Agent that is sent.
    pub fn user_agent(&self) -> &HeaderValue {
        &self.user_agent
    }

    /// Sees to it that a request names this crawler: its User-Agent is ours, or at least contains the token.
    ///
    /// # Errors
    /// [`DeniedKind::Identity`] if it has one that does not, be it a second one.
    pub fn sign(&self, headers: &mut HeaderMap) -> Result<(), DeniedKind> {
        if let Entry::Vacant(place) = headers.entry(USER_AGENT) {
            place.insert(self.user_agent.clone());
            return Ok(());
        }
        let Some(token) = self.tokens.first() else { return Ok(()) };
        match headers.get_all(USER_AGENT).iter().find(|own| !names(own.as_bytes(), token)) {
            Some(other) => {
                let (user_agent, token) = (excerpt(other), token.as_str().to_owned());
                Err(DeniedKind::Identity { user_agent, token })
            }
            None => Ok(()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_names_the_first_token_in_any_case() {
        let fallback = ["ExampleBot".to_owned()];
        let identity = Identity::new("ExampleBot-News", &fallback, Some("examplebot-news/1.0")).unwrap();
        assert_eq!(identity.tokens().len(), 2);
        assert_eq!(Identity::new("ExampleBot", &[], None).unwrap().user_agent(), "ExampleBot");
        for (token, fallbacks, user_agent) in [
            ("Example Bot", &[][..], None),
            ("", &[], None),
            ("ExampleBot", &["B 2".to_owned()], None),
            ("ExampleBot-News", &fallback, Some("ExampleBot/1.0")),
            ("ExampleBot", &[], Some("ExampleBot/1.0\n")),
        ] {
            assert!(Identity::new(token, fallbacks, user_agent).is_err(), "{token:?} {user_agent:?}");
        }
    }

    #[test]
    fn a_request_keeps_its_own_user_agent_if_that_names_the_token() {
        let identity = Identity::new("ExampleBot", &[], None).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static("Mine (EXAMPLEBOT)"));
        identity.sign(&mut headers).unwrap();
        assert_eq!(headers[USER_AGENT], "Mine (EXAMPLEBOT)");
        headers.append(USER_AGENT, HeaderValue::from_static("curl/8"));
        let refused = identity.sign(&mut headers).unwrap_err();
        let DeniedKind::Identity { user_agent, token } = &refused else { panic!("{refused:?}") };
        assert_eq!((user_agent.as_str(), token.as_str()), ("curl/8", "ExampleBot"));
    }

    #[test]
    fn what_is_no_identity_says_what_was_expected() {
        let told = |token: &str, user_agent: &str| {
            let error = Identity::new(token, &[], Some(user_agent)).unwrap_err();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            (error.to_string(), cause)
        };
        assert_eq!(
            told("ExampleBot", "Mozilla/5.0").0,
            "expected a User-Agent that contains the product token \"ExampleBot\", found \"Mozilla/5.0\"; write it as \
             \"ExampleBot/1.0 (+https://example.com/bot)\""
        );
        assert_eq!(
            told("ExampleBot", "ExampleBot\n"),
            ("expected a User-Agent of visible ASCII, found \"ExampleBot\\n\"".to_owned(), None)
        );
        let invalid = ProductToken::new("Example Bot").unwrap_err().to_string();
        assert_eq!(
            told("Example Bot", "Example Bot"),
            ("the product token cannot be used".to_owned(), Some(invalid))
        );
    }
}
