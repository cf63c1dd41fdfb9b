//! Tokens of licences, for servers that ask for one (RSL 1.0, Crawler Authorization Protocol).
//!
//! A 401 or 402 with the challenge `WWW-Authenticate: License` wants a request with `Authorization: License
//! <token>`. A token comes from the caller alone; how it is bought is between the caller and the licence
//! server.

use std::fmt;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use url::Url;

use abide_http::{AnswerChallenge, Challenge, ChallengeAnswer};
use abide_permissions::license_challenge;

use crate::InvalidValue;

/// The token of a licence: `token68` of RFC 9110 §11.2. `Debug` does not show it.
///
/// ```
/// let token = abide_identity::LicenseToken::new("s3cret")?;
/// assert!(!format!("{token:?}").contains("s3cret"));
/// # Ok::<(), abide_identity::InvalidValue>(())
/// ```
#[derive(Clone, Debug)]
pub struct LicenseToken(HeaderValue);

impl LicenseToken {
    /// A token as the licence server has given it.
    ///
    /// # Errors
    /// It has other characters than letters, digits and `-._~+/=`.
    pub fn new(token: &str) -> Result<Self, InvalidValue> {
        let is_token68 = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let is_valid = !token.is_empty() && token.bytes().all(is_token68);
        let value = HeaderValue::try_from(format!("License {token}")).ok().filter(|_| is_valid);
        // Without what was found: it may be a token, and errors are logged.
        let expected = "expected the token of a licence: letters, digits and any of -._~+/=";
        let mut value = value.ok_or_else(|| InvalidValue(expected.to_owned()))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// Finds licence tokens, for `answer_challenges` of your client's builder.
///
/// The request is sent once more with `Authorization: License`, checked and rate-limited like any other, once
/// in a call and over https only. Redirects within the origin keep the token. It is never sent with
/// robots.txt.
///
/// ```
/// use abide_identity::{LicenseToken, LicenseTokens};
///
/// let bought = LicenseToken::new("s3cret")?;
/// let tokens = LicenseTokens::new(move |url, _challenge| (url.host_str() == Some("news.example")).then(|| bought.clone()));
/// let settings = abide_http::Crawler::builder("ExampleBot").answer_challenges(tokens);
/// # Ok::<(), abide_identity::InvalidValue>(())
/// ```
#[derive(Clone)]
pub struct LicenseTokens(Arc<FindToken>);

type FindToken = dyn Fn(&Url, &[(String, String)]) -> Option<LicenseToken> + Send + Sync;

impl LicenseTokens {
    /// `find` gets the URL and the parameters of the challenge of a 401 or 402 (RSL, `WWW-Authenticate:
    /// License`), names in lower case.
    pub fn new(
        find: impl Fn(&Url, &[(String, String)]) -> Option<LicenseToken> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(find))
    }

    /// The token for a response that asks for one. Never for http: anybody on the way could read it.
    fn find(&self, url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<LicenseToken> {
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::PAYMENT_REQUIRED)
            || url.scheme() != "https"
        {
            return None;
        }
        let lines = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let challenge = license_challenge(lines)?;
        (self.0)(url, &challenge)
    }
}

impl AnswerChallenge for LicenseTokens {
    fn answer(&self, challenge: &Challenge<'_>, request: &mut HeaderMap) -> ChallengeAnswer {
        let found = challenge.response.and_then(|head| self.find(challenge.url, head.status, head.headers));
        let Some(token) = found else { return ChallengeAnswer::Nothing };
        // In place of any other credentials.
        request.insert(AUTHORIZATION, token.0);
        ChallengeAnswer::Fields
    }
}

impl fmt::Debug for LicenseTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LicenseTokens")
    }
}

#[cfg(test)]
mod tests {
    use http::header::WWW_AUTHENTICATE;

    use super::*;

    #[test]
    fn a_token_is_checked_and_never_shown() {
        for text in ["", "a b", "a,b", "a\r\nb", "ä", "a\"b"] {
            let error = LicenseToken::new(text).unwrap_err();
            assert!(text.is_empty() || !format!("{error} {error:?}").contains(text), "{text}");
        }
        let token = LicenseToken::new("s3cret.x-y_z~+/==").unwrap();
        assert_eq!(token.0, "License s3cret.x-y_z~+/==");
        assert!(!format!("{token:?}").contains("s3cret"));
    }

    #[test]
    fn only_a_license_challenge_is_answered() {
        let tokens = LicenseTokens::new(|_: &Url, challenge: &[(String, String)]| {
            assert_eq!(challenge, [("error".to_owned(), "invalid_request".to_owned())]);
            LicenseToken::new("t").ok()
        });
        let license = r#"License error="invalid_request""#;
        for (url, status, challenge, is_found) in [
            ("https://a.example/", 401, license, true),
            ("https://a.example/", 200, license, false),
            ("https://a.example/", 403, license, false),
            ("https://a.example/", 407, license, false),
            ("https://a.example/", 429, license, false),
            ("https://a.example/", 401, "Basic realm=x", false),
        ] {
            let headers = HeaderMap::from_iter([(WWW_AUTHENTICATE, challenge.parse().unwrap())]);
            let found = tokens.find(&url.parse().unwrap(), StatusCode::from_u16(status).unwrap(), &headers);
            assert_eq!(found.is_some(), is_found, "{url} {status} {challenge}");
        }
    }
}
