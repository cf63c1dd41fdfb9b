//! The directory of a crawler's public keys, which verifiers fetch, and its proof that the keys are its own.
//!
//! A signature names its key by a thumbprint; this is where verifiers find the key behind it. The crawler's
//! owner serves it.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ring::digest::{SHA256, digest};
use url::Url;

use crate::error::IdentityError;
use crate::key::{Signer, check_own, jwk_x, thumbprint};
use crate::names::{
    CONTENT_DIGEST, DIRECTORY_MEDIA_TYPE, LABEL_DIRECTORY, SIGNATURE, SIGNATURE_INPUT, TAG_DIRECTORY,
};
use crate::signature::{Component, Message, field_value, parameters, sign, unsigned};

/// The public keys of a crawler as a JWK Set (RFC 7517 §5), to be served at
/// [`DIRECTORY_PATH`](crate::DIRECTORY_PATH).
///
/// ```
/// use abide_identity::{Directory, IdentityError, Key};
///
/// /// What `https://bot.example/.well-known/http-message-signatures-directory` returns.
/// fn json(key: &Key) -> Result<String, IdentityError> {
///     Ok(Directory::new([key as _])?.json().to_owned())
/// }
/// ```
#[derive(Debug)]
pub struct Directory<'k> {
    keys: Vec<&'k dyn Signer>,
    json: String,
}

impl<'k> Directory<'k> {
    /// A directory of these keys. While you replace a key, include both.
    ///
    /// # Errors
    /// If a key is the RFC's test key.
    pub fn new(keys: impl IntoIterator<Item = &'k dyn Signer>) -> Result<Self, IdentityError> {
        let keys: Vec<_> = keys.into_iter().collect();
        keys.iter().try_for_each(|key| check_own(*key))?;
        Ok(Self::of_any_keys(keys))
    }

    pub(crate) fn of_any_keys(keys: Vec<&'k dyn Signer>) -> Self {
        let jwks: Vec<_> = keys.iter().map(|key| jwk(&key.public_key())).collect();
        // By hand, because these bytes are what is signed. No value needs an escape: all are base64url.
        let json = format!(r#"{{"keys":[{}]}}"#, jwks.join(","));
        Self { keys, json }
    }

    /// The body to serve, byte for byte.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The fields to serve it with at `url`: `Content-Type`, `Content-Digest`, and a signature by each key,
    /// which prove until `now + lifetime` that the keys belong to this site. Regenerate them before that.
    ///
    /// # Errors
    /// If a signer fails.
    pub fn headers(
        &self,
        url: &Url,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<HeaderMap, IdentityError> {
        let body_digest = format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, self.json.as_bytes())));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(DIRECTORY_MEDIA_TYPE));
        headers.insert(CONTENT_DIGEST, field_value(CONTENT_DIGEST, &body_digest)?);
        let covered =
            [Component::RequestAuthority, Component::Field(HeaderName::from_static(CONTENT_DIGEST))];
        for (at, key) in self.keys.iter().enumerate() {
            let keyid = thumbprint(&key.public_key());
            // RFC 9421 §4.1: a label identifies one signature of the message.
            let label = if at == 0 { LABEL_DIRECTORY.to_owned() } else { format!("{LABEL_DIRECTORY}{at}") };
            let label = sfv::Key::from_string(label).map_err(|_| unsigned(SIGNATURE_INPUT))?;
            let parameters = parameters(now, lifetime, &keyid, TAG_DIRECTORY)?;
            let message = Message { method: &Method::GET, url, headers: &headers, agent: "" };
            let fields = sign(&label, &covered, &parameters, &message, *key)?;
            headers.append(SIGNATURE_INPUT, field_value(SIGNATURE_INPUT, &fields.signature_input)?);
            headers.append(SIGNATURE, field_value(SIGNATURE, &fields.signature)?);
        }
        Ok(headers)
    }
}

/// A public key as a JWK (RFC 8037 §2). The draft: `kid`, if there is one, is the thumbprint.
fn jwk(public_key: &[u8; 32]) -> String {
    format!(
        r#"{{"kty":"OKP","crv":"Ed25519","kid":"{}","x":"{}","use":"sig"}}"#,
        thumbprint(public_key),
        jwk_x(public_key)
    )
}
